"""A real SSH server on this machine's loopback, with keys of its own, and nodes of inventories that it serves."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from weir.inventory import Node

SSHD = Path("/usr/sbin/sshd")
_PATIENCE_S = 20.0
# The server wants /run/sshd, which a system makes that starts one; here a file view of its own has it.
_WITH_RUN = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /run && mkdir /run/sshd && exec "$@"', "sh")


@dataclass
class Server:
    """A server and the files of its clients; ``node()`` is a node that it serves."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    words: list[str] = field(default_factory=list)

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known hosts"  # a space, to see that it is no end of a path

    def node(self, name: str = "a1", **changes: Any) -> Node:
        about: dict[str, Any] = {
            "name": name,
            "set": "A",
            "address": "127.0.0.1",
            "port": self.port,
            "user": getpass.getuser(),
            "key": str(self.folder / "client"),
            "known_hosts": str(self.known_hosts),
        }
        return Node(**{**about, **changes})

    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def sessions(self) -> set[int]:
        """Processes that serve connections."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="ascii")
        return {int(pid) for pid in children.split()}

    def start(self) -> None:
        command = [str(SSHD), "-D", "-e", "-f", str(self.folder / "config")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*(_WITH_RUN if os.geteuid() == 0 else ()), *command], stdin=subprocess.DEVNULL, stderr=log
            )
        deadline = time.monotonic() + _PATIENCE_S
        while not listens(self.port):
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.01)

    def stop(self) -> None:
        """Ends the server; connections that it has served already have processes of their own."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def make_key(path: Path) -> str:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path], check=True)
    return path.with_name(f"{path.name}.pub").read_text(encoding="utf-8").strip()


@contextlib.contextmanager
def server(folder: Path, more: Sequence[str] = ()) -> Iterator[Server]:
    """Serves on a loopback port; skips where there is no server."""
    if not SSHD.exists() or shutil.which("ssh-keygen") is None:
        pytest.skip("no SSH server: install openssh-server")
    folder.mkdir(parents=True, exist_ok=True)
    made = Server(folder, free_port())
    host = make_key(folder / "host")
    (folder / "authorized").write_text(make_key(folder / "client") + "\n", encoding="utf-8")
    made.known_hosts.write_text(f"[127.0.0.1]:{made.port} {host}\n", encoding="utf-8")
    config = [
        f"Port {made.port}",
        "ListenAddress 127.0.0.1",
        f"HostKey {folder / 'host'}",
        f"AuthorizedKeysFile {folder / 'authorized'}",
        "PidFile none",
        "StrictModes no",
        "UsePAM no",
        "PasswordAuthentication no",
        "PermitRootLogin prohibit-password",
        "PrintMotd no",
        "MaxSessions 10",
        *more,
    ]
    (folder / "config").write_text("\n".join(config) + "\n", encoding="utf-8")
    made.start()
    try:
        yield made
    finally:
        made.stop()
