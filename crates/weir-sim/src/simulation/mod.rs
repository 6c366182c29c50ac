//! The event loop: dispatches the earliest event of the calendar.
//!
//! The rest is elsewhere: `links` moves packets, `nodes` has the state of switches, `endpoints` the hosts' transports,
//! `sending` their senders, `applications` the sources of their data.

mod applications;
mod batches;
mod busy_hosts;
mod endpoints;
mod ends;
mod fetching;
mod hosts;
mod links;
mod lookahead;
mod nodes;
mod prepare;
mod regions;
mod sending;
mod slots;
mod sorting;
mod stops;
mod tfrc;
mod ticks;
mod trains;
mod udt;

use weir_links::{Calendar, Link, Routes, append_classes_sorted, append_sorted, mark_fused};
use weir_plan::Plan;
use weir_run::Tables;
use weir_traffic::Waits;
use weir_units::Time;

use crate::application::Application;
use crate::error::SimError;
use crate::flow::Flow;
use crate::hosts::Hosts;
use crate::packet::Packet;
use crate::sack_work::{BusyHost, SackWork};
use crate::sacks::Sacks;
use crate::telemetry::Telemetry;
use crate::trace::TraceRecord;
use crate::watch::Watch;
use lookahead::Lookahead;
use nodes::Nodes;
use prepare::Parts;
use regions::{Region, Regions};
use slots::{CHANGES, Slots};
use stops::Stops;
use ticks::Ticks;

/// Options of a simulation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// One event for each packet and link: slower, and the reference for the fast mode.
    pub reference: bool,
    /// Whether regions of the network run ahead of each other; without a choice, where it is faster.
    pub lookahead: Option<bool>,
    /// Events of the regions after which they wait for each other; without a choice, as many as is fast.
    pub window_events: Option<u64>,
}

/// Totals of a simulation so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets that entered a first link.
    pub packets: u64,
    /// Packets among them that their host sends after the end of the run, because of its processing time; no trace has
    /// them.
    pub unsent: u64,
    /// Events taken from the calendar.
    pub events: u64,
    /// Payload delivered to applications, bytes.
    pub delivered_bytes: u64,
    /// Maximum number of packets in flight on all links, over the instants at which goodput is recorded: it does not
    /// depend on when the driver drains.
    pub max_in_flight: u64,
}

/// Packets so far that were not events of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batches {
    /// Packets that came to a bottleneck in batches.
    pub passed: u64,
    /// Data packets that a receiver took in runs.
    pub data: u64,
    /// Acknowledgements that a sender took in runs.
    pub acks: u64,
    /// Packets that passed fused links in trains.
    pub trains: u64,
}

/// A simulation of one plan.
pub struct Simulation {
    now: Time,
    end: Time,
    finished: bool,
    plan: Plan,
    slots: Slots,
    calendar: Calendar,
    lookahead: Option<Lookahead>,
    links: Vec<Link<Packet>>,
    nodes: Nodes,
    routes: Routes,
    flows: Vec<Flow>,
    waits: Waits,
    sacks: Sacks,
    /// By link: the earliest instant at which the next packet of its host enters. Ahead of the clock by a host's
    /// processing time.
    host_until: Vec<Time>,
    /// Sending hosts that take time for selective acknowledgements.
    busy_hosts: Vec<BusyHost>,
    /// Components of hosts that take time for packets. With any, there is a [`Watch`].
    hosts: Hosts,
    lost: Vec<Packet>,
    /// Packets of one route between links that are fused (see [`trains`]); none between events.
    train: Vec<(Time, Packet)>,
    next_change: usize,
    /// Samples within windows, where possible.
    ticks: Option<Ticks>,
    telemetry: Telemetry,
    statistics: Statistics,
    /// Packets that were delivered or dropped so far.
    gone: u64,
    batches: Batches,
    watch: Option<Box<Watch>>,
}

impl Simulation {
    /// Prepares the simulation of a plan.
    ///
    /// # Errors
    /// An unknown congestion control, or a plan beyond the simulator's limits.
    pub fn new(plan: &Plan) -> Result<Simulation, SimError> {
        Simulation::with_options(plan, Options::default())
    }

    /// As [`Simulation::new`], with options.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn with_options(plan: &Plan, options: Options) -> Result<Simulation, SimError> {
        Simulation::assemble(plan, options, Parts::of(plan))
    }

    fn assemble(plan: &Plan, options: Options, parts: Parts) -> Result<Simulation, SimError> {
        let hosts = Hosts::of(plan);
        let slots = Slots::new(plan, parts.nodes.len() as u32, hosts.components());
        prepare::check_limits(plan, slots)?;
        let Parts { mut links, nodes } = parts;
        for (link, given) in links.iter_mut().zip(&plan.links) {
            link.behind_node = nodes.iter().any(|(node, _)| *node == given.from);
        }
        if !options.reference {
            mark_fused(plan, &mut links);
        }
        let routes = Routes::new(plan, &links);
        let flows = prepare::flows(plan, &routes, &links, &hosts)?;
        let watch = Watch::of(plan, &flows, !hosts.is_empty()).map(Box::new);
        let busy_hosts = SackWork::hosts(plan);
        // The ends of a flow over UDT tell each other more than their packets hold.
        let told = flows.iter().any(|flow| matches!(flow.application, Application::Udt(_)));
        let in_order = options.reference || watch.is_some() || !busy_hosts.is_empty() || told;
        let regions = if in_order { None } else { lookahead::regions(plan, options, slots, &links, &routes) };
        for input in regions.iter().flat_map(|regions| &regions.all).filter_map(Region::end_input) {
            links[input as usize].allow_deferral();
        }
        let of_slots = regions.as_ref().map_or_else(|| Regions::one(slots, &links).of_slots, |r| r.of_slots.clone());
        let ticks = regions.as_ref().and_then(|regions| Ticks::of(plan, &flows, regions));
        let mut simulation = Simulation {
            now: Time::ZERO,
            end: Time(plan.end_ns),
            finished: false,
            slots,
            calendar: Calendar::with_regions(&of_slots),
            lookahead: regions.map(|regions| Lookahead::new(regions, Stops::new(plan, &links), options)),
            links,
            nodes: Nodes::new(nodes, plan.links.iter().map(|link| link.from)),
            flows,
            routes,
            waits: Waits::new(plan),
            sacks: Sacks::default(),
            host_until: vec![Time::ZERO; plan.links.len()],
            busy_hosts,
            hosts,
            lost: Vec::new(),
            train: Vec::new(),
            next_change: 0,
            ticks,
            telemetry: Telemetry::new(&plan.measure),
            statistics: Statistics::default(),
            gone: 0,
            batches: Batches::default(),
            watch,
            plan: plan.clone(),
        };
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

    /// The current simulated time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Whether table `classes` is recorded: the queue of a recorded link has classes.
    pub fn has_classes(&self) -> bool {
        self.links.iter().any(Link::has_classes)
    }

    /// Whether table `ports` is recorded: the plan has a switch.
    pub fn has_ports(&self) -> bool {
        self.plan.measure.links_ns > 0 && self.plan.nodes.iter().any(|node| node.switch.is_some())
    }

    /// Totals so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// The packets so far that were not events of their own; it depends on the steps in which the driver advances.
    pub fn batches(&self) -> Batches {
        self.batches
    }

    /// Packets in the network: waiting, in transmission, in a delay line or in a node.
    pub fn in_flight(&self) -> u64 {
        self.links.iter().map(Link::packets).sum::<u64>() + self.nodes.packets()
    }

    fn count_in_flight(&mut self) {
        let in_flight = self.statistics.packets - self.gone;
        debug_assert_eq!(in_flight, self.in_flight(), "a packet appeared or vanished");
        self.statistics.max_in_flight = self.statistics.max_in_flight.max(in_flight);
    }

    /// Simulates up to and including `until`, which may be past already; true when the run has ended.
    pub fn advance(&mut self, until: Time) -> bool {
        let until = until.min(self.end).max(self.now);
        match self.lookahead.take() {
            None => while self.step(until).is_some() {},
            Some(mut lookahead) => {
                self.look_ahead(&mut lookahead, until);
                self.lookahead = Some(lookahead);
            }
        }
        self.now = until;
        if until == self.end && !self.finished {
            self.finished = true;
            self.finish();
        }
        self.finished
    }

    /// Dispatches the earliest event, if it is not after `until`; returns its slot.
    #[inline]
    fn step(&mut self, until: Time) -> Option<u32> {
        let (at, slot) = self.calendar.first();
        if at > until {
            return None;
        }
        debug_assert!(at >= self.now, "time must not run backwards");
        self.now = at;
        self.statistics.events += 1;
        self.dispatch(slot);
        Some(slot)
    }

    /// Removes and returns the rows recorded so far.
    pub fn drain(&mut self) -> Tables {
        let (mut rows, mut class_rows) = (Vec::new(), Vec::new());
        for link in &mut self.links {
            link.advance(self.now);
            link.stats.roll(self.now);
            link.stats.drain(self.now, &mut rows);
            link.drain_classes(self.now, &mut class_rows);
        }
        append_sorted(rows, &mut self.telemetry.tables.links);
        append_classes_sorted(class_rows, &mut self.telemetry.tables.classes);
        self.nodes.drain(self.now, &mut self.telemetry.tables.ports);
        if let Some(watch) = &mut self.watch {
            watch.drain(self.now, &mut self.telemetry.tables);
        }
        std::mem::take(&mut self.telemetry.tables)
    }

    /// Removes and returns the records of `measure.trace`, in the order of time; empty if the plan asks for none.
    pub fn drain_trace(&mut self) -> Vec<TraceRecord> {
        self.watch.as_mut().map_or_else(Vec::new, |watch| watch.drain_trace(self.now))
    }

    fn dispatch(&mut self, slot: u32) {
        // The most frequent first.
        let slots = self.slots;
        if slot < slots.nodes {
            if slot >= slots.pipes {
                self.on_arrival(slot - slots.pipes);
            } else if slot >= slots.transmitters {
                self.start_transmission(slot - slots.transmitters);
            } else {
                self.apply_change();
            }
        } else if slot < slots.senders {
            self.on_node_due(slot - slots.nodes);
        } else if slot < slots.receivers {
            self.on_sender_due((slot - slots.senders) as usize);
        } else if slot < slots.tcp_tick {
            self.on_receiver_due((slot - slots.receivers) as usize);
        } else if slot == slots.tcp_tick {
            self.telemetry.sample_tcp(self.now, &self.flows);
            self.calendar.set(slot, Time(self.now.0 + self.plan.measure.tcp_ns));
        } else if slot == slots.goodput_tick {
            self.telemetry.sample_goodput(self.now, &mut self.flows);
            self.count_in_flight();
            self.calendar.set(slot, Time(self.now.0 + self.plan.measure.goodput_ns));
        } else {
            self.on_component_due(slot - slots.components);
        }
    }
}

#[cfg(test)]
mod tests;
