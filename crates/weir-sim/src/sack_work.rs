//! The time of sending hosts for selective acknowledgements, and the acknowledgements that wait meanwhile.
//!
//! Linux 2.4 and early 2.6 keep what they have sent in a list. For each block of an acknowledgement they walk that
//! list from the first unacknowledged segment to the end of the block (`tcp_sacktag_write_queue`). With windows of ten
//! thousand segments, a loss of many of them makes a host walk for longer than its packets take to arrive. They wait in
//! the backlog of the device (`netdev_max_backlog`), and the host drops what does not fit.
//!
//! A host takes one acknowledgement after the other; the sender learns of each when its walk ends. Acknowledgements
//! without blocks take no time of their own. The flows of a host share it as far as they have a cost. Timers expire
//! meanwhile, because Linux runs them between packets. Other work of the host, and other walks of the list, take no time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_plan::{Flow, Plan, Tcp, Transport};
use weir_tcp::SackBlocks;
use weir_units::{Dur, Time};

use crate::packet::Packet;

/// What a flow's acknowledgements cost its sending host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SackWork {
    /// The host: its place in the simulation's list.
    pub host: usize,
    segment_ns: u64,
    backlog: usize,
}

impl SackWork {
    /// By flow of a plan: its work, if its acknowledgements cost time.
    pub fn of(plan: &Plan) -> Vec<Option<SackWork>> {
        let hosts = numbers(plan);
        let work = |flow: &Flow| {
            let tcp = costly(flow)?;
            let backlog = if tcp.backlog_packets == 0 { usize::MAX } else { tcp.backlog_packets as usize };
            Some(SackWork { host: *hosts.get(&flow.from)?, segment_ns: tcp.sack_cost_ns, backlog })
        };
        plan.flows.iter().map(work).collect()
    }

    /// The hosts that do the work.
    pub fn hosts(plan: &Plan) -> Vec<BusyHost> {
        numbers(plan).iter().map(|_| BusyHost::default()).collect()
    }

    /// The time for an acknowledgement with these blocks, if `una` is the first unacknowledged segment.
    pub fn time(&self, sack: &SackBlocks, una: u64) -> Dur {
        let walked: u64 = sack.as_slice().iter().map(|(_, end)| end.saturating_sub(una)).sum();
        Dur(walked.saturating_mul(self.segment_ns))
    }
}

/// By node: the place of a host that does such work.
fn numbers(plan: &Plan) -> BTreeMap<u32, usize> {
    let nodes: BTreeSet<u32> = plan.flows.iter().filter(|flow| costly(flow).is_some()).map(|flow| flow.from).collect();
    nodes.into_iter().zip(0..).collect()
}

/// The settings of a flow whose acknowledgements cost time.
fn costly(flow: &Flow) -> Option<&Tcp> {
    match &flow.transport {
        Transport::Tcp(tcp) if tcp.sack_cost_ns > 0 => Some(tcp),
        _ => None,
    }
}

/// What becomes of an acknowledgement that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// It takes no time, and nothing is before it.
    Processed,
    /// The host begins its work for it.
    Begun,
    /// It waits.
    Waits,
    /// There is no room for it.
    Dropped,
}

/// A host: the acknowledgement that it works on, and those that wait.
#[derive(Default)]
pub(crate) struct BusyHost {
    /// The first one is in work.
    packets: VecDeque<Packet>,
    until: Time,
}

impl BusyHost {
    /// An acknowledgement arrives that takes `time` if the host is free.
    pub fn arrive(&mut self, now: Time, packet: Packet, work: SackWork, time: Dur) -> Arrived {
        if self.packets.is_empty() {
            if time == Dur::ZERO {
                return Arrived::Processed;
            }
            self.begin(now, time);
            self.packets.push_back(packet);
            return Arrived::Begun;
        }
        if self.packets.len() > work.backlog {
            return Arrived::Dropped;
        }
        self.packets.push_back(packet);
        Arrived::Waits
    }

    /// Ends the work for an acknowledgement, if it ends now or before.
    pub fn end(&mut self, now: Time) -> Option<Packet> {
        if self.until > now { None } else { self.packets.pop_front() }
    }

    /// The acknowledgement that is next, or in work.
    pub fn first(&self) -> Option<Packet> {
        self.packets.front().copied()
    }

    /// The host begins its work for the first acknowledgement; returns the instant at which it ends.
    pub fn begin(&mut self, now: Time, time: Dur) -> Time {
        self.until = Time(now.0.saturating_add(time.0));
        self.until
    }

    /// The end of the present work.
    pub fn until(&self) -> Time {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Kind;

    const WORK: SackWork = SackWork { host: 0, segment_ns: 100, backlog: 2 };

    fn packet(number: u64) -> Packet {
        Packet::new(Kind::Ack, 0, 0, 52, 0, 0).numbered(number)
    }

    fn blocks(of: &[(u64, u64)]) -> SackBlocks {
        let mut sack = SackBlocks::default();
        of.iter().for_each(|(start, end)| sack.push(*start, *end, 4));
        sack
    }

    #[test]
    fn each_block_costs_the_walk_from_the_first_segment_to_its_end() {
        assert_eq!(WORK.time(&blocks(&[(50, 60), (20, 30)]), 10), Dur((50 + 20) * 100));
        assert_eq!(WORK.time(&blocks(&[]), 10), Dur::ZERO, "without blocks nothing is walked");
        assert_eq!(
            WORK.time(&blocks(&[(5, 8)]), 10),
            Dur::ZERO,
            "a block below the first segment ends the walk at once"
        );
    }

    #[test]
    fn a_free_host_processes_what_takes_no_time_at_once() {
        let mut host = BusyHost::default();
        assert_eq!(host.arrive(Time(5), packet(1), WORK, Dur::ZERO), Arrived::Processed);
        assert!(host.first().is_none());
    }

    #[test]
    fn acknowledgements_wait_in_order_and_few_have_room() {
        let mut host = BusyHost::default();
        assert_eq!(host.arrive(Time(0), packet(1), WORK, Dur(1000)), Arrived::Begun);
        assert_eq!(host.arrive(Time(10), packet(2), WORK, Dur::ZERO), Arrived::Waits);
        assert_eq!(host.arrive(Time(20), packet(3), WORK, Dur(9)), Arrived::Waits);
        assert_eq!(host.arrive(Time(30), packet(4), WORK, Dur(9)), Arrived::Dropped);
        assert!(host.end(Time(999)).is_none());
        let mut ended = Vec::new();
        while let Some(packet) = host.end(Time(1000)) {
            ended.push(packet.number());
            host.begin(Time(1000), Dur::ZERO);
        }
        assert_eq!(ended, [1, 2, 3]);
        assert_eq!(host.arrive(Time(1000), packet(5), WORK, Dur::ZERO), Arrived::Processed);
    }
}
