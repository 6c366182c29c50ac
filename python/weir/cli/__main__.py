"""``python -m weir.cli``."""

from weir.cli import main

if __name__ == "__main__":
    main()
