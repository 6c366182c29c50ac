"""The file view of a node: this machine's files below, and a layer of its own above, which is in memory.

All of it is in the node's mount namespace, so nothing of it is mounted for anybody else, and all of it is gone with the
node's last process.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from weir.testbed._linux import MountFlag, mount, swap_root

__all__ = ["HOST_KEY", "SSHD_CONFIG", "make_view", "write_files"]

HOST_KEY = "/etc/ssh/weir_host_ed25519_key"
SSHD_CONFIG = "/etc/ssh/weir_sshd_config"
_KERNEL = frozenset(
    {
        *("autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs"),
        *("fusectl", "hugetlbfs", "mqueue", "nsfs", "overlay", "proc", "pstore", "ramfs", "rpc_pipefs", "securityfs"),
        *("selinuxfs", "sysfs", "tmpfs", "tracefs"),
    }
)
"""File systems that hold no files of the machine, or none that a node should see."""
_OWN = ("/tmp", "/var/tmp", "/run")
_DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
_TUN = (10, 200)
_FIRST_USER = 1000
_ESCAPE = re.compile(r"\\([0-7]{3})")

_SSHD = f"""Port 22
ListenAddress 0.0.0.0
AddressFamily inet
HostKey {HOST_KEY}
PidFile none
UsePAM no
PermitRootLogin prohibit-password
AllowUsers {{users}}
AuthenticationMethods publickey
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
AuthorizedKeysFile .ssh/authorized_keys
UseDNS no
X11Forwarding no
PrintMotd no
MaxSessions 1000
MaxStartups 1000
Subsystem sftp internal-sftp
"""


def make_view(stage: str, disk_bytes: int) -> None:
    """Gives the calling process, which has a mount namespace of its own, the files of a node.

    ``stage`` is an empty folder; a file system of ``disk_bytes`` in memory is mounted there, for all that is written.

    Raises:
        OSError: the kernel refuses a mount.
    """
    mount("none", "/", None, MountFlag.RECURSIVE | MountFlag.PRIVATE)
    mount("tmpfs", stage, "tmpfs", MountFlag.NO_DEVICES, f"size={disk_bytes},mode=0755")
    place = Path(stage)
    for name in ("above", "work", "view"):
        (place / name).mkdir(mode=0o755)
    root = str(place / "view")
    os.chdir(stage)  # its path may have commas
    try:
        mount("overlay", root, "overlay", 0, "lowerdir=/,upperdir=above,workdir=work")
    except OSError as error:
        if error.errno == errno.ENODEV:
            raise OSError(error.errno, "the kernel has no overlayfs") from error
        raise
    for path in _further_mounts(stage):
        with contextlib.suppress(OSError):
            mount(path, root + path, None, MountFlag.BIND)
            mount("none", root + path, None, MountFlag.BIND | MountFlag.REMOUNT | MountFlag.READ_ONLY)
    for path in (*_OWN, _home()):
        _cover(place, root, path, 0o700 if path == _home() else 0o1777 if "tmp" in path else 0o755)
    _mount_kernel(root)
    _make_devices(root)
    swap_root(root)


def write_files(
    name: str, names: Mapping[str, str], key: str, user: str, host_key: str | None = None
) -> tuple[str, str]:
    """Writes the node's own files, when its view is the root; returns the public and the private key of its host.

    Args:
        name: Of the node.
        names: All names of the test bed, and their addresses.
        key: The public key that may log in.
        user: Who may log in besides root; an account of this name is made where this machine has none.
        host_key: The private key of its host; ``None``: a new one.

    Raises:
        OSError: one cannot be written.
        subprocess.SubprocessError: the host's key cannot be made.
    """
    _write("/etc/hostname", f"{name}\n")
    hosts = "".join(f"{address}\t{known}\n" for known, address in names.items())
    _write("/etc/hosts", f"127.0.0.1\tlocalhost\n{hosts}")
    _write("/etc/resolv.conf", "")
    accounts = {pwd.getpwuid(0).pw_name, user}
    for account in accounts:
        _admit(account, key)
    Path("/run/sshd").mkdir(mode=0o755)
    Path("/etc/ssh").mkdir(mode=0o755, exist_ok=True)
    _write(SSHD_CONFIG, _SSHD.format(users=" ".join(sorted(accounts))))
    if host_key is None:
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", HOST_KEY]
        subprocess.run(make, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    else:
        _write(HOST_KEY, host_key, 0o600)
        show = subprocess.run(["ssh-keygen", "-y", "-f", HOST_KEY], check=True, capture_output=True, text=True)
        _write(f"{HOST_KEY}.pub", show.stdout)
    public = " ".join(Path(f"{HOST_KEY}.pub").read_text(encoding="ascii").split()[:2])
    return public, Path(HOST_KEY).read_text(encoding="ascii")


def _home() -> str:
    return os.path.realpath(pwd.getpwuid(0).pw_dir)


def _write(path: str | Path, text: str, mode: int = 0o644) -> None:
    """Replaces a file, a link as well: what it leads to may be shared."""
    with contextlib.suppress(FileNotFoundError):
        Path(path).unlink()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(file, "w", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write(text)


def _admit(user: str, key: str) -> None:
    """Lets ``user`` log in with ``key``."""
    known = pwd.getpwall()
    if user not in {account.pw_name for account in known}:
        number = next(n for n in range(_FIRST_USER, 1 << 16) if n not in {account.pw_uid for account in known})
        with open("/etc/passwd", "a", encoding="utf-8") as passwd:  # noqa: PTH123 - appends
            passwd.write(f"{user}:x:{number}:{number}::/home/{user}:/bin/sh\n")
        with open("/etc/group", "a", encoding="utf-8") as group:  # noqa: PTH123
            group.write(f"{user}:x:{number}:\n")
    account = pwd.getpwnam(user)
    home = Path(account.pw_dir)
    if not home.exists():
        home.mkdir(mode=0o700, parents=True)
        os.chown(home, account.pw_uid, account.pw_gid)
    ssh = home / ".ssh"
    ssh.mkdir(mode=0o700, exist_ok=True)
    _write(ssh / "authorized_keys", f"{key}\n", 0o600)
    for path in (ssh, ssh / "authorized_keys"):
        os.chown(path, account.pw_uid, account.pw_gid)
    _unlock(user)


def _unlock(user: str) -> None:
    """A locked account cannot log in, not even with a key; without a password, one that is open needs the key."""
    shadow = Path("/etc/shadow")
    text = shadow.read_text(encoding="utf-8", errors="surrogateescape") if shadow.exists() else ""
    lines = text.splitlines()
    rest = [line for line in lines if line.partition(":")[0] != user]
    text = "\n".join([f"{user}:*:19000:0:99999:7:::", *rest]) + "\n"
    _write("/etc/shadow", text, 0o640)


def _cover(place: Path, root: str, path: str, mode: int) -> None:
    """Puts an empty folder of the node's own over ``path``."""
    own = place / path.strip("/").replace("/", "-")
    own.mkdir()
    own.chmod(mode)
    Path(root + path).mkdir(parents=True, exist_ok=True)
    mount(str(own), root + path, None, MountFlag.BIND)


def _further_mounts(stage: str) -> Iterator[str]:
    """Folders at which this machine has further file systems, outermost first."""
    hidden = (*_OWN, _home(), "/proc", "/sys", "/dev", stage)
    lines = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    seen = set()
    for line in lines:
        _, escaped, kind, *_ = line.split(" ")
        path = _ESCAPE.sub(lambda code: chr(int(code[1], 8)), escaped)
        covered = any(path == folder or path.startswith(f"{folder}/") for folder in hidden)
        if path != "/" and kind not in _KERNEL and not covered and path not in seen and Path(path).is_dir():
            seen.add(path)
            yield path


def _mount_kernel(root: str) -> None:
    """``/proc`` and ``/sys`` of the node's namespaces; of parameters, only those of its network can be changed."""
    quiet = MountFlag.NO_SUID | MountFlag.NO_DEVICES | MountFlag.NO_EXEC
    mount("proc", f"{root}/proc", "proc", quiet)
    read_only = MountFlag.BIND | MountFlag.REMOUNT | MountFlag.READ_ONLY | quiet
    for part in ("sys", "sysrq-trigger", "irq", "bus", "fs"):
        path = f"{root}/proc/{part}"
        if Path(path).exists():
            mount(path, path, None, MountFlag.BIND)
            if part == "sys":
                mount(f"{path}/net", f"{path}/net", None, MountFlag.BIND)
            mount("none", path, None, read_only)
    mount("sysfs", f"{root}/sys", "sysfs", quiet | MountFlag.READ_ONLY)
    if Path(f"{root}/sys/fs/bpf").is_dir():
        with contextlib.suppress(OSError):  # a kernel without it
            mount("bpf", f"{root}/sys/fs/bpf", "bpf", quiet, "mode=0700")


def _make_devices(root: str) -> None:
    """``/dev`` with what a program needs, and none of this machine's disks."""
    dev = f"{root}/dev"
    mount("tmpfs", dev, "tmpfs", MountFlag.NO_SUID, "size=64k,mode=0755")
    for name, (major, minor) in _DEVICES.items():
        _make_device(f"{dev}/{name}", major, minor)
    for name, target in _LINKS.items():
        Path(dev, name).symlink_to(target)
    for folder in ("pts", "shm", "net"):
        Path(dev, folder).mkdir(mode=0o755)
    _make_device(f"{dev}/net/tun", *_TUN)
    mount("devpts", f"{dev}/pts", "devpts", MountFlag.NO_SUID | MountFlag.NO_EXEC, "newinstance,ptmxmode=0666,mode=620")
    mount("tmpfs", f"{dev}/shm", "tmpfs", MountFlag.NO_SUID | MountFlag.NO_DEVICES, "size=64m,mode=1777")


def _make_device(path: str, major: int, minor: int) -> None:
    os.mknod(path, 0o020666, os.makedev(major, minor))
    Path(path).chmod(0o666)
