//! The movement of packets over links.

use weir_elements::Packet as _;
use weir_links::{Calendar, Link, Passage, Routes, Start, Stop};
use weir_units::Time;

use super::Simulation;
use super::slots::CHANGES;
use crate::hosts::Way;
use crate::packet::{Kind, Packet};

/// The parts of a simulation that move packets.
pub(super) struct Wires<'a> {
    pub links: &'a mut [Link<Packet>],
    pub routes: &'a Routes,
    pub calendar: &'a mut Calendar,
    /// The packets just dropped.
    pub lost: &'a mut Vec<Packet>,
    /// The slot of the first pipe.
    pub pipes: u32,
}

/// The outcome of [`Wires::forward`].
pub(super) enum Forwarded {
    /// It is on its way; its departure from the first link.
    Sent(Time),
    /// It came to `link` at `at`, and waits there or was dropped.
    Stopped {
        /// Its departure from the first link.
        departure: Option<Time>,
        link: u32,
        at: Time,
        /// Whether it waits before an idle transmitter.
        idle: bool,
    },
}

impl Wires<'_> {
    /// Sends a packet over a link and the links fused with it.
    #[inline(always)]
    pub fn forward(&mut self, first: u32, packet: Packet, at: Time) -> Forwarded {
        let (mut link, mut packet, mut at) = (first, packet, at);
        let mut departure = None;
        loop {
            let entered = &mut self.links[link as usize];
            let idle = match entered.enter(at, packet, self.lost) {
                Passage::Sent { packet: sent, departure: left, arrival } => {
                    let departed = *departure.get_or_insert(left);
                    if let Some(next) = self.routes.fused(sent.place() + 1) {
                        (link, packet, at) = (next, sent.hopped(), arrival);
                        continue;
                    }
                    if entered.pipe.push(arrival, sent) {
                        self.calendar.set(self.pipes + link, arrival);
                    }
                    return Forwarded::Sent(departed);
                }
                Passage::QueuedIdle => true,
                Passage::Queued | Passage::Dropped => false,
            };
            return Forwarded::Stopped { departure, link, at, idle };
        }
    }
}

impl Simulation {
    /// Sends a packet: to the first link of its route, or first through the components of its host. Returns its departure
    /// from that link, if known.
    #[inline]
    pub(super) fn inject(&mut self, packet: Packet) -> Option<Time> {
        let packet = match &self.watch {
            None => packet,
            Some(_) => self.prepared(packet)?,
        };
        self.launch(packet)
    }

    /// A packet for the first link with what is kept beside it; none if it takes time at its host.
    #[cold]
    fn prepared(&mut self, packet: Packet) -> Option<Packet> {
        if let Some(job) = self.hosts.begin(packet, Way::Out) {
            self.pass_host(job);
            return None;
        }
        Some(self.observed(packet))
    }

    /// A packet for the first link with what is kept beside it.
    pub(super) fn observed(&mut self, packet: Packet) -> Packet {
        let (Some(watch), Stop::Link(first) | Stop::Fused(first)) = (&mut self.watch, self.routes.stop(packet.place()))
        else {
            return packet;
        };
        watch.sent(self.now.max(self.host_until[first as usize]), packet, &self.sacks)
    }

    /// Puts a packet on the first link of its route; returns its departure, if known.
    #[inline]
    pub(super) fn launch(&mut self, packet: Packet) -> Option<Time> {
        self.statistics.packets += 1;
        let (Stop::Link(first) | Stop::Fused(first)) = self.routes.stop(packet.place()) else { return None };
        let at = self.now.max(self.host_until[first as usize]);
        self.statistics.unsent += u64::from(at > self.end);
        self.enter(first, packet, at)
    }

    /// Moves the first packet of a link's pipe on: it reaches the far end.
    #[inline(always)]
    pub(super) fn on_arrival(&mut self, link: u32) {
        let pipe = &mut self.links[link as usize].pipe;
        let Some(packet) = pipe.pop() else { unreachable!("a pipe is due only while it holds a packet") };
        self.calendar.set(self.slots.pipes + link, pipe.next());
        let packet = packet.hopped();
        match self.routes.stop(packet.place()) {
            Stop::End(_) => self.deliver(packet),
            Stop::Link(next) | Stop::Fused(next) => {
                self.enter(next, packet, self.now);
            }
            Stop::Node(next) => self.on_node_arrival(packet, link, next),
        }
    }

    /// Sends a packet over a link and the links fused with it. Returns its departure from the first one, if it is known
    /// and the packet was not lost there.
    #[inline]
    pub(super) fn enter(&mut self, first: u32, packet: Packet, at: Time) -> Option<Time> {
        let forwarded = self.wires().forward(first, packet, at);
        if let Forwarded::Stopped { link, at, .. } = forwarded
            && let Some(watch) = &mut self.watch
        {
            watch.arrived(&mut self.links[link as usize], at, &packet);
        }
        self.settle(forwarded)
    }

    /// Accounts for a packet that was stopped. Returns its departure from the first link, if it is known and the packet was
    /// not lost there.
    #[inline]
    pub(super) fn settle(&mut self, forwarded: Forwarded) -> Option<Time> {
        match forwarded {
            Forwarded::Sent(departure) => Some(departure),
            Forwarded::Stopped { departure, link, at, idle } => {
                self.account_losses(link, at);
                if idle {
                    self.start_transmission(link);
                }
                departure
            }
        }
    }

    /// What moves packets.
    #[inline(always)]
    pub(super) fn wires(&mut self) -> Wires<'_> {
        let Simulation { links, routes, calendar, lost, slots, .. } = self;
        Wires { links, routes, calendar, lost, pipes: slots.pipes }
    }

    /// Starts the next transmission of an evented link.
    pub(super) fn start_transmission(&mut self, link: u32) {
        let slot = self.slots.transmitters + link;
        match self.links[link as usize].start(self.now, &mut self.lost) {
            Start::Sent { packet, departure, arrival } => {
                self.calendar.set(slot, departure);
                if let Some(watch) = &mut self.watch {
                    watch.departs(&mut self.links[link as usize], self.now, &packet);
                }
                if packet.kind() == Kind::Data {
                    self.leaves_local_queue(link, &packet, departure);
                }
                if self.links[link as usize].pipe.push(arrival, packet) {
                    self.calendar.set(self.slots.pipes + link, arrival);
                }
            }
            Start::Held(until) => self.calendar.set(slot, until),
            Start::Idle => self.calendar.set(slot, Time::MAX),
        }
        self.account_losses(link, self.now);
    }

    /// Notes that a data packet begins transmission on its host's evented link: the sender may get room.
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

    /// Accounts for packets dropped by a link at `at`, which may be ahead of the clock.
    #[inline]
    pub(super) fn account_losses(&mut self, link: u32, at: Time) {
        while let Some(mut packet) = self.lost.pop() {
            self.gone += 1;
            if let Some(watch) = &mut self.watch {
                packet = watch.dropped(at, link, packet);
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

    pub(super) fn apply_change(&mut self) {
        let change = self.plan.changes[self.next_change].clone();
        self.next_change += 1;
        let next = self.plan.changes.get(self.next_change).map_or(Time::MAX, |c| Time(c.at_ns));
        self.calendar.set(CHANGES, next);
        self.telemetry.link_change(self.now, &change);
        if self.links[change.link as usize].change(self.now, &change.change) {
            self.start_transmission(change.link);
        }
    }
}
