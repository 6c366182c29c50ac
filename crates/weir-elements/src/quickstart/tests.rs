use proptest::prelude::*;

use super::*;
use crate::Qdisc;
use crate::explicit::Explicit;
use crate::testing::TestPacket;

/// 100 Mbit/s: 90 Mbit/s at 90 %.
const PORT: Port = Port { rate: Rate::from_mbps(100), overhead_bytes: 0, mtu_bytes: 1500 };
const MS: u64 = 1_000_000;

fn router() -> Quickstart<TestPacket> {
    let limit = Limit { bytes: None, packets: Some(1000) };
    QuickstartQueue { limit, share: 0.9, window_ns: 500 * MS }.qdisc(PORT, Stream::new(1, "unused"))
}

/// A packet of `bytes` arrives and departs at once.
fn pass(router: &mut Quickstart<TestPacket>, at: Time, bytes: u32) {
    router.enqueue(at, TestPacket::new(0, bytes), &mut |_, _| panic!("there is room"));
    router.dequeue(at, &mut |_, _| panic!("there is room")).expect("it waits");
}

/// A request for `bps` passes; what is approved of it.
fn ask(router: &mut Quickstart<TestPacket>, at: Time, bps: i64) -> i64 {
    pass(router, at, 60);
    let mut header =
        Header { scheme: Scheme::QuickStart, rtt: Dur::ZERO, spacing: Dur::ZERO, feedback_bps: bps, routers: 3 };
    router.departs(at, 60, &mut header);
    assert_eq!(header.routers, 4);
    header.feedback_bps
}

/// The table of section 3.1: 80 kbit/s to 1 310 720 kbit/s.
#[test]
fn rates_are_powers_of_two_times_40_kbit_s() {
    let kbps = |bps: i64| quick_start_rate(bps) / 1000;
    assert_eq!([79_999, 80_000, 159_999, 160_000].map(kbps), [0, 80, 80, 160]);
    assert_eq!([0, -5, 100_000_000, 1_310_720_000, i64::MAX].map(kbps), [0, 0, 81_920, 1_310_720, 1_310_720]);
}

#[test]
fn an_idle_router_approves_up_to_its_share_and_remembers_what_it_approved() {
    let mut router = router();
    assert_eq!(ask(&mut router, Time(0), 20_480_000), 20_480_000);
    // 90 Mbit/s less 20.48 Mbit/s: 69.5 Mbit/s, or 40.96 Mbit/s as a rate of Quick-Start; then 28.5 Mbit/s are left.
    assert_eq!(ask(&mut router, Time(MS), 1_310_720_000), 40_960_000);
    assert_eq!(ask(&mut router, Time(2 * MS), 1_310_720_000), 20_480_000);
    // The window has passed.
    assert_eq!(ask(&mut router, Time(500 * MS), 1_310_720_000), 81_920_000);
}

/// 500 packets of 1000 bytes in 100 ms are 40 Mbit/s, so 50 Mbit/s are left for 500 ms; an hour later all is.
#[test]
fn the_busiest_part_of_the_window_counts() {
    let mut router = router();
    for i in 0..500 {
        pass(&mut router, Time(i * 200_000), 1000);
    }
    assert_eq!(ask(&mut router.clone(), Time(100 * MS), 1_310_720_000), 40_960_000);
    assert_eq!(ask(&mut router.clone(), Time(499 * MS), 1_310_720_000), 40_960_000);
    assert_eq!(ask(&mut router.clone(), Time(501 * MS), 1_310_720_000), 81_920_000);
    assert_eq!(ask(&mut router, Time(3_600_000 * MS), 1_310_720_000), 81_920_000);
}

#[test]
fn a_busy_router_refuses_and_a_refusal_stays() {
    let mut router = router();
    for i in 0..1200 {
        pass(&mut router, Time(i * 80_000), 1000);
    }
    assert_eq!(ask(&mut router, Time(99 * MS), 80_000), 0);
    assert_eq!(ask(&mut router, Time(3_600_000 * MS), 0), 0);
}

proptest! {
    /// Whatever passes, what is approved within a part of the window never exceeds the share.
    #[test]
    fn approved_rates_never_exceed_the_share(asked in prop::collection::vec((0u64..20_000_000, 0i64..2_000_000_000), 1..300)) {
        let mut router = router();
        let (mut now, mut approved) = (Time(0), std::collections::VecDeque::new());
        for (gap, bps) in asked {
            now += Dur(gap);
            approved.push_back((now, ask(&mut router, now, quick_start_rate(bps))));
            while approved.front().is_some_and(|(at, _)| at.0 + 400 * MS <= now.0) {
                approved.pop_front();
            }
            let sum: i64 = approved.iter().map(|(_, bps)| bps).sum();
            prop_assert!(sum <= 90_000_000, "{sum} bit/s");
        }
    }
}
