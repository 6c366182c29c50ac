//! Batches: a region that runs ahead takes the packets of a pipe one after the other, without a dispatch for each.
//!
//! Most regions are simple: a router merges the packets of its pipes; an end of one flow has a pipe and a timer. Their
//! events, and the order of these, are those of the calendar.

use weir_elements::Ring;
use weir_links::{Link, Merge, Pipe, Routes, Source, Stop};
use weir_plan::Plan;
use weir_units::{Time, fetch_line};

use super::Simulation;
use super::ends::End;
use super::links::Forwarded;
use super::slots::Slots;
use super::sorting::{Memory, sort_keys};
use crate::packet::Packet;

/// The packets of more pipes are sorted instead of merged: each has few, if any.
const MOST_MERGED: usize = 64;
/// Packets that are sorted at once span at most this time, and are at most so many: both fit into a word.
const SORTED_NS: u64 = 1 << 33;
const SORTED_BITS: u32 = 31;
/// No link.
const NO_LINK: u32 = u32::MAX;
/// Packets between the fetch of a link into the cache and its use.
const FETCHED: usize = 8;
/// So many links stay in the near cache: none is fetched ahead.
const NEAR_LINKS: usize = 1024;
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
                First::One(link) => Kind::Bottleneck { link, inputs: inputs.to_vec() },
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
    /// Packets that are not in order, and their times and places in the list, which are sorted.
    unsorted: Vec<(Time, Packet)>,
    order: Vec<u64>,
    sorting: Memory,
    /// The links that the packets of a batch enter next, together with the present one; [`NO_LINK`] for none.
    next: Vec<u32>,
    /// The next packets of the pipes.
    due: Vec<(u32, Time)>,
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
    pub(super) fn run_bottleneck(&mut self, region: u32, batch: &mut Batch, link: u32, inputs: &[u32], end: u64) {
        if inputs.len() <= MOST_MERGED {
            return self.merge_inputs(batch, link, inputs, end);
        }
        let is_spread = self.links.len() > NEAR_LINKS;
        loop {
            let from = self.calendar.first_of(region).0.0;
            if from >= end {
                return;
            }
            self.sort_inputs(region, batch, (from, end.min(from.saturating_add(SORTED_NS))));
            let Batch { packets, unsorted, order, next, .. } = &mut *batch;
            for places in order.chunks(BATCH) {
                packets.extend(places.iter().map(|key| unsorted[(key & ((1 << SORTED_BITS) - 1)) as usize]));
                self.pass_batch(packets, link);
                match is_spread {
                    true => self.spread_batch(packets, next, link),
                    false => self.forward_batch(packets, link),
                }
            }
        }
    }

    /// Takes the packets before an instant from the many pipes of a region and sorts them: by time, then by pipe. `from` is the
    /// time of the earliest one.
    fn sort_inputs(&mut self, region: u32, batch: &mut Batch, (from, end): (u64, u64)) {
        let Batch { unsorted, order, sorting, due, .. } = batch;
        unsorted.clear();
        order.clear();
        let pipes = self.slots.pipes;
        due.clear();
        due.extend(self.calendar.due_before(region, Time(end)));
        for place in 0..due.len() {
            if let Some((later, _)) = due.get(place + FETCHED) {
                fetch_line(&self.links[(later - pipes) as usize].pipe);
            }
            if let Some((later, _)) = due.get(place + FETCHED / 2) {
                self.links[(later - pipes) as usize].fetch_ends();
            }
            let (slot, next) = &mut due[place];
            let Pipe::Fifo(ring) = &mut self.links[(*slot - pipes) as usize].pipe else {
                unreachable!("the pipes of a router keep the order")
            };
            let before = unsorted.len();
            let (older, newer) = ring.parts();
            for part in [older, newer] {
                let taken = &part[..part.partition_point(|(at, _)| at.0 < end)];
                let places = unsorted.len() as u64..;
                order.extend(taken.iter().zip(places).map(|((at, _), place)| (at.0 - from) << SORTED_BITS | place));
                unsorted.extend(taken.iter().map(|(at, packet)| (*at, packet.hopped())));
            }
            ring.skip(unsorted.len() - before);
            *next = ring.front().map_or(Time::MAX, |(at, _)| *at);
        }
        self.calendar.set_many(region, due.drain(..));
        sort_keys(order, SORTED_BITS, sorting);
    }

    /// Merges the packets before `end` of few pipes, and passes them over a link.
    fn merge_inputs(&mut self, batch: &mut Batch, link: u32, inputs: &[u32], end: u64) {
        let Batch { merge, rings, packets, .. } = batch;
        for input in inputs {
            let Pipe::Fifo(ring) = &mut self.links[*input as usize].pipe else {
                unreachable!("the pipes of a router keep the order")
            };
            // Nothing enters the pipes meanwhile: other regions feed them.
            rings.push(std::mem::take(ring));
        }
        let parts = rings.iter().map(Ring::parts);
        let mut sources: Vec<Source<'_, Packet>> = parts.map(|(older, newer)| Source::new(older, newer)).collect();
        merge.begin(sources.iter().map(Source::due), Time(end));
        loop {
            merge.take(&mut sources, BATCH, packets, Packet::hopped);
            if packets.is_empty() {
                break;
            }
            self.pass_batch(packets, link);
            self.forward_batch(packets, link);
        }
        let left: Vec<usize> = sources.iter().map(Source::left).collect();
        for ((input, mut ring), left) in inputs.iter().zip(rings.drain(..)).zip(left) {
            ring.skip(ring.len() - left);
            self.calendar.set(self.slots.pipes + input, ring.front().map_or(Time::MAX, |(at, _)| *at));
            self.links[*input as usize].pipe = Pipe::Fifo(ring);
        }
    }

    /// Sends packets that come to a link at their times; those that are sent have the times at which they reach its far end
    /// then, the others are gone.
    fn pass_batch(&mut self, packets: &mut Vec<(Time, Packet)>, link: u32) {
        let Some(&(last, _)) = packets.last() else { return };
        let count = packets.len() as u64;
        self.links[link as usize].pass(packets, &mut self.lost);
        self.now = last;
        self.statistics.events += count;
        self.batches.passed += count;
        self.account_losses(link, last);
    }

    /// Moves packets on that a link has sent to others nearby: over the links fused with it.
    #[inline(never)]
    fn forward_batch(&mut self, packets: &mut Vec<(Time, Packet)>, link: u32) {
        for &(arrival, packet) in packets.iter() {
            let entered = self.routes.fused(packet.place() + 1);
            self.forward_one(arrival, packet, link, entered);
        }
        packets.clear();
    }

    /// As [`forward_batch`](Simulation::forward_batch), over so many links that they are fetched ahead; `next` is memory.
    #[inline(never)]
    fn spread_batch(&mut self, packets: &mut Vec<(Time, Packet)>, next: &mut Vec<u32>, link: u32) {
        next.clear();
        next.extend(packets.iter().map(|(_, packet)| self.routes.fused(packet.place() + 1).unwrap_or(NO_LINK)));
        for (place, (&(arrival, packet), &entered)) in packets.iter().zip(&*next).enumerate() {
            self.fetch_links(next, place);
            self.forward_one(arrival, packet, link, Some(entered).filter(|entered| *entered != NO_LINK));
        }
        packets.clear();
    }

    /// Moves a packet on that `link` has sent: over the link `entered` fused with it, if there is one.
    #[inline(always)]
    fn forward_one(&mut self, arrival: Time, packet: Packet, link: u32, entered: Option<u32>) {
        let Some(entered) = entered else {
            if self.links[link as usize].pipe.push(arrival, packet) {
                self.calendar.set(self.slots.pipes + link, arrival);
            }
            return;
        };
        if self.links[entered as usize].defer(arrival, packet.hopped()) {
            return;
        }
        if let Forwarded::Stopped { link, at, .. } = self.wires().forward(entered, packet.hopped(), arrival) {
            self.account_losses(link, at);
        }
    }

    /// Fetches the links that later packets of a batch enter.
    #[inline]
    fn fetch_links(&self, next: &[u32], place: usize) {
        let ahead = |count: usize| next.get(place + count).and_then(|link| self.links.get(*link as usize));
        if let Some(link) = ahead(FETCHED) {
            link.fetch_deferral();
        }
        if let Some(link) = ahead(FETCHED / 2) {
            link.fetch_ends();
        }
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
