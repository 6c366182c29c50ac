"""What a node says of itself: ``python _facts.py``, asked by JSON on standard input, answering with JSON.

It only reads: files of ``/proc`` and ``/sys``, answers of the kernel, and what ``ip``, ``tc`` and ``sudo -n -l`` print.
What it finds it passes on as it is (:mod:`weir.hosts.facts` understands it); what it does not find is ``null``. It
imports nothing of weir, and needs Python 3.8 only.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import getpass
import json
import os
import platform
import shutil
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["main"]

_MOST = 1 << 18
_COMMAND_S = 5.0
_MAX_INTERFACES = 64
_SIOCETHTOOL = 0x8946
_SETTINGS, _DRIVER, _TSO, _GSO, _GRO, _FLAGS = 0x1, 0x3, 0x1E, 0x23, 0x2B, 0x25
_LRO = 1 << 15

_FILES = {
    "kernel": "/proc/sys/kernel/osrelease",
    "system": "/etc/os-release",
    "cpu": "/proc/cpuinfo",
    "memory": "/proc/meminfo",
    "controls": "/proc/sys/net/ipv4/tcp_available_congestion_control",
    "allowed": "/proc/sys/net/ipv4/tcp_allowed_congestion_control",
    "default_control": "/proc/sys/net/ipv4/tcp_congestion_control",
    "governor": "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "process": "/proc/self/status",
    "load": "/proc/loadavg",
    "clocksource": "/sys/devices/system/clocksource/clocksource0/current_clocksource",
}


def _read(path: str) -> str | None:
    try:
        with Path(path).open("rb") as file:
            return file.read(_MOST).decode("utf-8", "replace")
    except OSError:
        return None


def _run(*command: str) -> str | None:
    """What a command prints; ``None`` without it, or if it fails."""
    try:
        ran = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_COMMAND_S
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return ran.stdout[:_MOST].decode("utf-8", "replace") if ran.returncode == 0 else None


class _Timex(ctypes.Structure):
    """``struct timex`` of adjtimex(2), as far as it is read."""

    _fields_ = [
        ("modes", ctypes.c_int),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 256),
    ]


def _synchronised() -> dict[str, int] | None:
    """What keeps the clock in time, as the kernel knows it: state, status bits, greatest error in us."""
    about = _Timex()
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(about))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else {"state": state, "status": about.status, "maxerror_us": about.maxerror}


def _ethtool(name: str, request: bytes) -> bytes | None:
    """The answer of the kernel about an interface (ethtool(8) asks the same)."""
    buffer = array.array("B", request)
    address, _ = buffer.buffer_info()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            fcntl.ioctl(any_socket.fileno(), _SIOCETHTOOL, struct.pack("16sP", name.encode()[:15], address))
        except OSError:
            return None
    return buffer.tobytes()


def _value(name: str, command: int) -> int | None:
    answer = _ethtool(name, struct.pack("II", command, 0))
    return None if answer is None else int(struct.unpack("II", answer)[1])


def _speed(name: str) -> int | None:
    """Mbit/s; ``None`` where the device does not know."""
    answer = _ethtool(name, struct.pack("I40x", _SETTINGS))
    if answer is None:
        return None
    low, high = struct.unpack_from("H", answer, 12)[0], struct.unpack_from("H", answer, 28)[0]
    speed = low | high << 16
    return None if speed in {0, 0xFFFF, 0xFFFFFFFF} else int(speed)


def _driver(name: str) -> str | None:
    answer = _ethtool(name, struct.pack("I192x", _DRIVER))
    return None if answer is None else answer[4:36].split(b"\0")[0].decode("utf-8", "replace")


def _interface(name: str) -> dict[str, object]:
    flags = _value(name, _FLAGS)
    return {
        "speed_mbps": _speed(name),
        "driver": _driver(name),
        "tso": _value(name, _TSO),
        "gso": _value(name, _GSO),
        "gro": _value(name, _GRO),
        "lro": None if flags is None else int(bool(flags & _LRO)),
    }


def _modules(release: str) -> list[str]:
    """Modules of congestion controls and queues that this kernel could load, by file name."""
    found = []
    for kind, begin in (("ipv4", "tcp_"), ("sched", "sch_netem")):
        folder = Path("/lib/modules", release, "kernel/net", kind)
        with contextlib.suppress(OSError):
            found += [path.name.split(".")[0] for path in folder.iterdir() if path.name.startswith(begin)]
    return sorted(found)


def _disk(path: str) -> dict[str, object] | None:
    try:
        return {"path": path, "free_bytes": shutil.disk_usage(path).free, "writable": os.access(path, os.W_OK)}
    except OSError:
        return None


def _programs(wanted: dict[str, str]) -> dict[str, bool]:
    """Which programs of weir are in the cache, by name; ``wanted`` are their hashes."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "weir")
    return {name: Path(cache, f"{name}-{digest}").is_file() for name, digest in wanted.items()}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def main() -> None:
    """Answers."""
    asked = json.loads(sys.stdin.read() or "{}")
    path = os.environ.get("PATH", "")
    os.environ["PATH"] = path + ":/usr/local/sbin:/usr/sbin:/sbin"  # of others than root, too
    links = _run("ip", "-j", "-d", "address", "show")
    names = [name for _, name in socket.if_nameindex() if name != "lo"][:_MAX_INTERFACES]
    sudo = None if os.geteuid() == 0 else _run("sudo", "-n", "-l")
    found: dict[str, object] = {name: _read(place) for name, place in _FILES.items()}
    found.update(
        python=platform.python_version(),
        machine=platform.machine(),
        host=socket.gethostname(),
        user=_user(),
        uid=os.geteuid(),
        processors=len(os.sched_getaffinity(0)),
        links=links,
        qdiscs=_run("tc", "-j", "qdisc", "show"),
        interfaces={name: _interface(name) for name in names},
        ssh=os.environ.get("SSH_CONNECTION"),
        sudo=sudo,
        modules=_modules(platform.release()),
        btf=Path("/sys/kernel/btf/vmlinux").exists(),
        writable=os.access("/proc/sys/net/ipv4/tcp_rmem", os.W_OK),
        disks=[_disk("/tmp"), _disk(str(Path.home()))],
        tools={name: shutil.which(name) for name in asked.get("tools", ())},
        routes={there: _run("ip", "-j", "route", "get", there) for there in asked.get("peers", ())},
        parameters={name: _read("/proc/sys/" + name.replace(".", "/")) for name in asked.get("parameters", ())},
        programs=_programs(asked.get("programs", {})),
        synchronised=_synchronised(),
        ahead_ns=time.time_ns() - time.monotonic_ns(),
    )
    sys.stdout.buffer.write(json.dumps(found).encode())


if __name__ == "__main__":
    main()
