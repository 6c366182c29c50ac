"""A running lab: start, supervision and end."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from weir import _group, _memory, _owner, confine
from weir._remove import remove_quietly
from weir.lab import _stuck
from weir.lab._errors import LabError
from weir.lab._fault import Fault, fault
from weir.lab._kernel import Kernel
from weir.lab._modules import Loaded, Place, loaded
from weir.lab._processor import Processor
from weir.lab._results import open_result, read_result, written

__all__ = ["FaultError", "HungError", "Lab", "LoopError", "Script", "Settings", "Tail"]

PREFIX = "weir-lab-"
"""Prefix of the temporary folders of labs, followed by a tag."""

PATIENCE_S = 120.0
"""Wall time that a lab may take for a tenth of a virtual second before it counts as hung."""

_NAMES = {"insmod": 1, "serve": 2, "exec": 1}
"""Records that name a file of the host, and the index of that field."""

_POLL_S = 0.01
_CONSOLE_LINES = 15
_MAX_CODE = 255
_MAX_TOLD = 4096
_STEP_NS = 50_000_000
"""Minimum advance of a lab's clock that counts as progress; ``lab/guest/init/pump.c`` writes it every 100 ms."""
_MEMORY_TIMES, _HOST_BYTES = 2, 1 << 30
"""The host's memory relative to the guest's: its pages, the tables that map them, files in the cache."""
_LOOK_S = 1.0
"""Interval at which the lab's written data are measured."""
_EPOCH_NS = 1_577_836_800_000_000_000
"""Beginning of the guest's calendar: 2020-01-01, so that nothing in it depends on the day."""


class HungError(LabError):
    """A lab made no progress and was ended."""


class LoopError(HungError):
    """A lab was ended because a function of a module of its kernel loops endlessly."""

    def __init__(self, message: str, place: Place) -> None:
        """``place``: the function."""
        super().__init__(message)
        self.place = place


class FaultError(LabError):
    """A lab's kernel died."""

    def __init__(self, message: str, what: Fault) -> None:
        """``what``: the fault, and its place."""
        super().__init__(message)
        self.fault = what


@dataclass
class Script:
    """The work of a lab's first process (``lab/guest/init/script.c`` lists the records)."""

    records: list[tuple[str, ...]] = field(default_factory=list)
    inputs: dict[str, bytes] = field(default_factory=dict)
    """Files of the run's folder by name: ``NAME.in`` of served processes, ``stdin``."""

    def add(self, *fields: str) -> None:
        """Appends a record.

        Raises:
            LabError: a field contains a NUL, which no argument of a program can.
        """
        if any("\0" in text for text in fields):
            raise LabError(f"an argument contains a NUL character: {fields!r}")
        self.records.append(fields)

    @property
    def writable(self) -> list[Path]:
        """Folders of the host that the lab may write."""
        return [Path(record[1]) for record in self.records if record[0] == "rw"]

    @property
    def visible(self) -> list[Path]:
        """Paths that the lab must read: modules, programs."""
        named = [Path(record[_NAMES[record[0]]]) for record in self.records if record[0] in _NAMES]
        return [path for path in named if path.is_absolute() and path.exists()]

    @property
    def work(self) -> Path | None:
        """The last working folder on the host, which confined programs must see."""
        entered = [Path(record[1]) for record in self.records if record[0] == "cd"]
        return entered[-1] if entered and entered[-1].is_dir() else None

    def encode(self) -> bytes:
        """The file ``script``."""
        parts = ["".join(f"={text}\0" for text in record) + "\0" for record in self.records]
        return "".join(parts).encode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class Settings:
    """Settings of a lab."""

    seed: int | None = None
    """Determines all randomness in the guest; ``None``: the host's randomness."""
    memory_mb: int = 1024
    """The guest's memory. Untouched memory costs nothing."""
    virtual: bool = True
    """Whether time is virtual and advances only while everything waits; otherwise it is the host's."""
    terminal: bool = False
    """The guest's terminal is this process' standard input and output."""
    stream: bool = False
    """The guest's terminal is :attr:`Lab.stream`, a pipe each way."""
    limit_ns: int | None = None
    """Upper bound of the guest's clock; a later time means that something hangs. ``None``: no bound."""
    processes: int = 512
    """Maximum number of host processes: one for each of the guest, and a few."""
    disk_bytes: int = 16 << 30
    """Maximum bytes written into its folder on the host, as far as they can be measured there."""
    file_bytes: int | None = None
    """Maximum size of each file that it writes, sparse or not; ``None``: the user's limit."""
    wall_s: float | None = None
    """Wall time after which it counts as hung, whatever its clock says; ``None``: no limit."""
    patience_s: float = PATIENCE_S
    """Wall time for a tenth of a virtual second before the lab counts as hung."""


class Lab:
    """A lab, from its start to the end of the context. After that, nothing of it is left, whatever happened."""

    def __init__(self, kernel: Kernel, script: Script, settings: Settings | None = None) -> None:
        """Prepares a lab; entering the context starts it."""
        self.folder = Path()
        self._memory = Path()
        self._kernel = kernel
        self._script = script
        self._settings = settings or Settings()
        self._lifeline = -1
        self._told = -1
        self._ended: str | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._processor: Processor | None = None
        self._clock_ns = 0
        self._moved_s = self._begun_s = self._looked_s = 0.0
        self._watchdog: _stuck.Watchdog | None = None
        self._groups: tuple[Path, ...] = ()
        self._host_bytes = _MEMORY_TIMES * (self._settings.memory_mb << 20) + _HOST_BYTES
        self._flags: dict[int, int] = {}

    def __enter__(self) -> Self:
        """Starts the lab.

        Raises:
            LabError: a program that starts it cannot be built, or this host cannot confine it.
            OSError: no temporary folder can be made.
        """
        guard, init = self._kernel.guard, self._kernel.init
        self.folder = _owner.make_folder(Path(tempfile.gettempdir()), PREFIX)
        try:
            self._memory = _owner.make_folder(self._memory_place(), PREFIX)
            (self.folder / "script").write_bytes(self._script.encode())
            for name, content in self._script.inputs.items():
                (self.folder / name).write_bytes(content)
            self._start(guard, init)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the lab and removes its remains."""
        self._end()

    def _start(self, guard: Path, init: Path) -> None:
        confined = self._confined(init)
        reading, self._lifeline = os.pipe()
        self._told, telling = os.pipe()
        os.set_blocking(self._told, False)
        if _memory.is_in_memory(self.folder):
            self._host_bytes += self._settings.disk_bytes
        self._groups = _group.make(self._settings.processes, self._host_bytes)
        bounds = [str(telling), str(self._settings.processes), "\n".join(map(str, self._groups)) or "-"]
        command = [str(guard), str(reading), str(self.folder), str(self._memory), "--", *bounds, *confined]
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(Path.home()),  # from which the confinement knows the private files
            "TMPDIR": str(self._memory),
        }
        if self._settings.seed is not None:
            environment["WEIR_LAB_SEED"] = str(self._settings.seed % (1 << 64))
        self._flags = _flags() if self._settings.terminal else {}
        self._processor = Processor()
        try:
            with (self.folder / "console").open("wb") as console, self._processor.bound():
                pipe = subprocess.PIPE if self._settings.stream else None
                apart = not (self._settings.terminal or self._settings.stream)
                self._guard = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL if apart else pipe,
                    stdout=console if apart else pipe,
                    stderr=console,
                    pass_fds=(reading, telling),
                    cwd=self.folder,
                    env=environment,
                    process_group=None
                    if self._settings.terminal
                    else 0,  # Ctrl-C goes only to this process, which ends the lab
                )
        finally:
            os.close(reading)
            os.close(telling)
        self._moved_s = self._begun_s = self._looked_s = time.monotonic()

    def _confined(self, init: Path) -> list[str]:
        """The command that starts the kernel, confined by the host.

        Root in the guest can make the kernel execute anything: nothing inside the guest confines it.
        """
        policy = confine.Policy(
            files=[self.folder, self._memory],
            write=self._script.writable,
            read=[self._kernel.binary, init, *self._script.visible],
            hide=[self._kernel.cache_of_modules],  # no access to others' congestion controls
            work=self._script.work,
            trace=True,
            file_bytes=self._settings.file_bytes,
        )
        try:
            return confine.command(self._command(init), policy)
        except confine.ConfineError as error:
            raise LabError(f"the lab is not started: {error}") from error

    def _command(self, init: Path) -> list[str]:
        settings = self._settings
        consoles = ["con=null", "con1=fd:0,fd:1"] if settings.terminal or settings.stream else ["con=null"]
        clock = ["time-travel=inf-cpu", f"time-travel-start={_EPOCH_NS}"] if settings.virtual else []
        return [
            str(self._kernel.binary),
            f"mem={settings.memory_mb}M",
            *("root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}"),
            *consoles,
            *clock,
            *("stderr=1", "console=stderr0", "panic=-1", "nohz=off", "dummy.numdummies=0", "ifb.numifbs=0"),
            # Programs in the lab can read this line: it must not depend on the name of the folder.
            *("uml_dir=uml/", "umid=lab", "WEIR_LAB=/proc/self/cwd"),
        ]

    def _memory_place(self) -> Path:
        """The folder of the file with the guest's memory: a memory file system if there is room, else the lab's."""
        shared = Path("/dev/shm")
        with contextlib.suppress(OSError):
            about = os.statvfs(shared)
            room = about.f_bavail * about.f_frsize > self._settings.memory_mb << 20
            if room and not about.f_flag & os.ST_NOEXEC and os.access(shared, os.W_OK):
                return shared
        return self.folder

    def _end(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        if self._guard is not None:
            for pipe in (self._guard.stdin, self._guard.stdout):
                with contextlib.suppress(OSError):
                    if pipe is not None:
                        pipe.close()
            self._guard.wait()
            self._guard = None
        for stream, flags in self._flags.items():  # the kernel changes them, and other processes share them
            with contextlib.suppress(OSError):
                fcntl.fcntl(stream, fcntl.F_SETFL, flags)
        if self._told >= 0:
            os.close(self._told)
            self._told = -1
        if self._processor is not None:
            self._processor.release()
            self._processor = None
        _group.remove(self._groups)
        self._groups = ()
        for folder in (self._memory, self.folder):
            if folder != Path():
                remove_quietly(folder)

    @property
    def stream(self) -> tuple[IO[bytes], IO[bytes]]:
        """What is written to the guest's terminal, and what it writes (``Settings.stream``)."""
        assert self._guard is not None
        assert self._guard.stdin is not None
        assert self._guard.stdout is not None
        return self._guard.stdin, self._guard.stdout

    @property
    def now_ns(self) -> int:
        """The guest's monotonic clock, updated ten times per virtual second."""
        self._look_at_clock()
        return self._clock_ns

    def _look_at_clock(self) -> None:
        """Accepts the clock, which the guest writes, only if it has advanced by at least a step.

        A guest that writes other times either goes back and forth, which is no progress, or forward, and then exceeds
        the limit after a bounded number of steps.
        """
        try:
            now_ns = _number(read_result(self.folder / "clock").decode("ascii", "replace"))
        except OSError:
            return
        if now_ns is not None and now_ns >= self._clock_ns + _STEP_NS:
            self._clock_ns = now_ns
            self._moved_s = time.monotonic()
            self._watchdog = None

    def over(self) -> bool:
        """Whether it has ended.

        Raises:
            HungError: it made no progress for too long.
            LoopError: a module of its kernel loops endlessly.
        """
        if self._has_ended():
            return True
        if self._guard is not None and self._guard.poll() is not None:
            raise LabError("the process that watches the lab was killed")
        self._look_at_clock()
        if (place := self._loop()) is not None:
            raise LoopError(
                f"the lab hangs: its clock stands at {self._clock_ns / 1e9:.1f} s, and {place.function} of the kernel "
                f"module {place.module} computes without end",
                place,
            )
        if self._settings.virtual and time.monotonic() - self._moved_s > self._settings.patience_s:
            raise HungError(
                f"the lab hangs: its clock stood at {self._clock_ns / 1e9:.1f} s for {self._settings.patience_s:.0f} s "
                f"of wall time, so that something in it computes without end.{self.console()}"
            )
        self._require_bounds()
        limit = self._settings.limit_ns
        if limit is not None and self._clock_ns > limit:
            raise HungError(
                f"the lab hangs: its clock is at {self._clock_ns / 1e9:.1f} s, past the {limit / 1e9:.1f} s at which "
                f"all should have been over, so that something in it waits without end.{self.console()}"
            )
        return False

    def _require_bounds(self) -> None:
        """Verifies the limits on time and space.

        Raises:
            HungError: it has taken longer than any plan of its kind.
            LabError: it has written too much.
        """
        now_s = time.monotonic()
        wall_s, disk_bytes = self._settings.wall_s, self._settings.disk_bytes
        if wall_s is not None and now_s - self._begun_s > wall_s:
            raise HungError(
                f"the lab hangs: its clock is at {self._clock_ns / 1e9:.1f} s after {wall_s:.0f} s of wall time, which "
                f"is many times what it should have taken for all.{self.console()}"
            )
        if now_s - self._looked_s < _LOOK_S:
            return
        self._looked_s = now_s
        if (taken := written((self.folder, self._memory), disk_bytes)) is not None:
            raise LabError(f"the lab was ended: {taken}")

    def _has_ended(self) -> bool:
        """Whether the guard has reported the end; nothing that the guest writes counts."""
        if self._ended is None and self._told >= 0:
            with contextlib.suppress(BlockingIOError):
                self._ended = os.read(self._told, _MAX_TOLD).decode("ascii", "replace") or None
        return self._ended is not None

    def _loop(self) -> Place | None:
        """The function in which the kernel loops endlessly; ``None`` if it does not, or that is uncertain."""
        quiet_s = time.monotonic() - self._moved_s
        if not self._settings.virtual or self._guard is None or quiet_s < _stuck.QUIET_S:
            return None
        if self._watchdog is None:
            self._watchdog = _stuck.Watchdog(self._guard.pid, self._modules())
        return self._watchdog.look()

    def _modules(self) -> list[Loaded]:
        return loaded(self.folder, [Path(record[1]) for record in self._script.records if record[0] == "insmod"])

    def wait(self, watch: Callable[[], None] = lambda: None) -> None:
        """Waits for the end; calls ``watch`` repeatedly until then, and once after.

        Raises:
            HungError: it made no progress for too long.
        """
        while not self.over():
            watch()
            time.sleep(_POLL_S)
        watch()

    def exit_code(self) -> int:
        """The exit code of its command, after the end.

        Raises:
            FaultError: its kernel died.
            LabError: it ended without an exit code; the message has its console.
        """
        try:
            status = read_result(self.folder / "status").decode(errors="replace")
        except OSError:
            status = ""
        word, _, rest = status.partition(" ")
        if word == "exit" and (told := _number(rest)) is not None and told <= _MAX_CODE:
            return told
        if word == "failed:":
            raise LabError(f"the lab could not do its work: {rest.strip()}.{self.console()}")
        code, _, ended_for = (self._ended or "").partition("\n")
        if ended_for:
            raise LabError(f"the lab was ended: {ended_for.strip()}")
        if code == str(confine.FAILED):
            raise LabError(f"the lab is not started: {self._said('console').strip()}")
        if code == str(128 + signal.SIGKILL):
            raise LabError(
                f"the lab was killed; the usual reason is memory: it may take {self._host_bytes >> 20} MiB "
                f"of this machine's.{self.console()}"
            )
        if code == str(128 + signal.SIGXFSZ):
            raise LabError(f"the lab was ended: a file of it grew beyond {self._settings.file_bytes} bytes")
        text = f"the lab's kernel ended by itself.{self.console()}"
        if (found := fault(self._said("console"), self._modules())) is not None:
            raise FaultError(text, found)
        raise LabError(text)

    def _said(self, name: str) -> str:
        with contextlib.suppress(OSError):
            return read_result(self.folder / name).decode(errors="replace")
        return ""

    def console(self) -> str:
        """The last messages of the kernel and the first process, for an error message."""
        lines: list[str] = []
        for name in ("console", "log"):
            lines += [line.rstrip() for line in self._said(name).splitlines() if line.strip()][-_CONSOLE_LINES:]
        return "\nIts console:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""

    def output(self, name: str) -> Tail:
        """The present and future content of ``NAME.out`` until the lab ends."""
        return Tail(self, self.folder / f"{name}.out")

    def result(self, name: str) -> io.FileIO:
        """The file ``name`` of its folder, for reading.

        Raises:
            FileNotFoundError: there is none.
            LabError: it is no plain file.
        """
        return open_result(self.folder / name)


def _flags() -> dict[int, int]:
    """The status flags of the standard streams (fcntl(2), F_GETFL)."""
    found = {}
    for stream in (0, 1, 2):
        with contextlib.suppress(OSError):
            found[stream] = fcntl.fcntl(stream, fcntl.F_GETFL)
    return found


def _number(text: str) -> int | None:
    """Parses a number that a guest wrote: a few ASCII digits; else ``None``."""
    return int(text) if re.fullmatch(r"[0-9]{1,20}\s*", text) else None


class Tail(io.RawIOBase):
    """A file that the guest still writes, as a stream that ends with the lab."""

    def __init__(self, lab: Lab, path: Path) -> None:
        """A stream of ``path``, which need not exist yet."""
        super().__init__()
        self._lab = lab
        self._path = path
        self._file: io.FileIO | None = None

    def readable(self) -> bool:
        """``True``."""
        return True

    def readinto(self, buffer: Buffer) -> int:  # type: ignore[override]
        """Reads the available bytes, at least one; waits for it. 0 at the end.

        Raises:
            HungError: the lab made no progress for too long.
        """
        while True:
            over = self._lab.over()  # before reading: bytes written until then are read below
            if count := self.read_now(buffer):
                return count
            if over:
                return 0
            time.sleep(_POLL_S)

    def read_now(self, buffer: Buffer) -> int:
        """Reads the available bytes, without waiting."""
        if self._file is None:
            try:
                self._file = open_result(self._path)
            except FileNotFoundError:
                return 0
        return self._file.readinto(buffer) or 0

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
        super().close()


Buffer = bytearray | memoryview
