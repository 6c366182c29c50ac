//! Merges the packets of a train before they reach a host, as the receive offload of a network card does.
//!
//! Each packet of a train arrives at its own instant. Delivered singly, each would cost the receiving stack the work of
//! a packet. Network cards avoid that: interrupt moderation collects the packets of some tens of microseconds, and GRO
//! merges those of a connection. So the first packet of a run waits for the next packets of its train, for at most
//! [`Gather::hold`], and only while the next one is under way on the same link.
//!
//! Packets that were sent alone are never held.

use weir_units::{Dur, Time};

use crate::piece::Run;
use crate::train::Segment;

/// A run of packets of one train, for one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Index of the receiving host.
    pub host: u32,
    /// The train.
    pub train: u32,
    /// Its packets.
    pub run: Run,
    /// Arrival of the first packet.
    pub first_at: Time,
    /// The instant at which it is due: the arrival of the last packet, or the end of the wait.
    pub due: Time,
}

/// A run that waits for more packets before it reaches a host.
#[derive(Clone, Copy, Debug)]
struct Open {
    delivery: Delivery,
    last_at: Time,
}

/// The waiting runs, at most one for each host.
#[derive(Debug)]
pub struct Gather {
    hold: Dur,
    open: Vec<Option<Open>>,
}

impl Gather {
    /// For `hosts` hosts, with a maximum wait of `hold`.
    pub fn new(hosts: usize, hold: Dur) -> Gather {
        Gather { hold, open: vec![None; hosts] }
    }

    /// Maximum wait of a packet.
    pub fn hold(&self) -> Dur {
        self.hold
    }

    /// A packet reaches `host` at `at`; `packets` are in its train, and the next packet on its link arrives at `next`.
    /// Appends complete runs to `out`; returns the end of the waiting run's wait, or [`Time::MAX`].
    pub fn push(
        &mut self,
        host: u32,
        at: Time,
        segment: &Segment,
        packets: u32,
        next: Time,
        out: &mut impl FnMut(Delivery),
    ) -> Time {
        let slot = &mut self.open[host as usize];
        let index = u32::from(segment.index);
        let open = match slot.take() {
            Some(mut open) if open.continues(segment) => {
                open.delivery.run.packets += 1;
                open.last_at = at;
                open
            }
            waiting => {
                if let Some(before) = waiting {
                    out(before.go(at));
                }
                let run = Run { first: index, packets: 1, marked: segment.is_marked() };
                let delivery = Delivery { host, train: segment.train, run, first_at: at, due: at };
                Open { delivery, last_at: at }
            }
        };
        let deadline = open.delivery.first_at + self.hold;
        if index + 1 == packets || next > deadline {
            out(open.go(at));
            return Time::MAX;
        }
        *slot = Some(open);
        deadline
    }

    /// Ends the wait of the run before `host`.
    pub fn expire(&mut self, host: u32, at: Time) -> Option<Delivery> {
        self.open[host as usize].take().map(|open| open.go(at))
    }

    /// Drops the waiting runs.
    pub fn clear(&mut self) {
        self.open.fill(None);
    }
}

impl Open {
    fn continues(&self, segment: &Segment) -> bool {
        let run = &self.delivery.run;
        self.delivery.train == segment.train
            && run.first + run.packets == u32::from(segment.index)
            && run.marked == segment.is_marked()
    }

    fn go(self, at: Time) -> Delivery {
        Delivery { due: at, ..self.delivery }
    }
}
