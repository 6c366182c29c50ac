"""The kinds of changes: how each reads the value before, makes the new one, and restores."""

from __future__ import annotations

import base64
import contextlib
import os
from pathlib import Path
from typing import Any

from weir.deploy.node.base import Change, Refused, execute
from weir.deploy.node.kind import Kind
from weir.deploy.node.ways import WAYS

__all__ = ["KINDS"]


class _Sysctl(Kind):
    """``name`` and ``value`` of a parameter of the kernel; with ``at_least``, a larger number will do.

    One that this network namespace does not have is none of its own, and passes as being so.
    """

    def _path(self, change: Change) -> Path:
        # As for sysctl(8), slashes separate where a part has dots: names of devices may.
        parts = change["name"].split("/" if "/" in change["name"] else ".")
        if not all(parts) or any("/" in part or part.startswith(".") for part in parts):
            raise Refused(f"{change['name']} is no parameter of a kernel")
        return Path("/proc/sys", *parts)

    def before(self, change: Change) -> Any:
        try:
            return " ".join(self._path(change).read_text(encoding="utf-8").split())
        except FileNotFoundError:
            if change.get("at_least"):
                return None
            raise Refused(f"{change['name']}: this kernel has no such parameter") from None
        except OSError as error:
            raise Refused(f"{change['name']}: {error.strerror}") from error

    def is_so(self, change: Change, before: Any) -> bool:
        if change.get("at_least"):
            return before is None or int(before) >= int(change["value"])
        return bool(before == change["value"])

    def make(self, change: Change) -> None:
        try:
            self._path(change).write_text(change["value"], encoding="utf-8")
        except OSError as error:
            needs = f"sysctl -w {change['name']}={change['value']!r}" if os.geteuid() else None
            raise Refused(f"{change['name']}={change['value']}: {error.strerror}", needs) from error


class _Qdisc(Kind):
    """``value``: words of the root discipline of ``device``, as ``tc`` takes them; none: the kernel's choice."""

    def before(self, change: Change) -> list[str]:
        for line in execute("tc", "qdisc", "show", "dev", change["device"]).splitlines():
            words = line.split()  # qdisc KIND HANDLE: [dev DEVICE] root [refcnt N] OPTIONS
            if "root" in words:
                if words[2] == "0:" or words[1] == "noqueue":
                    return []  # made by the kernel itself
                rest = words[words.index("root") + 1 :]
                return [words[1], *(rest[2:] if rest[:1] == ["refcnt"] else rest)]
        return []

    def is_so(self, change: Change, before: Any) -> bool:
        return False if change["value"] else not before

    def make(self, change: Change) -> None:
        device = ("dev", change["device"], "root")
        if change["value"]:
            execute("tc", "qdisc", "replace", *device, *change["value"])
        else:
            execute("tc", "qdisc", "del", *device)

    def undo(self, change: Change, before: Any) -> None:
        with contextlib.suppress(Refused):  # it is gone, or its device
            execute("tc", "qdisc", "del", "dev", change["device"], "root")
        if before:
            execute("tc", "qdisc", "replace", "dev", change["device"], "root", *before)


class _Offload(Kind):
    """``value`` (``on`` or ``off``) of the feature ``name`` of ``device``."""

    def before(self, change: Change) -> str:
        for line in execute("ethtool", "-k", change["device"]).splitlines():
            name, _, value = line.strip().partition(": ")
            if name == change["name"]:
                return value.split()[0]
        raise Refused(f"{change['device']} has no feature {change['name']}")

    def make(self, change: Change) -> None:
        execute("ethtool", "-K", change["device"], change["name"], change["value"])


class _Segments(Kind):
    """``value``: the most segments that ``device`` takes at once (``gso_max_segs``)."""

    def before(self, change: Change) -> int:
        words = execute("ip", "-details", "-oneline", "link", "show", "dev", change["device"]).split()
        if "gso_max_segs" not in words:
            raise Refused(f"{change['device']} does not say how many segments it takes at once")
        return int(words[words.index("gso_max_segs") + 1])

    def make(self, change: Change) -> None:
        execute("ip", "link", "set", "dev", change["device"], "gso_max_segs", str(change["value"]))

    def undo(self, change: Change, before: Any) -> None:
        with contextlib.suppress(Refused):  # the device is gone
            self.make({**change, "value": before})


class _Module(Kind):
    """A module ``name`` of the kernel; ``value`` is whether it is loaded."""

    def before(self, change: Change) -> bool:
        return Path("/sys/module", change["name"]).is_dir()

    def make(self, change: Change) -> None:
        execute("modprobe", *(() if change["value"] else ("-r",)), change["name"])

    def undo(self, change: Change, before: Any) -> None:
        if not before:
            with contextlib.suppress(Refused):  # another uses it by now
                execute("modprobe", "-r", change["name"])


class _File(Kind):
    """The content ``value`` (base64) of the file ``path``; ``null``: there is none."""

    def before(self, change: Change) -> Any:
        try:
            path = Path(change["path"])
            return [base64.b64encode(path.read_bytes()).decode(), path.stat().st_mode & 0o7777]
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Refused(f"{change['path']}: {error.strerror}") from error

    def is_so(self, change: Change, before: Any) -> bool:
        return bool((before[0] if before else None) == change["value"])

    def make(self, change: Change) -> None:
        self._write(change["path"], change["value"], change.get("mode", 0o644))

    def undo(self, change: Change, before: Any) -> None:
        self._write(change["path"], *(before or (None, 0)))

    def _write(self, name: str, content: str | None, mode: int) -> None:
        path = Path(name)
        try:
            if content is None:
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()
                return
            fresh = path.with_name(f".{path.name}.weir")
            fresh.write_bytes(base64.b64decode(content))
            fresh.chmod(mode)
            fresh.replace(path)
        except OSError as error:
            raise Refused(f"{name}: {error.strerror}", f"write {name}" if os.geteuid() else None) from error


KINDS: dict[str, Kind] = {
    "sysctl": _Sysctl(),
    "qdisc": _Qdisc(),
    "offload": _Offload(),
    "segments": _Segments(),
    **WAYS,
    "module": _Module(),
    "file": _File(),
}
