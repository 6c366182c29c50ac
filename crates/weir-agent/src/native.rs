//! What both ends of a flow over MPTCP or SCTP need: its settings and its socket.

use std::io;
use std::net::{IpAddr, SocketAddr};

use weir_plan::{Native, Transport};
use weir_sys::native::Protocol;
use weir_sys::socket::{IntOption, Socket};

use crate::context::Context;
use crate::error::AgentError;
use crate::open;

/// Bytes of IPv4, SCTP and the data chunk's header.
const SCTP_HEADER_BYTES: u64 = 20 + 12 + 16;
/// Bytes of IPv4, TCP, its timestamps, and MPTCP's mapping of a segment (RFC 8684, section 3.3), as Linux writes them.
const MPTCP_HEADER_BYTES: u64 = 20 + 20 + 12 + 24;

/// The protocol and the settings of a flow.
pub fn native_of(context: &Context, flow: u32) -> (Protocol, &Native) {
    match &context.flow(flow).transport {
        Transport::Mptcp(native) => (Protocol::Mptcp, native),
        Transport::Sctp(native) => (Protocol::Sctp, native),
        _ => unreachable!("only flows over MPTCP and SCTP have such endpoints"),
    }
}

/// Bytes of the headers of a full data packet; approximately with MPTCP, whose options vary.
pub fn header_bytes(protocol: Protocol) -> u64 {
    match protocol {
        Protocol::Mptcp => MPTCP_HEADER_BYTES,
        Protocol::Sctp => SCTP_HEADER_BYTES,
    }
}

/// The socket of a sender, not connected.
///
/// # Errors
/// The kernel has no such protocol, or refuses a setting; the error names flow and host.
pub fn sender(context: &mut Context, flow: u32) -> Result<Socket, AgentError> {
    let node = context.flow(flow).from;
    let (socket, protocol) = opened(context, flow, node)?;
    let from = SocketAddr::new(context.host(node).address, 0);
    let set_up = || -> io::Result<()> {
        match protocol {
            Protocol::Mptcp => socket.set(IntOption::NoDelay, 1)?,
            Protocol::Sctp => socket.set_sctp_no_delay()?,
        }
        socket.set_send_buffer(native_of(context, flow).1.send_buffer_bytes.saturating_mul(2))?;
        socket.bind(from)
    };
    set_up().map_err(|error| open::problem(context, flow, "sender", "cannot be set up", error))?;
    Ok(socket)
}

/// The socket on which a receiver listens.
///
/// # Errors
/// As for [`sender`].
pub fn listener(context: &mut Context, flow: u32) -> Result<Socket, AgentError> {
    let node = context.flow(flow).to;
    let (socket, _) = opened(context, flow, node)?;
    let address = context.receiver(flow);
    let set_up = || -> io::Result<()> {
        socket.set(IntOption::ReuseAddress, 1)?;
        socket.set_receive_buffer(native_of(context, flow).1.receive_buffer_bytes.saturating_mul(2))?;
        socket.bind(address)?;
        socket.listen()
    };
    let place = format!("cannot listen on {address}");
    set_up().map_err(|error| open::problem(context, flow, "receiver", &place, error))?;
    Ok(socket)
}

/// A socket at `node`, with the settings that both ends have.
fn opened(context: &mut Context, flow: u32, node: u32) -> Result<(Socket, Protocol), AgentError> {
    let (protocol, native) = native_of(context, flow);
    let cc = native.cc.clone();
    let socket = open::enter_and(context, flow, node, |family: &IpAddr| Socket::native(protocol, family))?;
    let set_up = || -> io::Result<()> {
        socket.set_dscp(context.flow(flow).dscp)?;
        match protocol {
            Protocol::Mptcp => socket.set_congestion_control(cc.trim_start_matches("linux:")),
            Protocol::Sctp => Ok(()),
        }
    };
    let what = format!("has no {} with {cc}", protocol.name());
    set_up().map_err(|error| open::problem(context, flow, "socket", &what, error))?;
    Ok((socket, protocol))
}
