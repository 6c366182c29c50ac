//! Parses the headers of a real packet: IPv4 with TCP (RFC 9293, 7323, 2018) or UDP.

use etherparse::{IpNumber, Ipv4HeaderSlice, TcpHeaderSlice, TcpOptionElement, UdpHeaderSlice};

use crate::Ecn;

const CONGESTION_EXPERIENCED: u8 = 3;
/// Flags of TCP.
const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;
/// Position of the checksum in an IPv4 header.
const CHECKSUM: std::ops::Range<usize> = 10..12;

/// A packet of which only the headers are known.
#[derive(Debug)]
pub struct Headers {
    pub id: u16,
    pub ecn: Ecn,
    /// Source and destination.
    pub ports: (u16, u16),
    /// Bytes of all headers.
    pub len: u32,
    /// None for UDP.
    pub tcp: Option<TcpHeaders>,
}

/// A TCP header.
#[derive(Debug, Default)]
pub struct TcpHeaders {
    pub syn: bool,
    pub ack: bool,
    pub fin: bool,
    pub ece: bool,
    pub cwr: bool,
    pub ae: bool,
    pub sequence: u32,
    pub acknowledgment: u32,
    pub timestamps: (u32, u32),
    pub sack: Vec<(u32, u32)>,
}

/// Reads headers from the IP header on; none if they are of other kinds or incomplete.
pub fn read(bytes: &[u8]) -> Option<Headers> {
    let ip = Ipv4HeaderSlice::from_slice(bytes).ok()?;
    let ip_len = ip.slice().len();
    let transport = &bytes[ip_len..];
    let (ports, len, tcp) = match ip.protocol() {
        IpNumber::TCP => {
            let tcp = TcpHeaderSlice::from_slice(transport).ok()?;
            ((tcp.source_port(), tcp.destination_port()), tcp.slice().len(), Some(read_tcp(&tcp)))
        }
        IpNumber::UDP => {
            let udp = UdpHeaderSlice::from_slice(transport).ok()?;
            ((udp.source_port(), udp.destination_port()), udp.slice().len(), None)
        }
        _ => return None,
    };
    let ecn = match ip.ecn().value() {
        0 => Ecn::NotCapable,
        1 => Ecn::L4s,
        CONGESTION_EXPERIENCED => Ecn::Experienced,
        _ => Ecn::Capable,
    };
    Some(Headers { id: ip.identification(), ecn, ports, len: (ip_len + len) as u32, tcp })
}

fn read_tcp(tcp: &TcpHeaderSlice<'_>) -> TcpHeaders {
    let mut read = TcpHeaders {
        syn: tcp.syn(),
        ack: tcp.ack(),
        fin: tcp.fin(),
        ece: tcp.ece(),
        cwr: tcp.cwr(),
        ae: tcp.ns(),
        sequence: tcp.sequence_number(),
        acknowledgment: tcp.acknowledgment_number(),
        ..TcpHeaders::default()
    };
    // Options after a malformed one cannot be read.
    for option in tcp.options_iterator().map_while(Result::ok) {
        match option {
            TcpOptionElement::Timestamp(value, echo) => read.timestamps = (value, echo),
            TcpOptionElement::SelectiveAcknowledgement(first, others) => {
                read.sack = std::iter::once(first).chain(others.into_iter().flatten()).collect();
            }
            _ => {}
        }
    }
    read
}

/// Marks the packet with these headers congestion-experienced.
pub fn mark(headers: &mut [u8]) {
    headers[1] |= CONGESTION_EXPERIENCED;
    sum(headers);
}

/// Turns the headers of a train into those of its packet `index`, as segmentation does; returns that packet's payload.
/// Packets have `size` bytes of payload each and `payload` together.
pub fn cut(headers: &mut [u8], index: u32, size: u32, payload: u32) -> u32 {
    let (ip_len, own) = (usize::from(headers[0] & 15) * 4, size.min(payload - index * size));
    let (total, is_last) = (headers.len() as u32 + own, (index + 1) * size >= payload);
    let id = u16::from_be_bytes([headers[4], headers[5]]).wrapping_add(index as u16);
    headers[2..4].copy_from_slice(&(total as u16).to_be_bytes());
    headers[4..6].copy_from_slice(&id.to_be_bytes());
    if headers[9] == IpNumber::UDP.0 {
        let length = (total as u16).wrapping_sub(ip_len as u16);
        headers[ip_len + 4..ip_len + 6].copy_from_slice(&length.to_be_bytes());
    } else {
        let tcp = &mut headers[ip_len..];
        let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]).wrapping_add(index * size);
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        tcp[13] &= if index > 0 { !CWR } else { !0 } & if is_last { !0 } else { !FIN_PSH };
    }
    sum(headers);
    own
}

/// Computes the checksum of an IPv4 header.
fn sum(headers: &mut [u8]) {
    let len = usize::from(headers[0] & 15) * 4;
    headers[CHECKSUM].fill(0);
    let words = headers[..len].chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    headers[CHECKSUM].copy_from_slice(&(!sum as u16).to_be_bytes());
}
