"""What weir does to a node, and undoes: ``python _node.py``, asked on standard input, answering on standard output.

Both are JSON objects. Every change is written to a journal on the node, and synced to its disk, *before* it is made,
with the value before. ``restore`` replays the journal backwards and removes it. The first line of a journal is its
claim: who changes the node, and by which process of the node; while that process lives, nobody else may. The journal
has the host name and the network namespace in its name, because machines may share home folders.

``watch`` is for a process that outlives its controller: it restores when the process of the claim is gone. The program
imports nothing of weir, and needs Python 3.8 only. What it asks of other programs - ``ip``, ``tc``, ``ethtool``,
``modprobe`` - are argument lists.
"""

from __future__ import annotations

import abc
import base64
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["main"]

_POLL_S = 0.25
_COMMAND_S = 20.0
_GRACE_S = 0.2

Change = Any
"""A mapping: ``kind`` and what else its kind needs."""


class Refused(Exception):  # noqa: N818 - never seen outside
    """A change is impossible; ``needs`` names the missing privilege, if that is why."""

    def __init__(self, text: str, needs: str | None = None) -> None:
        super().__init__(text)
        self.needs = needs


# Folders -------------------------------------------------------------------------------------------------------------


def _own(name: str, default: str) -> Path:
    """A folder of this user's: that of the XDG variable ``name``, or ``default`` in the home."""
    base = os.environ.get(name) or str(Path.home() / default)
    folder = Path(base) / "weir"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = folder.stat()
    if about.st_uid != os.geteuid() or about.st_mode & 0o022:
        raise Refused(f"{folder} is writable by others, or another user's")
    return folder


def _journal() -> Path:
    network = Path("/proc/self/ns/net").stat().st_ino
    return _own("XDG_STATE_HOME", ".local/state") / f"journal-{socket.gethostname()}-{network}.jsonl"


@contextlib.contextmanager
def _locked() -> Iterator[Path]:
    path = _journal()
    name = path.with_suffix(".lock")
    while True:
        with name.open("a", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not name.exists() or name.stat().st_ino != os.fstat(lock.fileno()).st_ino:
                continue  # its holder before has removed it
            try:
                yield path
            finally:
                if not path.exists():
                    name.unlink()
            return


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _start_of(pid: int) -> int | None:
    """When a process began, in clock ticks since boot; ``None`` if it is no more."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def _state_of(pid: int) -> str:
    """The state of a process, as ``/proc/PID/stat`` has it; ``X``: it is no more."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    return "X"


# The journal ---------------------------------------------------------------------------------------------------------


def _read(path: Path) -> list[Change]:
    """Its lines; the last may be cut, and then its change was not made."""
    found = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return found


def _append(path: Path, what: Change) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, json.dumps(what).encode() + b"\n")
        os.fsync(file)
    finally:
        os.close(file)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _lives(claim: Change) -> bool:
    pid = claim.get("pid")
    return pid is not None and claim.get("boot") == _boot() and _start_of(pid) == claim.get("start")


def do_claim(asked: Change) -> Change:
    """Makes the node this controller's; what a former one left is restored first."""
    with _locked() as path:
        lines = _read(path)
        restored: list[Change] = []
        if lines:
            claim = lines[0]
            if _lives(claim) and claim["pid"] != asked["pid"]:
                raise Refused(f"it is in use by {claim.get('by', 'another experiment')}, since {claim.get('at')}")
            if not _lives(claim):
                restored = _undo_all(path, lines)
        if not path.exists():
            claim = {"by": asked["by"], "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "boot": _boot()}
            about = {"pid": asked["pid"], "start": _start_of(asked["pid"]), "folder": asked["folder"]}
            _append(path, {**claim, **about})
    return {"journal": str(path), "restored": restored}


def do_apply(asked: Change) -> Change:
    """Makes changes in their order, each that is one; the first that is impossible ends it."""
    done = []
    with _locked() as path:
        if not _read(path):
            raise Refused("it is not claimed")
        for change in asked["changes"]:
            before = _KINDS[change["kind"]].before(change)
            if _KINDS[change["kind"]].is_so(change, before):
                continue
            _append(path, {"change": change, "before": before})
            _KINDS[change["kind"]].make(change)
            done.append({"change": change, "before": before})
    return {"done": done}


def do_lacking(asked: Change) -> Change:
    """Which of ``changes`` are not so yet: each needs root, but for files."""
    found = []
    for change in asked["changes"]:
        try:
            so = _KINDS[change["kind"]].is_so(change, _KINDS[change["kind"]].before(change))
        except Refused as error:
            found.append({"change": change, "why": str(error)})
            continue
        if not so:
            found.append({"change": change, "why": None})
    return {"lacking": found}


def do_restore(asked: Change) -> Change:
    """Undoes everything in the journal, unless the process of its claim lives and ``force`` is not set."""
    with _locked() as path:
        lines = _read(path)
        if not lines:
            return {"restored": [], "was": None}
        claim = lines[0]
        if _lives(claim) and not asked.get("force") and claim["pid"] != asked.get("pid"):
            raise Refused(f"it is in use by {claim.get('by', 'another experiment')}, since {claim.get('at')}")
        _end_watch(asked.get("watch"))
        return {"restored": _undo_all(path, lines), "was": claim}


def _end_watch(pid: int | None) -> None:
    """Ends the process that would restore, if ``pid`` is it."""
    with contextlib.suppress(OSError):
        if pid is not None and b'"watch"' in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)


def do_status(_: Change) -> Change:
    """The journal as it is."""
    lines = _read(_journal())
    return {"claim": lines[0] if lines else None, "lives": bool(lines) and _lives(lines[0]), "changes": lines[1:]}


def _undo_all(path: Path, lines: list[Change]) -> list[Change]:
    """Undoes the changes of a journal backwards, and removes it; what failed stays in it.

    Parameters of a kernel, its devices and modules are as they were after a reboot: only files are then restored. A
    process of the claim that was killed has left its folder, which is removed.
    """
    same_boot = lines[0].get("boot") == _boot()
    folder = Path(lines[0].get("folder") or "")
    if not _lives(lines[0]) and folder.name.startswith("weir-"):
        shutil.rmtree(folder, ignore_errors=True)
    restored, failed = [], []
    for entry in reversed(lines[1:]):
        kind = entry["change"]["kind"]
        if not same_boot and kind != "file":
            continue
        try:
            _KINDS[kind].undo(entry["change"], entry["before"])
            restored.append(entry)
        except (Refused, OSError) as error:
            failed.append((entry, str(error)))
    if failed:
        fresh = path.with_suffix(".new")
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
        for line in [{**lines[0], "pid": None}, *(entry for entry, _ in reversed(failed))]:
            _append(fresh, line)
        fresh.replace(path)
        raise Refused("; ".join(f"{entry['change']}: {why}" for entry, why in failed))
    path.unlink()
    return restored


# Kinds of changes ----------------------------------------------------------------------------------------------------


class _Kind(abc.ABC):
    @abc.abstractmethod
    def before(self, change: Change) -> Any:
        """The value now."""

    def is_so(self, change: Change, before: Any) -> bool:
        return bool(before == change["value"])

    @abc.abstractmethod
    def make(self, change: Change) -> None:
        """Gives it the value of ``change``."""

    def undo(self, change: Change, before: Any) -> None:
        self.make({**change, "value": before})


def _run(*command: str) -> str:
    try:
        done = subprocess.run(list(command), capture_output=True, text=True, timeout=_COMMAND_S, check=False)
    except OSError as error:
        raise Refused(f"{command[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise Refused(f"{command[0]} did not end in {_COMMAND_S:g} s") from error
    if done.returncode:
        needs = shlex.join(command) if os.geteuid() else None
        raise Refused(f"`{shlex.join(command)}`: {done.stderr.strip() or done.returncode}", needs)
    return done.stdout


class _Sysctl(_Kind):
    """``name`` and ``value`` of a parameter of the kernel; with ``at_least``, a larger number will do.

    One that this network namespace does not have is none of its own, and passes as being so.
    """

    def _path(self, change: Change) -> Path:
        parts = change["name"].split(".")
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


class _Qdisc(_Kind):
    """``value``: words of the root discipline of ``device``, as ``tc`` takes them; none: the kernel's choice."""

    def before(self, change: Change) -> list[str]:
        for line in _run("tc", "qdisc", "show", "dev", change["device"]).splitlines():
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
            _run("tc", "qdisc", "replace", *device, *change["value"])
        else:
            _run("tc", "qdisc", "del", *device)

    def undo(self, change: Change, before: Any) -> None:
        with contextlib.suppress(Refused):  # it is gone, or its device
            _run("tc", "qdisc", "del", "dev", change["device"], "root")
        if before:
            _run("tc", "qdisc", "replace", "dev", change["device"], "root", *before)


class _Offload(_Kind):
    """``value`` (``on`` or ``off``) of the feature ``name`` of ``device``."""

    def before(self, change: Change) -> str:
        for line in _run("ethtool", "-k", change["device"]).splitlines():
            name, _, value = line.strip().partition(": ")
            if name == change["name"]:
                return value.split()[0]
        raise Refused(f"{change['device']} has no feature {change['name']}")

    def make(self, change: Change) -> None:
        _run("ethtool", "-K", change["device"], change["name"], change["value"])


class _Route(_Kind):
    """``value``: words after the host route to ``to``, such as ``initcwnd 4``; its way is that of the present route."""

    def before(self, change: Change) -> list[str] | None:
        for line in _run("ip", "route", "show", "exact", f"{change['to']}/32").splitlines():
            return line.split()[1:]
        return None

    def is_so(self, change: Change, before: Any) -> bool:
        wanted = change["value"]
        return before is not None and any(before[at : at + len(wanted)] == wanted for at in range(len(before)))

    def make(self, change: Change) -> None:
        words = _run("ip", "route", "get", change["to"]).splitlines()[0].split()
        way = [w for name in ("via", "dev") if name in words for w in (name, words[words.index(name) + 1])]
        _run("ip", "route", "replace", f"{change['to']}/32", *way, *change["value"])

    def undo(self, change: Change, before: Any) -> None:
        if before is None:
            with contextlib.suppress(Refused):  # it is gone with its device
                _run("ip", "route", "del", f"{change['to']}/32")
        else:
            _run("ip", "route", "replace", f"{change['to']}/32", *before)


class _Module(_Kind):
    """A module ``name`` of the kernel; ``value`` is whether it is loaded."""

    def before(self, change: Change) -> bool:
        return Path("/sys/module", change["name"]).is_dir()

    def make(self, change: Change) -> None:
        _run("modprobe", *(() if change["value"] else ("-r",)), change["name"])

    def undo(self, change: Change, before: Any) -> None:
        if not before:
            with contextlib.suppress(Refused):  # another uses it by now
                _run("modprobe", "-r", change["name"])


class _File(_Kind):
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


_KINDS: dict[str, _Kind] = {
    "sysctl": _Sysctl(),
    "qdisc": _Qdisc(),
    "offload": _Offload(),
    "route": _Route(),
    "module": _Module(),
    "file": _File(),
}


# Programs ------------------------------------------------------------------------------------------------------------


def _cached(asked: Change) -> Path:
    name, digest = asked["name"], asked["sha256"]
    if "/" in name or len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise Refused("no name of a program")
    return _own("XDG_CACHE_HOME", ".cache") / f"{name}-{digest}"


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            found.update(block)
    return found.hexdigest()


def do_have(asked: Change) -> Change:
    """The path of a program in the cache, if it is there and whole."""
    path = _cached(asked)
    if path.is_file() and not path.is_symlink() and _digest(path) == asked["sha256"]:
        return {"path": str(path)}
    return {"path": None, "free_bytes": shutil.disk_usage(path.parent).free}


def do_install(asked: Change) -> Change:
    """Takes a program, compressed by zlib, from the file ``source`` into the cache."""
    import zlib

    path = _cached(asked)
    source = Path(asked["source"])
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_bytes(zlib.decompress(source.read_bytes()))
        if _digest(fresh) != asked["sha256"]:
            raise Refused(f"{asked['name']} came damaged")
        fresh.chmod(0o700)
        fresh.replace(path)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    finally:
        for file in (fresh, source):
            with contextlib.suppress(OSError):
                file.unlink()
    return {"path": str(path)}


def do_uninstall(asked: Change) -> Change:
    """Removes the programs of weir in the cache; with ``dry``, only names them."""
    found = sorted(_own("XDG_CACHE_HOME", ".cache").glob("weir-*-*"))
    if not asked.get("dry"):
        for path in found:
            path.unlink()
    return {"removed": [path.name for path in found]}


# What there is -------------------------------------------------------------------------------------------------------


def do_address(asked: Change) -> Change:
    """The first IPv4 address of the device ``device``; without one, that by which ``to`` is reached."""
    if asked.get("device"):
        for word in _run("ip", "-4", "-o", "address", "show", "dev", asked["device"]).split():
            if "/" in word and word.count(".") == 3:
                return {"address": word.partition("/")[0], "device": asked["device"]}
        raise Refused(f"{asked['device']} has no IPv4 address")
    words = _run("ip", "-4", "-o", "address", "show", "to", asked["address"]).split()
    return {"address": asked["address"], "device": words[1] if len(words) > 1 else None}


def do_controls(asked: Change) -> Change:
    """The congestion controls of this kernel; modules of ``wanted`` that could be loaded are named by their kind."""
    values = {}
    for name in ("available", "allowed"):
        file = Path(f"/proc/sys/net/ipv4/tcp_{name}_congestion_control")
        values[name] = file.read_text(encoding="ascii").split() if file.exists() else []
    values["boot"] = [_boot()]
    return values


def do_facts(asked: Change) -> Change:
    """The environment of the node, for the archive."""
    parameters = {}
    root = Path("/proc/sys")
    for path in sorted([*root.glob("net/ipv4/tcp_*"), *root.glob("net/core/*")]):
        if path.name.endswith("_key"):  # that of TCP Fast Open is a secret, and runs have none in their files
            continue
        with contextlib.suppress(OSError):
            parameters[str(path.relative_to(root)).replace("/", ".")] = " ".join(path.read_text().split())
    told = {}
    for name, command in {
        "addresses": ("ip", "-o", "address"),
        "links": ("ip", "-s", "-o", "link"),
        "routes": ("ip", "route"),
        "qdiscs": ("tc", "-s", "qdisc"),
    }.items():
        with contextlib.suppress(Refused):
            told[name] = _run(*command)
    if asked.get("device"):
        with contextlib.suppress(Refused):
            told["offloads"] = _run("ethtool", "-k", asked["device"])
    files = {}
    for name in ("/proc/cpuinfo", "/proc/meminfo", "/proc/cmdline", "/etc/os-release", "/proc/net/snmp"):
        with contextlib.suppress(OSError):
            files[name] = Path(name).read_text(encoding="utf-8", errors="replace")
    with contextlib.suppress(OSError):
        files["clocksource"] = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource").read_text()
    return {
        "host": socket.gethostname(),
        "kernel": platform.platform(),
        "uname": list(os.uname()),
        "python": platform.python_version(),
        "time": time.time(),
        "monotonic_ns": time.monotonic_ns(),
        "boot": _boot(),
        "load": list(os.getloadavg()),
        "user": os.geteuid(),
        "parameters": parameters,
        "commands": told,
        "files": files,
    }


def do_watch(asked: Change) -> Change:
    """Waits until the process of the claim is no more, then restores; ends when somebody else has restored.

    One that was stopped (SIGSTOP) for longer than ``limit_s`` is killed, and with it what it started.
    """
    pid, stopped_s = asked["pid"], 0.0
    while True:
        lines = _read(_journal())
        if not lines or lines[0].get("pid") != pid:
            return {}
        if not _lives(lines[0]):
            time.sleep(_GRACE_S)
            return do_restore({"force": True})
        stopped_s = stopped_s + _POLL_S if _state_of(pid) in "Tt" else 0.0
        if stopped_s > asked["limit_s"]:
            os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)


_QUESTIONS: dict[str, Callable[[Change], Change]] = {
    name[3:]: function for name, function in list(globals().items()) if name.startswith("do_")
}


def main() -> None:
    """Answers one question, given as the first argument or on standard input."""
    asked = json.loads(sys.argv[1] if len(sys.argv) > 1 else sys.stdin.read())
    try:
        answer = _QUESTIONS[asked["do"]](asked)
    except Refused as error:
        answer = {"error": str(error), "needs": error.needs}
    except OSError as error:
        answer = {"error": f"{error.filename or asked['do']}: {error.strerror}", "needs": None}
    data = json.dumps(answer).encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    main()
