"""The flows of the classes of schedulers: those that a scenario names. A class that nothing uses is a mistake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from weir import queues
from weir.language.problem import Log, Mark, choose

from ._network import Link, Network
from ._selector import Selector

__all__ = ["assign_members"]

Flow = Mapping[str, Any]


def assign_members(net: Network, links: Sequence[dict[str, Any]], flows: Sequence[Flow], log: Log) -> None:
    """Writes the flows of each class into the plans of ``links``.

    A class without traffic is an error if it says what it takes: a code point or a flow is misspelt. The class that
    takes the rest must be there, and may have nothing to do. Programs choose the code points of their packets.
    """
    traffic = _Traffic()
    for index, (link, plan) in enumerate(zip(net.links, links, strict=True)):
        spec, queue = _unwrapped(link.queue, plan["queue"])
        if queues.children(queue):
            ways = [_way(number, flow, index) for number, flow in enumerate(flows)]
            crossing = [one for one in ways if one is not None]
            _Assignment(net, link, flows, log, traffic).assign(spec, queue, crossing, "")
    named = not log.failed  # a flow whose class has another mistake is missing in that class
    for mark, one in traffic.classes.items():
        if named and not one.used:
            message = f"class `{one.name}` of link `{one.link}` has no traffic"
            if one.rest:
                log.warn(mark, f"{message}: every flow that crosses the link is in another class")
            else:
                log.error(mark, f"{message}; {_expected(one, flows)}")


def _expected(one: _Class, flows: Sequence[Flow]) -> str:
    points = sorted({flow["dscp"] for flow in flows})
    marks = ", ".join(map(queues.named_point, points))
    return f"expected a flow of it on the link: those of the scenario have {marks}"


def _unwrapped(spec: Any, plan: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A queue, without the shapers around it."""
    while (within := queues.inner(plan)) is not None:
        spec, plan = spec.queue, cast(dict[str, Any], within)
    return spec, plan


@dataclass(frozen=True)
class _Crossing:
    """A flow that crosses a link, on its path or with its acknowledgements, and the links that it crosses before."""

    flow: int
    dscp: int
    before: frozenset[int]


def _way(number: int, flow: Flow, link: int) -> _Crossing | None:
    for path in (flow["path"], flow["reverse_path"]):
        if link in path:
            return _Crossing(number, flow["dscp"], frozenset(path[: path.index(link)]))
    return None


@dataclass
class _Class:
    """A class in the file, the first link with it, whether it takes the rest, and whether a flow uses it."""

    name: str
    link: str
    rest: bool
    used: bool = False


@dataclass
class _Traffic:
    """The classes in the file."""

    classes: dict[Mark, _Class] = field(default_factory=dict)

    def note(self, mark: Mark, one: _Class, used: bool) -> None:
        """Both directions of a link may have the same classes: one of them is enough."""
        self.classes.setdefault(mark, one).used |= used


@dataclass(frozen=True)
class _Assignment:
    net: Network
    link: Link
    flows: Sequence[Flow]
    log: Log
    traffic: _Traffic

    def assign(self, spec: Any, plan: dict[str, Any], crossing: Sequence[_Crossing], outer: str) -> None:
        """The classes of the scheduler ``spec``, into which ``crossing`` goes."""
        given: Mapping[str, Any] = spec.classes
        taken: dict[int, str] = {}
        for (name, one), made in zip(given.items(), plan["classes"], strict=True):
            chosen = self._chosen(one, crossing)
            twice = sorted(chosen & taken.keys())
            if twice:
                flow = self.flows[twice[0]]["name"]
                key = "flows" if one.has("flows") else "port"
                self.log.error(one.at(key), f"flow `{flow}` is in two classes, `{taken[twice[0]]}` and `{name}`")
            taken |= dict.fromkeys(chosen, name)
            made["members"]["flows"] = sorted(chosen)
        for (name, one), made in zip(given.items(), plan["classes"], strict=True):
            mine = [way for way in crossing if _may_be_of(way, self.flows, plan["classes"], made, taken)]
            rest = not (one.dscp or one.flows or one.port)
            self.traffic.note(one.mark, _Class(outer + name, self.link.name, rest), bool(mine))
            inside, queue = _unwrapped(one.queue, made["queue"])
            if queues.children(queue):
                self.assign(inside, queue, mine, f"{outer}{name}.")

    def _chosen(self, spec: Any, crossing: Sequence[_Crossing]) -> set[int]:
        """The flows that the class names, by themselves or by the link over which they come."""
        chosen = {flow for selector in spec.flows or () for flow in self._flows(selector)}
        for name in spec.port or ():
            index = self.net.link_by_name.get(name)
            if index is None:
                self.log.error(spec.at("port"), f"there is no link `{name}`{choose(name, self.net.link_by_name)}")
                continue
            chosen |= {way.flow for way in crossing if index in way.before}
        return chosen

    def _flows(self, selector: Selector) -> set[int]:
        group = [i for i, flow in enumerate(self.flows) if flow["group"] == selector.name]
        if not group:
            names = dict.fromkeys(flow["group"] for flow in self.flows)
            self.log.error(selector.mark, f"there is no workload entry `{selector.name}`{choose(selector.name, names)}")
        wanted = selector.indices
        found = {i for i in group if wanted is None or self.flows[i]["index"] in wanted}
        if group and not found:
            self.log.error(selector.mark, f"`{selector.name}` has no such flow; its flows count from 0")
        return found


def _may_be_of(
    way: _Crossing, flows: Sequence[Flow], classes: Sequence[Mapping[str, Any]], one: Mapping[str, Any],
    taken: Mapping[int, str],
) -> bool:  # fmt: skip
    """Whether packets of a flow may be of the class ``one``."""
    marks_itself = flows[way.flow]["source"]["kind"] == "command" and way.flow not in taken
    return marks_itself or _class_of(way, classes, taken) == one["name"]


def _class_of(way: _Crossing, classes: Sequence[Mapping[str, Any]], taken: Mapping[int, str]) -> str | None:
    """The class of a flow: by its number, else by its code point, else the class with the rest."""
    if way.flow in taken:
        return taken[way.flow]
    by_point = [one["name"] for one in classes if way.dscp in one["members"]["dscp"]]
    rest = [one["name"] for one in classes if one["members"]["rest"]]
    return next(iter([*by_point, *rest]), None)
