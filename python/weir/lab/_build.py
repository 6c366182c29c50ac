"""Builds the lab kernel, and keeps it in the cache."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from weir import _owner
from weir._remove import remove_quietly, remove_tree
from weir.lab import _recipe, _source
from weir.lab._errors import LabError
from weir.lab._files import cache, digest, require_own_cache
from weir.lab._kernel import ABOUT, HEADERS, KERNEL, PROTOCOLS, Control, Kernel, registered
from weir.lab._xstate import measure

__all__ = ["Report", "build"]

Report = Callable[[str, float | None], None]
"""Receives the present step, and the share that is done, if known."""

_NEED_BYTES = 3_000_000_000
_OBJECTS = 820
"""Approximate number of compiled files, for the progress only."""
_NICE = 10


def build(report: Report, *, again: bool = False, jobs: int | None = None) -> Kernel:
    """Builds the kernel for this machine, or finds an earlier build. A build takes minutes.

    Args:
        report: receives the progress.
        again: builds even if a kernel exists.
        jobs: number of concurrent compilers; by default one per processor.

    Raises:
        LabError: it cannot be built here; the message says why and what to do.
        OSError: the cache cannot be written.
    """
    xstate_bytes = measure()
    require_own_cache()
    recipe = _recipe.recipe(xstate_bytes)
    source = _source.provide(lambda text: report(text, None))
    final = cache() / digest([recipe, source.identity, _compiler()])
    with _locked(report):
        if not again and (found := Kernel.at(final)) is not None:
            return _complete(found, report)
        with _workshop() as folder:
            begin = time.monotonic()
            tree = _unpack(source, folder, report)
            _prepare(tree, xstate_bytes, report)
            _compile(tree, jobs or len(os.sched_getaffinity(0)), report)
            about = {
                "format": 1,
                "recipe": recipe,
                "xstate_bytes": xstate_bytes,
                "version": _source.version_of(tree),
                "source": source.path.name,
                "compiler": _compiler(),
                "built": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "build_s": round(time.monotonic() - begin),
            }
            report("collecting the results", None)
            _collect(tree, folder / "done", about)
            if final.exists():
                remove_tree(final)
            (folder / "done").rename(final)
    kernel = Kernel.at(final)
    if kernel is None:
        raise LabError(f"the kernel was built, but {final} does not hold it; build it again")
    return _complete(kernel, report)


def _complete(kernel: Kernel, report: Report) -> Kernel:
    """Builds the kernel's companions, so that later no compiler is needed until a source changes."""
    report("building the modules and programs of weir", None)
    _ = kernel.guard, kernel.init, kernel.wire
    kernel.modules(Control.of(source) for source in registered().values())
    return kernel


def _compiler() -> str:
    done = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=False)
    return done.stdout.partition("\n")[0]


@contextlib.contextmanager
def _locked(report: Report) -> Iterator[None]:
    """Holds the lock of builds; removes the remains of killed ones."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "lock").open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting for another build to end", None)
            fcntl.flock(file, fcntl.LOCK_EX)
        for left in cache().glob("build-*"):
            if _owner.find(left.name, "build-", suffix="") is not None:
                remove_quietly(left)
        yield


@contextlib.contextmanager
def _workshop() -> Iterator[Path]:
    free = shutil.disk_usage(cache()).free
    if free < _NEED_BYTES:
        raise LabError(
            f"{cache()} has {free / 1e9:.1f} GB free; building a kernel takes {_NEED_BYTES / 1e9:.0f} GB for a while. "
            "XDG_CACHE_HOME can name a folder elsewhere"
        )
    with _owner.temporary_folder(cache(), "build-") as folder:
        yield folder


def _unpack(source: _source.Source, folder: Path, report: Report) -> Path:
    """A writable copy of the sources."""
    tree = folder / "linux"
    tree.mkdir()
    report(f"unpacking {source.path.name}", None)
    if source.is_tree:
        shutil.copytree(source.path, tree, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git"))
    else:
        # Device trees and the tools' tests are a fifth of it, and are not needed.
        left_out = ["--exclude=*/boot/dts", "--exclude=*/tools/testing"]
        _run(["tar", "-xf", str(source.path), "-C", str(tree), "--strip-components=1", *left_out], folder)
    return tree


def _prepare(tree: Path, xstate_bytes: int, report: Report) -> None:
    report("configuring", None)
    for patch in _recipe.patches():
        _recipe.apply(patch, tree)
    (tree / _recipe.STATE).write_text(_recipe.state(xstate_bytes), encoding="utf-8")
    options = _recipe.config(xstate_bytes)
    fragment = tree.parent / "fragment"
    fragment.write_text(options, encoding="utf-8")
    _make(tree, "allnoconfig", f"KCONFIG_ALLCONFIG={fragment}")
    refused = _recipe.refused(options, (tree / ".config").read_text(encoding="utf-8"))
    if refused:
        raise LabError(f"these kernel sources do not know, or do not allow: {', '.join(refused)}")


def _compile(tree: Path, jobs: int, report: Report) -> None:
    command = [*_leash(), "nice", "-n", str(_NICE), "make", "ARCH=um", f"-j{jobs}", "linux", "modules"]
    log: list[str] = []
    done = 0
    with subprocess.Popen(
        command, cwd=tree, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            log.append(line)
            if re.match(r" +(?:CC|AS) ", line):
                done += 1
                report("compiling the kernel", min(0.99, done / _OBJECTS))
    if process.returncode:
        raise LabError(_failure(command, "".join(log), tree.parent))


_FOR_MODULES = (
    "Makefile",
    ".config",
    "Module.symvers",
    "include",
    "scripts",
    "arch/um/Makefile*",
    "arch/um/include",
    "arch/um/scripts",
    "arch/x86/Makefile.um",
    "arch/x86/include",
    "arch/x86/um/Makefile",
    "arch/x86/um/shared",
    "arch/x86/um/asm",
)
"""Parts of the tree that a module's build needs; patterns, some of which match nothing in some kernels."""


def _collect(tree: Path, folder: Path, about: dict[str, object]) -> None:
    """Copies the kernel, and the parts for building modules."""
    headers = folder / HEADERS
    headers.mkdir(parents=True)
    for pattern in _FOR_MODULES:
        for path in sorted(tree.glob(pattern)):
            place = headers / path.relative_to(tree)
            place.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, place, symlinks=True, ignore=shutil.ignore_patterns("*.o", "*.cmd", "dtc"))
            else:
                shutil.copy2(path, place)
    _run(["strip", "-o", str(folder / KERNEL), str(tree / "linux")], tree.parent)
    protocols = folder / PROTOCOLS
    protocols.mkdir()
    for path in sorted(tree.glob("net/*/*.ko")):
        _run(["strip", "--strip-debug", "-o", str(protocols / path.name), str(path)], tree.parent)
    (folder / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def _make(tree: Path, *targets: str) -> None:
    _run([*_leash(), "make", "-C", str(tree), "ARCH=um", *targets], tree.parent)


def _leash() -> list[str]:
    """Prefix of a command that ends it when this process is killed; make ends its compilers itself."""
    return ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode:
        raise LabError(_failure(command, done.stdout, folder))


def _failure(command: Sequence[str], log: str, folder: Path) -> str:
    """The message about a failed command; the cache keeps its whole output."""
    kept = cache() / "build.log"
    kept.write_text(log, encoding="utf-8")
    last = "\n".join(log.strip().splitlines()[-15:])
    return f"{' '.join(command[:4])} ... failed in {folder}:\n{last}\nThe whole output: {kept}"
