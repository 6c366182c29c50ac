"""``python -m weir``: the command ``weir``, run by the interpreter that has the package."""

from weir.cli import main

if __name__ == "__main__":
    main()
