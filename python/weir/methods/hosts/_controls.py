"""Congestion controls on nodes: the kernel's own, and weir's and users', which a process on the node holds as BPF.

Weir's are in its program. A user's is compiled here, confined, and its object brought to the node: no node needs a
compiler, and no source leaves this machine.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import os
import queue
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from weir import cc as users
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
        self._compiling = threading.Lock()
        self._built: dict[tuple[str, str, bool], bytes] = {}
        """Objects of users' controls by name, source, and whether they are for old kernels."""

    def names(self, plan: Plan, members: Sequence[Member]) -> dict[str, dict[str, str]]:
        """For each of ``members`` by its name: the kernel's name of each control of ``plan``, by label.

        Raises:
            MethodError: a user's does not compile; a node's kernel lacks one, or cannot load one of weir's or a user's.
        """
        sources = users.sources_of(plan)
        kernels: dict[str, list[Member]] = {}
        for member, boot in zip(members, together(_boot, members), strict=True):
            kernels.setdefault(boot, []).append(member)

        def of_kernel(several: Sequence[Member]) -> dict[str, dict[str, str]]:
            return {
                member.name: {cc.label: self._name(member, cc, sources.get(cc.name)) for cc in wanted(plan)}
                for member in several
            }

        found = {name: names for part in together(of_kernel, kernels.values()) for name, names in part.items()}
        return {member.name: found[member.name] for member in members}

    def objects(self, member: Member) -> dict[str, dict[str, str]]:
        """What was brought to the kernel of ``member``: source, object and compiler of each user's control, by name."""
        holder = self._holders.get(member.boot)
        return {} if holder is None else holder.brought

    def _name(self, member: Member, cc: Wanted, source: str | None) -> str:
        if cc.name.startswith(FOREIGN):
            return _native(member, cc.name.removeprefix(FOREIGN))
        boot = _boot(member)
        holder = self._holders.get(boot)
        if holder is None or holder.member.place.gone:
            holder = self._holders[boot] = _Holder(member)
        key = (cc.label, source)
        if key not in holder.names:
            holder.names[key] = self._load(holder, cc, source)
        return holder.names[key]

    def _load(self, holder: _Holder, cc: Wanted, source: str | None) -> str:
        unrestricted = not holder.member.keeper.is_root  # the agent is the user's
        request = {"cc": cc.name, "options": dict(cc.options), "unrestricted": unrestricted}
        if source is not None:
            request["object"] = holder.bring(cc.name, source, self._compiled(cc.name, source, holder.is_old))
        while True:
            name = kernel_name(cc.name, os.getpid(), next(self._count))
            answer = holder.ask({**request, "as": name})
            if answer.get("code") != _TAKEN:
                break
        if "error" in answer:
            hint = ". `cc: linux:NAME` needs no loading" if source is None else ""
            raise MethodError(f"{holder.member.name}: cc: {cc.name}: {answer['error']}{hint}")
        return str(answer["loaded"])

    def _compiled(self, name: str, source: str, old: bool) -> bytes:
        key = (name, source, old)
        with self._compiling:  # once, whichever kernel asks first
            if key not in self._built:
                try:
                    self._built[key] = users.bpf_object(name, source, old=old)
                except users.ControlError as error:
                    raise MethodError(f"cc: {name}: {error}") from error
            return self._built[key]


def _boot(member: Member) -> str:
    """The kernel of ``member``, for as long as it runs."""
    member.boot = member.boot or str(member.keeper.ask("controls")["boot"][0])
    return member.boot


def _native(member: Member, name: str) -> str:
    """The kernel's own control ``name``; loads its module if it has one.

    Raises:
        MethodError: it has none, or the user may not choose it.
    """
    about: Mapping[str, Sequence[str]] = member.keeper.ask("controls")
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
                f"{member.name}: only root loads congestion controls that are not the kernel's; `cc: linux:NAME` is"
            )
        self.member = member
        self.names: dict[tuple[str, str | None], str] = {}
        """Names in the kernel by label and source."""
        self.brought: dict[str, dict[str, str]] = {}
        self._program = program = member.programs.setdefault("weir-bpf", deploy(member.keeper, "weir-bpf"))
        self._process: Running = member.place.start((*member.keeper.prefix, program, "hold"))
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    @functools.cached_property
    def is_old(self) -> bool:
        """Whether the kernel has the ``cong_control`` of those before Linux 6.10. One that cannot be asked is not: the
        error of loading says why.
        """
        command = (*self.member.keeper.prefix, self._program, "status")
        return json.loads(self.member.place.require(command)).get("old_cong_control") is True

    def bring(self, name: str, source: str, content: bytes) -> str:
        """The path there of an object, which goes with the connection."""
        digest = hashlib.sha256(content).hexdigest()
        self.brought[name] = {"source": source, "object": f"sha256:{digest}", "compiler": users.bpf_compiler()}
        return self.member.place.put(f"weir-cc-{digest}.o", content)

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
