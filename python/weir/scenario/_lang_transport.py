"""Language definitions of transports: congestion controls and settings of TCP, QUIC, TFRC, UDT, MPTCP, SCTP and
DCCP."""

# ruff: noqa: RUF009 - `key` makes a field of a dataclass, like `dataclasses.field`
from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from typing import Any

from weir.language.problem import NOWHERE, Invalid, Log, Mark
from weir.language.scalars import BOOLEAN, DELAY, NAME, PACKET, RATE, AmountType, Choice, Definitions, Integer, Text
from weir.language.spec import Spec, key
from weir.language.tree import Map, Node, Scalar, describe
from weir.language.units import Amount

__all__ = ["LINUX", "LINUX26", "CongestionControl", "StackDefaults", "Transport"]

_CC_NAME = r"(linux:)?[a-z][a-z0-9_-]{0,31}"
_CC = Text(
    "a congestion control: a name such as `cubic`, `linux:NAME` for a kernel's own, or the path of a C file "
    "(`.c`), of a shared object (`.so`) or of a Python file (`.py`)",
    rf"{_CC_NAME}|[^\x00-\x1f]{{1,1000}}\.(so|c|py)",
    1000,
)


@dataclass(frozen=True)
class CongestionControl:
    """A congestion control and its options; truth values are 1 and 0."""

    name: str
    options: tuple[tuple[str, int], ...] = ()
    mark: Mark = NOWHERE
    marks: dict[str, Mark] = field(default_factory=dict, compare=False, repr=False)
    quoted: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """Options whose numbers are in quotes: an error, reported together with their range."""


class _CongestionControlType:
    """``cubic``, or ``{name: cubic, hystart: false}``."""

    what = f"{_CC.what}, or a mapping with `name` and options"
    _option = Integer(-(2**31), 2**31 - 1, "`true`, `false` or a whole number")

    def parse(self, node: Node, log: Log) -> CongestionControl:
        if not isinstance(node, Map):
            return CongestionControl(_cc_name(node, log), mark=node.mark)
        name = node.get("name")
        if name is None:
            raise log.error(node.mark, f"`name` is missing: {_CC.what}")
        parsed = _cc_name(name, log)
        options: list[tuple[str, int]] = []
        failed = False
        for entry in node.entries:
            try:
                if entry.key.text != "name":
                    option = NAME.parse(entry.key, log)
                    options.append((option, self._parse_option(option, parsed, entry.value, log)))
            except Invalid:
                failed = True
        if failed:
            raise Invalid
        marks = {e.key.text: e.value.mark for e in node.entries}
        quoted = frozenset(e.key.text for e in node.entries if e.key.text != "name" and _is_quoted_number(e.value))
        return CongestionControl(parsed, tuple(sorted(options)), name.mark, marks, quoted)

    def _parse_option(self, option: str, control: str, node: Node, log: Log) -> int:
        if isinstance(node, Scalar) and _is_quoted_number(node):
            node = Scalar(node.mark, node.text)
        if isinstance(node, Scalar) and node.plain and node.text in ("true", "false"):
            return int(node.text == "true")
        if not isinstance(node, Scalar) or not node.plain or re.fullmatch("[+-]?[0-9]+", node.text) is None:
            number = isinstance(node, Scalar) and node.text[:1].isdigit()
            unit = f"; `weir cc list {control}` has its unit" if number else ""
            text = f"`{option}` of `{control}` is a whole number, `true` or `false`, not {describe(node)}{unit}"
            raise log.error(node.mark, text)
        return self._option.parse(node, log)

    def schema(self, defs: Definitions) -> dict[str, Any]:
        option = {"anyOf": [{"type": "boolean"}, self._option.schema(defs)]}
        mapping = {
            "type": "object",
            "properties": {"name": _CC.schema(defs)},
            "required": ["name"],
            "additionalProperties": option,
        }
        return {"anyOf": [_CC.schema(defs), mapping]}


def _is_quoted_number(node: Node) -> bool:
    return isinstance(node, Scalar) and not node.plain and re.fullmatch("[+-]?[0-9]+", node.text) is not None


def _cc_name(node: Node, log: Log) -> str:
    meant = _without_signs(node.text.casefold()) if isinstance(node, Scalar) else ""
    if meant and meant != node.text and re.fullmatch(_CC_NAME, meant):  # type: ignore[union-attr]
        raise log.error(node.mark, f"{describe(node)} is not a congestion control; did you mean `{meant}`?")
    return _CC.parse(node, log)


def _without_signs(name: str) -> str:
    """The name of ``westwood+`` or ``ledbat++`` here."""
    return name.replace("++", "pp").removesuffix("+")


@dataclass(frozen=True)
class StackDefaults:
    """Defaults of a stack profile; all of them are written into the plan."""

    initial_window: int
    sack: bool
    timestamps: bool
    send_buffer: int
    receive_buffer: int
    backlog: int = 0
    """Packets that wait for a busy host: ``netdev_max_backlog``; 0 where a host has no processing cost."""
    txqueuelen: int | None = None
    """Packets in a host's transmit queue; ``None``: the default of topologies."""


LINUX = StackDefaults(10, True, True, 4 << 20, 6 << 20)
LINUX26 = StackDefaults(3, True, True, 128 << 10, 174_760, 1000)
LINUX24 = StackDefaults(3, True, True, 128 << 10, 174_760, 300, 100)
STACKS = {"linux": LINUX, "linux-2.6": LINUX26, "linux-2.4": LINUX24}


class _FirstRate:
    """A rate, or ``none``."""

    what = f"{RATE.what}, or `none`"

    def parse(self, node: Node, log: Log) -> int:
        return 0 if isinstance(node, Scalar) and node.plain and node.text == "none" else RATE.parse(node, log)

    def schema(self, defs: Definitions) -> dict[str, Any]:
        return {"anyOf": [RATE.schema(defs), {"const": "none"}]}


_BUFFER = AmountType("bytes", "bdp", "default")


@dataclass(frozen=True, kw_only=True)
class Transport(Spec):
    """Settings of TCP, and of other transports. Those of a workload entry take precedence over the scenario's."""

    protocol: str | None = key(
        Choice(
            "a transport protocol",
            {
                "tcp": "TCP; the default",
                "quic": "QUIC (RFC 9000) by quinn, over UDP, for methods with a real kernel; it has `cc` (`reno`, "
                "`cubic` or `bbr`, without options), buffers and `initial_window`",
                "tfrc": "TFRC (RFC 5348): datagrams at the rate of TCP's throughput equation; it has no other settings",
                "udt": "UDT (draft-gg-udt-03) with its own congestion control, or at the rates of a `profile` by `sim` "
                "only; it has buffers and `timer`",
                "mptcp": "MPTCP (RFC 8684) of a real kernel, over one path; it has `cc` (`linux:NAME`) and buffers",
                "sctp": "SCTP (RFC 9260) of a real kernel; it has buffers",
                "dccp": "DCCP (RFC 4340) of a real kernel: datagrams of a `bulk` entry; it has `ccid`",
            },
        ),
        "Protocol that carries the data. Default: `tcp`.",
        default=None,
    )
    ccid: int | None = key(
        Integer(2, 3, "2 (TCP-like, RFC 4341) or 3 (TFRC, RFC 4342)"),
        "Congestion control of `protocol: dccp`: 2, TCP-like (RFC 4341), or 3, TFRC (RFC 4342). Default: 2.",
        default=None,
    )
    timer: int | None = key(
        DELAY,
        "Tick of the sending host's timer with `protocol: udt`: the sender wakes at its multiples only, and sends at "
        "once what is due by then, from 1us to 1s. Default: 0; it wakes at any instant.",
        default=None,
    )
    cc: CongestionControl | None = key(
        _CongestionControlType(),
        "Congestion control: a name (`cubic`), a name with options (`{name: cubic, hystart: false}`), `linux:NAME` for "
        "one of the kernel's, or the path of a shared object, relative to the scenario file.",
        default=None,
    )
    stack: str | None = key(
        Choice(
            "a stack profile",
            {
                "linux": "current Linux: RACK-TLP, PRR, initial window 10; buffers of 4 MiB and 6 MiB",
                "linux-2.6": "Linux 2.6: no RACK, TLP or pacing, initial window 3; buffers of 128 KiB and 174760 B",
                "linux-2.4": "Linux 2.4: as `linux-2.6`, but SACKs give no round-trip time and restart no timeout; a "
                "transmit queue of 100 packets and a backlog of 300",
            },
        ),
        "Model of the TCP stack. Default: `linux`.",
        default=None,
    )
    buffers: Amount | None = key(
        _BUFFER,
        "Send and receive buffer, in bytes, BDPs of the flow's path, or `default`: those of the stack.",
        default=None,
    )
    send_buffer: Amount | None = key(_BUFFER, "Limit of bytes sent and not acknowledged.", default=None)
    receive_buffer: Amount | None = key(_BUFFER, "Limit of bytes received and not read.", default=None)
    sack: bool | None = key(BOOLEAN, "Selective acknowledgements. Default: on.", default=None)
    ecn: bool | None = key(BOOLEAN, "Explicit congestion notification (RFC 3168). Default: off.", default=None)
    accecn: bool | None = key(
        BOOLEAN,
        "Accurate feedback of marks (AccECN, RFC 9768) where `ecn` is on; only the simulator has it. Default: off, but "
        "on for congestion controls that need it.",
        default=None,
    )
    timestamps: bool | None = key(BOOLEAN, "Timestamps option. Default: on.", default=None)
    initial_window: int | None = key(
        Integer(1, 65_535, "a number of segments"),
        "Initial window in segments. Default: 10, or 3 with `linux-2.6`.",
        default=None,
    )
    initial_ssthresh: int | None = key(
        Integer(0, 1_000_000_000, "a number of segments, or 0 for none"),
        "Slow-start threshold of new connections in segments, as Linux 2.4 kept it of earlier connections. Default: "
        "none. Simulator only.",
        default=None,
    )
    jump_start: bool | None = key(
        BOOLEAN,
        "Jump Start: a new connection sends all data that it has and the receiver's window permits, paced over the "
        "first round-trip time. Default: off. Simulator only.",
        default=None,
    )
    quick_start: int | None = key(
        _FirstRate(),
        "Quick-Start (RFC 4782): rate on the wire that a new connection asks the routers of its path for; it becomes "
        "the next lower power of two times 40 kb/s. `none`, the default, or 0: slow start. Simulator only.",
        default=None,
    )
    mss: int | None = key(
        PACKET,
        "Payload of a full segment. Default: the path's MTU less 40 bytes, and less 12 with timestamps.",
        default=None,
    )
    pacing: bool | None = key(
        BOOLEAN, "Pace even if the congestion control does not ask for it. Default: off.", default=None
    )
    ack: str | None = key(
        Choice(
            "an acknowledgement policy",
            {"delayed": "every second full segment, or after the delayed-ACK timer", "every": "every segment"},
        ),
        "Acknowledgement policy of the receiver. Default: `delayed`.",
        default=None,
    )
    processing: int | None = key(
        DELAY,
        "The receiving host answers a segment after up to this time, uniformly distributed. Default: 10 us. Simulator "
        "and lab; real hosts take their own time. With 0, flows may fall into step with a drop-tail queue.",
        default=None,
    )
    txqueuelen: int | None = key(
        Integer(1, 10_000_000, "a number of packets"),
        "Transmit queue of the sending hosts; it replaces the `queue` of their links in the topology. Default: that "
        "`queue`, and without it 1000 packets, or 100 with `linux-2.4`.",
        default=None,
    )
    sack_cost: int | None = key(
        DELAY,
        "Time that the sending host takes for each segment that it passes while it looks for those of a SACK block. "
        "Default: 0. Simulator only, with `linux-2.6` and `linux-2.4`.",
        default=None,
    )
    backlog: int | None = key(
        Integer(1, 10_000_000, "a number of packets"),
        "Acknowledgements that may wait while `sack_cost` keeps the host busy; it drops more. Default: 1000, or 300 "
        "with `linux-2.4`.",
        default=None,
    )
    moderation: bool | None = key(
        BOOLEAN,
        "Congestion moderation of `linux-2.6` and `linux-2.4`: after an unusual acknowledgement the window exceeds the "
        "flight by three segments at most. Default: on.",
        default=None,
    )


def only_keys(
    known: Collection[str], protocol: str, own: Transport, base: Transport, problem: Callable[[str], str], log: Log
) -> list[Transport]:
    """The settings that hold for a flow over ``protocol``: its ``own``, and the scenario's if they name the protocol.

    Else the scenario's are for its TCP flows.

    Args:
        known: The keys that the protocol has.
        problem: What is wrong with another key.

    Raises:
        Invalid: the settings have another key.
    """
    asked = [own, *([base] if base.protocol == protocol else [])]
    for part in asked:
        for name in (f.name for f in fields(part) if f.metadata and f.name not in known):
            if getattr(part, name) is not None:
                raise log.error(part.marks.get(name, part.mark), problem(name))
    return asked
