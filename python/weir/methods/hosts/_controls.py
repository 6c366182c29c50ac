"""Congestion controls on nodes: the kernel's own, and weir's, which a process on the node holds as BPF programs."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from weir.bpf import kernel_name
from weir.deploy import deploy, module, sysctl
from weir.hosts.congestion import FOREIGN, Wanted, wanted
from weir.hosts.place import Running
from weir.methods import MethodError
from weir.methods.hosts._fleet import Member, together
from weir.plan import Plan

__all__ = ["Controls"]

_ANSWER_S = 60.0
_TAKEN = "name-taken"


class Controls:
    """The controls that were loaded for this run, by kernel: nodes that share one share its controls.

    They are removed when their holder ends, at the latest with its connection.
    """

    def __init__(self) -> None:
        """Loads nothing yet."""
        self._holders: dict[str, _Holder] = {}
        self._count = itertools.count()

    def names(self, plan: Plan, members: Sequence[Member]) -> dict[str, dict[str, str]]:
        """For each of ``members`` by its name: the kernel's name of each control of ``plan``, by label.

        Raises:
            MethodError: a node's kernel lacks one, or cannot load one of weir's.
        """
        known = together(lambda member: member.keeper.ask("controls"), members)
        kernels: dict[str, list[tuple[Member, dict[str, Any]]]] = {}
        for member, about in zip(members, known, strict=True):
            kernels.setdefault(about["boot"][0], []).append((member, about))

        def of_kernel(several: Sequence[tuple[Member, dict[str, Any]]]) -> dict[str, dict[str, str]]:
            return {
                member.name: {cc.label: self._name(member, about, cc) for cc in wanted(plan)}
                for member, about in several
            }

        found = {name: names for part in together(of_kernel, kernels.values()) for name, names in part.items()}
        return {member.name: found[member.name] for member in members}

    def _name(self, member: Member, about: Mapping[str, Sequence[str]], cc: Wanted) -> str:
        if cc.name.startswith(FOREIGN):
            return _native(member, cc.name.removeprefix(FOREIGN), about)
        boot = about["boot"][0]
        holder = self._holders.get(boot)
        if holder is None or holder.member.place.gone:
            holder = self._holders[boot] = _Holder(member)
        if cc.label not in holder.names:
            holder.names[cc.label] = self._load(holder, cc)
        return holder.names[cc.label]

    def _load(self, holder: _Holder, cc: Wanted) -> str:
        unrestricted = not holder.member.keeper.is_root  # the agent is the user's
        while True:
            name = kernel_name(cc.name, os.getpid(), next(self._count))
            answer = holder.ask({"cc": cc.name, "as": name, "options": dict(cc.options), "unrestricted": unrestricted})
            if answer.get("code") != _TAKEN:
                break
        if "error" in answer:
            raise MethodError(
                f"{holder.member.name}: cc: {cc.name}: {answer['error']}. `cc: linux:NAME` needs no loading"
            )
        return str(answer["loaded"])


def _native(member: Member, name: str, about: Mapping[str, Sequence[str]]) -> str:
    """The kernel's own control ``name``; loads its module if it has one.

    Raises:
        MethodError: it has none, or the user may not choose it.
    """
    if name not in about["available"]:
        with contextlib.suppress(MethodError):
            member.keeper.apply([module(f"tcp_{name}")])
        about = member.keeper.ask("controls")
    if name not in about["available"]:
        has = ", ".join(about["available"])
        raise MethodError(
            f"{member.name}: cc: linux:{name}: this kernel has no congestion control {name!r}; it has {has}"
        )
    if name not in about["allowed"] and not member.keeper.is_root:
        if member.keeper.becomes_root:
            allowed = " ".join([*about["allowed"], name])
            member.keeper.apply([sysctl("net.ipv4.tcp_allowed_congestion_control", allowed)])
            return name
        raise MethodError(
            f"{member.name}: cc: linux:{name}: only root may choose it there; "
            "net.ipv4.tcp_allowed_congestion_control does not name it"
        )
    return name


class _Holder:
    """The process ``weir-bpf hold`` of one kernel."""

    def __init__(self, member: Member) -> None:
        if not member.keeper.becomes_root:
            raise MethodError(
                f"{member.name}: only root loads weir's own congestion controls; `cc: linux:NAME` is the kernel's"
            )
        self.member = member
        self.names: dict[str, str] = {}
        program = member.programs.setdefault("weir-bpf", deploy(member.keeper, "weir-bpf"))
        self._process: Running = member.place.start((*member.keeper.prefix, program, "hold"))
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request to load."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps({"load": [request]}).encode() + b"\n")
            self._process.stdin.flush()
        try:
            line = self._answers.get(timeout=_ANSWER_S)
            answer: dict[str, Any] = json.loads(line)
        except (queue.Empty, ValueError):
            return {"error": "weir-bpf did not answer there"}
        return answer

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(b"")
