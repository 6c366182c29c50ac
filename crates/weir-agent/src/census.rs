//! Samples all connections of a plan's programs at once: one dump of each namespace with programs.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use weir_plan::{Source, Transport};
use weir_protocol::End;
use weir_sys::diag::{Departures, Diag, DiagSocket, Ports, States};

use crate::context::Context;
use crate::error::AgentError;
use crate::foreign::Connections;

/// A side of a flow: that of the command, or that of its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Connections to the flow's port.
    Command,
    /// Connections at the flow's port.
    Peer,
}

/// The sampled connections of programs.
pub struct Census {
    places: Vec<Place>,
    ports: Ports,
    first_port: u16,
    known: BTreeMap<(u32, Side), Connections>,
}

struct Place {
    netns: Option<PathBuf>,
    diag: Diag,
    departures: Option<Departures>,
    /// Flow, side and the peer's address, because hosts may share a namespace.
    sides: Vec<(u32, Side, IpAddr)>,
}

impl Census {
    /// For the ends of the job with programs over TCP.
    ///
    /// # Errors
    /// The kernel lacks `tcp_diag`: the flows would have no rows in table `samples`.
    pub fn new(context: &mut Context) -> Result<Census, AgentError> {
        let ends: Vec<End> = context.job.ends.clone();
        let last = context.job.port(context.job.plan.flows.len().saturating_sub(1) as u32);
        let first_port = context.job.first_port;
        let mut census =
            Census { places: Vec::new(), ports: Ports::Either(first_port..=last), first_port, known: BTreeMap::new() };
        for end in ends {
            let Some((flow, side, netns)) = watched(context, end) else { continue };
            let programs_peer = peer_of(context, flow);
            let place = census.place(context, netns.as_deref()).map_err(|error| {
                AgentError(format!(
                    "{}: the kernel does not tell of the connections of other programs: inet_diag: {error}; load the \
                     kernel module tcp_diag",
                    context.describe(flow)
                ))
            })?;
            place.sides.push((flow, side, programs_peer));
            census.known.insert((flow, side), Connections::default());
        }
        Ok(census)
    }

    /// Samples every connection.
    pub fn look(&mut self) {
        let Census { places, ports, first_port, known } = self;
        for place in places {
            let Place { diag, departures, sides, .. } = place;
            let mut of = |socket: &DiagSocket, act: fn(&mut Connections, &DiagSocket)| {
                let found = sides_of(socket, *first_port).into_iter().flatten().find(|side| sides.contains(side));
                if let Some(connections) = found.and_then(|(flow, side, _)| known.get_mut(&(flow, side))) {
                    act(connections, socket);
                }
            };
            for v6 in [false, true] {
                // The first dump worked. After a failure, the last sample remains.
                let _ = diag.dump(v6, States::Alive, ports, |socket| of(&socket, Connections::offer));
            }
            if let Some(departures) = departures {
                departures.take(|socket| of(&socket, Connections::bury));
            }
        }
    }

    /// The connections at a side of a flow; `None` without `tcp_diag`.
    pub fn of(&mut self, flow: u32, side: Side) -> Option<&mut Connections> {
        self.known.get_mut(&(flow, side))
    }

    fn place(&mut self, context: &mut Context, netns: Option<&Path>) -> io::Result<&mut Place> {
        let index = match self.places.iter().position(|place| place.netns.as_deref() == netns) {
            Some(index) => index,
            None => {
                context.namespaces.enter(netns)?;
                let mut diag = Diag::new()?;
                diag.dump(false, States::Alive, &self.ports, |_| ())?;
                let departures = Departures::new().ok();
                self.places.push(Place { netns: netns.map(Path::to_owned), diag, departures, sides: Vec::new() });
                self.places.len() - 1
            }
        };
        Ok(&mut self.places[index])
    }
}

/// Flow, side and namespace of an end with a program over TCP.
fn watched(context: &Context, end: End) -> Option<(u32, Side, Option<PathBuf>)> {
    let (End::From(flow) | End::To(flow)) = end;
    let plan = context.flow(flow);
    let (Source::Command(programs), Transport::Tcp(_)) = (&plan.source, &plan.transport) else { return None };
    let sends = matches!(end, End::From(_));
    let node = if sends { plan.from } else { plan.to };
    Some((flow, side_of(programs, sends), context.host(node).netns.clone()))
}

/// The side of a flow at its sending or receiving node.
pub fn side_of(programs: &weir_plan::Programs, sends: bool) -> Side {
    let command_sends = programs.sender == weir_plan::Sender::Command;
    if command_sends == sends { Side::Command } else { Side::Peer }
}

/// The possible flows and sides of a socket: its port, or its peer's, is the flow's.
fn sides_of(socket: &DiagSocket, first_port: u16) -> [Option<(u32, Side, IpAddr)>; 2] {
    let at = |end: SocketAddr, side| {
        let flow = end.port().checked_sub(first_port).map(u32::from)?;
        Some((flow, side, end.ip().to_canonical()))
    };
    [at(socket.remote, Side::Command), at(socket.local, Side::Peer)]
}

/// The address of the peer of a flow's programs.
fn peer_of(context: &Context, flow: u32) -> IpAddr {
    let plan = context.flow(flow);
    let Source::Command(programs) = &plan.source else { unreachable!("only flows of programs are asked for") };
    let node = if side_of(programs, true) == Side::Peer { plan.from } else { plan.to };
    context.host(node).address
}
