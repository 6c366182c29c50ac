//! A sending host that takes time for selective acknowledgements.

use weir_plan::{Plan, Source, Stack, Tcp};
use weir_sim::Tables;

use crate::common::{MS, S, add_flow, delivered, droptail, dumbbell, run, tcp};

/// One Scalable flow that loses many packets of a window of 1000, and takes so long for each segment of the walk.
fn plan(sack_cost_ns: u64, backlog_packets: u32) -> Plan {
    let mut plan = dumbbell(1, 1_000_000_000, 100_000_000, 100 * MS, droptail(Some(1_000_000), None), 20 * S);
    let tcp = Tcp { stack: Stack::Linux24, sack_cost_ns, backlog_packets, ..tcp("scalable") };
    add_flow(&mut plan, 0, 0, tcp, Source::Bulk);
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
fn a_cost_of_a_nanosecond_changes_little_and_one_of_many_silences_the_sender() {
    let (free, cheap, dear) = (run(&plan(0, 0)), run(&plan(1, 300)), run(&plan(20_000, 300)));
    let got = |tables: &Tables| delivered(tables, 0, 5 * S, 20 * S) as f64;
    assert!((got(&cheap) / got(&free) - 1.0).abs() < 0.05, "{} against {}", got(&cheap), got(&free));
    // 2000 segments of a window and queue at 20 us are 40 ms for a block.
    assert!(got(&dear) < 0.9 * got(&free), "{} against {}", got(&dear), got(&free));
    assert!(longest_silence(&free) <= 6, "without cost it is silent for a round trip at most");
    assert!(longest_silence(&dear) >= 10, "a stalled sender is silent for longer than a round trip");
}

#[test]
fn a_full_backlog_drops_acknowledgements_that_an_endless_one_keeps() {
    let kept = run(&plan(20_000, 0));
    let dropped = run(&plan(20_000, 10));
    let sent = |tables: &Tables| tables.flows.sent_packets.iter().sum::<u64>();
    assert_ne!(sent(&kept), sent(&dropped));
}
