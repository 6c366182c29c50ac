//! Batches: a region that runs ahead takes the packets of a pipe one after the other, without a dispatch for each.
//!
//! Most regions are simple: a router merges the packets of its pipes; an end of one flow has a pipe and a timer. Their
//! events, and the order of these, are those of the calendar.

use weir_elements::Ring;
use weir_links::{Link, Merge, Pipe, Routes, Stop};
use weir_plan::Plan;
use weir_units::Time;

use super::Simulation;
use super::ends::End;
use super::links::Forwarded;
use super::slots::Slots;
use crate::packet::Packet;

/// A router with more pipes is merged by the calendar, which looks at those that have packets only.
const MOST_INPUTS: usize = 64;
/// Packets of a batch: they stay in the cache.
const BATCH: usize = 256;

/// What a region consists of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Links alone, whose departures are known at arrival.
    Router,
    /// The same, if all packets first pass one link.
    Bottleneck {
        /// The link that they pass first.
        link: u32,
        /// The links whose pipes lead there.
        inputs: Vec<u32>,
    },
    /// One end of a flow, and the link whose pipe leads there.
    End {
        /// The end.
        end: End,
        /// The link.
        input: u32,
    },
    /// Anything else.
    Mixed,
}

/// What the regions of a plan consist of.
pub(super) struct Kinds<'a> {
    pub plan: &'a Plan,
    pub slots: Slots,
    pub links: &'a [Link<Packet>],
    pub routes: &'a Routes,
    /// By slot of the calendar: its region.
    pub of_slots: &'a [u32],
    /// By region but the common one: whether it feeds itself.
    pub feeds_itself: Vec<bool>,
}

impl Kinds<'_> {
    /// The kinds of the regions from 1 on.
    pub fn all(self) -> Vec<Kind> {
        let count = self.feeds_itself.len();
        let (mut timers, mut pipes) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        let mut mixed = self.feeds_itself.clone();
        for (slot, region) in (0..).zip(self.of_slots) {
            let Some(place) = place(*region, count) else { continue };
            if slot >= self.slots.senders {
                timers[place].push(slot);
            } else if slot >= self.slots.pipes {
                let link = slot - self.slots.pipes;
                pipes[place].push(link);
                mixed[place] |= !matches!(self.links[link as usize].pipe, Pipe::Fifo(_));
            } else {
                mixed[place] = true;
            }
        }
        let firsts = self.firsts();
        let kind = |place: usize| match (&timers[place][..], &pipes[place][..]) {
            _ if mixed[place] => Kind::Mixed,
            ([], inputs) => match firsts[place] {
                First::One(link) if inputs.len() <= MOST_INPUTS => Kind::Bottleneck { link, inputs: inputs.to_vec() },
                _ => Kind::Router,
            },
            ([timer], [input]) => Kind::End { end: self.end(*timer), input: *input },
            _ => Kind::Mixed,
        };
        (0..count).map(kind).collect()
    }

    /// The end of a flow that has this timer.
    fn end(&self, timer: u32) -> End {
        let Slots { senders, receivers, .. } = self.slots;
        match timer.checked_sub(receivers) {
            None => End::Sender((timer - senders) as usize),
            Some(flow) => End::Receiver(flow as usize),
        }
    }

    /// By region but the common one: the links that packets from other regions pass first.
    fn firsts(&self) -> Vec<First> {
        let mut firsts = vec![First::None; self.feeds_itself.len()];
        for (index, flow) in (0..).zip(&self.plan.flows) {
            for (path, route) in [(&flow.path, 2 * index), (&flow.reverse_path, 2 * index + 1)] {
                let places = self.routes.start(route)..;
                for (pair, stop) in path.windows(2).zip(places.skip(1)) {
                    let region = self.of_slots[(self.slots.pipes + pair[0]) as usize];
                    let Some(place) = place(region, firsts.len()) else { continue };
                    if let Stop::Link(link) = self.routes.stop(stop) {
                        let simple = self.links[link as usize].passes_batches();
                        firsts[place] = match firsts[place] {
                            First::None if simple => First::One(link),
                            First::One(first) if first == link => First::One(link),
                            _ => First::Several,
                        };
                    }
                }
            }
        }
        firsts
    }
}

/// The links that packets from other regions pass first.
#[derive(Clone, Copy)]
enum First {
    None,
    One(u32),
    Several,
}

/// The place of a region in the list of those but the common one.
fn place(region: u32, count: usize) -> Option<usize> {
    region.checked_sub(1).map(|place| place as usize).filter(|place| *place < count)
}

/// Memory of a batch.
#[derive(Default)]
pub(super) struct Batch {
    merge: Merge,
    /// The packets in the pipes that lead to the router.
    rings: Vec<Ring<(Time, Packet)>>,
    packets: Vec<(Time, Packet)>,
}

/// The packets in a pipe that are not merged yet, in two parts, the first of which is empty only if the other is.
struct Source<'a> {
    packets: &'a [(Time, Packet)],
    newer: &'a [(Time, Packet)],
}

impl<'a> Source<'a> {
    fn of(ring: &'a Ring<(Time, Packet)>) -> Source<'a> {
        let (packets, newer) = ring.parts();
        Source { packets, newer }
    }

    /// The arrival of the next packet; [`Time::MAX`] for none.
    #[inline(always)]
    fn due(&self) -> Time {
        self.packets.first().map_or(Time::MAX, |(at, _)| *at)
    }

    #[inline(always)]
    fn take(&mut self) -> Option<(Time, Packet)> {
        let (first, others) = self.packets.split_first()?;
        self.packets = if others.is_empty() { std::mem::take(&mut self.newer) } else { others };
        Some(*first)
    }

    fn left(&self) -> usize {
        self.packets.len() + self.newer.len()
    }
}

impl Simulation {
    /// Processes the events of a router before `end`.
    pub(super) fn run_router(&mut self, region: u32, end: u64) {
        loop {
            let (at, slot) = self.calendar.first_of(region);
            if at.0 >= end {
                return;
            }
            self.now = at;
            self.statistics.events += 1;
            let pipe = &mut self.links[(slot - self.slots.pipes) as usize].pipe;
            let Pipe::Fifo(ring) = pipe else { unreachable!("the pipes of a router keep the order") };
            let Some((_, packet)) = ring.pop() else { unreachable!("a pipe is due only while it holds a packet") };
            let next = ring.front().map_or(Time::MAX, |(at, _)| *at);
            self.calendar.set(slot, next);
            let packet = packet.hopped();
            let (Stop::Link(first) | Stop::Fused(first)) = self.routes.stop(packet.place()) else {
                unreachable!("packets pass a router")
            };
            if let Forwarded::Stopped { link, at, .. } = self.wires().forward(first, packet, at) {
                self.account_losses(link, at);
            }
        }
    }

    /// Processes the events of a router before `end`; all packets pass `link` first.
    pub(super) fn run_bottleneck(&mut self, batch: &mut Batch, link: u32, inputs: &[u32], end: u64) {
        let Batch { merge, rings, packets } = batch;
        for input in inputs {
            let Pipe::Fifo(ring) = &mut self.links[*input as usize].pipe else {
                unreachable!("the pipes of a router keep the order")
            };
            // Nothing enters the pipes meanwhile: other regions feed them.
            rings.push(std::mem::take(ring));
        }
        let mut sources: Vec<Source<'_>> = rings.iter().map(Source::of).collect();
        merge.begin(sources.iter().map(Source::due), Time(end));
        loop {
            while packets.len() < BATCH
                && let Some(first) = merge.first()
            {
                let source = &mut sources[first];
                let Some((at, packet)) = source.take() else { unreachable!("a source is due while it has a packet") };
                merge.replace(first, source.due());
                packets.push((at, packet.hopped()));
            }
            if packets.is_empty() {
                break;
            }
            self.statistics.events += packets.len() as u64;
            self.batches.passed += packets.len() as u64;
            self.pass_batch(packets, link);
        }
        let left: Vec<usize> = sources.iter().map(Source::left).collect();
        for ((input, mut ring), left) in inputs.iter().zip(rings.drain(..)).zip(left) {
            ring.skip(ring.len() - left);
            self.calendar.set(self.slots.pipes + input, ring.front().map_or(Time::MAX, |(at, _)| *at));
            self.links[*input as usize].pipe = Pipe::Fifo(ring);
        }
    }

    /// Sends packets over a link and the links fused with it.
    fn pass_batch(&mut self, packets: &mut Vec<(Time, Packet)>, link: u32) {
        if let Some((last, _)) = packets.last() {
            self.now = *last;
        }
        self.links[link as usize].pass(packets, &mut self.lost);
        self.account_losses(link, self.now);
        for &(arrival, packet) in packets.iter() {
            let Some(next) = self.routes.fused(packet.place() + 1) else {
                if self.links[link as usize].pipe.push(arrival, packet) {
                    self.calendar.set(self.slots.pipes + link, arrival);
                }
                continue;
            };
            if let Forwarded::Stopped { link, at, .. } = self.wires().forward(next, packet.hopped(), arrival) {
                self.account_losses(link, at);
            }
        }
        packets.clear();
    }

    /// In one order for all, an event may make another one due at the same instant with a lower slot. It follows what
    /// comes between them elsewhere.
    #[inline(always)]
    pub(super) fn begin_event(&mut self, at: Time, slot: u32, last: &mut (Time, u32)) {
        *last = if at == last.0 { (at, slot.max(last.1)) } else { (at, slot) };
        self.telemetry.ahead = Some(last.1);
        self.now = at;
        self.statistics.events += 1;
    }
}
