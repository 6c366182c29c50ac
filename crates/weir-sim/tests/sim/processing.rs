//! The processing time of a receiving host, and its purpose.

use weir_plan::{Ack, Plan, Source, Tcp};
use weir_sim::trace::{Event, PacketKind};

use crate::common::{MS, S, add_flow, delivered, droptail, dumbbell, run, tcp, trace_of};

const MAX: u64 = 10_000;

fn with_processing(processing_ns: u64) -> Tcp {
    Tcp { processing_ns, ..tcp("reno") }
}

/// Every acknowledgement of a receiver that acknowledges each segment begins within the bound, spread over all of it.
#[test]
fn answers_take_up_to_the_time_given() {
    let mut plan = dumbbell(1, 100_000_000, 10_000_000, 10 * MS, droptail(None, Some(50)), S);
    let settings = Tcp { ack: Ack::Every, ..with_processing(MAX) };
    add_flow(&mut plan, 0, 0, settings, Source::Bulk);
    let trace = trace_of(&plan);
    let arrivals = trace.iter().filter(|r| r.event == Event::Received && r.kind == PacketKind::Data);
    let acks = trace.iter().filter(|r| r.event == Event::Sent && r.kind == PacketKind::Ack && !r.is_forward());
    let times: Vec<u64> = arrivals.zip(acks).map(|(arrival, ack)| ack.time_ns - arrival.time_ns).collect();
    assert!(times.len() > 500);
    assert!(times.iter().all(|&time| time < MAX), "{:?}", times.iter().max());
    let mean = times.iter().sum::<u64>() as f64 / times.len() as f64;
    // The mean of n draws from [0, b) has the standard deviation b / sqrt(12 n).
    let deviation = MAX as f64 / (12.0 * times.len() as f64).sqrt();
    assert!((mean - MAX as f64 / 2.0).abs() < 5.0 * deviation, "mean {mean} ns");
}

/// Four flows whose links are half as fast as the one they share.
fn in_step(processing_ns: u64, seed: u64) -> Plan {
    let mut plan = dumbbell(4, 100_000_000, 200_000_000, 20 * MS, droptail(Some(250_000), None), 60 * S);
    plan.seed = seed;
    for pair in 0..4 {
        add_flow(&mut plan, pair, u64::from(pair) * 2 * S, with_processing(processing_ns), Source::Bulk);
    }
    plan
}

fn jain(plan: &Plan) -> f64 {
    let tables = run(plan);
    let shares: Vec<f64> = (0..4).map(|flow| delivered(&tables, flow, 20 * S, 60 * S) as f64).collect();
    let (sum, squares): (f64, f64) = (shares.iter().sum(), shares.iter().map(|x| x * x).sum());
    sum * sum / (4.0 * squares)
}

/// Without it, whose packets arrive just after a departure finds room each time (Floyd and Jacobson 1992); with it, flows
/// alike share alike. Not always: two flows that fill their own links fill the shared one, too, and can shut the others out.
#[test]
fn flows_do_not_fall_into_step_with_a_queue() {
    let without = jain(&in_step(0, 1));
    assert!(without < 0.95, "Jain's index of flows in step {without}");
    let indices: Vec<f64> = (1..=8).map(|seed| jain(&in_step(MAX, seed))).collect();
    assert!(indices.iter().filter(|index| **index > 0.97).count() >= 7, "Jain's indices {indices:?}");
}
