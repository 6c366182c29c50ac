//! Selects the records that a plan wants, and orders them.

use weir_plan::Trace;
use weir_units::Time;

use crate::{Event, TraceRecord};

/// Keeps the records within the window and the size limit of `measure.trace`.
#[derive(Debug)]
pub struct Recorder {
    flows: Vec<u32>,
    from: Time,
    to: Time,
    left: u64,
    records: Vec<TraceRecord>,
}

impl Recorder {
    /// A recorder without records.
    pub fn new(trace: &Trace) -> Recorder {
        Recorder {
            flows: trace.flows.clone(),
            from: Time(trace.from_ns),
            to: Time(trace.to_ns),
            left: trace.max_packets,
            records: Vec::new(),
        }
    }

    /// Whether the plan wants this flow.
    pub fn wants(&self, flow: u32) -> bool {
        self.flows.is_empty() || self.flows.contains(&flow)
    }

    /// Whether packets sent at `now` or later are not recorded any more.
    pub fn is_over(&self, now: Time) -> bool {
        self.left == 0 || now >= self.to
    }

    /// Handles a packet that is sent before the end; returns whether it is recorded, and counts against the limit.
    pub fn sent(&mut self, record: &TraceRecord) -> bool {
        let counted = record.time_ns >= self.from.0;
        if counted {
            self.left -= 1;
            self.records.push(record.clone());
        }
        counted
    }

    /// A packet that was sent, `counted` or not, has reached its host or was dropped.
    pub fn ended(&mut self, record: TraceRecord, counted: bool) {
        let inside = (self.from.0..self.to.0).contains(&record.time_ns);
        if !inside || !counted && self.left == 0 {
            return;
        }
        self.left -= u64::from(!counted);
        self.records.push(record);
    }

    /// Takes the records since the last call, in the order in which they became known.
    pub fn take(&mut self) -> Vec<TraceRecord> {
        std::mem::take(&mut self.records)
    }
}

/// Sorts records by time.
#[derive(Debug, Default)]
pub struct Ordered {
    records: Vec<TraceRecord>,
    given: u64,
}

impl Ordered {
    /// Adds records.
    pub fn add(&mut self, records: Vec<TraceRecord>) {
        self.records.extend(records);
    }

    /// Takes the records up to and including `until`, in the order of time; the caller knows of no earlier ones.
    ///
    /// A record that is late all the same, because two clocks of a machine differ slightly, gets the time of the last
    /// record taken.
    pub fn take(&mut self, until: Time) -> Vec<TraceRecord> {
        for record in &mut self.records {
            record.time_ns = record.time_ns.max(self.given);
        }
        // Losses on links may be known ahead of the clock. At one instant they come after the hosts' events, by link
        // and flow: their order within a nanosecond would depend on the order in which links were asked.
        let order = |record: &TraceRecord| match record.event {
            Event::Sent | Event::Received => (record.time_ns, 0, 0, 0),
            Event::Dropped { link } => (record.time_ns, link.map_or(0, u64::from) + 1, record.flow, record.number),
        };
        self.records.sort_by_key(order);
        let later = self.records.split_off(self.records.partition_point(|record| record.time_ns <= until.0));
        self.given = self.given.max(until.0);
        std::mem::replace(&mut self.records, later)
    }
}
