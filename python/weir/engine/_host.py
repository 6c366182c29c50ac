"""Facts about this machine and this installation, for manifests."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import weir

__all__ = ["available_bytes", "commit", "facts", "load_warning", "versions"]

_LIBRARIES = ("pyarrow", "numpy", "polars", "altair", "ruamel.yaml")


def versions() -> dict[str, str]:
    """Versions of weir, of its build tools and of its runtime."""
    from weir import _weir

    found = {"weir": weir.__version__, **{f"build.{k}": v for k, v in _weir.build_info().items()}}
    found["python"] = platform.python_version()
    for library in _LIBRARIES:
        try:
            found[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """The git commit that weir runs from, with ``+`` if the tree was changed; ``None`` outside a checkout."""
    folder = Path(weir.__file__).parent
    head = _git(folder, "rev-parse", "HEAD")
    if head is None:
        return None
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ":/crates", ":/cc", ":/python")
    return head + ("+" if changed else "")


def history() -> frozenset[str]:
    """The commits of the checkout that weir runs from, up to the present one; empty if it does not have them all."""
    folder = Path(weir.__file__).parent
    if _git(folder, "rev-parse", "--is-shallow-repository") != "false":
        return frozenset()
    return frozenset((_git(folder, "rev-list", "HEAD") or "").split())


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), "--no-optional-locks", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def facts() -> dict[str, Any]:
    """Kernel, processor, memory and load of this machine."""
    uname = platform.uname()
    return {
        "hostname": uname.node,
        "system": uname.system,
        "kernel": uname.release,
        "kernel_build": uname.version,
        "machine": uname.machine,
        "cpu_model": _first("/proc/cpuinfo", "model name") or uname.processor or uname.machine,
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load_1min": round(os.getloadavg()[0], 2),
    }


def _first(path: str, key: str) -> str | None:
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), None)


def available_bytes() -> int:
    """Memory that programs can still use without swapping."""
    line = _first("/proc/meminfo", "MemAvailable")
    return int(line.split()[0]) * 1024 if line else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


def load_warning(host: dict[str, Any]) -> str | None:
    """A warning if the machine is already busy: that affects results on a real clock, not on a virtual one."""
    if host["load_1min"] > 0.5 * host["cpus"]:
        return f"the machine was busy when the run began: load {host['load_1min']} on {host['cpus']} processors"
    return None
