//! The operating system: thin, safe wrappers of what the standard library does not have.

pub mod clock;
pub mod diag;
pub mod epoll;
pub mod netlink;
pub mod netns;
pub mod pages;
pub mod qdisc;
pub mod socket;
pub mod stamps;
pub mod tcp_info;

use std::io;

/// The result of a system call that answers -1 for an error.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The same for calls that answer a number of bytes.
pub(crate) fn check_size(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
