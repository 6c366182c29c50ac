//! Results kept as text: any change of behaviour shows as a difference of lines.
//!
//! `WEIR_BLESS=1 cargo test -p weir-sim --test sim golden` rewrites them; they are never edited by hand.

use std::fmt::Write as _;
use std::path::PathBuf;

use weir_plan::{Loss, Source, Transport};
use weir_sim::{EVENT_KINDS, Tables};

use crate::common::{MS, S, add_flow, add_wire_flow, droptail, dumbbell, goodput, run, tcp, wire};

// A test reads its goldens and one variable; the simulator does not.
#[allow(clippy::disallowed_methods)]
fn check(name: &str, got: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var("WEIR_BLESS").is_ok_and(|value| value == "1") {
        std::fs::write(&path, got).expect("the golden can be written");
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let differ = got.lines().zip(kept.lines()).position(|(got, kept)| got != kept);
    let line = differ.unwrap_or(got.lines().count().min(kept.lines().count()));
    assert!(
        got == kept,
        "{name} line {}: kept\n  {}\nbut got\n  {}\nIf the new behaviour is right: WEIR_BLESS=1 cargo test -p weir-sim --test sim golden",
        line + 1,
        kept.lines().nth(line).unwrap_or("(end)"),
        got.lines().nth(line).unwrap_or("(end)"),
    );
}

fn names() -> Vec<&'static str> {
    weir_cc::list().iter().map(weir_cc::Algorithm::name).collect()
}

/// Goodput of one flow on 50 Mb/s and 40 ms by loss rate and size of the queue (the product of rate and round trip is 163
/// packets), and of two flows that share it.
#[test]
fn goodput_by_loss_and_buffer() {
    let losses = [0.0, 1e-4, 1e-3, 1e-2];
    let queues = [5u64, 20, 80, 160, 640];
    let measure = |cc: &str, flows: u32, p: f64, packets: u64| {
        let mut plan = dumbbell(flows, S, 50_000_000, 40 * MS, droptail(None, Some(packets)), 30 * S);
        plan.measure.tcp_ns = 0;
        plan.links[0].loss = (p > 0.0).then_some(Loss::Bernoulli { p });
        for i in 0..flows {
            add_flow(&mut plan, i, u64::from(i) * S, tcp(cc), Source::Bulk);
        }
        let tables = run(&plan);
        (0..flows).map(|flow| goodput(&tables, flow, 5 * S, 30 * S)).sum::<f64>() / 1e6
    };
    for cc in names() {
        let mut text = format!("{cc}: goodput in Mbit/s, 50 Mbit/s and 40 ms, by loss rate and packets of queue\n");
        for flows in [1, 2] {
            let _ = write!(text, "\n{flows} flow{}\n   loss", if flows > 1 { "s" } else { "" });
            for packets in queues {
                let _ = write!(text, "{packets:>8}");
            }
            for p in losses {
                let _ = write!(text, "\n{p:>7}");
                for packets in queues {
                    let _ = write!(text, "{:>8.2}", measure(cc, flows, p, packets));
                }
            }
            text.push('\n');
        }
        check(&format!("goodput-{cc}.txt"), &text);
    }
}

/// The window of one flow on a path of 50 ms that is never full: losses at packets 400, 20000 and 20010, and 60000.
#[test]
fn windows_with_scripted_losses() {
    for cc in names() {
        let mut plan = wire(10 * S, 25 * MS, droptail(None, Some(1 << 20)), 12 * S);
        plan.links[0].loss = Some(Loss::List { packets: vec![400, 20_000, 20_010, 60_000] });
        plan.measure.tcp_ns = 100 * MS;
        add_wire_flow(&mut plan, 0, Transport::Tcp(tcp(cc)), Source::Bulk);
        check(&format!("window-{cc}.txt"), &windows(&run(&plan)));
    }
}

fn windows(tables: &Tables) -> String {
    const STATES: [&str; 5] = ["open", "disorder", "cwr", "recovery", "loss"];
    let samples = &tables.samples;
    let mut lines: Vec<(u64, String)> = Vec::new();
    for i in 0..samples.rows() {
        let ssthresh = match samples.ssthresh[i] {
            u32::MAX => "-".into(),
            ssthresh => ssthresh.to_string(),
        };
        let state = STATES[usize::from(samples.ca_state[i])];
        lines.push((samples.time_ns[i], format!("{:>7} {ssthresh:>7} {state}", samples.cwnd[i])));
    }
    let events = &tables.events;
    for i in 0..events.rows() {
        let kind = EVENT_KINDS[usize::from(events.kind[i])];
        lines.push((events.time_ns[i], format!("{kind} {}", events.value[i])));
    }
    // Stable: at one instant, the sample before the event.
    lines.sort_by_key(|(time_ns, _)| *time_ns);
    let mut text = String::from("   time_s    cwnd ssthresh state\n");
    for (time_ns, line) in lines {
        let _ = writeln!(text, "{:>9.6} {line}", time_ns as f64 / S as f64);
    }
    text
}
