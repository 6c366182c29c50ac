//! Switches: packet by packet beside the simulator; floods.

use weir_emu::frame::{Frame, Link as Layer};
use weir_emu::{Directory, Network, Options};
use weir_plan::{
    Arbiter, Cbr, Forwarding, Hold, Memory, Node, NodeKind, Pause, Plan, Role, Source, Switch, Trace, Transport, Udp,
    Weight,
};
use weir_units::{Dur, Time};

use crate::common::*;
use crate::simulator::compare;

/// Three hosts at 100 Mb/s around a switch; link `2 h` leads from host `h` to the switch, the next one back.
fn star(switch: Switch) -> Plan {
    let mut plan = wire(1, 1);
    let node = |name: &str, kind, switch| Node { name: name.into(), kind, switch, capacity: None };
    plan.nodes = vec![node("s", NodeKind::Router, Some(switch))];
    plan.nodes.extend(["h0", "h1", "h2"].map(|name| node(name, NodeKind::Host, None)));
    plan.links.clear();
    for host in 0..3u32 {
        let odd = 1013 * u64::from(host);
        let mut up = link(&format!("up{host}"), host + 1, 0, 100_000_007 - odd, 10_007 + odd);
        up.host_nic = true;
        plan.links.push(up);
        plan.links.push(link(&format!("down{host}"), 0, host + 1, 99_990_001 - odd, 9_001 + odd));
    }
    let template = plan.flows.remove(0);
    for (index, (from, to)) in [(0, 2), (1, 2), (0, 1)].into_iter().enumerate() {
        let mut flow = template.clone();
        (flow.name, flow.role) = (format!("f{index}"), Role::Test);
        (flow.from, flow.to) = (from + 1, to + 1);
        (flow.path, flow.reverse_path) = (vec![2 * from, 2 * to + 1], vec![2 * to, 2 * from + 1]);
        plan.flows.push(flow);
    }
    plan
}

/// Two flows that ask for 1.6 times their port, and a third one.
fn contended(switch: Switch) -> Plan {
    let mut plan = star(switch);
    plan.end_ns = 2 * S;
    plan.flows.iter_mut().zip([83_000_000, 71_000_000, 9_000_000]).zip([1472, 1472, 700]).for_each(
        |((flow, rate_bps), payload_bytes)| {
            flow.source = Source::Cbr(Cbr { rate_bps, periods_ns: vec![] });
            flow.transport = Transport::Udp(Udp { payload_bytes });
            flow.start_ns = 100_003 * u64::from(flow.from);
        },
    );
    plan.measure.delay_ns = 100 * MS;
    plan.measure.trace = Some(Trace { flows: vec![], from_ns: 0, to_ns: plan.end_ns, max_packets: 1 << 20 });
    plan
}

fn switch(arbiter: Arbiter) -> Switch {
    Switch {
        memory: Memory::Shared { bytes: 60_000, alpha: Some(1.0) },
        resume_bytes: 0,
        arbiter,
        forwarding: Forwarding::StoreAndForward,
        jitter_ns: 0,
        pause: None,
    }
}

#[test]
fn each_arbiter_forwards_the_same_packets_as_in_the_simulator() {
    for arbiter in
        [Arbiter::Fifo, Arbiter::RoundRobin, Arbiter::Islip { iterations: 1 }, Arbiter::Pim { iterations: 2 }]
    {
        compare(&contended(switch(arbiter)));
    }
}

#[test]
fn weights_and_times_of_service_are_those_of_the_simulator() {
    let weights = vec![Weight { link: 0, weight: 3 }, Weight { link: 4, weight: 2 }];
    compare(&contended(switch(Arbiter::Weighted { weights })));
    for hold in [
        Hold::Fixed { mean_ns: 7_000_003 },
        Hold::Exponential { mean_ns: 11_000_001 },
        Hold::Pareto { mean_ns: 5_000_003, shape: 1.5 },
    ] {
        compare(&contended(switch(Arbiter::Bursty { hold })));
    }
}

#[test]
fn a_partitioned_memory_with_hysteresis_and_jitter_and_cut_through() {
    let memory = Memory::Partitioned { bytes: 30_000 };
    compare(&contended(Switch { memory, resume_bytes: 3000, jitter_ns: 20_011, ..switch(Arbiter::RoundRobin) }));
    let mut plan = contended(Switch { forwarding: Forwarding::CutThrough, ..switch(Arbiter::Fifo) });
    plan.links.iter_mut().for_each(|link| link.rate_bps = 100_000_000);
    compare(&plan);
}

#[test]
fn pause_stops_the_card_of_the_sender() {
    let pause = Some(Pause { high_bytes: 20_000, low_bytes: 10_000 });
    let memory = Memory::Shared { bytes: 60_000, alpha: None };
    let plan = contended(Switch { pause, memory, ..switch(Arbiter::RoundRobin) });
    compare(&plan);
    let mut driver = Driver::new(&plan);
    for number in 0..60 {
        driver.send(1000 * number, &Packet { from: 1, to: 3, ..Packet::datagram() });
        driver.send(1000 * number, &Packet { from: 2, to: 3, ..Packet::datagram() });
    }
    driver.run(MS);
    let free = driver.network.ready_for(0, Dur::from_millis(1));
    assert!(free > Time(2 * MS), "the card is full for some milliseconds, not ready at {free:?}");
    driver.run(S);
    assert_eq!(driver.packets(), 120, "nothing is lost");
    let records = driver.network.drain();
    assert!(records.events.kind.len() >= 4, "each sender was stopped and started");
}

/// An Ethernet frame of no protocol that weir knows.
fn frame(to: [u8; 6], from: [u8; 6], id: u8) -> Vec<u8> {
    [&[0; 10][..], &to[..], &from[..], &[0x88, 0xb5, id], &[id; 200][..]].concat()
}

/// A switch of three ports, which learns.
fn learning(switch: Switch) -> Driver {
    let job = job(&star(switch), false);
    let network = Network::new(&job, Directory::switch(&job), Options::default());
    Driver { network, job, delivered: Vec::new() }
}

impl Driver {
    /// Sends a frame into port `port`; returns the ports at which it leaves within 10 ms.
    fn ports(&mut self, at: u64, port: u32, bytes: &[u8]) -> Vec<u32> {
        let before = self.delivered.len();
        self.send_frame(at, port, bytes);
        self.run(at + 10 * MS);
        let got = &self.delivered[before..];
        assert!(got.iter().all(|delivered| delivered.frame == bytes), "it leaves as it came");
        got.iter().map(|delivered| delivered.host).collect()
    }

    fn send_frame(&mut self, at: u64, port: u32, bytes: &[u8]) {
        let frame = Frame::parse(bytes, Layer::Ethernet).expect("a sound frame");
        let mut scratch = self.network.trains.pool.scratch();
        scratch[..bytes.len()].copy_from_slice(bytes);
        self.network.inject(Time(at), Time(at), port, &frame, scratch, bytes.len());
        self.run(at);
    }
}

#[test]
fn a_switch_floods_until_it_knows_a_station() {
    let mut driver = learning(switch(Arbiter::RoundRobin));
    let (a, b, all) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [0xff; 6]);
    assert_eq!(driver.ports(0, 0, &frame(b, a, 1)), [1, 2]);
    assert_eq!(driver.ports(20 * MS, 1, &frame(a, b, 2)), [0]);
    assert_eq!(driver.ports(40 * MS, 0, &frame(b, a, 3)), [1]);
    assert_eq!(driver.ports(60 * MS, 1, &frame(all, b, 4)), [0, 2]);
    assert_eq!(driver.ports(80 * MS, 2, &frame([1, 0x80, 0xc2, 0, 0, 1], [2; 6], 5)), [0u32; 0], "PAUSE ends here");
    let statistics = driver.network.statistics();
    assert_eq!((statistics.packets, statistics.flooded_packets, statistics.unrouted_packets), (5, 2, 1));
    assert!(driver.network.trains.is_empty(), "no copy is left");
}

#[test]
fn copies_contend_for_the_memory_and_each_is_counted_where_it_is_lost() {
    let mut driver = learning(Switch { memory: Memory::Partitioned { bytes: 5000 }, ..switch(Arbiter::Fifo) });
    for number in 0..200 {
        let bytes = frame([0xff; 6], [2, 0, 0, 0, 0, 1 + number % 2], number);
        driver.send_frame(u64::from(number) * 1000, u32::from(number % 2), &bytes);
    }
    driver.run(S);
    driver.network.close_bins();
    let ports = driver.network.drain().ports.expect("a switch has ports");
    let sum = |output: u32, column: &Vec<u64>| {
        (0..ports.output.len()).filter(|&row| ports.output[row] == output).map(|row| column[row]).sum::<u64>()
    };
    // Output ports of hosts 0 and 1 get the frames of one host, that of host 2 those of both.
    let came: Vec<u64> = [1, 3, 5].iter().map(|&output| sum(output, &ports.in_packets)).collect();
    assert_eq!(came, [100, 100, 200]);
    let left: Vec<u64> = [1, 3, 5].iter().map(|&output| sum(output, &ports.out_packets)).collect();
    let lost: u64 = [1, 3, 5].iter().map(|&output| sum(output, &ports.drop_packets)).sum();
    assert!(lost > 0 && left.iter().sum::<u64>() + lost == 400, "{left:?} left, {lost} lost");
    assert_eq!(u64::from(driver.packets()), left.iter().sum::<u64>());
    assert!(driver.network.trains.is_empty(), "no copy is left");
}
