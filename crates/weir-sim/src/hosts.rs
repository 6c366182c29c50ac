//! Components of hosts that take time for packets: disks, cores, memory and bus.
//!
//! The thesis bounds a transfer by the slowest of them (R. Guillier, "Methodologies and Tools for the Evaluation of
//! Transport Protocols in the Context of High-Speed Networks", equation 6.1). Here a component takes one packet after the
//! other, and those that arrive meanwhile wait in the order of their arrival; nothing computes a minimum.
//!
//! Data that a host sends pass its disk (unless they are sent again), the core of their process, the memory and the bus,
//! then the first link. Data that arrive pass the bus, the memory, the core and the disk, then the transport: a host
//! acknowledges what it has written. What waits there counts as unacknowledged, so the receive buffer bounds it.
//! Acknowledgements pass the bus of both hosts, and the core of the one that they reach. A SYN takes no time.
//!
//! Streams of one member of a workload are one process. Process number n of a host runs on core n modulo the number of
//! cores. A process that sends waits while [`HELD`] of its flow's packets are between its socket and its card.

use std::collections::{BTreeMap, VecDeque};

use weir_plan::{Capacity, Flow, PacketWork, Plan, Transport};
use weir_tcp::header_bytes;
use weir_units::{Dur, Time};

use crate::packet::{Kind, Packet, RESENT};

/// Packets of a flow between socket and card of its sender: more than the components of a host, so that each of them may
/// have one in work and another one waiting.
const HELD: u32 = 16;

/// Where a packet goes in its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// To the first link.
    Out,
    /// To the transport.
    In,
}

/// The time of a component for packets of a flow.
#[derive(Clone, Copy, Debug)]
struct Stage {
    component: u32,
    packet_ns: u64,
    /// Femtoseconds for each byte.
    byte_fs: u64,
    /// Bytes that take no time.
    headers: u32,
    /// Whether packets that are sent again take no time.
    once: bool,
}

impl Stage {
    fn time(&self, packet: &Packet) -> Dur {
        if self.once && packet.has(RESENT) {
            return Dur::ZERO;
        }
        let bytes = u64::from(packet.bytes().saturating_sub(self.headers));
        Dur(self.packet_ns + bytes.saturating_mul(self.byte_fs) / 1_000_000)
    }
}

/// A packet at a component.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub packet: Packet,
    pub way: Way,
    /// Places of its stages: the present one, and behind the last one.
    stage: u32,
    end: u32,
}

/// A component: the packet in work, and those that wait.
#[derive(Default)]
struct Component {
    /// The first one is in work.
    jobs: VecDeque<Job>,
}

/// What becomes of a packet that goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// It has passed all components.
    Passed(Job),
    /// It waits.
    Waits,
    /// This component has begun its work and ends it at this instant.
    Begun(u32, Time),
}

/// The components of all hosts of a plan.
#[derive(Default)]
pub(crate) struct Hosts {
    components: Vec<Component>,
    stages: Vec<Stage>,
    /// By flow: where the stages begin and end, of data out and in, of acknowledgements out and in.
    ways: Vec<[(u32, u32); 4]>,
    /// By flow: its data packets between socket and card.
    held: Vec<u32>,
}

impl Hosts {
    /// The components of a plan; none without capacities.
    pub fn of(plan: &Plan) -> Hosts {
        let mut hosts = Hosts::default();
        if plan.nodes.iter().all(|node| node.capacity.is_none()) {
            return hosts;
        }
        let mut parts = BTreeMap::new();
        for (number, node) in (0u32..).zip(&plan.nodes) {
            if let Some(capacity) = &node.capacity {
                parts.insert(number, Parts::new(capacity, &mut hosts.components));
            }
        }
        hosts.held = vec![0; plan.flows.len()];
        for flow in &plan.flows {
            let mut core = |end: u32| parts.get_mut(&end)?.core(flow);
            let (from, to) = (core(flow.from), core(flow.to));
            let headers = match &flow.transport {
                Transport::Tcp(tcp) => header_bytes(tcp.timestamps),
                _ => 0,
            };
            let (sender, receiver) = (parts.get(&flow.from), parts.get(&flow.to));
            let mut way = |stages: Option<Vec<Stage>>| {
                let begin = hosts.stages.len() as u32;
                hosts.stages.extend(stages.unwrap_or_default());
                (begin, hosts.stages.len() as u32)
            };
            hosts.ways.push([
                way(sender.map(|parts| parts.data_out(from, headers))),
                way(receiver.map(|parts| parts.data_in(to, headers))),
                way(receiver.map(|parts| parts.bus().into_iter().collect())),
                way(sender.map(|parts| parts.answers_in(from))),
            ]);
        }
        hosts
    }

    /// Whether no host has components.
    pub fn is_empty(&self) -> bool {
        self.ways.is_empty()
    }

    /// Number of components.
    pub fn components(&self) -> u32 {
        self.components.len() as u32
    }

    /// Whether data of a flow take time at their sender.
    pub fn holds_data(&self, flow: usize) -> bool {
        self.ways.get(flow).is_some_and(|ways| ways[0].0 < ways[0].1)
    }

    /// Whether a flow has so many packets between socket and card that its process waits.
    pub fn is_full(&self, flow: usize) -> bool {
        self.held.get(flow).is_some_and(|held| *held >= HELD)
    }

    /// A packet begins its way through a host; none if no component takes time for it.
    pub fn begin(&self, packet: Packet, way: Way) -> Option<Job> {
        let ways = self.ways.get(packet.flow())?;
        let (stage, end) = match (packet.kind(), way) {
            (Kind::Data, Way::Out) => ways[0],
            (Kind::Data, Way::In) => ways[1],
            (Kind::Ack | Kind::SynAck, Way::Out) => ways[2],
            (Kind::Ack | Kind::SynAck, Way::In) => ways[3],
            (Kind::Syn | Kind::Confirmation | Kind::Datagram | Kind::Feedback, _) => return None,
        };
        (stage < end).then_some(Job { packet, way, stage, end })
    }

    /// Moves a packet to the next component that takes time for it.
    pub fn go_on(&mut self, now: Time, mut job: Job) -> Step {
        while job.stage < job.end {
            let stage = self.stages[job.stage as usize];
            let jobs = &mut self.components[stage.component as usize].jobs;
            let time = stage.time(&job.packet);
            if !jobs.is_empty() {
                jobs.push_back(job);
                return Step::Waits;
            }
            if time > Dur::ZERO {
                jobs.push_back(job);
                return Step::Begun(stage.component, now + time);
            }
            job.stage += 1;
        }
        Step::Passed(job)
    }

    /// The packet that a component has in work.
    pub fn in_work(&self, component: u32) -> Option<&Job> {
        self.components[component as usize].jobs.front()
    }

    /// Ends the work for a packet; returns it behind this component, and the instant at which the work for the next one
    /// ends.
    pub fn end(&mut self, now: Time, component: u32) -> Option<(Job, Option<Time>)> {
        let jobs = &mut self.components[component as usize].jobs;
        let mut job = jobs.pop_front()?;
        job.stage += 1;
        let next = jobs.front().map(|next| now + self.stages[next.stage as usize].time(&next.packet));
        Some((job, next))
    }

    /// A data packet of a flow goes into its host.
    pub fn hold(&mut self, flow: usize) {
        self.held[flow] += 1;
    }

    /// A data packet of a flow has left its host; true if its process waited for that.
    pub fn release(&mut self, flow: usize) -> bool {
        let waited = self.is_full(flow);
        self.held[flow] -= 1;
        waited
    }
}

impl Job {
    /// Whether the first link is next.
    pub fn leaves(&self) -> bool {
        self.way == Way::Out && self.stage + 1 == self.end
    }
}

/// The components of one host, by their numbers, and its processes.
struct Parts<'a> {
    capacity: &'a Capacity,
    /// The first core.
    cores: u32,
    memory: u32,
    bus: u32,
    read: u32,
    write: u32,
    /// Number of each process, by group and member of the workload.
    processes: BTreeMap<(&'a str, u32), u32>,
}

impl<'a> Parts<'a> {
    fn new(capacity: &'a Capacity, components: &mut Vec<Component>) -> Parts<'a> {
        let mut add = |number: u32| {
            let first = components.len() as u32;
            components.extend((0..number).map(|_| Component::default()));
            first
        };
        let cores = add(capacity.processor.as_ref().map_or(0, |processor| processor.cores));
        let (memory, bus, read, write) = (add(1), add(1), add(1), add(1));
        Parts { capacity, cores, memory, bus, read, write, processes: BTreeMap::new() }
    }

    /// The core of a flow's process; none without a processor.
    fn core(&mut self, flow: &'a Flow) -> Option<u32> {
        let cores = self.capacity.processor.as_ref()?.cores;
        let next = self.processes.len() as u32;
        let process = *self.processes.entry((&flow.group, flow.index)).or_insert(next);
        Some(self.cores + process % cores)
    }

    /// Data come from the disk and go to the card.
    fn data_out(&self, core: Option<u32>, headers: u32) -> Vec<Stage> {
        let disk = self.capacity.disk.map_or(0, |disk| disk.read_bps);
        let disk = at_rate(self.read, disk, 1).map(|stage| Stage { headers, once: true, ..stage });
        let work = self.work(core, headers, true);
        [disk, work, self.memory(), self.bus()].into_iter().flatten().collect()
    }

    /// Data come from the card and go to the disk.
    fn data_in(&self, core: Option<u32>, headers: u32) -> Vec<Stage> {
        let disk = self.capacity.disk.map_or(0, |disk| disk.write_bps);
        let disk = at_rate(self.write, disk, 1).map(|stage| Stage { headers, ..stage });
        let work = self.work(core, headers, false);
        [self.bus(), self.memory(), work, disk].into_iter().flatten().collect()
    }

    /// What answers data comes from the card.
    fn answers_in(&self, core: Option<u32>) -> Vec<Stage> {
        let time = self.capacity.processor.as_ref().map_or(0, |processor| processor.ack_ns);
        let work = core.filter(|_| time > 0).map(|core| Stage { packet_ns: time, ..free(core) });
        [self.bus(), work].into_iter().flatten().collect()
    }

    fn work(&self, core: Option<u32>, headers: u32, sends: bool) -> Option<Stage> {
        let processor = self.capacity.processor.as_ref()?;
        let PacketWork { packet_ns, copy_bps } = if sends { processor.send } else { processor.receive };
        if packet_ns == 0 && copy_bps == 0 {
            return None;
        }
        let copy = at_rate(core?, copy_bps, 1).unwrap_or(free(core?));
        Some(Stage { packet_ns, headers, ..copy })
    }

    fn memory(&self) -> Option<Stage> {
        let memory = self.capacity.memory?;
        at_rate(self.memory, memory.rate_bps, memory.passes)
    }

    fn bus(&self) -> Option<Stage> {
        at_rate(self.bus, self.capacity.bus_bps, 1)
    }
}

/// A stage that takes no time.
fn free(component: u32) -> Stage {
    Stage { component, packet_ns: 0, byte_fs: 0, headers: 0, once: false }
}

/// A stage that takes the bytes of a packet at a rate, several times; none at rate 0, which means no limit.
fn at_rate(component: u32, rate_bps: u64, passes: u32) -> Option<Stage> {
    /// Femtoseconds for a byte at 1 bit/s.
    const FS: u128 = 8_000_000_000_000_000;
    let byte_fs = |rate: u64| ((FS * u128::from(passes) + u128::from(rate / 2)) / u128::from(rate)) as u64;
    (rate_bps > 0).then(|| Stage { byte_fs: byte_fs(rate_bps), ..free(component) })
}
