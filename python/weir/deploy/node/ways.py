"""The kinds of changes by which packets take their ways: routes, rules, routing tables, the emulator's devices."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from weir.deploy.node.base import Change, Refused, execute
from weir.deploy.node.kind import Kind

__all__ = ["WAYS"]


class _Route(Kind):
    """``value``: words after the host route to ``to``, such as ``initcwnd 4``.

    The way is by the neighbour ``via``, or by the device ``by``; without both, that of the present route.
    """

    def before(self, change: Change) -> list[str] | None:
        for line in execute("ip", "route", "show", "exact", f"{change['to']}/32").splitlines():
            return line.split()[1:]
        return None

    def is_so(self, change: Change, before: Any) -> bool:
        asked = [
            word for key, name in (("via", "via"), ("by", "dev")) if change.get(key) for word in (name, change[key])
        ]
        return before is not None and (_has(before, asked) and _has(before, change["value"]))

    def make(self, change: Change) -> None:
        to = change.get("via") or change["to"]
        found = (
            execute("ip", "route", "get", to, *(("oif", change["by"]) if change.get("by") else ()))
            .splitlines()[0]
            .split()
        )
        if change.get("via"):
            if "via" in found:
                raise Refused(
                    f"{change['via']} is behind a router ({found[found.index('via') + 1]}): no route leads by it"
                )
            found = ["via", change["via"], *found[1:]]
        way = [w for name in ("via", "dev") if name in found for w in (name, found[found.index(name) + 1])]
        execute("ip", "route", "replace", f"{change['to']}/32", *way, *change["value"])

    def undo(self, change: Change, before: Any) -> None:
        if before is None:
            with contextlib.suppress(Refused):  # it is gone with its device
                execute("ip", "route", "del", f"{change['to']}/32")
        else:
            execute("ip", "route", "replace", f"{change['to']}/32", *before)


def _has(words: list[str], wanted: list[str]) -> bool:
    """Whether ``words`` have ``wanted`` in one piece."""
    return any(words[at : at + len(wanted)] == wanted for at in range(len(words) - len(wanted) + 1))


class _Tun(Kind):
    """The TUN device ``device`` of weir's emulator, with ``address`` if one is named; ``value`` has its ``mtu``, and
    ``queue`` in packets.
    """

    def before(self, change: Change) -> Any:
        folder = Path("/sys/class/net", change["device"])
        if not folder.is_dir():
            return None
        if not (folder / "tun_flags").exists():
            raise Refused(f"there is an interface {change['device']} already, which is no TUN device")
        mtu, queue = (int((folder / name).read_text(encoding="ascii")) for name in ("mtu", "tx_queue_len"))
        return {"mtu": mtu, "queue": queue}

    def make(self, change: Change) -> None:
        name, value = change["device"], change["value"]
        if not Path("/sys/class/net", name).is_dir():
            execute("ip", "tuntap", "add", "dev", name, "mode", "tun", "vnet_hdr")
        size = ("mtu", str(value["mtu"]), "txqueuelen", str(value["queue"]))
        execute("ip", "link", "set", "dev", name, *size, "up")
        if change.get("address"):
            execute("ip", "address", "replace", f"{change['address']}/32", "dev", name)

    def undo(self, change: Change, before: Any) -> None:
        if before is not None:
            self.make({**change, "value": before})
            return
        with contextlib.suppress(Refused):
            execute("ip", "link", "del", "dev", change["device"])


class _Host(Kind):
    """A host of its own: the network namespace ``name``, whose device ``inner`` (macvlan) is on the interface
    ``device``, which may be in the namespace ``netns``; ``value`` is whether it is there.
    """

    def before(self, change: Change) -> bool:
        return Path("/run/netns", change["name"]).exists()

    def make(self, change: Change) -> None:
        if not change["value"]:
            execute("ip", "netns", "del", change["name"])
            return
        execute("ip", "netns", "add", change["name"])
        where = ("-n", change["netns"]) if change.get("netns") else ()
        on = ("link", "add", "link", change["device"], "name", change["inner"], "netns", change["name"])
        execute("ip", *where, *on, "type", "macvlan", "mode", "private")

    def undo(self, change: Change, before: Any) -> None:
        if not before:
            with contextlib.suppress(Refused):  # it was never made, or is gone
                self.make({**change, "value": False})


class _Entry(Kind):
    """The route to the host ``to`` by ``device``, and by the router ``via`` if one is named, in the routing table
    ``table``; ``value`` is whether it is there.
    """

    def _way(self, change: Change) -> list[str]:
        return [*(("via", change["via"]) if change.get("via") else ()), "dev", change["device"]]

    def before(self, change: Change) -> bool:
        with contextlib.suppress(Refused):  # a table without any route is none
            found = execute("ip", "route", "show", "table", str(change["table"]), "exact", f"{change['to']}/32")
            return _has(found.split(), self._way(change))
        return False

    def make(self, change: Change) -> None:
        way = (f"{change['to']}/32", *self._way(change), "table", str(change["table"]))
        execute("ip", "route", "replace" if change["value"] else "del", *way)

    def undo(self, change: Change, before: Any) -> None:
        if not before:
            with contextlib.suppress(Refused):  # it is gone with its device
                self.make({**change, "value": False})


class _Rule(Kind):
    """What comes from the host ``from`` by ``device`` takes the routing table ``table``, before others."""

    def _words(self, change: Change) -> list[str]:
        return ["from", change["from"], "iif", change["device"], "lookup", str(change["table"])]

    def before(self, change: Change) -> bool:
        lines = [line.partition(":") for line in execute("ip", "rule", "show").splitlines()]
        return any(number == str(change["order"]) and rest.split() == self._words(change) for number, _, rest in lines)

    def make(self, change: Change) -> None:
        do = "add" if change["value"] else "del"
        execute("ip", "rule", do, "priority", str(change["order"]), *self._words(change))

    def undo(self, change: Change, before: Any) -> None:
        if not before:
            with contextlib.suppress(Refused):
                self.make({**change, "value": False})


WAYS: dict[str, Kind] = {
    "route": _Route(),
    "tun": _Tun(),
    "host": _Host(),
    "entry": _Entry(),
    "rule": _Rule(),
}
