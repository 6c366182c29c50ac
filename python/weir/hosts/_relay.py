"""The far end of a place that is reached by a stream of bytes: ``python _relay.py FOLDER``.

It carries out what it reads from standard input and answers on standard output (:mod:`weir.hosts.relay` is the other
end). Both ways go frames: a JSON object on a line, and after it as many bytes as its ``bytes`` says. At the end of its
input it ends every process that it started, with all that those have started, removes its folder and leaves: so nothing
stays of a machine's work when the way to it is cut. It imports nothing of weir, and needs Python 3.8 only.

Asked (``do``): ``start`` a command, ``write`` to it, ``close`` its input, ``signal`` it; ``put`` and ``get`` a file;
read the ``clock``; set a time ``limit``; ``leave`` a command behind, which reads the content of the frame and may
outlive this process. With ``python``, the command is a program in Python that was put there, and its arguments: a copy
of this process (fork(2)) executes it, because an interpreter that starts takes a tenth of a second of its processor's
time. Answered (``is``): ``started``, ``out``, ``err`` and ``end`` of a process, ``put``, ``file``, ``clock``,
``limit``, ``left``, or ``error``. The ``id`` of a question is that of its answers. A line with the folder comes before
all. At a terminal it tells how much it has ``taken``, because its kernel holds little of what is written
to one.

With a limit, it also leaves when it has read nothing for so long: a way can be cut without either end being told.

A second process watches it from before the folder is made: it removes the folder when the far end is no more, and kills
a far end that was stopped (SIGSTOP) for longer than the limit. If both were killed, the folder stays. The far end had a
lock of it, which the kernel has released: the next far end of the same user takes such a lock, and removes the folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import importlib.machinery
import importlib.util
import io
import json
import os
import select
import selectors
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["HELLO", "main"]

HELLO = b"weir-relay 1 "
"""The first line begins so; what comes before it is the terminal's, or of the shell that led here."""
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_CHUNK = 1 << 16
_WINDOW = 2048
"""Bytes that a terminal may be sent before it was read: what its 4096 do not take may be lost."""
_PATIENCE_S = 1.0
_POLL_S = 0.01
_LOOK_S = 2.0
"""Interval at which the watcher of the folder looks whether this process was stopped."""
_STOPPED_S = 20
"""So long it may be stopped, if no limit was set."""
_LEAVES_S = 5.0
_FOLDERS = "weir-relay-"
_WATCHER = "weir-watch"
_ENDS = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGALRM)
"""Signals at which this process leaves."""
_MOST_NAME = 15
"""Characters of a process' name (proc_pid_comm(5))."""


class _Program(importlib.machinery.SourceFileLoader):
    """A program in Python that was put here; it is read and compiled once, and need not be there any more."""

    def __init__(self, path: str) -> None:
        super().__init__("__main__", path)
        self.code = self.source_to_code(self.get_data(path), path)

    def get_code(self, fullname: str) -> Any:
        """What was compiled."""
        return self.code

    def execute(self) -> None:
        """Executes it, as the main module."""
        spec = importlib.util.spec_from_file_location(self.name, self.path, loader=self)
        assert spec is not None
        module = sys.modules[self.name] = importlib.util.module_from_spec(spec)
        self.exec_module(module)


class _Copy:
    """A copy of this process that executes a program in Python; it has of ``subprocess.Popen`` what is used here."""

    def __init__(self, program: _Program, words: list[str], folder: str, enter: Any) -> None:
        """Starts it; it calls ``enter`` first, in ``folder``."""
        (read, given), (said, write), (erred, complain) = os.pipe(), os.pipe(), os.pipe()
        self.pid = _copied(program, words, folder, (read, write, complain), enter)
        for end in (read, write, complain):
            os.close(end)
        self.stdin, self.stdout, self.stderr = io.FileIO(given, "w"), io.FileIO(said), io.FileIO(erred)
        self._code: int | None = None

    def poll(self) -> int | None:
        """Its exit code; ``None`` while it runs."""
        if self._code is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = self.pid, 0
            if pid:
                self._code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return self._code


def _copied(program: _Program, words: list[str], folder: str, streams: Any, enter: Any) -> int:
    """The number of a copy of this process, which executes ``program``; it has ``streams`` and nothing else open."""
    handled = (*_ENDS, signal.SIGCHLD)
    signal.pthread_sigmask(signal.SIG_BLOCK, handled)  # else the copy could take one for this process
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, handled)
        return pid
    status = 1
    try:
        for each in handled:
            signal.signal(each, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, handled)
        os.setsid()
        enter()
        os.chdir(folder)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, _highest() + 1)
        _call(Path(words[0]).stem)
        sys.stdin, sys.stdout, sys.stderr = (io.TextIOWrapper(io.BufferedReader(io.FileIO(0))), _writer(1), _writer(2))
        sys.argv = words
        program.execute()
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        import traceback  # rarely needed, and a far end is to be there soon

        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(status)


def _writer(stream: int) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedWriter(io.FileIO(stream, "w")))


def _highest() -> int:
    return max(int(path.name) for path in Path("/proc/self/fd").iterdir())


def _call(name: str) -> None:
    """Names this process, for those who list processes."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(name[:_MOST_NAME], encoding="ascii", errors="replace")


class _Child:
    """A process, what waits to be written to it, and which of its streams are open."""

    def __init__(self, number: int, process: Any) -> None:
        self.number = number
        self.process = process
        self.waiting = bytearray()
        self.closing = False
        self.open = 2


class _Relay:
    def __init__(self, own: _Folder, out: int, *, tells: bool) -> None:
        self.own = own
        self.folder = own.path
        self.out = out
        self.tells = tells
        self.held = bytearray()
        self.over = False
        self.header: dict[str, Any] | None = None
        self.children: dict[int, _Child] = {}
        self.left = {own.watcher}
        self.limit_s = 0
        self.programs: dict[str, _Program] = {}
        self.selector = selectors.DefaultSelector()
        self.pid = os.getpid()
        self.libc = ctypes.CDLL(None)
        # Whoever leaves its parent becomes a child of this process: nothing that was started gets away.
        self.libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    # The stream.

    def say(self, what: dict[str, Any], content: bytes = b"") -> None:
        data = json.dumps({**what, "bytes": len(content)}).encode() + b"\n" + content
        while data:
            data = data[os.write(self.out, data) :]

    def serve(self, source: int) -> None:
        """Until the end of ``source``."""
        self.selector.register(source, selectors.EVENT_READ, lambda: self._read(source))
        woken, wakes = os.pipe()
        for end in (woken, wakes):
            os.set_blocking(end, False)
        self.selector.register(woken, selectors.EVENT_READ, lambda: os.read(woken, _CHUNK))
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while not self.over:
            for key, _ in self.selector.select():
                if key.fileobj in self.selector.get_map():  # or another of these has closed it
                    key.data()
            self._look()

    def _read(self, source: int) -> None:
        try:
            data = os.read(source, _CHUNK)
        except OSError:  # a terminal that was hung up
            data = b""
        self.over = not data
        signal.alarm(self.limit_s)  # it also interrupts a write that nobody reads
        if self.tells:
            self.say({"id": None, "is": "taken", "count": len(data)})
        self.held += data
        while self._frame():
            pass

    def _frame(self) -> bool:
        """Carries out what has come whole; whether there was such a thing."""
        if self.header is None:
            line, end, rest = self.held.partition(b"\n")
            if not end:
                return False
            self.header, self.held = json.loads(line.decode()), rest
        assert self.header is not None
        size = self.header["bytes"]
        if len(self.held) < size:
            return False
        header, content = self.header, bytes(self.held[:size])
        self.header, self.held = None, self.held[size:]
        try:
            getattr(self, "do_" + header["do"])(header, content)
        except (OSError, ValueError) as error:
            self.say({"id": header["id"], "is": "error", "text": str(error)})
        return True

    # What can be asked.

    def do_start(self, asked: dict[str, Any], _: bytes) -> None:
        command: list[str] = asked["command"]
        process: Any
        if asked.get("python"):
            process = _Copy(self._program(command[0]), command, self.folder, self._bind)
        else:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=self._bind,
            )
        child = self.children[asked["id"]] = _Child(asked["id"], process)
        for name, pipe in (("out", process.stdout), ("err", process.stderr)):
            assert pipe is not None
            self.selector.register(pipe, selectors.EVENT_READ, lambda n=name, p=pipe: self._heard(child, n, p))
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        self.say({"id": child.number, "is": "started"})

    def _bind(self) -> None:
        """In a process that was started: it ends with this one, also if this one has ended meanwhile."""
        self.libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != self.pid:
            os._exit(1)

    def _program(self, path: str) -> _Program:
        if path not in self.programs:
            self.programs[path] = _Program(str(Path(self.folder, path)))
        return self.programs[path]

    def do_write(self, asked: dict[str, Any], content: bytes) -> None:
        child = self.children.get(asked["id"])
        if child is not None and not child.closing:
            child.waiting += content
            self._write(child)

    def do_close(self, asked: dict[str, Any], _: bytes) -> None:
        child = self.children.get(asked["id"])
        if child is not None:
            child.closing = True
            self._write(child)

    def do_signal(self, asked: dict[str, Any], _: bytes) -> None:
        child = self.children.get(asked["id"])
        if child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.process.pid, asked["number"])

    def do_put(self, asked: dict[str, Any], content: bytes) -> None:
        path = Path(self.folder, asked["name"])
        path.write_bytes(content)
        path.chmod(asked["mode"])
        self.programs.pop(str(path), None)
        self.say({"id": asked["id"], "is": "put", "path": str(path)})

    def do_get(self, asked: dict[str, Any], _: bytes) -> None:
        with Path(self.folder, asked["path"]).open("rb") as file:
            while data := file.read(_CHUNK):
                self.say({"id": asked["id"], "is": "file"}, data)
        self.say({"id": asked["id"], "is": "file"})  # nothing is the end

    def do_clock(self, asked: dict[str, Any], _: bytes) -> None:
        self.say({"id": asked["id"], "is": "clock", "monotonic_ns": time.monotonic_ns()})

    def do_limit(self, asked: dict[str, Any], _: bytes) -> None:
        self.limit_s = asked["seconds"]
        signal.alarm(self.limit_s)
        self.own.limit(self.limit_s or _STOPPED_S)
        self.say({"id": asked["id"], "is": "limit", "pid": os.getpid()})

    def do_leave(self, asked: dict[str, Any], content: bytes) -> None:
        if asked.get("python"):
            null = os.open(os.devnull, os.O_RDWR)
            try:
                pid = _copied(self._program(asked["command"][0]), asked["command"], "/", [null] * 3, lambda: None)
            finally:
                os.close(null)
            self.left.add(pid)
            self.say({"id": asked["id"], "is": "left", "pid": pid})
            return
        import tempfile  # as well

        nothing = subprocess.DEVNULL
        with tempfile.TemporaryFile(dir=self.folder) as given:  # it has no name, and stays as long as it is read
            given.write(content)
            given.seek(0)
            process = subprocess.Popen(
                asked["command"], stdin=given, stdout=nothing, stderr=nothing, cwd="/", start_new_session=True
            )
        process.returncode = 0  # it is not waited for
        self.left.add(process.pid)
        self.say({"id": asked["id"], "is": "left", "pid": process.pid})

    # Processes.

    def _write(self, child: _Child) -> None:
        pipe = child.process.stdin
        if pipe is None or pipe.closed:
            return
        watched = pipe in self.selector.get_map()
        try:
            while child.waiting:
                del child.waiting[: os.write(pipe.fileno(), child.waiting)]
        except BlockingIOError:
            if not watched:
                self.selector.register(pipe, selectors.EVENT_WRITE, lambda: self._write(child))
            return
        except BrokenPipeError:
            child.closing = True
        if watched:
            self.selector.unregister(pipe)
        if child.closing:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _heard(self, child: _Child, name: str, pipe: Any) -> None:
        data = os.read(pipe.fileno(), _CHUNK)
        self.say({"id": child.number, "is": name}, data)  # nothing is the end of the stream
        if not data:
            self.selector.unregister(pipe)
            pipe.close()
            child.open -= 1

    def _look(self) -> None:
        """Tells of those that have ended; what others still write to their streams is theirs as well."""
        for child in list(self.children.values()):
            code = child.process.poll()
            if code is not None and not child.closing:
                child.closing, child.waiting = True, bytearray()
                self._write(child)
            if code is not None:
                self._drain(child)
                del self.children[child.number]
                self.say({"id": child.number, "is": "end", "code": code})
        with contextlib.suppress(ChildProcessError):  # strays; those that are known are reaped by their number
            for pid in self._descendants():
                if pid not in {child.process.pid for child in self.children.values()}:
                    os.waitpid(pid, os.WNOHANG)

    def _drain(self, child: _Child) -> None:
        """Passes on what an ended process has left in its streams, and closes them."""
        for name, pipe in (("out", child.process.stdout), ("err", child.process.stderr)):
            assert pipe is not None
            if pipe.closed:
                continue
            os.set_blocking(pipe.fileno(), False)
            with contextlib.suppress(BlockingIOError):
                while data := os.read(pipe.fileno(), _CHUNK):
                    self.say({"id": child.number, "is": name}, data)
            self.selector.unregister(pipe)
            pipe.close()
            self.say({"id": child.number, "is": name})

    def _descendants(self) -> list[int]:
        """Children of this process, its own and those whose parents have ended."""
        try:
            return list(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()))
        except OSError:
            return [child.process.pid for child in self.children.values()]

    def end(self) -> None:
        """Ends everything but what was to be left, removes the folder."""
        signal.alarm(0)
        for child in self.children.values():
            with contextlib.suppress(OSError):
                assert child.process.stdin is not None
                child.process.stdin.close()
        deadline = time.monotonic() + _PATIENCE_S
        while self._reaped() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        deadline = time.monotonic() + _PATIENCE_S
        while (pids := self._reaped()) and time.monotonic() < deadline:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_POLL_S)
        self.own.remove()

    def _reaped(self) -> list[int]:
        """The children that still run."""
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        return [pid for pid in self._descendants() if pid not in self.left]


class _Folder:
    """This process' own folder, and one that removes it when this one is no more, however it ended."""

    def __init__(self, base: str) -> None:
        """Makes it in ``base``; removes those whose far ends were killed together with their watchers."""
        _sweep(base)
        self.path = str(Path(base, _FOLDERS + os.urandom(8).hex()))
        read, self._alive = os.pipe()
        self.watcher = os.fork()  # before there is a folder, so that there is none without it
        if not self.watcher:
            _watch(read, self.path)
        os.close(read)
        while True:
            Path(self.path).mkdir(mode=0o700)
            with contextlib.suppress(FileNotFoundError):
                self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
                fcntl.flock(self._lock, fcntl.LOCK_EX)
                if Path(self.path).is_dir():  # or another far end has removed it, before it had a lock
                    return
                os.close(self._lock)

    def limit(self, seconds: int) -> None:
        """Has this process killed when it was stopped (SIGSTOP) for longer."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._alive, b"%d\n" % seconds)

    def remove(self) -> None:
        """Removes it, and waits for the watcher, so that nothing is left when this process ends."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._alive)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.watcher, 0)


def _watch(alive: int, folder: str) -> None:
    """Waits until nobody has the other end of the pipe ``alive``, then removes ``folder``. Does not return."""
    try:
        watched, stopped_s, limit_s = os.getppid(), 0.0, float(_STOPPED_S)
        os.setsid()
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        _keep(alive)
        _call(_WATCHER)
        while True:
            if select.select([alive], [], [], _LOOK_S)[0]:
                if not (said := os.read(alive, _CHUNK)):
                    break
                limit_s = float(said.split()[-1])
            stopped_s = stopped_s + _LOOK_S if _is_stopped(watched) else 0.0
            if stopped_s > limit_s:
                os.kill(watched, signal.SIGKILL)  # and the kernel what it started
        deadline = time.monotonic() + _LEAVES_S
        while Path(folder).exists() and time.monotonic() < deadline:  # a process that it started may still write
            shutil.rmtree(folder, ignore_errors=True)
            time.sleep(_POLL_S)
    finally:
        os._exit(0)


def _is_stopped(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in (b"T", b"t")
    return False


def _keep(*files: int) -> None:
    """Closes all files but these; the standard streams lead nowhere."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(_highest() + 1):
        if number < 3:
            os.dup2(null, number)
        elif number not in files:
            with contextlib.suppress(OSError):
                os.close(number)


def _sweep(base: str) -> None:
    """Removes folders of this user in ``base`` whose locks nobody has."""
    for path in Path(base).glob(_FOLDERS + "*"):
        with contextlib.suppress(OSError):
            lock = os.open(str(path), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(lock).st_uid == os.geteuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(str(path), ignore_errors=True)
            finally:
                os.close(lock)


def _raw(terminal: int) -> None:
    """Has the terminal pass every byte as it is."""
    import termios
    import tty

    tty.setraw(terminal)
    about = termios.tcgetattr(terminal)
    about[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSANOW, about)


def _leave(number: int, _: object) -> None:
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def main() -> None:
    """Serves until the end of standard input."""
    for number in _ENDS:
        signal.signal(number, _leave)  # a handler, which what is started does not inherit
    source, out = os.dup(0), os.dup(1)
    is_terminal = os.isatty(source)
    if is_terminal:
        _raw(source)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(null, stream)
    if os.isatty(2):
        os.dup2(null, 2)
    _call("weir-relay")
    relay = _Relay(_Folder(sys.argv[1]), out, tells=is_terminal)
    try:
        hello = {"folder": relay.folder, "window": _WINDOW if is_terminal else 0, "user": os.geteuid()}
        os.write(out, HELLO + json.dumps(hello).encode() + b"\n")
        with contextlib.suppress(BrokenPipeError):
            relay.serve(source)
    finally:
        relay.end()


if __name__ == "__main__":
    main()
