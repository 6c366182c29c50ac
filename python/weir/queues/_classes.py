"""The classes of a scheduler: from a scenario to the plan, with the checks of their packets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from weir.plan import Link, queue_bytes, wire_bytes
from weir.queues._code_points import named_point
from weir.queues._declared import Key, elements
from weir.queues._discipline import Below, Discipline, Written
from weir.queues._tokens import Inside, Tokens

__all__ = ["MAX_DEPTH", "Around", "Scheduler", "check_weights", "children", "default_band", "inner", "limit_bytes"]

_CODE_POINTS = 64
_MAX_CLASSES = 64
MAX_DEPTH = 4
"""Most schedulers within one another."""
_WHOLE_PPM = 1_000_000


class Scheduler(Discipline):
    """A queue with a queue for each class of packets."""

    most_classes: ClassVar[int | None] = None
    """Most classes that the kernel's scheduler has; ``None``: any number."""

    def fields(self, written: Written) -> Mapping[str, Any]:
        given = written.named("classes")
        _check_members(written, given)
        self.check(written, given)
        points = _points(written, given)
        classes = [self._class_plan(name, one, points[name]) for name, one in given.items()]
        _complete(classes)
        depth = 1 + max(_depth(one["queue"]) for one in classes)
        if depth > MAX_DEPTH:
            raise written.error("classes", f"schedulers within one another: {depth} deep; the limit is {MAX_DEPTH}")
        fields: dict[str, Any] = {"classes": classes}
        if written.values["size"] is None:
            sizes = (limit_bytes(one["queue"]["limit"], written.packet_bytes) for one in classes)
            fields["limit"] = {"bytes": sum(sizes), "packets": None}
        return fields

    def check(self, written: Written, classes: Mapping[str, Written]) -> None:
        """Reports what only this kind of scheduler refuses."""

    def obstacle(self, link: Link) -> str | None:
        if not self.names:
            return super().obstacle(link)
        many = len(children(link.queue))
        if self.most_classes is not None and many > self.most_classes:
            return f"{self.kind} of {many} classes (the kernel has {self.most_classes} at most)"
        # The kernel's schedulers have no limit of their own.
        full = wire_bytes(link, link.mtu_bytes)
        sizes = [queue_bytes(one.queue, full) or 0 for one in children(link.queue)]
        common = queue_bytes(link.queue, full)
        if common is not None and common < sum(sizes):
            return f"a limit over all classes of {self.kind}, less than the sum of theirs"
        return None

    def below(self, link: Link) -> tuple[Below, ...]:
        return tuple(
            Below(one.queue, minor, one.name, one.members, self.class_words(one))
            for minor, one in enumerate(children(link.queue), 1)
        )

    def class_words(self, one: Any) -> str:
        """A class as arguments of ``tc class add``; empty: the kernel's scheduler makes its classes itself."""
        return ""

    def _class_plan(self, name: str, written: Written, points: frozenset[int]) -> dict[str, Any]:
        own = [key for key in self.class_keys if not key.field.startswith("members.") and key.type != "queue"]
        # The flows are known later: ``weir.scenario`` adds them.
        members = {"dscp": list(written.values["dscp"] or ()), "flows": [], "rest": _is_rest(written)}
        return {"name": name, "members": members, **written.plan(own), "queue": written.queue("queue", points)}

    @property
    def class_keys(self) -> tuple[Key, ...]:
        """The keys of a class."""
        (form,) = next(one.forms for one in elements("queue") if one.name == self.kind)
        kind = next(key.kind for key in form.keys if key.type == "named_classes")
        return tuple(Key(**one) for one in kind["keys"])


def _is_rest(written: Written) -> bool:
    return not any(written.values[key] for key in ("dscp", "flows", "port"))


def _points(written: Written, classes: Mapping[str, Written]) -> dict[str, frozenset[int]]:
    """The code points of the packets of each class: any, if it names flows or ports."""
    named = frozenset(point for one in classes.values() for point in one.values["dscp"] or ())
    found = {}
    for name, one in classes.items():
        own = written.points - named if _is_rest(one) else written.points.intersection(one.values["dscp"] or ())
        found[name] = written.points if one.values["flows"] or one.values["port"] else own
    return found


def _complete(classes: list[dict[str, Any]]) -> None:
    """Gives code points that never come to the last class: in a plan, each has one."""
    members = [one["members"] for one in classes]
    if not any(one["rest"] for one in members) and sum(len(one["dscp"]) for one in members) < _CODE_POINTS:
        members[-1]["rest"] = True


class Around(Discipline):
    """A queue around a single other one, with token buckets."""

    limits_rate = True
    buckets: ClassVar[tuple[str, ...]] = ()
    """Keys of the buckets' sizes."""

    def fields(self, written: Written) -> Mapping[str, Any]:
        if written.values["rate"] == 0:
            raise written.error("rate", "at rate 0 nothing ever passes; expected a rate above 0")
        for key in self.buckets:
            if key in written.values and (size := written.size_bytes(key)) < written.packet_bytes:
                message = f"a bucket of {size} bytes never holds a full packet ({written.packet_bytes} bytes)"
                raise written.error(key, message)
        self.check(written)
        fields: dict[str, Any] = {"queue": written.queue("queue")}
        if written.values["size"] is None:
            # One packet may be outside of the queue already.
            size = limit_bytes(fields["queue"]["limit"], written.packet_bytes) + written.packet_bytes
            fields["limit"] = {"bytes": size, "packets": None}
        return fields

    def check(self, written: Written) -> None:
        """Reports what only this kind of queue refuses."""

    def token_parts(self, queue: dict[str, Any], name: str) -> Iterator[Tokens | Inside]:
        yield Tokens(name, queue, "peak" if queue.get("peak_bps") else None)
        yield Inside(name, queue["queue"])


def check_weights(written: Written, classes: Mapping[str, Written]) -> None:
    """Refuses weights of more than the whole link."""
    total = sum(one.values["weight"] for one in classes.values())
    if total > _WHOLE_PPM:
        raise written.error("classes", f"the weights add up to {total / 10_000:g} %; expected 100 % at most")


def default_band(queue: Any) -> int:
    """Number of the class with the packets that no filter names, from 0."""
    return next((number for number, one in enumerate(children(queue)) if one.members.rest), 0)


def children(queue: Any) -> tuple[Any, ...]:
    """The classes of a queue of a plan, typed or not; empty if it has none."""
    found = queue.get("classes", ()) if isinstance(queue, Mapping) else getattr(queue, "classes", ())
    return tuple(found)


def inner(queue: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The queue that a shaper of a plan has inside; ``None`` for other queues."""
    return queue.get("queue")


def _depth(queue: Mapping[str, Any]) -> int:
    within = [one["queue"] for one in children(queue)]
    within += [queue["queue"]] if inner(queue) is not None else []
    return 1 + max(map(_depth, within)) if within else 0


def limit_bytes(limit: Mapping[str, Any], packet: int) -> int:
    """A limit in bytes, for packets of at most ``packet`` bytes."""
    sizes: list[int] = [limit["packets"] * packet] if limit["packets"] is not None else []
    sizes += [limit["bytes"]] if limit["bytes"] is not None else []
    return min(sizes)


def _check_members(written: Written, classes: Mapping[str, Written]) -> None:
    """Every code point of the packets must have one class."""
    if not 1 <= len(classes) <= _MAX_CLASSES:
        raise written.error("classes", f"expected 1 to {_MAX_CLASSES} classes, found {len(classes)}")
    taken: dict[int, str] = {}
    rest: str | None = None
    for name, one in classes.items():
        points = one.values["dscp"]
        if _is_rest(one):
            if rest is not None:
                message = f"class `{name}` has neither `dscp` nor `flows` nor `port`, like `{rest}`"
                raise one.error("", f"{message}; only one class can have the rest")
            rest = name
        for point in points or ():
            if point in taken:
                raise one.error(
                    "dscp", f"code point {named_point(point)} is in two classes, `{taken[point]}` and `{name}`"
                )
            taken[point] = name
    missing = sorted(written.points - taken.keys())
    if rest is None and missing:
        which = "some code points"
        if len(missing) < _CODE_POINTS // 2 and len(written.points) < _CODE_POINTS:
            which = f"packets with {', '.join(map(named_point, missing))}"
        message = f"{which} have no class; give one class neither `dscp` nor `flows` nor `port`"
        raise written.error("classes", f"{message}: it has the rest")
