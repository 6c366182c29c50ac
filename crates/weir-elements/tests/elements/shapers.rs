//! Shapers and policers against token buckets of rational numbers.

use proptest::prelude::*;
use weir_elements::plan::{DroptailQueue, PoliceQueue, TbfQueue};
use weir_elements::{AnyQdisc, Enqueued, Limit, Port, Qdisc, Queue, TokenRates};
use weir_units::{Rate, Stream, Time};

use crate::common::arrivals;
use crate::testing::TestPacket;

const PORT: Port = Port { rate: Rate::from_gbps(1), overhead_bytes: 38, mtu_bytes: 1500 };
const NO_LIMIT: Limit = Limit { bytes: Some(1 << 40), packets: None };

fn droptail(packets: u64) -> Queue {
    Queue::Droptail(DroptailQueue { limit: Limit { bytes: None, packets: Some(packets) } })
}

mod token_bucket {
    use super::*;

    const NS: u128 = 1_000_000_000;

    fn tbf(rate_bps: u64, burst_bytes: u64) -> Queue {
        Queue::Tbf(TbfQueue { limit: NO_LIMIT, rate_bps, burst_bytes, queue: Box::new(droptail(100_000)) })
    }

    /// Instants at which packets leave, with their bytes on the wire; nothing but the shaper delays them.
    fn shaped(queue: &Queue, arrivals: &[(Time, TestPacket)]) -> Vec<(Time, u32)> {
        let mut queue = AnyQdisc::from_plan(queue, PORT, Stream::new(1, "queue"));
        let (mut out, mut due) = (Vec::new(), None::<Time>);
        let serve = |queue: &mut AnyQdisc<TestPacket>, now: Time, out: &mut Vec<(Time, u32)>| {
            while let Some(next) = queue.dequeue(now, &mut |_, _| panic!("nothing is dropped")) {
                out.push((now, PORT.wire_bytes(&next.packet)));
            }
            let until = queue.held_until(now);
            assert_eq!(until.is_some(), queue.packets() > 0, "what waits has an instant");
            assert!(until.is_none_or(|until| until > now), "a driver that comes back at once never ends");
            until
        };
        for (now, packet) in arrivals {
            while let Some(at) = due.take_if(|at| *at <= *now) {
                due = serve(&mut queue, at, &mut out);
            }
            queue.enqueue(*now, packet.clone(), &mut |_, _| panic!("nothing is dropped"));
            due = serve(&mut queue, *now, &mut out);
        }
        while let Some(at) = due {
            due = serve(&mut queue, at, &mut out);
        }
        out
    }

    /// Each packet leaves at the first nanosecond at which a bucket of rational tokens has its bits.
    fn ideal(rate: u64, burst_bytes: u64, arrivals: &[(Time, TestPacket)]) -> Vec<(Time, u32)> {
        let (rate, full) = (u128::from(rate), u128::from(burst_bytes) * 8 * NS);
        let (mut tokens, mut last) = (full, 0u128);
        let each = |(arrival, packet): &(Time, TestPacket)| {
            let bytes = PORT.wire_bytes(packet);
            let needed = u128::from(bytes) * 8 * NS;
            let begin = last.max(u128::from(arrival.0));
            tokens = full.min(tokens + (begin - last) * rate);
            let at = begin + needed.saturating_sub(tokens).div_ceil(rate);
            tokens = full.min(tokens + (at - begin) * rate) - needed;
            last = at;
            (Time(at as u64), bytes)
        };
        arrivals.iter().map(each).collect()
    }

    /// Half of the tokens for a packet come at the old rate, the rest at the new one.
    #[test]
    fn a_new_rate_counts_from_the_instant_of_the_change() {
        let mut queue = AnyQdisc::from_plan(&tbf(8_000_000, 1538), PORT, Stream::new(1, "queue"));
        for id in 0..3 {
            queue.enqueue(Time(0), TestPacket::new(id, 1500), &mut |_, _| panic!("nothing is dropped"));
        }
        let drops = &mut |_, _| panic!("nothing is dropped");
        assert!(queue.dequeue(Time(0), drops).is_some(), "the bucket is full");
        assert!(queue.dequeue(Time(0), drops).is_none());
        assert_eq!(queue.held_until(Time(0)), Some(Time(1_538_000)));
        let rates = [TokenRates { rate_bps: 1_000_000, peak_bps: None }];
        queue.set_token_rates(Time(769_000), &mut rates.iter());
        assert!(queue.dequeue(Time(769_000), drops).is_none());
        assert_eq!(queue.held_until(Time(769_000)), Some(Time(769_000 + 8 * 769_000)));
    }

    proptest! {
        #[test]
        fn packets_leave_at_the_instant_at_which_they_conform(
            rate in 1_000_003u64..2_000_000_000,
            burst_bytes in 1538u64..20_000,
            arrivals in arrivals(),
        ) {
            let left = shaped(&tbf(rate, burst_bytes), &arrivals);
            prop_assert_eq!(&left, &ideal(rate, burst_bytes, &arrivals));
            for (i, (from, _)) in left.iter().enumerate() {
                let mut bits = 0;
                for (to, bytes) in &left[i..] {
                    bits += u128::from(*bytes) * 8;
                    let most = u128::from(burst_bytes) * 8 * NS + u128::from(to.since(*from).0) * u128::from(rate);
                    prop_assert!(bits * NS <= most, "more than the burst and the rate from {from:?} to {to:?}");
                }
            }
        }
    }
}

mod policer {
    use super::*;

    fn police(rate_bps: u64, burst_bytes: u64, second: u64, peak_bps: u64, drop_yellow: bool) -> Queue {
        let (excess_bytes, peak_burst_bytes) = if peak_bps == 0 { (second, 0) } else { (0, second) };
        let queue = Box::new(droptail(100_000));
        let limit = NO_LIMIT;
        Queue::Police(PoliceQueue {
            limit,
            rate_bps,
            burst_bytes,
            excess_bytes,
            peak_bps,
            peak_burst_bytes,
            drop_yellow,
            queue,
        })
    }

    #[test]
    fn new_rates_count_from_the_instant_of_the_change() {
        let seconds = |from: u64, count: u64| (from..from + count).map(|s| Time(s * 1_000_000_000));
        for (peak_bps, drop_yellow) in [(0, false), (4 * 1538 * 8, false), (4 * 1538 * 8, true)] {
            // A packet a second is committed, then two.
            let plan = police(1538 * 8, 4 * 1538, if peak_bps == 0 { 0 } else { 4 * 1538 }, peak_bps, drop_yellow);
            let mut queue: AnyQdisc<TestPacket> = AnyQdisc::from_plan(&plan, PORT, Stream::new(1, "queue"));
            let passed = |queue: &mut AnyQdisc<TestPacket>, now: Time| {
                let outcomes = (0..6).map(|id| queue.enqueue(now, TestPacket::new(id, 1500), &mut |_, _| {}));
                outcomes.filter(|outcome| *outcome != Enqueued::Dropped).count()
            };
            passed(&mut queue, Time(0));
            let two = peak_bps > 0;
            let before = if two && !drop_yellow { 4 } else { 1 };
            assert!(seconds(1, 5).all(|now| passed(&mut queue, now) == before), "{before} a second");
            let new = TokenRates { rate_bps: 2 * 1538 * 8, peak_bps: two.then_some(3 * 1538 * 8) };
            plan.validate_token_rates(&[new], "here").expect("rates of this policer");
            let other = TokenRates { peak_bps: if two { None } else { Some(new.rate_bps) }, ..new };
            plan.validate_token_rates(&[other], "here").expect_err("a peak rate only with two rates");
            queue.set_token_rates(Time(5_000_000_000), &mut [new].iter());
            let after = if two && !drop_yellow { 3 } else { 2 };
            assert!(seconds(6, 5).all(|now| passed(&mut queue, now) == after), "{after} a second");
        }
    }

    /// Which packets pass.
    fn passes(plan: &Queue, arrivals: &[(Time, TestPacket)]) -> Vec<bool> {
        let mut queue = AnyQdisc::from_plan(plan, PORT, Stream::new(1, "queue"));
        let each = |(now, packet): &(Time, TestPacket)| {
            let outcome = queue.enqueue(*now, packet.clone(), &mut |_, _| {});
            outcome != Enqueued::Dropped
        };
        arrivals.iter().map(each).collect()
    }

    /// The meters by the letter of the RFCs, with rational tokens: 0 is green, 1 yellow, 2 red.
    fn colours(plan: &PoliceQueue, arrivals: &[(Time, TestPacket)]) -> Vec<u8> {
        const NS: u128 = 1_000_000_000;
        let full = |bytes: u64| u128::from(bytes) * 8 * NS;
        let (first_full, second_full) = (full(plan.burst_bytes), full(plan.excess_bytes.max(plan.peak_burst_bytes)));
        let (mut first, mut second, mut last) = (first_full, second_full, 0);
        let each = |(now, packet): &(Time, TestPacket)| {
            let bits = full(u64::from(PORT.wire_bytes(packet)));
            let elapsed = u128::from(now.0 - last);
            last = now.0;
            let sum = first + elapsed * u128::from(plan.rate_bps);
            first = sum.min(first_full);
            let spilled = if plan.peak_bps == 0 { sum - first } else { elapsed * u128::from(plan.peak_bps) };
            second = (second + spilled).min(second_full);
            if plan.peak_bps == 0 && first >= bits {
                first -= bits;
                return 0;
            }
            if second < bits {
                return 2;
            }
            second -= bits;
            if plan.peak_bps == 0 || first < bits {
                return 1;
            }
            first -= bits;
            0
        };
        arrivals.iter().map(each).collect()
    }

    proptest! {
        /// Rates are whole bits a nanosecond: the excess bucket takes no part of a bit.
        #[test]
        fn colours_are_those_of_the_rfcs(
            gbps in 1u64..3,
            burst_bytes in 40u64..20_000,
            second in 40u64..20_000,
            above in prop_oneof![Just(None), (0u64..3).prop_map(Some)],
            drop_yellow in any::<bool>(),
            arrivals in arrivals(),
        ) {
            // Bursts of a load that either meter colours in all three ways.
            let fast: Vec<_> = arrivals.into_iter().map(|(at, packet)| (Time(at.0 / 20), packet)).collect();
            let rate = gbps * 1_000_000_000;
            let plan = police(rate, burst_bytes, second, above.map_or(0, |above| rate + above * 1_000_000_000), drop_yellow);
            let Queue::Police(fields) = &plan else { unreachable!("it is a policer") };
            let worst = if drop_yellow { 0 } else { 1 };
            let expected: Vec<_> = colours(fields, &fast).into_iter().map(|colour| colour <= worst).collect();
            prop_assert_eq!(passes(&plan, &fast), expected);
        }
    }

    /// A load of twice the rate: half of it conforms, and bursts of the size of both buckets.
    #[test]
    fn a_steady_load_gets_the_committed_rate() {
        let arrivals: Vec<_> =
            (0..20_000u32).map(|id| (Time(u64::from(id) * 61_520), TestPacket::new(id, 1500))).collect();
        let passed = |plan: &Queue| passes(plan, &arrivals).iter().filter(|&&passes| passes).count();
        // 200 Mb/s offered: 12304 bits each 61.52 us.
        assert_eq!(passed(&police(100_000_000, 15_380, 0, 0, false)), 10_010 - 1);
        let green = passed(&police(100_000_000, 15_380, 15_380, 150_000_000, true));
        assert!(green.abs_diff(10_009) <= 2, "{green}");
        let with_peak = passed(&police(100_000_000, 15_380, 15_380, 150_000_000, false));
        assert!(with_peak.abs_diff(15_000) <= 20, "yellow packets pass up to the peak rate: {with_peak}");
    }
}
