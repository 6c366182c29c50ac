//! Packets that pass a link later, together.
//!
//! Packets of many flows leave one link for different ones. To enter each of these at once costs more than to let its
//! packets wait, and to pass all of them in one loop before the first one is needed.

use weir_elements::Ring;
use weir_units::Time;

use crate::Record;
use crate::link::Link;
use crate::pipe::Pipe;

/// The most packets that wait.
const MOST: u32 = 128;

/// The newest packets of a link's pipe that have not passed the link: their times are those at which they come to it.
#[derive(Default)]
pub(crate) struct Deferred {
    packets: u32,
    /// So many surely pass.
    room: u32,
    allowed: bool,
}

impl<P: Record> Link<P> {
    /// Permits [`defer`](Link::defer), if the link is one that can. All packets come from one link, which passes batches.
    pub fn allow_deferral(&mut self) {
        self.deferred.allowed = self.is_plain && self.fused && matches!(self.pipe, Pipe::Fifo(_));
    }

    /// Lets a packet that comes to the link at `at` pass when the link [catches up](Link::catch_up). False, and nothing done,
    /// if it must enter at once: its fate is not sure, or nothing else in the pipe says when the far end is due.
    #[inline(always)]
    pub fn defer(&mut self, at: Time, packet: P) -> bool {
        if self.deferred.packets == self.deferred.room && (self.pipe.is_empty() || !self.may_defer(at)) {
            return false;
        }
        if !self.mtu.fits(&packet) {
            self.catch_up();
            return false;
        }
        let Pipe::Fifo(ring) = &mut self.pipe else {
            unreachable!("only a pipe that keeps the order has deferred packets")
        };
        ring.push((at, packet));
        self.deferred.packets += 1;
        true
    }

    #[inline(never)]
    fn may_defer(&mut self, at: Time) -> bool {
        if !self.deferred.allowed {
            return false;
        }
        self.catch_up();
        self.advance(at);
        if self.surely_passes(u64::from(MOST), self.mtu.bytes()) {
            self.deferred.room = MOST;
        }
        self.deferred.room > 0
    }

    /// Passes the packets that were [deferred](Link::defer).
    #[inline]
    pub fn catch_up(&mut self) {
        if self.deferred.packets > 0 {
            self.pass_deferred();
        }
        self.deferred.room = 0;
    }

    #[inline(never)]
    fn pass_deferred(&mut self) {
        let Pipe::Fifo(pipe) = &mut self.pipe else {
            unreachable!("only a pipe that keeps the order has deferred packets")
        };
        let mut pipe: Ring<(Time, P)> = std::mem::take(pipe);
        let (older, newer) = pipe.newest_mut(self.deferred.packets as usize);
        self.pass_surely(older);
        if !newer.is_empty() {
            self.pass_surely(newer);
        }
        self.pipe = Pipe::Fifo(pipe);
        self.deferred.packets = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::link::Passage;
    use crate::testing::Numbered;

    /// A link that all packets reach from one other link, with a queue of 20 packets or of many.
    fn link(packets: u64, defers: bool) -> Link<Numbered> {
        let plan = format!(
            r#"{{"name": "l", "from": 0, "to": 1, "rate_bps": 1000000007, "overhead_bytes": 38, "mtu_bytes": 1500,
                "delay": {{"kind": "fixed", "delay_ns": 1000000}}, "queue": {{"kind": "droptail", "limit": {{"packets": {packets}}}}}}}"#
        );
        let plan = serde_json::from_str(&plan).expect("a link of a plan");
        let mut link = Link::new(&plan, 0, 1, 0, false);
        link.fused = true;
        if defers {
            link.allow_deferral();
        }
        link
    }

    /// Everything in the pipe, the oldest first.
    fn content(link: &Link<Numbered>) -> Vec<(Time, Numbered)> {
        let Pipe::Fifo(ring) = &link.pipe else { unreachable!("the link keeps the order") };
        ring.iter().copied().collect()
    }

    proptest! {
        /// Packets of several sizes, some larger than the MTU, in batches after each of which the far end takes some. With
        /// small gaps the queue grows and packets are dropped.
        #[test]
        fn packets_that_wait_have_the_fates_of_those_that_enter_at_once(
            queue in proptest::sample::select(vec![20u64, 150, 4000]),
            batches in proptest::collection::vec(
                (proptest::sample::select(vec![2_000u64, 12_000, 30_000]), 1usize..300, any::<bool>(), 0usize..300), 1..8),
        ) {
            let (mut single, mut together) = (link(queue, false), link(queue, true));
            let (mut at, mut number, mut deferred) = (0, 0, 0);
            let (mut lost, mut dropped) = (Vec::new(), Vec::new());
            for (gap, packets, mixed, taken) in batches {
                for _ in 0..packets {
                    (at, number) = (at + gap, number + 1);
                    let bytes = if mixed { [1500, 52, 1500, 576, 1501][number % 5] } else { 1500 };
                    let packet = Numbered { number, bytes, marked: false };
                    if let Passage::Sent { packet, arrival, .. } = single.enter(Time(at), packet, &mut lost) {
                        single.pipe.push(arrival, packet);
                    }
                    if together.defer(Time(at), packet) {
                        deferred += 1;
                        continue;
                    }
                    if let Passage::Sent { packet, arrival, .. } = together.enter(Time(at), packet, &mut dropped) {
                        together.pipe.push(arrival, packet);
                    }
                }
                together.catch_up();
                prop_assert_eq!(content(&together), content(&single));
                prop_assert_eq!(&dropped, &lost);
                for link in [&mut single, &mut together] {
                    for _ in 0..taken {
                        link.pipe.pop();
                    }
                }
            }
            // A queue with room for fewer packets than may wait defers none.
            prop_assert!(queue > 20 || deferred == 0);
            prop_assert!(queue < 4000 || number < 3 || deferred > 0);
        }
    }
}
