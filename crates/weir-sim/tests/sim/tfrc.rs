//! TFRC over the simulator's links: the throughput equation, slow start, fairness beside TCP, smoothness (RFC 5348).

use weir_plan::{Loss, Plan, Source, Tfrc, Transport};
use weir_run::Tables;

use crate::common::{MS, S, add_flow, add_wire_flow, delivered, droptail, dumbbell, run, tcp, wire};

const MBIT: u64 = 1_000_000;
const PACKET: u32 = 1500;
const PAYLOAD: u32 = PACKET - 28;

fn tfrc() -> Transport {
    Transport::Tfrc(Tfrc { payload_bytes: PAYLOAD })
}

/// Bytes that a flow delivered in each interval of `measure.goodput` after `from_ns`.
fn intervals(tables: &Tables, flow: u32, from_ns: u64) -> Vec<f64> {
    let goodput = &tables.goodput;
    let of_flow = |&i: &usize| goodput.flow[i] == flow && goodput.time_ns[i] > from_ns;
    (0..goodput.rows()).filter(of_flow).map(|i| goodput.delivered_bytes[i] as f64).collect()
}

/// Mean and coefficient of variation.
fn moments(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
    (mean, variance.sqrt() / mean)
}

/// The values that a flow shows under a name.
fn probes(tables: &Tables, name: &str) -> Vec<(u64, i64)> {
    let probes = &tables.probes;
    let named = |&i: &usize| probes.probe[i].starts_with(name.as_bytes());
    (0..probes.rows()).filter(named).map(|i| (probes.time_ns[i], probes.value[i])).collect()
}

/// A fast path of 50 ms with random losses in the direction of data.
fn lossy(loss: f64) -> Plan {
    let mut plan = wire(1000 * MBIT, 25 * MS, droptail(None, Some(1 << 20)), 400 * S);
    plan.links[0].loss = Some(Loss::Bernoulli { p: loss });
    add_wire_flow(&mut plan, 0, tfrc(), Source::Bulk);
    plan
}

/// Section 3.1 at the loss event rate that the receiver reports, over six minutes.
#[test]
fn random_losses_give_the_rate_of_the_equation() {
    for loss in [0.0004, 0.004, 0.02] {
        let tables = run(&lossy(loss));
        let (rate, _) = moments(&intervals(&tables, 0, 40 * S));
        let rate = rate / 0.5;
        let equation = |p: f64| weir_tfrc::throughput(f64::from(PAYLOAD), weir_units::Dur(50 * MS), p);
        let reported: Vec<f64> = probes(&tables, "loss_event_ppm")
            .into_iter()
            .filter(|(at, _)| *at > 40 * S)
            .map(|(_, ppm)| equation(ppm as f64 / 1e6))
            .collect();
        let (expected, _) = moments(&reported);
        println!("loss {loss}: {rate:.0} B/s, reports {expected:.0}, one event a loss {:.0}", equation(loss));
        assert!((rate / expected - 1.0).abs() < 0.03, "at a loss of {loss}: {rate} instead of {expected}");
        // Losses of one round-trip time are one event, so that there are fewer events than losses; and the mean of the
        // equation over a varying estimate is above that of its mean.
        assert!((0.8..1.6).contains(&(rate / equation(loss))), "at a loss of {loss}: {rate}");
    }
}

/// Section 4.2: W_init = 4380 bytes in the first round-trip time. A report covers the round-trip time before it, so the limit
/// of twice the receive rate follows a doubling one round-trip time later: the rate doubles in two.
#[test]
fn slow_start_doubles_in_two_round_trip_times() {
    let mut plan = wire(1000 * MBIT, 50 * MS, droptail(None, Some(1 << 20)), 2 * S);
    plan.measure.tcp_ns = 10 * MS;
    add_wire_flow(&mut plan, 0, tfrc(), Source::Bulk);
    let tables = run(&plan);
    let rate = |at_ms: u64| {
        let (_, bps) = probes(&tables, "allowed_bps").into_iter().find(|(at, _)| *at == at_ms * MS).expect("a sample");
        bps as f64 / 8.0 * 0.1
    };
    assert!((rate(150) / 4380.0 - 1.0).abs() < 0.02, "{} bytes a round-trip time", rate(150));
    let growth =
        |steps: u64| -> Vec<f64> { (4..14).map(|k| rate(100 * (k + steps) - 50) / rate(100 * k - 50)).collect() };
    assert!(growth(1).iter().all(|g| *g <= 2.05), "{:?}", growth(1));
    assert!(growth(2).iter().all(|g| (1.9..2.5).contains(g)), "{:?}", growth(2));
}

/// Four flows over TFRC beside four over Reno: each kind gets its share within a factor of two (S. Floyd, M. Handley,
/// J. Padhye, J. Widmer, "Equation-based congestion control for unicast applications", 2000, section 4.1), and TFRC's
/// rate varies less.
#[test]
fn beside_reno_it_is_fair_and_smoother() {
    let mut plan = dumbbell(8, 1000 * MBIT, 20 * MBIT, 60 * MS, droptail(None, Some(100)), 200 * S);
    for pair in 0..8 {
        let flow = add_flow(&mut plan, pair, u64::from(pair) * 300 * MS, tcp("reno"), Source::Bulk);
        if pair < 4 {
            plan.flows[flow].transport = tfrc();
        }
    }
    let tables = run(&plan);
    let of = |flows: std::ops::Range<u32>| -> (f64, f64) {
        let all: Vec<_> = flows.map(|flow| moments(&intervals(&tables, flow, 40 * S))).collect();
        let count = all.len() as f64;
        (all.iter().map(|m| m.0).sum::<f64>() / count, all.iter().map(|m| m.1).sum::<f64>() / count)
    };
    let ((tfrc_rate, tfrc_cov), (reno_rate, reno_cov)) = (of(0..4), of(4..8));
    println!(
        "tfrc {:.3} Mb/s, CoV {tfrc_cov:.3}; reno {:.3} Mb/s, CoV {reno_cov:.3}",
        tfrc_rate * 16e-6,
        reno_rate * 16e-6
    );
    assert!((0.5..2.0).contains(&(tfrc_rate / reno_rate)), "{tfrc_rate} and {reno_rate}");
    assert!(tfrc_cov < 0.8 * reno_cov, "{tfrc_cov} and {reno_cov}");
}

/// Section 4.4: without feedback the rate falls to a packet in 64 seconds.
#[test]
fn a_path_that_breaks_stops_it() {
    let mut plan = lossy(0.001);
    plan.end_ns = 60 * S;
    let change = weir_plan::ChangeKind::Loss { loss: Some(Loss::Bernoulli { p: 1.0 }) };
    plan.changes.push(weir_plan::Change { at_ns: 20 * S, link: 1, change });
    let tables = run(&plan);
    let last = probes(&tables, "allowed_bps").last().expect("a sample").1;
    let before = probes(&tables, "allowed_bps").into_iter().find(|(at, _)| *at == 20 * S).expect("a sample").1;
    assert!(before > 5_000_000 && last < before / 1000, "{before} and {last} bit/s");
}

/// A flow that stops sends nothing after its end, and its row says so.
#[test]
fn it_ends_at_its_stop() {
    let mut plan = lossy(0.001);
    (plan.end_ns, plan.flows[0].stop_ns) = (10 * S, Some(5 * S));
    let tables = run(&plan);
    assert_eq!(tables.flows.rows(), 1);
    assert!((4900 * MS..5 * S).contains(&tables.flows.end_ns[0]), "{}", tables.flows.end_ns[0]);
    assert!(intervals(&tables, 0, 5500 * MS).iter().all(|bytes| *bytes == 0.0));
    let arrived = tables.flows.sent_packets[0] - tables.flows.lost_packets[0];
    assert_eq!(tables.flows.delivered_bytes[0], arrived * u64::from(PAYLOAD));
    assert!(delivered(&tables, 0, 0, 5 * S) > 1_000_000);
}
