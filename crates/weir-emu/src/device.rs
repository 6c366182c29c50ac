//! The devices through which packets enter and leave: the TUN device of a host, or an interface that is bridged.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use weir_emu::frame::{Link, VNET_BYTES};
use weir_protocol::Host;

use crate::sys::{self, InterfaceState};
use crate::tap::Tap;

const CLONE_DEVICE: &str = "/dev/net/tun";
const OWN_NETNS: &str = "/proc/thread-self/ns/net";
/// Frames that wait in a packet socket: 4 MB hold 2 ms at 10 Gb/s, several times a late wake-up.
const SOCKET_BYTES: libc::c_int = 4 << 20;
const MAX_PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(1);
const TUN_F_USO4: libc::c_uint = 0x20;
const TUN_F_USO6: libc::c_uint = 0x40;

/// Which offloads the sending stacks may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offloads {
    /// Trains, and checksums left out.
    All,
    /// Packets of the MTU, complete.
    None,
}

/// How the devices of a job are opened.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// What precedes the IP header in their frames.
    pub link: Link,
    /// Which offloads the hosts may use.
    pub offloads: Offloads,
    /// Whether to learn when frames entered a TUN device; a packet socket knows it anyway.
    pub taps: bool,
}

/// A frame that was read.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its length, headers of the device included.
    pub len: usize,
    /// The monotonic instant at which it entered the device, where that is known.
    pub at_ns: Option<u64>,
}

/// An open device.
pub struct Device {
    fd: OwnedFd,
    host: Host,
    tap: Option<Tap>,
    /// The clock of the kernel's stamps less the monotonic one.
    offset_ns: i64,
    /// What precedes the IP header in its frames.
    pub link: Link,
}

impl Device {
    /// Attaches to the device of a host, one of `count`, in its namespace; this thread is back in its own afterwards.
    ///
    /// # Errors
    /// From the system; the text says what failed.
    pub fn open(host: &Host, opening: Opening, count: usize) -> io::Result<Device> {
        let name = host.device.as_deref().ok_or_else(|| io::Error::other("the job names no device for this host"))?;
        let open = || match opening.link {
            // Kernels without packet sockets do without the tap.
            Link::Ip => open_tun(name, opening.offloads)
                .map(|fd| (fd, opening.taps.then(|| Tap::open(name, count)).and_then(Result::ok))),
            Link::Ethernet => sys::packet_socket(name, SOCKET_BYTES).map(|fd| (fd, None)),
        };
        let opened = match &host.netns {
            None => open(),
            Some(netns) => within(netns, open),
        };
        let (fd, tap) =
            opened.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", place(host, name))))?;
        Ok(Device { fd, host: host.clone(), tap, offset_ns: sys::realtime_offset_ns(), link: opening.link })
    }

    /// Waits until the device passes what its host sends: a TUN device drops everything until the kernel has noticed,
    /// some time later, that somebody is attached. One that is not set up is not waited for.
    ///
    /// # Errors
    /// When it takes more than some seconds, or from the system.
    pub fn await_running(&self) -> io::Result<()> {
        let name = self.host.device.as_deref().unwrap_or_default();
        let deadline = Instant::now() + MAX_PATIENCE;
        while self.in_namespace(|| sys::interface_state(name))? == InterfaceState::Coming {
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
            Some(netns) => within(netns, work),
        }
    }

    /// Frames that the host's stack could not hand over since the device was made, because its queue was full.
    ///
    /// # Errors
    /// From the system.
    pub fn refused(&self) -> io::Result<u64> {
        // The statistics of the namespace that this thread is in.
        let table = self.in_namespace(|| std::fs::read_to_string("/proc/thread-self/net/dev"))?;
        Ok(self.host.device.as_deref().and_then(|device| transmit_drops(&table, device)).unwrap_or(0))
    }

    /// Its descriptor, for polling.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Reads a frame; none when there is none now.
    ///
    /// # Errors
    /// From the device.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<Option<Arrival>> {
        if self.link == Link::Ethernet {
            let monotonic = |at_ns: u64| at_ns.saturating_add_signed(-self.offset_ns);
            let received = sys::receive(self.fd(), into)?;
            return Ok(received.map(|(len, at_ns)| Arrival { len, at_ns: at_ns.map(monotonic) }));
        }
        let Some(tap) = &mut self.tap else {
            return Ok(sys::read(self.fd.as_raw_fd(), into)?.map(|len| Arrival { len, at_ns: None }));
        };
        let asked_ns = sys::monotonic_ns();
        let Some(len) = sys::read(self.fd.as_raw_fd(), into)? else {
            tap.was_empty(asked_ns);
            return Ok(None);
        };
        Ok(Some(Arrival { len, at_ns: into.get(VNET_BYTES..len).and_then(|packet| tap.stamp(packet, asked_ns)) }))
    }

    /// Whether frames come with the instant at which they entered.
    pub fn has_stamps(&self) -> bool {
        self.tap.is_some() || self.link == Link::Ethernet
    }

    /// Learns how the clock of the stamps stands: it may be set at any time.
    pub fn read_clocks(&mut self) {
        self.offset_ns = sys::realtime_offset_ns();
        if let Some(tap) = &mut self.tap {
            tap.read_clocks();
        }
    }

    /// Writes a frame; none when it has no room.
    ///
    /// # Errors
    /// From the device.
    pub fn write(&self, headers: &[u8], payload: &[u8]) -> io::Result<Option<usize>> {
        sys::write(self.fd(), headers, payload)
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

fn within<T>(netns: &Path, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let own = File::open(OWN_NETNS)?;
    sys::enter_netns(&File::open(netns)?)?;
    let result = work();
    sys::enter_netns(&own)?;
    result
}

fn open_tun(name: &str, offloads: Offloads) -> io::Result<OwnedFd> {
    let file = File::options().read(true).write(true).open(CLONE_DEVICE)?;
    sys::attach_tun(&file, name)?;
    sys::set_vnet_header(&file, VNET_BYTES as libc::c_int)?;
    match offloads {
        Offloads::None => sys::set_tun_offloads(&file, 0)?,
        Offloads::All => {
            let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
            // Trains of datagrams: Linux 6.2.
            sys::set_tun_offloads(&file, tcp | TUN_F_USO4 | TUN_F_USO6)
                .or_else(|_| sys::set_tun_offloads(&file, tcp))?;
        }
    }
    sys::set_nonblocking(file.as_raw_fd())?;
    Ok(file.into())
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
