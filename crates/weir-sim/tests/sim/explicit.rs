//! Explicit feedback: routers tell senders what to send.

use weir_plan::{Limit, Loss, Queue, RcpQueue, Source, XcpQueue};
use weir_sim::{Options, Simulation, Tables};

use crate::common::{MS, S, add_flow, close, droptail, dumbbell, goodput, run, run_with, tcp, trace_of, transfers};
use crate::determinism::assert_same;

const MBIT: u64 = 1_000_000;

/// XCP with the paper's parameters.
fn xcp() -> Queue {
    let limit = Limit { bytes: None, packets: Some(10_000) };
    Queue::Xcp(XcpQueue { limit, alpha: 0.4, beta: 0.226, gamma: 0.1 })
}

/// RCP with the paper's target of 95 % of the capacity.
fn rcp() -> Queue {
    let limit = Limit { bytes: None, packets: Some(10_000) };
    Queue::Rcp(RcpQueue { limit, alpha: 0.4, beta: 0.4, eta: 0.95, update_ns: 10 * MS, initial: 0.05 })
}

/// Payload of full segments at a rate of the wire.
fn payload(rate_bps: u64) -> f64 {
    rate_bps as f64 * 1448.0 / (1448 + 52 + 38) as f64
}

/// Drops at the bottleneck, and the mean of its queue in bytes, from `from_ns` on.
fn bottleneck(tables: &Tables, from_ns: u64) -> (u64, f64) {
    let links = &tables.links;
    let late: Vec<usize> =
        (0..links.rows()).filter(|&row| links.link[row] == 0 && links.time_ns[row] > from_ns).collect();
    let mean = late.iter().map(|&row| links.queue_bytes[row] as f64).sum::<f64>() / late.len() as f64;
    (late.iter().map(|&row| links.drop_packets[row]).sum(), mean)
}

/// The paper's section 5.2 finds a busy link, a short queue and no loss at 1.5 Mb/s to 4 Gb/s with 50 flows, whose RTT is
/// 80 ms.
#[test]
fn the_link_is_busy_the_queue_short_and_nothing_is_lost() {
    for (rate, flows) in [(100 * MBIT, 10), (100 * MBIT, 50), (1000 * MBIT, 10)] {
        let mut plan = dumbbell(flows, 10 * rate, rate, 80 * MS, xcp(), 6 * S);
        plan.measure.links = vec![0];
        for pair in 0..flows {
            add_flow(&mut plan, pair, u64::from(pair) * MS, tcp("xcp"), Source::Bulk);
        }
        let tables = run(&plan);
        let rates: Vec<f64> = (0..flows).map(|flow| goodput(&tables, flow, 3 * S, 6 * S)).collect();
        let sum: f64 = rates.iter().sum();
        assert!(sum > 0.98 * payload(rate), "{sum} of {rate}");
        let jain = sum * sum / (f64::from(flows) * rates.iter().map(|rate| rate * rate).sum::<f64>());
        assert!(jain > 0.99, "{rate}, {flows} flows: {rates:?}");
        let (drops, queue) = bottleneck(&tables, 0);
        assert_eq!(drops, 0, "{rate}, {flows} flows");
        let (_, late) = bottleneck(&tables, 3 * S);
        let bdp = rate as f64 * 0.08 / 8.0;
        assert!(late < 0.1 * bdp, "{rate}, {flows} flows: {late} bytes wait, {queue} on the whole");
    }
}

/// The paper's figure 7: a flow that begins while others have the whole link gets its share in a few round trips; they
/// give it up alike. Shuffling moves a tenth of the traffic in a round trip: after 25 of them, 7 % of a difference is left.
#[test]
fn a_new_flow_gets_its_share() {
    let mut plan = dumbbell(4, 1000 * MBIT, 100 * MBIT, 40 * MS, xcp(), 8 * S);
    for pair in 0..4 {
        add_flow(&mut plan, pair, if pair == 3 { 4 * S } else { 0 }, tcp("xcp"), Source::Bulk);
    }
    let tables = run(&plan);
    for flow in 0..3 {
        close("before", goodput(&tables, flow, 3 * S, 4 * S), payload(100 * MBIT) / 3.0, 0.05);
    }
    for flow in 0..4 {
        close("after", goodput(&tables, flow, 5 * S, 8 * S), payload(100 * MBIT) / 4.0, 0.1);
    }
}

/// Flows with different round-trip times share alike: the paper's figure 9.
#[test]
fn a_long_path_is_no_disadvantage() {
    let mut plan = dumbbell(2, 1000 * MBIT, 100 * MBIT, 40 * MS, xcp(), 12 * S);
    for pair in 0..2 {
        add_flow(&mut plan, pair, 0, tcp("xcp"), Source::Bulk);
    }
    let far = plan.flows[1].path[0] as usize;
    plan.links[far].delay = weir_plan::Delay::Fixed { delay_ns: 120 * MS };
    let tables = run(&plan);
    close("shares", goodput(&tables, 0, 6 * S, 12 * S) / goodput(&tables, 1, 6 * S, 12 * S), 1.0, 0.1);
}

/// What is not told what to send takes what it gets, and XCP the rest: here a loss-based flow with a window of 1/4 of the
/// bandwidth-delay product.
#[test]
fn other_traffic_counts() {
    let mut plan = dumbbell(2, 1000 * MBIT, 100 * MBIT, 40 * MS, xcp(), 8 * S);
    add_flow(&mut plan, 0, 0, tcp("xcp"), Source::Bulk);
    let small = weir_plan::Tcp { receive_buffer_bytes: 125_000, send_buffer_bytes: 125_000, ..tcp("reno") };
    add_flow(&mut plan, 1, 0, small, Source::Bulk);
    plan.measure.links = vec![0];
    let tables = run(&plan);
    let (told, other) = (goodput(&tables, 0, 4 * S, 8 * S), goodput(&tables, 1, 4 * S, 8 * S));
    assert!(other > 22e6 && told + other > 0.97 * payload(100 * MBIT), "{told} and {other}");
    assert_eq!(bottleneck(&tables, 0).0, 0);
}

/// Losses, connections one after the other, and observers of single packets, which use the same place of a packet.
#[test]
fn headers_survive_losses_and_observers() {
    let mut plan = dumbbell(2, 1000 * MBIT, 20 * MBIT, 20 * MS, xcp(), 10 * S);
    plan.links[0].loss = Some(Loss::Bernoulli { p: 0.01 });
    plan.links[1].loss = Some(Loss::Bernoulli { p: 0.01 });
    add_flow(&mut plan, 0, 0, tcp("xcp"), Source::Bulk);
    add_flow(&mut plan, 1, 0, tcp("xcp"), transfers(&[(0, 500_000), (100 * MS, 100_000), (2 * S, 300_000)], false));
    let plain = run(&plan);
    assert!(goodput(&plain, 0, 2 * S, 10 * S) > 5e6, "a loss halves the window, and feedback restores it");
    assert_eq!(plain.flows.rows(), 4, "three transfers end, and a bulk flow");
    let reference = run_with(&plan, Options { reference: true, ..Options::default() });
    assert_same(&plain, &reference, &[]).unwrap();
    assert!(trace_of(&plan).len() > 1000);
    plan.measure.delay_ns = 100 * MS;
    let observed = run(&plan);
    assert!(observed.delays.rows() > 0);
    assert_eq!(goodput(&plain, 0, 0, 10 * S), goodput(&observed, 0, 0, 10 * S));
}

#[test]
fn a_path_without_routers_is_refused() {
    let problem = |queue: Queue, access: u64| {
        let mut plan = dumbbell(1, access, 100 * MBIT, 40 * MS, queue, S);
        add_flow(&mut plan, 0, 0, tcp("xcp"), Source::Bulk);
        Simulation::new(&plan).err().map(|error| error.to_string())
    };
    let none = problem(droptail(None, Some(100)), 1000 * MBIT).expect("refused");
    assert!(none.contains("no link of its path") && none.contains("bottleneck"), "{none}");
    let slower = problem(xcp(), 50 * MBIT).expect("refused");
    assert!(slower.contains("src0->left, slower than"), "{slower}");
    assert_eq!(problem(xcp(), 100 * MBIT), None);
}

/// The rate is C / N: IWQoS 2005, section 3.
#[test]
fn the_rate_of_rcp_is_an_equal_share() {
    for flows in [2, 10] {
        let mut plan = dumbbell(flows, 1000 * MBIT, 100 * MBIT, 40 * MS, rcp(), 8 * S);
        plan.measure.links = vec![0];
        for pair in 0..flows {
            add_flow(&mut plan, pair, u64::from(pair) * 3 * MS, tcp("rcp"), Source::Bulk);
        }
        let tables = run(&plan);
        let share = 0.95 * payload(100 * MBIT) / f64::from(flows);
        for flow in 0..flows {
            close("share", goodput(&tables, flow, 4 * S, 8 * S), share, 0.05);
        }
        assert_eq!(bottleneck(&tables, 0).0, 0);
    }
}

/// A new flow begins with the rate of the others: no slow start. The first samples of goodput tell: CUBIC needs five round
/// trips to reach a third of 100 Mb/s.
#[test]
fn a_new_flow_begins_with_the_rate_of_the_others() {
    let mut plan = dumbbell(3, 1000 * MBIT, 100 * MBIT, 40 * MS, rcp(), 6 * S);
    for pair in 0..2 {
        add_flow(&mut plan, pair, 0, tcp("rcp"), Source::Bulk);
    }
    add_flow(&mut plan, 2, 4 * S, tcp("rcp"), Source::Bulk);
    plan.measure.goodput_ns = 20 * MS;
    let tables = run(&plan);
    // A round trip for the request, half of one until the first data arrive.
    let first = goodput(&tables, 2, 4 * S + 80 * MS, 4 * S + 160 * MS);
    assert!(first > 0.5 * payload(100 * MBIT) / 3.0, "{first}");
    close("later", goodput(&tables, 2, 5 * S, 6 * S), 0.95 * payload(100 * MBIT) / 3.0, 0.1);
}

/// Completion times come near those of processor sharing: a transfer of L bits alone takes its request, L / C and a round
/// trip. A slow start takes several round trips more.
#[test]
fn a_transfer_takes_about_as_long_as_with_processor_sharing() {
    let duration = |cc: &str, queue: Queue| {
        let mut plan = dumbbell(1, 1000 * MBIT, 100 * MBIT, 100 * MS, queue, 10 * S);
        let list = [(0, 1_000_000), (2 * S, 1_000_000)];
        add_flow(&mut plan, 0, 0, tcp(cc), transfers(&list, false));
        let tables = run(&plan);
        let begun = crate::common::events(&tables, "transfer_start", 0);
        let ended = crate::common::events(&tables, "transfer_end", 0);
        (ended[1].0 - begun[1].0) as f64 / 1e9
    };
    // A round trip for the request, one for the last acknowledgement.
    let shared = 0.2 + 8e6 / (0.95 * payload(100 * MBIT));
    let told = duration("rcp", rcp());
    assert!(told < 1.3 * shared, "{told} s, processor sharing {shared} s");
    assert!(duration("cubic", droptail(None, Some(1000))) > told + 0.2);
}
