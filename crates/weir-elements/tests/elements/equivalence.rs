//! The analytic link and the queue drained by events are one link: the same departures to the nanosecond, the same drops
//! for the same reasons, the same marks, the same backlog at every arrival.

use proptest::prelude::*;
use weir_elements::{Admission, AdmissionQueue, Arrival, DropReason, FifoLink, Offer, Packet, Port, Qdisc};
use weir_plan::{Limit, Mark, Queue, RedCurve};
use weir_units::{Rate, Stream, Time};

use crate::common::{EventedLink, arrivals, droptail, port, red};
use crate::testing::TestPacket;

/// What became of the packets of one mode.
#[derive(Debug, PartialEq)]
struct Outcome {
    departures: Vec<(Time, TestPacket)>,
    dropped: Vec<(u32, DropReason)>,
    /// Bytes and packets found at each arrival.
    found: Vec<(u64, u64)>,
}

fn admission(queue: &Queue, port: &Port) -> Admission {
    Admission::from_plan(queue, port, Stream::new(11, "queue")).expect("these decide at arrival")
}

fn analytic(queue: &Queue, port: Port, arrivals: &[(Time, TestPacket)]) -> Outcome {
    let mut link = FifoLink::new(admission(queue, &port), port.rate);
    let mut outcome = Outcome { departures: Vec::new(), dropped: Vec::new(), found: Vec::new() };
    for (now, packet) in arrivals {
        let mut packet = packet.clone();
        let backlog = link.backlog(*now);
        outcome.found.push((backlog.bytes, backlog.packets));
        let arrival =
            Arrival { bytes: port.wire_bytes(&packet), ecn_capable: packet.ecn_capable(), dscp: packet.dscp() };
        match link.offer(*now, &arrival) {
            Offer::Dropped(reason) => outcome.dropped.push((packet.id, reason)),
            Offer::Sent { departure, mark, .. } => {
                if mark {
                    packet.mark_ce();
                }
                outcome.departures.push((departure, packet));
            }
        }
    }
    outcome
}

fn evented(queue: &Queue, port: Port, arrivals: &[(Time, TestPacket)]) -> Outcome {
    let mut link = EventedLink::new(AdmissionQueue::new(admission(queue, &port), port), port);
    let mut found = Vec::new();
    for (now, packet) in arrivals {
        link.advance(*now);
        found.push((link.queue.bytes(), link.queue.packets()));
        link.arrive(*now, packet.clone());
    }
    link.advance(Time::MAX);
    assert_eq!((link.queue.bytes(), link.queue.packets()), (0, 0));
    Outcome { departures: link.departures, dropped: link.dropped, found }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn droptail_links_are_equal(queue in droptail(), port in port(), arrivals in arrivals()) {
        prop_assert_eq!(analytic(&queue, port, &arrivals), evented(&queue, port, &arrivals));
    }

    #[test]
    fn red_and_wred_links_are_equal(queue in red(), port in port(), arrivals in arrivals()) {
        prop_assert_eq!(analytic(&queue, port, &arrivals), evented(&queue, port, &arrivals));
    }
}

/// The properties above would hold of links that never drop: this load makes every kind of decision.
#[test]
fn the_comparison_covers_every_verdict() {
    let curve = RedCurve { dscp_from: 0, dscp_to: 63, min_bytes: 3_000, max_bytes: 7_000, max_p: 0.3 };
    let limit = Limit { bytes: Some(10_000), packets: None };
    let queue = Queue::Red { limit, curves: vec![curve], weight: 0.03, gentle: false, mark: Mark::Ecn };
    let port = Port { rate: Rate(99_999_989), overhead_bytes: 38, mtu_bytes: 1500 };
    // Bursts of fifteen packets twice a millisecond for a second: about 1.8 times the rate, then a pause.
    let arrivals: Vec<_> = (0..30_000u32)
        .map(|id| {
            let burst = u64::from(id / 15);
            let now = Time(burst * 500_000 + burst / 100 * 30_000_000);
            (now, TestPacket { ecn: id % 2 == 0, ..TestPacket::new(id, 400 + id % 400) })
        })
        .collect();
    let outcome = analytic(&queue, port, &arrivals);
    let count = |reason| outcome.dropped.iter().filter(|(_, r)| *r == reason).count();
    let marked = outcome.departures.iter().filter(|(_, packet)| packet.ce).count();
    let kinds = [count(DropReason::Overflow), count(DropReason::Early), count(DropReason::Forced), marked];
    assert!(kinds.iter().all(|&n| n > 100), "overflow, early, forced, marked: {kinds:?}");
    assert_eq!(outcome, evented(&queue, port, &arrivals));
}
