"""The ``weir`` command.

Each subcommand is a module of this package and a line in ``_app.COMMANDS``. Modules import what they need when they are
called, so that ``weir --help`` is immediate.
"""

from __future__ import annotations

from weir.cli._app import main

__all__ = ["main"]
