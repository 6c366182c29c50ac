"""What weir does to a node, and undoes: a program that is carried there.

It is asked on standard input and answers on standard output; both are JSON objects. Every change is written to a
journal on the node, and synced to its disk, *before* it is made, with the value before. ``restore`` replays the journal
backwards and removes it. The first line of a journal is its claim: who changes the node, and by which process of the
node; while that process lives, nobody else may. The journal has the host name and the network namespace in its name,
because machines may share home folders.

``watch`` is for a process that outlives its controller: it restores when the process of the claim is gone. The program
imports nothing of weir, and needs Python 3.8 only. What it asks of other programs - ``ip``, ``tc``, ``ethtool``,
``modprobe`` - are argument lists.

On the node it is one file: :func:`program` joins the modules of this package, in the order of their dependencies. So
each of their top-level names is unique, and their imports of each other take one line.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

__all__ = ["MODULES", "program"]

MODULES = ("base", "kernel_log", "kind", "ways", "kinds", "programs", "journal", "facts", "main")
_OWN = re.compile(r"^from weir\.deploy\.node\.[a-z_]+ import [^(\n]*\n", re.MULTILINE)
_FUTURE = "from __future__ import annotations\n"


@functools.cache
def program() -> bytes:
    """The program as one file."""
    texts = [Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8") for name in MODULES]
    return (_FUTURE + "".join(_OWN.sub("", text.replace(_FUTURE, "")) for text in texts)).encode()
