//! Results of system calls, and the calls that take a value of any type: socket options and ioctl(2).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

/// Makes reads and writes return at once.
///
/// # Errors
/// From the kernel; none is expected.
pub fn set_nonblocking(fd: impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(&fd)?;
    Ok(fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?)
}

/// Whether an operation would have had to wait, or was interrupted by a signal.
pub fn would_block(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// `None` for an operation that would have had to wait.
pub(crate) fn none_if_would_block<T>(result: Result<T, Errno>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The result of a libc function that returns -1 and sets `errno` on failure.
pub(crate) fn check(result: impl TryInto<usize>) -> Result<usize, Errno> {
    result.try_into().map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// Sets a socket option. `value` must have the option's C type; what it points to must be valid.
pub(crate) fn set_option<T>(fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: &T) -> Result<(), Errno> {
    let (from, len) = ((&raw const *value).cast(), size_of_val(value) as libc::socklen_t);
    // SAFETY: the kernel reads `len` bytes, all of `value`.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, from, len) }).map(drop)
}

/// Reads a socket option; returns the length of the part of `value` that the kernel wrote.
pub(crate) fn get_option(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &mut [u8],
) -> Result<usize, Errno> {
    let mut len = value.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the length of `value`.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut len) })?;
    Ok(len as usize)
}

/// ioctl(2) on one value, which must have the request's C type. A system call, because the type of `request` differs
/// between C libraries.
pub(crate) fn ioctl<T>(fd: BorrowedFd<'_>, request: u32, value: &mut T) -> Result<(), Errno> {
    // SAFETY: these requests read and write one value of this type.
    check(unsafe { libc::syscall(libc::SYS_ioctl, fd.as_raw_fd(), libc::c_ulong::from(request), &raw mut *value) })
        .map(drop)
}
