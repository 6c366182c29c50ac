//! What holds on every path: everything written is delivered once and in order, in finite time, and at every step the
//! sender's counters are those of its records and the window is kept. Over random losses, duplicates, reordering, delays,
//! marks and lost ACKs; both stacks, with and without SACK, timestamps, ECN and pacing, every congestion control.

mod channel;

use std::cell::Cell;

use channel::{Config, Connection, Impairments, Outcome, Random};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use weir_plan::{Ack, Stack, Tcp};

/// Every registered congestion control that builds in.
fn congestion_controls() -> Vec<String> {
    weir_cc::list().iter().map(|algorithm| algorithm.name().to_owned()).collect()
}

prop_compose! {
    fn tcp()(
        cc in proptest::sample::select(congestion_controls()),
        legacy in any::<bool>(),
        (sack, timestamps, ecn, accecn, pacing) in any::<(bool, bool, bool, bool, bool)>(),
        every in proptest::bool::weighted(0.2),
        initial_window in 1u32..20,
        mss in prop_oneof![Just(1448u32), Just(536), Just(8948), 1u32..3000],
        send_buffer in prop_oneof![3 => Just(10_000_000u64), 1 => 1u64..60_000],
        receive_buffer in prop_oneof![3 => Just(10_000_000u64), 1 => 1u64..60_000],
    ) -> Tcp {
        Tcp {
            cc,
            cc_options: Default::default(),
            cc_source: None,
            stack: if legacy { Stack::Linux26 } else { Stack::Linux },
            mss_bytes: mss,
            timestamps,
            sack,
            ecn,
            accecn,
            initial_window,
            initial_ssthresh: if every { 5 } else { 0 },
            jump_start: false,
            quick_start_bps: 0,
            profile: Vec::new(),
            send_buffer_bytes: send_buffer,
            receive_buffer_bytes: receive_buffer,
            pacing,
            ack: if every { Ack::Every } else { Ack::Delayed },
            processing_ns: 0,
            sack_cost_ns: 0,
            backlog_packets: 0,
            unmoderated: false,
        }
    }
}

prop_compose! {
    fn impairments()(
        one_way_us in prop_oneof![Just(0u64), 1u64..500, 500u64..100_000, 100_000u64..800_000],
        gap_us in prop_oneof![Just(0u64), 1u64..1000],
        loss in prop_oneof![Just(0u32), 0u32..50, 50u32..250],
        ack_loss in prop_oneof![Just(0u32), 0u32..50, 50u32..400],
        duplicates in prop_oneof![2 => Just(0u32), 1 => 0u32..150],
        late in prop_oneof![2 => Just(0u32), 1 => 0u32..300],
        late_by_us in prop_oneof![1u64..2000, 2000u64..500_000],
        marks in 0u32..200,
        blocked in prop_oneof![3 => Just(0u32), 1 => 0u32..50],
    ) -> Impairments {
        Impairments { one_way_us, gap_us, loss, ack_loss, duplicates, late, late_by_us, marks, blocked }
    }
}

prop_compose! {
    fn config()(
        tcp in tcp(),
        impairments in impairments(),
        transfers in proptest::collection::vec((0u64..3_000_000, 1u64..60), 1..4),
        odd_bytes in 0u64..400,
        seed in any::<u64>(),
    ) -> Config {
        // Sizes in segments: small segments make no long runs.
        let segment = u64::from(tcp.mss_bytes).min(tcp.send_buffer_bytes).min(tcp.receive_buffer_bytes / 2).max(1);
        let transfers = transfers.into_iter().map(|(wait, count)| (wait, count * segment + odd_bytes % segment));
        Config { transfers: transfers.collect(), tcp, impairments, seed }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everything_arrives_and_the_rules_are_kept(config in config()) {
        let outcome = Connection::new(&config).run();
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// The same calls give the same answers.
    #[test]
    fn a_run_repeats(config in config()) {
        prop_assert_eq!(Connection::new(&config).run(), Connection::new(&config).run());
    }

    /// On a path that loses, reorders and delays nothing, nothing is sent twice and no window is taken back.
    #[test]
    fn an_ideal_path_costs_nothing(mut config in config()) {
        config.tcp.ecn = false;
        let Impairments { gap_us, .. } = config.impairments;
        // Less than the least timeout: a delayed ACK is no loss.
        let one_way_us = config.impairments.one_way_us.min(30_000);
        config.impairments = Impairments { one_way_us, gap_us, ..Impairments::default() };
        let Outcome { counters, .. } = Connection::new(&config).run().map_err(TestCaseError::fail)?;
        prop_assert_eq!(counters.retransmitted_packets, 0);
        prop_assert_eq!(counters.timeouts, 0);
    }

    /// On a path that only loses, selective acknowledgements tell exactly what is lost: as long as no timeout and no
    /// probe had to guess, each loss costs one retransmission.
    #[test]
    fn nothing_is_retransmitted_for_nothing(mut config in config()) {
        config.tcp.sack = true;
        let Impairments { one_way_us, gap_us, loss, .. } = config.impairments;
        config.impairments = Impairments { one_way_us, gap_us, loss: loss.min(150), ..Impairments::default() };
        let Outcome { counters, lost, probes, .. } = Connection::new(&config).run().map_err(TestCaseError::fail)?;
        prop_assert!(counters.retransmitted_packets + counters.timeouts + probes >= lost);
        if counters.timeouts + probes == 0 {
            prop_assert_eq!(counters.retransmitted_packets, lost);
        }
    }
}

/// What a plain segment or acknowledgement does is what it does when it is treated as any other. A train is what single
/// segments are.
#[test]
fn plain_packets_have_the_effects_of_any_other() {
    let (seen, trains) = (Cell::new([(0, 0); 2]), Cell::new((0, 0)));
    let cases = ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() };
    let outcome = TestRunner::new(cases).run(&config(), |mut config| {
        config.impairments.loss /= 4;
        let outcome = Connection::new(&config).comparing().run().map_err(TestCaseError::fail)?;
        let mut sums = seen.get();
        let of_stack = &mut sums[usize::from(config.tcp.stack != Stack::Linux)];
        *of_stack = (of_stack.0 + outcome.plain.0, of_stack.1 + outcome.plain.1);
        seen.set(sums);
        trains.set((trains.get().0 + outcome.trains.0, trains.get().1 + outcome.trains.1));
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    for (stack, (data, acks)) in ["linux", "linux-2.6"].iter().zip(seen.get()) {
        assert!(data > 1000 && acks > 1000, "{stack}: only {data} plain segments and {acks} plain acknowledgements");
    }
    assert!(trains.get().0 > 100 && trains.get().1 > 100, "hardly any train: {:?}", trains.get());
}

/// Long transfers in the regime of the papers: a window of hundreds of segments with bursts of losses.
#[test]
fn large_windows_recover_from_bursts() {
    for (stack, sack) in [(Stack::Linux, true), (Stack::Linux26, true), (Stack::Linux, false), (Stack::Linux26, false)]
    {
        for seed in 0..3 {
            let mut random = Random::new(seed);
            let tcp = Tcp {
                cc: "reno".into(),
                cc_options: Default::default(),
                cc_source: None,
                stack,
                mss_bytes: 1448,
                timestamps: true,
                sack,
                ecn: false,
                accecn: false,
                jump_start: false,
                quick_start_bps: 0,
                profile: Vec::new(),
                initial_window: 200,
                initial_ssthresh: 0,
                send_buffer_bytes: 10_000_000,
                receive_buffer_bytes: 10_000_000,
                pacing: false,
                ack: Ack::Delayed,
                processing_ns: 0,
                sack_cost_ns: 0,
                backlog_packets: 0,
                unmoderated: false,
            };
            let impairments = Impairments {
                one_way_us: 10_000 + random.below(40_000),
                gap_us: 12,
                loss: 30,
                ack_loss: 30,
                ..Impairments::default()
            };
            let config = Config { tcp, impairments, transfers: vec![(0, 1_500_000)], seed };
            let Outcome { counters, lost, .. } = Connection::new(&config).run().unwrap();
            let needed = 1_500_000 / 1448 + 1;
            assert_eq!(counters.sent_packets - counters.retransmitted_packets, needed);
            assert!(counters.retransmitted_packets >= lost, "{counters:?}, {lost} lost");
            if stack == Stack::Linux && sack {
                assert!(counters.retransmitted_packets <= lost + 3, "{counters:?}, {lost} lost");
                assert_eq!(counters.timeouts, 0, "3 % of losses need no timeout");
            }
        }
    }
}
