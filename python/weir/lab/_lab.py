"""A lab that runs: started, watched and ended."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from weir import _owner, confine
from weir._remove import remove_quietly
from weir.lab import _group, _stuck
from weir.lab._errors import LabError
from weir.lab._fault import Fault, fault
from weir.lab._kernel import Kernel
from weir.lab._modules import Loaded, Place, loaded
from weir.lab._processor import Processor
from weir.lab._results import open_result, read_result

__all__ = ["FaultError", "HungError", "Lab", "LoopError", "Script", "Settings", "Tail"]

PREFIX = "weir-lab-"
"""Begin of the names of the temporary folders of labs; a tag is the rest."""

PATIENCE_S = 120.0
"""Wall time that a lab may take for a tenth of a virtual second before it counts as hung."""

_NAMES = {"cd": 1, "insmod": 1, "serve": 2, "exec": 1}
"""Records that name a file of the host, and which of their fields does."""

_POLL_S = 0.01
_CONSOLE_LINES = 15
_EPOCH_NS = 1_577_836_800_000_000_000
"""What the guest's calendar begins at: 2020-01-01, so that nothing in it depends on the day."""


class HungError(LabError):
    """A lab made no progress and was ended."""


class LoopError(HungError):
    """A lab was ended because a function of a module of its kernel computes without end."""

    def __init__(self, message: str, place: Place) -> None:
        """``place``: the function."""
        super().__init__(message)
        self.place = place


class FaultError(LabError):
    """A lab's kernel died."""

    def __init__(self, message: str, what: Fault) -> None:
        """``what``: of what, and where."""
        super().__init__(message)
        self.fault = what


@dataclass
class Script:
    """What the first process of a lab does (``lab/guest/init/script.c`` lists the records)."""

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
        """Folders of the host that it may write to."""
        return [Path(record[1]) for record in self.records if record[0] == "rw"]

    @property
    def visible(self) -> list[Path]:
        """What it needs to read, wherever that is: folders that it enters, modules, programs."""
        named = [Path(record[_NAMES[record[0]]]) for record in self.records if record[0] in _NAMES]
        return [path for path in named if path.is_absolute() and path.exists()]

    def encode(self) -> bytes:
        """The file ``script``."""
        parts = ["".join(f"={text}\0" for text in record) + "\0" for record in self.records]
        return "".join(parts).encode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class Settings:
    """How a lab runs."""

    seed: int | None = None
    """Determines everything random in the guest; ``None``: the host's randomness."""
    memory_mb: int = 1024
    """The guest's memory. What it does not touch costs nothing."""
    virtual: bool = True
    """Virtual time, which passes only while everything waits; otherwise the host's."""
    terminal: bool = False
    """The guest's terminal is this process' standard input and output."""
    limit_ns: int | None = None
    """What the guest's clock never passes unless something hangs; ``None``: it may run for ever."""
    processes: int = 512
    """How many processes of the host it may be at most: one for each of the guest, and a few."""
    patience_s: float = PATIENCE_S
    """Wall time for a tenth of a virtual second before the lab counts as hung."""


class Lab:
    """A lab, from its start until the context is left. Then nothing of it is left, whatever happened."""

    def __init__(self, kernel: Kernel, script: Script, settings: Settings | None = None) -> None:
        """Prepares a lab; entering the context starts it."""
        self.folder = Path()
        self._memory = Path()
        self._kernel = kernel
        self._script = script
        self._settings = settings or Settings()
        self._lifeline = -1
        self._guard: subprocess.Popen[bytes] | None = None
        self._processor: Processor | None = None
        self._clock_ns = 0
        self._moved_s = 0.0
        self._watchdog: _stuck.Watchdog | None = None
        self._group: Path | None = None

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
        """Ends the lab and removes what it left."""
        self._end()

    def _start(self, guard: Path, init: Path) -> None:
        confined = self._confined(init)
        reading, self._lifeline = os.pipe()
        self._group = _group.make(self._settings.processes)
        bounds = [str(self._settings.processes), str(self._group or "-")]
        command = [str(guard), str(reading), *bounds, str(self.folder), str(self._memory), "--", *confined]
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(Path.home()),  # by which the confinement knows what is private
            "TMPDIR": str(self._memory),
        }
        if self._settings.seed is not None:
            environment["WEIR_LAB_SEED"] = str(self._settings.seed % (1 << 64))
        self._processor = Processor()
        try:
            with (self.folder / "console").open("wb") as console, self._processor.bound():
                self._guard = subprocess.Popen(
                    command,
                    stdin=None if self._settings.terminal else subprocess.DEVNULL,
                    stdout=None if self._settings.terminal else console,
                    stderr=console,
                    pass_fds=(reading,),
                    cwd=self.folder,
                    env=environment,
                    process_group=None if self._settings.terminal else 0,  # Ctrl-C is for us alone; we end it
                )
        finally:
            os.close(reading)
        self._moved_s = time.monotonic()

    def _confined(self, init: Path) -> list[str]:
        """The command that starts the kernel so that the host keeps it from everything but its work.

        Whoever is root in the guest can have its kernel execute anything: nothing in the guest confines it.
        """
        policy = confine.Policy(
            files=[self.folder, self._memory],
            write=self._script.writable,
            read=[self._kernel.binary, init, *self._script.visible],
            hide=[self._kernel.cache_of_modules],  # others' congestion controls are none of its business
            trace=True,
        )
        try:
            return confine.command(self._command(init), policy)
        except confine.ConfineError as error:
            raise LabError(f"the lab is not started: {error}") from error

    def _command(self, init: Path) -> list[str]:
        settings = self._settings
        consoles = ["con=null", "con1=fd:0,fd:1"] if settings.terminal else ["con=null"]
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
        """The folder below which the guest's memory is a file: in memory if there is room, else in that of the lab."""
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
            self._guard.wait()
            self._guard = None
        if self._processor is not None:
            self._processor.release()
            self._processor = None
        if self._group is not None:
            _group.remove(self._group)
            self._group = None
        for folder in (self._memory, self.folder):
            if folder != Path():
                remove_quietly(folder)

    @property
    def now_ns(self) -> int:
        """The guest's monotonic clock, brought up to date ten times a virtual second."""
        self._look_at_clock()
        return self._clock_ns

    def _look_at_clock(self) -> None:
        try:
            text = read_result(self.folder / "clock")
        except OSError:
            return
        if text.strip().isdigit() and int(text) != self._clock_ns:
            self._clock_ns = int(text)
            self._moved_s = time.monotonic()
            self._watchdog = None

    def over(self) -> bool:
        """Whether it has ended.

        Raises:
            HungError: it made no progress for too long.
            LoopError: a module of its kernel computes without end.
        """
        if os.path.lexists(self.folder / "ended"):
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
        limit = self._settings.limit_ns
        if limit is not None and self._clock_ns > limit:
            raise HungError(
                f"the lab hangs: its clock is at {self._clock_ns / 1e9:.1f} s, past the {limit / 1e9:.1f} s at which "
                f"all should have been over, so that something in it waits without end.{self.console()}"
            )
        return False

    def _loop(self) -> Place | None:
        """The function in which the kernel computes without end; ``None`` if it does not, or that is not certain."""
        quiet_s = time.monotonic() - self._moved_s
        if not self._settings.virtual or self._guard is None or quiet_s < _stuck.QUIET_S:
            return None
        if self._watchdog is None:
            self._watchdog = _stuck.Watchdog(self._guard.pid, self._modules())
        return self._watchdog.look()

    def _modules(self) -> list[Loaded]:
        return loaded(self.folder, [Path(record[1]) for record in self._script.records if record[0] == "insmod"])

    def wait(self, watch: Callable[[], None] = lambda: None) -> None:
        """Returns when it has ended; calls ``watch`` again and again until then, and once after.

        Raises:
            HungError: it made no progress for too long.
        """
        while not self.over():
            watch()
            time.sleep(_POLL_S)
        watch()

    def exit_code(self) -> int:
        """The exit code of what it ran, when it has ended.

        Raises:
            FaultError: its kernel died.
            LabError: it ended without telling one; the message has its console.
        """
        try:
            status = read_result(self.folder / "status").decode(errors="replace")
        except OSError:
            status = ""
        word, _, rest = status.partition(" ")
        if word == "exit" and rest.strip().isdigit():
            return int(rest)
        if word == "failed:":
            raise LabError(f"the lab could not do its work: {rest.strip()}.{self.console()}")
        _, _, ended_for = self._said("ended").partition("\n")
        if ended_for.strip():
            raise LabError(f"the lab was ended: {ended_for.strip()}")
        text = f"the lab's kernel ended by itself.{self.console()}"
        if (found := fault(self._said("console"), self._modules())) is not None:
            raise FaultError(text, found)
        raise LabError(text)

    def _said(self, name: str) -> str:
        with contextlib.suppress(OSError):
            return read_result(self.folder / name).decode(errors="replace")
        return ""

    def console(self) -> str:
        """The end of what the kernel and the first process said, for an error message."""
        lines: list[str] = []
        for name in ("console", "log"):
            lines += [line.rstrip() for line in self._said(name).splitlines() if line.strip()][-_CONSOLE_LINES:]
        return "\nIts console:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""

    def output(self, name: str) -> Tail:
        """What ``NAME.out`` holds and will hold until the lab ends."""
        return Tail(self, self.folder / f"{name}.out")

    def result(self, name: str) -> io.FileIO:
        """The file ``name`` of its folder, for reading.

        Raises:
            FileNotFoundError: there is none.
            LabError: it is no plain file.
        """
        return open_result(self.folder / name)


class Tail(io.RawIOBase):
    """A file that the guest still writes, as a stream that ends when the lab has."""

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
        """Reads what there is, at least a byte; waits for it. 0 at the end.

        Raises:
            HungError: the lab made no progress for too long.
        """
        while True:
            over = self._lab.over()  # before reading: what is written until then is read below
            if count := self.read_now(buffer):
                return count
            if over:
                return 0
            time.sleep(_POLL_S)

    def read_now(self, buffer: Buffer) -> int:
        """Reads what there is, without waiting."""
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
