//! Packet sockets: packet(7).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};

use crate::call::{check, none_if_would_block, set_option};
use crate::control;
use crate::datagrams::{control_len, message};
use crate::mapping::Mapping;

/// Words of control messages: one with a timestamp, and more than it needs.
const CONTROL_WORDS: usize = 16;

/// Opens a socket for the frames of an interface, with Ethernet and virtio headers. It receives arriving frames only,
/// with the kernel's timestamps, and has buffers of `buffer_bytes`.
///
/// # Errors
/// There is no such interface, or the process may not open packet sockets.
pub fn open(device: &str, buffer_bytes: usize) -> io::Result<OwnedFd> {
    let socket = unbound(SocketType::RAW)?;
    let (fd, on): (_, libc::c_int) = (socket.as_fd(), 1);
    set_option(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &on)?;
    set_option(fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &on)?;
    sockopt::set_socket_recv_buffer_size_force(fd, buffer_bytes)?;
    sockopt::set_socket_send_buffer_size_force(fd, buffer_bytes)?;
    set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &on)?;
    let index = bind(fd, device)?;
    let (mr_ifindex, mr_type) = (index as libc::c_int, libc::PACKET_MR_PROMISC as libc::c_ushort);
    let promiscuous = libc::packet_mreq { mr_ifindex, mr_type, mr_alen: 0, mr_address: [0; 8] };
    set_option(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &promiscuous)?;
    Ok(socket)
}

/// Reads a frame and the kernel's timestamp, nanoseconds of `CLOCK_REALTIME`; `None` if none waits.
///
/// # Errors
/// From the socket.
pub fn receive(fd: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<Option<(usize, Option<u64>)>> {
    let mut room = [0; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let mut message = message(Some(&mut part), &mut room);
    // SAFETY: `message` points to `into` and `room`, with their lengths.
    let len = none_if_would_block(check(unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, 0) }))?;
    let control = &control::bytes(&room)[..control_len(&message)];
    Ok(len.map(|len| (len, control::messages(control).find_map(stamp_of))))
}

fn stamp_of((level, kind, content): control::ControlMessage<'_>) -> Option<u64> {
    ((level, kind) == (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS)).then(|| control::timestamp_ns(content)).flatten()
}

/// A socket whose ring shows the first bytes of each packet that leaves by an interface, from its IP header on. Reading
/// the ring costs no system call. `Documentation/networking/packet_mmap.rst` of Linux describes it.
pub struct Ring {
    /// Keeps the ring alive.
    _socket: OwnedFd,
    memory: Mapping,
    slot_bytes: usize,
    slots: usize,
    next: usize,
}

impl Ring {
    /// Opens a ring of `slots` that shows at most `head_bytes` of each packet. `slot_bytes`, a power of two, must hold
    /// the header of a slot as well: 80 bytes.
    ///
    /// # Errors
    /// There is no such interface, or the process may not open packet sockets.
    pub fn open(device: &str, head_bytes: u32, slot_bytes: usize, slots: usize) -> io::Result<Ring> {
        const BLOCK_BYTES: usize = 64 * 1024;
        let socket = unbound(SocketType::DGRAM)?;
        let fd = socket.as_fd();
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        set_option(fd, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        let block_bytes = BLOCK_BYTES.min(slot_bytes * slots);
        let request = libc::tpacket_req {
            tp_block_size: block_bytes as libc::c_uint,
            tp_block_nr: (slot_bytes * slots / block_bytes) as libc::c_uint,
            tp_frame_size: slot_bytes as libc::c_uint,
            tp_frame_nr: slots as libc::c_uint,
        };
        set_option(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        show_outgoing(fd, head_bytes)?;
        bind(fd, device)?;
        let memory = Mapping::shared(fd, slot_bytes * slots)?;
        Ok(Ring { _socket: socket, memory, slot_bytes, slots, next: 0 })
    }

    /// Calls `each` with the packets that the kernel has added: their instant, nanoseconds of `CLOCK_REALTIME`, and
    /// their first bytes.
    pub fn take(&mut self, mut each: impl FnMut(u64, &[u8])) {
        while self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0 {
            let at = self.next * self.slot_bytes;
            // SAFETY: the slot begins with this header, aligned, and belongs to this process until its status changes.
            let header = unsafe { self.memory.at(at).cast::<libc::tpacket2_hdr>().read() };
            let begin = usize::from(header.tp_net).min(self.slot_bytes - 1);
            let len = (header.tp_snaplen as usize).min(self.slot_bytes - begin);
            // SAFETY: these bytes are in the slot, which still belongs to this process.
            let head = unsafe { slice::from_raw_parts(self.memory.at(at + begin), len) };
            each(u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec), head);
            self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % self.slots;
        }
    }

    /// The status of the next slot.
    fn status(&self) -> &AtomicU32 {
        // SAFETY: a slot begins with its status, an aligned word that kernel and process read and write whole.
        unsafe { AtomicU32::from_ptr(self.memory.at(self.next * self.slot_bytes).cast()) }
    }
}

/// Attaches a classic BPF program (`Documentation/networking/filter.rst` of Linux) that passes `head_bytes` of outgoing
/// packets and nothing else.
fn show_outgoing(fd: BorrowedFd<'_>, head_bytes: u32) -> Result<(), Errno> {
    let packet_type = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
    let outgoing = u32::from(libc::PACKET_OUTGOING);
    let line = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = [
        line(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, packet_type),
        line(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, outgoing),
        line(libc::BPF_RET | libc::BPF_K, 0, 0, head_bytes),
        line(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as libc::c_ushort, filter: program.as_mut_ptr() };
    set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

/// A socket that receives nothing until it is bound.
fn unbound(kind: SocketType) -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::PACKET, kind, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)
}

/// Binds a packet socket to all protocols of an interface; returns the interface's index.
fn bind(fd: BorrowedFd<'_>, device: &str) -> Result<u32, Errno> {
    let index = name_to_index(fd, device)?;
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: index as libc::c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let (pointer, len) = ((&raw const address).cast(), size_of_val(&address) as libc::socklen_t);
    // SAFETY: the kernel reads a sockaddr_ll of that size.
    check(unsafe { libc::bind(fd.as_raw_fd(), pointer, len) })?;
    Ok(index)
}
