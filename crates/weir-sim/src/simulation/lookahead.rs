//! Windows in which the regions of the network run ahead of each other.
//!
//! A window ends at the next sample of goodput or change of a link, or before if it would have many events; samples of TCP
//! state are taken within it where possible (see [`ticks`](super::ticks)). The regions are visited in turn; each processes
//! its events as far as its feeders permit (see [`regions`](super::regions)). Events of one kind follow each other, and
//! what they need stays in the cache. Elsewhere one calendar orders all events: where a transfer
//! may begin or end (see [`stops`](super::stops)); if single packets are observed; and if a visit finds hardly any event.

use std::ops::Range;

use weir_links::{Link, Routes};
use weir_plan::Plan;
use weir_units::Time;

use super::batches::{Batch, Kind};
use super::ends::End;
use super::regions::{COMMON, Feeder, Region, Regions};
use super::slots::{CHANGES, Slots};
use super::stops::Stops;
use super::ticks::Ticks;
use super::{Options, Simulation};
use crate::packet::Packet;

/// Most visits for each event that are worth their while.
const MOST_VISITS: u64 = 4;
/// Number of windows that pass in one order before visits are tried again.
const PAUSE: u32 = 8;
/// If the queue that divides the network holds less than this, one order of events is faster than a window.
const SHORTEST_NS: u64 = 100_000;
/// One order lasts so long then, and twice as long each time until there is a window again.
const EMPTY_NS: u64 = 1_000_000;
const MOST_EMPTY_NS: u64 = 1_000_000_000;

/// A window with more events is cut: its packets shall stay in the near cache from the visit of one region to that of the
/// next.
pub(super) const EVENTS_A_WINDOW: u64 = 1 << 14;
/// With many regions, a window may have so many events for each of them: a visit must find several to be worth its while.
const EVENTS_A_REGION: u64 = 16;

/// Regions that follow each other and have the same feeders: each may always run as far as the others.
struct Group {
    /// The places of its regions.
    regions: Range<usize>,
    /// The ends of flows that its regions are, each with the link that leads there; empty for a single region.
    ends: Vec<(End, u32)>,
    /// What feeds each of them; [`Feeder::region`] is the place of a group.
    feeders: Vec<Feeder>,
}

/// How far each region is.
pub(super) struct Lookahead {
    regions: Vec<Region>,
    groups: Vec<Group>,
    /// By group: everything before this instant is processed, nanoseconds.
    clocks: Vec<u64>,
    /// The ends of a group that have an event.
    due: Vec<(End, u32)>,
    /// See [`Regions::gate`].
    gate: Option<u32>,
    /// How long one order lasts next time if the gate's queue is nearly empty.
    empty_ns: u64,
    stops: Stops,
    /// See [`Stops::patience_ns`].
    patience_ns: u64,
    /// Windows that still pass in one order.
    pause: u32,
    always: bool,
    /// The longest window, nanoseconds; it follows the rate of events.
    span_ns: u64,
    /// A window with more events is cut.
    most_events: u64,
    /// Visits and events since the last call of [`was_worth_it`](Lookahead::was_worth_it).
    recent: (u64, u64),
    batch: Batch,
    /// Events that were processed in windows.
    events: u64,
}

/// The regions of a plan, if they may run ahead of each other.
pub(super) fn regions(
    plan: &Plan,
    options: Options,
    slots: Slots,
    links: &[Link<Packet>],
    routes: &Routes,
) -> Option<Regions> {
    if options.lookahead == Some(false) {
        return None;
    }
    Regions::of(plan, slots, links, routes)
}

/// The regions in groups: ends of flows with the same feeders, and each other region by itself.
fn groups(regions: &[Region]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut of_regions = Vec::with_capacity(regions.len());
    for (place, region) in regions.iter().enumerate() {
        let joins = groups.last().is_some_and(|last| {
            let first = &regions[last.regions.start];
            first.end_input().is_some() && region.end_input().is_some() && first.feeders == region.feeders
        });
        match groups.last_mut().filter(|_| joins) {
            Some(last) => last.regions.end = place + 1,
            None => groups.push(Group { regions: place..place + 1, ends: Vec::new(), feeders: Vec::new() }),
        }
        of_regions.push(groups.len() as u32 - 1);
    }
    for group in &mut groups {
        if group.regions.len() > 1 {
            group.ends = regions[group.regions.clone()].iter().filter_map(Region::end).collect();
        }
        for feeder in &regions[group.regions.start].feeders {
            let fed = Feeder { region: of_regions[feeder.region as usize], ..*feeder };
            match group.feeders.iter_mut().find(|known| (known.region, known.gate) == (fed.region, fed.gate)) {
                Some(known) => known.delay_ns = known.delay_ns.min(fed.delay_ns),
                None => group.feeders.push(fed),
            }
        }
    }
    groups
}

impl Lookahead {
    pub fn new(regions: Regions, stops: Stops, options: Options) -> Lookahead {
        let always = options.lookahead == Some(true);
        let enough = EVENTS_A_WINDOW.max(EVENTS_A_REGION * regions.all.len() as u64);
        let groups = groups(&regions.all);
        Lookahead {
            span_ns: u64::MAX,
            most_events: options.window_events.unwrap_or(enough),
            recent: (0, 0),
            clocks: vec![0; groups.len()],
            groups,
            due: Vec::new(),
            gate: regions.gate,
            regions: regions.all,
            empty_ns: EMPTY_NS,
            patience_ns: stops.patience_ns(),
            stops,
            pause: 0,
            always,
            batch: Batch::default(),
            events: 0,
        }
    }
}

impl Lookahead {
    /// Notes a window of `span_ns`; the next ones are shorter if it had too many events, longer if it had few. Their length
    /// changes no table.
    fn passed(&mut self, visits: u64, events: u64, span_ns: u64) {
        self.events += events;
        self.recent = (self.recent.0 + visits, self.recent.1 + events);
        if events > self.most_events {
            self.span_ns = (span_ns / 2).max(1);
        } else if span_ns == self.span_ns && 4 * events < self.most_events {
            self.span_ns = self.span_ns.saturating_mul(2);
        }
    }

    /// For how long one order of events follows, because hardly anything waits at the gate.
    fn empty_for(&mut self) -> u64 {
        let now = self.empty_ns;
        self.empty_ns = (2 * now).min(MOST_EMPTY_NS);
        now
    }

    /// Whether there were events enough for the visits since the last call.
    fn was_worth_it(&mut self) -> bool {
        let (visits, events) = std::mem::take(&mut self.recent);
        MOST_VISITS * events >= visits
    }
}

#[cfg(test)]
impl Lookahead {
    /// The kinds of all regions.
    pub fn kinds(&self) -> Vec<Kind> {
        self.regions.iter().map(|region| region.kind.clone()).collect()
    }

    /// The longest window, nanoseconds.
    pub fn span_ns(&self) -> u64 {
        self.span_ns
    }

    /// Events that were processed in windows.
    pub fn events(&self) -> u64 {
        self.events
    }
}

impl Simulation {
    /// Number of events so far that regions processed ahead of each other.
    pub fn events_ahead(&self) -> u64 {
        self.lookahead.as_ref().map_or(0, |lookahead| lookahead.events)
    }

    /// Simulates up to and including `until`.
    pub(super) fn look_ahead(&mut self, lookahead: &mut Lookahead, until: Time) {
        let mut from = self.now.0;
        loop {
            let (common, slot) = self.first_common();
            let last = if slot == CHANGES { common.0 } else { common.0.saturating_add(1) };
            let whole = last.min(until.0.saturating_add(1));
            let stop = lookahead.stops.first(from, &self.flows, self.statistics.events);
            let divided = lookahead.gate.map_or(u64::MAX, |link| self.links[link as usize].drained(Time::ZERO).0);
            let longest = self.ticks.as_ref().map_or(u64::MAX, Ticks::longest_ns).min(lookahead.span_ns);
            let end = whole.min(stop).min(divided).min(from.saturating_add(longest));
            let is_empty = divided < from.saturating_add(SHORTEST_NS).min(whole);
            if end <= from && common > until || lookahead.pause > 0 || stop <= from || is_empty {
                let patience_ns = match lookahead.pause {
                    0 if is_empty => lookahead.empty_for(),
                    0 => lookahead.patience_ns,
                    _ => u64::MAX,
                };
                lookahead.pause = lookahead.pause.saturating_sub(1);
                lookahead.stops.passed_in_order();
                self.catch_up(lookahead);
                match self.run_in_order(until, Time(from.saturating_add(patience_ns))) {
                    None => return,
                    Some(reached) => from = reached,
                }
                continue;
            }
            if end > from {
                lookahead.empty_ns = EMPTY_NS;
                self.run_window(lookahead, from, end);
                if end == whole.min(stop) && !lookahead.was_worth_it() && !lookahead.always {
                    // What a stop cut short says little of the next window.
                    lookahead.pause = if end < whole { 1 } else { PAUSE };
                }
                from = end;
            }
            if end == whole && common <= until && common.0 < stop {
                self.now = common;
                self.statistics.events += 1;
                self.dispatch(slot);
            }
        }
    }

    /// Time and slot of the earliest event that ends a window.
    fn first_common(&self) -> (Time, u32) {
        if self.ticks.is_none() {
            return self.calendar.first_of(COMMON);
        }
        [CHANGES, self.slots.goodput_tick]
            .map(|slot| (self.calendar.due(slot), slot))
            .into_iter()
            .min()
            .unwrap_or_default()
    }

    /// One order knows nothing of packets that pass a link later.
    fn catch_up(&mut self, lookahead: &Lookahead) {
        for input in lookahead.regions.iter().filter_map(Region::end_input) {
            self.links[input as usize].catch_up();
        }
    }

    /// Simulates in one order up to the next sample, or up to `limit`; returns the instant before which everything is
    /// processed then, nanoseconds. None if `until` comes before.
    fn run_in_order(&mut self, until: Time, limit: Time) -> Option<u64> {
        self.calendar.join();
        loop {
            match self.step(until.min(limit)) {
                None if limit < until => return Some(limit.0 + 1),
                None => return None,
                Some(slot) if slot >= self.slots.tcp_tick => return Some(self.now.0),
                Some(_) => {}
            }
        }
    }

    /// Simulates everything in `[from, end)`, region by region.
    fn run_window(&mut self, lookahead: &mut Lookahead, from: u64, end: u64) {
        self.calendar.split();
        self.begin_samples(end);
        let Lookahead { regions, groups, clocks, due, batch, .. } = lookahead;
        clocks.fill(from);
        let (mut visits, before) = (0, self.statistics.events);
        let mut behind = true;
        while behind {
            behind = false;
            for (index, group) in groups.iter().enumerate() {
                let reach =
                    group.feeders.iter().map(|feeder| feeder.reach(clocks[feeder.region as usize], &self.links));
                let safe = reach.fold(end, u64::min);
                if safe > clocks[index] {
                    visits += match &regions[group.regions.clone()] {
                        [region] => self.visit(region, batch, safe),
                        ends => self.visit_ends(ends[0].number, &group.ends, due, safe),
                    };
                    clocks[index] = safe;
                }
                behind |= safe < end;
            }
        }
        self.end_samples();
        self.telemetry.regions_met();
        lookahead.passed(visits, self.statistics.events - before, end - from);
    }

    /// Processes the events of the ends of a group before `end`; returns how many have some. Their regions have numbers from
    /// `first` on.
    ///
    /// What one of them does reaches no other before `end`.
    fn visit_ends(&mut self, first: u32, ends: &[(End, u32)], due: &mut Vec<(End, u32)>, end: u64) -> u64 {
        let events = self.calendar.firsts_of(first..first + ends.len() as u32);
        due.clear();
        due.extend(events.zip(ends).filter(|(at, _)| at.0 < end).map(|(_, end)| *end));
        for (place, (side, input)) in due.iter().enumerate() {
            self.fetch_for(&due[place..]);
            self.pass_end(*side, *input, end);
        }
        due.len() as u64
    }

    /// Processes the events of a region before `end`; returns 1 if it has some.
    fn visit(&mut self, region: &Region, batch: &mut Batch, end: u64) -> u64 {
        if self.calendar.first_of(region.number).0.0 >= end {
            return 0;
        }
        match &region.kind {
            Kind::Router => self.run_router(region.number, end),
            Kind::Bottleneck { link, inputs } => self.run_bottleneck(region.number, batch, *link, inputs, end),
            Kind::End { end: side, input } => self.pass_end(*side, *input, end),
            Kind::Mixed => self.run_region(region.number, end),
        }
        1
    }

    /// Processes the events of an end of a flow before `end`, and takes its samples.
    #[inline]
    fn pass_end(&mut self, side: End, input: u32, end: u64) {
        if let End::Sender(flow) = side {
            self.sample_end(flow, input, end);
        }
        self.run_end(side, input, end);
    }

    /// Processes the events of a region of any kind before `end`, one by one.
    fn run_region(&mut self, region: u32, end: u64) {
        let mut last = (Time::ZERO, 0);
        loop {
            let (at, slot) = self.calendar.first_of(region);
            if at.0 >= end {
                return;
            }
            self.begin_event(at, slot, &mut last);
            self.dispatch(slot);
        }
    }
}
