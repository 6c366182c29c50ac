//! The event loop.

use std::collections::BTreeMap;

use weir_cc::Algorithm;
use weir_elements::Packet as _;
use weir_links::{Calendar, Link, Passage, Routes, Stop, append_sorted, build_links, mark_fused};
use weir_plan::{Plan, Transport};
use weir_tcp::{Ack, Arrival, Receiver, Segment, Sender, Transmit, header_bytes, sack_option_bytes};
use weir_traffic::{Step, Waits};
use weir_units::Time;

use crate::error::SimError;
use crate::flow::{Active, Connection, Flow, UDP_HEADERS};
use crate::packet::{CE, CWR_OR_ECE, ECT, Kind, MAX_FLOWS, PUSH, Packet, RESENT, unwrap};
use crate::processing::Processing;
use crate::sacks::Sacks;
use crate::telemetry::Telemetry;
use crate::trace::TraceRecord;
use crate::watch::Watch;
use weir_run::{EventKind, Tables};

/// Bytes of a SYN or SYN-ACK with its options.
const SYN_BYTES: u32 = 60;

/// How to simulate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// One event for each packet and link: slower, and the oracle of the fast mode.
    pub reference: bool,
}

/// What a simulation has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets that entered a first link.
    pub packets: u64,
    /// Those of them that their host, which takes its time, sends after the end of the run: no trace has them.
    pub unsent: u64,
    /// Events taken from the calendar.
    pub events: u64,
    /// Payload delivered to applications, bytes.
    pub delivered_bytes: u64,
    /// Most packets under way on all links, of the instants at which goodput or TCP state is recorded: these belong to
    /// the plan, and how often the driver drains does not.
    pub max_in_flight: u64,
}

/// The calendar's slots: one event source each.
#[derive(Clone, Copy)]
struct Slots {
    transmitters: u32,
    pipes: u32,
    senders: u32,
    receivers: u32,
    tcp_tick: u32,
    goodput_tick: u32,
    count: u32,
}

/// Changes of links come first: what happens at the same instant sees them.
const CHANGES: u32 = 0;

impl Slots {
    fn new(plan: &Plan) -> Slots {
        let (links, flows) = (plan.links.len() as u32, plan.flows.len() as u32);
        // A transmitter before the arrivals: a packet that begins transmission makes room for one that arrives then.
        let transmitters = CHANGES + 1;
        let pipes = transmitters + links;
        let senders = pipes + links;
        let receivers = senders + flows;
        let tcp_tick = receivers + flows;
        Slots { transmitters, pipes, senders, receivers, tcp_tick, goodput_tick: tcp_tick + 1, count: tcp_tick + 2 }
    }
}

/// A plan under execution.
pub struct Simulation {
    now: Time,
    end: Time,
    finished: bool,
    plan: Plan,
    slots: Slots,
    calendar: Calendar,
    links: Vec<Link<Packet>>,
    routes: Routes,
    flows: Vec<Flow>,
    waits: Waits,
    sacks: Sacks,
    /// Per link: what its host hands to it next gets there at this instant at the earliest. Ahead of the clock where a
    /// host takes its time to answer.
    host_until: Vec<Time>,
    lost: Vec<Packet>,
    next_change: usize,
    telemetry: Telemetry,
    statistics: Statistics,
    watch: Option<Box<Watch>>,
}

impl Simulation {
    /// Prepares a plan.
    ///
    /// # Errors
    /// When a congestion control is unknown or the plan exceeds what is simulated.
    pub fn new(plan: &Plan) -> Result<Simulation, SimError> {
        Simulation::with_options(plan, Options::default())
    }

    /// As [`Simulation::new`], with options.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn with_options(plan: &Plan, options: Options) -> Result<Simulation, SimError> {
        check_limits(plan)?;
        let slots = Slots::new(plan);
        let mut links = build_links(plan);
        if !options.reference {
            mark_fused(plan, &mut links);
        }
        let routes = Routes::new(plan, &links);
        let mut simulation = Simulation {
            now: Time::ZERO,
            end: Time(plan.end_ns),
            finished: false,
            slots,
            calendar: Calendar::new(slots.count as usize),
            links,
            flows: build_flows(plan, &routes)?,
            routes,
            waits: Waits::new(plan),
            sacks: Sacks::default(),
            host_until: vec![Time::ZERO; plan.links.len()],
            lost: Vec::new(),
            next_change: 0,
            telemetry: Telemetry::new(&plan.measure),
            statistics: Statistics::default(),
            watch: Watch::from_plan(plan).map(Box::new),
            plan: plan.clone(),
        };
        for (index, flow) in simulation.flows.iter_mut().enumerate() {
            flow.first_evented = simulation.links[flow.first_link].is_evented();
            flow.processing = Processing::of(plan, &simulation.links, index);
        }
        simulation.schedule_start();
        Ok(simulation)
    }

    fn schedule_start(&mut self) {
        for (i, flow) in self.flows.iter().enumerate() {
            self.calendar.set(self.slots.senders + i as u32, flow.start);
        }
        if let Some(change) = self.plan.changes.first() {
            self.calendar.set(CHANGES, Time(change.at_ns));
        }
        let first = |interval: u64| if interval == 0 { Time::MAX } else { Time(interval) };
        self.calendar.set(self.slots.tcp_tick, first(self.plan.measure.tcp_ns));
        self.calendar.set(self.slots.goodput_tick, first(self.plan.measure.goodput_ns));
    }

    /// The present of the simulation.
    pub fn now(&self) -> Time {
        self.now
    }

    /// What it has done so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Packets on all links: waiting, in transmission or in a delay line.
    pub fn in_flight(&self) -> u64 {
        self.links.iter().map(Link::packets).sum()
    }

    fn count_in_flight(&mut self) {
        self.statistics.max_in_flight = self.statistics.max_in_flight.max(self.in_flight());
    }

    /// Simulates up to and including `until`, which may be past already; true when the run has ended.
    pub fn advance(&mut self, until: Time) -> bool {
        let until = until.min(self.end).max(self.now);
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
        self.now = until;
        if until == self.end && !self.finished {
            self.finished = true;
            self.finish();
        }
        self.finished
    }

    /// Takes the rows recorded so far out of the simulation.
    pub fn drain(&mut self) -> Tables {
        let mut rows = Vec::new();
        for link in &mut self.links {
            link.advance(self.now);
            link.stats.roll(self.now);
            link.stats.drain(self.now, &mut rows);
        }
        append_sorted(rows, &mut self.telemetry.tables.links);
        if let Some(watch) = &mut self.watch {
            watch.drain(self.now, &mut self.telemetry.tables);
        }
        std::mem::take(&mut self.telemetry.tables)
    }

    /// Takes the records of `measure.trace` out of the simulation, in the order of time; empty if none was asked for.
    pub fn drain_trace(&mut self) -> Vec<TraceRecord> {
        self.watch.as_mut().map_or_else(Vec::new, |watch| watch.drain_trace(self.now))
    }

    fn dispatch(&mut self, slot: u32) {
        let slots = self.slots;
        if slot >= slots.pipes && slot < slots.senders {
            self.on_arrival(slot - slots.pipes);
        } else if slot >= slots.senders && slot < slots.receivers {
            self.on_sender_due((slot - slots.senders) as usize);
        } else if slot >= slots.receivers && slot < slots.tcp_tick {
            self.on_receiver_due((slot - slots.receivers) as usize);
        } else if slot >= slots.transmitters && slot < slots.pipes {
            self.start_transmission(slot - slots.transmitters);
        } else if slot == slots.tcp_tick {
            self.telemetry.sample_tcp(self.now, &self.flows);
            self.count_in_flight();
            self.calendar.set(slot, Time(self.now.0 + self.plan.measure.tcp_ns));
        } else if slot == slots.goodput_tick {
            self.telemetry.sample_goodput(self.now, &mut self.flows);
            self.count_in_flight();
            self.calendar.set(slot, Time(self.now.0 + self.plan.measure.goodput_ns));
        } else {
            self.apply_change();
        }
    }

    /// The first packet of a link reaches its far end.
    #[inline(always)]
    fn on_arrival(&mut self, link: u32) {
        let pipe = &mut self.links[link as usize].pipe;
        let Some(packet) = pipe.pop() else { unreachable!("a pipe is due only while it holds a packet") };
        self.calendar.set(self.slots.pipes + link, pipe.next());
        let packet = packet.hopped();
        match self.routes.stop(packet.place()) {
            Stop::End(_) => self.deliver(packet),
            Stop::Link(next) | Stop::Fused(next) => {
                self.enter(next, packet, self.now);
            }
        }
    }

    /// Sends a packet over a link, and on over the links fused with it. Returns its departure from the first one, if
    /// that is known and it was not lost there.
    #[inline]
    fn enter(&mut self, first: u32, packet: Packet, at: Time) -> Option<Time> {
        let (mut link, mut packet, mut at) = (first, packet, at);
        let mut first_departure = None;
        loop {
            match self.links[link as usize].enter(at, packet, &mut self.lost) {
                Passage::Sent { packet: sent, departure, arrival } => {
                    if link == first {
                        first_departure = Some(departure);
                    }
                    if let Stop::Fused(next) = self.routes.stop(sent.place() + 1) {
                        (link, packet, at) = (next, sent.hopped(), arrival);
                        continue;
                    }
                    self.send_down(link, sent, arrival);
                }
                Passage::QueuedIdle => {
                    self.account_losses(link, at);
                    self.start_transmission(link);
                }
                Passage::Queued | Passage::Dropped => self.account_losses(link, at),
            }
            return first_departure;
        }
    }

    #[inline(always)]
    fn send_down(&mut self, link: u32, packet: Packet, arrival: Time) {
        if self.links[link as usize].pipe.push(arrival, packet) {
            self.calendar.set(self.slots.pipes + link, arrival);
        }
    }

    /// The transmitter of an evented link is free: the next packet begins.
    fn start_transmission(&mut self, link: u32) {
        let slot = self.slots.transmitters + link;
        match self.links[link as usize].start(self.now, &mut self.lost) {
            Some((packet, departure, arrival)) => {
                self.calendar.set(slot, departure);
                if packet.kind() == Kind::Data {
                    self.leaves_local_queue(link, &packet, departure);
                }
                self.send_down(link, packet, arrival);
            }
            None => self.calendar.set(slot, Time::MAX),
        }
        self.account_losses(link, self.now);
    }

    /// A data packet begins transmission on an evented link: if that is its host's, the sender may get room.
    fn leaves_local_queue(&mut self, link: u32, packet: &Packet, departure: Time) {
        let flow = &mut self.flows[packet.flow()];
        if !flow.counts_in_local_queue(link, packet) {
            return;
        }
        if flow.local.started(departure, packet.bytes()) {
            flow.wake = departure;
            self.calendar.set_earlier(self.slots.senders + packet.flow() as u32, departure);
        }
    }

    /// Accounts for the packets that a link dropped at `at`, which may be ahead of the clock.
    #[inline]
    fn account_losses(&mut self, link: u32, at: Time) {
        while let Some(packet) = self.lost.pop() {
            if let Some(watch) = &mut self.watch {
                watch.dropped(at, link, &packet);
            }
            let flow = &mut self.flows[packet.flow()];
            if packet.kind() == Kind::Ack {
                self.sacks.take(packet.sack());
                continue;
            }
            if flow.counts_in_local_queue(link, &packet) {
                flow.local.dropped(packet.bytes());
            }
            if packet.is_data() {
                flow.lose(self.now, at);
            }
        }
    }

    fn apply_change(&mut self) {
        let change = self.plan.changes[self.next_change].clone();
        self.next_change += 1;
        let next = self.plan.changes.get(self.next_change).map_or(Time::MAX, |c| Time(c.at_ns));
        self.calendar.set(CHANGES, next);
        self.telemetry.link_change(self.now, &change);
        if self.links[change.link as usize].change(self.now, &change.change) {
            self.start_transmission(change.link);
        }
    }

    /// A packet reached the end of its route.
    #[inline]
    fn deliver(&mut self, packet: Packet) {
        if let Some(watch) = &mut self.watch {
            watch.received(self.now, &packet);
        }
        match packet.kind() {
            Kind::Data => self.deliver_data(packet),
            Kind::Ack => self.deliver_ack(packet),
            Kind::Datagram => self.deliver_datagram(packet),
            Kind::Syn => self.deliver_syn(packet),
            Kind::SynAck => self.deliver_syn_ack(packet),
        }
    }

    #[inline]
    fn deliver_data(&mut self, packet: Packet) {
        let index = packet.flow();
        let flow = &mut self.flows[index];
        flow.base.marked_packets += u64::from(packet.has(CE));
        if packet.connection() != flow.connection_number {
            return;
        }
        let Some(connection) = &mut flow.connection else { return };
        if let Some(syn_ack_at) = connection.syn_ack_at.take() {
            connection.receiver.set_rtt(self.now.since(syn_ack_at));
        }
        let receiver = &mut connection.receiver;
        let arrival = Arrival {
            seq: unwrap(packet.number(), receiver.next()),
            len: packet.bytes() - connection.headers,
            tsval: packet.stamp(),
            ce: packet.has(CE),
            cwr: packet.has(CWR_OR_ECE),
            push: packet.has(PUSH),
        };
        let ack = receiver.on_data(self.now, arrival);
        let deadline = receiver.deadline();
        self.calendar.set_earlier(self.slots.receivers + index as u32, deadline);
        if let Some(ack) = ack {
            self.send_ack(index, &ack);
        }
    }

    #[inline]
    fn send_ack(&mut self, index: usize, ack: &Ack) {
        let flow = &self.flows[index];
        let Some(connection) = &flow.connection else { return };
        let bytes = connection.headers + sack_option_bytes(ack.sack.as_slice().len());
        let packet = Packet::new(Kind::Ack, index, flow.reverse_start, bytes, flow.connection_number, flow.dscp)
            .numbered(ack.ack)
            .stamped(ack.tsecr)
            .flagged(CWR_OR_ECE, ack.ece)
            .with_sack(self.sacks.put(ack.sack));
        self.answer(index, packet);
    }

    /// The receiver of a flow sends a packet, after the time that its host takes.
    #[inline]
    fn answer(&mut self, index: usize, packet: Packet) {
        let flow = &mut self.flows[index];
        if let Some(processing) = &mut flow.processing {
            let until = &mut self.host_until[processing.link];
            *until = (*until).max(self.now + processing.draw());
        }
        self.inject(packet);
    }

    /// Puts a packet on the first link of its route; returns its departure, if known.
    #[inline]
    fn inject(&mut self, packet: Packet) -> Option<Time> {
        self.statistics.packets += 1;
        let (Stop::Link(first) | Stop::Fused(first)) = self.routes.stop(packet.place()) else { return None };
        let at = self.now.max(self.host_until[first as usize]);
        self.statistics.unsent += u64::from(at > self.end);
        let packet = match &mut self.watch {
            None => packet,
            Some(watch) => watch.sent(at, packet, &self.sacks),
        };
        self.enter(first, packet, at)
    }

    fn on_receiver_due(&mut self, index: usize) {
        let slot = self.slots.receivers + index as u32;
        let Some(connection) = &mut self.flows[index].connection else {
            self.calendar.set(slot, Time::MAX);
            return;
        };
        let ack = connection.receiver.on_timer(self.now);
        self.calendar.set(slot, connection.receiver.deadline());
        if let Some(ack) = ack {
            self.send_ack(index, &ack);
        }
    }

    #[inline]
    fn deliver_ack(&mut self, packet: Packet) {
        let index = packet.flow();
        let sack = self.sacks.take(packet.sack());
        let flow = &mut self.flows[index];
        if packet.connection() != flow.connection_number {
            return;
        }
        let Some(connection) = &mut flow.connection else { return };
        let ack = Ack {
            ack: unwrap(packet.number(), connection.sender.una()),
            sack,
            ece: packet.has(CWR_OR_ECE),
            tsecr: packet.stamp(),
        };
        connection.sender.on_ack(self.now, &ack);
        let idle = connection.sender.is_idle();
        if connection.sender.has_notices() {
            self.telemetry.take_notices(self.now, index as u32, &mut connection.sender);
        }
        if idle && flow.active.is_some() {
            self.end_transfer(index);
        }
        self.pump(index);
    }

    fn deliver_datagram(&mut self, packet: Packet) {
        let base = &mut self.flows[packet.flow()].base;
        base.delivered_bytes += u64::from(packet.bytes() - UDP_HEADERS);
        base.marked_packets += u64::from(packet.has(CE));
    }

    fn deliver_syn(&mut self, packet: Packet) {
        let flow = &mut self.flows[packet.flow()];
        if packet.connection() != flow.connection_number {
            return;
        }
        if let Some(connection) = &mut flow.connection {
            connection.syn_ack_at = Some(self.now);
            let reply =
                Packet::new(Kind::SynAck, packet.flow(), flow.reverse_start, SYN_BYTES, packet.connection(), flow.dscp);
            self.answer(packet.flow(), reply);
        }
    }

    fn deliver_syn_ack(&mut self, packet: Packet) {
        let index = packet.flow();
        let flow = &mut self.flows[index];
        if packet.connection() != flow.connection_number {
            return;
        }
        let Some(connection) = &mut flow.connection else { return };
        if connection.sender.is_established() {
            return;
        }
        connection.sender.on_syn_ack(self.now);
        if let Some(active) = &mut flow.active {
            active.established = Some(self.now);
        }
        self.telemetry.flow_event(self.now, EventKind::Established, index as u32, 0);
        self.pump(index);
    }

    /// A flow's own time has come: its start, its application, its sender's timer, room in its host's queue.
    fn on_sender_due(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        if !flow.started {
            self.start_flow(index);
            return;
        }
        if flow.cbr.is_some() {
            self.send_datagrams(index);
            return;
        }
        let due = flow.due();
        if due > self.now {
            // What it was set for has been put off.
            self.calendar.set(self.slots.senders + index as u32, due);
            return;
        }
        if flow.writing && self.now >= flow.transfers.stop() {
            flow.writing = false;
            if let Some(connection) = &mut flow.connection {
                connection.sender.stop_writing();
            }
            if flow.connection.as_ref().is_some_and(|c| c.sender.is_idle()) {
                self.end_transfer(index);
            }
        }
        let flow = &mut self.flows[index];
        if let Some(connection) = &mut flow.connection {
            connection.sender.on_timer(self.now);
            if connection.sender.has_notices() {
                self.telemetry.take_notices(self.now, index as u32, &mut connection.sender);
            }
        }
        if flow.active.is_none() && flow.next_job.is_some_and(|job| job.at <= self.now) {
            self.begin_transfer(index);
        }
        self.pump(index);
        let due = self.flows[index].due();
        self.calendar.set(self.slots.senders + index as u32, due);
    }

    fn start_flow(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        flow.started = true;
        self.telemetry.flow_event(self.now, EventKind::FlowStart, index as u32, 0);
        if flow.cbr.is_some() {
            self.send_datagrams(index);
            return;
        }
        self.take_next_job(index, self.now);
        let due = self.flows[index].due();
        self.calendar.set(self.slots.senders + index as u32, due);
    }

    fn finish_flow(&mut self, index: usize) {
        self.flows[index].finished = true;
        self.telemetry.flow_event(self.now, EventKind::FlowEnd, index as u32, 0);
        self.waits.over(index as u32);
        self.wake_waiting(index);
    }

    /// Looks what comes after a transfer that ended at `ended`.
    fn take_next_job(&mut self, index: usize, ended: Time) {
        let flow = &mut self.flows[index];
        match flow.transfers.step(&self.waits, index as u32, ended) {
            Step::Begin(job) => flow.next_job = Some(job),
            Step::Wait => flow.waiting = Some(ended),
            Step::End => self.finish_flow(index),
        }
    }

    /// A transfer of a flow has ended, or will never: what other connections of its user have waited for.
    fn wake_waiting(&mut self, index: usize) {
        for other in self.waits.others(index as u32) {
            let Some(ended) = self.flows[other as usize].waiting.take() else { continue };
            self.take_next_job(other as usize, ended);
            if let Some(job) = self.flows[other as usize].next_job {
                self.calendar.set_earlier(self.slots.senders + other, job.at);
            }
        }
    }

    fn begin_transfer(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        let Some(job) = flow.next_job.take() else { return };
        self.telemetry.flow_event(self.now, EventKind::TransferStart, index as u32, job.bytes.unwrap_or(0) as i64);
        let fresh = flow.connection.is_none() || !flow.transfers.keeps_connection();
        if fresh {
            flow.close();
            flow.connection = Some(Box::new(open(flow)));
            flow.connection_number = flow.connection_number.wrapping_add(1);
            flow.local = Default::default();
        }
        let before = flow.totals();
        let Some(connection) = &mut flow.connection else { unreachable!("it was opened above") };
        connection.sender.write(self.now, job.bytes.unwrap_or(u64::MAX));
        if fresh {
            connection.sender.connect(self.now);
        }
        flow.active = Some(Active { job, established: (!fresh).then_some(self.now), before });
        flow.writing = flow.transfers.is_bulk();
    }

    fn end_transfer(&mut self, index: usize) {
        let now = self.now;
        let flow = &mut self.flows[index];
        flow.settle_losses(now);
        self.telemetry.flow_row(index as u32, flow, Some(now));
        self.telemetry.flow_event(now, EventKind::TransferEnd, index as u32, 0);
        flow.active = None;
        self.waits.ended(index as u32, now);
        self.take_next_job(index, now);
        if self.flows[index].next_job.is_some_and(|job| job.at <= now) {
            self.begin_transfer(index);
        }
        self.wake_waiting(index);
    }

    /// Lets a sender transmit what it may.
    #[inline]
    fn pump(&mut self, index: usize) {
        let first = self.flows[index].first_link;
        let flow = &mut self.flows[index];
        if flow.wake <= self.now {
            // It has served; left in the past, it would be due again and again at the same instant.
            flow.wake = Time::MAX;
        }
        loop {
            let now = self.now;
            let flow = &mut self.flows[index];
            let Some(connection) = &mut flow.connection else { break };
            let sender = &mut connection.sender;
            if flow.local_limited && !room_in_local_queue(&mut flow.local, sender, now, &mut flow.wake) {
                break;
            }
            if !self.links[first].has_room(now.max(self.host_until[first]), connection.full_bytes) {
                if sender.wants_to_send() {
                    sender.on_local_congestion(now);
                    flow.wake = self.links[first].half_drained(now);
                }
                sender.transmit_blocked(now);
                break;
            }
            match sender.poll_transmit(now) {
                None => break,
                Some(Transmit::Syn) => self.send_syn(index),
                Some(Transmit::Data(segment)) => self.send_segment(index, segment),
            }
        }
        let due = self.flows[index].due();
        self.calendar.set_earlier(self.slots.senders + index as u32, due);
    }

    fn send_syn(&mut self, index: usize) {
        let flow = &self.flows[index];
        let packet = Packet::new(Kind::Syn, index, flow.forward_start, SYN_BYTES, flow.connection_number, flow.dscp);
        self.inject(packet);
    }

    #[inline]
    fn send_segment(&mut self, index: usize, segment: Segment) {
        let flow = &self.flows[index];
        let Some(connection) = &flow.connection else { return };
        let bytes = segment.len + connection.headers;
        let packet = Packet::new(Kind::Data, index, flow.forward_start, bytes, flow.connection_number, flow.dscp)
            .numbered(segment.seq)
            .stamped(segment.tsval)
            .flagged(ECT, connection.ecn && !segment.retransmission)
            .flagged(CWR_OR_ECE, segment.cwr)
            .flagged(RESENT, segment.retransmission)
            .flagged(PUSH, segment.push);
        if flow.local_limited && flow.first_evented {
            self.flows[index].local.wait(bytes);
        }
        let departure = self.inject(packet);
        let flow = &mut self.flows[index];
        if flow.local_limited
            && let Some(departure) = departure
        {
            flow.local.push(departure, bytes);
        }
    }

    fn send_datagrams(&mut self, index: usize) {
        let Transport::Udp(udp) = &self.flows[index].transport else { return };
        let bytes = udp.payload_bytes + UDP_HEADERS;
        let slot = self.slots.senders + index as u32;
        loop {
            let flow = &mut self.flows[index];
            let Some(clock) = &mut flow.cbr else { return };
            match clock.due() {
                None => {
                    self.finish_flow(index);
                    self.calendar.set(slot, Time::MAX);
                    return;
                }
                Some(due) if due > self.now => {
                    self.calendar.set(slot, due);
                    return;
                }
                Some(_) => clock.sent(),
            }
            flow.datagrams = flow.datagrams.wrapping_add(1);
            flow.last_sent = self.now;
            flow.base.sent_ip_bytes += u64::from(bytes);
            flow.base.counters.sent_bytes += u64::from(bytes - UDP_HEADERS);
            flow.base.counters.sent_packets += 1;
            let packet = Packet::new(Kind::Datagram, index, flow.forward_start, bytes, 0, flow.dscp)
                .numbered(u64::from(flow.datagrams));
            self.inject(packet);
        }
    }

    /// Writes what is still open at the end of the run.
    fn finish(&mut self) {
        for index in 0..self.flows.len() {
            let flow = &mut self.flows[index];
            flow.settle_losses(self.now);
            if flow.cbr.is_some() && flow.started {
                let end = flow.finished.then_some(flow.last_sent);
                self.telemetry.flow_row(index as u32, flow, end);
            } else if flow.active.is_some() {
                self.telemetry.flow_row(index as u32, flow, None);
            }
        }
        self.statistics.delivered_bytes = self.flows.iter().map(|flow| flow.totals().delivered_bytes).sum();
    }
}

/// Whether a sender may put more into its host's queue; sets `wake` to when it may, if not now.
#[inline]
fn room_in_local_queue(local: &mut crate::flow::LocalQueue, sender: &mut Sender, now: Time, wake: &mut Time) -> bool {
    local.expire(now);
    let limit = sender.local_queue_limit();
    if local.bytes < limit {
        *wake = Time::MAX;
        local.unblock();
        return true;
    }
    sender.transmit_blocked(now);
    if *wake == Time::MAX && !local.is_blocked() {
        *wake = local.block(limit, sender.quantum_bytes() / 2);
    }
    false
}

fn open(flow: &Flow) -> Connection {
    let (Some(tcp), Some(algorithm)) = (flow.tcp(), &flow.algorithm) else {
        unreachable!("only TCP flows have transfers, and theirs have an algorithm")
    };
    Connection {
        sender: Sender::new(tcp, algorithm).expect("the options were checked when the simulation was built"),
        receiver: Receiver::new(tcp),
        syn_ack_at: None,
        headers: header_bytes(tcp.timestamps),
        full_bytes: tcp.mss_bytes + header_bytes(tcp.timestamps),
        ecn: tcp.ecn,
    }
}

fn check_limits(plan: &Plan) -> Result<(), SimError> {
    if plan.flows.len() > MAX_FLOWS {
        return Err(SimError::Unsupported(format!("{} flows: {MAX_FLOWS} at most", plan.flows.len())));
    }
    let horizon = Calendar::horizon(Slots::new(plan).count as usize);
    if Time(plan.end_ns) >= horizon {
        let (hours, flows) = (horizon.as_secs_f64() / 3600.0, plan.flows.len());
        return Err(SimError::Unsupported(format!("with {flows} flows a run may last {hours:.1} hours at most")));
    }
    let too_big = |flow: &&weir_plan::Flow| match &flow.transport {
        Transport::Tcp(tcp) => tcp.mss_bytes + header_bytes(tcp.timestamps) > u32::from(u16::MAX),
        Transport::Udp(udp) => udp.payload_bytes + UDP_HEADERS > u32::from(u16::MAX),
    };
    if let Some(flow) = plan.flows.iter().find(too_big) {
        return Err(SimError::Unsupported(format!("flow {}: an IP packet holds 65535 bytes at most", flow.name)));
    }
    if let Some(flow) = plan.flows.iter().find(|flow| matches!(flow.source, weir_plan::Source::Command(_))) {
        let text = format!("flow {}: a program needs a real kernel: --method lab or emul", flow.name);
        return Err(SimError::Unsupported(text));
    }
    Ok(())
}

fn build_flows(plan: &Plan, routes: &Routes) -> Result<Vec<Flow>, SimError> {
    let mut known: BTreeMap<&str, Algorithm> = BTreeMap::new();
    let mut flows = Vec::with_capacity(plan.flows.len());
    for flow in &plan.flows {
        let mut algorithm = None;
        if let Transport::Tcp(tcp) = &flow.transport {
            let error = |problem: String| SimError::CongestionControl { flow: flow.name.clone(), problem };
            if !known.contains_key(tcp.cc.as_str()) {
                known.insert(&tcp.cc, weir_cc::find(&tcp.cc).map_err(|e| error(e.to_string()))?);
            }
            let found = known[tcp.cc.as_str()].clone();
            Sender::new(tcp, &found).map_err(|e| error(e.to_string()))?;
            algorithm = Some(found);
        }
        let route = 2 * flows.len() as u32;
        let starts = (routes.start(route), routes.start(route + 1));
        flows.push(Flow::new(flow, algorithm, starts));
    }
    Ok(flows)
}
