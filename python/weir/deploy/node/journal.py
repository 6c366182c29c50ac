"""The journal of a node: the claim, changes, each written down before it is made, and their undoing."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from weir.deploy.node.base import Change, Refused, boot_id, own_folder, start_of
from weir.deploy.node.kernel_log import kernel_log_mark, kernel_log_since
from weir.deploy.node.kinds import KINDS
from weir.deploy.node.programs import remove_cut_installs

__all__ = ["do_apply", "do_claim", "do_lacking", "do_restore", "do_status", "do_watch"]

_POLL_S = 0.25
_LOOK_S = 60.0
"""Interval at which a watchdog looks at a process whose end the kernel tells."""
_GRACE_S = 0.2
_WATCHDOG = "weir-watch"
"""The name of its process."""


def _journal() -> Path:
    network = Path("/proc/self/ns/net").stat().st_ino
    return own_folder("XDG_STATE_HOME", ".local/state") / f"journal-{socket.gethostname()}-{network}.jsonl"


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
    """Adds a line, or nothing: a disk may be full in the middle of one. What is left of one that was cut is removed."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    size = path.read_bytes().rfind(b"\n") + 1
    try:
        os.ftruncate(file, size)
        data = json.dumps(what).encode() + b"\n"
        while data:
            data = data[os.write(file, data) :]
        os.fsync(file)
    except OSError:
        os.ftruncate(file, size)
        if not size:
            path.unlink()
        raise
    finally:
        os.close(file)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _lives(claim: Change) -> bool:
    pid = claim.get("pid")
    return pid is not None and claim.get("boot") == boot_id() and start_of(pid) == claim.get("start")


def do_claim(asked: Change) -> Change:
    """Makes the node this controller's; what a former one left is restored first."""
    with _locked() as path:
        if start_of(asked["pid"]) is None:  # its watchdog has seen that, and restores nothing more
            raise Refused("the far end of the connection is gone")
        lines = _read(path)
        restored: list[Change] = []
        if lines:
            claim = lines[0]
            if _lives(claim) and claim["pid"] != asked["pid"]:
                raise Refused(f"it is in use by {claim.get('by', 'another experiment')}, since {claim.get('at')}")
            if not _lives(claim):
                restored = _undo_all(path, lines)
        if not _read(path):
            claim = {"by": asked["by"], "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "boot": boot_id()}
            about = {"pid": asked["pid"], "start": start_of(asked["pid"]), "folder": asked["folder"]}
            _append(path, {**claim, **about})
    return {"journal": str(path), "restored": restored, "mark": kernel_log_mark()}


def do_apply(asked: Change) -> Change:
    """Makes changes in their order, each that is one; the first that is impossible ends it."""
    done = []
    with _locked() as path:
        if not _read(path):
            raise Refused("it is not claimed")
        for change in asked["changes"]:
            before = KINDS[change["kind"]].before(change)
            if KINDS[change["kind"]].is_so(change, before):
                continue
            _append(path, {"change": change, "before": before})
            KINDS[change["kind"]].make(change)
            done.append({"change": change, "before": before})
    return {"done": done}


def do_lacking(asked: Change) -> Change:
    """Which of ``changes`` are not so yet: each needs root, but for files."""
    found = []
    for change in asked["changes"]:
        try:
            so = KINDS[change["kind"]].is_so(change, KINDS[change["kind"]].before(change))
        except Refused as error:
            found.append({"change": change, "why": str(error)})
            continue
        if not so:
            found.append({"change": change, "why": None})
    return {"lacking": found}


def do_restore(asked: Change) -> Change:
    """Undoes everything in the journal, unless the process of its claim lives and ``force`` is not set.

    With a ``mark``, it also answers the messages of the kernel since.
    """
    said = {"kernel_log": kernel_log_since(asked["mark"])} if "mark" in asked else {}
    with _locked() as path:
        lines = _read(path)
        claim = lines[0] if lines else {}
        if _lives(claim) and not asked.get("force") and claim["pid"] != asked.get("pid"):
            raise Refused(f"it is in use by {claim.get('by', 'another experiment')}, since {claim.get('at')}")
        restored = _undone(path, lines)
    _end_watch(asked.get("watch"))  # not before: this process may be killed, too
    return {"restored": restored, "was": claim or None, **said}


def _end_watch(pid: int | None) -> None:
    """Ends the process that would restore, if ``pid`` is it."""
    with contextlib.suppress(OSError):
        known = b'"watch"' in Path(f"/proc/{pid}/cmdline").read_bytes()  # that of `sudo`, whose child ends with it
        if pid is not None and (known or Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() == _WATCHDOG):
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
    same_boot = lines[0].get("boot") == boot_id()
    folder = Path(lines[0].get("folder") or "")
    if not _lives(lines[0]) and folder.name.startswith("weir-"):
        shutil.rmtree(folder, ignore_errors=True)
    restored, failed = [], []
    for entry in reversed(lines[1:]):
        kind = entry["change"]["kind"]
        if not same_boot and kind != "file":
            continue
        try:
            KINDS[kind].undo(entry["change"], entry["before"])
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


def do_watch(asked: Change) -> Change:
    """Waits until a process is no more, then undoes what is in the journal, if its claim is of that process.

    It is started before the claim is made: so there is no moment at which something that was written has no watchdog.
    """
    pid = asked["pid"]
    start = start_of(pid)
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(_WATCHDOG, encoding="ascii")
    ended = _Ended(pid)
    while start is not None and start_of(pid) == start:
        ended.wait()
    time.sleep(_GRACE_S)
    remove_cut_installs()
    with _locked() as path:
        lines = _read(path)
        if lines and (lines[0].get("pid") != pid or _lives(lines[0])):
            return {}
        return {"restored": _undone(path, lines)}


def _undone(path: Path, lines: list[Change]) -> list[Change]:
    """Undoes the changes of a journal, and removes it, also if the line of its claim was cut: nothing was changed."""
    if lines:
        return _undo_all(path, lines)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    return []


class _Ended:
    """Waits for the end of a process, for some time at once."""

    def __init__(self, pid: int) -> None:
        self.file: int | None = None
        with contextlib.suppress(AttributeError, OSError):  # Python 3.9, Linux 5.3
            self.file = os.pidfd_open(pid)

    def wait(self) -> None:
        if self.file is None:
            time.sleep(_POLL_S)
        else:
            select.select([self.file], [], [], _LOOK_S)
