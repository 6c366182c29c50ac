//! A sequence of transfers over TCP.

use weir_plan::{Source, Transfer};
use weir_units::{Dur, Time};

use crate::waits::{Release, Waits};

/// A transfer to begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// Number within the flow, from 0.
    pub number: u32,
    /// Time to begin.
    pub at: Time,
    /// Size; none for a bulk flow, which sends until it is stopped.
    pub bytes: Option<u64>,
}

/// The step after a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Another one.
    Begin(Job),
    /// Transfers of other flows must end first.
    Wait,
    /// Nothing.
    End,
}

/// The transfers of one flow, in order.
#[derive(Clone, Debug)]
pub struct Transfers {
    list: Vec<Transfer>,
    bulk: bool,
    next: usize,
    keep_connection: bool,
    stop: Time,
}

impl Transfers {
    /// The transfers of `source`; nothing begins at or after `stop_ns`. A constant-bit-rate source and a program have
    /// none.
    pub fn new(source: &Source, stop_ns: Option<u64>) -> Transfers {
        let stop = stop_ns.map_or(Time::MAX, Time);
        let (list, bulk, keep_connection) = match source {
            Source::Bulk => (Vec::new(), true, true),
            Source::Transfers { transfers, keep_connection } => (transfers.clone(), false, *keep_connection),
            Source::Cbr(_) | Source::Command(_) => (Vec::new(), false, true),
        };
        Transfers { list, bulk, next: 0, keep_connection, stop }
    }

    /// Whether the flow sends until it is stopped.
    pub fn is_bulk(&self) -> bool {
        self.bulk
    }

    /// Whether one connection serves all transfers.
    pub fn keeps_connection(&self) -> bool {
        self.keep_connection
    }

    /// Time at which the application stops offering data; [`Time::MAX`] for never.
    pub fn stop(&self) -> Time {
        self.stop
    }

    /// The step after a transfer of flow number `flow` that ended at `ended` (or after the start of the flow).
    pub fn step(&mut self, waits: &Waits, flow: u32, ended: Time) -> Step {
        let after = self.list.get(self.next).map_or(&[] as &[_], |transfer| transfer.after.as_slice());
        match waits.release(flow, after) {
            Release::At(last) => self.next(ended.max(last)).map_or(Step::End, Step::Begin),
            Release::Later => Step::Wait,
            Release::Never => Step::End,
        }
    }

    fn next(&mut self, ended: Time) -> Option<Job> {
        let number = self.next as u32;
        let job = if self.bulk {
            (self.next == 0).then_some(Job { number, at: ended, bytes: None })
        } else {
            self.list.get(self.next).map(|t| Job { number, at: ended + Dur(t.wait_ns), bytes: Some(t.bytes) })
        };
        self.next += 1;
        job.filter(|j| j.at < self.stop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(wait_ns: u64, bytes: u64) -> Transfer {
        Transfer { wait_ns, bytes, ..Transfer::default() }
    }

    #[test]
    fn transfers_wait_after_the_end_of_the_one_before() {
        let list = vec![transfer(0, 10), transfer(5, 20)];
        let mut transfers = Transfers::new(&Source::Transfers { transfers: list, keep_connection: false }, Some(100));
        assert_eq!(transfers.next(Time(3)), Some(Job { number: 0, at: Time(3), bytes: Some(10) }));
        assert_eq!(transfers.next(Time(50)), Some(Job { number: 1, at: Time(55), bytes: Some(20) }));
        assert_eq!(transfers.next(Time(60)), None);
    }

    #[test]
    fn nothing_begins_once_the_flow_is_stopped() {
        let list = vec![transfer(10, 1)];
        let mut transfers = Transfers::new(&Source::Transfers { transfers: list, keep_connection: true }, Some(10));
        assert_eq!(transfers.next(Time(0)), None);
    }

    #[test]
    fn a_bulk_flow_is_one_endless_transfer() {
        let mut transfers = Transfers::new(&Source::Bulk, None);
        assert_eq!(transfers.next(Time(7)), Some(Job { number: 0, at: Time(7), bytes: None }));
        assert_eq!(transfers.next(Time(9)), None);
    }
}
