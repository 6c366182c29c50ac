//! Nothing that arrives makes either end panic or lose count, however little sense it makes.

use proptest::prelude::*;
use weir_plan::{Ack as AckPolicy, RateStep, Stack, Tcp};
use weir_tcp::{Ack, Arrival, Receiver, SackBlocks, Sender, feedback};
use weir_units::{Dur, Time};

/// What may happen to a sender.
#[derive(Clone, Debug)]
enum Call {
    Write(u64),
    Stop,
    Ack(WildAck),
    Wait(u64),
    Timer,
    Poll(u8),
    LocalCongestion,
    Blocked,
    SynAck,
}

/// An acknowledgement with numbers relative to the outstanding segments, or absolute ones.
#[derive(Clone, Debug)]
struct WildAck {
    ack: i64,
    blocks: Vec<(i64, i64)>,
    dsack: bool,
    echo: u8,
    tsecr: u32,
}

fn number() -> impl Strategy<Value = i64> {
    prop_oneof![10 => -5i64..40, 1 => any::<i64>(), 1 => Just(i64::MAX), 1 => Just(0)]
}

fn wild_ack() -> impl Strategy<Value = WildAck> {
    let ack = prop_oneof![6 => 0i64..4, 2 => -3i64..30, 1 => any::<i64>()];
    let block =
        prop_oneof![6 => (0i64..30, 1i64..6).prop_map(|(start, len)| (start, start + len)), 1 => (number(), number())];
    let tsecr = prop_oneof![3 => 0u32..4_000_000, 1 => any::<u32>()];
    (ack, proptest::collection::vec(block, 0..4), any::<bool>(), prop_oneof![4 => Just(0u8), 1 => 1u8..8], tsecr)
        .prop_map(|(ack, blocks, dsack, echo, tsecr)| WildAck { ack, blocks, dsack, echo, tsecr })
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        2 => prop_oneof![1u64..20_000, Just(u64::MAX)].prop_map(Call::Write),
        1 => Just(Call::Stop),
        12 => wild_ack().prop_map(Call::Ack),
        5 => prop_oneof![0u64..1000, 1000u64..100_000_000, Just(100_000_000_000u64)].prop_map(Call::Wait),
        5 => Just(Call::Timer),
        10 => any::<u8>().prop_map(Call::Poll),
        1 => Just(Call::LocalCongestion),
        1 => Just(Call::Blocked),
        1 => Just(Call::SynAck),
    ]
}

fn tcp() -> impl Strategy<Value = Tcp> {
    let names: Vec<String> = weir_cc::list().iter().map(|algorithm| algorithm.name().to_owned()).collect();
    let cc = proptest::sample::select(names);
    (cc, any::<(bool, bool, bool, bool, bool, bool)>(), 1u32..12, 1u64..40_000).prop_map(
        |(cc, (legacy, sack, timestamps, ecn, accecn, pacing), initial_window, buffer)| Tcp {
            cc,
            cc_options: Default::default(),
            cc_source: None,
            stack: if legacy { Stack::Linux26 } else { Stack::Linux },
            mss_bytes: 1000,
            timestamps,
            sack,
            ecn,
            accecn,
            initial_window,
            // As drawn, so that some connections begin above it.
            initial_ssthresh: if pacing { 8 } else { 0 },
            jump_start: false,
            quick_start_bps: 0,
            profile: if pacing && sack {
                [(0, 1_000_000), (1_000_000_000, 90_000_000)]
                    .map(|(at_ns, rate_bps)| RateStep { at_ns, rate_bps })
                    .into()
            } else {
                Vec::new()
            },
            send_buffer_bytes: 100_000,
            receive_buffer_bytes: buffer,
            pacing,
            ack: AckPolicy::Delayed,
            processing_ns: 0,
            sack_cost_ns: 0,
            backlog_packets: 0,
            unmoderated: false,
        },
    )
}

fn relative(base: u64, offset: i64) -> u64 {
    base.saturating_add_signed(offset)
}

fn build(ack: &WildAck, una: u64) -> Ack {
    let mut sack = SackBlocks::default();
    sack.dsack = ack.dsack;
    for (start, end) in &ack.blocks {
        sack.push(relative(una, *start), relative(una, *end), 4);
    }
    Ack { ack: relative(una, ack.ack), sack, echo: ack.echo, tsecr: ack.tsecr }
}

fn apply(sender: &mut Sender, now: &mut Time, call: &Call) {
    match call {
        Call::Write(bytes) => sender.write(*now, *bytes),
        Call::Stop => sender.stop_writing(),
        Call::Ack(ack) => sender.on_ack(*now, &build(ack, sender.una())),
        Call::Wait(ns) => *now += Dur(*ns),
        Call::Timer => {
            if sender.deadline() < Time::MAX {
                *now = (*now).max(sender.deadline());
            }
            sender.on_timer(*now);
        }
        Call::Poll(count) => {
            for _ in 0..*count {
                if sender.poll_transmit(*now).is_none() {
                    break;
                }
            }
        }
        Call::LocalCongestion => sender.on_local_congestion(*now),
        Call::Blocked => sender.transmit_blocked(*now),
        Call::SynAck => sender.on_syn_ack(*now),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_sender_survives_any_acknowledgement(tcp in tcp(), calls in proptest::collection::vec(call(), 1..150)) {
        let algorithm = weir_cc::find(&tcp.cc).unwrap();
        let mut sender = Sender::new(&tcp, &algorithm).unwrap();
        let mut now = Time::ZERO;
        sender.connect(now);
        sender.poll_transmit(now);
        now += Dur::from_millis(20);
        sender.on_syn_ack(now);
        sender.write(now, 30_000);
        for call in &calls {
            apply(&mut sender, &mut now, call);
            let consistent = sender.check();
            prop_assert!(consistent.is_ok(), "after {:?}: {}", call, consistent.unwrap_err());
        }
    }

    #[test]
    fn a_receiver_survives_any_segment(
        tcp in tcp(),
        arrivals in proptest::collection::vec(
            (prop_oneof![6 => -4i64..12, 1 => 0i64..100_000], 0u32..2000, any::<u32>(), any::<(bool, bool, bool)>(), 0u64..60_000_000),
            1..200,
        ),
    ) {
        let algorithm = weir_cc::find(&tcp.cc).unwrap();
        let mut receiver = Receiver::new(&tcp).with_feedback(feedback(&tcp, &algorithm));
        let mut now = Time::ZERO;
        let mut delivered = 0;
        for (offset, len, tsval, (ce, cwr, push), gap) in arrivals {
            now += Dur(gap);
            let mut acks = vec![receiver.on_timer(now)];
            prop_assert!(receiver.deadline() > now, "a timer that was served is still due");
            let seq = relative(receiver.next(), offset);
            acks.push(receiver.on_data(now, Arrival { seq, len, tsval, ce, cwr, push }));
            for ack in acks.into_iter().flatten() {
                prop_assert!(ack.ack <= receiver.next());
                let first = usize::from(ack.sack.dsack);
                for (start, end) in &ack.sack.as_slice()[first.min(ack.sack.as_slice().len())..] {
                    prop_assert!(start < end && *start > ack.ack, "{ack:?}");
                }
            }
            prop_assert!(receiver.delivered_bytes() >= delivered);
            delivered = receiver.delivered_bytes();
        }
    }
}
