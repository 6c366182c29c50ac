//! Plans for tests: a dumbbell whose parts can be changed before it runs.
#![allow(dead_code, missing_docs)]

use weir_plan::{
    Ack, Cbr, Delay, DroptailQueue, Flow, Limit, Link, Measure, Node, NodeKind, Plan, Queue, Role, Source, Stack, Tcp,
    Trace, Transfer, Transport, Udp,
};
use weir_sim::trace::TraceRecord;
use weir_sim::{EVENT_KINDS, Options, Simulation, Tables};
use weir_units::Time;

pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000_000_000;
/// The congestion control of tests in which it does not matter.
pub const CONTROL: &str = "cubic";

pub fn tcp(cc: &str) -> Tcp {
    Tcp {
        cc: cc.into(),
        cc_options: Default::default(),
        cc_source: None,
        stack: Stack::Linux,
        mss_bytes: 1448,
        timestamps: true,
        sack: true,
        ecn: false,
        accecn: false,
        initial_window: 10,
        initial_ssthresh: 0,
        jump_start: false,
        quick_start_bps: 0,
        profile: Vec::new(),
        send_buffer_bytes: 1 << 30,
        receive_buffer_bytes: 1 << 30,
        pacing: false,
        ack: Ack::Delayed,
        processing_ns: 0,
        sack_cost_ns: 0,
        backlog_packets: 0,
        unmoderated: false,
    }
}

pub fn droptail(bytes: Option<u64>, packets: Option<u64>) -> Queue {
    Queue::Droptail(DroptailQueue { limit: Limit { bytes, packets } })
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
    let node = |name: String, kind| Node { name, kind, switch: None, capacity: None };
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
        measure: Measure {
            goodput_ns: 500 * MS,
            tcp_ns: 20 * MS,
            links_ns: 20 * MS,
            delay_ns: 0,
            links: vec![0],
            trace: None,
            acks: None,
        },
        phases: Vec::new(),
        methods: weir_plan::Methods::default(),
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
        reverse: false,
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

/// Two hosts and a link each way: link 0 carries data and has the queue, link 1 the acknowledgements at the same rate.
pub fn wire(rate_bps: u64, delay_ns: u64, queue: Queue, end_ns: u64) -> Plan {
    let mut plan = dumbbell(0, 1, 1, 0, droptail(None, Some(1)), end_ns);
    plan.nodes = ["a", "b"]
        .into_iter()
        .map(|name| Node { name: name.into(), kind: NodeKind::Host, switch: None, capacity: None })
        .collect();
    plan.links = vec![
        link("forth", 0, 1, rate_bps, delay_ns, queue),
        link("back", 1, 0, rate_bps, delay_ns, droptail(None, Some(1 << 20))),
    ];
    plan.measure.links = vec![];
    plan
}

/// Adds a flow from the first to the second host of a [`wire`].
pub fn add_wire_flow(plan: &mut Plan, start_ns: u64, transport: Transport, source: Source) -> usize {
    let index = plan.flows.len() as u32;
    plan.flows.push(Flow {
        name: format!("f[{index}]"),
        group: "f".into(),
        index,
        stream: 0,
        role: Role::Test,
        reverse: false,
        from: 0,
        to: 1,
        path: vec![0],
        reverse_path: vec![1],
        start_ns,
        stop_ns: None,
        transport,
        source,
        dscp: 0,
    });
    index as usize
}

/// Datagrams of `ip_bytes`, headers included.
pub fn udp(ip_bytes: u32) -> Transport {
    Transport::Udp(Udp { payload_bytes: ip_bytes - 28 })
}

/// A source of `rate_bps` that is always on.
pub fn cbr(rate_bps: u64) -> Source {
    Source::Cbr(Cbr { rate_bps, periods_ns: vec![] })
}

/// Transfers of these sizes, each after a wait.
pub fn transfers(list: &[(u64, u64)], keep_connection: bool) -> Source {
    let transfers = list.iter().map(|&(wait_ns, bytes)| Transfer { wait_ns, bytes, ..Transfer::default() }).collect();
    Source::Transfers { transfers, keep_connection }
}

/// The same plan with every packet traced.
pub fn traced(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.measure.trace = Some(Trace { flows: vec![], from_ns: 0, to_ns: u64::MAX, max_packets: u64::MAX });
    plan
}

/// Runs a plan to its end and returns its trace.
pub fn trace_of(plan: &Plan) -> Vec<TraceRecord> {
    let plan = traced(plan);
    plan.validate().expect("the plan is sound");
    let mut simulation = Simulation::new(&plan).expect("the plan can be simulated");
    simulation.advance(Time::MAX);
    simulation.drain_trace()
}

/// Runs a plan to its end.
pub fn run(plan: &Plan) -> Tables {
    run_with(plan, Options::default())
}

/// Runs a plan to its end, with options.
pub fn run_with(plan: &Plan, options: Options) -> Tables {
    plan.validate().expect("the plan is sound");
    let mut simulation = Simulation::with_options(plan, options).expect("the plan can be simulated");
    assert!(simulation.advance(Time::MAX), "the run ends");
    simulation.drain()
}

/// When events of a kind happened to a flow, and their values.
pub fn events(tables: &Tables, kind: &str, flow: u32) -> Vec<(u64, i64)> {
    let kind = EVENT_KINDS.iter().position(|name| *name == kind).expect("a kind of events") as u8;
    let table = &tables.events;
    (0..table.rows())
        .filter(|&i| table.kind[i] == kind && table.flow[i] == flow)
        .map(|i| (table.time_ns[i], table.value[i]))
        .collect()
}

/// Payload delivered to the receiver of `flow` in the intervals of table `goodput` that end in `(from_ns, to_ns]`.
pub fn delivered(tables: &Tables, flow: u32, from_ns: u64, to_ns: u64) -> u64 {
    let table = &tables.goodput;
    (0..table.rows())
        .filter(|&i| table.flow[i] == flow && table.time_ns[i] > from_ns && table.time_ns[i] <= to_ns)
        .map(|i| table.delivered_bytes[i])
        .sum()
}

/// Goodput of `flow` in that window, bit/s.
pub fn goodput(tables: &Tables, flow: u32, from_ns: u64, to_ns: u64) -> f64 {
    delivered(tables, flow, from_ns, to_ns) as f64 * 8e9 / (to_ns - from_ns) as f64
}

/// Fails unless `got` is within `tolerance` (a share) of `expected`.
#[track_caller]
pub fn close(what: &str, got: f64, expected: f64, tolerance: f64) {
    let off = got / expected - 1.0;
    assert!(
        off.abs() <= tolerance,
        "{what}: {got:.6} is {:+.2} % off {expected:.6}; at most {:.2} % expected",
        off * 100.0,
        tolerance * 100.0
    );
}
