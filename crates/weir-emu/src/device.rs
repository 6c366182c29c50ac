//! The devices through which packets enter and leave: the TUN device of a host, or an interface that is bridged.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;

use weir_emu::frame::{Link, VNET_BYTES};
use weir_run::Host;

use crate::sys;

const CLONE_DEVICE: &str = "/dev/net/tun";
const OWN_NETNS: &str = "/proc/thread-self/ns/net";
/// Frames that wait in a packet socket: 4 MB hold 2 ms at 10 Gb/s, several times a late wake-up.
const SOCKET_BYTES: libc::c_int = 4 << 20;
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

/// An open device.
pub struct Device {
    fd: OwnedFd,
    /// What precedes the IP header in its frames.
    pub link: Link,
}

impl Device {
    /// Attaches to the device of a host, in its namespace; this thread is back in its own afterwards.
    ///
    /// # Errors
    /// From the system; the text says what failed.
    pub fn open(host: &Host, link: Link, offloads: Offloads) -> io::Result<Device> {
        let name = host.device.as_deref().ok_or_else(|| io::Error::other("the job names no device for this host"))?;
        let open = || match link {
            Link::Ip => open_tun(name, offloads),
            Link::Ethernet => sys::packet_socket(name, SOCKET_BYTES),
        };
        let fd = match &host.netns {
            None => open(),
            Some(netns) => within(netns, open),
        };
        let fd = fd.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", place(host, name))))?;
        Ok(Device { fd, link })
    }

    /// Its descriptor, for polling.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Reads a frame; none when there is none now.
    ///
    /// # Errors
    /// From the device.
    pub fn read(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        sys::read(self.fd(), into)
    }

    /// Writes a frame; none when it has no room.
    ///
    /// # Errors
    /// From the device.
    pub fn write(&self, headers: &[u8], payload: &[u8]) -> io::Result<Option<usize>> {
        sys::write(self.fd(), headers, payload)
    }
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
