"""What a node is: its answer to the program ``_facts.py``, understood. Pure except for :func:`gather`.

A node may say anything: what is missing or not of its type is ``None`` or empty, and never an exception.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.hosts import _facts
from weir.hosts.place import Place, PlaceError

__all__ = ["Facts", "FactsError", "Interface", "Rights", "gather", "parse"]

_PROGRAM = Path(_facts.__file__)
_PATIENCE_S = 60.0
_UNSYNCHRONISED = 0x40
"""STA_UNSYNC of adjtimex(2)."""
_CAPABILITIES = {
    "net_admin": 12,
    "net_raw": 13,
    "sys_module": 16,
    "sys_admin": 21,
    "sys_nice": 23,
    "perfmon": 38,
    "bpf": 39,
}
_MAX_NAMES = 200
_VIRTUAL = frozenset({"dummy", "ifb", "ipvlan", "macvlan", "netkit", "tun", "veth"})
"""Kinds of interfaces without a card (ip-link(8)); those of VLANs, bonds and bridges tell the speed of one."""


class FactsError(PlaceError):
    """A node says nothing that can be understood."""


@dataclass(frozen=True, kw_only=True)
class Interface:
    """A network interface of a node."""

    name: str
    up: bool = False
    mtu_bytes: int | None = None
    addresses: tuple[str, ...] = ()
    speed_bps: int | None = None
    """``None``: it has none, or does not say."""
    virtual: bool = False
    """Whether it exists in the kernel only: the speed that such an interface tells is a constant of its driver."""
    driver: str | None = None
    offloads: tuple[str, ...] = ()
    """Those that are on: ``tso``, ``gso``, ``gro``, ``lro``."""
    qdisc: str | None = None
    """Its root discipline."""


@dataclass(frozen=True, kw_only=True)
class Rights:
    """What the user may do on a node."""

    root: bool = False
    capabilities: frozenset[str] = frozenset()
    """Those in effect that weir has a use for, such as ``net_admin``."""
    sudo: tuple[str, ...] = ()
    """What ``sudo -n`` executes without a password, as sudoers(5) has it; ``ALL`` is everything."""
    writes_parameters: bool = False
    """Whether files of ``/proc/sys/net`` can be written."""

    @property
    def everything(self) -> bool:
        """Whether it is root, or may become it."""
        return self.root or "ALL" in self.sudo

    @property
    def bpf(self) -> bool:
        """Whether congestion controls can be loaded as BPF (``CAP_BPF``, ``CAP_PERFMON`` and ``CAP_NET_ADMIN``)."""
        return self.everything or {"bpf", "perfmon", "net_admin"} <= self.capabilities

    @property
    def network(self) -> bool:
        """Whether disciplines, offloads and routes can be changed (``CAP_NET_ADMIN``)."""
        return self.everything or "net_admin" in self.capabilities


@dataclass(frozen=True, kw_only=True)
class Facts:
    """A node, as it is now."""

    host: str
    user: str
    system: str
    """The distribution, such as ``Debian GNU/Linux 12 (bookworm)``."""
    kernel: str
    python: str
    machine: str
    """The architecture, as ``uname -m`` calls it."""
    processor: str
    processors: int
    """Those that this user's processes may use."""
    governor: str | None
    load: float | None
    """Mean number of running processes over one minute."""
    memory_free_bytes: int | None
    memory_bytes: int | None
    disk_free_bytes: int | None
    """Of the file system with least among those weir writes to: ``/tmp`` and the home."""
    interfaces: tuple[Interface, ...]
    server_address: str | None
    """Its address of the connection through which it was asked."""
    routes: Mapping[str, str]
    """The interface towards each address that was asked about."""
    controls: tuple[str, ...]
    """Congestion controls that are there."""
    loadable_controls: tuple[str, ...]
    """Those that are modules and not loaded."""
    allowed_controls: tuple[str, ...]
    """Those for users without privilege."""
    netem: bool
    """Whether the kernel has it as a module; one that is built in is not seen."""
    btf: bool
    rights: Rights
    tools: Mapping[str, str | None]
    """The path of each program that was asked about."""
    parameters: Mapping[str, str]
    """The values of the kernel's parameters that were asked about and are there, with single spaces."""
    programs: Mapping[str, bool]
    """Whether each program of weir that was asked about is in its cache."""
    synchronised: bool | None
    """Whether the kernel knows its clock to be kept in time, by NTP for example."""
    clock_error_s: float | None
    """By how much it may be off then."""
    clock_offset_s: float
    """What its wall clock is ahead of this machine's."""
    asked_error_s: float
    """By how much that may be off, because asking takes time."""

    def interface(self, name: str | None, address: str | None) -> Interface | None:
        """The interface of the experiment: ``name``; or that with ``address``; or that of the connection."""
        if name is not None:
            return next((each for each in self.interfaces if each.name == name), None)
        wanted = address or self.server_address
        return next((each for each in self.interfaces if wanted in each.addresses), None)


def gather(
    place: Place,
    python: str = "python3",
    *,
    tools: Iterable[str] = (),
    programs: Mapping[str, str] | None = None,
    peers: Iterable[str] = (),
    parameters: Iterable[str] = (),
) -> Facts:
    """Asks a node.

    Args:
        place: The node.
        python: Python 3.8 or later, there.
        tools: Programs to look for.
        programs: Hashes of weir's programs by name, to look for in the node's cache.
        peers: Addresses to ask the routes of.
        parameters: Names of kernel parameters, such as ``net.ipv4.tcp_sack``.

    Raises:
        PlaceError: it does not answer, or what it says is no answer.
    """
    asked = {"tools": [*tools], "programs": dict(programs or {}), "peers": [*peers]}
    asked["parameters"] = [*parameters]
    program = place.put("weir-facts.py", _PROGRAM.read_bytes())
    given = json.dumps(asked).encode()
    said = place.required(place.run_python(program, given=given, timeout_s=_PATIENCE_S, python=python), (program,))
    clock = place.clock()
    here_ahead_ns = time.time_ns() - time.monotonic_ns()
    try:
        raw = json.loads(said)
    except (ValueError, RecursionError) as error:
        raise FactsError(f"{place.name}: what it says of itself is not understood: {error}") from error
    if not isinstance(raw, Mapping):
        raise FactsError(f"{place.name}: what it says of itself is no mapping")
    return parse(raw, clock.offset_ns - here_ahead_ns, clock.error_ns)


def parse(raw: Mapping[str, Any], monotonic_less_wall_ns: int = 0, asked_error_ns: int = 0) -> Facts:
    """Understands an answer.

    Args:
        raw: The answer.
        monotonic_less_wall_ns: What the node's monotonic clock is ahead of this machine's *wall* clock, ns.
        asked_error_ns: By how much that may be off, ns.
    """
    about = _Raw(raw)
    loadable = tuple(name[len("tcp_") :] for name in about.names("modules") if name.startswith("tcp_"))
    controls = tuple(about.text("controls").split())
    sync = about.mapping("synchronised")
    ahead_ns = about.number("ahead_ns") or 0
    disks = [each for each in about.items("disks") if isinstance(each, Mapping)]
    free = [each["free_bytes"] for each in disks if isinstance(each.get("free_bytes"), int)]
    status = sync.get("status")
    error_us = sync.get("maxerror_us")
    return Facts(
        host=about.text("host"),
        user=about.text("user"),
        system=_found(r'^PRETTY_NAME="?([^"\n]*)', about.text("system")) or "",
        kernel=about.text("kernel").strip(),
        python=about.text("python"),
        machine=about.text("machine"),
        processor=_processor(about.text("cpu")),
        processors=about.number("processors") or 0,
        governor=about.text("governor").strip() or None,
        load=_float(about.text("load").split(" ")[0]),
        memory_free_bytes=_kilobytes("MemAvailable", about.text("memory")),
        memory_bytes=_kilobytes("MemTotal", about.text("memory")),
        disk_free_bytes=min(free, default=None),
        interfaces=_interfaces(about),
        server_address=_server(about.text("ssh")),
        routes={there: name for there, said in about.mapping("routes").items() if (name := _route(said)) is not None},
        controls=controls,
        loadable_controls=tuple(name for name in loadable if name not in controls),
        allowed_controls=tuple(about.text("allowed").split()),
        netem="sch_netem" in about.names("modules"),
        btf=about.true("btf"),
        rights=_rights(about),
        tools={name: path if isinstance(path, str) else None for name, path in about.mapping("tools").items()},
        parameters={
            name: " ".join(value.split())
            for name, value in about.mapping("parameters").items()
            if isinstance(value, str)
        },
        programs={name: there is True for name, there in about.mapping("programs").items()},
        synchronised=not status & _UNSYNCHRONISED if isinstance(status, int) else None,
        clock_error_s=error_us / 1e6 if isinstance(error_us, int) else None,
        clock_offset_s=(monotonic_less_wall_ns + ahead_ns) / 1e9,
        asked_error_s=asked_error_ns / 1e9,
    )


class _Raw:
    """An answer, whose parts have the type that is asked for or are empty."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._raw = raw

    def true(self, key: str) -> bool:
        return self._raw.get(key) is True

    def text(self, key: str) -> str:
        value = self._raw.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str) -> int | None:
        value = self._raw.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else None

    def mapping(self, key: str) -> Mapping[str, Any]:
        value = self._raw.get(key)
        return value if isinstance(value, Mapping) else {}

    def items(self, key: str) -> Sequence[Any]:
        value = self._raw.get(key)
        return value[:_MAX_NAMES] if isinstance(value, list) else ()

    def names(self, key: str) -> list[str]:
        return [name for name in self.items(key) if isinstance(name, str)]

    def documents(self, key: str) -> list[Mapping[str, Any]]:
        """Mappings of a list in JSON, as ``ip -j`` prints."""
        return _documents(self.text(key))


def _documents(text: str) -> list[Mapping[str, Any]]:
    try:
        found = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return []
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _found(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text, re.MULTILINE)
    return None if match is None else match[1].strip()


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _kilobytes(name: str, text: str) -> int | None:
    found = _found(rf"^{name}:\s+([0-9]{{1,15}}) kB", text)
    return None if found is None else 1024 * int(found)


def _processor(text: str) -> str:
    """Its model, on x86, POWER and others, and on ARM."""
    names = ("model name", "cpu", "Model", "CPU part")
    return next((found for name in names if (found := _found(rf"^{name}\s*:\s*(.*)", text))), "")


def _server(text: str) -> str | None:
    """The third word of ``SSH_CONNECTION`` (ssh(1))."""
    words = text.split()
    return words[2].partition("%")[0] if len(words) == 4 else None


def _route(said: Any) -> str | None:
    found = _documents(said) if isinstance(said, str) else []
    name = found[0].get("dev") if found else None
    return name if isinstance(name, str) else None


def _interfaces(about: _Raw) -> tuple[Interface, ...]:
    roots = {
        each.get("dev"): each.get("kind")
        for each in about.documents("qdiscs")
        if each.get("root") is True and isinstance(each.get("kind"), str)
    }
    more = about.mapping("interfaces")
    found = []
    for link in about.documents("links"):
        name = link.get("ifname")
        if isinstance(name, str) and name != "lo":
            own = more.get(name)
            found.append(_interface(name, link, own if isinstance(own, Mapping) else {}, roots.get(name)))
    return tuple(found)


def _interface(name: str, link: Mapping[str, Any], more: Mapping[str, Any], root: str | None) -> Interface:
    addresses = [each for each in link.get("addr_info") or () if isinstance(each, Mapping)]
    mtu, speed, driver, flags = link.get("mtu"), more.get("speed_mbps"), more.get("driver"), link.get("flags")
    info = link.get("linkinfo")
    kind = info.get("info_kind") if isinstance(info, Mapping) else None
    qdisc = root or link.get("qdisc")
    return Interface(
        name=name,
        up="UP" in flags if isinstance(flags, list) else False,
        mtu_bytes=mtu if isinstance(mtu, int) else None,
        addresses=tuple(each["local"] for each in addresses if isinstance(each.get("local"), str)),
        speed_bps=speed * 1_000_000 if isinstance(speed, int) and 0 < speed < 10**8 and kind not in _VIRTUAL else None,
        virtual=kind in _VIRTUAL,
        driver=driver if isinstance(driver, str) and driver else kind if isinstance(kind, str) else None,
        offloads=tuple(each for each in ("tso", "gso", "gro", "lro") if more.get(each) == 1),
        qdisc=qdisc if isinstance(qdisc, str) else None,
    )


def _rights(about: _Raw) -> Rights:
    effective = _found(r"^CapEff:\s*([0-9a-fA-F]{1,16})", about.text("process"))
    bits = int(effective, 16) if effective else 0
    return Rights(
        root=about.number("uid") == 0,
        capabilities=frozenset(name for name, bit in _CAPABILITIES.items() if bits >> bit & 1),
        sudo=_sudo(about.text("sudo")),
        writes_parameters=about.true("writable"),
    )


def _sudo(text: str) -> tuple[str, ...]:
    """Commands without a password in what ``sudo -n -l`` prints: lines such as ``(root) NOPASSWD: /usr/sbin/tc``."""
    found: list[str] = []
    for runas, rest in re.findall(r"^\s+\(([^)\n]*)\)\s*(.*)$", text, re.MULTILINE):
        if runas.split(":")[0].strip() not in {"ALL", "root"}:
            continue
        free = False
        for word in rest.split(", "):
            while match := re.match(r"([A-Z]+):\s*", word):  # a tag holds until another takes it back (sudoers(5))
                free = {"NOPASSWD": True, "PASSWD": False}.get(match[1], free)
                word = word[match.end() :]
            if free and word:
                found.append(word.strip())
    return tuple(found[:_MAX_NAMES])
