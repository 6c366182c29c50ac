//! Netlink: requests to the kernel whose answers consist of many messages; netlink(7).

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

/// `NETLINK_ROUTE`: devices, addresses, queueing disciplines. Its number is 0, which rustix calls none.
pub const ROUTE: Option<Protocol> = None;
/// `NETLINK_SOCK_DIAG`: sockets.
pub const SOCK_DIAG: Option<Protocol> = Some(netlink::SOCK_DIAG);

/// Upper limit of the size of one part of an answer. A longer part would be cut.
const PART_BYTES: usize = 256 << 10;

/// Layouts and numbers of linux/netlink.h.
mod abi {
    pub const NLMSG_ERROR: u16 = 2;
    pub const NLMSG_DONE: u16 = 3;
    pub const NLM_F_REQUEST: u16 = 1;
    pub const NLM_F_DUMP: u16 = 0x300;
    pub const HEADER_BYTES: usize = 16;
    pub const ATTRIBUTE_BYTES: usize = 4;
    /// Without the flags for nested attributes and byte order.
    pub const NLA_TYPE_MASK: u16 = 0x3fff;
}

/// A socket to a part of the kernel, in the network namespace in which it was created.
pub struct Netlink {
    socket: OwnedFd,
    part: Vec<u8>,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket of a protocol, [`ROUTE`] or [`SOCK_DIAG`], in this thread's present namespace.
    ///
    /// # Errors
    /// The kernel lacks the protocol.
    pub fn new(protocol: Option<Protocol>) -> io::Result<Netlink> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        Ok(Netlink { socket, part: vec![0; PART_BYTES], sequence: 0 })
    }

    /// Subscribes to the messages of multicast groups, given as a bit mask.
    ///
    /// # Errors
    /// The kernel lacks the groups.
    pub fn subscribe(&mut self, groups: u32) -> io::Result<()> {
        Ok(bind(&self.socket, &SocketAddrNetlink::new(0, groups))?)
    }

    /// Calls `each` with the kind and the content of every message that came through a subscription.
    pub fn take(&mut self, mut each: impl FnMut(u16, &[u8])) {
        const UNREQUESTED: u32 = 0;
        loop {
            match recv(&self.socket, &mut self.part[..], RecvFlags::DONTWAIT) {
                // Unreadable messages are skipped.
                Ok((read, _)) => drop(messages(&self.part[..read], UNREQUESTED, &mut each)),
                // Messages were lost, which the kernel tells once; later ones follow.
                Err(Errno::NOBUFS) => {}
                Err(_) => return,
            }
        }
    }

    /// Requests all objects of a kind; calls `each` with the kind and the content of every message of the answer.
    ///
    /// # Errors
    /// The kernel refuses the request.
    pub fn dump(&mut self, kind: u16, content: &[u8], mut each: impl FnMut(u16, &[u8])) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        send(&self.socket, &request(kind, content, self.sequence), SendFlags::empty())?;
        loop {
            let (read, _) = recv(&self.socket, &mut self.part[..], RecvFlags::empty())?;
            if messages(&self.part[..read], self.sequence, &mut each)? {
                return Ok(());
            }
        }
    }
}

fn request(kind: u16, content: &[u8], sequence: u32) -> Vec<u8> {
    let len = (abi::HEADER_BYTES + content.len()) as u32;
    let mut request = Vec::with_capacity(len as usize);
    request.extend(len.to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend((abi::NLM_F_REQUEST | abi::NLM_F_DUMP).to_ne_bytes());
    request.extend(sequence.to_ne_bytes());
    request.extend([0; 4]);
    request.extend(content);
    request
}

/// Parses the messages of a part that answer request `sequence`; true at the end of the answer.
///
/// # Errors
/// The kernel's, if the answer is an error.
fn messages(mut part: &[u8], sequence: u32, each: &mut impl FnMut(u16, &[u8])) -> io::Result<bool> {
    while let Some(len) = u32_at(part, 0).map(|len| len as usize) {
        let Some(message) = part.get(..len).filter(|_| len >= abi::HEADER_BYTES) else { break };
        part = part.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        if u32_at(message, 8) != Some(sequence) {
            continue;
        }
        let content = &message[abi::HEADER_BYTES..];
        match u16_at(message, 4) {
            Some(abi::NLMSG_DONE) => return Ok(true),
            Some(abi::NLMSG_ERROR) => {
                let code = u32_at(content, 0).map_or(libc::EIO, |code| -(code as i32));
                return Err(io::Error::from_raw_os_error(code));
            }
            Some(kind) => each(kind, content),
            None => {}
        }
    }
    Ok(false)
}

/// The content of the first attribute of a type among `attributes`.
pub fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let len = usize::from(u16_at(attributes, 0)?);
        let content = attributes.get(abi::ATTRIBUTE_BYTES..len)?;
        if u16_at(attributes, 2)? & abi::NLA_TYPE_MASK == wanted {
            return Some(content);
        }
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    }
}

/// The 16-bit word at an offset, in this machine's byte order; none beyond the end.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// The 32-bit word at an offset, in this machine's byte order; none beyond the end.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The 64-bit word at an offset, in this machine's byte order; none beyond the end.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: u16 = abi::NLMSG_DONE;

    #[test]
    fn a_dump_ends_with_its_last_message_and_skips_those_of_others() {
        let part = [request(36, &[1, 2, 3], 7), vec![0], request(36, &[9; 4], 6), request(DONE, &[0; 4], 7)].concat();
        let mut found = Vec::new();
        let over = messages(&part, 7, &mut |kind, content| found.push((kind, content.to_vec())));
        assert!(over.expect("no error"));
        assert_eq!(found, [(36, vec![1, 2, 3])]);
        assert!(!messages(&request(36, &[], 7), 7, &mut |_, _| ()).expect("no error"));
    }

    #[test]
    fn a_refusal_of_the_kernel_is_its_error() {
        let part = request(abi::NLMSG_ERROR, &(-libc::EPERM).to_ne_bytes(), 1);
        let error = messages(&part, 1, &mut |_, _| ()).expect_err("it refused");
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn broken_messages_and_attributes_are_not_read_beyond_their_end() {
        let good = request(DONE, &[0; 4], 7);
        for len in 0..good.len() {
            assert!(!messages(&good[..len], 7, &mut |_, _| ()).expect("no error"));
        }
        let nested = [&8_u16.to_ne_bytes()[..], &0x8007_u16.to_ne_bytes(), &[1, 2, 3, 4]].concat();
        assert_eq!(attribute(&nested, 7), Some(&[1, 2, 3, 4][..]));
        assert_eq!(attribute(&nested, 6), None);
        for len in 0..nested.len() {
            assert_eq!(attribute(&nested[..len], 7), None);
        }
        assert_eq!(attribute(&[0, 0, 1, 0, 0, 0, 0, 0], 7), None, "a length of 0 would never end");
        let mut lying = good;
        lying[0] = 3;
        assert!(!messages(&lying, 7, &mut |_, _| ()).expect("no error"));
    }

    #[test]
    fn the_kernel_answers_a_dump_of_devices() {
        const RTM_GETLINK: u16 = 18;
        const RTM_NEWLINK: u16 = 16;
        let mut kinds = Vec::new();
        let mut netlink = Netlink::new(ROUTE).expect("every kernel has it");
        for _ in 0..2 {
            netlink.dump(RTM_GETLINK, &[0; 16], |kind, _| kinds.push(kind)).expect("anybody may ask");
        }
        assert!(kinds.len() >= 2 && kinds.iter().all(|&kind| kind == RTM_NEWLINK), "{kinds:?}");
    }
}
