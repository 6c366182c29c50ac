//! What both ends of a DCCP flow need: its settings and its socket.

use std::io;
use std::net::{IpAddr, SocketAddr};

use weir_plan::{Dccp, Transport};
use weir_sys::socket::{IntOption, Socket};

use crate::context::Context;
use crate::error::AgentError;
use crate::open;

/// Bytes of the IPv4 header and of DCCP's, with long sequence numbers and without options (RFC 4340, section 5.1).
pub const HEADER_BYTES: u32 = 20 + 16;

/// Bytes that wait in a sender's socket or in the queue of its host, as the kernel counts them: some 25 full packets.
const SEND_BUFFER_BYTES: u64 = 64 << 10;
const RECEIVE_BUFFER_BYTES: u64 = 4 << 20;

/// The settings of a flow.
pub fn dccp_of(context: &Context, flow: u32) -> &Dccp {
    match &context.flow(flow).transport {
        Transport::Dccp(dccp) => dccp,
        _ => unreachable!("only flows over DCCP have such endpoints"),
    }
}

/// The socket of a sender, not connected.
///
/// # Errors
/// The kernel has no DCCP, or refuses a setting; the error names flow and host.
pub fn sender(context: &mut Context, flow: u32) -> Result<Socket, AgentError> {
    let node = context.flow(flow).from;
    let socket = opened(context, flow, node)?;
    let from = SocketAddr::new(context.host(node).address, 0);
    let set_up = || -> io::Result<()> {
        socket.set_send_buffer(SEND_BUFFER_BYTES)?;
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
    let socket = opened(context, flow, node)?;
    let address = context.receiver(flow);
    let set_up = || -> io::Result<()> {
        socket.set(IntOption::ReuseAddress, 1)?;
        socket.set_receive_buffer(RECEIVE_BUFFER_BYTES)?;
        socket.bind(address)?;
        socket.listen()
    };
    let place = format!("cannot listen on {address}");
    set_up().map_err(|error| open::problem(context, flow, "receiver", &place, error))?;
    Ok(socket)
}

fn opened(context: &mut Context, flow: u32, node: u32) -> Result<Socket, AgentError> {
    let ccid = dccp_of(context, flow).ccid;
    let socket = open::enter_and(context, flow, node, |family: &IpAddr| Socket::dccp(family, ccid))?;
    let dscp = context.flow(flow).dscp;
    socket.set_dscp(dscp).map_err(|error| open::problem(context, flow, "socket", "refuses its DSCP", error))?;
    Ok(socket)
}
