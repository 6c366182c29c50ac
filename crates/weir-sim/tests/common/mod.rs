//! Plans for tests: a dumbbell whose parts can be changed before it runs.
#![allow(dead_code, missing_docs)]

use weir_plan::{
    Ack, Delay, Flow, Limit, Link, Measure, Node, NodeKind, Plan, Queue, Role, Source, Stack, Tcp, Transport,
};

pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000_000_000;

pub fn tcp(cc: &str) -> Tcp {
    Tcp {
        cc: cc.into(),
        cc_options: Default::default(),
        stack: Stack::Linux,
        mss_bytes: 1448,
        timestamps: true,
        sack: true,
        ecn: false,
        initial_window: 10,
        send_buffer_bytes: 1 << 30,
        receive_buffer_bytes: 1 << 30,
        pacing: false,
        ack: Ack::Delayed,
    }
}

pub fn droptail(bytes: Option<u64>, packets: Option<u64>) -> Queue {
    Queue::Droptail { limit: Limit { bytes, packets } }
}

pub fn link(name: &str, from: u32, to: u32, rate_bps: u64, delay_ns: u64, queue: Queue) -> Link {
    Link {
        name: name.into(),
        from,
        to,
        rate_bps,
        overhead_bytes: 38,
        mtu_bytes: 9000,
        delay: Delay::Fixed { delay_ns },
        queue,
        loss: None,
        host_nic: false,
    }
}

/// A dumbbell: `pairs` sources and sinks, symmetric, all of the delay on the bottleneck. Link 0 is the bottleneck, link 1
/// its reverse; then per pair: source to left, right to sink, sink to right, left to source.
pub fn dumbbell(pairs: u32, access_bps: u64, bottleneck_bps: u64, rtt_ns: u64, queue: Queue, end_ns: u64) -> Plan {
    let node = |name: String, kind| Node { name, kind };
    let mut nodes = vec![node("left".into(), NodeKind::Router), node("right".into(), NodeKind::Router)];
    let big = || droptail(None, Some(1 << 20));
    let mut links = vec![
        link("bottleneck", 0, 1, bottleneck_bps, rtt_ns / 2, queue),
        link("bottleneck-reverse", 1, 0, bottleneck_bps, rtt_ns / 2, big()),
    ];
    for i in 0..pairs {
        let (src, dst) = (2 + 2 * i, 3 + 2 * i);
        nodes.push(node(format!("src{i}"), NodeKind::Host));
        nodes.push(node(format!("dst{i}"), NodeKind::Host));
        let mut up = link(&format!("src{i}->left"), src, 0, access_bps, 0, droptail(None, Some(10_000)));
        up.host_nic = true;
        links.push(up);
        links.push(link(&format!("right->dst{i}"), 1, dst, access_bps, 0, big()));
        let mut back = link(&format!("dst{i}->right"), dst, 1, access_bps, 0, droptail(None, Some(10_000)));
        back.host_nic = true;
        links.push(back);
        links.push(link(&format!("left->src{i}"), 0, src, access_bps, 0, big()));
    }
    Plan {
        version: 1,
        title: "dumbbell".into(),
        seed: 1,
        end_ns,
        nodes,
        links,
        flows: Vec::new(),
        changes: Vec::new(),
        measure: Measure { goodput_ns: 500 * MS, tcp_ns: 20 * MS, links_ns: 20 * MS, links: vec![0], trace: None },
        phases: Vec::new(),
    }
}

/// Adds a TCP flow on pair `pair` of a dumbbell.
pub fn add_flow(plan: &mut Plan, pair: u32, start_ns: u64, tcp: Tcp, source: Source) -> usize {
    let index = plan.flows.len() as u32;
    let base = 2 + 4 * pair;
    plan.flows.push(Flow {
        name: format!("f[{index}]"),
        group: "f".into(),
        index,
        stream: 0,
        role: Role::Test,
        from: 2 + 2 * pair,
        to: 3 + 2 * pair,
        path: vec![base, 0, base + 1],
        reverse_path: vec![base + 2, 1, base + 3],
        start_ns,
        stop_ns: None,
        transport: Transport::Tcp(tcp),
        source,
        dscp: 0,
    });
    index as usize
}
