use proptest::prelude::*;

use super::*;
use crate::Qdisc;
use crate::explicit::{Explicit, UNLIMITED};
use crate::testing::TestPacket;

/// 100 Mbit/s: 12 500 000 bytes/s.
const PORT: Port = Port { rate: Rate::from_mbps(100), overhead_bytes: 0, mtu_bytes: 1500 };
const RTT: Dur = Dur::from_millis(100);

fn router() -> Xcp<TestPacket> {
    let limit = Limit { bytes: None, packets: Some(1000) };
    XcpQueue { limit, alpha: 0.4, beta: 0.226, gamma: 0.1 }.qdisc(PORT, Stream::new(1, "unused"))
}

fn header(rtt: Dur, spacing: Dur) -> Header {
    Header { scheme: Scheme::Xcp, rtt, spacing, feedback_bps: UNLIMITED, routers: 0 }
}

/// A packet of 1000 bytes arrives and departs at once; its feedback.
fn pass(router: &mut Xcp<TestPacket>, at: Time, mut header: Header) -> i64 {
    router.enqueue(at, TestPacket::new(0, 1000), &mut |_, _| panic!("there is room"));
    router.arrived(at, &header);
    router.dequeue(at, &mut |_, _| panic!("there is room")).expect("it waits");
    router.departs(at, 1000, &mut header);
    header.feedback_bps
}

/// `packets` packets at equal distances within the 100 ms from `from` on; the feedback of each.
fn interval(router: &mut Xcp<TestPacket>, from: Time, packets: u64, spacing: Dur) -> Vec<i64> {
    let gap = RTT.0 / packets;
    (0..packets).map(|i| pass(router, Time(from.0 + i * gap), header(RTT, spacing))).collect()
}

/// By hand: 100 packets of 1000 bytes in 100 ms are y = 1 000 000 bytes/s; C - y = 11 500 000, and Q = 0, so
/// F = 0.4 * 11 500 000 = 4 600 000 bytes/s. It exceeds 0.1 y = 100 000, so nothing is shuffled. One flow with 10 ms
/// between packets: sum of spacings 1 s, so each of 100 packets gets 46 000 bytes/s = 368 000 bit/s.
#[test]
fn spare_bandwidth_is_divided_among_packets_by_their_spacing() {
    let mut router = router();
    assert!(interval(&mut router, Time(0), 100, Dur::from_millis(10)).iter().all(|feedback| *feedback == 0));
    let given = interval(&mut router, Time(0) + RTT, 100, Dur::from_millis(10));
    assert!(given.iter().all(|feedback| (367_999..=368_000).contains(feedback)), "{given:?}");
}

/// By hand: 1250 packets in 100 ms are y = C, F = 0. Shuffled: 1 250 000 bytes/s. Spacings of 0.8 ms sum up to 1 s:
/// each packet gets 1000 bytes/s up, and 1 250 000 / 1 250 000 bytes = 1 bytes/s for each of its 1000 bytes down.
#[test]
fn at_capacity_equal_flows_keep_their_share() {
    let mut router = router();
    interval(&mut router, Time(0), 1250, Dur::from_micros(800));
    let given = interval(&mut router, Time(0) + RTT, 1250, Dur::from_micros(800));
    assert!(given.iter().all(|feedback| feedback.abs() <= 1), "{given:?}");
}

/// Two flows at capacity with 3/4 and 1/4 of it: 937.5 and 312.5 packets in 100 ms, so 1 packet in four is of the small
/// one. Its spacing is three times the other's: shuffling gives both flows the same and takes three times as much from
/// the large one. By hand: spacings s and 3s over 1250 packets, 938 s + 312 * 3 s; each flow gets 625 000 bytes/s, and
/// loses 937 500 and 312 500: -312 500 and +312 500 bytes/s over all its packets, 5 Mbit/s / 2.
#[test]
fn shuffling_moves_throughput_from_large_flows_to_small_ones() {
    let mut router = router();
    let (large, small) = (Dur(106_667), Dur(320_000));
    let mut gained = [0, 0];
    for round in 0..2 {
        for i in 0..1250 {
            let is_small = i % 4 == 3;
            let at = Time(round * RTT.0 + i * 80_000);
            let feedback = pass(&mut router, at, header(RTT, if is_small { small } else { large }));
            if round == 1 {
                gained[usize::from(is_small)] += feedback;
            }
        }
    }
    assert!((gained[0] + 2_500_000).abs() < 20_000 && (gained[1] - 2_500_000).abs() < 20_000, "{gained:?}");
}

/// By hand: the queue never holds less than 50 packets of 1000 bytes; y = C. F = -0.226 * 50 000 / 0.1 s = -113 000
/// bytes/s; shuffled: 125 000 * 10 - 113 000 = 1 137 000. Down: 1 250 000, up: 1 137 000 bytes/s.
#[test]
fn a_queue_that_persists_is_drained() {
    let mut router = router();
    let spacing = Dur::from_micros(800);
    for id in 0..50 {
        router.enqueue(Time(0), TestPacket::new(id, 1000), &mut |_, _| panic!("there is room"));
    }
    let mut sum = 0;
    for i in 0..3750_u64 {
        let given = pass(&mut router, Time(1 + i * 80_000), header(RTT, spacing));
        if i >= 2500 {
            sum += given;
        }
    }
    assert!((sum + 8 * 113_000).abs() < 20_000, "{sum} bit/s of -904 000");
}

/// What another router permits already is kept if it is less.
#[test]
fn feedback_is_never_raised() {
    let mut router = router();
    interval(&mut router, Time(0), 100, Dur::from_millis(10));
    let lower = Header { feedback_bps: 1000, ..header(RTT, Dur::from_millis(10)) };
    assert_eq!(pass(&mut router, Time(0) + RTT, lower), 1000);
    let taken = Header { feedback_bps: -5000, ..lower };
    assert_eq!(pass(&mut router, Time(1) + RTT, taken), -5000);
}

#[test]
fn a_limit_drops_and_an_idle_router_begins_anew() {
    let mut router = router();
    interval(&mut router, Time(0), 100, Dur::from_millis(10));
    // An hour later nothing is known of flows.
    let later = Time(0) + Dur::from_secs(3600);
    assert_eq!(pass(&mut router, later, header(RTT, Dur::from_millis(10))), 0);
    let mut dropped = 0;
    for id in 0..1001 {
        router.enqueue(later, TestPacket::new(id, 1000), &mut |_, _| dropped += 1);
    }
    assert_eq!((dropped, router.packets(), router.counters().overflow_packets), (1, 1000, 1));
}

proptest! {
    /// Whatever flows claim, the packets of a control interval never get more than F and the shuffled traffic.
    #[test]
    fn an_interval_gives_no_more_than_the_spare_bandwidth(
        packets in prop::collection::vec((1u64..400_000, 1u64..300_000_000, 1u64..2_000_000_000, any::<bool>()), 1..600),
    ) {
        let mut router = router();
        let (mut now, mut given, mut began, mut most) = (Time(0), 0.0, None, 0.0);
        for (gap, rtt, spacing, limited) in packets {
            now += Dur(gap);
            let asked = if limited { -100 } else { UNLIMITED };
            let before = router.control.interval;
            let header = Header { feedback_bps: asked, ..header(Dur(rtt), Dur(spacing)) };
            let feedback = pass(&mut router, now, header);
            if router.control.interval != before || began.is_none() {
                (given, began) = (0.0, Some(now));
                most = router.control.increase_left * 8.0 + feedback.max(0) as f64 + 1e-3;
            }
            given += feedback.max(0) as f64;
            prop_assert!(given <= most, "{given} of {most}");
            prop_assert!(feedback <= asked);
        }
    }
}
