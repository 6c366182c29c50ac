//! The time of a sending host for selective acknowledgements, and the packets that wait meanwhile.
//!
//! Linux 2.4 and early 2.6 keep what they have sent in a list. For each block of an acknowledgement they walk that
//! list from the first unacknowledged segment to the end of the block (`tcp_sacktag_write_queue`). With windows of ten
//! thousand segments a loss of many of them makes the host walk for longer than its packets take to arrive. They wait in
//! the backlog of the device (`netdev_max_backlog`), and what does not fit is dropped. Acknowledgements without blocks take
//! no time here. Timers expire meanwhile, as they do in an interrupt.

use std::collections::VecDeque;

use weir_plan::Tcp;
use weir_tcp::Ack;
use weir_units::Time;

use crate::packet::Packet;

/// The work of one flow's sending host.
pub(crate) struct SackWork {
    segment_ns: u64,
    /// The most packets that wait.
    backlog: usize,
    busy_until: Time,
    waiting: VecDeque<Packet>,
}

/// What becomes of an acknowledgement that arrives.
pub(crate) enum Arrived {
    /// It is processed now.
    Now(Packet),
    /// It waits until [`SackWork::due`].
    Waits,
    /// There is no room for it.
    Dropped(Packet),
}

impl SackWork {
    /// The work of a flow with these settings; none if it takes no time.
    pub fn of(tcp: &Tcp) -> Option<Box<SackWork>> {
        let backlog = if tcp.backlog_packets == 0 { usize::MAX } else { tcp.backlog_packets as usize };
        (tcp.sack_cost_ns > 0).then(|| {
            Box::new(SackWork {
                segment_ns: tcp.sack_cost_ns,
                backlog,
                busy_until: Time::ZERO,
                waiting: VecDeque::new(),
            })
        })
    }

    /// An acknowledgement arrives.
    pub fn arrive(&mut self, now: Time, packet: Packet) -> Arrived {
        if self.busy_until <= now && self.waiting.is_empty() {
            return Arrived::Now(packet);
        }
        if self.waiting.len() >= self.backlog {
            return Arrived::Dropped(packet);
        }
        self.waiting.push_back(packet);
        Arrived::Waits
    }

    /// The host begins to process an acknowledgement; `una` is the first unacknowledged segment before it.
    pub fn begin(&mut self, now: Time, ack: &Ack, una: u64) {
        let blocks = ack.sack.as_slice().iter();
        let walked: u64 = blocks.map(|(_, end)| end.saturating_sub(una)).sum();
        self.busy_until = Time(now.0.saturating_add(walked.saturating_mul(self.segment_ns)));
    }

    /// The next acknowledgement that waits, if the host is free.
    pub fn next(&mut self, now: Time) -> Option<Packet> {
        if self.busy_until > now { None } else { self.waiting.pop_front() }
    }

    /// When the host takes the next acknowledgement that waits.
    pub fn due(&self) -> Time {
        if self.waiting.is_empty() { Time::MAX } else { self.busy_until }
    }
}

#[cfg(test)]
mod tests {
    use weir_tcp::SackBlocks;

    use super::*;
    use crate::packet::Kind;

    fn work(backlog: usize) -> SackWork {
        SackWork { segment_ns: 100, backlog, busy_until: Time::ZERO, waiting: VecDeque::new() }
    }

    fn packet(number: u64) -> Packet {
        Packet::new(Kind::Ack, 0, 0, 52, 0, 0).numbered(number)
    }

    fn blocks(of: &[(u64, u64)]) -> Ack {
        let mut sack = SackBlocks::default();
        of.iter().for_each(|(start, end)| sack.push(*start, *end, 4));
        Ack { ack: 10, sack, ..Ack::default() }
    }

    #[test]
    fn each_block_costs_the_walk_from_the_first_segment_to_its_end() {
        let mut work = work(9);
        work.begin(Time(1000), &blocks(&[(50, 60), (20, 30)]), 10);
        assert_eq!(work.busy_until, Time(1000 + (50 + 20) * 100));
        work.begin(Time(1000), &blocks(&[]), 10);
        assert_eq!(work.busy_until, Time(1000), "without blocks nothing is walked");
        work.begin(Time(1000), &blocks(&[(5, 8)]), 10);
        assert_eq!(work.busy_until, Time(1000), "a block below the first segment ends the walk at once");
    }

    #[test]
    fn acknowledgements_wait_in_order_while_the_host_is_busy_and_few_have_room() {
        let mut work = work(2);
        assert!(matches!(work.arrive(Time(0), packet(1)), Arrived::Now(_)));
        work.begin(Time(0), &blocks(&[(19, 20)]), 10);
        assert!(matches!(work.arrive(Time(10), packet(2)), Arrived::Waits));
        assert!(matches!(work.arrive(Time(20), packet(3)), Arrived::Waits));
        assert!(matches!(work.arrive(Time(30), packet(4)), Arrived::Dropped(_)));
        assert_eq!((work.due(), work.next(Time(999)).is_some()), (Time(1000), false));
        let taken: Vec<u32> = std::iter::from_fn(|| work.next(Time(1000))).map(|packet| packet.number()).collect();
        assert_eq!((taken, work.due()), (vec![2, 3], Time::MAX));
    }
}
