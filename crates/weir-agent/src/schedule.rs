//! The instants at which endpoints are woken.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_units::Time;

/// The part of a session that is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slot {
    /// The start of the plan; before all that is due at the same instant.
    Start,
    /// The endpoint with this number.
    Endpoint(u32),
    /// `measure.goodput` or `measure.tcp`.
    Tick,
    /// The sending of rows.
    Flush,
    /// The report of a delayed failure.
    Failure,
    /// The end of the plan, after all other work of the same instant.
    PlanEnd,
}

/// Instants with slots, the earliest first.
#[derive(Debug, Default)]
pub struct Schedule {
    heap: BinaryHeap<Reverse<(Time, Slot)>>,
}

impl Schedule {
    /// Wakes `slot` at `at`. A slot may have several instants; after waking, it checks what is due.
    pub fn add(&mut self, at: Time, slot: Slot) {
        if at < Time::MAX {
            self.heap.push(Reverse((at, slot)));
        }
    }

    /// The earliest instant, or [`Time::MAX`].
    pub fn first(&self) -> Time {
        self.heap.peek().map_or(Time::MAX, |Reverse((at, _))| *at)
    }

    /// Removes and returns the earliest slot that is due at `now`.
    pub fn take(&mut self, now: Time) -> Option<(Time, Slot)> {
        self.heap.peek().filter(|Reverse((at, _))| *at <= now)?;
        self.heap.pop().map(|Reverse(first)| first)
    }
}
