"""Prints every requirement of pyproject.toml, one per line: run time, dev, and the build backend."""

from __future__ import annotations

import tomllib
from pathlib import Path


def main() -> None:
    """Prints the requirements."""
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["dev"],
    ]
    print("\n".join(sorted({requirement.replace(" ", "") for requirement in wanted})))


if __name__ == "__main__":
    main()
