"""Users' congestion controls in the process that simulates: it loads shared objects, and asks objects in Python."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from weir import cc, control
from weir.plan import Flow, Plan, TcpTransport

__all__ = ["Served"]


class Served:
    """The controls of one plan, ready to run while the context lasts."""

    def __init__(self, document: Mapping[str, Any], plan: Plan) -> None:
        """Loads the controls of ``plan``, whose document is ``document``.

        Raises:
            weir.cc.ControlError: this process may not load one.
            weir.control.UserError: one in Python cannot be loaded, or is another one by now.
        """
        self._paths = {name: str(cc.served(name)) for name in cc.controls_of(plan)}
        self._users = {
            name: _unchanged(name, of) for name, of in cc.sources_of(plan).items() if control.is_python(name)
        }
        self._askers: dict[str, control.Asker] = {}
        self.document: Mapping[str, Any] = document
        """The plan with controls that the simulator knows; ``document`` itself if it knows all."""
        if self._paths:
            transports = (self._transport(flow, given["transport"]) for flow, given in _pairs(plan, document))
            flows = [{**given, "transport": new} for given, new in zip(document["flows"], transports, strict=True)]
            self.document = {**document, "flows": flows}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.ExitStack() as stack:
            for asker in self._askers.values():
                stack.callback(asker.close)

    def explained(self, text: str, now_ns: int) -> str:
        """``text`` of the simulator at ``now_ns`` in the words of users: a failure of their control, or its name."""
        for flow, asker in self._askers.items():
            if isinstance(asker.failure, Exception):
                return f"{asker.failure} (flow {flow}, after {now_ns / 1e9:.2f} s of the run)"
            if asker.failure is not None:
                raise asker.failure
        for name, path in self._paths.items():
            text = text.replace(path, name)
        return text

    def _transport(self, flow: Flow, given: Mapping[str, Any]) -> Mapping[str, Any]:
        tcp = flow.transport
        if not isinstance(tcp, TcpTransport) or tcp.cc not in self._paths:
            return given
        if tcp.cc not in self._users:
            return {**given, "cc": self._paths[tcp.cc]}
        asker = control.Asker.of(self._users[tcp.cc], flow.name, tcp.cc_options, tcp.initial_window)
        self._askers[flow.name] = asker
        return {**given, **asker.transport()}


def _unchanged(name: str, of: str) -> control.User:
    """The control in Python at path ``name``, whose files have the hash ``of`` in the plan."""
    path = cc.served(name)
    if of and cc.identity(str(path)) != of:
        raise control.UserError(f"{name} was edited since the plan was made: run it again")
    return control.load(path, name)


def _pairs(plan: Plan, document: Mapping[str, Any]) -> zip[tuple[Flow, Mapping[str, Any]]]:
    return zip(plan.flows, document["flows"], strict=True)
