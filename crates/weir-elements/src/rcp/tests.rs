use proptest::prelude::*;

use super::*;
use crate::Qdisc;
use crate::explicit::{Explicit, UNLIMITED};
use crate::testing::TestPacket;

/// 100 Mbit/s: 12 500 000 bytes/s.
const PORT: Port = Port { rate: Rate::from_mbps(100), overhead_bytes: 0, mtu_bytes: 1500 };

fn router(initial: f64) -> Rcp<TestPacket> {
    let limit = Limit { bytes: None, packets: Some(1000) };
    let plan = RcpQueue { limit, alpha: 0.4, beta: 0.4, eta: 1.0, update_ns: 10_000_000, initial };
    plan.qdisc(PORT, Stream::new(1, "unused"))
}

fn header(rtt: Dur) -> Header {
    Header { scheme: Scheme::Rcp, rtt, spacing: Dur::ZERO, feedback_bps: UNLIMITED, routers: 0 }
}

/// A packet of 1000 bytes arrives and departs at once; the rate that it is told.
fn pass(router: &mut Rcp<TestPacket>, at: Time, mut header: Header) -> i64 {
    router.enqueue(at, TestPacket::new(0, 1000), &mut |_, _| panic!("there is room"));
    router.arrived(at, &header);
    router.dequeue(at, &mut |_, _| panic!("there is room")).expect("it waits");
    router.departs(at, 1000, &mut header);
    header.feedback_bps
}

/// By hand, T = 10 ms and d = 100 ms: 100 packets of 1000 bytes in 10 ms are y = 10 000 000 bytes/s of C = 12 500 000.
/// R = 0.1 C (1 + 0.1 * 0.4 * 2.5 / 12.5) = 10 Mbit/s * 1.008.
#[test]
fn the_rate_grows_by_the_spare_bandwidth() {
    let mut router = router(0.1);
    for i in 0..100 {
        assert_eq!(pass(&mut router, Time(i * 100_000), header(Dur::from_millis(100))), 10_000_000);
    }
    assert_eq!(pass(&mut router, Time(10_000_000), header(Dur::from_millis(100))), 10_080_000);
}

/// By hand: 125 packets in 10 ms are C, and 100 packets wait: 100 000 bytes.
/// R = 0.1 C (1 - 0.1 * 0.4 * (100 000 / 0.1) / 12 500 000) = 10 Mbit/s * 0.9968.
#[test]
fn a_queue_lowers_the_rate() {
    let mut router = router(0.1);
    pass(&mut router, Time(0), header(Dur::from_millis(100)));
    for id in 0..100 {
        router.enqueue(Time(0), TestPacket::new(id, 1000), &mut |_, _| panic!("there is room"));
    }
    for i in 1..25 {
        pass(&mut router, Time(i * 400_000), header(Dur::from_millis(100)));
    }
    // 125 packets arrived since 0.
    assert_eq!(pass(&mut router, Time(10_000_000), header(Dur::from_millis(100))), 9_968_000);
}

/// An hour later all of the capacity is there for a new flow, which tells no round-trip time yet.
#[test]
fn an_idle_link_gives_everything_to_the_next_flow() {
    let mut router = router(0.05);
    pass(&mut router, Time(0), header(Dur::from_millis(100)));
    assert_eq!(pass(&mut router, Time::ZERO + Dur::from_secs(3600), header(Dur::ZERO)), 100_000_000);
}

#[test]
fn a_lower_rate_of_another_router_is_kept() {
    let mut router = router(0.1);
    let lower = Header { feedback_bps: 1000, ..header(Dur::from_millis(100)) };
    assert_eq!(pass(&mut router, Time(0), lower), 1000);
}

proptest! {
    /// Whatever arrives, no flow is told more than the share of the capacity that RCP uses, nor nothing.
    #[test]
    fn no_rate_exceeds_the_capacity(
        packets in prop::collection::vec((1u64..50_000_000, 0u64..2_000_000_000), 1..400), initial in 0.001f64..1.0,
    ) {
        let mut router = router(initial);
        let mut now = Time(0);
        for (gap, rtt) in packets {
            now += Dur(gap);
            let told = pass(&mut router, now, header(Dur(rtt)));
            prop_assert!(told > 0 && told <= 100_000_000, "{told}");
        }
    }
}
