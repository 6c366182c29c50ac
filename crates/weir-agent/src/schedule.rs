//! Who wants to be woken when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_units::Time;

/// Who is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slot {
    /// The endpoint with this number.
    Endpoint(u32),
    /// `measure.goodput` or `measure.tcp`.
    Tick,
    /// Rows are handed over.
    Flush,
    /// A failure that was held back is reported.
    Failure,
    /// The end of the plan; after all that is due at the same instant.
    PlanEnd,
}

/// Instants, each with a slot; the earliest first.
#[derive(Debug, Default)]
pub struct Schedule {
    heap: BinaryHeap<Reverse<(Time, Slot)>>,
}

impl Schedule {
    /// Wakes `slot` at `at`. A slot may have several instants: whoever is woken looks what is due.
    pub fn add(&mut self, at: Time, slot: Slot) {
        if at < Time::MAX {
            self.heap.push(Reverse((at, slot)));
        }
    }

    /// The earliest instant; [`Time::MAX`] if there is none.
    pub fn first(&self) -> Time {
        self.heap.peek().map_or(Time::MAX, |Reverse((at, _))| *at)
    }

    /// Takes the earliest if it has come by `now`.
    pub fn take(&mut self, now: Time) -> Option<(Time, Slot)> {
        self.heap.peek().filter(|Reverse((at, _))| *at <= now)?;
        self.heap.pop().map(|Reverse(first)| first)
    }
}
