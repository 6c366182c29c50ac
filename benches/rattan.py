"""The emulator rattan, for comparison: built from its crate once, in the user's cache, and run as its authors configure
it.

Its links lie between two namespaces of its own, joined by veth pairs; packets pass through AF_PACKET sockets. It is
not a part of weir, and nothing depends on it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from weir.hosts.wiring import Host

VERSION = "0.1.1"
MIN_FREE_BYTES = 3 << 30
"""Approximate space that a build needs."""
LEAVE_S = 10.0
_PROFILE = {"LTO": "off", "DEBUG": "0", "STRIP": "symbols", "CODEGEN_UNITS": "16"}
_ID = re.compile(r"^[A-Za-z0-9]{4,12}$")


class MissingError(Exception):
    """rattan is missing; the text says why."""


def folder() -> Path:
    """The folder of the installation."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "weir" / "bench" / f"rattan-{VERSION}"


def find(patience_s: float) -> Path:
    """The program. Builds it if missing, at low priority and for at most ``patience_s`` (0: not at all).

    An interrupted build continues the next time.

    Raises:
        MissingError: it cannot be built here, or not in this time.
    """
    root = folder()
    program = root / "bin" / "rattan"
    if program.exists():
        return program
    if patience_s <= 0:
        raise MissingError("it is not built; benches/emulator.py --build-seconds 1800 does that, once")
    cargo = shutil.which("cargo")
    if cargo is None:
        raise MissingError("there is no cargo to build it")
    root.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(root).free < MIN_FREE_BYTES:
        raise MissingError(f"building it takes {MIN_FREE_BYTES >> 30} GB in {root}")
    print(f"building rattan {VERSION} in {root}, for at most {patience_s:.0f} s", flush=True)
    _build(cargo, root, patience_s)
    shutil.rmtree(root / "target", ignore_errors=True)
    return program


def _build(cargo: str, root: Path, patience_s: float) -> None:
    profile = {f"CARGO_PROFILE_RELEASE_{key}": value for key, value in _PROFILE.items()}
    environment = {**os.environ, **profile, "CARGO_TARGET_DIR": str(root / "target")}
    command = [cargo, "install", "rattan", "--version", f"={VERSION}", "--locked", "--no-default-features"]
    with (root / "build.log").open("w+") as log:
        process = subprocess.Popen(
            ["nice", *command, "--root", str(root)], env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            code = process.wait(patience_s)
        except subprocess.TimeoutExpired:
            raise MissingError(f"not built within {patience_s:.0f} s; the next call continues") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if code != 0:
            log.seek(0)
            raise MissingError(f"cargo install failed: {' '.join(log.read().split()[-40:])}")


class Link:
    """A running link of rattan. A context manager: leaving it removes its namespaces."""

    def __init__(self, program: Path, rate_bps: int, delay_ms: int, queue_bytes: int) -> None:
        """From host 0 to host 1: a rate on the wire, a drop-tail queue, a delay; no limits in the other direction."""
        self._program = program
        self._configuration = _CONFIGURATION.format(
            rate=f"{rate_bps}bps", delay=f"{delay_ms}ms", queue=queue_bytes, cores=list(range(os.cpu_count() or 1))
        )
        self._tag = ""
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """The id of its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def hosts(self) -> tuple[Host, Host]:
        """The hosts at its ends."""
        left = Host(0, "left", f"ns-left-{self._tag}", "10.1.1.1", f"vL1-L-{self._tag}", 1500)
        right = Host(1, "right", f"ns-right-{self._tag}", "10.2.1.1", f"vR1-R-{self._tag}", 1500)
        return left, right

    def __enter__(self) -> Link:
        """Starts it.

        Raises:
            MissingError: it does not run here.
        """
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(self._configuration)
            file.flush()
            self._process = subprocess.Popen(
                [self._program, "run", "--config", file.name, "--left-stdout"],
                env={**os.environ, "RUST_LOG": "off"},
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                start_new_session=True,
            )  # fmt: skip
            try:
                self._tag = self._await_tag()
            except BaseException:
                self._leave()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it, and removes its namespaces."""
        self._leave()

    def _await_tag(self) -> str:
        """Its identifier, which the command at its left end prints once the links work."""
        assert self._process is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        line = self._process.stdout.readline().strip()
        if _ID.match(line):
            return line
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        said = f"{line} {self._process.stderr.read() if self._process.poll() is not None else ''}"
        raise MissingError(f"it does not run here: {said.strip()[-300:] or 'no output'}")

    def _leave(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        # It ends together with the commands at its ends.
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LEAVE_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        for side in ("left", "rattan", "right") if self._tag else ():
            subprocess.run(["ip", "netns", "del", f"ns-{side}-{self._tag}"], capture_output=True, check=False)


_CONFIGURATION = """
[env]
mode = "Isolated"
left_veth_count = 1
right_veth_count = 1

[cells.rate]
type = "Bw"
bw_type = "LinkLayer"
bandwidth = "{rate}"
queue = "DropTail"
queue_config = {{ byte_limit = {queue}, bw_type = "LinkLayer" }}

[cells.delay]
type = "Delay"
delay = "{delay}"

[links]
left = "rate"
rate = "delay"
delay = "right"
right = "left"

[resource]
cpu = {cores}

[commands]
left = ["sh", "-c", "echo $RATTAN_ID; exec sleep 600"]
right = ["sleep", "600"]
"""
