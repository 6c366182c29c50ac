//! Frames to write: a run of packets of one train, with its headers.
//!
//! A whole train leaves unchanged. A part of a train gets its own lengths, IPv4 identification, TCP sequence number,
//! flags and partial checksum, as from the kernel's segmentation (RFC 9293; FIN and PSH only on the last packet, CWR
//! only on the first, RFC 3168 section 6.1.2).

use crate::frame::{Frame, GSO_ECN, GSO_NONE, GSO_UDP_L4, NEEDS_CSUM, TCP, VNET_BYTES, Vnet};

/// Maximum length of rewritten headers: Ethernet, IPv6 with options, TCP with options.
pub const MAX_HEADERS: usize = 512;

const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;
const CONGESTION_EXPERIENCED: u8 = 3;
/// Offset of the checksum in a transport header.
const TCP_CSUM: usize = 16;
const UDP_CSUM: usize = 6;

/// A run of packets `first .. first + packets` of a train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first packet.
    pub first: u32,
    /// Number of packets.
    pub packets: u32,
    /// Whether all of them are marked congestion-experienced.
    pub marked: bool,
}

/// A frame to write: its headers, and the range of its payload in the original frame.
#[derive(Debug)]
pub struct Headers {
    bytes: [u8; MAX_HEADERS],
    len: usize,
    /// From the start of the virtio header of the frame.
    pub payload: std::ops::Range<usize>,
}

impl Headers {
    /// The virtio header and those of the packet.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Whether `run` is the whole frame, unchanged.
pub fn is_whole(frame: &Frame, run: &Run) -> bool {
    let is_changed = run.marked && frame.traffic_class & 3 != CONGESTION_EXPERIENCED;
    run.packets == frame.packets() && !is_changed
}

/// The headers of `run`, a part of `frame`, which begins with `bytes`; `None` if they are too long.
pub fn headers(frame: &Frame, bytes: &[u8], run: &Run) -> Option<Headers> {
    let headers_end = VNET_BYTES + usize::from(frame.payload_start);
    if headers_end > MAX_HEADERS {
        return None;
    }
    let mut out = Headers { bytes: [0; MAX_HEADERS], len: headers_end, payload: payload(frame, run) };
    out.bytes[..headers_end].copy_from_slice(&bytes[..headers_end]);
    let payload_bytes = out.payload.len();
    let packet = &mut out.bytes[VNET_BYTES..headers_end];
    if run.packets < frame.packets() {
        set_lengths(frame, packet, payload_bytes);
        set_transport(frame, packet, run, payload_bytes);
        number_ipv4(frame, packet, run.first);
        let vnet = vnet(frame, run);
        out.bytes[..VNET_BYTES].copy_from_slice(&vnet.to_bytes());
    }
    let packet = &mut out.bytes[VNET_BYTES..headers_end];
    if run.marked {
        mark(frame, packet);
    }
    sum_ipv4(frame, packet);
    Some(out)
}

fn payload(frame: &Frame, run: &Run) -> std::ops::Range<usize> {
    let start = VNET_BYTES + usize::from(frame.payload_start);
    let end = VNET_BYTES + frame.end as usize;
    if !frame.is_train() {
        return start..end;
    }
    let size = usize::from(frame.vnet.gso_size);
    start + run.first as usize * size..end.min(start + (run.first + run.packets) as usize * size)
}

fn vnet(frame: &Frame, run: &Run) -> Vnet {
    let is_train = run.packets > 1;
    let has_cwr = run.first == 0;
    let ecn = if has_cwr { frame.vnet.gso_type & GSO_ECN } else { 0 };
    Vnet {
        gso_type: if is_train { frame.vnet.gso_type & !GSO_ECN | ecn } else { GSO_NONE },
        gso_size: if is_train { frame.vnet.gso_size } else { 0 },
        ..frame.vnet
    }
}

fn put(packet: &mut [u8], at: usize, word: u16) {
    packet[at..at + 2].copy_from_slice(&word.to_be_bytes());
}

fn get(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

fn set_lengths(frame: &Frame, packet: &mut [u8], payload_bytes: usize) {
    let ip = usize::from(frame.ip_start);
    let headers = usize::from(frame.payload_start) - ip;
    match frame.version {
        4 => put(packet, ip + 2, (headers + payload_bytes) as u16),
        _ => put(packet, ip + 4, (headers + payload_bytes - 40) as u16),
    }
}

fn number_ipv4(frame: &Frame, packet: &mut [u8], first: u32) {
    if frame.version == 4 {
        let at = usize::from(frame.ip_start) + 4;
        put(packet, at, get(packet, at).wrapping_add(first as u16));
    }
}

fn set_transport(frame: &Frame, packet: &mut [u8], run: &Run, payload_bytes: usize) {
    let at = usize::from(frame.transport_start);
    let transport_bytes = usize::from(frame.payload_start) - at + payload_bytes;
    let checksum = if frame.protocol == TCP {
        set_tcp(&mut packet[at..], run, frame);
        at + TCP_CSUM
    } else {
        // A single datagram has its own length; a train has the length of all its datagrams together.
        put(packet, at + 4, transport_bytes as u16);
        at + UDP_CSUM
    };
    if frame.vnet.flags & NEEDS_CSUM != 0 {
        let sum = pseudo_header(frame, packet, transport_bytes);
        put(packet, checksum, sum);
    }
}

fn set_tcp(tcp: &mut [u8], run: &Run, frame: &Frame) {
    let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
    let sequence = sequence.wrapping_add(run.first * u32::from(frame.vnet.gso_size));
    tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
    if run.first > 0 {
        tcp[13] &= !CWR;
    }
    if run.first + run.packets < frame.packets() {
        tcp[13] &= !FIN_PSH;
    }
}

/// The sum of the pseudo header, folded and not inverted, from which the device continues.
fn pseudo_header(frame: &Frame, packet: &[u8], transport_bytes: usize) -> u16 {
    let ip = usize::from(frame.ip_start);
    let addresses = if frame.version == 4 { ip + 12..ip + 20 } else { ip + 8..ip + 40 };
    fold(sum(&packet[addresses]) + u64::from(frame.protocol) + transport_bytes as u64)
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.chunks(2).map(|pair| u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]))).sum()
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn mark(frame: &Frame, packet: &mut [u8]) {
    let ip = usize::from(frame.ip_start);
    match frame.version {
        4 => packet[ip + 1] |= CONGESTION_EXPERIENCED,
        6 => packet[ip + 1] |= CONGESTION_EXPERIENCED << 4,
        _ => {}
    }
}

fn sum_ipv4(frame: &Frame, packet: &mut [u8]) {
    if frame.version != 4 {
        return;
    }
    let ip = usize::from(frame.ip_start);
    let header = ip..ip + usize::from(packet[ip] & 15) * 4;
    put(packet, ip + 10, 0);
    let sum = !fold(sum(&packet[header]));
    put(packet, ip + 10, sum);
}

/// Whether the packets of a train are datagrams of their own.
pub fn is_udp_train(frame: &Frame) -> bool {
    frame.vnet.gso_type & !GSO_ECN == GSO_UDP_L4
}
