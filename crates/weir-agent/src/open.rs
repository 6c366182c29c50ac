//! Opens the sockets of a plan.

use std::io;
use std::net::SocketAddr;

use weir_plan::{Ack, Flow, Tcp, Transport, Udp};
use weir_sys::socket::{IntOption, Socket};

use crate::context::Context;
use crate::error::AgentError;
use crate::path;
use crate::window::WindowPlan;

/// Bytes of the timestamps option. The kernel includes them in its segment size; a plan does not.
const TIMESTAMPS_BYTES: u32 = 12;
/// Maximum segment size of `TCP_MAXSEG`.
const MAX_MAXSEG: u32 = 32_767;
/// Maximum bytes that are written and not yet sent.
pub const MAX_UNSENT_BYTES: u32 = 4 << 20;
/// Receive buffer of datagrams, as the kernel counts it.
pub const UDP_BUFFER_BYTES: u64 = 8 << 20;

/// The TCP settings of a flow.
pub fn tcp_of(flow: &Flow) -> &Tcp {
    match &flow.transport {
        Transport::Tcp(tcp) => tcp,
        _ => unreachable!("only TCP flows have such endpoints"),
    }
}

/// The UDP settings of a flow.
pub fn udp_of(flow: &Flow) -> &Udp {
    match &flow.transport {
        Transport::Udp(udp) => udp,
        _ => unreachable!("only UDP flows have such endpoints"),
    }
}

/// The socket of a TCP sender, not connected.
///
/// # Errors
/// The namespace is missing, or the kernel refuses a setting; the error names flow, host and remedy.
pub fn tcp_sender(context: &mut Context, flow: u32) -> Result<Socket, AgentError> {
    let socket = enter_and(context, flow, context.flow(flow).from, Socket::tcp)?;
    let tcp = tcp_of(context.flow(flow));
    let wanted = tcp.send_buffer_bytes;
    set_common(context, flow, &socket)?;
    choose_congestion_control(context, flow, &socket)?;
    let tcp = tcp_of(context.flow(flow));
    let at = |error| problem(context, flow, "sender", "cannot be set up", error);
    socket.set(IntOption::NoDelay, 1).map_err(at)?;
    if tcp.pacing {
        // Any limit makes the kernel pace; this one never applies.
        socket.set_pacing(u64::MAX - 1).map_err(at)?;
    }
    let from = SocketAddr::new(context.host(context.flow(flow).from).address, 0);
    socket.set(IntOption::BindNoPort, 1).map_err(at)?;
    socket.bind(from).map_err(|error| problem(context, flow, "sender", &format!("cannot use {from}"), error))?;
    // The kernel counts the overhead of packets, at most the size of the payload. And the application must be able to
    // write ahead of the data in flight.
    let granted =
        socket.set_send_buffer(wanted.saturating_add(u64::from(MAX_UNSENT_BYTES)).saturating_mul(2)).map_err(at)?;
    check_buffer(context, flow, "send", "wmem_max", wanted, granted)?;
    Ok(socket)
}

/// The socket on which a TCP receiver listens.
///
/// # Errors
/// As for [`tcp_sender`].
pub fn tcp_listener(context: &mut Context, flow: u32) -> Result<Socket, AgentError> {
    let socket = enter_and(context, flow, context.flow(flow).to, Socket::tcp)?;
    set_common(context, flow, &socket)?;
    let at = |error| problem(context, flow, "receiver", "cannot be set up", error);
    let tcp = tcp_of(context.flow(flow));
    let window = window_of(context, flow);
    let quick = tcp.ack == Ack::Every;
    if tcp.ecn {
        // A listener accepts an ECN-capable SYN only if its own congestion control needs ECN. A receiver echoes each
        // mark, as DCTCP requires, only if its own is DCTCP (RFC 8257, section 3.2).
        choose_congestion_control(context, flow, &socket)?;
    }
    socket.set(IntOption::ReuseAddress, 1).map_err(at)?;
    let granted = socket.set_receive_buffer(window.listening_buffer()).map_err(at)?;
    if quick {
        socket.set(IntOption::QuickAck, 1).map_err(at)?;
    }
    let address = context.receiver(flow);
    let at = |error| problem(context, flow, "receiver", &format!("cannot listen on {address}"), error);
    socket.bind(address).and_then(|()| socket.listen()).map_err(at)?;
    check_buffer(context, flow, "receive", "rmem_max", window.window_bytes, granted)?;
    Ok(socket)
}

/// The window that a flow's receiver offers.
pub fn window_of(context: &Context, flow: u32) -> WindowPlan {
    let tcp = tcp_of(context.flow(flow));
    let capacity = path::capacity_bytes(&context.job.plan, flow);
    WindowPlan::new(tcp.send_buffer_bytes, tcp.receive_buffer_bytes, capacity)
}

/// The socket of a UDP sender, connected.
///
/// # Errors
/// As for [`tcp_sender`].
pub fn udp_sender(context: &mut Context, flow: u32) -> Result<Socket, AgentError> {
    let socket = enter_and(context, flow, context.flow(flow).from, Socket::udp)?;
    let (from, to) = (SocketAddr::new(context.host(context.flow(flow).from).address, 0), context.receiver(flow));
    let set_up = || -> io::Result<()> {
        socket.set_dscp(context.flow(flow).dscp)?;
        socket.set_send_buffer(UDP_BUFFER_BYTES)?;
        socket.bind(from)?;
        socket.connect(to).map(drop)
    };
    set_up().map_err(|error| problem(context, flow, "sender", "cannot be set up", error))?;
    Ok(socket)
}

/// The socket of a UDP receiver.
///
/// # Errors
/// As for [`tcp_sender`].
pub fn udp_receiver(context: &mut Context, flow: u32) -> Result<Socket, AgentError> {
    let socket = enter_and(context, flow, context.flow(flow).to, Socket::udp)?;
    let address = context.receiver(flow);
    let set_up = || -> io::Result<()> {
        socket.set_receive_buffer(UDP_BUFFER_BYTES)?;
        socket.set(IntOption::ReceiveStamps, 1)?;
        socket.set(IntOption::ReceiveDrops, 1)?;
        socket.bind(address)
    };
    set_up().map_err(|error| problem(context, flow, "receiver", &format!("cannot listen on {address}"), error))?;
    Ok(socket)
}

/// Opens a socket in the namespace of `node`.
///
/// # Errors
/// As for [`tcp_sender`].
pub fn enter_and(
    context: &mut Context,
    flow: u32,
    node: u32,
    open: impl FnOnce(&std::net::IpAddr) -> io::Result<Socket>,
) -> Result<Socket, AgentError> {
    let host = context.host(node).clone();
    context.namespaces.enter(host.netns.as_deref()).map_err(|error| {
        let path = host.netns.as_deref().unwrap_or(std::path::Path::new("/proc/self/ns/net"));
        let remedy = match error.kind() {
            io::ErrorKind::PermissionDenied => "entering a network namespace needs root",
            io::ErrorKind::NotFound => "it must exist before the agent is started",
            _ => "it must be a network namespace",
        };
        let place = context.describe(flow);
        AgentError(format!("{place}: network namespace {}: {error}; {remedy}", path.display()))
    })?;
    open(&host.address).map_err(|error| problem(context, flow, "socket", "cannot be opened", error))
}

fn set_common(context: &Context, flow: u32, socket: &Socket) -> Result<(), AgentError> {
    let Flow { dscp, .. } = *context.flow(flow);
    let tcp = tcp_of(context.flow(flow));
    socket.set_dscp(dscp).map_err(|error| problem(context, flow, "socket", "refuses its DSCP", error))?;
    let segment = tcp.mss_bytes + if tcp.timestamps { TIMESTAMPS_BYTES } else { 0 };
    if segment > MAX_MAXSEG {
        // The device's MTU limits larger segments.
        return Ok(());
    }
    socket.set(IntOption::MaxSegment, segment).map_err(|error| {
        let text =
            format!("refuses a segment size of {segment} bytes (Linux takes 88 to {MAX_MAXSEG}, options included)");
        problem(context, flow, "socket", &text, error)
    })
}

fn choose_congestion_control(context: &Context, flow: u32, socket: &Socket) -> Result<(), AgentError> {
    let place = || context.describe(flow);
    let Some(name) = kernel_cc(context, flow) else {
        let cc = &tcp_of(context.flow(flow)).cc;
        return Err(AgentError(format!("{}: job.kernel_cc does not say what the kernel calls {cc:?}", place())));
    };
    socket.set_congestion_control(name).map_err(|error| {
        let remedy = match error.kind() {
            io::ErrorKind::NotFound => "this kernel has none of that name: load it, or its module",
            io::ErrorKind::PermissionDenied => {
                "only root may choose it, or add it to net.ipv4.tcp_allowed_congestion_control"
            }
            _ => "see net.ipv4.tcp_available_congestion_control",
        };
        AgentError(format!("{}: congestion control {name}: {error}; {remedy}", place()))
    })
}

/// The kernel's name of a flow's congestion control.
pub fn kernel_cc(context: &Context, flow: u32) -> Option<&str> {
    let cc = &tcp_of(context.flow(flow)).cc;
    context.job.kernel_cc.get(cc).map(String::as_str).or(cc.strip_prefix("linux:"))
}

fn check_buffer(
    context: &Context,
    flow: u32,
    which: &str,
    sysctl: &str,
    wanted: u64,
    granted: u64,
) -> Result<(), AgentError> {
    // A smaller buffer suffices if the path cannot use more.
    let wanted = wanted.min(path::capacity_bytes(&context.job.plan, flow).saturating_mul(2));
    if granted >= wanted {
        return Ok(());
    }
    let name = &context.flow(flow).name;
    Err(AgentError(format!(
        "flow {name}: the kernel grants a {which} buffer of {granted} bytes where the plan has {wanted}: raise \
         net.core.{sysctl}, run as root, or ask for less (transport.buffers)"
    )))
}

/// The error of a part of a flow.
pub fn problem(context: &Context, flow: u32, part: &str, what: &str, error: io::Error) -> AgentError {
    AgentError(format!("{}: {part} {what}: {error}", context.describe(flow)))
}
