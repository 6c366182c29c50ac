//! The stack treats a user's congestion control as a registered one, by the attributes in its source.

use std::{fs, path::PathBuf};

use weir_cc_build::Confinement;
use weir_plan::{Change, ChangeKind, Limit, Queue, Source, Stack};
use weir_sim::{Options, Tables};

use crate::common::{MS, S, add_flow, droptail, dumbbell, events, goodput, run_with, tcp};
use crate::determinism::assert_same;

const MBIT: u64 = 1_000_000;

/// A registered control under another name and without the operation `lacking`, built as a user's.
#[allow(clippy::disallowed_methods, reason = "a test reads a source of cc/")]
fn copy_of(name: &str, lacking: &str, folder: &tempfile::TempDir) -> PathBuf {
    let registered = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../cc/{name}/{name}.c"));
    let text = fs::read_to_string(registered).expect("the source of a registered control");
    let named = format!("\"{name}\"");
    assert_eq!(text.matches(&named).count(), 1, "{name} says its name once");
    let copy = folder.path().join("copy.c");
    fs::write(&copy, text.replace(&named, "\"copy\"").replace(lacking, "")).expect("a folder of the test's own");
    weir_cc_build::permit_loading();
    weir_cc_build::build(&copy, folder.path(), &Confinement::Off).expect("it compiles under another name")
}

fn tables(cc: &str, stack: Stack) -> Tables {
    let mut plan = dumbbell(1, 1000 * MBIT, 20 * MBIT, 40 * MS, droptail(Some(60_000), None), 20 * S);
    add_flow(&mut plan, 0, 0, weir_plan::Tcp { stack, ..tcp(cc) }, Source::Bulk);
    run_with(&plan, Options::default())
}

#[test]
fn a_copy_under_another_name_gives_the_same_tables() {
    for name in ["reno", "scalable"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let copy = copy_of(name, "no operation", &folder);
        for stack in [Stack::Linux, Stack::Linux26] {
            let registered = tables(name, stack);
            let reductions = events(&registered, "recovery", 0).len();
            assert!(reductions > 3, "{reductions} reductions of the window: too few to tell controls apart");
            assert_same(&registered, &tables(copy.to_str().expect("UTF-8"), stack), &[])
                .unwrap_or_else(|error| panic!("{name} with {stack:?}: {error}"));
        }
    }
}

#[test]
fn the_floor_of_rate_halving_is_the_control_s() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copy = copy_of("reno", "OP(min_cwnd, tcp_reno_min_cwnd)", &folder);
    let copy = copy.to_str().expect("UTF-8");
    assert_same(&tables("reno", Stack::Linux), &tables(copy, Stack::Linux), &[]).expect("it halves no rate");
    assert_same(&tables("reno", Stack::Linux26), &tables(copy, Stack::Linux26), &[])
        .expect_err("without the operation the window stops at the threshold");
}

/// A control that keeps a window of `window` packets while `in_ack_event` finds what `cong_avoid` finds afterwards, and
/// one packet otherwise.
const WITNESS: &str = r#"
#include "weir_cc.h"
#define OPTIONS(OPTION) OPTION(window, 20, 1, 1000, "packets")
WEIR_CC_OPTIONS(OPTIONS)
struct witness { u32 una; u32 delivered; u32 flags; };
static void witness_event(struct sock *sk, u32 flags)
{
	struct witness *ca = inet_csk_ca(sk);
	ca->una = tcp_sk(sk)->snd_una;
	ca->delivered = tcp_sk(sk)->delivered;
	ca->flags = flags;
}
static void witness_avoid(struct sock *sk, u32 ack, u32 acked)
{
	const struct witness *ca = inet_csk_ca(sk);
	bool is_told = ca->una == ack && ca->delivered == tcp_sk(sk)->delivered;
	bool is_plain = ca->flags == CA_ACK_WIN_UPDATE;
	(void)acked;
	tcp_sk(sk)->snd_cwnd = is_told && is_plain ? OPT(sk, window) : 1;
}
static u32 witness_ssthresh(struct sock *sk) { return tcp_sk(sk)->snd_cwnd; }
#define OPS(OP) OP(in_ack_event, witness_event) OP(cong_avoid, witness_avoid) \
	OP(ssthresh, witness_ssthresh) OP(undo_cwnd, tcp_reno_undo_cwnd)
WEIR_CC_ABOUT("Witness", 2026, "a test")
WEIR_CC_REGISTER(witness, "witness", 0, struct witness, OPS)
"#;

#[allow(clippy::disallowed_methods, reason = "a test writes a source")]
#[test]
fn in_ack_event_comes_after_the_acknowledgement_is_counted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("witness.c");
    fs::write(&source, WITNESS).expect("a folder of the test's own");
    weir_cc_build::permit_loading();
    let built = weir_cc_build::build(&source, folder.path(), &Confinement::Off).expect("it compiles");
    let tables = tables(built.to_str().expect("UTF-8"), Stack::Linux);
    // 20 packets of 1448 bytes each 40 ms and their transmission; one packet would be 36 kB/s.
    let rate = goodput(&tables, 0, 5 * S, 20 * S) / 8.0;
    assert!(rate > 500_000.0, "{rate} bytes a second");
}

/// One flow for 30 s on 20 Mb/s and 40 ms, and a queue of 800 ms.
fn deep(cc: &str, loss: f64) -> Tables {
    let mut plan = dumbbell(1, 1000 * MBIT, 20 * MBIT, 40 * MS, droptail(Some(2_000_000), None), 30 * S);
    plan.links[0].loss = (loss > 0.0).then_some(weir_plan::Loss::Bernoulli { p: loss });
    add_flow(&mut plan, 0, 0, tcp(cc), Source::Bulk);
    run_with(&plan, Options::default())
}

/// The median of the smoothed round-trip times after 5 s, ms.
fn median_rtt_ms(tables: &Tables) -> u64 {
    let samples = &tables.samples;
    let late = (0..samples.rows()).filter(|&i| samples.time_ns[i] > 5 * S);
    let mut rtts: Vec<u64> = late.map(|i| samples.srtt_ns[i] / MS).collect();
    rtts.sort_unstable();
    rtts[rtts.len() / 2]
}

#[test]
fn bbr_fills_the_path_and_not_the_queue() {
    let (bbr, reno) = (deep("bbr", 0.0), deep("reno", 0.0));
    assert!(goodput(&bbr, 0, 5 * S, 30 * S) > 18.2e6, "of 19 Mb/s: {}", goodput(&bbr, 0, 5 * S, 30 * S));
    assert!((40..60).contains(&median_rtt_ms(&bbr)), "{} ms", median_rtt_ms(&bbr));
    assert!(median_rtt_ms(&reno) > 150, "{} ms with a queue that is full", median_rtt_ms(&reno));
}

#[test]
fn losses_do_not_reduce_bbr() {
    let rate = |cc| goodput(&deep(cc, 0.02), 0, 5 * S, 30 * S);
    assert!(rate("bbr") > 17e6, "{}", rate("bbr"));
    assert!(rate("reno") < 6e6, "{}", rate("reno"));
}

/// Two flows before a queue that marks between 20 and 40 packets, by its present length.
fn marked(cc: &str) -> Tables {
    let curve = weir_plan::RedCurve { dscp_from: 0, dscp_to: 63, min_bytes: 30_000, max_bytes: 60_000, max_p: 1.0 };
    let queue = weir_plan::Queue::Red(weir_plan::RedQueue {
        limit: weir_plan::Limit { bytes: Some(1_000_000), packets: None },
        curves: vec![curve],
        weight: 1.0,
        gentle: false,
        mark: weir_plan::Mark::Ecn,
    });
    let mut plan = dumbbell(2, 1000 * MBIT, 100 * MBIT, 4 * MS, queue, 10 * S);
    for pair in 0..2 {
        add_flow(&mut plan, pair, 0, weir_plan::Tcp { ecn: true, ..tcp(cc) }, Source::Bulk);
    }
    run_with(&plan, Options::default())
}

#[test]
fn dctcp_keeps_a_short_queue_and_the_path_full() {
    let tables = marked("dctcp");
    let rates = [0, 1].map(|flow| goodput(&tables, flow, 2 * S, 10 * S));
    assert!(rates[0] + rates[1] > 92e6, "{rates:?}");
    assert!(rates[0] / rates[1] > 0.7 && rates[1] / rates[0] > 0.7, "{rates:?}");
    // 30 packets of 1500 bytes are 3.6 ms at 100 Mb/s. Each mark takes little, so that the window hardly swings.
    let swing = |tables: &Tables| {
        let samples = &tables.samples;
        let late = |i: &usize| samples.time_ns[*i] > 2 * S && samples.flow[*i] == 0;
        let windows: Vec<u32> = (0..samples.rows()).filter(late).map(|i| samples.cwnd[i]).collect();
        let (low, high) = (windows.iter().min().expect("samples"), windows.iter().max().expect("samples"));
        f64::from(*low) / f64::from(*high)
    };
    let (dctcp, reno) = (swing(&tables), swing(&marked("reno")));
    assert!(dctcp > reno, "the smallest window is {dctcp} of the largest, Reno's {reno}");
}

/// DualPI2 with the values of RFC 9332.
fn dualpi2() -> Queue {
    Queue::Dualpi2(weir_plan::DualPi2Queue {
        limit: Limit { bytes: None, packets: Some(10_000) },
        target_ns: 15 * MS,
        update_ns: 15 * MS,
        alpha: 0.15,
        beta: 3.0,
        coupling: 2.0,
        threshold_ns: 800_000,
        range_ns: 400_000,
        spared_packets: 1,
        classic_ppm: 100_000,
        shift_ns: None,
        any_ect: false,
    })
}

/// RFC 9332: about the same rate for Prague, whose packets hardly wait and are marked, and CUBIC, whose packets wait for
/// some 15 ms and are dropped.
#[test]
fn prague_and_cubic_share_coupled_queues() {
    let mut plan = dumbbell(2, 1000 * MBIT, 40 * MBIT, 20 * MS, dualpi2(), 30 * S);
    let prague = add_flow(&mut plan, 0, 0, weir_plan::Tcp { ecn: true, ..tcp("prague") }, Source::Bulk);
    let cubic = add_flow(&mut plan, 1, 0, tcp("cubic"), Source::Bulk);
    plan.measure.links = vec![0];
    let tables = run_with(&plan, Options::default());
    let rates = [prague, cubic].map(|flow| goodput(&tables, flow as u32, 10 * S, 30 * S));
    assert!(rates[0] + rates[1] > 36e6, "{rates:?}");
    assert!((0.4..2.5).contains(&(rates[0] / rates[1])), "{rates:?}");
    let classes = &tables.classes;
    let late =
        |class: u32| (0..classes.rows()).filter(move |&i| classes.class[i] == class && classes.time_ns[i] > 10 * S);
    let sum = |class: u32, of: &[u64]| late(class).map(|i| of[i]).sum::<u64>();
    let delay_ms = |class: u32| {
        let waited = |i: usize| classes.queue_delay_ns[i] as f64 * classes.out_packets[i] as f64;
        let rows = late(class).filter(|&i| classes.out_packets[i] > 0);
        rows.map(waited).sum::<f64>() / sum(class, &classes.out_packets) as f64 / 1e6
    };
    assert!(delay_ms(0) < 1.0, "{} ms", delay_ms(0));
    assert!((8.0..25.0).contains(&delay_ms(1)), "{} ms", delay_ms(1));
    assert_eq!((sum(0, &classes.drop_packets), sum(1, &classes.mark_packets)), (0, 0));
    assert!(sum(0, &classes.mark_packets) > 100 && sum(1, &classes.drop_packets) > 0);
}

/// A pacer that gives exactly a window a round trip keeps the last packet back: the window is never full, and the rate stays
/// where marks or losses have left it.
#[test]
fn prague_takes_what_a_link_has_again_after_it_had_less() {
    let mut plan = dumbbell(1, 1000 * MBIT, 16 * MBIT, 50 * MS, dualpi2(), 60 * S);
    let flow = add_flow(&mut plan, 0, 0, weir_plan::Tcp { ecn: true, ..tcp("prague") }, Source::Bulk);
    for (at, rate_bps) in [(15, 4 * MBIT), (25, 16 * MBIT)] {
        plan.changes.push(Change { at_ns: at * S, link: 0, change: ChangeKind::Rate { rate_bps } });
    }
    let tables = run_with(&plan, Options::default());
    let rate = goodput(&tables, flow as u32, 40 * S, 60 * S);
    assert!(rate > 0.85 * 16e6, "{rate}");
}

#[test]
fn bbr3_fills_the_path_and_not_the_queue() {
    let tables = deep("bbr3", 0.0);
    assert!(goodput(&tables, 0, 5 * S, 30 * S) > 18e6, "of 19 Mb/s: {}", goodput(&tables, 0, 5 * S, 30 * S));
    assert!((40..60).contains(&median_rtt_ms(&tables)), "{} ms", median_rtt_ms(&tables));
}

#[test]
fn bbr3_tolerates_losses_below_its_threshold_only() {
    let rate = |cc, loss| goodput(&deep(cc, loss), 0, 5 * S, 30 * S);
    assert!(rate("bbr3", 0.005) > 15e6, "{}", rate("bbr3", 0.005));
    let (many, of_the_first) = (rate("bbr3", 0.1), rate("bbr", 0.1));
    assert!(many < 0.7 * of_the_first, "{many} of version 3, {of_the_first} of version 1, which ignores losses");
}

/// The goodput of a flow of `cc` and of a Reno flow that shares 20 Mb/s and a queue of 200 ms with it, b/s.
fn beside_reno(cc: &str) -> [f64; 2] {
    let mut plan = dumbbell(2, 1000 * MBIT, 20 * MBIT, 40 * MS, droptail(Some(500_000), None), 60 * S);
    add_flow(&mut plan, 0, 0, tcp(cc), Source::Bulk);
    add_flow(&mut plan, 1, 5 * S, tcp("reno"), Source::Bulk);
    let tables = run_with(&plan, Options::default());
    [0, 1].map(|flow| goodput(&tables, flow, 20 * S, 60 * S))
}

#[test]
fn background_transport_gives_way_to_reno_and_takes_what_is_left() {
    for cc in ["lp", "ledbatpp"] {
        let [background, reno] = beside_reno(cc);
        assert!(reno > 15e6 && background < 4e6, "{cc}: {background} beside {reno}");
        let alone = goodput(&deep(cc, 0.0), 0, 5 * S, 30 * S);
        assert!(alone > 12e6, "{cc} alone: {alone}");
    }
}

#[test]
fn delay_gradients_and_nv_keep_a_short_queue() {
    for cc in ["cdg", "nv"] {
        let tables = deep(cc, 0.0);
        assert!(goodput(&tables, 0, 5 * S, 30 * S) > 14e6, "{cc}: {}", goodput(&tables, 0, 5 * S, 30 * S));
        assert!(median_rtt_ms(&tables) < 100, "{cc}: {} ms", median_rtt_ms(&tables));
    }
}

/// The largest window, the retransmissions and the goodput after a second of a flow alone on 100 Mb/s and 50 ms, whose
/// queue holds six times the bandwidth-delay product; 417 packets fill the path.
fn slow_start(cc: &str, hystart: i64) -> (u32, u64, f64) {
    let mut plan = dumbbell(1, 1000 * MBIT, 100 * MBIT, 50 * MS, droptail(Some(3_750_000), None), 2 * S);
    let mut settings = tcp(cc);
    settings.cc_options.insert("hystart".into(), hystart);
    add_flow(&mut plan, 0, 0, settings, Source::Bulk);
    let tables = run_with(&plan, Options::default());
    let most = tables.samples.cwnd.iter().copied().max().unwrap_or(0);
    let lost = tables.flows.retransmitted_packets.iter().sum();
    (most, lost, goodput(&tables, 0, S, 2 * S))
}

#[test]
fn search_leaves_slow_start_two_round_trips_after_the_path_is_full() {
    for cc in ["reno", "cubic"] {
        let (_, lost, _) = slow_start(cc, 0);
        let (most, lost_with_search, goodput) = slow_start(cc, 3);
        assert!(lost > 200, "{cc} without it: {lost} retransmissions");
        assert_eq!(lost_with_search, 0, "{cc} with it, window {most}");
        assert!((417..7 * 417).contains(&most), "{cc} left at {most}");
        assert!(goodput > 90e6, "{cc}: {goodput}");
    }
}
