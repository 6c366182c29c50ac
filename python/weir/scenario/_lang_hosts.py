"""The language's words for what the components of hosts can do.

Only what may be written and what it means; `_hosts.py` writes it into plans.
"""

# ruff: noqa: RUF009 - `key` makes a field of a dataclass, like `dataclasses.field`
from __future__ import annotations

from dataclasses import dataclass

from weir.language.scalars import DELAY, RATE, Integer
from weir.language.spec import MapOf, Spec, Struct, key

__all__ = ["HOSTS", "Disk", "HostSpec", "Memory", "Processor", "Work"]


@dataclass(frozen=True, kw_only=True)
class Work(Spec):
    """The work of a core for a data packet."""

    packet: int = key(DELAY, "Time for a packet of any size. Default: 0.", default=0)
    copy: int | None = key(RATE, "Rate of copying its payload. Default: copies take no time.", default=None)


@dataclass(frozen=True, kw_only=True)
class Processor(Spec):
    """The processor of a host. A process runs on one core: the streams of one member of an entry are one process."""

    cores: int = key(Integer(1, 1024, "a number of cores"), "Number of cores. Default: 1.", default=1)
    send: Work = key(Struct(Work), "Work for a data packet that a process sends.", default=Work())
    receive: Work = key(
        Struct(Work), "Work for a data packet that a process receives, its acknowledgement included.", default=Work()
    )
    ack: int = key(DELAY, "Time of a core for an acknowledgement that arrives. Default: 0.", default=0)


@dataclass(frozen=True, kw_only=True)
class Memory(Spec):
    """The memory of a host."""

    rate: int = key(RATE, "Its rate, reads and writes together.")
    passes: int = key(
        Integer(1, 100, "a number of passes"),
        "How often a data packet passes it. Default: 4 (thesis, equation 6.3).",
        default=4,
    )


@dataclass(frozen=True, kw_only=True)
class Disk(Spec):
    """The disks of a host: its data come from them and go to them."""

    read: int | None = key(RATE, "Rate of reading, for senders. Default: data come from memory.", default=None)
    write: int | None = key(RATE, "Rate of writing, for receivers. Default: data stay in memory.", default=None)


@dataclass(frozen=True, kw_only=True)
class HostSpec(Spec):
    """What the components of a host can do (`sim` only). What is not given takes no time."""

    processor: Processor | None = key(Struct(Processor), "The processor.", default=None)
    memory: Memory | None = key(Struct(Memory), "The memory.", default=None)
    bus: int | None = key(
        RATE, "Rate of the bus between memory and card, both directions together. Default: no limit.", default=None
    )
    disk: Disk | None = key(Struct(Disk), "The disks.", default=None)


HOSTS = MapOf(Struct(HostSpec), "the name of a host")
