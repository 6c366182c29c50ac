"""Runs the quick version of every scenario of the catalogue; ends with 1 if one could not be executed.

Claims are judged and printed, but a claim that fails is a result, not an error of this check.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from weir.cli._scenarios import catalogue_files


def main() -> int:
    """Runs them one after the other, each on all processors."""
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for name in catalogue_files():
            print(f"== {name}", flush=True)
            begin = time.monotonic()
            out = Path(folder) / name.replace("/", "-")
            command = [sys.executable, "-m", "weir.cli", "run", name, "--quick", "--no-verdict", "--out", str(out)]
            if subprocess.run(command, check=False).returncode != 0:
                failed.append(name)
            print(f"   {time.monotonic() - begin:.0f} s", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
