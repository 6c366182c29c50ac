//! The headers of a simulated packet, in the format of a real one.
//!
//! Checksums assume a payload of zeros, because the simulator has none.

use std::io;

use etherparse::{IpDscp, IpEcn, IpNumber, Ipv4Header, TcpHeader, TcpOptionElement, UdpHeader};
use weir_plan::{Plan, Tcp, Transport};

use crate::{Ecn, Event, PacketKind, TraceRecord};

const HOST_TTL: u8 = 64;
/// Ports: each flow has its own destination port, each connection its own source port.
const FIRST_PORT: u32 = 5001;
const PORTS: u32 = 20_000;
const FIRST_EPHEMERAL: u32 = 32_768;
const MAX_WINDOW: u64 = 65_535;
/// RFC 7323, section 2.3.
const MAX_WINDOW_SHIFT: u8 = 14;
static ZEROS: [u8; 65_536] = [0; 65_536];

fn address(node: u32) -> [u8; 4] {
    let [_, c, b, a] = (node + 1).to_be_bytes();
    [10, c, b, a]
}

/// Appends the headers of the packet to `frame`.
///
/// # Errors
/// When a length does not fit its header.
pub fn build(frame: &mut Vec<u8>, record: &TraceRecord, plan: &Plan) -> io::Result<()> {
    let flow = &plan.flows[record.flow as usize];
    let ip = ip_header(record, plan)?;
    ip.write(frame)?;
    let payload = &ZEROS[..record.payload_bytes as usize];
    let port = (FIRST_PORT + record.flow % PORTS) as u16;
    let ephemeral = (FIRST_EPHEMERAL + record.connection.saturating_sub(1) % FIRST_EPHEMERAL) as u16;
    let (from, to) = if record.is_forward() { (ephemeral, port) } else { (port, ephemeral) };
    match &flow.transport {
        Transport::Udp(_)
        | Transport::Quic(_)
        | Transport::Tfrc(_)
        | Transport::Mptcp(_)
        | Transport::Sctp(_)
        | Transport::Dccp(_)
        | Transport::Udt(_) => {
            UdpHeader::with_ipv4_checksum(from, to, &ip, payload).map_err(invalid)?.write(frame)?;
        }
        Transport::Tcp(tcp) => {
            let mut header = tcp_header(record, tcp, from, to)?;
            header.checksum = header.calc_checksum_ipv4(&ip, payload).map_err(invalid)?;
            header.write(frame)?;
        }
    }
    debug_assert_eq!(frame.len() + payload.len(), record.ip_bytes as usize, "the headers fill the packet");
    Ok(())
}

fn ip_header(record: &TraceRecord, plan: &Plan) -> io::Result<Ipv4Header> {
    let flow = &plan.flows[record.flow as usize];
    let links = if record.is_forward() { flow.path.len() } else { flow.reverse_path.len() };
    let routers = if record.event == Event::Received { links - 1 } else { 0 };
    let protocol = if matches!(flow.transport, Transport::Tcp(_)) { IpNumber::TCP } else { IpNumber::UDP };
    let (source, destination) = (address(record.source(plan)), address(record.destination(plan)));
    let ttl = HOST_TTL.saturating_sub(routers as u8);
    let mut ip = Ipv4Header::new(record.ip_bytes as u16 - 20, ttl, protocol, source, destination).map_err(invalid)?;
    ip.identification = record.id;
    ip.dont_fragment = true;
    ip.dscp = IpDscp::try_new(flow.dscp).map_err(invalid)?;
    ip.ecn = match record.ecn {
        Ecn::NotCapable => IpEcn::NotEct,
        Ecn::Capable => IpEcn::Ect0,
        Ecn::L4s => IpEcn::Ect1,
        Ecn::Experienced => IpEcn::CongestionExperienced,
    };
    Ok(ip)
}

fn tcp_header(record: &TraceRecord, tcp: &Tcp, from: u16, to: u16) -> io::Result<TcpHeader> {
    let shift = window_shift(tcp.receive_buffer_bytes);
    let is_syn = matches!(record.kind, PacketKind::Syn | PacketKind::SynAck);
    let window = (tcp.receive_buffer_bytes >> if is_syn { 0 } else { shift }).min(MAX_WINDOW) as u16;
    let mut header = TcpHeader::new(from, to, 0, window);
    header.syn = is_syn;
    header.ack = record.kind != PacketKind::Syn;
    header.acknowledgment_number = u32::from(header.ack);
    header.ece = record.ece || is_syn && tcp.ecn;
    header.cwr = record.cwr || record.kind == PacketKind::Syn && tcp.ecn;
    if tcp.ecn && tcp.accecn && is_syn {
        // RFC 9768, table 2: all three flags ask, CWR alone answers a SYN without ECT.
        let asks = record.kind == PacketKind::Syn;
        (header.ns, header.cwr, header.ece) = (asks, true, asks);
    }
    header.ns |= record.ae;
    match record.kind {
        PacketKind::Data => header.sequence_number = sequence(record.seq),
        PacketKind::Ack => {
            header.sequence_number = 1;
            header.acknowledgment_number = sequence(record.ack);
        }
        _ => {}
    }
    let options = if is_syn { syn_options(record, tcp, shift) } else { options(record, tcp) };
    header.set_options(&options).map_err(invalid)?;
    Ok(header)
}

/// The sequence number of a byte of a stream; the SYN has the number 0.
fn sequence(byte: u64) -> u32 {
    (byte as u32).wrapping_add(1)
}

fn window_shift(buffer: u64) -> u8 {
    (0..MAX_WINDOW_SHIFT).find(|shift| buffer >> shift <= MAX_WINDOW).unwrap_or(MAX_WINDOW_SHIFT)
}

/// 20 bytes, as the simulator counts them.
fn syn_options(record: &TraceRecord, tcp: &Tcp, shift: u8) -> Vec<TcpOptionElement> {
    let mut options = vec![TcpOptionElement::MaximumSegmentSize(tcp.mss_bytes as u16 + timestamp_bytes(tcp))];
    let pad = |options: &mut Vec<TcpOptionElement>, bytes| options.extend((0..bytes).map(|_| TcpOptionElement::Noop));
    if tcp.sack {
        options.push(TcpOptionElement::SelectiveAcknowledgementPermitted);
    } else {
        pad(&mut options, 2);
    }
    if tcp.timestamps {
        options.push(TcpOptionElement::Timestamp(record.tsval, record.tsecr));
    } else {
        pad(&mut options, 10);
    }
    pad(&mut options, 1);
    options.push(TcpOptionElement::WindowScale(shift));
    options
}

/// Bytes of the timestamps option: the MSS option does not account for other options (RFC 6691).
fn timestamp_bytes(tcp: &Tcp) -> u16 {
    if tcp.timestamps { 12 } else { 0 }
}

fn options(record: &TraceRecord, tcp: &Tcp) -> Vec<TcpOptionElement> {
    let mut options = Vec::new();
    if tcp.timestamps {
        options.extend([TcpOptionElement::Noop, TcpOptionElement::Noop]);
        options.push(TcpOptionElement::Timestamp(record.tsval, record.tsecr));
    }
    let mut blocks = record.sack.iter().map(|&(start, end)| (sequence(start), sequence(end)));
    if let Some(first) = blocks.next() {
        let others = std::array::from_fn(|_| blocks.next());
        options.extend([TcpOptionElement::Noop, TcpOptionElement::Noop]);
        options.push(TcpOptionElement::SelectiveAcknowledgement(first, others));
    }
    options
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
