//! Frames of a device: a virtio network header, an Ethernet header on a bridge, and an IP packet or a train of packets.
//!
//! A train is one large TCP or UDP packet that the sender's stack leaves uncut for the device (segmentation offload).
//! Its packets are never built here: [`Frame`] gives their number and their sizes. Layouts: virtio 1.2, section
//! 5.1.6 (`virtio_net_hdr`); RFC 791, 8200, 9293, 768.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of the virtio network header before each frame, native byte order.
pub const VNET_BYTES: usize = 10;
/// Bytes of an Ethernet header without tags.
pub const ETHERNET_BYTES: usize = 14;

/// The checksum at `csum_start + csum_offset` is partial; the device completes it.
pub const NEEDS_CSUM: u8 = 1;
/// Not a train.
pub const GSO_NONE: u8 = 0;
/// A train of TCP over IPv4.
pub const GSO_TCPV4: u8 = 1;
/// A train of TCP over IPv6.
pub const GSO_TCPV6: u8 = 4;
/// A train of UDP datagrams.
pub const GSO_UDP_L4: u8 = 5;
/// Only the first packet of the train has CWR set.
pub const GSO_ECN: u8 = 0x80;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// IP protocol number of TCP.
pub const TCP: u8 = 6;
/// IP protocol number of UDP.
pub const UDP: u8 = 17;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const TCP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
/// SCTP, whose ports are where those of UDP are, and the bytes of its common header.
const SCTP: u8 = 132;
const SCTP_BYTES: usize = 12;
/// DCCP (RFC 4340, section 5.1), and the least bytes of its generic header.
const DCCP: u8 = 33;
const DCCP_BYTES: usize = 12;
/// Hop-by-hop, routing and destination options: a length and a next header each.
const IPV6_OPTIONS: [u8; 3] = [0, 43, 60];
const IPV6_FRAGMENT: u8 = 44;
/// Maximum extension headers of a packet; the kernel by itself sends none.
const MAX_IPV6_OPTIONS: usize = 8;

/// The virtio network header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vnet {
    /// See [`NEEDS_CSUM`].
    pub flags: u8,
    /// See [`GSO_NONE`] and the others.
    pub gso_type: u8,
    /// Bytes of headers before the payload; a hint.
    pub header_bytes: u16,
    /// Payload of each packet of a train.
    pub gso_size: u16,
    /// Offset from which the checksum is computed, from the start of the frame.
    pub csum_start: u16,
    /// Offset at which the checksum is stored, from `csum_start`.
    pub csum_offset: u16,
}

impl Vnet {
    /// Parses the header.
    pub fn read(bytes: &[u8; VNET_BYTES]) -> Vnet {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Vnet {
            flags: bytes[0],
            gso_type: bytes[1],
            header_bytes: word(2),
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        }
    }

    /// Its bytes.
    pub fn to_bytes(self) -> [u8; VNET_BYTES] {
        let [a, b] = self.header_bytes.to_ne_bytes();
        let [c, d] = self.gso_size.to_ne_bytes();
        let [e, f] = self.csum_start.to_ne_bytes();
        let [g, h] = self.csum_offset.to_ne_bytes();
        [self.flags, self.gso_type, a, b, c, d, e, f, g, h]
    }
}

/// The header before the IP header on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Nothing: a TUN device.
    Ip,
    /// An Ethernet header; frames that are not IP pass as well.
    Ethernet,
}

/// Why a frame is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The frame ends within a header.
    Short,
    /// The packet of a TUN device is neither IPv4 nor IPv6.
    Version,
    /// A length in a header contradicts the length of the frame.
    Length,
    /// The virtio header names an offload that the packet cannot have.
    Offload,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Malformed::Short => "ends within its headers",
            Malformed::Version => "is neither IPv4 nor IPv6",
            Malformed::Length => "has a length that contradicts its bytes",
            Malformed::Offload => "names an offload that it cannot have",
        })
    }
}

/// A parsed frame. Offsets count from the end of the virtio header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its virtio header.
    pub vnet: Vnet,
    /// Offset of the IP header.
    pub ip_start: u16,
    /// IP version: 4, 6, or 0 for other packets.
    pub version: u8,
    /// Transport protocol; 0 if unknown.
    pub protocol: u8,
    /// Offset of the transport header; the end of the IP header in later fragments.
    pub transport_start: u16,
    /// Offset of the payload.
    pub payload_start: u16,
    /// End of the packet; padding may follow.
    pub end: u32,
    /// Source and destination; `None` for packets that are not IP.
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// Source and destination port, of TCP, UDP, SCTP and DCCP.
    pub ports: Option<(u16, u16)>,
    /// The byte with DSCP and ECN.
    pub traffic_class: u8,
}

impl Frame {
    /// Parses a frame, which begins with a virtio header.
    ///
    /// # Errors
    /// No network could carry the frame.
    pub fn parse(bytes: &[u8], link: Link) -> Result<Frame, Malformed> {
        let (vnet, packet) = bytes.split_first_chunk::<VNET_BYTES>().ok_or(Malformed::Short)?;
        let vnet = Vnet::read(vnet);
        let ip_start = match link {
            Link::Ip => 0,
            Link::Ethernet => ETHERNET_BYTES,
        };
        if packet.len() <= ip_start {
            return Err(Malformed::Short);
        }
        let version = match link {
            Link::Ip => packet[0] >> 4,
            Link::Ethernet => match u16::from_be_bytes([packet[12], packet[13]]) {
                ETHERTYPE_IPV4 => 4,
                ETHERTYPE_IPV6 => 6,
                _ => return Frame::opaque(vnet, packet, ip_start),
            },
        };
        let frame = match version {
            4 => Frame::ipv4(vnet, packet, ip_start)?,
            6 => Frame::ipv6(vnet, packet, ip_start)?,
            _ => return Err(Malformed::Version),
        };
        let frame = frame.with_transport(packet)?;
        frame.check_offloads(packet)?;
        Ok(frame)
    }

    fn opaque(vnet: Vnet, packet: &[u8], ip_start: usize) -> Result<Frame, Malformed> {
        if vnet.gso_type != GSO_NONE {
            return Err(Malformed::Offload);
        }
        Ok(Frame {
            vnet,
            ip_start: ip_start as u16,
            version: 0,
            protocol: 0,
            transport_start: ip_start as u16,
            payload_start: ip_start as u16,
            end: packet.len() as u32,
            addresses: None,
            ports: None,
            traffic_class: 0,
        })
    }

    fn ipv4(vnet: Vnet, packet: &[u8], ip_start: usize) -> Result<Frame, Malformed> {
        let ip = packet[ip_start..].first_chunk::<IPV4_BYTES>().ok_or(Malformed::Short)?;
        let header = usize::from(ip[0] & 15) * 4;
        // A train longer than 65535 bytes has a total length of 0.
        let total = match usize::from(u16::from_be_bytes([ip[2], ip[3]])) {
            0 if vnet.gso_type != GSO_NONE => packet.len() - ip_start,
            total => total,
        };
        if header < IPV4_BYTES || total < header || ip_start + total > packet.len() {
            return Err(Malformed::Length);
        }
        let is_first = u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff == 0;
        let address = |at: usize| IpAddr::V4(Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]));
        Ok(Frame {
            vnet,
            ip_start: ip_start as u16,
            version: 4,
            protocol: if is_first { ip[9] } else { 0 },
            transport_start: (ip_start + header) as u16,
            payload_start: (ip_start + header) as u16,
            end: (ip_start + total) as u32,
            addresses: Some((address(12), address(16))),
            ports: None,
            traffic_class: ip[1],
        })
    }

    fn ipv6(vnet: Vnet, packet: &[u8], ip_start: usize) -> Result<Frame, Malformed> {
        let ip = packet[ip_start..].first_chunk::<IPV6_BYTES>().ok_or(Malformed::Short)?;
        let payload = match usize::from(u16::from_be_bytes([ip[4], ip[5]])) {
            0 if vnet.gso_type != GSO_NONE => packet.len() - ip_start - IPV6_BYTES,
            payload => payload,
        };
        let end = ip_start + IPV6_BYTES + payload;
        if end > packet.len() {
            return Err(Malformed::Length);
        }
        let (protocol, transport_start) = ipv6_transport(&packet[..end], ip[6], ip_start + IPV6_BYTES)?;
        let address = |at: usize| {
            let octets: [u8; 16] = ip[at..at + 16].try_into().expect("the header is long enough");
            IpAddr::V6(Ipv6Addr::from(octets))
        };
        Ok(Frame {
            vnet,
            ip_start: ip_start as u16,
            version: 6,
            protocol,
            transport_start: transport_start as u16,
            payload_start: transport_start as u16,
            end: end as u32,
            addresses: Some((address(8), address(24))),
            ports: None,
            traffic_class: ip[0] << 4 | ip[1] >> 4,
        })
    }

    /// Ports and the start of the payload.
    fn with_transport(mut self, packet: &[u8]) -> Result<Frame, Malformed> {
        let transport = &packet[usize::from(self.transport_start)..self.end as usize];
        let header = match self.protocol {
            TCP => {
                let tcp = transport.first_chunk::<TCP_BYTES>().ok_or(Malformed::Short)?;
                let header = usize::from(tcp[12] >> 4) * 4;
                if header < TCP_BYTES || header > transport.len() {
                    return Err(Malformed::Length);
                }
                header
            }
            UDP => transport.first_chunk::<UDP_BYTES>().ok_or(Malformed::Short)?.len(),
            SCTP => transport.first_chunk::<SCTP_BYTES>().ok_or(Malformed::Short)?.len(),
            DCCP => {
                let dccp = transport.first_chunk::<DCCP_BYTES>().ok_or(Malformed::Short)?;
                let header = usize::from(dccp[4]) * 4;
                if header < DCCP_BYTES || header > transport.len() {
                    return Err(Malformed::Length);
                }
                header
            }
            _ => return Ok(self),
        };
        let port = |at: usize| u16::from_be_bytes([transport[at], transport[at + 1]]);
        self.ports = Some((port(0), port(2)));
        self.payload_start = self.transport_start + header as u16;
        Ok(self)
    }

    fn check_offloads(&self, packet: &[u8]) -> Result<(), Malformed> {
        let fits = match self.vnet.gso_type & !GSO_ECN {
            GSO_NONE => true,
            GSO_TCPV4 => self.version == 4 && self.protocol == TCP,
            GSO_TCPV6 => self.version == 6 && self.protocol == TCP,
            GSO_UDP_L4 => self.protocol == UDP,
            _ => false,
        };
        let is_train = self.vnet.gso_type & !GSO_ECN != GSO_NONE;
        let sized = !is_train || self.vnet.gso_size > 0 && self.end > u32::from(self.payload_start);
        let checksum = usize::from(self.vnet.csum_start) + usize::from(self.vnet.csum_offset) + 2;
        let summed = self.vnet.flags & NEEDS_CSUM == 0 || checksum <= packet.len();
        // Packets of a train have 16-bit numbers.
        let numbered = !is_train || !sized || self.train_packets() <= u32::from(u16::MAX);
        if fits && sized && summed && numbered { Ok(()) } else { Err(Malformed::Offload) }
    }

    /// Whether the frame is a train.
    pub fn is_train(&self) -> bool {
        self.vnet.gso_type & !GSO_ECN != GSO_NONE
    }

    /// Payload of all packets, bytes.
    pub fn payload_bytes(&self) -> u32 {
        self.end - u32::from(self.payload_start)
    }

    /// Bytes of headers of each packet, from the IP header on.
    pub fn header_bytes(&self) -> u32 {
        u32::from(self.payload_start - self.ip_start)
    }

    fn train_packets(&self) -> u32 {
        self.payload_bytes().div_ceil(u32::from(self.vnet.gso_size))
    }

    /// Packets on the wire.
    pub fn packets(&self) -> u32 {
        if self.is_train() { self.train_packets() } else { 1 }
    }

    /// Bytes of the IP packet `index` of a train.
    pub fn packet_bytes(&self, index: u32) -> u32 {
        if !self.is_train() {
            return self.end - u32::from(self.ip_start);
        }
        let size = u32::from(self.vnet.gso_size);
        self.header_bytes() + size.min(self.payload_bytes() - index * size)
    }

    /// Whether it is a datagram, carries payload of TCP or DCCP, or is a packet of SCTP.
    pub fn is_data(&self) -> bool {
        match self.protocol {
            TCP | DCCP => self.payload_bytes() > 0,
            UDP | SCTP => true,
            _ => false,
        }
    }
}

/// Follows the extension headers; returns protocol 0 for later fragments.
fn ipv6_transport(packet: &[u8], mut next: u8, mut at: usize) -> Result<(u8, usize), Malformed> {
    for _ in 0..MAX_IPV6_OPTIONS {
        if !IPV6_OPTIONS.contains(&next) && next != IPV6_FRAGMENT {
            break;
        }
        let header = packet.get(at..).and_then(|rest| rest.first_chunk::<8>()).ok_or(Malformed::Short)?;
        if next == IPV6_FRAGMENT {
            let is_first = u16::from_be_bytes([header[2], header[3]]) & 0xfff8 == 0;
            next = if is_first { header[0] } else { return Ok((0, at + 8)) };
            at += 8;
        } else {
            next = header[0];
            at += 8 * (usize::from(header[1]) + 1);
        }
    }
    if at > packet.len() { Err(Malformed::Length) } else { Ok((next, at)) }
}
