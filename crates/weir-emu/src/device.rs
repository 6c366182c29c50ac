//! The devices through which packets enter and leave: TUN devices of hosts, or bridged interfaces.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::{Errno, writev};
use weir_emu::frame::{Link, VNET_BYTES};
use weir_protocol::Host;
use weir_sys::tun::{self, InterfaceState};
use weir_sys::{clock, netns, packet};

use crate::tap::Tap;

/// Buffer of a packet socket: 4 MB hold 2 ms at 10 Gb/s, several times the delay of a late wake-up.
const SOCKET_BYTES: usize = 4 << 20;
const MAX_PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(1);

/// The offloads that the sending stacks may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offloads {
    /// Trains, and partial checksums.
    All,
    /// None: complete packets of at most the MTU.
    None,
}

/// Options for opening the devices of a job.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// The header before the IP header in their frames.
    pub link: Link,
    /// The offloads that the hosts may use.
    pub offloads: Offloads,
    /// Whether to open taps, which tell when frames entered a TUN device; packet sockets tell it anyway.
    pub taps: bool,
}

/// A received frame.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its length, with the device's headers.
    pub len: usize,
    /// The monotonic instant at which it entered the device, if known.
    pub at_ns: Option<u64>,
}

/// An open device.
pub struct Device {
    fd: OwnedFd,
    host: Host,
    tap: Option<Tap>,
    /// The lead of the timestamps' clock over the monotonic clock.
    offset_ns: i64,
    /// The header before the IP header in its frames.
    pub link: Link,
}

impl Device {
    /// Attaches to the device of a host, one of `count`, in its namespace; this thread is back in its own afterwards.
    ///
    /// # Errors
    /// From the system; the text names the device.
    pub fn open(host: &Host, opening: Opening, count: usize) -> io::Result<Device> {
        let name = host.device.as_deref().ok_or_else(|| io::Error::other("the job names no device for this host"))?;
        let open = || match opening.link {
            // A kernel without packet sockets has no tap.
            Link::Ip => tun::open(name, VNET_BYTES, opening.offloads == Offloads::All)
                .map(|file| (file.into(), opening.taps.then(|| Tap::open(name, count)).and_then(Result::ok))),
            Link::Ethernet => packet::open(name, SOCKET_BYTES).map(|fd| (fd, None)),
        };
        let opened = match &host.netns {
            None => open(),
            Some(path) => netns::within(path, open),
        };
        let (fd, tap) =
            opened.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", place(host, name))))?;
        Ok(Device { fd, host: host.clone(), tap, offset_ns: clock::realtime_lead_ns(), link: opening.link })
    }

    /// Waits until the device passes packets of its host: a TUN device drops all packets until the kernel has noticed
    /// that a process is attached. Returns at once for a device that is not set up.
    ///
    /// # Errors
    /// The device does not run within some seconds; or from the system.
    pub fn await_running(&self) -> io::Result<()> {
        let name = self.host.device.as_deref().unwrap_or_default();
        let deadline = Instant::now() + MAX_PATIENCE;
        while self.in_namespace(|| tun::interface_state(name))? == InterfaceState::Coming {
            if Instant::now() > deadline {
                return Err(io::Error::other(format!("{}: it is up but does not run", place(&self.host, name))));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn in_namespace<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match &self.host.netns {
            None => work(),
            Some(path) => netns::within(path, work),
        }
    }

    /// Frames that the device has refused since it was created, because its queue was full.
    ///
    /// # Errors
    /// From the system.
    pub fn refused(&self) -> io::Result<u64> {
        // This file shows the thread's present namespace.
        let table = self.in_namespace(|| std::fs::read_to_string("/proc/thread-self/net/dev"))?;
        Ok(self.host.device.as_deref().and_then(|device| transmit_drops(&table, device)).unwrap_or(0))
    }

    /// Reads a frame; `None` if none waits.
    ///
    /// # Errors
    /// From the device.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<Option<Arrival>> {
        if self.link == Link::Ethernet {
            let monotonic = |at_ns: u64| at_ns.saturating_add_signed(-self.offset_ns);
            let received = packet::receive(self.fd.as_fd(), into)?;
            return Ok(received.map(|(len, at_ns)| Arrival { len, at_ns: at_ns.map(monotonic) }));
        }
        let Some(tap) = &mut self.tap else {
            return Ok(read(&self.fd, into)?.map(|len| Arrival { len, at_ns: None }));
        };
        let asked_ns = clock::monotonic_ns();
        let Some(len) = read(&self.fd, into)? else {
            tap.was_empty(asked_ns);
            return Ok(None);
        };
        Ok(Some(Arrival { len, at_ns: into.get(VNET_BYTES..len).and_then(|packet| tap.stamp(packet, asked_ns)) }))
    }

    /// Whether the instants at which frames entered are known.
    pub fn has_stamps(&self) -> bool {
        self.tap.is_some() || self.link == Link::Ethernet
    }

    /// Compares the clocks again: the timestamps' clock may be set at any time.
    pub fn read_clocks(&mut self) {
        self.offset_ns = clock::realtime_lead_ns();
        if let Some(tap) = &mut self.tap {
            tap.read_clocks();
        }
    }

    /// Writes a frame; `None` if the device has no room.
    ///
    /// # Errors
    /// From the device.
    pub fn write(&self, headers: &[u8], payload: &[u8]) -> io::Result<Option<usize>> {
        let parts = [IoSlice::new(headers), IoSlice::new(payload)];
        let count = if payload.is_empty() { 1 } else { 2 };
        none_if_would_block(writev(&self.fd, &parts[..count]))
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn read(fd: &OwnedFd, into: &mut [u8]) -> io::Result<Option<usize>> {
    none_if_would_block(rustix::io::read(fd, into))
}

fn none_if_would_block(result: Result<usize, Errno>) -> io::Result<Option<usize>> {
    match result {
        Ok(len) => Ok(Some(len)),
        Err(Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Column `drop` of the transmit side of `/proc/net/dev`, proc(5).
fn transmit_drops(table: &str, device: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    line.split_ascii_whitespace().nth(8 + 3)?.parse().ok()
}

fn place(host: &Host, device: &str) -> String {
    match &host.netns {
        Some(netns) => format!("{device} in {}", netns.display()),
        None => device.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drops_of_a_device_are_found() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|\n    lo: \
                     1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n weir0: 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36\n";
        assert_eq!(transmit_drops(table, "weir0"), Some(32));
        assert_eq!(transmit_drops(table, "weir"), None);
    }
}
