//! Senders that follow a rate profile.

use weir_plan::{Plan, RateStep, Source, Tcp};
use weir_sim::{Options, Tables};

use crate::common::{MS, S, add_flow, droptail, dumbbell, events, run, run_with, tcp, transfers};
use crate::determinism::assert_same;

const MBIT: u64 = 1_000_000;
const RTT: u64 = 20 * MS;
/// Bytes of a full segment, of its IP packet, and of its frame on the wire.
const PAYLOAD: u64 = 1448;
const PACKET: u64 = 1500;
const WIRE: u64 = 1538;
/// Segments before the first acknowledgement: windows in a handshake are not scaled.
const FIRST: u64 = 65_535 / PAYLOAD;

fn following(cc: &str, steps: &[(u64, u64)]) -> Tcp {
    let profile = steps.iter().map(|&(at_ns, rate_bps)| RateStep { at_ns, rate_bps }).collect();
    Tcp { profile, ..tcp(cc) }
}

/// Flows of these settings over 100 Mb/s and 20 ms, with a queue of two packets at the bottleneck.
fn plan(flows: &[(Tcp, Source)], end_ns: u64) -> Plan {
    let queue = droptail(None, Some(2));
    let mut plan = dumbbell(flows.len() as u32, 1000 * MBIT, 100 * MBIT, RTT, queue, end_ns);
    for (pair, (tcp, source)) in flows.iter().enumerate() {
        add_flow(&mut plan, pair as u32, 0, tcp.clone(), source.clone());
    }
    plan
}

/// When the first transfer of a flow ended.
fn ended(tables: &Tables, flow: u32) -> u64 {
    events(tables, "transfer_end", flow).first().expect("the transfer ends").0
}

fn retransmitted(tables: &Tables) -> u64 {
    tables.flows.retransmitted_packets.iter().copied().sum()
}

/// A round trip for the handshake, the packets at the rates of the profile, and a round trip until the last
/// acknowledgement.
#[test]
fn a_transfer_takes_what_the_profile_says_whatever_the_control() {
    let packets = 10_000;
    for cc in ["constant", "cubic"] {
        // 100 packets of 160 us, then 300 us, then 150 us each.
        let steps = [(0, 75 * MBIT), (RTT + 16 * MS, 40 * MBIT), (RTT + 316 * MS, 80 * MBIT)];
        let tables = run(&plan(&[(following(cc, &steps), transfers(&[(0, packets * PAYLOAD)], false))], 5 * S));
        // Of the first hundred, those beyond the first window wait for an acknowledgement, until 4 ms of the second step are over.
        let missed = (100 - FIRST) * 150_000 + 4 * MS / 2;
        let least = RTT + 16 * MS + 300 * MS + (packets - 100 - 1000) * 150_000 + missed + RTT;
        if cc == "constant" {
            assert!((least..least + MS).contains(&ended(&tables, 0)), "{cc}: {} for {least}", ended(&tables, 0));
        } else {
            assert!(ended(&tables, 0) > least, "slow start takes longer than the first step");
        }
        assert_eq!(retransmitted(&tables), 0, "{cc}");
    }
}

/// Without a profile the same window overflows the queue; with one of the wire's rate it does not.
#[test]
fn a_profile_keeps_a_constant_window_from_losing_packets() {
    let size = || transfers(&[(0, 1000 * PAYLOAD)], false);
    let all = 100 * MBIT * PACKET / WIRE;
    assert!(retransmitted(&run(&plan(&[(tcp("constant"), size())], 5 * S))) > 100);
    assert_eq!(retransmitted(&run(&plan(&[(following("constant", &[(0, all)]), size())], 5 * S))), 0);
}

/// Two profiles that change at the same instant and fill the bottleneck together lose nothing. The handshake takes a round
/// trip at 30 % from one and at 70 % from the other, and so does the wait after the first window; they send it at 50 % in the end.
#[test]
fn complementary_profiles_share_a_link_without_losses() {
    let share = |percent: u64| 100 * MBIT * PACKET / WIRE * percent / 100;
    let one = following("constant", &[(0, share(30)), (S, share(70)), (2 * S, share(50))]);
    let other = following("constant", &[(0, share(70)), (S, share(30)), (2 * S, share(50))]);
    let size = || transfers(&[(0, 18_000_000)], false);
    let tables = run(&plan(&[(one, size()), (other, size())], 10 * S));
    assert_eq!(retransmitted(&tables), 0);
    let apart = ended(&tables, 0).abs_diff(ended(&tables, 1));
    let waits = |percent: u64| (RTT - FIRST * PACKET * 8 * 1000 / (share(percent) / MBIT)) * percent / 50;
    assert!(apart.abs_diff(RTT * 40 / 50 + waits(70) - waits(30)) < MS, "{apart} ns apart");
}

/// A pacing rate of the congestion control below that of the profile holds, and one above it does not.
#[test]
fn the_lower_of_profile_and_pacing_holds() {
    let goodput = |tables: &Tables| tables.flows.delivered_bytes[0] * 8 / 5;
    let bbr = |rate: u64| run(&plan(&[(following("bbr", &[(0, rate)]), Source::Bulk)], 5 * S));
    let slow = goodput(&bbr(20 * MBIT));
    assert!((17 * MBIT..20 * MBIT).contains(&slow), "{slow}");
    let fast = bbr(900 * MBIT);
    assert!((80 * MBIT..95 * MBIT).contains(&goodput(&fast)), "{}", goodput(&fast));
    let lost = retransmitted(&fast) * PACKET * 8 / 5;
    assert!(lost < 10 * MBIT, "{lost} b/s, where a window of the profile's rate would lose 800 Mb/s");
}

/// Later connections of a flow follow the profile from where it is, and the order of events does not matter.
#[test]
fn every_connection_follows_it_and_the_reference_agrees() {
    let steps = [(0, 80 * MBIT), (S, 8 * MBIT)];
    let list = [(0, 1000 * PAYLOAD), (S, 100 * PAYLOAD), (100 * MS, 100 * PAYLOAD)];
    let plan = plan(&[(following("constant", &steps), transfers(&list, false))], 5 * S);
    let tables = run(&plan);
    let (begun, ended) = (events(&tables, "transfer_start", 0), events(&tables, "transfer_end", 0));
    let took: Vec<u64> = begun.iter().zip(&ended).map(|(begun, ended)| ended.0 - begun.0).collect();
    let waits = RTT - FIRST * 150_000;
    for (took, expected) in took.iter().zip([1000 * 150_000 + waits, 100 * 1_500_000, 100 * 1_500_000]) {
        // The last packet of a hundred is not waited for.
        assert!(took.abs_diff(expected + 2 * RTT) < 3 * MS, "{took} ns instead of {expected} and two round trips");
    }
    assert_same(&tables, &run_with(&plan, Options { reference: true, ..Options::default() }), &[]).unwrap();
}

#[test]
fn a_profile_that_cannot_be_followed_is_refused() {
    for (tcp, word) in [
        (following("reno", &[(MS, MBIT)]), "begin with the flow"),
        (following("reno", &[(0, MBIT), (0, 2 * MBIT)]), "ascending"),
        (following("reno", &[(0, 0)]), "zero"),
        (Tcp { jump_start: true, ..following("reno", &[(0, MBIT)]) }, "first window"),
    ] {
        let problem = plan(&[(tcp, Source::Bulk)], S).validate().expect_err("refused").to_string();
        assert!(problem.contains("transport.profile") && problem.contains(word), "{problem}");
    }
}
