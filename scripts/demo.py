"""The second half of `make demo`: compares one small scenario by every available method."""

from __future__ import annotations

import subprocess
import sys

from weir import methods


def main() -> int:
    """Runs the comparison, or reports what is missing."""
    have = ["sim"]
    for name in ("lab", "emul"):
        missing = methods.get(name).available()
        if missing is None:
            have.append(name)
        else:
            print(f"not compared with {name!r}: {missing}")
    if have == ["sim"]:
        print("So the simulator stands alone. As root, this kernel joins it; `make lab` builds another.")
        return 0
    print(f"One small scenario by {' and '.join(have)}:", flush=True)
    weir = [sys.executable, "-m", "weir.cli", "run"]
    command = [*weir, "examples/methods.yaml", "--no-verdict", "--out", "runs/methods"]
    done = subprocess.run([*command, "--method", ",".join(have)], check=False)
    if done.returncode == 0:
        print("Open runs/methods/compare.html, too.")
    else:
        print("The comparison is not complete: a busy machine may refuse to emulate. Try again later.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
