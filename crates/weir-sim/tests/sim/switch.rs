//! Switches: what each arbiter, memory and option does to constant-rate flows that contend for an output port.

use weir_plan::{Arbiter, Forwarding, Hold, Memory, Pause, Plan, Source, Switch, Weight};
use weir_sim::{Options, Simulation, Tables};
use weir_units::Time;

use crate::common::{CONTROL, MS, S, add_flow, cbr, close, droptail, dumbbell, events, run, run_with, tcp, udp};

const RATE: u64 = 1_000_000_000;
/// Bytes of a packet on the wire, and of the IP packet.
const WIRE: u64 = 1538;
const IP: u64 = 1500;
const MEMORY: Memory = Memory::Shared { bytes: 200_000, alpha: None };

fn switch(arbiter: Arbiter) -> Switch {
    Switch {
        memory: MEMORY,
        resume_bytes: 0,
        arbiter,
        forwarding: Forwarding::StoreAndForward,
        jitter_ns: 0,
        pause: None,
    }
}

/// Sources of these rates on the wire, in Mb/s, whose packets meet at a switch before one output port of 1 Gb/s.
fn contention(rates_mbps: &[u64], switch: Switch) -> Plan {
    let mut plan = dumbbell(rates_mbps.len() as u32, RATE, RATE, MS, droptail(None, Some(4)), S);
    for (pair, rate) in (0..).zip(rates_mbps) {
        // Phases differ, as those of sources that started by themselves.
        let flow = add_flow(&mut plan, pair, u64::from(pair) * 1_234, tcp(CONTROL), cbr(rate * 1_000_000 * IP / WIRE));
        plan.flows[flow].transport = udp(IP as u32);
    }
    plan.nodes[0].switch = Some(switch);
    plan
}

/// Rates on the wire of the output port in the last 600 ms, Mb/s, by input.
fn rates(tables: &Tables) -> Vec<f64> {
    let ports = &tables.ports;
    let mut inputs: Vec<u32> = ports.input.clone();
    inputs.sort_unstable();
    inputs.dedup();
    let rate = |input: u32| {
        let rows = (0..ports.rows()).filter(|&i| ports.input[i] == input && ports.time_ns[i] > 400 * MS);
        rows.map(|i| ports.out_packets[i]).sum::<u64>() as f64 * (WIRE * 8) as f64 / 0.6e6
    };
    inputs.into_iter().map(rate).collect()
}

fn shares(rates_mbps: &[u64], made: Switch) -> Vec<f64> {
    rates(&run(&contention(rates_mbps, made)))
}

#[track_caller]
fn all_close(got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        close("rate", *got, *expected, tolerance);
    }
}

#[test]
fn round_robin_halves_the_output_and_protects_a_flow_that_asks_for_less() {
    for (asked, expected) in
        [([1000, 1000], [500.0, 500.0]), ([800, 600], [500.0, 500.0]), ([400, 1000], [400.0, 600.0])]
    {
        for arbiter in [Arbiter::RoundRobin, Arbiter::Islip { iterations: 1 }, Arbiter::Pim { iterations: 2 }] {
            let mut made = switch(arbiter);
            made.memory = Memory::Shared { bytes: 200_000, alpha: Some(1.0) };
            all_close(&shares(&asked, made), &expected, 0.02);
        }
    }
}

#[test]
fn weights_divide_the_output() {
    // The first input is the link of the first source.
    let weights = vec![Weight { link: 2, weight: 3 }];
    let made = Switch { memory: Memory::Partitioned { bytes: 50_000 }, ..switch(Arbiter::Weighted { weights }) };
    all_close(&shares(&[1000, 1000], made), &[750.0, 250.0], 0.01);
}

#[test]
fn exact_clocks_lock_the_phases_of_a_fifo() {
    // Five slots, four packets of each: those that come first after a departure find the place that it left.
    let got = shares(&[800, 800], switch(Arbiter::Fifo));
    let (low, high) = (got[0].min(got[1]), got[0].max(got[1]));
    close("one gets all", high, 800.0, 0.001);
    close("the other the rest", low, 200.0, 0.005);
}

#[test]
fn a_fifo_with_a_jittery_fabric_shares_in_proportion_to_the_offered_rates() {
    let made = Switch { jitter_ns: 30_000, ..switch(Arbiter::Fifo) };
    all_close(&shares(&[800, 600], made.clone()), &[4000.0 / 7.0, 3000.0 / 7.0], 0.02);
    all_close(&shares(&[1000, 1000], made), &[500.0, 500.0], 0.06);
}

#[test]
fn a_fifo_that_frees_several_places_at_once_shares_in_proportion_without_variance() {
    let made = Switch { resume_bytes: 64 * WIRE, ..switch(Arbiter::Fifo) };
    for (asked, expected) in [([800, 600], [4000.0 / 7.0, 3000.0 / 7.0]), ([1000, 1000], [500.0, 500.0])] {
        all_close(&shares(&asked, made.clone()), &expected, 0.015);
    }
}

#[test]
fn a_bursty_arbiter_starves_an_input_for_its_time() {
    let arbiter = Arbiter::Bursty { hold: Hold::Fixed { mean_ns: 150 * MS } };
    let made = Switch { memory: Memory::Shared { bytes: 200_000, alpha: Some(1.0) }, ..switch(arbiter) };
    let tables = run(&contention(&[1000, 1000], made));
    let ports = &tables.ports;
    let longest = ports.starved_max_ns.iter().max().copied().unwrap_or_default();
    assert!(longest.abs_diff(150 * MS) < MS, "{longest}");
    assert!(ports.loss_run_max.iter().max() > Some(&10_000), "losses come in bursts as long");
    assert!(ports.service_run_max.iter().max() > Some(&12_000));
}

#[test]
fn a_fair_switch_drops_alternate_packets() {
    let made = Switch { memory: Memory::Partitioned { bytes: 60_000 }, ..switch(Arbiter::RoundRobin) };
    let tables = run(&contention(&[1000, 1000], made));
    let ports = &tables.ports;
    let late = |i: &usize| ports.time_ns[*i] > 100 * MS;
    let column = |values: &[u64]| (0..ports.rows()).filter(late).map(|i| values[i]).max();
    assert!(column(&ports.loss_run_max) <= Some(2), "steps of one to three at the output");
    assert!(column(&ports.starved_max_ns) <= Some(50_000));
}

#[test]
fn the_rows_of_ports_add_up() {
    let mut plan = contention(&[900, 700], switch(Arbiter::RoundRobin));
    plan.measure.links_ns = 400_000;
    let tables = run(&plan);
    let ports = &tables.ports;
    let sum = |values: &[u64]| values.iter().sum::<u64>();
    let waits =
        |time| (0..ports.rows()).filter(|&i| ports.time_ns[i] == time).map(|i| ports.queue_packets[i]).sum::<u64>();
    assert_eq!(sum(&ports.in_packets), sum(&ports.out_packets) + sum(&ports.drop_packets) + waits(S));
    assert_eq!(sum(&ports.drop_packets), sum(&tables.links.drop_packets));
    assert_eq!(sum(&ports.out_bytes), sum(&tables.links.out_bytes));
    assert!(ports.queue_max_bytes.iter().zip(&ports.queue_bytes).all(|(most, last)| most >= last));
    let whole = Tables { ports: ports.clone(), ..tables.clone() };
    assert_eq!(run_with(&plan, Options { reference: true, ..Options::default() }), whole);
}

#[test]
fn tables_do_not_depend_on_steps() {
    let made = Switch { jitter_ns: 5_000, ..switch(Arbiter::Bursty { hold: Hold::Exponential { mean_ns: 2 * MS } }) };
    let mut plan = contention(&[300, 200], made);
    add_flow(&mut plan, 1, 0, tcp(CONTROL), Source::Bulk);
    let whole = run(&plan);
    let mut simulation = Simulation::new(&plan).expect("the plan can be simulated");
    let mut ports = weir_sim::Ports::default();
    for step in 1..=143 {
        simulation.advance(Time(step * 7_000_001));
        ports.extend(simulation.drain().ports);
    }
    assert_eq!(ports, whole.ports);
    assert!(whole.flows.delivered_bytes[2] > 1_000_000);
}

/// Mean one-way delay of the only flow, ns.
fn delay_ns(forwarding: Forwarding) -> u64 {
    let mut plan = contention(&[100], Switch { forwarding, ..switch(Arbiter::RoundRobin) });
    plan.measure.delay_ns = S;
    let tables = run(&plan);
    assert_eq!(tables.delays.delay_min_ns[0], tables.delays.delay_max_ns[0]);
    tables.delays.delay_ns[0]
}

#[test]
fn a_packet_is_cut_through_after_its_first_64_bytes() {
    let saved = delay_ns(Forwarding::StoreAndForward) - delay_ns(Forwarding::CutThrough);
    assert_eq!(saved, (WIRE - 72) * 8, "at 1 Gb/s a bit takes a nanosecond");
}

#[test]
fn pause_moves_the_losses_to_the_senders() {
    let high = 60_000;
    let made = Switch { pause: Some(Pause { high_bytes: high, low_bytes: 20_000 }), ..switch(Arbiter::RoundRobin) };
    let tables = run(&contention(&[900, 900], made));
    assert_eq!(tables.ports.drop_packets.iter().sum::<u64>(), 0);
    assert!(tables.flows.lost_packets.iter().sum::<u64>() > 10_000, "the hosts' queues are full");
    all_close(&rates(&tables), &[500.0, 500.0], 0.02);
    // What is under way when the sender hears of it: one packet, for the links have no length.
    assert!(tables.ports.queue_max_bytes.iter().all(|most| *most <= high + 2 * WIRE));
    let (stops, starts) = (events(&tables, "pause", u32::MAX).len(), events(&tables, "resume", u32::MAX).len());
    assert!(stops > 100 && stops.abs_diff(starts) <= 2, "{stops} {starts}");
}
