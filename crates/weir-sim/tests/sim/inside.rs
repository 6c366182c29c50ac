//! A look inside a sender: probes of its congestion control, and the record of its acknowledgements.

use std::fs;

use proptest::prelude::*;
use weir_cc_build::Confinement;
use weir_plan::{Ack, AckRecord, Plan, Source};
use weir_sim::{Acks, Simulation, Tables};
use weir_units::Time;

use crate::common::{MS, S, add_flow, droptail, dumbbell, run, tcp, transfers};
use crate::random::{self, Menu, cases};

const RATE: u64 = 10_000_000;
const NULL: u64 = u64::MAX;

fn alone(cc: &str, end_ns: u64) -> Plan {
    let mut plan = dumbbell(1, 100_000_000, RATE, 40 * MS, droptail(Some(60_000), None), end_ns);
    add_flow(&mut plan, 0, 0, tcp(cc), Source::Bulk);
    plan
}

fn recorded(plan: &Plan, flows: Vec<u32>) -> Plan {
    let mut plan = plan.clone();
    plan.measure.acks = Some(AckRecord { flows, from_ns: 0, to_ns: NULL, max_rows: NULL });
    plan
}

fn probe(name: &str) -> [u8; 16] {
    let mut padded = [0; 16];
    padded[..name.len()].copy_from_slice(name.as_bytes());
    padded
}

/// The values of a probe of flow 0, by time.
fn values(tables: &Tables, name: &str) -> Vec<(u64, i64)> {
    let probes = &tables.probes;
    let rows = (0..probes.rows()).filter(|&i| probes.flow[i] == 0 && probes.probe[i] == probe(name));
    rows.map(|i| (probes.time_ns[i], probes.value[i])).collect()
}

#[test]
fn each_sample_has_the_probes_of_its_control() {
    let mut plan = alone("illinois", 20 * S);
    add_flow(&mut plan, 0, 0, tcp("reno"), Source::Bulk);
    let tables = run(&plan);
    let (alpha, beta) = (values(&tables, "alpha"), values(&tables, "beta"));
    let samples: Vec<u64> = (0..tables.samples.rows())
        .filter(|&i| tables.samples.flow[i] == 0)
        .map(|i| tables.samples.time_ns[i])
        .collect();
    let times = |of: &[(u64, i64)]| of.iter().map(|(time, _)| *time).collect::<Vec<_>>();
    // Nothing is shown before the connection is established, 40 ms after the start.
    assert_eq!(times(&alpha), samples.iter().copied().filter(|at| *at > 40 * MS).collect::<Vec<_>>());
    assert_eq!(times(&alpha), times(&beta));
    assert!(tables.probes.flow.iter().all(|flow| *flow == 0), "reno shows nothing");
    // The bounds of the algorithm, in 1/1024, and a queue that grows and shrinks between them.
    assert!(alpha.iter().all(|(_, a)| (307..=10240).contains(a)) && beta.iter().all(|(_, b)| (128..=512).contains(b)));
    assert!(alpha.iter().any(|(_, a)| *a > 5000) && alpha.iter().any(|(_, a)| *a < 1000));
}

#[test]
fn without_samples_nothing_is_kept() {
    let mut plan = alone("illinois", 2 * S);
    plan.measure.tcp_ns = 0;
    assert_eq!(run(&plan).probes.rows(), 0);
}

#[test]
fn a_new_connection_begins_with_no_value() {
    let mut plan = dumbbell(1, 100_000_000, RATE, 40 * MS, droptail(Some(60_000), None), 20 * S);
    add_flow(&mut plan, 0, 0, tcp("dctcp"), transfers(&[(0, 100_000), (5 * S, 100_000)], false));
    let times: Vec<u64> = values(&run(&plan), "alpha").iter().map(|(time, _)| *time).collect();
    let gap = times.windows(2).map(|pair| pair[1] - pair[0]).max().expect("values of two connections");
    assert!(gap > 5 * S, "no value while no connection is open: {gap} ns");
}

/// The error of a user's control with these statements in its `cong_avoid`.
fn refusal(statements: &str) -> String {
    let text = include_str!("../../../../examples/my_cc/my_cc.c");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("mine.c");
    #[allow(clippy::disallowed_methods, reason = "a test writes a source")]
    fs::write(&source, text.replace("(void)ack;", &format!("(void)ack; {statements}"))).expect("a folder of its own");
    weir_cc_build::permit_loading();
    let built = match weir_cc_build::build(&source, folder.path(), &Confinement::Off) {
        Ok(built) => built,
        Err(error) => return error.to_string(),
    };
    let mut simulation = Simulation::new(&alone(built.to_str().expect("UTF-8"), S)).expect("it can be simulated");
    match weir_cc::caught(|| simulation.advance(Time(S))) {
        Ok(_) => String::new(),
        Err(fault) => fault.to_string(),
    }
}

#[test]
fn limits_of_probes_have_errors() {
    let many: String = (1..=9).map(|i| format!("WEIR_PROBE(sk, \"p{i}\", {i});")).collect();
    assert_eq!(refusal(&many.replace("p9", "p1")), "", "eight names are allowed, each as often as one likes");
    let error = refusal(&many);
    assert!(
        error.contains("WEIR_PROBE of")
            && error.contains("one value too many, \"p9\"; a congestion control has at most 8"),
        "{error}"
    );
    assert_eq!(refusal("WEIR_PROBE(sk, \"twelve_chars\", 1);"), "");
    let error = refusal("WEIR_PROBE(sk, \"thirteen_char\", 1);");
    assert!(error.contains("a name has 1 to 12 characters") && error.contains("thirteen_char"), "{error}");
    assert!(refusal("WEIR_PROBE(sk, \"\", 1);").contains("a name has 1 to 12 characters"));
    assert!(refusal("WEIR_PROBE(sk, \"a b\", 1);").contains("a value called \"a b\""));
}

fn rows(acks: &Acks, kinds: &[u8]) -> Vec<usize> {
    (0..acks.rows()).filter(|&i| kinds.contains(&acks.kind[i])).collect()
}

#[test]
fn the_record_has_every_packet_and_every_acknowledgement() {
    let tables = run(&recorded(&alone("reno", 20 * S), vec![]));
    let (acks, flows) = (&tables.acks, &tables.flows);
    assert_eq!(rows(acks, &[1, 2]).len() as u64, flows.sent_packets[0]);
    assert_eq!(rows(acks, &[2]).len() as u64, flows.retransmitted_packets[0]);
    assert!(rows(acks, &[2]).len() > 3, "the queue overflows");
    assert!(acks.time_ns.is_sorted());
    // Original transmissions are numbered one after the other.
    let sent: Vec<u64> = rows(acks, &[1]).iter().map(|&i| acks.packet[i]).collect();
    assert_eq!(sent, (0..sent.len() as u64).collect::<Vec<_>>());
    // What acknowledgements delivered is what the receiver has, but for what is under way at the end.
    let delivered: u64 = acks.delivered_packets.iter().map(|packets| u64::from(*packets)).sum();
    let received = flows.delivered_bytes[0] / 1448;
    assert!(delivered <= received && received < delivered + 200, "{delivered} of {received} packets");
}

#[test]
fn round_trips_and_delivery_rates_are_those_of_the_path() {
    let mut plan = alone("reno", 20 * S);
    let weir_plan::Transport::Tcp(tcp) = &mut plan.flows[0].transport else { panic!("TCP") };
    tcp.ack = Ack::Every;
    let acks = run(&recorded(&plan, vec![0])).acks;
    let known = |column: &[u64]| column.iter().copied().filter(|value| *value != NULL).collect::<Vec<_>>();
    let (rtts, rates) = (known(&acks.rtt_ns), known(&acks.delivery_rate_bps));
    // 40 ms of propagation and the transmission times of a packet and its acknowledgement: 1.4 ms; 60 kB are 48 ms.
    let (least, most) = (*rtts.iter().min().expect("samples"), *rtts.iter().max().expect("samples"));
    assert!((41 * MS..42 * MS).contains(&least), "{least}");
    assert!((85 * MS..93 * MS).contains(&most), "{most}");
    // Payload at 10 Mb/s with 90 bytes of overhead a packet: 9.41 Mb/s, which no sample exceeds by more than a packet.
    let mut rates = rates;
    rates.sort_unstable();
    let median = rates[rates.len() / 2];
    assert!((9_300_000..9_450_000).contains(&median), "{median}");
    assert!(*rates.last().expect("samples") < 9_800_000, "{:?}", rates.last());
}

#[test]
fn acknowledgements_in_recovery_have_samples() {
    let acks = run(&recorded(&alone("reno", 20 * S), vec![])).acks;
    let recovery: Vec<usize> = rows(&acks, &[0]).into_iter().filter(|&i| acks.ca_state[i] == 3).collect();
    let delivering: Vec<usize> = recovery.into_iter().filter(|&i| acks.delivered_packets[i] > 0).collect();
    assert!(delivering.len() > 50, "the queue overflows: {}", delivering.len());
    for &i in &delivering {
        let (rtt, rate) = (acks.rtt_ns[i], acks.delivery_rate_bps[i]);
        // No sample is shorter than the path, 41.4 ms; the packets that a full queue holds take 48 ms more. A repaired hole
        // delivers no more than the path did meanwhile.
        assert!(rtt == NULL || (41 * MS..93 * MS).contains(&rtt), "row {i}: {rtt}");
        assert!((1_000_000..9_800_000).contains(&rate), "row {i}: {rate}");
    }
    let without = delivering.iter().filter(|&&i| acks.rtt_ns[i] == NULL).count();
    assert!(20 * without < delivering.len(), "{without} of {} have no round-trip time", delivering.len());
}

/// `tcp_limit_output_bytes` of Linux 6.12 is 1 MB with the memory of buffers: 457 packets. The path has 822.
#[test]
fn an_unpaced_flow_keeps_a_megabyte_in_its_host() {
    let mut plan = dumbbell(1, 10_000_000_000, 10_000_000_000, MS, droptail(None, Some(10_000)), 200 * MS);
    add_flow(&mut plan, 0, 0, tcp("reno"), Source::Bulk);
    let acks = run(&recorded(&plan, vec![])).acks;
    let most = *acks.in_flight.iter().max().expect("acknowledgements");
    assert!((1250..1320).contains(&most), "{most} packets in flight");
}

#[test]
fn the_record_is_bounded_by_flows_window_and_rows() {
    let mut plan = alone("reno", 4 * S);
    add_flow(&mut plan, 0, 0, tcp("cubic"), Source::Bulk);
    let all = run(&recorded(&plan, vec![])).acks;
    assert!(all.flow.contains(&0) && all.flow.contains(&1));
    assert!(run(&recorded(&plan, vec![1])).acks.flow.iter().all(|flow| *flow == 1));
    plan.measure.acks = Some(AckRecord { flows: vec![], from_ns: S, to_ns: 2 * S, max_rows: NULL });
    let part = run(&plan).acks;
    let within = |at: &&u64| (S..2 * S).contains(*at);
    assert_eq!(part.time_ns, all.time_ns.iter().filter(within).copied().collect::<Vec<_>>());
    plan.measure.acks = Some(AckRecord { flows: vec![], from_ns: 0, to_ns: NULL, max_rows: 100 });
    assert_eq!(run(&plan).acks.time_ns, all.time_ns[..100]);
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn to_record_changes_nothing_else(plan in random::plan(Menu::ALL)) {
        let (with, without) = (run(&recorded(&plan, vec![])), run(&plan));
        prop_assert_eq!(without.acks.rows(), 0);
        prop_assert_eq!(Tables { acks: Default::default(), ..with }, without);
    }
}
