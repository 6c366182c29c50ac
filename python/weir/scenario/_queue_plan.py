"""A queue as the plan has it: the values of a mapping's keys, each where its element declares it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import msgspec

from weir import queues
from weir.language.problem import Log, Mark
from weir.language.spec import Spec
from weir.language.units import Amount
from weir.plan import Queue, class_groups
from weir.queues import Form, Key

from ._lang_queues import FORMS, sized

if TYPE_CHECKING:
    from ._network import Link

__all__ = ["queue_plan", "resolve", "shortage"]

_FIRST_RTO_NS = 1_000_000_000


def queue_plan(link: Link, rtt: int | None, log: Log) -> dict[str, Any]:
    """The queue of ``link`` as the plan has it; ``rtt`` is what `bdp` is computed with."""
    spec = sized(link.queue, link.mark) if isinstance(link.queue, Amount) else link.queue
    plan = _spec_plan(_Written(spec, link, rtt, log))
    for one in class_groups(msgspec.convert(plan, Queue)) if plan.get("classes") else ():
        if one.overbooked:
            text = f"the weights of the classes in `{one.name}` are parts of the link and add up to"
            share = "no guaranteed share" if one.share is None else f"a share of {one.share / 10_000:g} %"
            text += f" {one.overbooked / 10_000:g} %, but it has {share}: they guarantee nothing"
            log.warn(spec.mark, text)
    return plan


def _spec_plan(written: _Written) -> dict[str, Any]:
    kind, form = FORMS[type(written.spec)]
    discipline = queues.discipline(kind)
    own = discipline.fields(written)
    plan: dict[str, Any] = {"kind": kind, "limit": own["limit"] if "limit" in own else _hard_limit(written, form)}
    for key in form.keys:
        value = own[key.field] if key.field in own else _value(written, key)
        # A field that a plan may lack appears only if it is given, so that older plans keep their hash.
        if key.field != "limit" and not (value is None and "." in key.field):
            _put(plan, key.field, value)
    discipline.advise(written)
    return plan


@dataclass(frozen=True)
class _Written:
    """A mapping of a queue, and the link that it is for."""

    spec: Spec
    link: Link
    rtt: int | None
    log: Log
    points: frozenset[int] = frozenset(range(64))

    @property
    def values(self) -> Mapping[str, Any]:
        return {f.name: getattr(self.spec, f.name) for f in fields(self.spec) if f.name not in ("mark", "marks")}

    def size_bytes(self, key: str) -> int:
        return resolve(getattr(self.spec, key), self.link, self.rtt, self.log, self.spec.at(key))

    def each(self, key: str) -> Sequence[_Written]:
        return [replace(self, spec=one) for one in getattr(self.spec, key)]

    def named(self, key: str) -> Mapping[str, _Written]:
        return {name: replace(self, spec=one) for name, one in getattr(self.spec, key).items()}

    def plan(self, form_keys: Sequence[Key]) -> dict[str, Any]:
        plan: dict[str, Any] = {}
        for key in form_keys:
            _put(plan, key.field, _value(self, key))
        return plan

    def queue(self, key: str, points: frozenset[int] | None = None) -> dict[str, Any]:
        spec = getattr(self.spec, key)
        if spec is None:
            self.log.info(self.spec.mark, "there is no `queue` here; it is a drop-tail queue of 1bdp")
            spec = sized(Amount(Fraction(1), "bdp"), self.spec.mark)
        return _spec_plan(replace(self, spec=spec, points=self.points if points is None else points))

    @property
    def packet_bytes(self) -> int:
        return self.link.mtu + self.link.overhead

    @property
    def rate_bps(self) -> int:
        return self.link.rate

    def error(self, key: str, message: str) -> Exception:
        return self.log.error(self.spec.at(key), message)

    def warn(self, key: str, message: str) -> None:
        self.log.warn(self.spec.at(key), message)


def _put(plan: dict[str, Any], field: str, value: Any) -> None:
    """Writes ``value`` at a path such as ``codel.target_ns``."""
    *outer, last = field.split(".")
    for name in outer:
        plan = plan.setdefault(name, {})
    plan[last] = value


def _value(written: _Written, key: Key) -> Any:
    value = getattr(written.spec, key.name)
    match key.type:
        case "ecn":
            return "ecn" if value else "drop"
        case "choice":
            return bool(key.kind["values"].index(value))
        case "threshold":
            return written.size_bytes(key.name)
        case "time" | "packet_bytes" if value == 0 and key.kind.get("positive", True):
            raise written.error(key.name, f"`{key.name}` must be above 0")
        case _:
            return value


def _hard_limit(written: _Written, form: Form) -> dict[str, Any]:
    """The limit, of the greater size where the form has a least one and it is given."""
    name, *least = [key.name for key in form.keys if key.field == "limit"]
    sizes: list[Amount] = [getattr(written.spec, key) for key in (name, *least)]
    given = [size for size in sizes if size is not None]
    mark = written.spec.at(name)
    link, rtt, log = written.link, written.rtt, written.log
    greatest = given[0] if len(given) == 1 else max(given, key=lambda size: resolve(size, link, rtt, log, mark))
    return _limit(greatest, link, rtt, log, mark)


def resolve(amount: Amount, link: Link, rtt: int | None, log: Log, mark: Mark) -> int:
    """A size in bytes on the wire of ``link``."""
    match amount.unit:
        case "packets":
            return int(amount.value) * (link.mtu + link.overhead)
        case "ns":
            return int(link.rate * amount.value / 8_000_000_000)
        case "bdp" if rtt is None:
            raise log.error(mark, "`bdp` needs an RTT; give `rtt`, or the size as a time such as `10ms`")
        case "bdp":
            return int(Fraction(link.rate * (rtt or 0)) * amount.value / 8_000_000_000)
        case _:
            return int(amount.value)


def _limit(size: Amount, link: Link, rtt: int | None, log: Log, mark: Mark) -> dict[str, Any]:
    if size.unit == "packets" and size.value > 0:
        return {"bytes": None, "packets": int(size.value)}
    limit = resolve(size, link, rtt, log, mark)
    name = link.name.removesuffix(".reverse")  # both directions are one line of the scenario
    if (short := shortage(limit, [link])) is not None:
        why = " (the RTT is 0, and so is the BDP)" if size.unit == "bdp" and rtt == 0 else ""
        raise log.error(mark, f"the queue of link `{name}` holds {limit} bytes{why}, {short}")
    if limit * 8_000_000_000 > link.rate * _FIRST_RTO_NS:
        drain = limit * 8 / link.rate
        log.warn(mark, f"the queue of link `{name}` takes {drain:.3g}s to drain, beyond the first RTO of 1 s")
    return {"bytes": limit, "packets": None}


def shortage(room: int, links: Iterable[Link]) -> str | None:
    """The mistake in a queue of ``room`` bytes before ``links``; ``None``: it holds a full packet of each of them.

    A packet must fit into a queue also when the link is idle, so the queue would drop every full packet.
    """
    packet = max((link.mtu + link.overhead for link in links), default=0)
    if room >= packet:
        return None
    return f"less than one full packet ({packet} bytes on the wire), and would drop each; give it room for some"
