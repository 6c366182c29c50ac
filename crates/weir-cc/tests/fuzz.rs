//! Any plausible sequence of calls keeps every congestion control within its bounds; [`common::Flow`] checks each call.

mod common;

use common::Flow;
use proptest::prelude::*;
use std::collections::BTreeMap;
use weir_cc::{CaEvent, CaState, list};

/// What may happen to a flow.
#[derive(Clone, Debug)]
enum Step {
    Ack(u32),
    Round { batch: u32 },
    Rtt(u32),
    NoSample,
    Lose,
    TimeOut,
    Undo,
    Idle(u64),
    AppLimited(bool),
    Ecn(bool),
    Mark,
    Clamp(u32),
    Window(u32),
    Pacing { status: u32, rate: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1..2000_u32).prop_map(Step::Ack),
        6 => (1..64_u32).prop_map(|batch| Step::Round { batch }),
        4 => (1..2_000_000_u32).prop_map(Step::Rtt),
        1 => Just(Step::NoSample),
        3 => Just(Step::Lose),
        1 => Just(Step::TimeOut),
        1 => Just(Step::Undo),
        2 => (0..500_000_000_000_u64).prop_map(Step::Idle),
        1 => any::<bool>().prop_map(Step::AppLimited),
        1 => any::<bool>().prop_map(Step::Ecn),
        1 => Just(Step::Mark),
        1 => (2..100_000_u32).prop_map(Step::Clamp),
        1 => (1..3000_u32).prop_map(Step::Window),
        1 => (0..3_u32, any::<u64>()).prop_map(|(status, rate)| Step::Pacing { status, rate }),
    ]
}

fn apply(flow: &mut Flow, step: &Step) {
    match *step {
        Step::Ack(count) => flow.ack(count),
        Step::Round { batch } => flow.round(batch.max(flow.cwnd() / 64)),
        Step::Rtt(us) => {
            flow.set_rtt(us);
            flow.sample(us as i32, 1);
        }
        Step::NoSample => flow.sample(-1, 1),
        Step::Lose => _ = flow.lose(),
        Step::TimeOut => _ = flow.time_out(),
        Step::Undo => _ = flow.undo(),
        Step::Idle(us) => flow.idle(us),
        Step::AppLimited(limited) => flow.cc.sock.is_cwnd_limited = u8::from(!limited),
        Step::Ecn(marked) => flow.event(if marked { CaEvent::EcnIsCe } else { CaEvent::EcnNoCe }),
        Step::Mark => {
            flow.change_state(CaState::Cwr);
            flow.event(CaEvent::CompleteCwr);
            flow.change_state(CaState::Open);
        }
        Step::Clamp(packets) => {
            flow.cc.sock.snd_cwnd_clamp = packets;
            flow.cc.sock.snd_cwnd = flow.cwnd().min(packets);
        }
        Step::Window(packets) => flow.cc.sock.snd_cwnd = packets.min(flow.cc.sock.snd_cwnd_clamp),
        Step::Pacing { status, rate } => {
            flow.cc.sock.pacing_status = status;
            flow.cc.sock.pacing_rate = rate;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_calls_breaks_a_congestion_control(
        steps in prop::collection::vec(step(), 1..200),
        choices in prop::collection::vec(any::<prop::sample::Index>(), 20),
        start in any::<u32>(),
    ) {
        for algorithm in list() {
            // Each option at its default, its smallest or its largest value.
            let options: BTreeMap<String, i64> = algorithm
                .options()
                .into_iter()
                .zip(&choices)
                .map(|(option, choice)| {
                    (option.name, i64::from([option.default, option.default, option.min, option.max][choice.index(4)]))
                })
                .collect();
            let mut flow = Flow::new(&algorithm, &options);
            // Sequence numbers wrap wherever they start.
            flow.cc.sock.snd_una = start;
            flow.cc.sock.snd_nxt = start;
            flow.cc.init();
            for step in &steps {
                apply(&mut flow, step);
            }
            flow.checked(|cc| cc.release());
        }
    }
}
