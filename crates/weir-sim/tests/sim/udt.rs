//! UDT over the simulator's links: its own control, rate profiles, transfers under loss (draft-gg-udt-03).

use weir_plan::{Loss, Plan, RateStep, Source, Transfer, Transport, Udt};
use weir_run::Tables;

use crate::common::{MS, S, add_wire_flow, delivered, droptail, run, wire};

const MBIT: u64 = 1_000_000;
const PACKET: u32 = 1500;
const PAYLOAD: u32 = PACKET - 44;

fn udt(profile: &[(u64, u64)], timer_ns: u64) -> Transport {
    Transport::Udt(Udt {
        payload_bytes: PAYLOAD,
        send_buffer_bytes: 8192 * u64::from(PAYLOAD),
        receive_buffer_bytes: 8192 * u64::from(PAYLOAD),
        timer_ns,
        profile: profile.iter().map(|&(at_ns, rate_bps)| RateStep { at_ns, rate_bps }).collect(),
    })
}

fn transfer(bytes: u64) -> Source {
    Source::Transfers { transfers: vec![Transfer { bytes, ..Transfer::default() }], keep_connection: false }
}

/// A path of 100 Mb/s with a queue of 100 packets, and a base round-trip time of 20 ms.
fn path(end_ns: u64) -> Plan {
    wire(100 * MBIT, 10 * MS, droptail(None, Some(100)), end_ns)
}

fn seconds(tables: &Tables, row: usize) -> f64 {
    let flows = &tables.flows;
    assert_ne!(flows.end_ns[row], u64::MAX, "it ended");
    (flows.end_ns[row] - flows.start_ns[row]) as f64 / S as f64
}

/// Alone, the control finds the capacity: the estimate by pairs, and an increase that it sets.
#[test]
fn alone_it_fills_the_path() {
    let mut plan = path(20 * S);
    add_wire_flow(&mut plan, 0, udt(&[], 0), Source::Bulk);
    let tables = run(&plan);
    let share = delivered(&tables, 0, 0, 20 * S) as f64 * 8.0 / (20.0 * 100e6) * f64::from(PACKET) / f64::from(PAYLOAD);
    println!("{share:.3} of the path");
    assert!((0.85..1.0).contains(&share), "{share}");
    assert!(tables.flows.retransmitted_packets[0] > 0, "it goes on until it loses");
}

#[test]
fn two_share_the_path() {
    let mut plan = path(60 * S);
    add_wire_flow(&mut plan, 0, udt(&[], 0), Source::Bulk);
    add_wire_flow(&mut plan, 5 * S, udt(&[], 0), Source::Bulk);
    let tables = run(&plan);
    let late = |flow: u32| {
        let goodput = &tables.goodput;
        let rows = (0..goodput.rows()).filter(|&i| goodput.flow[i] == flow && goodput.time_ns[i] > 30 * S);
        rows.map(|i| goodput.delivered_bytes[i]).sum::<u64>() as f64 * 8.0 / (30.0 * 100e6)
    };
    let (one, other) = (late(0), late(1));
    println!("{one:.3} and {other:.3} of the path");
    assert!(one + other > 0.8, "{one} and {other}");
    assert!((0.4..2.5).contains(&(one / other)), "{one} and {other}");
}

/// 16 packets take as long as 16 intervals of the profile, though two of them leave together.
#[test]
fn a_profile_sets_the_mean_rate() {
    let mut plan = path(20 * S);
    let steps = [(0, 20 * MBIT), (4 * S, 60 * MBIT)];
    add_wire_flow(&mut plan, 0, udt(&steps, 0), transfer(20_000 * u64::from(PAYLOAD)));
    let tables = run(&plan);
    // 240 Mbit: 80 in the first four seconds, the rest at 60 Mb/s; three round-trip times and up to 20 ms of acknowledgement.
    let expected = 4.0 + 160.0 / 60.0;
    let took = seconds(&tables, 0);
    println!("{took:.3} s for {expected:.3}");
    assert!((0.02..0.12).contains(&(took - expected)), "{took} s for {expected}");
    assert_eq!(tables.flows.lost_packets[0], 0);
}

#[test]
fn the_host_s_timer_makes_bursts() {
    let longest = |timer_ns: u64| {
        let mut plan = path(10 * S);
        plan.measure.links_ns = 10 * MS;
        plan.links[0].queue = droptail(None, Some(1000));
        add_wire_flow(&mut plan, 0, udt(&[(0, 40 * MBIT)], timer_ns), Source::Bulk);
        let tables = run(&plan);
        assert_eq!(tables.flows.lost_packets[0], 0);
        let links = &tables.links;
        let rows = (0..links.rows()).filter(|&i| links.link[i] == 0 && links.time_ns[i] > S);
        rows.map(|i| links.queue_max_bytes[i] / u64::from(PACKET)).max().unwrap_or(0)
    };
    let (exact, coarse) = (longest(0), longest(4 * MS));
    println!("{exact} and {coarse} packets wait");
    assert!(exact <= 2, "a pair");
    assert!((12..=15).contains(&coarse), "those of 4 ms, {coarse}");
}

/// Packets are lost in both directions; a transfer ends when all its data have arrived.
#[test]
fn transfers_are_complete_under_loss() {
    for profile in [&[][..], &[(0, 50 * MBIT)][..]] {
        let mut plan = path(60 * S);
        plan.links[0].loss = Some(Loss::Bernoulli { p: 0.02 });
        plan.links[1].loss = Some(Loss::Bernoulli { p: 0.02 });
        let bytes = 10_000_000;
        add_wire_flow(&mut plan, 0, udt(profile, 0), transfer(bytes));
        let tables = run(&plan);
        let took = seconds(&tables, 0);
        println!("{took:.2} s, {} sent again", tables.flows.retransmitted_packets[0]);
        assert_eq!(tables.flows.delivered_bytes[0], bytes);
        assert!(tables.flows.retransmitted_packets[0] >= tables.flows.lost_packets[0]);
    }
}

/// A loss costs the rate of a profile nothing but the packets that are sent again.
#[test]
fn a_profile_goes_on_after_losses() {
    let mut plan = path(20 * S);
    plan.links[0].loss = Some(Loss::Bernoulli { p: 0.05 });
    add_wire_flow(&mut plan, 0, udt(&[(0, 40 * MBIT)], 0), transfer(10_000 * u64::from(PAYLOAD)));
    let tables = run(&plan);
    let took = seconds(&tables, 0);
    let expected = 3.0 / 0.95;
    println!("{took:.2} s for {expected:.2}");
    assert!((0.0..0.6).contains(&(took - expected)), "{took} s for {expected}");
}
