"""Finds the kernel's sources and the tools that build them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from weir.lab._errors import LabError

__all__ = ["PACKAGE", "Source", "find", "missing_tools", "provide"]

PACKAGE = "linux-source-6.12"
"""Debian's package of kernel sources that the lab is built from."""

VARIABLE = "WEIR_KERNEL_SOURCE"
_TOOLS = {
    **{name: name for name in ("bc", "bison", "flex", "gcc", "make", "patch", "perl")},
    "xz": "xz-utils",
}
"""Programs that the build calls, and their Debian packages."""
_LIBC = "/usr/lib/x86_64-linux-gnu/libc.a"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Source:
    """Kernel sources: a tarball, or an unpacked tree."""

    path: Path

    @property
    def is_tree(self) -> bool:
        """Whether they are unpacked already."""
        return self.path.is_dir()

    @property
    def identity(self) -> str:
        """Changes when the sources do."""
        about = self.path.stat()
        return f"{self.path.name} {about.st_size} {about.st_mtime_ns}"


def find() -> Source | None:
    """The sources: ``WEIR_KERNEL_SOURCE``, or Debian's package; ``None`` if there are none.

    Raises:
        LabError: the variable names a missing file.
    """
    if named := os.environ.get(VARIABLE):
        path = Path(named)
        if not path.exists():
            raise LabError(f"{VARIABLE} is {named!r}, which does not exist")
        return Source(path.absolute())
    found = Path("/usr/src").glob(f"{PACKAGE}.tar.*")
    return next((Source(path) for path in sorted(found) if path.suffix != ".patch"), None)


def missing_tools() -> list[str]:
    """Debian packages of the programs that the build lacks."""
    return [package for tool, package in _TOOLS.items() if shutil.which(tool) is None]


def provide(say: Say) -> Source:
    """The sources, and the tools to build them; as root on Debian, installs missing ones.

    Raises:
        LabError: something is missing and cannot be installed.
    """
    source = find()
    wanted = missing_tools() + ([PACKAGE] if source is None else [])
    if wanted:
        if not _may_install():
            raise LabError(_ask_for(wanted))
        say(f"installing {', '.join(wanted)}")
        _install(wanted)
        source = find()
    if source is None:
        raise LabError(f"{PACKAGE} is installed, but /usr/src has no tarball of it; {VARIABLE} can name one")
    return source


def version_of(tree: Path) -> str:
    """The version of the unpacked sources, such as ``6.12.48``.

    Raises:
        LabError: these are no kernel sources.
    """
    try:
        text = (tree / "Makefile").read_text(encoding="utf-8")
    except OSError as error:
        raise LabError(f"{tree} holds no kernel sources: {error.strerror}") from error
    parts = [re.search(rf"^{name} = (\d+)$", text, re.MULTILINE) for name in ("VERSION", "PATCHLEVEL", "SUBLEVEL")]
    if None in parts:
        raise LabError(f"{tree}/Makefile is not the one of a kernel")
    return ".".join(match[1] for match in parts if match)


def _may_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def _ask_for(packages: list[str]) -> str:
    return (
        f"missing: {', '.join(packages)}. Install them (sudo apt-get install {' '.join(packages)}) and try again; "
        f"{VARIABLE} can name kernel sources elsewhere, a tarball or an unpacked tree"
    )


def _install(packages: list[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages]
    for command in (install, ["apt-get", "update", "-q"], install):
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )
        if done.returncode == 0 and command is install:
            return
    raise LabError(f"{' '.join(install)} failed:\n{done.stderr.strip()}\n{_ask_for(packages)}")
