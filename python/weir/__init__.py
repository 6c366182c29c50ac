"""weir evaluates transport protocols.

One scenario, several methods, one set of metrics. A notebook needs these names::

    import weir

    run = weir.open("runs/large-flows")
    run.metrics("goodput.aggregate.mean")
    weir.compare(["runs/large-flows", "runs/large-flows-emul"]).worst()

Submodules are loaded when they are first used, so that ``import weir`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir.compare import compare
    from weir.run import open_run as open  # noqa: A004  (the documented name is weir.open)

__all__ = ["__version__", "compare", "open"]

__version__ = "0.1.0"

_LAZY = {"compare": ("weir.compare", "compare"), "open": ("weir.run", "open_run")}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        module, attribute = _LAZY[name]
        return getattr(importlib.import_module(module), attribute)
    raise AttributeError(f"module 'weir' has no attribute {name!r}")
