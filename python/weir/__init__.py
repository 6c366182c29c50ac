"""weir evaluates transport protocols.

One scenario, several methods, one set of metrics. A notebook needs these names::

    import weir

    run = weir.execute("two.yaml", "runs/two")         # or weir.open("runs/two")
    run.metrics("goodput.aggregate.mean")              # a Polars frame, one row per cell
    run.evaluate("3TB / goodput.aggregate")            # any expression of a check
    run.check("jain >= 0.9").outcome                   # holds, fails or undecided
    weir.compare([run, "runs/two-emul"]).worst()

``docs/python.md`` has examples. Submodules are loaded on first use, so that ``import weir`` is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir._execute import execute
    from weir.compare import compare
    from weir.metrics import open_run as open  # noqa: A004  (the documented name is weir.open)

__all__ = ["__version__", "compare", "execute", "open"]

__version__ = "0.1.0"

_LAZY = {
    "compare": ("weir.compare", "compare"),
    "execute": ("weir._execute", "execute"),
    "open": ("weir.metrics", "open_run"),
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        module, attribute = _LAZY[name]
        return getattr(importlib.import_module(module), attribute)
    raise AttributeError(f"module 'weir' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
