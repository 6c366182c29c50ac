"""Test beds: hosts on this machine for rehearsing experiments on real ones (``weir testbed``).

A node is a set of namespaces with its own files, host name, processes and OpenSSH server. The emulator joins the nodes;
a network of control, apart from that, joins them with this machine. :func:`up` makes a test bed, which outlives the
calling process; :func:`find` gives it to others as a :class:`Bed`; :func:`down` removes it.
"""

from __future__ import annotations

from ._bed import Bed, BedNode, beds, down, find, is_up, start
from ._errors import BedError, TestbedError
from ._folder import inventory_of, names
from ._shape import LinkOptions, Node
from ._up import DEFAULT_NAME, Request, Step, up

__all__ = [
    "DEFAULT_NAME",
    "Bed",
    "BedError",
    "BedNode",
    "LinkOptions",
    "Node",
    "Request",
    "Step",
    "TestbedError",
    "beds",
    "down",
    "find",
    "inventory_of",
    "is_up",
    "names",
    "start",
    "up",
]
