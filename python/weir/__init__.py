"""weir evaluates transport protocols.

One scenario, several methods, one set of metrics. A notebook needs two names::

    import weir

    run = weir.open("runs/large-flows")
    run.metrics("goodput.aggregate.mean")

Submodules are loaded when they are first used, so that ``import weir`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir.run import open_run as open  # noqa: A004  (the documented name is weir.open)

__all__ = ["__version__", "open"]

__version__ = "0.1.0"

_LAZY = {"open": ("weir.run", "open_run")}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        module, attribute = _LAZY[name]
        return getattr(importlib.import_module(module), attribute)
    raise AttributeError(f"module 'weir' has no attribute {name!r}")
