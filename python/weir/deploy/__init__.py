"""What weir changes on the nodes of an experiment, so that it is undone whatever happens.

Every change goes through the program :mod:`weir.deploy.node` on the node, which writes it to a journal there, with the
value before, before it is made. A :class:`Keeper` is this experiment's hold of one node: it claims the node, changes
it, restores it. A watchdog process on the node restores when the way to the controller is cut; whatever that could not,
:meth:`Keeper.restore` undoes from the journal alone.
"""

from __future__ import annotations

from weir.deploy._changes import (
    Change,
    describe,
    entry,
    host,
    module,
    offload,
    qdisc,
    route,
    rule,
    segments,
    sysctl,
    tun,
)
from weir.deploy._keeper import DeployError, Keeper, KernelLog, PrivilegeError
from weir.deploy._programs import deploy
from weir.deploy._protocols import lacking_protocol, missing

__all__ = [
    "Change",
    "DeployError",
    "Keeper",
    "KernelLog",
    "PrivilegeError",
    "deploy",
    "describe",
    "entry",
    "host",
    "lacking_protocol",
    "missing",
    "module",
    "offload",
    "qdisc",
    "route",
    "rule",
    "segments",
    "sysctl",
    "tun",
]
