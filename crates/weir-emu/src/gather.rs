//! Puts packets of one train together again before they reach a host, as the receive offload of a network card does.
//!
//! Each packet of a train arrives at its own instant. Handing over each one alone would cost the receiving stack a
//! packet's work for each, which no current network card asks of it: interrupt moderation collects what arrives within some
//! tens of microseconds, and GRO merges what belongs together. So the first packet of a run waits for the next ones of its
//! train, for at most [`Gather::hold`] and only while one is known to be under way on the same link.
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
    /// When the first of them arrived.
    pub first_at: Time,
    /// When it is due: the arrival of the last of them, or the end of their wait.
    pub due: Time,
}

/// The run that waits for more packets before a host.
#[derive(Clone, Copy, Debug)]
struct Open {
    delivery: Delivery,
    last_at: Time,
}

/// The runs that wait, one a host.
#[derive(Debug)]
pub struct Gather {
    hold: Dur,
    open: Vec<Option<Open>>,
}

impl Gather {
    /// For `hosts` hosts; a packet waits at most `hold`.
    pub fn new(hosts: usize, hold: Dur) -> Gather {
        Gather { hold, open: vec![None; hosts] }
    }

    /// The longest that a packet waits.
    pub fn hold(&self) -> Dur {
        self.hold
    }

    /// A packet reaches `host` at `at`; `packets` are in its train, and the next packet on its link arrives at `next`.
    /// What is complete goes to `out`; returns when the run that waits must go, or [`Time::MAX`].
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

    /// The wait of the run before `host` is over.
    pub fn expire(&mut self, host: u32, at: Time) -> Option<Delivery> {
        self.open[host as usize].take().map(|open| open.go(at))
    }

    /// Forgets what waits.
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
