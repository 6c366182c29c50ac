//! Hosts whose components take time: the simulated goodput against the rate of the slowest component (R. Guillier,
//! "Methodologies and Tools for the Evaluation of Transport Protocols in the Context of High-Speed Networks", equation 6.1).

use weir_plan::{Capacity, Disk, HostMemory, PacketWork, Plan, Processor, Source, Stack, Tcp};
use weir_sim::{Options, Tables};
use weir_units::Stream;

use crate::common::{MS, S, add_flow, droptail, dumbbell, goodput, run, run_with, tcp};

const G: u64 = 1_000_000_000;
/// Bytes of payload in a packet.
const PAYLOAD: f64 = 1448.0;
/// Bytes of an IP packet.
const PACKET: f64 = 1500.0;
/// Bytes of an acknowledgement, which is for two packets.
const ACK: f64 = 52.0;
/// Bytes of a packet on the wire.
const WIRE: f64 = 1538.0;

fn processor(cores: u32, packet_ns: u64, copy_bps: u64) -> Processor {
    let work = PacketWork { packet_ns, copy_bps };
    Processor { cores, send: work, receive: work, ack_ns: 0 }
}

fn settings() -> Tcp {
    Tcp { send_buffer_bytes: 4 << 20, receive_buffer_bytes: 4 << 20, ..tcp("reno") }
}

/// A pair of hosts with links of 10 Gb/s and a round-trip time of 1 ms: two flows, of two processes or of one.
fn plan(sender: Capacity, receiver: Capacity, processes: u32) -> Plan {
    let mut plan = dumbbell(1, 10 * G, 10 * G, MS, droptail(Some(16_000_000), None), 2 * S);
    plan.nodes[2].capacity = Some(sender);
    plan.nodes[3].capacity = Some(receiver);
    for flow in 0..2 {
        let index = add_flow(&mut plan, 0, 0, settings(), Source::Bulk);
        plan.flows[index].index = flow % processes;
        plan.flows[index].stream = flow / processes;
    }
    plan
}

/// Goodput of all flows together after slow start, bit/s.
fn got(tables: &Tables) -> f64 {
    (0..2).map(|flow| goodput(tables, flow, S, 2 * S)).sum()
}

/// The nanoseconds of each component of a host for a packet, acknowledgements included, if `processes` share the packets
/// evenly.
fn times(capacity: &Capacity, processes: u32, sends: bool) -> Vec<f64> {
    let at = |bytes: f64, rate: u64| if rate == 0 { 0.0 } else { bytes * 8e9 / rate as f64 };
    let mut times = Vec::new();
    if let Some(processor) = &capacity.processor {
        let work = if sends { processor.send } else { processor.receive };
        let acks = if sends { processor.ack_ns as f64 / 2.0 } else { 0.0 };
        let time = work.packet_ns as f64 + at(PAYLOAD, work.copy_bps) + acks;
        times.push(time / f64::from(processor.cores.min(processes)));
    }
    if let Some(memory) = capacity.memory {
        times.push(at(PACKET, memory.rate_bps) * f64::from(memory.passes));
    }
    times.push(at(PACKET + ACK / 2.0, capacity.bus_bps));
    if let Some(disk) = capacity.disk {
        times.push(at(PAYLOAD, if sends { disk.read_bps } else { disk.write_bps }));
    }
    times
}

/// The goodput that the formula says, with links of 10 Gb/s.
fn formula(sender: &Capacity, receiver: &Capacity, processes: u32) -> f64 {
    let slowest = [times(sender, processes, true), times(receiver, processes, false)].concat();
    PAYLOAD * 8e9 / slowest.into_iter().fold(WIRE * 0.8, f64::max)
}

/// How much less than the formula the simulation has, in parts of the formula.
fn missing(sender: &Capacity, receiver: &Capacity, processes: u32) -> f64 {
    1.0 - got(&run(&plan(sender.clone(), receiver.clone(), processes))) / formula(sender, receiver, processes)
}

/// A capacity of each kind that is alone and leaves about 2 Gb/s.
fn alone() -> Vec<Capacity> {
    vec![
        Capacity { processor: Some(processor(1, 5000, 0)), ..Capacity::default() },
        Capacity { processor: Some(processor(1, 0, 2 * G)), ..Capacity::default() },
        Capacity { memory: Some(HostMemory { rate_bps: 8 * G, passes: 4 }), ..Capacity::default() },
        Capacity { bus_bps: 2 * G, ..Capacity::default() },
        Capacity { disk: Some(Disk { read_bps: 2 * G, write_bps: 2 * G }), ..Capacity::default() },
    ]
}

#[test]
fn each_component_alone_bounds_a_transfer_on_both_sides() {
    for capacity in alone() {
        for (sender, receiver) in [(&capacity, &Capacity::default()), (&Capacity::default(), &capacity)] {
            let missing = missing(sender, receiver, 2);
            assert!(missing.abs() < 0.003, "{missing:.4} for {sender:?} to {receiver:?}");
        }
    }
}

#[test]
fn processes_have_cores_and_streams_of_one_process_share_one() {
    let two = Capacity { processor: Some(processor(2, 3000, 0)), ..Capacity::default() };
    let one = Capacity { processor: Some(processor(1, 3000, 0)), ..Capacity::default() };
    let free = Capacity::default();
    let [streams, processes, narrow] = [(&two, 1), (&two, 2), (&one, 2)]
        .map(|(capacity, processes)| got(&run(&plan(capacity.clone(), free.clone(), processes))));
    assert!((streams / (PAYLOAD * 8e9 / 3000.0) - 1.0).abs() < 0.003, "{streams}");
    assert!((processes / streams - 2.0).abs() < 0.006, "{processes} of two processes, {streams} of one");
    assert!((narrow / streams - 1.0).abs() < 0.003, "{narrow} of two processes on one core");
}

#[test]
fn older_stacks_are_bounded_likewise() {
    for capacity in alone() {
        let mut plan = plan(capacity.clone(), Capacity::default(), 2);
        for flow in &mut plan.flows {
            let tcp = Tcp { stack: Stack::Linux26, ..settings() };
            flow.transport = weir_plan::Transport::Tcp(tcp);
        }
        let (got, expected) = (got(&run(&plan)), formula(&capacity, &Capacity::default(), 2));
        assert!((got / expected - 1.0).abs() < 0.003, "{got} against {expected}: {capacity:?}");
    }
}

#[test]
fn a_full_transmit_queue_holds_the_components_back_and_loses_nothing() {
    let fast = Capacity { processor: Some(processor(2, 100, 0)), bus_bps: 40 * G, ..Capacity::default() };
    let mut plan = plan(fast, Capacity::default(), 2);
    for link in plan.links.iter_mut().filter(|link| link.host_nic) {
        link.rate_bps = G;
        link.queue = droptail(None, Some(50));
    }
    for flow in &mut plan.flows {
        flow.transport = weir_plan::Transport::Tcp(Tcp { stack: Stack::Linux26, ..settings() });
    }
    let tables = run(&plan);
    assert_eq!(tables.flows.lost_packets.iter().sum::<u64>(), 0, "the host waits for room");
    let expected = G as f64 * PAYLOAD / WIRE;
    assert!((got(&tables) / expected - 1.0).abs() < 0.01, "{} against {expected}", got(&tables));
}

#[test]
fn data_that_are_sent_again_are_not_read_again() {
    let disk = |read_bps| Capacity { disk: Some(Disk { read_bps, write_bps: 0 }), ..Capacity::default() };
    let mut plan = plan(disk(G), Capacity::default(), 2);
    plan.links[0].loss = Some(weir_plan::Loss::Bernoulli { p: 0.001 });
    let tables = run(&plan);
    let resent: u64 = tables.flows.retransmitted_packets.iter().sum();
    assert!(resent > 50, "{resent} packets are sent again");
    // With them the disk would have to read 0.1 % more. The transport sends what it has read.
    let whole = (0..2).map(|flow| goodput(&tables, flow, 0, 2 * S)).sum::<f64>();
    assert!(whole <= G as f64, "{whole}");
}

#[test]
fn windows_close_while_packets_wait_for_their_receiver() {
    let slow = Capacity { disk: Some(Disk { read_bps: 0, write_bps: G / 10 }), ..Capacity::default() };
    let tables = run(&plan(Capacity::default(), slow, 2));
    assert_eq!(tables.flows.lost_packets.iter().sum::<u64>(), 0, "nothing is dropped at the receiver");
    let most = tables.samples.in_flight.iter().max().copied().unwrap_or_default();
    let window = (4 << 20) as f64 / PAYLOAD;
    assert!(f64::from(most) <= window, "{most} packets in flight, of {window:.0} that the buffer holds");
    assert!(f64::from(most) >= 0.9 * window, "{most} packets in flight: the window is what limits");
}

#[test]
fn the_order_of_events_does_not_depend_on_the_mode() {
    for capacity in alone() {
        let plan = plan(capacity.clone(), capacity, 2);
        let reference = run_with(&plan, Options { reference: true, ..Options::default() });
        assert_eq!(format!("{:?}", run(&plan)), format!("{reference:?}"));
    }
}

#[test]
fn without_limits_a_capacity_changes_nothing() {
    let with = plan(Capacity::default(), Capacity::default(), 2);
    let mut without = with.clone();
    for node in &mut without.nodes {
        node.capacity = None;
    }
    assert_eq!(format!("{:?}", run(&with)), format!("{:?}", run(&without)));
}

/// A capacity whose components leave 1 to 12 Gb/s each; some are missing.
fn drawn(stream: &mut Stream) -> Capacity {
    let mut rate = || (stream.unit().mul_add(11.0, 1.0) * G as f64) as u64;
    let rates = [(); 6].map(|()| rate());
    let mut has = || stream.chance(0.6);
    let work = |share: f64, rate: u64| PacketWork {
        packet_ns: (share * PAYLOAD * 8e9 / rate as f64) as u64,
        copy_bps: (rate as f64 / (1.0 - share)) as u64,
    };
    let processor =
        has().then(|| Processor { cores: 2, send: work(0.5, rates[0]), receive: work(0.25, rates[1]), ack_ns: 300 });
    let memory = has().then(|| HostMemory { rate_bps: 4 * rates[2], passes: 4 });
    let bus_bps = if has() { rates[3] } else { 0 };
    let disk = has().then(|| Disk { read_bps: rates[4], write_bps: rates[5] });
    Capacity { processor, memory, bus_bps, disk }
}

/// Twenty pairs of hosts, drawn: within 0.5 % of the formula.
#[test]
fn drawn_hosts_are_as_fast_as_the_formula_says() {
    let mut stream = Stream::new(13, "hosts");
    let mut apart = Vec::new();
    for number in 0..20 {
        let (sender, receiver) = (drawn(&mut stream), drawn(&mut stream));
        let processes = 1 + number % 2;
        let missing = missing(&sender, &receiver, processes);
        println!("{number}: {:.0} Mb/s, {:.3} % less", formula(&sender, &receiver, processes) / 1e6, 100.0 * missing);
        if missing.abs() > 0.005 {
            apart.push(format!("{number}: {missing:.4} for {processes} processes, {sender:?} to {receiver:?}"));
        }
    }
    assert!(apart.is_empty(), "{}", apart.join("\n"));
}
