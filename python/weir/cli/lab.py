"""``weir lab``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from weir.cli import _errors
from weir.cli._common import (
    console,
    emit_json,
    error_console,
    examples,
    json_option,
    renamed,
    say,
    time_option,
    unconfined_option,
)

if TYPE_CHECKING:
    from weir.lab import Kernel, Lab, Script, Settings

__all__ = ["command"]

_EPILOG = examples(
    ("weir lab build", "build it once, in some minutes"),
    ("weir lab status", "what the lab has, or why there is none"),
    ("weir lab exec -- uname -a", "run any program of this machine in virtual time"),
    ("weir lab shell", "start a shell inside"),
)


@click.group(epilog=_EPILOG)
def command() -> None:
    """Build and use the lab: the real Linux kernel as an ordinary program, in virtual time, without root.

    Programs inside see this machine's files, but cannot change them, except in one folder that you name. They do not
    see devices, secrets and the dot files of your home. This machine's kernel enforces this, not the lab's.
    """


_BUILD = examples(
    ("weir lab build", "as root on Debian, install the kernel's sources first"),
    ("WEIR_KERNEL_SOURCE=linux-source-6.12.tar.xz weir lab build", "build from a tarball or an unpacked tree"),
)


@command.command(epilog=_BUILD)
@click.option("-j", "--workers", type=click.IntRange(1), help="Number of compilers. Default: one for each processor.")
@click.option("--fresh", is_flag=True, help="Build even if a kernel exists.")
@renamed("--jobs", "--workers")
@renamed("--again", "--fresh", flag=True)
def build(workers: int | None, fresh: bool) -> None:
    """Build the lab kernel from Debian's kernel sources, for this machine's processors, in some minutes."""
    from weir import lab

    if (why := _cannot_build()) is not None:
        raise lab.LabError(f"the lab cannot be built here: {why}")
    kernel = lab.build(_Progress(), again=fresh, jobs=workers)
    console().print(f"the lab kernel {kernel.version} is ready: {kernel.folder}")


def _cannot_build() -> str | None:
    import platform

    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return f"it needs Linux on x86-64; this is {platform.system()} on {platform.machine()}"
    return None


class _Progress:
    """Prints the present step: one line that is rewritten on a terminal, a line per step elsewhere."""

    _EVERY_S = 20.0

    def __init__(self) -> None:
        self._text = ""
        self._told_s = 0.0

    def __call__(self, text: str, share: float | None) -> None:
        shown = text if share is None else f"{text}: {share:.0%}"
        now = time.monotonic()
        if sys.stderr.isatty():
            from rich.control import Control
            from rich.segment import ControlType

            end = "" if share is not None else "\n"
            error_console().print(Control((ControlType.CARRIAGE_RETURN,), (ControlType.ERASE_IN_LINE, 0)), end="")
            error_console().print(shown, end=end)
            if share is None and self._text:
                say(err=True)
        elif text != self._text or now - self._told_s > self._EVERY_S:
            self._told_s = now
            say(shown, err=True)
        self._text = text


@command.command(epilog=examples(("weir lab status", "for people"), ("weir lab status --json", "for programs")))
@json_option
def status(as_json: bool) -> None:
    """Show what the lab has, or why there is none. Exits with 1 if there is none."""
    from weir import lab

    why = lab.unavailable()
    kernel = None if why else lab.find()
    if as_json:
        emit_json(_facts(kernel, why))
    elif kernel is None:
        console().print(f"there is no lab: {why}")
    else:
        for name, value in _facts(kernel, why).items():
            console().print(f"{name.replace('_', ' '):<22} {', '.join(value) if isinstance(value, list) else value}")
    if kernel is None:
        raise click.exceptions.Exit(_errors.FAILED)


def _facts(kernel: Kernel | None, why: str | None) -> dict[str, object]:
    from weir import lab

    if kernel is None:
        return {"ready": False, "why": why}
    return {
        "ready": True,
        "kernel": kernel.version,
        "folder": str(kernel.folder),
        "built": kernel.about["built"],
        "source": kernel.about["source"],
        "compiler": kernel.about["compiler"],
        "state_bytes": kernel.about["xstate_bytes"],
        "congestion_controls": list(lab.registered()),
        "of_the_kernel": [f"linux:{name}" for name in lab.BUILT_IN],
    }


_EXEC = examples(
    ("weir lab exec -- sleep 3600", "return at once, because nothing happens meanwhile"),
    ("weir lab exec --write . -- sh -c 'tc qdisc > queues.txt'", "allow writing into this folder"),
    ("weir lab exec --seed 7 -- ./experiment.sh", "give the same randomness every time"),
)


def _options(function: Callable[..., None]) -> Callable[..., None]:
    folder = click.Path(exists=True, file_okay=False, path_type=Path)
    write = click.option("--write", type=folder, help="The only writable folder.")
    seed = click.option("--seed", type=int, help="Seed of the guest's randomness. Default: the host's randomness.")
    memory = click.option(
        "--memory", type=click.IntRange(64), default=1024, show_default=True, help="Memory of the guest in megabytes."
    )
    return write(seed(memory(unconfined_option(function))))


def _clock_option(default: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    text = "The guest's clock. In virtual time every wait ends at once, even at a prompt; real is the host's clock."
    return click.option(
        "--clock", type=click.Choice(["virtual", "real"]), default=default, show_default=True, help=text
    )


@command.command("exec", epilog=_EXEC, context_settings={"allow_interspersed_args": False})
@_options
@click.option("--stdin", "with_input", is_flag=True, help="Pass on standard input, which is read beforehand.")
@time_option("--max-time", "limit", "End the command after this wall time, with code 124.")
@_clock_option("virtual")
@renamed("--limit", "--max-time")
@renamed("--real-time", "--clock real", flag=True)
@click.argument("arguments", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_(
    write: Path | None,
    seed: int | None,
    memory: int,
    with_input: bool,
    limit: float | None,
    clock: str,
    arguments: tuple[str, ...],
) -> None:
    """Run COMMAND, any program of this machine, in the lab, and pass on its output and exit code."""
    from weir.lab import Settings

    script = _script(write)
    if with_input:
        script.inputs["stdin"] = sys.stdin.buffer.read()
    script.add("exec", *arguments)
    code = _run(script, Settings(seed=seed, memory_mb=memory, virtual=clock == "virtual"), limit)
    raise click.exceptions.Exit(code)


def _script(write: Path | None) -> Script:
    from weir.lab import Script

    script = Script()
    if write is not None:
        script.add("rw", str(write.resolve()))
    script.add("cd", str(Path.cwd()))
    return script


def _kernel() -> Kernel:
    from weir import lab

    kernel = lab.find() if (why := lab.unavailable()) is None else None
    if kernel is None:
        raise lab.LabError(f"there is no lab here: {why}")
    return kernel


_TIMED_OUT = 124


def _run(script: Script, settings: Settings, limit: float | None) -> int:
    from weir.lab import Lab

    begin = time.monotonic()
    with Lab(_kernel(), script, settings) as lab:
        copy = _Copier(lab)
        while not lab.over():
            if limit is not None and time.monotonic() - begin > limit:
                error_console().print(
                    f"weir: ended after {limit:g} s of wall time, at {lab.now_ns / 1e9:.1f} s of its own"
                )
                return _TIMED_OUT
            if not copy():
                time.sleep(0.01)
        copy()
        return lab.exit_code()


class _Copier:
    """Forwards the command's output."""

    def __init__(self, lab: Lab) -> None:
        self._streams: Sequence[tuple[str, BinaryIO]] = (("stdout", sys.stdout.buffer), ("stderr", sys.stderr.buffer))
        self._tails = [(lab.output(name), out) for name, out in self._streams]
        self._buffer = bytearray(1 << 16)

    def __call__(self) -> int:
        """Forwards the available output; returns the number of bytes."""
        total = 0
        for tail, out in self._tails:
            while count := tail.read_now(self._buffer):
                out.write(self._buffer[:count])
                total += count
            out.flush()
        return total


@command.command(
    epilog=examples(
        ("weir lab shell", "start a shell; `exit` leaves it"), ("weir lab shell --write .", "allow writing here")
    )
)
@_options
@_clock_option("real")
@renamed("--virtual", "--clock virtual", flag=True)
def shell(write: Path | None, seed: int | None, memory: int, clock: str) -> None:
    """Start a shell in the lab. Its clock is the host's, unless --clock asks for virtual time."""
    from weir.lab import Lab, Settings

    if not sys.stdin.isatty():
        raise click.UsageError("a shell needs a terminal; `weir lab exec -- COMMAND` does not")
    script = _script(write)
    script.add("env", f"TERM={os.environ.get('TERM', 'dumb')}")
    script.add("env", "PS1=lab:\\w\\$ ")
    script.add("shell", *(("/bin/bash", "--norc") if Path("/bin/bash").exists() else ("/bin/sh",)))
    with Lab(
        _kernel(), script, Settings(seed=seed, memory_mb=memory, virtual=clock == "virtual", terminal=True)
    ) as lab:
        lab.wait()
        raise click.exceptions.Exit(lab.exit_code())
