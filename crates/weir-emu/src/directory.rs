//! The route of a packet, by its sending host, its destination and its ports.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_plan::{Sender, Source};
use weir_protocol::Job;

use weir_units::Time;

use crate::frame::{Frame, VNET_BYTES};
use crate::stations::Stations;

/// The way of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Its route: `2 f` is the path of flow `f`, `2 f + 1` its reverse path.
    pub route: u32,
    /// Its flow; `None` for packets that belong to no flow of the plan.
    pub flow: Option<u32>,
    /// Whether copies go to all other ports of the switch.
    pub flooded: bool,
}

/// The hosts of a job and the routes between them.
#[derive(Debug, Default)]
pub struct Directory {
    first_port: u16,
    /// By flow: its two hosts, as indices into the hosts of the job, and their addresses.
    flows: Vec<Ends>,
    /// By sending host and destination: a route for packets that belong to no flow.
    between: BTreeMap<(u32, IpAddr), u32>,
    /// By sending host: the only route of a bridge.
    bridged: Option<Vec<u32>>,
    /// Of a switch: the stations behind its ports.
    stations: Option<Stations>,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    from: u32,
    to: u32,
    from_address: IpAddr,
    to_address: IpAddr,
    has_reverse: bool,
    /// The flow's port belongs to the sending program, as in a download.
    port_at_sender: bool,
}

impl Directory {
    /// Creates the directory of a job.
    ///
    /// # Panics
    /// The job lacks a host of a flow; `Job::from_json` refuses such a job.
    pub fn new(job: &Job) -> Directory {
        let host = |node: u32| {
            let index =
                job.hosts.iter().position(|host| host.node == node).expect("the job has the hosts of its flows");
            (index as u32, job.hosts[index].address)
        };
        let mut flows = Vec::with_capacity(job.plan.flows.len());
        let mut between = BTreeMap::new();
        for (index, flow) in (0u32..).zip(&job.plan.flows) {
            let ((from, from_address), (to, to_address)) = (host(flow.from), host(flow.to));
            between.entry((from, to_address)).or_insert(2 * index);
            let has_reverse = !flow.reverse_path.is_empty();
            if has_reverse {
                between.entry((to, from_address)).or_insert(2 * index + 1);
            }
            let port_at_sender = matches!(&flow.source, Source::Command(programs) if programs.sender == Sender::Peer);
            flows.push(Ends { from, to, from_address, to_address, has_reverse, port_at_sender });
        }
        Directory { first_port: job.first_port, flows, between, bridged: None, stations: None }
    }

    /// Creates a directory for two devices, bridged by the first flow of a plan: each one's packets go to the other.
    pub fn bridge(job: &Job) -> Directory {
        let directory = Directory::new(job);
        let first = directory.flows[0];
        let mut routes = vec![0; job.hosts.len()];
        routes[first.to as usize] = 1;
        Directory { bridged: Some(routes), ..directory }
    }

    /// Creates a directory for the ports of a switch: it learns where stations are.
    pub fn switch(job: &Job) -> Directory {
        Directory { stations: Some(Stations::new(job)), ..Directory::new(job) }
    }

    /// Forgets what it has learned.
    pub fn forget(&mut self) {
        self.stations.iter_mut().for_each(Stations::forget);
    }

    /// The way of a frame that `host` sends at `at`; `None` without a route. `bytes` begin with the virtio header.
    pub fn find(&mut self, at: Time, host: u32, frame: &Frame, bytes: &[u8]) -> Option<Way> {
        match &mut self.stations {
            Some(stations) => stations.way(at, host, &bytes[VNET_BYTES.min(bytes.len())..]),
            None => self.way(host, frame),
        }
    }

    /// The way of a packet from `host` by its IP addresses and ports; `None` without a route.
    pub fn way(&self, host: u32, frame: &Frame) -> Option<Way> {
        if let Some(routes) = &self.bridged {
            return Some(Way { route: routes[host as usize], flow: None, flooded: false });
        }
        let (_, destination) = frame.addresses?;
        if let Some((source_port, destination_port)) = frame.ports {
            let to_port = self.way_of(host, destination, destination_port, true);
            if let Some(way) = to_port.or_else(|| self.way_of(host, destination, source_port, false)) {
                return Some(way);
            }
        }
        self.between.get(&(host, destination)).map(|&route| Way { route, flow: None, flooded: false })
    }

    /// The way of a packet from `host` to `destination`, to or from the port of a flow.
    fn way_of(&self, host: u32, destination: IpAddr, port: u16, to_port: bool) -> Option<Way> {
        let flow = self.flow_at(port)?;
        let ends = self.ends(flow);
        let (forward, backward) = ((ends.from, ends.to_address), (ends.to, ends.from_address));
        if to_port != ends.port_at_sender {
            ((host, destination) == forward).then_some(Way { route: 2 * flow, flow: Some(flow), flooded: false })
        } else {
            let is_its = ends.has_reverse && (host, destination) == backward;
            is_its.then_some(Way { route: 2 * flow + 1, flow: Some(flow), flooded: false })
        }
    }

    /// The host at the end of a route.
    pub fn end(&self, route: u32) -> u32 {
        let ends = self.ends(route / 2);
        if route % 2 == 0 { ends.to } else { ends.from }
    }

    /// The host that sends the data of a flow, if the plan has this flow.
    pub fn sender(&self, flow: u32) -> Option<u32> {
        self.flows.get(flow as usize).map(|ends| ends.from)
    }

    fn ends(&self, flow: u32) -> &Ends {
        &self.flows[flow as usize]
    }

    fn flow_at(&self, port: u16) -> Option<u32> {
        let flow = u32::from(port.checked_sub(self.first_port)?);
        ((flow as usize) < self.flows.len()).then_some(flow)
    }
}
