"""Attempts of a malicious program: ``python attempts.py ARENA PID SECRET NAME...`` makes each.

Prints a JSON object: the result of each attempt, ``done`` or the reason of its failure. ARENA has two folders,
``inside``, which is writable, and ``outside``, with a folder for each attempt; PID is a process outside. Imports only
Python's standard library, because it has to run confined.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import mmap
import os
import resource
import signal
import socket
import stat
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Arena:
    inside: Path
    outside: Path
    """The attempt's own folder: ``victim`` is a file, ``folder`` an empty folder."""
    shared: Path
    """The folder with the sockets of a service of the host."""
    pid: int
    secret: Path

    @property
    def victim(self) -> Path:
        return self.outside / "victim"


ATTEMPTS: dict[str, Callable[[Arena], object]] = {}


def attempt(function: Callable[[Arena], object]) -> Callable[[Arena], object]:
    ATTEMPTS[function.__name__] = function
    return function


def call(number: int, *arguments: object) -> int:
    """The system call, by its number on x86-64."""
    result = int(LIBC.syscall(ctypes.c_long(number), *[_word(value) for value in arguments]))
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _word(value: object) -> object:
    return ctypes.c_long(value) if isinstance(value, int) else value


# Files ---------------------------------------------------------------------------------------------------------------


@attempt
def write(arena: Arena) -> None:
    arena.victim.write_text("changed")


@attempt
def append(arena: Arena) -> None:
    with arena.victim.open("a") as file:
        file.write("changed")


@attempt
def truncate(arena: Arena) -> None:
    os.truncate(arena.victim, 0)


@attempt
def create(arena: Arena) -> None:
    (arena.outside / "new").touch()


@attempt
def make_folder(arena: Arena) -> None:
    (arena.outside / "new").mkdir()


@attempt
def remove(arena: Arena) -> None:
    arena.victim.unlink()


@attempt
def remove_folder(arena: Arena) -> None:
    (arena.outside / "folder").rmdir()


@attempt
def rename(arena: Arena) -> None:
    arena.victim.rename(arena.outside / "renamed")


@attempt
def take_in(arena: Arena) -> None:
    arena.victim.rename(arena.inside / "taken")


@attempt
def put_out(arena: Arena) -> None:
    (arena.inside / "mine").touch()
    (arena.inside / "mine").rename(arena.outside / "put")


@attempt
def swap(arena: Arena) -> None:
    (arena.inside / "swapped").touch()
    call(316, -100, bytes(arena.inside / "swapped"), -100, bytes(arena.victim), 2)  # renameat2, RENAME_EXCHANGE


@attempt
def link_in(arena: Arena) -> None:
    os.link(arena.victim, arena.inside / "linked")


@attempt
def link_out(arena: Arena) -> None:
    (arena.inside / "own").touch()
    os.link(arena.inside / "own", arena.outside / "linked")


@attempt
def make_symbolic_link(arena: Arena) -> None:
    (arena.outside / "symbolic").symlink_to("/")


@attempt
def write_through_symbolic_link(arena: Arena) -> None:
    path = arena.inside / "way-out"
    path.symlink_to(arena.victim)
    path.write_text("changed")


@attempt
def create_through_symbolic_link(arena: Arena) -> None:
    path = arena.inside / "way-out-too"
    path.symlink_to(arena.outside)
    (path / "new").touch()


@attempt
def write_through_dots(arena: Arena) -> None:
    (arena.inside / ".." / "outside" / arena.outside.name / "victim").write_text("changed")


@attempt
def write_through_root_of_process(arena: Arena) -> None:
    Path(f"/proc/{arena.pid}/root{arena.victim}").write_text("changed")


@attempt
def write_through_root_of_self(arena: Arena) -> None:
    Path(f"/proc/self/root{arena.victim}").write_text("changed")


@attempt
def write_through_folder_of_process(arena: Arena) -> None:
    Path(f"/proc/{arena.pid}/cwd/victim-of-all").write_text("changed")


@attempt
def open_again_for_writing(arena: Arena) -> None:
    file = os.open(arena.victim, os.O_RDONLY)
    os.write(os.open(f"/proc/self/fd/{file}", os.O_WRONLY), b"changed")


@attempt
def make_pipe(arena: Arena) -> None:
    os.mkfifo(arena.outside / "pipe")


@attempt
def make_device(arena: Arena) -> None:
    os.mknod(arena.inside / "device", 0o666 | stat.S_IFCHR, os.makedev(1, 5))


@attempt
def make_disk(arena: Arena) -> None:
    os.mknod(arena.inside / "disk", 0o666 | stat.S_IFBLK, os.makedev(7, 0))


@attempt
def leave_device(arena: Arena) -> None:
    (arena.inside / "moved").touch()
    names = (bytes(arena.inside / name) for name in ("moved", "away"))
    call(316, -100, next(names), -100, next(names), 4)  # renameat2 with RENAME_WHITEOUT


@attempt
def lend_rights(arena: Arena) -> None:
    os.close(os.open(arena.inside / "lent", os.O_WRONLY | os.O_CREAT, 0o4755))


@attempt
def lend_rights_by_node(arena: Arena) -> None:
    os.mknod(arena.inside / "lent-too", 0o4755 | stat.S_IFREG)


@attempt
def lend_rights_later(arena: Arena) -> None:
    path = arena.inside / "lent-later"
    path.touch()
    path.chmod(0o2755)


# Landlock does not cover the attributes of files.


@attempt
def change_mode(arena: Arena) -> None:
    arena.victim.chmod(0o777)


@attempt
def change_mode_of_open_file(arena: Arena) -> None:
    os.fchmod(os.open(arena.victim, os.O_RDONLY), 0o777)


@attempt
def change_owner(arena: Arena) -> None:
    os.chown(arena.victim, os.getuid(), os.getgid())


@attempt
def change_times(arena: Arena) -> None:
    os.utime(arena.victim, (1, 1))


@attempt
def touch(arena: Arena) -> None:
    os.utime(arena.victim)


@attempt
def set_extended_attribute(arena: Arena) -> None:
    os.setxattr(arena.victim, "user.weir", b"changed")


@attempt
def remove_extended_attribute(arena: Arena) -> None:
    os.removexattr(arena.victim, "user.there")


@attempt
def set_flags(arena: Arena) -> None:
    with arena.victim.open("rb") as file:
        fcntl.ioctl(file, 0x40086602, struct.pack("i", 0x40))  # FS_IOC_SETFLAGS, "no dump"


@attempt
def lock(arena: Arena) -> None:
    with arena.victim.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@attempt
def lock_part(arena: Arena) -> None:
    with arena.victim.open("rb") as file:
        fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


@attempt
def lease(arena: Arena) -> None:
    with arena.victim.open("rb") as file:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)


# Secrets and devices -------------------------------------------------------------------------------------------------


@attempt
def read_secret_of_home(arena: Arena) -> None:
    arena.secret.read_text()


@attempt
def read_passwords(arena: Arena) -> None:
    Path("/etc/shadow").read_text()


@attempt
def read_memory_of_machine(arena: Arena) -> None:
    Path("/dev/mem").open("rb").close()


@attempt
def read_messages_of_kernel(arena: Arena) -> None:
    os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)


@attempt
def make_terminal(arena: Arena) -> None:
    os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)


@attempt
def open_terminal_anew(arena: Arena) -> None:
    os.open("/dev/tty", os.O_RDWR)


@attempt
def type_for_the_user(arena: Arena) -> None:
    fcntl.ioctl(0, 0x5412, b"\n")  # TIOCSTI


@attempt
def type_for_the_user_with_more_bits(arena: Arena) -> None:
    call(16, 0, 0x5412 | 1 << 32, b"\n")  # ioctl; the kernel ignores the upper half of the request


@attempt
def change_line_discipline(arena: Arena) -> None:
    fcntl.ioctl(0, 0x5423, struct.pack("i", 0))  # TIOCSETD, N_TTY


# Network -------------------------------------------------------------------------------------------------------------


def _socket(family: int, kind: int, protocol: int = 0) -> None:
    socket.socket(family, kind, protocol).close()


@attempt
def tcp(arena: Arena) -> None:
    _socket(socket.AF_INET, socket.SOCK_STREAM)


@attempt
def udp(arena: Arena) -> None:
    _socket(socket.AF_INET6, socket.SOCK_DGRAM)


@attempt
def netlink(arena: Arena) -> None:
    _socket(socket.AF_NETLINK, socket.SOCK_RAW)


@attempt
def packets(arena: Arena) -> None:
    _socket(socket.AF_PACKET, socket.SOCK_RAW)


@attempt
def service_at_path(arena: Arena) -> None:
    socket.socket(socket.AF_UNIX).connect(str(arena.shared / "service"))


@attempt
def service_at_name(arena: Arena) -> None:
    socket.socket(socket.AF_UNIX).connect(f"\0{arena.shared}")


@attempt
def service_from_pair(arena: Arena) -> None:
    socket.socketpair(type=socket.SOCK_DGRAM)[0].sendto(b"x", str(arena.shared / "datagrams"))


# Processes -----------------------------------------------------------------------------------------------------------


@attempt
def send_signal(arena: Arena) -> None:
    os.kill(arena.pid, signal.SIGCONT)


@attempt
def send_signal_to_thread(arena: Arena) -> None:
    call(234, arena.pid, arena.pid, signal.SIGCONT)  # tgkill


@attempt
def send_signal_by_file(arena: Arena) -> None:
    call(424, call(434, arena.pid, 0), signal.SIGCONT, 0, 0)  # pidfd_send_signal, pidfd_open


@attempt
def queue_signal(arena: Arena) -> None:
    information = struct.pack("iiiiq", signal.SIGCONT, 0, -1, os.getpid(), os.getuid()) + bytes(104)
    call(129, arena.pid, signal.SIGCONT, information)  # rt_sigqueueinfo


@attempt
def trace(arena: Arena) -> None:
    call(101, 0x4206, arena.pid, 0, 0)  # ptrace, PTRACE_SEIZE


@attempt
def read_memory(arena: Arena) -> None:
    Path(f"/proc/{arena.pid}/mem").open("rb").close()


@attempt
def write_memory(arena: Arena) -> None:
    os.open(f"/proc/{arena.pid}/mem", os.O_RDWR)


@attempt
def read_environment(arena: Arena) -> None:
    Path(f"/proc/{arena.pid}/environ").read_bytes()


@attempt
def read_memory_by_call(arena: Arena) -> None:
    start = int(Path(f"/proc/{arena.pid}/maps").read_text().split("-")[0], 16)
    buffer = ctypes.create_string_buffer(8)
    mine = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)
    theirs = (ctypes.c_size_t * 2)(start, 8)
    call(310, arena.pid, mine, 1, theirs, 1, 0)  # process_vm_readv


@attempt
def take_file_of_process(arena: Arena) -> None:
    call(438, call(434, arena.pid, 0), 0, 0)  # pidfd_getfd, pidfd_open


@attempt
def lower_priority(arena: Arena) -> None:
    os.setpriority(os.PRIO_PROCESS, arena.pid, 19)


@attempt
def move_to_processor(arena: Arena) -> None:
    os.sched_setaffinity(arena.pid, os.sched_getaffinity(arena.pid))


@attempt
def limit(arena: Arena) -> None:
    resource.prlimit(arena.pid, resource.RLIMIT_NOFILE, resource.prlimit(arena.pid, resource.RLIMIT_NOFILE))


@attempt
def dump(arena: Arena) -> None:
    resource.setrlimit(
        resource.RLIMIT_CORE, (0, 0)
    )  # with 0, the program of core_pattern is started; with 1, it is not


@attempt
def enter_network(arena: Arena) -> None:
    call(308, os.open(f"/proc/{arena.pid}/ns/net", os.O_RDONLY), 0)  # setns


# The system ----------------------------------------------------------------------------------------------------------


@attempt
def become_root_of_a_namespace(arena: Arena) -> None:
    call(272, 0x10000000)  # unshare, CLONE_NEWUSER


@attempt
def start_in_a_namespace(arena: Arena) -> None:
    child = call(56, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)  # clone, CLONE_NEWUSER
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


@attempt
def mount(arena: Arena) -> None:
    call(165, b"none", bytes(arena.inside), b"tmpfs", 0, 0)
    call(166, bytes(arena.inside), 2)


@attempt
def open_file_system(arena: Arena) -> None:
    call(430, b"tmpfs", 0)  # fsopen


@attempt
def change_root(arena: Arena) -> None:
    os.chroot("/")


@attempt
def load_program_into_kernel(arena: Arena) -> None:
    call(321, 0, (ctypes.c_uint * 32)(2, 4, 4, 1), 128)  # bpf, BPF_MAP_CREATE of an array


@attempt
def count_events(arena: Arena) -> None:
    attributes = struct.pack("IIQ", 1, 112, 0) + bytes(96)  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK
    call(298, attributes, 0, -1, -1, 0)


@attempt
def add_key(arena: Arena) -> None:
    call(248, b"user", b"weir", b"x", 1, -2)  # into the keyring of the process


@attempt
def ring(arena: Arena) -> None:
    call(425, 4, ctypes.create_string_buffer(120))  # io_uring_setup


@attempt
def handle_faults(arena: Arena) -> None:
    call(323, 0)  # userfaultfd


@attempt
def shared_memory(arena: Arena) -> None:
    call(31, call(29, 0, 4096, 0o1600), 0, 0)  # shmctl IPC_RMID of shmget


@attempt
def memory_without_limit(arena: Arena) -> None:
    call(319, b"weir", 0)  # memfd_create


@attempt
def queue_messages(arena: Arena) -> None:
    call(71, call(68, 0, 0o1600), 0, 0)  # msgctl IPC_RMID of msgget


@attempt
def name_host(arena: Arena) -> None:
    socket.sethostname(socket.gethostname())


@attempt
def read_log_of_kernel(arena: Arena) -> None:
    call(103, 10, 0, 0)  # syslog, SYSLOG_ACTION_SIZE_BUFFER


@attempt
def old_system_calls(arena: Arena) -> None:
    """System calls by interrupt 0x80, where numbers mean other calls than a filter for x86-64 assumes."""
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, getpid; int 0x80; ret
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    child = os.fork()
    if child == 0:
        os._exit(0 if function() == os.getpid() else 1)
    if (status := os.waitpid(child, 0)[1]) != 0:
        raise OSError(errno.EPERM, f"ended with {status}")


def main() -> None:
    arena, pid, secret, *names = sys.argv[1:]
    results = {}
    for name in names:
        root = Path(arena)
        place = Arena(root / "inside", root / "outside" / name, root / "outside", int(pid), Path(secret))
        try:
            ATTEMPTS[name](place)
            results[name] = "done"
        except OSError as error:
            results[name] = errno.errorcode.get(error.errno or 0, str(error))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
