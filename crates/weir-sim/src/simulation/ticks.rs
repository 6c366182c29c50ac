//! Samples of TCP state within a window.
//!
//! A sample shows the state of senders alone. So a sample need not end a window: each sender is sampled when it has
//! processed what comes before, and the rows are put in order when the regions meet. With many flows and short intervals, a
//! visit would otherwise find few packets.

use weir_plan::Plan;
use weir_run::{ProbeRow, SampleRow, Tables};
use weir_units::Time;

use super::Simulation;
use super::ends::End;
use super::regions::{Region, Regions};
use crate::application::Application;
use crate::flow::Flow;
use crate::telemetry::{sample, sender_probes};

/// Rows of a window, at most: 80 bytes each.
const MOST_ROWS: u64 = 1 << 16;
/// The number of a flow that has no row.
const NO_FLOW: u32 = u32::MAX;

/// The samples of a window.
pub(super) struct Ticks {
    interval_ns: u64,
    /// The first sample of the window, nanoseconds.
    first_ns: u64,
    /// Samples of the window.
    count: usize,
    /// By flow: samples taken so far.
    taken: Vec<u32>,
    /// Sample by sample, the rows of all flows.
    rows: Vec<SampleRow>,
    /// Rows that a flow has.
    filled: usize,
    probes: Vec<ProbeRow>,
    /// The largest number of samples that a window had.
    #[cfg(test)]
    pub most: usize,
}

impl Ticks {
    /// None if samples end windows: nothing is sampled, or what is sampled is not a sender in a region of its own.
    pub fn of(plan: &Plan, flows: &[Flow], regions: &Regions) -> Option<Ticks> {
        let interval_ns = plan.measure.tcp_ns;
        let mut is_end = vec![false; flows.len()];
        for (end, _) in regions.all.iter().filter_map(Region::end) {
            if let End::Sender(flow) = end {
                is_end[flow] = true;
            }
        }
        let fits = |(flow, is_end): (&Flow, &bool)| match flow.application {
            Application::Transfers(_) => *is_end,
            Application::Cbr(_) => true,
            Application::Tfrc(_) | Application::Udt(_) => false,
        };
        let fit = interval_ns > 0 && flows.iter().zip(&is_end).all(fits);
        fit.then(|| Ticks {
            interval_ns,
            first_ns: 0,
            count: 0,
            taken: vec![0; flows.len()],
            rows: Vec::new(),
            filled: 0,
            probes: Vec::new(),
            #[cfg(test)]
            most: 0,
        })
    }

    /// The longest window whose samples fit, nanoseconds.
    pub fn longest_ns(&self) -> u64 {
        self.interval_ns.saturating_mul((MOST_ROWS / self.taken.len().max(1) as u64).max(1))
    }

    /// Begins a window before `end_ns`, whose next sample is at `first_ns`; returns the next one from `end_ns` on.
    fn begin(&mut self, first_ns: u64, end_ns: u64) -> u64 {
        self.first_ns = first_ns;
        self.count = end_ns.saturating_sub(first_ns).div_ceil(self.interval_ns) as usize;
        #[cfg(test)]
        (self.most = self.most.max(self.count));
        self.taken.fill(0);
        self.filled = 0;
        self.rows.clear();
        self.rows.resize(self.count * self.taken.len(), SampleRow { flow: NO_FLOW, ..SampleRow::default() });
        first_ns + self.count as u64 * self.interval_ns
    }

    /// The next sample of a flow in the window; [`Time::MAX`] for none.
    #[inline]
    fn next(&self, flow: usize) -> Time {
        let taken = self.taken[flow];
        if taken as usize == self.count {
            return Time::MAX;
        }
        Time(self.first_ns + u64::from(taken) * self.interval_ns)
    }

    /// Takes the next sample of a flow.
    #[inline]
    fn take(&mut self, now: Time, index: usize, flow: &Flow) {
        let taken = self.taken[index] as usize;
        self.taken[index] += 1;
        if let Some(row) = sample(now, index as u32, flow) {
            self.rows[taken * self.taken.len() + index] = row;
            self.filled += 1;
            self.probes.extend(sender_probes(now, index as u32, flow));
        }
    }

    /// Adds the rows in the order of time, then of flows.
    fn end(&mut self, tables: &mut Tables) {
        if self.filled < self.rows.len() {
            self.rows.retain(|row| row.flow != NO_FLOW);
        }
        tables.samples.extend_rows(&self.rows);
        self.probes.sort_by_key(|row| (row.time_ns, row.flow));
        self.probes.drain(..).for_each(|row| tables.probes.push(row));
    }
}

impl Simulation {
    /// Begins a window before `end`: its samples are taken in it.
    pub(super) fn begin_samples(&mut self, end: u64) {
        if let Some(ticks) = &mut self.ticks {
            let slot = self.slots.tcp_tick;
            let next = ticks.begin(self.calendar.due(slot).0, end);
            self.calendar.set(slot, Time(next));
            self.statistics.events += ticks.count as u64;
        }
    }

    /// Takes the samples of a sender before `end`, and processes its events before each; the pipe of `input` leads there.
    #[inline]
    pub(super) fn sample_end(&mut self, flow: usize, input: u32, end: u64) {
        while let Some(ticks) = &mut self.ticks {
            let at = ticks.next(flow);
            if at.0 >= end {
                return;
            }
            let (timer, pipe) = (self.slots.senders + flow as u32, self.slots.pipes + input);
            if self.calendar.due(timer).min(self.calendar.due(pipe)) <= at {
                self.run_end(End::Sender(flow), input, at.0 + 1);
            }
            if let Some(ticks) = &mut self.ticks {
                ticks.take(at, flow, &self.flows[flow]);
            }
        }
    }

    /// Takes the samples that are left when all regions have reached the end of the window.
    pub(super) fn end_samples(&mut self) {
        let Some(ticks) = &mut self.ticks else { return };
        for (index, flow) in self.flows.iter().enumerate() {
            loop {
                let at = ticks.next(index);
                if at == Time::MAX {
                    break;
                }
                ticks.take(at, index, flow);
            }
        }
        ticks.end(&mut self.telemetry.tables);
    }
}
