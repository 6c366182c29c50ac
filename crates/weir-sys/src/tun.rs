//! TUN devices and the state of network interfaces: netdevice(7), `Documentation/networking/tuntap.rst` of Linux.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::call::{check, ioctl};

const CLONE_DEVICE: &str = "/dev/net/tun";
const TUN_F_USO4: libc::c_uint = 0x20;
const TUN_F_USO6: libc::c_uint = 0x40;

/// `struct ifreq`: a name, and a union of which requests use the beginning.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    value: [u8; 24],
}

impl Request {
    fn new(device: &str) -> io::Result<Request> {
        let mut request = Request { name: [0; libc::IFNAMSIZ], value: [0; 24] };
        if device.len() >= libc::IFNAMSIZ || device.contains('\0') {
            let text = "the name of an interface has at most 15 characters";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        request.name[..device.len()].copy_from_slice(device.as_bytes());
        Ok(request)
    }

    fn flags(&self) -> libc::c_int {
        libc::c_short::from_ne_bytes([self.value[0], self.value[1]]).into()
    }
}

/// Attaches to the TUN device `name`. Its frames have a virtio header of `header_bytes` and no packet information.
/// `offloads` permits its host to hand over long segments, and packets without checksums. Reads and writes do not block.
///
/// # Errors
/// There is no such device, another process has it, or this one may not have it.
pub fn open(name: &str, header_bytes: usize, offloads: bool) -> io::Result<File> {
    let file = File::options().read(true).write(true).open(CLONE_DEVICE)?;
    let mut request = Request::new(name)?;
    let flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
    request.value[..2].copy_from_slice(&flags.to_ne_bytes());
    ioctl(file.as_fd(), libc::TUNSETIFF as u32, &mut request)?;
    ioctl(file.as_fd(), libc::TUNSETVNETHDRSZ as u32, &mut (header_bytes as libc::c_int))?;
    if offloads {
        let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
        // Segmentation of datagrams: Linux 6.2.
        set_offloads(file.as_fd(), tcp | TUN_F_USO4 | TUN_F_USO6).or_else(|_| set_offloads(file.as_fd(), tcp))?;
    } else {
        set_offloads(file.as_fd(), 0)?;
    }
    crate::set_nonblocking(&file)?;
    Ok(file)
}

fn set_offloads(fd: BorrowedFd<'_>, offloads: libc::c_uint) -> Result<(), Errno> {
    use std::os::fd::AsRawFd;
    let (fd, request) = (fd.as_raw_fd(), libc::TUNSETOFFLOAD as libc::c_ulong);
    // SAFETY: the argument of this request is an integer.
    check(unsafe { libc::syscall(libc::SYS_ioctl, fd, request, libc::c_ulong::from(offloads)) }).map(drop)
}

/// State of an interface of this thread's network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceState {
    /// It is not set up.
    Down,
    /// It is up but passes nothing yet.
    Coming,
    /// It passes packets.
    Running,
}

/// The state of the interface `name`.
///
/// # Errors
/// There is no such interface.
pub fn interface_state(name: &str) -> io::Result<InterfaceState> {
    let open = |family| socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    let socket = open(AddressFamily::INET).or_else(|_| open(AddressFamily::INET6))?;
    let mut request = Request::new(name)?;
    ioctl(socket.as_fd(), libc::SIOCGIFFLAGS as u32, &mut request)?;
    let flags = request.flags();
    if flags & libc::IFF_UP == 0 {
        return Ok(InterfaceState::Down);
    }
    if flags & libc::IFF_RUNNING == 0 {
        return Ok(InterfaceState::Coming);
    }
    // The kernel sets the flag shortly before it enables the queue, under a lock that setting the queue's length takes.
    // The length does not change.
    ioctl(socket.as_fd(), libc::SIOCGIFTXQLEN as u32, &mut request)?;
    ioctl(socket.as_fd(), libc::SIOCSIFTXQLEN as u32, &mut request)?;
    Ok(InterfaceState::Running)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_an_ifreq() {
        assert_eq!(size_of::<Request>(), size_of::<libc::ifreq>());
        assert!(Request::new("a-name-of-16-byt").is_err());
        assert!(Request::new("a\0b").is_err());
    }

    #[test]
    fn an_interface_that_is_not_there_has_no_state() {
        assert_eq!(interface_state("no-such-weir").map_err(|error| error.raw_os_error()), Err(Some(libc::ENODEV)));
    }
}
