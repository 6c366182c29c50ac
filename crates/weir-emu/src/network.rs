//! The emulated network: the links of the plan, and the trains under way on them. No clock and no device: the driver
//! injects frames at an instant, advances the network, and takes the deliveries.
//!
//! Every packet of a train passes the links by itself, at its own instant: losses, queues, marks, serialisation and
//! delay see what a network sees. All instants are *logical*: a departure depends on arrivals and elements, never on
//! the instant at which the driver processes it.

mod nodes;

use std::collections::VecDeque;

use weir_elements::Packet as _;
use weir_links::{
    Calendar, DelayStats, Link, Passage, Routes, Start, Stop, append_classes_sorted, append_sorted, build_links,
    mark_fused,
};
use weir_plan::{Change, ChangeKind, Limit, Plan};
use weir_protocol::Job;
use weir_run::{Classes, Column, DelayBins, Delays, EventKind, EventRow, Events, Links, Ports};
use weir_trace::{Observer, TraceRecord};
use weir_units::{Dur, Time};

use crate::directory::{Directory, Way};
use crate::frame::{Frame, VNET_BYTES};
use crate::gather::{Delivery, Gather};
use crate::ledger::Ledger;
use crate::network::nodes::Nodes;
use crate::pool::Pool;
use crate::room;
use crate::tracer::Tracer;
use crate::train::{NO_FLOW, Segment, Trains};

/// Bins of drops and marks if the plan records no links.
const DEFAULT_BIN_NS: u64 = 100_000_000;
/// Changes of links come first: other events at the same instant see them.
const CHANGES: u32 = 0;

/// Options of the emulation.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Maximum wait of a packet for others of its train before its host; see [`Gather`]. At 10 Gb/s, the longest train
    /// takes 55 us.
    pub hold: Dur,
    /// Memory for packets under way, bytes; frames that do not fit are dropped and counted.
    pub memory: usize,
    /// Whether to record departures, per flow and link.
    pub flow_bins: bool,
    /// Whether to trace single packets, as the plan's `measure.trace` says.
    pub trace: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { hold: Dur::from_micros(60), memory: 1 << 30, flow_bins: false, trace: false }
    }
}

/// Statistics of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets that entered; each packet of a train counts.
    pub packets: u64,
    /// Frames that entered: trains and single packets.
    pub frames: u64,
    /// Packets that reached their host.
    pub delivered_packets: u64,
    /// Packets that a link dropped.
    pub dropped_packets: u64,
    /// Packets that a link marked.
    pub marked_packets: u64,
    /// Packets without a route; those that a switch does not forward.
    pub unrouted_packets: u64,
    /// Packets of which a switch made a copy for each other port.
    pub flooded_packets: u64,
    /// Frames dropped because the memory was full.
    pub memory_frames: u64,
    /// Events of links.
    pub events: u64,
}

/// The tables that a network fills.
#[derive(Debug, Default)]
pub struct Records {
    /// Table `links`.
    pub links: Links,
    /// Table `classes`; none if no recorded queue has classes.
    pub classes: Option<Classes>,
    /// Table `ports`; none without a switch.
    pub ports: Option<Ports>,
    /// Table `delays`.
    pub delays: Delays,
    /// Table `delay_bins`.
    pub delay_bins: DelayBins,
    /// Table `events`: changes of links, PAUSE.
    pub events: Events,
    /// Tables `drops`, `marks` and, if requested, `bins`.
    pub ledgers: Vec<(&'static str, Vec<(&'static str, Column)>)>,
}

#[derive(Clone, Copy)]
struct Slots {
    transmitters: u32,
    pipes: u32,
    nodes: u32,
    hosts: u32,
    count: u32,
}

impl Slots {
    fn new(links: usize, nodes: usize, hosts: usize) -> Slots {
        // Transmitters before arrivals: a packet that begins transmission frees space for one that arrives then.
        let transmitters = CHANGES + 1;
        let pipes = transmitters + links as u32;
        // Switches after arrivals: an arbiter chooses among all packets of an instant.
        let nodes_at = pipes + links as u32;
        let hosts_at = nodes_at + nodes as u32;
        Slots { transmitters, pipes, nodes: nodes_at, hosts: hosts_at, count: hosts_at + hosts as u32 }
    }
}

/// The links of a plan, in logical time.
pub struct Network {
    now: Time,
    plan: Plan,
    options: Options,
    slots: Slots,
    calendar: Calendar,
    links: Vec<Link<Segment>>,
    nodes: Nodes,
    routes: Routes,
    /// By host of the job: its network cards, the first links of its routes.
    cards: Vec<Vec<u32>>,
    directory: Directory,
    lost: Vec<Segment>,
    next_change: usize,
    gather: Gather,
    ready: VecDeque<Delivery>,
    /// Length of a bin, and the instant up to which unfinished bins are closed.
    bin_ns: u64,
    closed_until: Time,
    drops: Ledger,
    marks: Ledger,
    bins: Option<Ledger>,
    delays: Option<DelayStats>,
    tracer: Option<Tracer>,
    events: Events,
    statistics: Statistics,
    /// The trains under way and their memory.
    pub trains: Trains,
}

impl Network {
    /// Creates the empty network of a job, at instant 0. Queues of hosts' network cards have no limit and never drop:
    /// the driver injects no more than [`ready_for`](Network::ready_for) allows.
    pub fn new(job: &Job, directory: Directory, options: Options) -> Network {
        let pool = Pool::new(options.memory);
        Network::with_pool(job, directory, options, pool)
    }

    fn with_pool(job: &Job, directory: Directory, options: Options, pool: Pool) -> Network {
        let plan = with_patient_cards(&job.plan);
        let nodes = Nodes::new(&plan);
        let slots = Slots::new(plan.links.len(), nodes.len(), job.hosts.len());
        let mut links = build_links(&plan);
        (0..).zip(&mut links).for_each(|(index, link)| link.behind_node = nodes.is_behind(index));
        room::reserve(&plan.links, &mut links);
        mark_fused(&plan, &mut links);
        let interval = if plan.measure.links_ns > 0 { plan.measure.links_ns } else { DEFAULT_BIN_NS };
        let mut network = Network {
            now: Time::ZERO,
            options,
            slots,
            calendar: Calendar::new(slots.count as usize),
            routes: Routes::new(&plan, &links),
            cards: cards(job),
            links,
            nodes,
            directory,
            lost: Vec::new(),
            next_change: 0,
            gather: Gather::new(job.hosts.len(), options.hold),
            ready: VecDeque::new(),
            bin_ns: interval,
            closed_until: Time::ZERO,
            drops: Ledger::new(interval),
            marks: Ledger::new(interval),
            bins: options.flow_bins.then(|| Ledger::new(interval)),
            delays: delay_stats(&plan),
            tracer: options.trace.then(|| Observer::from_plan(&plan)).flatten().map(Tracer::new),
            events: Events::default(),
            statistics: Statistics::default(),
            trains: Trains::new(pool),
            plan,
        };
        network.find_floods();
        network.schedule_change();
        network
    }

    /// Resets the network to instant 0: no packet is under way, and random streams restart. Keeps its memory.
    pub fn restart(&mut self, job: &Job) {
        self.trains.clear();
        let pool = std::mem::replace(&mut self.trains.pool, Pool::new(0));
        let mut directory = std::mem::take(&mut self.directory);
        directory.forget();
        *self = Network::with_pool(job, directory, self.options, pool);
    }

    /// The statistics so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// The logical present: all earlier events have happened.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The instant of the next event; later than any run if no packet is under way.
    pub fn next_event(&self) -> Time {
        self.calendar.first().0
    }

    /// Injects the frame in `scratch`, which `host` sends at `at`, not before the last event. The host handed it to its
    /// device at `sent`; it may then have waited there for the network card.
    pub fn inject(&mut self, at: Time, sent: Time, host: u32, frame: &Frame, scratch: Box<[u8]>, len: usize) {
        self.advance(at);
        let packets = frame.packets();
        self.statistics.frames += 1;
        self.statistics.packets += u64::from(packets);
        let Some(way) = self.directory.find(at, host, frame, &scratch[..len]) else {
            self.statistics.unrouted_packets += u64::from(packets);
            return self.trains.pool.unused(scratch);
        };
        let traced = self.tracer.as_mut().map(|tracer| tracer.sent(sent, way, frame, &scratch[..len]));
        match self.trains.pool.keep(scratch, len, VNET_BYTES + usize::from(frame.payload_start)) {
            Some(buffer) => {
                let counts = frame.is_data() && way.flow.is_some_and(|flow| way.route == 2 * flow);
                let train = self.trains.add(buffer, *frame, way.flow.unwrap_or(NO_FLOW), counts, sent);
                if let Some((tracer, packets)) = self.tracer.as_mut().zip(traced) {
                    tracer.keep(train, packets);
                }
                self.send(at, way, frame, train);
            }
            None => {
                self.statistics.memory_frames += 1;
                if let Some((tracer, packets)) = self.tracer.as_mut().zip(traced) {
                    tracer.forget(at, packets);
                }
            }
        }
    }

    fn send(&mut self, at: Time, way: Way, frame: &Frame, train: u32) {
        let (place, hash) = (self.routes.start(way.route), flow_hash(way));
        self.statistics.flooded_packets += if way.flooded { u64::from(frame.packets()) } else { 0 };
        for index in 0..frame.packets() {
            let segment = Segment::new(train, index as u16, frame, place, hash);
            let segment = if way.flooded { segment.flooded() } else { segment };
            self.pass(at, segment, None, Time::MAX);
        }
    }

    /// Processes all events up to and including `until`.
    pub fn advance(&mut self, until: Time) {
        loop {
            let (at, slot) = self.calendar.first();
            if at > until {
                break;
            }
            debug_assert!(at >= self.now, "time must not run backwards");
            self.now = at;
            self.statistics.events += 1;
            self.dispatch(slot);
        }
        self.now = self.now.max(until);
    }

    /// Whether a delivery is due.
    pub fn has_deliveries(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The next due delivery; the caller returns it with [`delivered`](Network::delivered).
    pub fn next_delivery(&mut self) -> Option<Delivery> {
        self.ready.pop_front()
    }

    /// Releases a delivery that was made.
    pub fn delivered(&mut self, delivery: &Delivery) {
        self.statistics.delivered_packets += u64::from(delivery.run.packets);
        self.trains.release(delivery.train, delivery.run.packets as u16);
    }

    /// The earliest instant at which `host` may send: its network cards then hold at most `horizon`.
    pub fn ready_for(&self, host: u32, horizon: Dur) -> Time {
        let drained = |&link: &u32| self.links[link as usize].drained(self.now);
        let full = self.cards[host as usize].iter().map(drained).max().unwrap_or(self.now);
        Time(full.0.saturating_sub(horizon.0)).max(self.now)
    }

    /// Closes the present bins, at the end of the run.
    pub fn close_bins(&mut self) {
        self.closed_until = Time(self.now.0.div_ceil(self.bin_ns) * self.bin_ns);
    }

    /// Removes and returns the rows of bins that have ended.
    pub fn drain(&mut self) -> Records {
        let (now, mut rows, mut class_rows) = (self.now.max(self.closed_until), Vec::new(), Vec::new());
        for link in &mut self.links {
            link.advance(now);
            link.stats.roll(now);
            link.stats.drain(now, &mut rows);
            link.drain_classes(now, &mut class_rows);
        }
        let mut records = Records { events: std::mem::take(&mut self.events), ..Records::default() };
        append_sorted(rows, &mut records.links);
        records.ports = self.drain_ports(now);
        if self.links.iter().any(Link::has_classes) {
            append_classes_sorted(class_rows, records.classes.insert(Classes::default()));
        }
        if let Some(delays) = &mut self.delays {
            (records.delays, records.delay_bins) = delays.take(self.now);
        }
        let mut drops = self.drops.drain(now);
        let mut marks = self.marks.drain(now);
        // Their bytes are in table `links`.
        drops.truncate(4);
        marks.truncate(4);
        records.ledgers = vec![("drops", drops), ("marks", marks)];
        records.ledgers.extend(self.bins.as_mut().map(|bins| ("bins", bins.drain(now))));
        records
    }

    /// Removes and returns the records of the trace, in the order of their discovery; drops may be ahead of the clock.
    pub fn take_trace(&mut self) -> Vec<TraceRecord> {
        self.tracer.as_mut().map_or_else(Vec::new, Tracer::take)
    }

    fn dispatch(&mut self, slot: u32) {
        let slots = self.slots;
        if slot >= slots.hosts {
            let host = slot - slots.hosts;
            self.calendar.set(slot, Time::MAX);
            self.ready.extend(self.gather.expire(host, self.now));
        } else if slot >= slots.nodes {
            self.act_at_node(slot - slots.nodes);
        } else if slot >= slots.pipes {
            self.on_arrival(slot - slots.pipes);
        } else if slot >= slots.transmitters {
            self.start_transmission(slot - slots.transmitters);
        } else {
            self.apply_change();
        }
    }

    /// Moves the first packet of a link to its far end.
    fn on_arrival(&mut self, link: u32) {
        let pipe = &mut self.links[link as usize].pipe;
        let Some(packet) = pipe.pop() else { unreachable!("a pipe is due only while it holds a packet") };
        let next = pipe.next();
        self.calendar.set(self.slots.pipes + link, next);
        self.pass(self.now, packet.hopped(), Some(link), next);
    }

    /// Moves a packet into the next link, a switch or its host; the next packet of the link that it comes from arrives
    /// at `next`.
    fn pass(&mut self, at: Time, packet: Segment, from: Option<u32>, next: Time) {
        match (self.routes.stop(packet.place), from) {
            (Stop::Node(link), Some(input)) => self.arrive_at_node(packet, input, link),
            (Stop::Link(link) | Stop::Fused(link) | Stop::Node(link), _) => self.enter(link, packet, at),
            (Stop::End(route), _) => self.arrive(at, route, packet, next),
        }
    }

    /// Sends a packet over a link, and on over the links fused with it.
    fn enter(&mut self, first: u32, packet: Segment, at: Time) {
        let (mut link, mut packet, mut at) = (first, packet, at);
        loop {
            match self.links[link as usize].enter(at, packet, &mut self.lost) {
                Passage::Sent { packet: sent, departure, arrival } => {
                    let sent = self.departs(at, departure, link, sent);
                    if let Stop::Fused(next) = self.routes.stop(sent.place + 1) {
                        (link, packet, at) = (next, sent.hopped(), arrival);
                        continue;
                    }
                    return self.send_down(link, sent, arrival);
                }
                Passage::QueuedIdle => {
                    self.account_losses(link, at);
                    return self.start_transmission(link);
                }
                Passage::Queued | Passage::Dropped => return self.account_losses(link, at),
            }
        }
    }

    /// Starts the next packet of an evented link, whose transmitter is free.
    fn start_transmission(&mut self, link: u32) {
        let slot = self.slots.transmitters + link;
        match self.links[link as usize].start(self.now, &mut self.lost) {
            Start::Sent { packet, departure, arrival } => {
                self.calendar.set(slot, departure);
                let packet = self.departs(self.now, departure, link, packet);
                self.send_down(link, packet, arrival);
            }
            Start::Held(until) => self.calendar.set(slot, until),
            Start::Idle => self.calendar.set(slot, Time::MAX),
        }
        self.account_losses(link, self.now);
    }

    fn send_down(&mut self, link: u32, packet: Segment, arrival: Time) {
        if self.links[link as usize].pipe.push(arrival, packet) {
            self.calendar.set(self.slots.pipes + link, arrival);
        }
    }

    /// Counts a packet that was admitted at `at` and leaves at `departure`, and its mark if it has a new one.
    #[inline]
    fn departs(&mut self, at: Time, departure: Time, link: u32, mut packet: Segment) -> Segment {
        if packet.take_new_mark() {
            self.statistics.marked_packets += 1;
            let train = self.trains.get(packet.train);
            if train.counts {
                self.marks.count(at, train.flow, link, packet.ip_bytes());
            }
        }
        if let Some(bins) = &mut self.bins {
            let train = self.trains.get(packet.train);
            if train.flow != NO_FLOW && is_recorded(&self.plan, link) {
                bins.count(departure, train.flow, link, packet.ip_bytes());
            }
        }
        packet
    }

    /// Counts the packets that a link dropped at `at`, which may be ahead of the clock.
    fn account_losses(&mut self, link: u32, at: Time) {
        while let Some(packet) = self.lost.pop() {
            self.statistics.dropped_packets += 1;
            let train = self.trains.get(packet.train);
            if train.counts {
                self.drops.count(at, train.flow, link, packet.ip_bytes());
            }
            if let Some(tracer) = &mut self.tracer {
                tracer.dropped(at, link, &packet);
            }
            self.trains.release(packet.train, 1);
        }
    }

    /// Moves a packet to its host.
    fn arrive(&mut self, at: Time, route: u32, packet: Segment, next: Time) {
        let host = self.directory.end(route);
        let train = self.trains.get(packet.train);
        if let Some(delays) = self.delays.as_mut().filter(|_| train.counts) {
            delays.arrived(train.flow, train.sent, at);
        }
        let packets = train.frame.packets();
        if let Some(tracer) = &mut self.tracer {
            tracer.received(at, &packet);
        }
        let ready = &mut self.ready;
        let deadline = self.gather.push(host, at, &packet, packets, next, &mut |delivery| ready.push_back(delivery));
        self.calendar.set(self.slots.hosts + host, deadline);
    }

    fn schedule_change(&mut self) {
        let next = self.plan.changes.get(self.next_change).map_or(Time::MAX, |change| Time(change.at_ns));
        self.calendar.set(CHANGES, next);
    }

    fn apply_change(&mut self) {
        let Change { link, change, .. } = self.plan.changes[self.next_change].clone();
        self.next_change += 1;
        self.schedule_change();
        let value = match change {
            ChangeKind::Rate { rate_bps } => rate_bps as i64,
            _ => 0,
        };
        let kind = EventKind::LinkChange as u8;
        self.events.push(EventRow { time_ns: self.now.0, kind, flow: u32::MAX, link, value });
        if self.links[link as usize].change(self.now, &change) {
            self.start_transmission(link);
        }
    }
}

fn delay_stats(plan: &Plan) -> Option<DelayStats> {
    let interval_ns = plan.measure.delay_ns;
    (interval_ns > 0).then(|| DelayStats::new(plan.flows.len(), interval_ns))
}

/// Whether a link is in table `links`.
fn is_recorded(plan: &Plan, link: u32) -> bool {
    plan.measure.links.is_empty() || plan.measure.links.contains(&link)
}

/// The plan with network cards that never drop. Packets wait in the device instead, where the host's stack sees them.
fn with_patient_cards(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    for link in plan.links.iter_mut().filter(|link| link.host_nic) {
        if link.queue.info().plain {
            *link.queue.limit_mut() = Limit { bytes: None, packets: None };
        }
    }
    plan
}

fn cards(job: &Job) -> Vec<Vec<u32>> {
    let mut cards = vec![Vec::new(); job.hosts.len()];
    for (index, host) in job.hosts.iter().enumerate() {
        let first = |flow: &weir_plan::Flow| {
            let forward = flow.path.first().filter(|_| flow.from == host.node);
            let reverse = flow.reverse_path.first().filter(|_| flow.to == host.node);
            [forward.copied(), reverse.copied()]
        };
        cards[index] = job.plan.flows.iter().flat_map(first).flatten().collect();
        cards[index].retain(|&link| job.plan.links[link as usize].host_nic);
        cards[index].sort_unstable();
        cards[index].dedup();
    }
    cards
}

/// The hash of a packet's flow; a packet of no flow has that of its route.
fn flow_hash(way: Way) -> u32 {
    weir_elements::flow_hash(way.flow.unwrap_or(!way.route))
}
