//! Waiting for descriptors.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

use crate::call::check;
use crate::clock::timespec;

const NS_PER_MS: u64 = 1_000_000;

/// The events of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready(EventFlags);

impl Ready {
    /// There is something to read, or the peer has ended.
    pub fn readable(self) -> bool {
        self.0.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR)
    }

    /// There is room to write, or the connection is established or has failed.
    pub fn writable(self) -> bool {
        self.0.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR)
    }

    /// The error queue has a message, or the connection has failed.
    pub fn failed(self) -> bool {
        self.0.intersects(EventFlags::ERR | EventFlags::HUP)
    }

    /// The peer sends no more.
    pub fn ended(self) -> bool {
        self.0.intersects(EventFlags::RDHUP | EventFlags::HUP)
    }
}

/// The events to wait for; errors always count. Edge-triggered, except where the name begins with `LEVEL`.
#[derive(Clone, Copy, Debug)]
pub struct Interest(EventFlags);

impl Interest {
    /// New data to read, and the end of the peer.
    pub const READ: Interest = Interest(EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET));
    /// Data to read.
    pub const LEVEL_READ: Interest = Interest(EventFlags::IN);
    /// Room to write.
    pub const LEVEL_WRITE: Interest = Interest(EventFlags::OUT);
    /// Data to read, or room to write.
    pub const LEVEL_BOTH: Interest = Interest(EventFlags::IN.union(EventFlags::OUT));
    /// New room to write, and the end of the peer.
    pub const WRITE: Interest = Interest(EventFlags::OUT.union(EventFlags::RDHUP).union(EventFlags::ET));
}

/// A set of watched descriptors.
pub struct Epoll {
    fd: OwnedFd,
    events: Vec<Event>,
}

impl Epoll {
    /// Creates an empty set; a wait returns at most `most` events.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn new(most: usize) -> io::Result<Epoll> {
        let none = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        Ok(Epoll { fd: epoll::create(CreateFlags::CLOEXEC)?, events: vec![none; most] })
    }

    /// Watches `fd` until it is closed; its events carry `token`.
    ///
    /// # Errors
    /// `PermissionDenied` for a regular file, which cannot be watched.
    pub fn add(&self, fd: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.fd, fd, EventData::new_u64(token), interest.0)?)
    }

    /// Changes the events to wait for on a watched descriptor.
    ///
    /// # Errors
    /// The descriptor was not watched.
    pub fn change(&self, fd: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.fd, fd, EventData::new_u64(token), interest.0)?)
    }

    /// Waits for events, at most `timeout_ns` if given, and calls `each` with their tokens. A signal ends the wait.
    ///
    /// # Errors
    /// From the kernel; none is expected.
    pub fn wait(&mut self, timeout_ns: Option<u64>, mut each: impl FnMut(u64, Ready)) -> io::Result<()> {
        let waited = match timeout_ns {
            Some(ns) if ns % NS_PER_MS != 0 => self.wait_exactly(timespec(ns)),
            _ => epoll::wait(&self.fd, &mut self.events[..], timeout_ns.map(timespec).as_ref()),
        };
        let count = match waited {
            Err(Errno::INTR) => 0,
            other => other?,
        };
        for event in &self.events[..count] {
            let (data, flags) = (event.data, event.flags);
            each(data.u64(), Ready(flags));
        }
        Ok(())
    }

    /// `epoll_pwait2`, of Linux 5.11: rustix rounds timeouts up to milliseconds.
    fn wait_exactly(&mut self, timeout: Timespec) -> Result<usize, Errno> {
        let (fd, most) = (self.fd.as_raw_fd(), self.events.len() as libc::c_int);
        let (into, mask) = (self.events.as_mut_ptr(), std::ptr::null::<libc::sigset_t>());
        // SAFETY: the kernel writes at most `most` events, whose layout rustix's have, and reads one timespec.
        check(unsafe {
            libc::syscall(libc::SYS_epoll_pwait2, fd, into, most, &raw const timeout, mask, size_of::<u64>())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_told_once_by_edge_and_again_by_level() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        rustix::io::write(&writer, b"x").expect("room");
        for (interest, times) in [(Interest::READ, 1), (Interest::LEVEL_READ, 2)] {
            let mut epoll = Epoll::new(4).expect("a descriptor");
            epoll.add(&reader, 7, interest).expect("a pipe can be watched");
            let mut told = Vec::new();
            for _ in 0..2 {
                epoll.wait(Some(0), |token, ready| told.push((token, ready.readable()))).expect("it waits");
            }
            assert_eq!(told, vec![(7, true); times]);
        }
    }

    #[test]
    fn a_wait_ends_in_time_and_not_a_millisecond_later() {
        let mut epoll = Epoll::new(1).expect("a descriptor");
        let mut wait = |ns| {
            let begun = std::time::Instant::now();
            epoll.wait(Some(ns), |_, _| panic!("nothing is watched")).expect("it waits");
            begun.elapsed().as_nanos() as u64
        };
        for ns in [50_000, 1_000_000, 2_300_000] {
            // The shortest of many: other programs may delay some.
            let shortest = (0..100).map(|_| wait(ns)).min().expect("one of many");
            assert!((ns..ns + 500_000).contains(&shortest), "{shortest} of {ns}");
        }
    }

    #[test]
    fn an_exact_wait_returns_events() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        rustix::io::write(&writer, b"x").expect("room");
        let mut epoll = Epoll::new(4).expect("a descriptor");
        epoll.add(&reader, u64::MAX, Interest::READ).expect("a pipe can be watched");
        let mut told = Vec::new();
        epoll.wait(Some(1_500), |token, ready| told.push((token, ready.readable(), ready.ended()))).expect("it waits");
        assert_eq!(told, [(u64::MAX, true, false)]);
    }
}
