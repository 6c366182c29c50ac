//! Sending hosts that take time for selective acknowledgements.

use weir_plan::{AckRecord, Plan, Source, Stack, Tcp};
use weir_sim::{Options, Tables};

use crate::common::{MS, S, add_flow, delivered, droptail, dumbbell, run, run_with, tcp};

fn old(sack_cost_ns: u64, backlog_packets: u32) -> Tcp {
    Tcp { stack: Stack::Linux24, sack_cost_ns, backlog_packets, ..tcp("scalable") }
}

/// One Scalable flow at 100 Mb/s and 100 ms: it loses many packets of windows of up to 1500.
fn plan(sack_cost_ns: u64, backlog_packets: u32) -> Plan {
    let mut plan = dumbbell(1, 1_000_000_000, 100_000_000, 100 * MS, droptail(Some(1_000_000), None), 20 * S);
    add_flow(&mut plan, 0, 0, old(sack_cost_ns, backlog_packets), Source::Bulk);
    plan
}

/// The longest time in which the flow sends nothing, in samples of 20 ms.
fn longest_silence(tables: &Tables) -> usize {
    let (mut longest, mut now) = (0, 0);
    for pair in tables.samples.sent_bytes.windows(2) {
        now = if pair[0] == pair[1] { now + 1 } else { 0 };
        longest = longest.max(now);
    }
    longest
}

#[test]
fn a_cost_of_a_nanosecond_changes_little_and_a_large_one_silences_the_sender() {
    let (free, cheap, dear) = (run(&plan(0, 0)), run(&plan(1, 300)), run(&plan(100_000, 300)));
    let got = |tables: &Tables| delivered(tables, 0, 5 * S, 20 * S) as f64;
    let silences = (longest_silence(&free), longest_silence(&cheap), longest_silence(&dear));
    assert!((got(&cheap) / got(&free) - 1.0).abs() < 0.05, "{} against {}", got(&cheap), got(&free));
    assert!(got(&dear) < 0.5 * got(&free), "{} against {}", got(&dear), got(&free));
    assert!(silences.2 > 2 * silences.0 && silences.2 > 2 * silences.1, "{silences:?}");
}

const NULL: u64 = u64::MAX;

/// The acknowledgements that the sender processed, and those that its receiver sent.
fn acknowledgements(plan: &Plan) -> (usize, u64) {
    let mut plan = plan.clone();
    plan.measure.acks = Some(AckRecord { flows: vec![0], from_ns: 0, to_ns: NULL, max_rows: NULL });
    plan.measure.links = vec![];
    let tables = run(&plan);
    let processed = tables.acks.kind.iter().filter(|kind| **kind == 0).count();
    let path = plan.flows[0].reverse_path[0];
    let sent = (0..tables.links.rows()).filter(|row| tables.links.link[*row] == path);
    (processed, sent.map(|row| tables.links.in_packets[row]).sum())
}

#[test]
fn a_full_backlog_drops_acknowledgements_and_an_endless_one_keeps_all() {
    let (processed, arrived) = acknowledgements(&plan(1000, 0));
    assert!(arrived > 10_000 && arrived - processed as u64 <= 1000, "{processed} of {arrived}; few are on their way");
    let (processed, arrived) = acknowledgements(&plan(1000, 10));
    assert!(arrived - processed as u64 > 1000, "{processed} of {arrived}");
}

#[test]
fn flows_of_a_host_share_its_time_and_those_of_other_hosts_do_not() {
    let second = |pair: u32| {
        let mut plan = dumbbell(2, 1_000_000_000, 100_000_000, 100 * MS, droptail(Some(1_000_000), None), 20 * S);
        add_flow(&mut plan, 0, 0, old(20_000, 300), Source::Bulk);
        add_flow(&mut plan, pair, 0, Tcp { initial_window: 2, ..old(1, 300) }, Source::Bulk);
        let tables = run(&plan);
        delivered(&tables, 1, 0, 20 * S)
    };
    let (together, apart) = (second(0), second(1));
    assert!((together as f64) < 0.8 * apart as f64, "{together} beside a busy flow, {apart} on a host of its own");
}

#[test]
fn the_fast_mode_does_what_the_reference_does() {
    let plan = plan(20_000, 30);
    let reference = run_with(&plan, Options { reference: true, ..Options::default() });
    assert!(run(&plan) == reference);
}
