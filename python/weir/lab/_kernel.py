"""A lab kernel in the cache, with its modules and the programs that start it."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from weir import _cache, _owner, confine
from weir._weir import CcSources
from weir.lab import _recipe
from weir.lab._confined import foreign, make_confined
from weir.lab._errors import LabError
from weir.lab._files import cache, congestion_controls, digest, require_own_cache, sources
from weir.lab._xstate import measure

__all__ = [
    "ABOUT",
    "BUILT_IN",
    "HEADERS",
    "KERNEL",
    "PROTOCOLS",
    "Control",
    "Kernel",
    "find",
    "registered",
    "unavailable",
]

ABOUT = "about.json"
HEADERS = "headers"
KERNEL = "linux"
PROTOCOLS = "protocols"
"""The folder of the kernel's own modules."""
_FORMAT = 1

_WATCH_DIVISIONS = "-fsanitize=integer-divide-by-zero"
"""Makes the compiler call ``lab/guest/division`` for a division by zero."""

BUILT_IN = (
    *("reno", "bic", "cubic", "highspeed", "htcp", "scalable", "vegas", "veno", "westwood"),
    *("yeah", "illinois", "hybla", "cdg", "nv", "lp", "dctcp", "bbr"),
)
"""The kernel's own congestion controls that the configuration builds."""


@dataclass(frozen=True)
class Control:
    """A congestion control of weir, to be built as a kernel module."""

    name: str
    """Its identifier in C."""
    source: Path
    prefix: str = "weir_"
    """Prefix of the identifier in the control's name in the kernel."""

    @property
    def kernel_name(self) -> str:
        """The name of the control, and of its module, in the kernel."""
        return self.prefix + self.name

    @classmethod
    def of(cls, source: Path, prefix: str = "weir_") -> Control:
        """The congestion control in the C file ``source``.

        Raises:
            LabError: it registers none.
        """
        try:
            text = source.read_text(encoding="utf-8")
        except OSError as error:
            raise LabError(f"{source}: {error.strerror}") from error
        found = re.search(r"^WEIR_CC_REGISTER\((\w+),", text, re.MULTILINE)
        if found is None:
            raise LabError(f"{source} has no line WEIR_CC_REGISTER(...): it is no congestion control of weir")
        return cls(found[1], source, prefix)


def registered() -> dict[str, Path]:
    """The sources of the congestion controls in ``cc``, by their name in plans.

    Raises:
        LabError: this installation has none.
    """
    folder = congestion_controls()
    lines = (folder / "registry.txt").read_text(encoding="utf-8").splitlines()
    names = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return {name: folder / name / f"{name}.c" for name in names}


@dataclass(frozen=True)
class _Module:
    """A kernel module to be built."""

    name: str
    sources: tuple[Path, ...]
    """One C file, or all files of a larger module, none of which has the module's name."""
    place: Path
    """The folder for the result."""
    flags: str = ""
    """Compiler flags of a module of one file."""
    watched: Path | None = None
    """The checker of divisions by zero in a module of one file; ``None``: no checks."""

    @property
    def file(self) -> Path:
        """The module, when it was built."""
        return self.place / f"{self.name}.ko"

    control: CcSources | None = None
    """The hashed sources of a user's congestion control."""

    def lay_out(self, folder: Path) -> list[str]:
        """Copies its sources to ``folder``; returns the lines of a Kbuild that builds it there."""
        made = f"obj-m += {self.name}.o"
        if self.watched is not None and self.control is not None:
            return [made, *self._lay_out_watched(folder, self.watched, self.control)]
        if len(self.sources) == 1:
            shutil.copy2(self.sources[0], folder / f"{self.name}.c")
            return [made, f"CFLAGS_{self.name}.o := {self.flags}"]
        for path in self.sources:
            shutil.copy2(path, folder)
        objects = " ".join(f"{path.stem}.o" for path in self.sources if path.suffix == ".c")
        return [made, f"{self.name}-y := {objects}"]

    def _lay_out_watched(self, folder: Path, watch: Path, control: CcSources) -> list[str]:
        main, beside, headers = f"{self.name}-main", f"{self.name}-{watch.stem}", folder / f"{self.name}-headers"
        (source,) = self.sources
        # The compiler's messages name the user's file, not its copy.
        (folder / f"{main}.c").write_bytes(f"#line 1 {json.dumps(str(source))}\n".encode() + control.main)
        headers.mkdir()
        for name, content in control.headers:
            (headers / name).parent.mkdir(parents=True, exist_ok=True)
            (headers / name).write_bytes(content)
        shutil.copy2(watch, folder / f"{beside}.c")
        flags = f"{self.flags} {_WATCH_DIVISIONS} -iquote {headers}"
        return [f"{self.name}-y := {main}.o {beside}.o", f"CFLAGS_{main}.o := {flags}"]


@dataclass(frozen=True)
class Kernel:
    """A built kernel."""

    folder: Path
    about: Mapping[str, Any]

    @classmethod
    def at(cls, folder: Path) -> Kernel | None:
        """The kernel in ``folder``, if there is one."""
        try:
            about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if about.get("format") != _FORMAT or not os.access(folder / KERNEL, os.X_OK):
            return None
        return cls(folder, about)

    @property
    def binary(self) -> Path:
        """The kernel's executable."""
        return self.folder / KERNEL

    @property
    def cache_of_modules(self) -> Path:
        """The cache folder of its modules; it need not exist."""
        return self.folder / "modules"

    @property
    def version(self) -> str:
        """Version of its sources."""
        return str(self.about["version"])

    @cached_property
    def guard(self) -> Path:
        """The program that starts a lab and cleans up after it (``lab/host/guard``).

        Raises:
            LabError: it cannot be compiled.
        """
        return _program("host/guard")

    @cached_property
    def init(self) -> Path:
        """The first process of a lab (``lab/guest/init``).

        Raises:
            LabError: it cannot be compiled.
        """
        return _program("guest/init")

    @cached_property
    def wire(self) -> Path:
        """The module of the links of a plan (``lab/guest/wire``); built if the cache lacks it.

        Raises:
            LabError: it does not compile.
        """
        files = sorted((sources() / "guest" / "wire").glob("*.[ch]"))
        parts = [part for path in files for part in (path.name.encode(), path.read_bytes())]
        module = _Module("wire", tuple(files), self.cache_of_modules / digest(["wire", *parts]))
        if not module.place.is_dir():
            self._build([module], ())
        return module.file

    def protocol(self, name: str) -> list[Path]:
        """The kernel's own modules of the protocol ``name``, in the order in which they must be loaded.

        Raises:
            LabError: the kernel has no such module.
        """
        found: list[Path] = []
        self._add_protocol(name, found)
        return found

    def _add_protocol(self, name: str, found: list[Path]) -> None:
        """Adds the module ``name`` after those that it depends on."""
        path = self.folder / PROTOCOLS / f"{name}.ko"
        try:
            depends = re.search(rb"\0depends=([a-z0-9_,]*)\0", b"\0" + path.read_bytes())
        except OSError as error:
            raise LabError(
                f"the lab kernel has no module {name} ({error.strerror}); `weir lab build --again`"
            ) from None
        for other in depends[1].decode().split(",") if depends is not None else ():
            if other and not any(module.stem == other for module in found):
                self._add_protocol(other, found)
        found.append(path)

    def modules(self, wanted: Iterable[Control]) -> dict[Control, Path]:
        """The kernel module of each congestion control; missing ones are built together.

        Raises:
            LabError: one does not compile.
        """
        headers = congestion_controls()
        shared = [path.read_bytes() for path in sorted(headers.glob("*/*.h"))]
        modules = {control: self._module(control, shared) for control in wanted}
        missing = [module for module in modules.values() if not module.place.is_dir()]
        if missing:
            self._build(missing, (headers / "include",))
        return {control: module.file for control, module in modules.items()}

    def files(self) -> dict[str, Path]:
        """What another machine needs to start labs with the registered congestion controls, by their places below the
        folder of all caches; built if the cache lacks it.

        Raises:
            LabError: something does not compile.
        """
        modules = self.modules(Control.of(source) for source in registered().values())
        protocols = (self.folder / PROTOCOLS).glob("*.ko")
        paths = [self.folder / ABOUT, self.binary, self.guard, self.init, self.wire, *modules.values(), *protocols]
        return {path.relative_to(_cache.base().parent).as_posix(): path for path in paths}

    def _module(self, control: Control, shared: Sequence[bytes]) -> _Module:
        """The module of ``control``; a user's own gets checks of divisions. ``shared`` are all headers."""
        flags = f"-DWEIR_KERNEL_PREFIX='\"{control.prefix}\"'"
        parts: list[str | bytes] = [control.kernel_name, *shared]
        if congestion_controls() in control.source.absolute().parents:
            place = self.cache_of_modules / digest([*parts, control.source.read_bytes()])
            return _Module(control.kernel_name, (control.source,), place, flags)
        try:
            found = CcSources(control.source)
        except ValueError as error:
            raise LabError(str(error)) from None
        watch = sources() / "guest" / "division" / "division.c"
        headers = [part for name, content in found.headers for part in (os.fsencode(name), content)]
        parts += [_WATCH_DIVISIONS, watch.read_bytes(), found.main, *headers]
        place = self.cache_of_modules / digest(parts)
        return _Module(control.kernel_name, (control.source,), place, flags, watch, found)

    def _build(self, wanted: Sequence[_Module], include: Iterable[Path]) -> None:
        """Builds modules, all with the headers in ``include``, and moves them to their places."""
        self.cache_of_modules.mkdir(exist_ok=True)
        with _owner.temporary_folder(self.folder, "modules-") as folder:
            lines = [f"ccflags-y := {' '.join(f'-I{path}' for path in include)}"]
            for module in wanted:
                lines += module.lay_out(folder)
            (folder / "Kbuild").write_text("\n".join(lines) + "\n", encoding="utf-8")
            make = ["make", "-C", str(self.folder / HEADERS), "ARCH=um", f"M={folder}", "modules"]
            files = ", ".join(str(path) for module in wanted for path in module.sources)
            make_confined(
                make, folder, (self.folder / HEADERS, *include), f"for the lab kernel, {files} cannot be compiled"
            )
            for module in wanted:
                self._refuse_foreign(module, folder)
                ready = folder / f"{module.name}.d"
                ready.mkdir()
                (folder / f"{module.name}.ko").rename(ready / f"{module.name}.ko")
                _move(ready, module.place)

    def _refuse_foreign(self, module: _Module, folder: Path) -> None:
        """Raises LabError if a user's module was built from a file that its hash does not cover."""
        if module.control is None:
            return
        rule = folder / f".{module.name}-main.o.cmd"
        if (path := foreign(rule, (folder, self.folder / HEADERS, congestion_controls()))) is not None:
            raise LabError(
                f"{module.sources[0]}: it includes {path}, that is neither below the folder of the source nor the "
                "kernel's: put it beside the source"
            )


def find() -> Kernel | None:
    """The newest kernel in the cache for this machine and this version of weir.

    Raises:
        LabError: the machine does not permit tracing, so that no kernel could run.
    """
    require_own_cache()
    recipe = _recipe.recipe(measure())
    kernels = [Kernel.at(folder) for folder in cache().glob("*") if folder.is_dir()]
    fitting = [kernel for kernel in kernels if kernel is not None and kernel.about["recipe"] == recipe]
    return max(fitting, key=lambda kernel: str(kernel.about["built"]), default=None)


def unavailable() -> str | None:
    """Why no lab can be used on this machine; ``None`` if one can."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return f"it needs Linux on x86-64; this is {platform.system()} on {platform.machine()}"
    try:
        if (state := confine.state()).kind == "none":
            return f"it cannot be confined here: {state.why} ({confine.UNCONFINED}=1 runs it all the same)"
        if find() is None:
            return "the lab kernel is not built; `weir lab build` (or `make lab`) builds it in minutes"
    except LabError as error:
        return str(error)
    return None


def _program(source: str) -> Path:
    """A statically linked program of ``lab``, from a file or a folder; compiled if the cache lacks it."""
    require_own_cache()
    path = sources() / source
    files = sorted(path.glob("*.[ch]")) if path.is_dir() else [path]
    final = cache() / "programs" / digest([file.read_bytes() for file in files]) / path.stem
    if not final.is_file():
        final.parent.parent.mkdir(parents=True, exist_ok=True)
        with _owner.temporary_folder(final.parent.parent, "program-") as folder:
            ready = folder / "ready"
            ready.mkdir()
            c_files = [str(file) for file in files if file.suffix == ".c"]
            _compile(
                ["gcc", "-O2", "-static", "-Wall", "-o", str(ready / path.stem), *c_files], f"{path} does not compile"
            )
            _move(ready, final.parent)
    return final


def _move(ready: Path, final: Path) -> None:
    """Moves a folder into its place, unless another process was faster."""
    try:
        ready.rename(final)
    except OSError:
        if not final.is_dir():
            raise


def _compile(command: Sequence[str], problem: str) -> None:
    try:
        done = subprocess.run(
            command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False
        )
    except FileNotFoundError as error:
        raise LabError(f"{command[0]} is missing, which the lab is built with; install gcc and make") from error
    if done.returncode:
        raise LabError(f"{problem}:\n{done.stdout.strip()}")
