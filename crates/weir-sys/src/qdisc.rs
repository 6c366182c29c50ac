//! The counters of the queueing disciplines of a network namespace.

use std::io;

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::netlink::{Netlink, ROUTE, attribute, u32_at, u64_at};

/// Layouts and numbers of linux/rtnetlink.h and linux/gen_stats.h.
mod abi {
    pub const RTM_NEWQDISC: u16 = 36;
    pub const RTM_GETQDISC: u16 = 38;
    pub const TCMSG_BYTES: usize = 20;
    pub const TCA_STATS2: u16 = 7;
    pub const TCA_STATS_BASIC: u16 = 1;
    pub const TCA_STATS_QUEUE: u16 = 3;
    pub const TCA_STATS_APP: u16 = 4;
}

/// A queueing discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discipline<'a> {
    /// Index of its device.
    pub device: u32,
    /// Its handle: `3:` is `0x3_0000`.
    pub handle: u32,
    /// Its counters.
    pub counters: Counters,
    /// Its own statistics, as `linux/pkt_sched.h` has them for its kind.
    pub own: &'a [u8],
}

/// Counters of a discipline since it was created; 0 where the kernel tells none. Those of 32 bits wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes that left it.
    pub bytes: u64,
    /// Packets that left it.
    pub packets: u32,
    /// Packets in it.
    pub length: u32,
    /// Bytes in it.
    pub backlog: u32,
    /// Packets that it dropped or refused.
    pub drops: u32,
}

/// Lists the disciplines of the namespace in which it was created.
pub struct Disciplines {
    netlink: Netlink,
}

impl Disciplines {
    /// For this thread's present namespace.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn new() -> io::Result<Disciplines> {
        Ok(Disciplines { netlink: Netlink::new(ROUTE)? })
    }

    /// Calls `each` for every discipline of the namespace.
    ///
    /// # Errors
    /// The kernel refuses to list them.
    pub fn dump(&mut self, mut each: impl FnMut(Discipline<'_>)) -> io::Result<()> {
        self.netlink.dump(abi::RTM_GETQDISC, &[0; abi::TCMSG_BYTES], |kind, content| {
            if let Some(found) = discipline(content).filter(|_| kind == abi::RTM_NEWQDISC) {
                each(found);
            }
        })
    }
}

fn discipline(content: &[u8]) -> Option<Discipline<'_>> {
    let (device, handle) = (u32_at(content, 4)?, u32_at(content, 8)?);
    let stats = attribute(content.get(abi::TCMSG_BYTES..)?, abi::TCA_STATS2).unwrap_or(&[]);
    let basic = attribute(stats, abi::TCA_STATS_BASIC).unwrap_or(&[]);
    let queue = attribute(stats, abi::TCA_STATS_QUEUE).unwrap_or(&[]);
    let counters = Counters {
        bytes: u64_at(basic, 0).unwrap_or(0),
        packets: u32_at(basic, 8).unwrap_or(0),
        length: u32_at(queue, 0).unwrap_or(0),
        backlog: u32_at(queue, 4).unwrap_or(0),
        drops: u32_at(queue, 8).unwrap_or(0),
    };
    Some(Discipline { device, handle, counters, own: attribute(stats, abi::TCA_STATS_APP).unwrap_or(&[]) })
}

/// The index of a device in this thread's present namespace.
///
/// # Errors
/// There is no such device.
pub fn device_index(name: &str) -> io::Result<u32> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, ROUTE)?;
    Ok(name_to_index(&socket, name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(kind: u16, content: &[u8]) -> Vec<u8> {
        let mut found = ((4 + content.len()) as u16).to_ne_bytes().to_vec();
        found.extend(kind.to_ne_bytes());
        found.extend(content);
        found.resize(found.len().next_multiple_of(4), 0);
        found
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// A message of the answer to `RTM_GETQDISC`, as rtnetlink(7) and linux/gen_stats.h have it.
    fn message() -> Vec<u8> {
        let basic = [9_000_000_000_u64.to_ne_bytes().to_vec(), words(&[6, 0])].concat();
        let queue = words(&[2, 3076, 5, 11, 12]);
        let stats = [packed(1, &basic), packed(3, &queue), packed(4, &words(&[7, 8]))].concat();
        let mut found = words(&[0, 7, 0x3_0000, u32::MAX, 0]);
        found.extend([packed(1, b"bfifo\0"), packed(0x8007, &stats)].concat());
        found
    }

    #[test]
    fn the_counters_of_a_discipline_are_read() {
        let message = message();
        let found = discipline(&message).expect("a discipline");
        assert_eq!((found.device, found.handle), (7, 0x3_0000));
        let counters = Counters { bytes: 9_000_000_000, packets: 6, length: 2, backlog: 3076, drops: 5 };
        assert_eq!(found.counters, counters);
        assert_eq!(found.own, words(&[7, 8]));
    }

    #[test]
    fn a_discipline_without_statistics_has_counters_of_0() {
        let bare = discipline(&message()[..abi::TCMSG_BYTES]).map(|found| (found.counters, found.own.len()));
        assert_eq!(bare, Some((Counters::default(), 0)));
        for len in 0..abi::TCMSG_BYTES {
            assert_eq!(discipline(&message()[..len.min(11)]), None);
        }
    }

    #[test]
    fn the_kernel_lists_the_loopbacks_discipline() {
        let lo = device_index("lo").expect("every namespace has it");
        let mut devices = Vec::new();
        let mut disciplines = Disciplines::new().expect("a descriptor");
        disciplines.dump(|found| devices.push(found.device)).expect("anybody may ask");
        assert!(devices.contains(&lo), "{devices:?}");
        assert!(device_index("weir-none").is_err());
        assert!(device_index("a\0b").is_err());
    }
}
