//! The analytic link and the queue drained by events are one link: the same departures to the nanosecond, the same drops
//! for the same reasons, the same marks, the same backlog at every arrival.

use proptest::prelude::*;
use weir_elements::plan::RedQueue;
use weir_elements::{Admission, AdmissionQueue, Arrival, DropReason, FifoLink, Offer, Packet, Port, Qdisc};
use weir_elements::{Limit, Mark, Queue, RedCurve};
use weir_units::{Rate, Stream, Time};

use crate::common::{EventedLink, arrivals, arrivals_on_departures, droptail, marks, port, red, step};
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
    fn step_links_are_equal(queue in step(), port in port(), arrivals in arrivals()) {
        prop_assert_eq!(analytic(&queue, port, &arrivals), evented(&queue, port, &arrivals));
    }

    #[test]
    fn marks_links_are_equal(queue in marks(), port in port(), arrivals in arrivals()) {
        prop_assert_eq!(analytic(&queue, port, &arrivals), evented(&queue, port, &arrivals));
    }

    #[test]
    fn red_and_wred_links_are_equal(queue in red(), port in port(), arrivals in arrivals()) {
        prop_assert_eq!(analytic(&queue, port, &arrivals), evented(&queue, port, &arrivals));
    }
}

/// Full packets take a whole microsecond: arrivals and departures coincide.
const EXACT: Port = Port { rate: Rate(12_000_000_000), overhead_bytes: 0, mtu_bytes: 1500 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// A departure comes before an arrival of the same instant, in both modes.
    #[test]
    fn links_are_equal_at_ties(queue in prop_oneof![droptail(), red(), step(), marks()], arrivals in arrivals_on_departures(EXACT)) {
        prop_assert_eq!(analytic(&queue, EXACT, &arrivals), evented(&queue, EXACT, &arrivals));
    }

    /// What is sure to be admitted is admitted, and of drop-tail one is sure.
    #[test]
    fn room_is_told_truly(queue in prop_oneof![droptail(), red()], port in port(), arrivals in arrivals()) {
        let mut link = FifoLink::new(admission(&queue, &port), port.rate);
        let decider = admission(&queue, &port);
        for (now, packet) in arrivals {
            let arrival = Arrival { bytes: port.wire_bytes(&packet), ecn_capable: packet.ecn, dscp: packet.dscp };
            let found = link.backlog(now);
            let has_room = decider.has_room(arrival.bytes, found.bytes, found.packets);
            let is_sent = matches!(link.offer(now, &arrival), Offer::Sent { .. });
            prop_assert_eq!(has_room, is_sent && matches!(queue, Queue::Droptail(_)));
        }
    }

    /// The observer is told of every packet that waited, once, at the instant at which it began, in order.
    #[test]
    fn the_observer_sees_every_wait_end(queue in droptail(), port in port(), arrivals in arrivals()) {
        let mut link = FifoLink::new(admission(&queue, &port), port.rate);
        let (mut expected, mut seen) = (Vec::new(), Vec::new());
        for (now, packet) in arrivals {
            let bytes = port.wire_bytes(&packet);
            let arrival = Arrival { bytes, ecn_capable: false, dscp: 0 };
            if let Offer::Sent { start, .. } = link.offer_observed(now, &arrival, |at, bytes| {
                assert!(at <= now);
                seen.push((at, bytes));
            }) && start > now
            {
                expected.push((start, bytes));
            }
        }
        let end = link.backlog_observed(Time::MAX, |at, bytes| seen.push((at, bytes)));
        prop_assert_eq!((end.bytes, end.packets), (0, 0));
        prop_assert_eq!(seen, expected);
    }
}

/// The properties above would hold of links that never drop: this load makes every kind of decision.
#[test]
fn the_comparison_covers_every_verdict() {
    let curve = RedCurve { dscp_from: 0, dscp_to: 63, min_bytes: 3_000, max_bytes: 7_000, max_p: 0.3 };
    let limit = Limit { bytes: Some(10_000), packets: None };
    let queue = Queue::Red(RedQueue { limit, curves: vec![curve], weight: 0.03, gentle: false, mark: Mark::Ecn });
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
