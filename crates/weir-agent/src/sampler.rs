//! Samples the state of many connections: one system call each, or one dump of a whole namespace.
//!
//! Measured on a host (`examples/sampling_cost.rs`): a call takes 0.6 us; a dump takes 150 us, because it walks the
//! kernel's whole table, and 0.6 us per socket. So calls are always cheaper. In User-Mode Linux, the lab's kernel, a
//! call takes 20 to 50 us, a dump 75 us and 1 to 4 us per socket. So a dump is cheaper from a few sockets on. The lab
//! is recognised by its clock, which stands still while a process computes.

use std::path::PathBuf;

use weir_plan::{Source, Transport};
use weir_protocol::End;
use weir_sys::clock;
use weir_sys::diag::{Diag, Ports, States};
use weir_sys::tcp_info::TcpInfo;

use crate::context::Context;

/// Number of connections in a namespace from which a dump is cheaper, in the lab.
const DUMP_FROM: usize = 4;

/// The way of sampling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sampling {
    /// The cheaper one here.
    #[default]
    Auto,
    /// One call per connection.
    Calls,
    /// One dump per namespace.
    Dumps,
}

/// The namespaces to dump, and the result of the last dump.
pub struct Sampler {
    groups: Vec<Group>,
    infos: Vec<Option<TcpInfo>>,
    /// Dumps so far.
    pub dumps: u64,
    ports: Ports,
    first_port: u16,
}

struct Group {
    diag: Diag,
    v6: bool,
}

impl Sampler {
    /// For the sending ends of the job. Uses calls where the kernel lacks dumps.
    pub fn new(context: &mut Context, sampling: Sampling) -> Sampler {
        let flows = context.job.plan.flows.len();
        let last = context.job.port(flows.saturating_sub(1) as u32);
        let first_port = context.job.first_port;
        let mut sampler = Sampler {
            groups: Vec::new(),
            infos: vec![None; flows],
            dumps: 0,
            ports: Ports::Remote(first_port..=last),
            first_port,
        };
        let dumps_from = match sampling {
            Sampling::Calls => return sampler,
            Sampling::Dumps => 1,
            Sampling::Auto if clock::stands_still() => DUMP_FROM,
            Sampling::Auto => return sampler,
        };
        for (netns, v6, count) in senders_by_namespace(context) {
            if count >= dumps_from && context.namespaces.enter(netns.as_deref()).is_ok() {
                sampler.groups.extend(Diag::new().ok().map(|diag| Group { diag, v6 }));
            }
        }
        sampler
    }

    /// Dumps the namespaces.
    pub fn look(&mut self, context: &Context) {
        if self.groups.is_empty() {
            return;
        }
        self.infos.fill(None);
        let (infos, ports, first_port) = (&mut self.infos, &self.ports, self.first_port);
        for group in &mut self.groups {
            self.dumps += 1;
            let result = group.diag.dump(group.v6, States::Open, ports, |socket| {
                let flow = u32::from(socket.remote.port() - first_port);
                let sender = context.host(context.flow(flow).from).address;
                // An ephemeral port may be in the range too.
                if socket.local.ip() == sender && socket.remote == context.receiver(flow) {
                    infos[flow as usize] = Some(socket.info);
                }
            });
            if result.is_err() {
                infos.fill(None);
            }
        }
    }

    /// The state of a flow's connection in the last dump.
    pub fn info(&self, flow: u32) -> Option<TcpInfo> {
        self.infos[flow as usize]
    }
}

/// The namespaces from which this process sends TCP flows, whether by IPv6, and the number of flows.
fn senders_by_namespace(context: &Context) -> Vec<(Option<PathBuf>, bool, usize)> {
    let mut found: Vec<(Option<PathBuf>, bool, usize)> = Vec::new();
    for end in &context.job.ends {
        let End::From(flow) = *end else { continue };
        let plan = context.flow(flow);
        if !matches!(plan.transport, Transport::Tcp(_)) || matches!(plan.source, Source::Command(_)) {
            continue;
        }
        let host = context.host(plan.from);
        let v6 = host.address.is_ipv6();
        match found.iter_mut().find(|(netns, is_v6, _)| *netns == host.netns && *is_v6 == v6) {
            Some((_, _, count)) => *count += 1,
            None => found.push((host.netns.clone(), v6, 1)),
        }
    }
    found
}
