//! The event loop's waiting.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use super::check;

/// What has happened to a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready(u32);

impl Ready {
    /// There is something to read, or the peer has ended.
    pub fn readable(self) -> bool {
        self.0 & (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0
    }

    /// There is room to write, or the connection is established or has failed.
    pub fn writable(self) -> bool {
        self.0 & (libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0
    }

    /// The error queue holds something, or the connection has failed.
    pub fn failed(self) -> bool {
        self.0 & (libc::EPOLLERR | libc::EPOLLHUP) as u32 != 0
    }

    /// The peer sends no more.
    pub fn ended(self) -> bool {
        self.0 & (libc::EPOLLRDHUP | libc::EPOLLHUP) as u32 != 0
    }
}

/// What to wait for; errors always count. All is edge-triggered but what is named `LEVEL`.
#[derive(Clone, Copy, Debug)]
pub struct Interest(u32);

impl Interest {
    /// Readable, each time anew.
    pub const READ: Interest = Interest((libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET) as u32);
    /// Readable, as long as it is.
    pub const LEVEL_READ: Interest = Interest(libc::EPOLLIN as u32);
    /// Writable, as long as it is.
    pub const LEVEL_WRITE: Interest = Interest(libc::EPOLLOUT as u32);
    /// Readable or writable, as long as it is.
    pub const LEVEL_BOTH: Interest = Interest((libc::EPOLLIN | libc::EPOLLOUT) as u32);
    /// Writable, each time anew; and the end of the peer.
    pub const WRITE: Interest = Interest((libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET) as u32);
}

/// A set of descriptors that are watched.
pub struct Epoll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Epoll {
    /// An empty set.
    ///
    /// # Errors
    /// When the process may have no more descriptors.
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: the call has no pointers.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor was just made and nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Epoll { fd, events: vec![libc::epoll_event { events: 0, u64: 0 }; 256] })
    }

    /// Watches `fd`; its events bear `token`. Closing a descriptor ends that.
    ///
    /// # Errors
    /// `PermissionDenied` for a regular file, which cannot be watched.
    pub fn add(&self, fd: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    /// Watches a descriptor for something else from now on.
    ///
    /// # Errors
    /// When it was not watched.
    pub fn change(&self, fd: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    fn control(&self, operation: libc::c_int, fd: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest.0, u64: token };
        let fd = fd.as_fd().as_raw_fd();
        // SAFETY: `event` outlives the call; both descriptors are open.
        check(unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), operation, fd, &mut event) }).map(drop)
    }

    /// Waits until something happens, or only looks, and appends it to `ready`.
    ///
    /// # Errors
    /// From the kernel; an interruption by a signal is none, and appends nothing.
    pub fn wait(&mut self, ready: &mut Vec<(u64, Ready)>, only_look: bool) -> io::Result<()> {
        let room = self.events.len() as libc::c_int;
        let timeout_ms = if only_look { 0 } else { -1 };
        // SAFETY: the kernel writes at most `room` events into the vector, which has that many.
        let count = check(unsafe { libc::epoll_wait(self.fd.as_raw_fd(), self.events.as_mut_ptr(), room, timeout_ms) });
        let count = match count {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            other => other? as usize,
        };
        ready.extend(self.events[..count].iter().map(|event| (event.u64, Ready(event.events))));
        Ok(())
    }
}
