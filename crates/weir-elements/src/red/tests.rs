//! RED against values computed by hand from Floyd and Jacobson 1993.

use super::*;

const PORT: Port = Port { rate: Rate::from_mbps(12), overhead_bytes: 0, mtu_bytes: 1500 };
/// One full packet at 12 Mb/s.
const PACKET_NS: u64 = 1_000_000;
const ARRIVAL: Arrival = Arrival { bytes: 1500, ecn_capable: false, dscp: 0 };
const EARLY: Verdict = Verdict::Drop(DropReason::Early);
const FORCED: Verdict = Verdict::Drop(DropReason::Forced);

fn curve(min_bytes: u64, max_bytes: u64, max_p: f64) -> RedCurve {
    RedCurve { dscp_from: 0, dscp_to: 63, min_bytes, max_bytes, max_p }
}

fn red(curves: Vec<RedCurve>, weight: f64, gentle: bool, mark: Mark) -> Red {
    let limit = Limit { bytes: Some(1_000_000), packets: None };
    let queue = RedQueue { limit, curves, weight, gentle, mark };
    Red::from_plan(&queue, &PORT, Stream::new(9, "red"))
}

fn busy(bytes: u64) -> Backlog {
    Backlog { bytes, packets: bytes / 1500, idle_since: None }
}

fn idle_since(ns: u64) -> Backlog {
    Backlog { bytes: 0, packets: 0, idle_since: Some(Time(ns)) }
}

/// A RED with a constant average: its decisions on packet after packet are then exactly known.
fn pinned(average: f64, curves: Vec<RedCurve>, gentle: bool, mark: Mark) -> Red {
    let mut red = red(curves, 0.0, gentle, mark);
    red.average = average;
    red
}

#[test]
fn the_average_is_the_exponential_filter() {
    let mut red = red(vec![curve(50_000, 100_000, 0.1)], 0.25, false, Mark::Drop);
    let mut average = |queue| {
        red.admit(Time(0), &ARRIVAL, &queue);
        red.average_bytes()
    };
    // avg + (q - avg) / 4, by hand.
    assert_eq!(average(idle_since(0)), 0.0);
    assert_eq!(average(busy(1_000)), 250.0);
    assert_eq!(average(busy(2_000)), 687.5);
    assert_eq!(average(busy(2_000)), 1015.625);
    assert_eq!(average(busy(0)), 761.71875);
}

#[test]
fn the_average_decays_on_an_idle_link_by_its_rate() {
    let mut red = pinned(4096.0, vec![curve(50_000, 100_000, 0.1)], false, Mark::Drop);
    red.weight = 0.25;
    red.set_rate(PORT.rate);
    // 31 / -ln(3/4) packets of 15 625 units of 64 ns in 512 cells at most: cells of 2^12 us.
    red.admit(Time(5 * PACKET_NS + 1_024_000), &ARRIVAL, &idle_since(5 * PACKET_NS));
    assert_eq!(red.average_bytes(), 3072.0);
    // At half the rate the cells are as long twice.
    red.set_rate(Rate::from_mbps(6));
    red.admit(Time(20 * PACKET_NS), &ARRIVAL, &idle_since(20 * PACKET_NS - 2_048_000));
    assert_eq!(red.average_bytes(), 2304.0);
    // An hour: nothing is left.
    red.admit(Time(3_600_000 * PACKET_NS), &ARRIVAL, &idle_since(20 * PACKET_NS));
    assert!(red.average_bytes() < 1e-5);
}

#[test]
fn idle_time_counts_once_whatever_is_dropped_in_it() {
    let mut red = pinned(4096.0, vec![curve(1_000, 2_000, 0.1)], false, Mark::Drop);
    red.weight = 0.25;
    red.set_rate(PORT.rate);
    let mut after = |us: u64| {
        assert_eq!(red.admit(Time(us * 1000), &ARRIVAL, &idle_since(0)), FORCED);
        red.average_bytes()
    };
    assert_eq!(after(1 << 10), 3072.0);
    assert_eq!(after(1 << 10), 3072.0);
    assert_eq!(after(1 << 11), 2304.0);
}

#[test]
fn a_stopped_link_keeps_its_average() {
    let mut red = pinned(4096.0, vec![curve(50_000, 100_000, 0.1)], false, Mark::Drop);
    red.weight = 0.25;
    red.set_rate(Rate(0));
    red.admit(Time(3_600_000 * PACKET_NS), &ARRIVAL, &idle_since(0));
    assert_eq!(red.average_bytes(), 4096.0);
}

#[test]
fn the_slope_is_linear_and_gentle_goes_on_to_one() {
    let c = Curve::from_plan(&curve(10_000, 30_000, 0.1));
    let at = |average, gentle| c.probability(average, gentle);
    for gentle in [false, true] {
        assert_eq!(at(10_000.0, gentle), Some(0.0));
        assert_eq!(at(15_000.0, gentle), Some(0.025));
        assert_eq!(at(20_000.0, gentle), Some(0.05));
    }
    assert_eq!(at(30_000.0, false), None);
    assert_eq!(at(30_000.0, true), Some(0.1));
    assert_eq!(at(45_000.0, true), Some(0.55));
    assert!((at(59_999.99, true).unwrap() - 1.0).abs() < 1e-6);
    assert_eq!(at(60_000.0, true), None);
}

#[test]
fn below_the_lower_threshold_everything_passes_and_above_the_upper_nothing() {
    let curves = vec![curve(10_000, 30_000, 0.5)];
    let mut below = pinned(9_999.0, curves.clone(), false, Mark::Drop);
    let mut above = pinned(30_000.0, curves.clone(), false, Mark::Drop);
    let mut gentle = pinned(60_000.0, curves, true, Mark::Drop);
    for _ in 0..1000 {
        assert_eq!(below.admit(Time(0), &ARRIVAL, &busy(3000)), Verdict::Pass);
        assert_eq!(above.admit(Time(0), &ARRIVAL, &busy(3000)), FORCED);
        assert_eq!(gentle.admit(Time(0), &ARRIVAL, &busy(3000)), FORCED);
    }
}

/// With p_b = 1/10 the packets from signal to signal are uniform over 1 to 10. Independent draws would be geometric,
/// and pass 10 in more than three of ten.
#[test]
fn signals_are_spread_evenly() {
    let mut red = pinned(20_000.0, vec![curve(10_000, 30_000, 0.2)], false, Mark::Drop);
    let mut seen = [0u32; 13];
    let mut gap = 0;
    // The first packets follow no signal: their count begins at 0.
    while red.admit(Time(0), &ARRIVAL, &busy(20_000)) != EARLY {}
    let n = 90_000;
    for _ in 0..n {
        gap += 1;
        while red.admit(Time(0), &ARRIVAL, &busy(20_000)) != EARLY {
            gap += 1;
        }
        seen[gap.min(12)] += 1;
        gap = 0;
    }
    assert_eq!((seen[0], seen[11], seen[12]), (0, 0, 0));
    let error = (f64::from(n) / 10.0 * 0.9).sqrt();
    for (gap, &times) in seen.iter().enumerate().take(11).skip(1) {
        assert!((f64::from(times) - f64::from(n) / 10.0).abs() < 5.0 * error, "gap {gap}: {times} times");
    }
}

/// While p_b climbs as a n, the first signal is at the n for which a n^2 >= R: later than n with probability 1 - a n^2.
/// With a draw for every packet it would be its root.
#[test]
fn signals_come_sooner_while_the_probability_climbs() {
    let slope = 1e-4;
    let (mut curve, mut stream) = (Curve::from_plan(&curve(0, 1, 1.0)), Stream::new(3, "climb"));
    let later = (0..20_000).filter(|_| {
        curve.count = -1;
        (0..=70).all(|n| !curve.chooses(slope * f64::from(n), &mut stream))
    });
    let share = later.count() as f64 / 20_000.0;
    assert!((share - 0.51).abs() < 0.02, "{share}");
}

#[test]
fn the_packet_that_begins_a_count_passes() {
    let mut red = pinned(29_999.9, vec![curve(10_000, 30_000, 1.0)], false, Mark::Drop);
    assert_eq!(red.admit(Time(0), &ARRIVAL, &busy(20_000)), Verdict::Pass);
    assert_eq!(red.admit(Time(0), &ARRIVAL, &busy(20_000)), EARLY);
    red.average = 30_000.0;
    assert_eq!(red.admit(Time(0), &ARRIVAL, &busy(20_000)), FORCED);
    red.average = 29_999.9;
    assert_eq!(red.admit(Time(0), &ARRIVAL, &busy(20_000)), Verdict::Pass);
}

#[test]
fn falling_below_the_threshold_resets_the_count() {
    let mut red = pinned(20_000.0, vec![curve(10_000, 30_000, 0.002)], false, Mark::Drop);
    for _ in 0..100 {
        red.admit(Time(0), &ARRIVAL, &busy(20_000));
    }
    assert!(red.curves[0].count >= 0);
    red.average = 5_000.0;
    red.admit(Time(0), &ARRIVAL, &busy(20_000));
    assert_eq!(red.curves[0].count, -1);
}

#[test]
fn capable_packets_are_marked_and_others_dropped() {
    let mut red = pinned(20_000.0, vec![curve(10_000, 30_000, 0.5)], false, Mark::Ecn);
    let capable = Arrival { ecn_capable: true, ..ARRIVAL };
    let verdicts: Vec<_> = (0..200).map(|_| red.admit(Time(0), &capable, &busy(20_000))).collect();
    assert!(verdicts.contains(&Verdict::Mark));
    assert!(verdicts.iter().all(|v| matches!(v, Verdict::Mark | Verdict::Pass)));
    let verdicts: Vec<_> = (0..200).map(|_| red.admit(Time(0), &ARRIVAL, &busy(20_000))).collect();
    assert!(verdicts.contains(&EARLY));
    assert!(verdicts.iter().all(|v| matches!(v, Verdict::Drop(DropReason::Early) | Verdict::Pass)));
}

#[test]
fn past_the_upper_threshold_capable_packets_are_dropped_too() {
    let mut red = pinned(40_000.0, vec![curve(10_000, 30_000, 0.5)], false, Mark::Ecn);
    let capable = Arrival { ecn_capable: true, ..ARRIVAL };
    assert_eq!(red.admit(Time(0), &capable, &busy(40_000)), FORCED);
}

#[test]
fn marking_makes_the_same_draws_as_dropping() {
    let signals = |mark, ecn_capable| {
        let mut red = pinned(20_000.0, vec![curve(10_000, 30_000, 0.1)], false, mark);
        let arrival = Arrival { ecn_capable, ..ARRIVAL };
        (0..5000).map(|_| red.admit(Time(0), &arrival, &busy(20_000)) != Verdict::Pass).collect::<Vec<_>>()
    };
    assert_eq!(signals(Mark::Ecn, true), signals(Mark::Drop, true));
}

#[test]
fn the_hard_limit_drops_whatever_the_average() {
    let mut red = pinned(0.0, vec![curve(10_000, 30_000, 0.5)], false, Mark::Ecn);
    assert_eq!(red.admit(Time(0), &ARRIVAL, &busy(998_500)), Verdict::Pass);
    assert_eq!(red.admit(Time(0), &ARRIVAL, &busy(998_501)), Verdict::Drop(DropReason::Overflow));
}

#[test]
fn a_drop_at_the_limit_leaves_the_spacing_alone() {
    let mut red = pinned(10_001.0, vec![curve(10_000, 30_000, 0.001)], false, Mark::Drop);
    for _ in 0..100 {
        red.admit(Time(0), &ARRIVAL, &busy(10_000));
    }
    let full = red.admit(Time(0), &ARRIVAL, &busy(1_000_000));
    assert_eq!((full, red.curves[0].count), (Verdict::Drop(DropReason::Overflow), 100));
}

#[test]
fn ranges_with_the_same_curve_are_one_class() {
    let range = |from, to, max_p| RedCurve { dscp_from: from, dscp_to: to, ..curve(10_000, 30_000, max_p) };
    let curves = vec![range(0, 9, 0.2), range(10, 10, 0.9), range(11, 63, 0.2)];
    let mut red = pinned(20_000.0, curves, false, Mark::Drop);
    assert_eq!(red.curves.len(), 2);
    // Packets of both ranges in turn: the spacing of one class, 9 packets at most.
    let mut gap = 0;
    for i in 0..10_000 {
        let arrival = Arrival { dscp: if i % 2 == 0 { 3 } else { 40 }, ..ARRIVAL };
        gap = if red.admit(Time(0), &arrival, &busy(20_000)) == EARLY { 0 } else { gap + 1 };
        assert!(gap <= 10);
    }
}

#[test]
fn each_class_has_its_curve_and_count_and_all_share_the_average() {
    let gold = RedCurve { dscp_from: 40, dscp_to: 46, ..curve(40_000, 50_000, 0.1) };
    let bronze = RedCurve { dscp_from: 0, dscp_to: 9, ..curve(10_000, 20_000, 0.1) };
    let others = RedCurve { dscp_from: 1, dscp_to: 0, ..curve(10_000, 30_000, 1.0) };
    let mut red = pinned(30_000.0, vec![gold, bronze], false, Mark::Drop);
    let with = |dscp| Arrival { dscp, ..ARRIVAL };
    assert_eq!(red.admit(Time(0), &with(46), &busy(30_000)), Verdict::Pass);
    assert_eq!(red.admit(Time(0), &with(0), &busy(30_000)), FORCED);
    assert_eq!(red.admit(Time(0), &with(20), &busy(30_000)), Verdict::Pass, "no curve serves it");
    let count = |red: &Red, dscp: usize| red.curves[usize::from(red.class[dscp])].count;
    assert_eq!((count(&red, 46), count(&red, 0)), (-1, -1));
    red.average = 15_000.0;
    red.admit(Time(0), &with(0), &busy(15_000));
    assert_eq!((count(&red, 46), count(&red, 0)), (-1, 0));
    let mut red = pinned(30_000.0, vec![gold, bronze, others], false, Mark::Drop);
    assert_eq!(red.admit(Time(0), &with(20), &busy(30_000)), FORCED, "the empty range serves the others");
    assert_eq!(red.admit(Time(0), &with(46), &busy(30_000)), Verdict::Pass);
}
