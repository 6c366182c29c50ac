//! The calls by which a process confines itself, apart from those of rustix and Landlock: seccomp(2), clone(2),
//! mount_setattr(2), close_range(2).

use std::ffi::{CStr, c_int, c_uint};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use rustix::io::Errno;

use crate::call::check;

/// Installs a seccomp filter on this thread and its children. An instruction has the layout of `struct sock_filter`:
/// opcode, two jump distances, operand.
///
/// # Errors
/// The program is invalid, or the process has neither `no_new_privs` nor the capability.
pub fn install_filter(program: impl IntoIterator<Item = (u16, u8, u8, u32)>) -> Result<(), Errno> {
    let line = |(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k };
    let mut program: Vec<libc::sock_filter> = program.into_iter().map(line).collect();
    let described =
        libc::sock_fprog { len: program.len().try_into().map_err(|_| Errno::INVAL)?, filter: program.as_mut_ptr() };
    // Without this flag, kernels before 5.16 would slow the process down by mitigations that protect it from itself.
    let flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: the kernel reads `len` instructions.
    check(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const described) })
        .map(drop)
}

/// Forks this process, which must have one thread; the child begins in new namespaces of kinds `flags` (`CLONE_NEW*`).
/// Returns the child's number, or `None` in the child.
///
/// # Errors
/// The process may not create such namespaces; `BUSY` if it has several threads.
pub fn fork(flags: c_int) -> Result<Option<rustix::process::Pid>, Errno> {
    if std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count) > 1 {
        return Err(Errno::BUSY);
    }
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: without a stack, clone acts like fork; in a process with one thread, the child may do anything.
    let child = check(unsafe { libc::syscall(libc::SYS_clone, flags | libc::SIGCHLD, none, none, none, none) })?;
    Ok(rustix::process::Pid::from_raw(child as i32))
}

/// Attributes of mounts.
pub mod attribute {
    /// Read-only.
    pub const READ_ONLY: u64 = 1;
    /// Set-user-ID and set-group-ID bits have no effect.
    pub const NO_SET_USER: u64 = 2;
    /// Devices cannot be opened.
    pub const NO_DEVICES: u64 = 4;
}

/// Sets and clears attributes of the mount at `path` relative to `folder`, and of all mounts below it.
///
/// # Errors
/// The path is not a mount, or the process may not do this.
pub fn set_mount_attributes(folder: BorrowedFd<'_>, path: &CStr, set: u64, clear: u64) -> Result<(), Errno> {
    /// `struct mount_attr`, first version.
    #[repr(C)]
    struct Attributes {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }
    let attributes = Attributes { set, clear, propagation: 0, user_namespace: 0 };
    let (folder, flags) = (folder.as_raw_fd(), libc::AT_EMPTY_PATH | libc::AT_RECURSIVE);
    let (from, len) = (&raw const attributes, size_of::<Attributes>());
    // SAFETY: the kernel reads a C string and `len` bytes of the attributes.
    check(unsafe { libc::syscall(libc::SYS_mount_setattr, folder, path.as_ptr(), flags, from, len) }).map(drop)
}

/// Closes all descriptors from `first` on when a program is executed.
///
/// # Errors
/// Before Linux 5.11.
pub fn close_on_exec_from(first: u32) -> Result<(), Errno> {
    // SAFETY: the call changes flags of descriptors and touches no memory.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) }).map(drop)
}

/// Keeps a descriptor open when a program is executed.
///
/// # Errors
/// It is not open.
pub fn keep_on_exec(fd: RawFd) -> Result<(), Errno> {
    // SAFETY: the call changes flags of a descriptor and touches no memory.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) }).map(drop)
}

/// The version of Landlock's interface; 0 without Landlock.
pub fn landlock_abi() -> i32 {
    const REQUEST_VERSION: c_uint = 1;
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag, the call takes neither a pointer nor a size.
    let version = check(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0_usize, REQUEST_VERSION) });
    version.map_or(0, |version| version as i32)
}
