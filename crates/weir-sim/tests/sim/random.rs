//! Random plans: small networks with every element, every transport setting and changes on the way.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use weir_elements::{DrrClass, Members, PrioClass, WfqClass, WrrClass};
use weir_plan::{
    Ack, Cbr, Change, ChangeKind, CodelParams, CodelQueue, Delay, DroptailQueue, DrrQueue, Flow, FqCodelQueue, FqQueue,
    Limit, Link, Loss, Mark, Measure, Node, NodeKind, PieQueue, Plan, PoliceQueue, PrioQueue, Queue, RateStep,
    RedCurve, RedQueue, Role, Source, Stack, TbfQueue, Tcp, Tfrc, Transfer, Transport, Udp, WfqQueue, WrrQueue,
};

use crate::common::MS;

/// So many cases. A plan that fails becomes a test of its own, with a name, instead of a stored seed.
pub fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// What a random plan may contain.
#[derive(Clone, Copy, Debug)]
pub struct Menu {
    /// Queues that decide when a packet leaves (CoDel, FQ-CoDel, fair queues, PIE, schedulers, shapers).
    pub dequeue_aqm: bool,
    /// Changes of links.
    pub changes: bool,
    /// Sources that end, so that the network drains before the end of the run.
    pub finite: bool,
}

impl Menu {
    /// Everything.
    pub const ALL: Menu = Menu { dequeue_aqm: true, changes: true, finite: false };
}

/// Longest period in which sources are started and links change.
const ACTIVE_MS: u64 = 1000;
/// End of a run whose sources end: retransmissions back off to seconds.
const DRAINED_MS: u64 = 400_000;

fn limit() -> impl Strategy<Value = Limit> {
    prop_oneof![
        (1u64..100).prop_map(|packets| Limit { bytes: None, packets: Some(packets) }),
        (1600u64..200_000).prop_map(|bytes| Limit { bytes: Some(bytes), packets: None }),
        (1600u64..60_000, 1u64..40).prop_map(|(bytes, packets)| Limit { bytes: Some(bytes), packets: Some(packets) }),
    ]
}

fn mark() -> impl Strategy<Value = Mark> {
    select(vec![Mark::Drop, Mark::Ecn])
}

fn red() -> impl Strategy<Value = Queue> {
    let curve = |dscp_from, dscp_to, max_p| RedCurve { dscp_from, dscp_to, min_bytes: 3000, max_bytes: 15_000, max_p };
    let curves = prop_oneof![
        (0.01f64..0.5).prop_map(move |p| vec![curve(0, 63, p)]),
        (0.01f64..0.5).prop_map(move |p| vec![curve(0, 9, p), curve(10, 63, p / 2.0)]),
    ];
    (limit(), curves, 0.001f64..1.0, any::<bool>(), mark())
        .prop_map(|(limit, curves, weight, gentle, mark)| Queue::Red(RedQueue { limit, curves, weight, gentle, mark }))
}

fn codel() -> impl Strategy<Value = CodelParams> {
    (1u64..20, 10u64..100, mark()).prop_map(|(target, interval, mark)| CodelParams {
        target_ns: target * MS,
        interval_ns: interval * MS,
        mark,
        ce_threshold_ns: None,
    })
}

pub fn queue(dequeue_aqm: bool) -> BoxedStrategy<Queue> {
    let arrival = prop_oneof![3 => limit().prop_map(|limit| Queue::Droptail(DroptailQueue { limit })), 1 => red()];
    if !dequeue_aqm {
        return arrival.boxed();
    }
    let pie = (limit(), 1u64..30, mark()).prop_map(|(limit, target, mark)| {
        Queue::Pie(PieQueue { limit, target_ns: target * MS, update_ns: 15 * MS, alpha: 0.125, beta: 1.25, mark })
    });
    let plain = prop_oneof![
        4 => arrival,
        1 => (limit(), codel()).prop_map(|(limit, codel)| Queue::Codel(CodelQueue { limit, codel })),
        1 => (limit(), 1u32..9, 300u32..3000, codel())
            .prop_map(|(limit, buckets, quantum_bytes, codel)| Queue::FqCodel(FqCodelQueue { limit, buckets, quantum_bytes, codel })),
        1 => fq(),
        1 => pie,
    ]
    .boxed();
    prop_oneof![7 => plain.clone(), 1 => scheduler(plain)].boxed()
}

/// Few buckets and packets of a flow, so that flows meet and are cut; a rate below and above those of the links.
fn fq() -> impl Strategy<Value = Queue> {
    let quanta = (300u32..3000, 0u32..10_000);
    let rate = proptest::option::of(200_000u64..50_000_000);
    let threshold = proptest::option::of(0u64..10 * MS);
    (limit(), 1u64..60, 1u32..9, quanta, 0u64..60 * MS, rate, threshold).prop_map(
        |(limit, flow_limit, buckets, quanta, refill_ns, max_rate_bps, ce_threshold_ns)| {
            let (quantum_bytes, initial_quantum_bytes) = quanta;
            Queue::Fq(FqQueue {
                limit,
                flow_limit,
                buckets,
                quantum_bytes,
                initial_quantum_bytes,
                refill_ns,
                max_rate_bps,
                ce_threshold_ns,
            })
        },
    )
}

/// Two classes with any plain queue: code point 0 and the rest; a shaper or a policer.
fn scheduler(child: BoxedStrategy<Queue>) -> impl Strategy<Value = Queue> {
    let limit = Limit { bytes: Some(300_000), packets: None };
    (0usize..6, child.clone(), child, 1u64..20_000, 1_000_003u64..90_000_000).prop_map(
        move |(kind, first, second, bytes, rate_bps)| {
            let [a, b] =
                [Members { dscp: vec![0], ..Members::default() }, Members { rest: true, ..Members::default() }];
            let (a, b) = ((String::from("a"), a, first), (String::from("b"), b, second));
            match kind {
                0 => {
                    let class = |(name, members, queue)| PrioClass { name, members, queue };
                    Queue::Prio(PrioQueue { limit, classes: vec![class(a), class(b)] })
                }
                1 => {
                    let class = |(name, members, queue)| DrrClass { name, members, quantum_bytes: 100 + bytes, queue };
                    Queue::Drr(DrrQueue { limit, classes: vec![class(a), class(b)] })
                }
                2 => {
                    let class = |(name, members, queue)| WfqClass { name, members, weight_ppm: 300_000, queue };
                    Queue::Wfq(WfqQueue { limit, classes: vec![class(a), class(b)] })
                }
                3 => {
                    let class =
                        |(name, members, queue)| WrrClass { name, members, weight_ppm: 300_000, high: false, queue };
                    Queue::Wrr(WrrQueue { limit, burst_bytes: 3000, classes: vec![class(a), class(b)] })
                }
                4 => Queue::Tbf(TbfQueue { limit, rate_bps, burst_bytes: 1600 + bytes, queue: Box::new(a.2) }),
                _ => Queue::Police(PoliceQueue {
                    limit,
                    rate_bps,
                    burst_bytes: 1600 + bytes,
                    excess_bytes: bytes,
                    peak_bps: 0,
                    peak_burst_bytes: 0,
                    drop_yellow: bytes % 2 == 0,
                    queue: Box::new(b.2),
                }),
            }
        },
    )
}

pub fn delay() -> impl Strategy<Value = Delay> {
    prop_oneof![
        // Few different delays, so that packets often meet at the same instant.
        4 => select(vec![0, MS, 5 * MS]).prop_map(|delay_ns| Delay::Fixed { delay_ns }),
        1 => (0u64..10 * MS, 0u64..5 * MS, any::<bool>(), any::<bool>())
            .prop_map(|(delay_ns, jitter_ns, normal, reorder)| Delay::Jitter { delay_ns, jitter_ns, normal, reorder }),
        1 => (0u64..10 * MS, 0u64..5 * MS, 0.0f64..0.3)
            .prop_map(|(delay_ns, extra_ns, probability)| Delay::Reorder { delay_ns, extra_ns, probability }),
    ]
}

pub fn loss() -> impl Strategy<Value = Option<Loss>> {
    prop_oneof![
        8 => Just(None),
        1 => (0.0f64..0.03).prop_map(|p| Some(Loss::Bernoulli { p })),
        1 => (0.0f64..0.01, 0.2f64..1.0)
            .prop_map(|(p, r)| Some(Loss::GilbertElliott { p, r, good: 0.001, bad: 0.5 })),
        1 => vec(1u64..300, 0..6).prop_map(|mut packets| {
            packets.sort_unstable();
            packets.dedup();
            Some(Loss::List { packets })
        }),
    ]
}

/// A link whose ends and name are not known yet.
fn link(dequeue_aqm: bool) -> impl Strategy<Value = Link> {
    let rate = select(vec![2_000_000u64, 10_000_000, 10_000_000, 40_000_000, 100_000_000]);
    let mtu = prop_oneof![19 => Just(1500u32), 1 => Just(1000)];
    (rate, select(vec![0u32, 38]), mtu, delay(), queue(dequeue_aqm), loss()).prop_map(
        |(rate_bps, overhead_bytes, mtu_bytes, delay, queue, loss)| Link {
            name: String::new(),
            from: 0,
            to: 0,
            rate_bps,
            overhead_bytes,
            mtu_bytes,
            delay,
            queue,
            loss,
            host_nic: false,
        },
    )
}

fn steps() -> Vec<RateStep> {
    [(0, 3_000_000), (100_000_000, 40_000_000), (150_000_000, 7_000_000)]
        .map(|(at_ns, rate_bps)| RateStep { at_ns, rate_bps })
        .into()
}

pub fn tcp() -> impl Strategy<Value = Tcp> {
    let cc = select(weir_cc::list().iter().map(|algorithm| algorithm.name()).collect::<Vec<_>>());
    let switches = vec(any::<bool>(), 7);
    let buffer = select(vec![3000u64, 30_000, 1 << 20, 1 << 20, 1 << 30, 1 << 30]);
    (
        cc,
        switches,
        select(vec![Stack::Linux, Stack::Linux26]),
        select(vec![500u32, 1448, 1460]),
        1u32..11,
        buffer.clone(),
        buffer,
    )
        .prop_map(|(cc, on, stack, mss_bytes, initial_window, send_buffer_bytes, receive_buffer_bytes)| Tcp {
            cc: cc.into(),
            cc_options: Default::default(),
            cc_source: None,
            stack: if stack == Stack::Linux26 && on[4] { Stack::Linux24 } else { stack },
            mss_bytes: mss_bytes - if on[0] { 12 } else { 0 },
            timestamps: on[0],
            sack: on[1],
            ecn: on[2],
            accecn: on[6],
            initial_window,
            initial_ssthresh: if on[5] && on[6] { 16 } else { 0 },
            jump_start: false,
            quick_start_bps: 0,
            profile: if on[3] && on[6] { steps() } else { Vec::new() },
            send_buffer_bytes,
            receive_buffer_bytes,
            pacing: on[3],
            ack: if on[4] { Ack::Every } else { Ack::Delayed },
            processing_ns: if on[5] { 30_000 } else { 0 },
            // Rare: a plan with such a host keeps one order of events.
            sack_cost_ns: if on[1] && initial_window == 7 { 20_000 } else { 0 },
            backlog_packets: if on[4] { 20 } else { 0 },
            unmoderated: on[3],
        })
}

fn tcp_source(finite: bool) -> BoxedStrategy<Source> {
    let one = (0u64..100, 1u64..200_000).prop_map(|(wait, bytes)| Transfer {
        wait_ns: wait * MS,
        bytes,
        ..Transfer::default()
    });
    let list = (vec(one, 1..5), any::<bool>())
        .prop_map(|(transfers, keep_connection)| Source::Transfers { transfers, keep_connection });
    if finite { list.boxed() } else { prop_oneof![2 => Just(Source::Bulk), 1 => list].boxed() }
}

fn cbr() -> impl Strategy<Value = Source> {
    let periods = vec(1u64..100, 0..5).prop_map(|ms| ms.into_iter().map(|ms| ms * MS).collect::<Vec<_>>());
    (10_000u64..20_000_000, periods).prop_map(|(rate_bps, periods_ns)| Source::Cbr(Cbr { rate_bps, periods_ns }))
}

/// Ends, start, stop, code point, source and transport.
type FlowRecipe = (usize, usize, u64, Option<u64>, u8, Transport, Source);

fn flow(finite: bool) -> impl Strategy<Value = FlowRecipe> {
    let tcp = (tcp().prop_map(Transport::Tcp), tcp_source(finite));
    let udp = ((1u32..1472).prop_map(|payload_bytes| Transport::Udp(Udp { payload_bytes })), cbr());
    let tfrc = ((64u32..1472).prop_map(|payload_bytes| Transport::Tfrc(Tfrc { payload_bytes })), Just(Source::Bulk));
    let stop = if finite {
        (0..ACTIVE_MS).prop_map(Some).boxed()
    } else {
        prop_oneof![3 => Just(None), 1 => (0..ACTIVE_MS).prop_map(Some)].boxed()
    };
    (
        0usize..8,
        0usize..8,
        0..ACTIVE_MS / 4,
        stop,
        select(vec![0u8, 10, 46]),
        prop_oneof![6 => tcp, 2 => udp, 1 => tfrc],
    )
        .prop_map(|(from, to, start, stop, dscp, (transport, source))| {
            (from, to, start * MS, stop.map(|ms| ms * MS), dscp, transport, source)
        })
}

fn change() -> impl Strategy<Value = (u64, usize, ChangeKind)> {
    let kind = prop_oneof![
        select(vec![500_000u64, 3_000_000, 20_000_000]).prop_map(|rate_bps| ChangeKind::Rate { rate_bps }),
        delay().prop_map(|delay| ChangeKind::Delay { delay }),
        loss().prop_map(|loss| ChangeKind::Loss { loss }),
    ];
    (0..ACTIVE_MS * MS, 0usize..64, kind)
}

/// A random plan: one to three routers in a line, two to six hosts on them, up to five flows.
pub fn plan(menu: Menu) -> impl Strategy<Value = Plan> {
    let changes = if menu.changes { vec(change(), 0..4).boxed() } else { Just(Vec::new()).boxed() };
    (
        any::<u64>(),
        1usize..4,
        vec((0usize..3, any::<bool>()), 2..7),
        vec(link(menu.dequeue_aqm), 16),
        vec(flow(menu.finite), 1..6),
        changes,
        1u64..40,
    )
        .prop_map(move |(seed, routers, hosts, links, flows, changes, bin_ms)| {
            let mut plan = network(routers, &hosts, &links);
            plan.seed = seed;
            plan.end_ns = if menu.finite { DRAINED_MS * MS } else { ACTIVE_MS * MS };
            let bin_ms = if menu.finite { 1000 } else { bin_ms };
            let bin_ns = bin_ms * MS;
            plan.measure = Measure {
                goodput_ns: bin_ns,
                tcp_ns: 7 * MS,
                links_ns: bin_ns,
                delay_ns: bin_ns,
                links: vec![],
                trace: None,
                acks: None,
            };
            if menu.finite {
                plan.measure.tcp_ns = 0;
            }
            for (i, recipe) in flows.into_iter().enumerate() {
                plan.flows.push(build_flow(i as u32, recipe, routers, &hosts));
            }
            plan.changes = changes
                .into_iter()
                .map(|(at_ns, link, change)| Change { at_ns, link: (link % plan.links.len()) as u32, change })
                .collect();
            plan.changes.sort_by_key(|change| change.at_ns);
            plan.validate().expect("a random plan is sound");
            plan
        })
}

/// Links: `2 i` from router `i` to `i + 1`, `2 i + 1` back; then per host one up and one down.
fn network(routers: usize, hosts: &[(usize, bool)], recipes: &[Link]) -> Plan {
    let node = |name: String, kind| Node { name, kind, switch: None, capacity: None };
    let mut nodes: Vec<Node> = (0..routers).map(|i| node(format!("r{i}"), NodeKind::Router)).collect();
    nodes.extend((0..hosts.len()).map(|i| node(format!("h{i}"), NodeKind::Host)));
    let mut ends = Vec::new();
    for i in 1..routers {
        ends.extend([(i - 1, i, false), (i, i - 1, false)]);
    }
    for (i, &(router, nic)) in hosts.iter().enumerate() {
        let (host, router) = (routers + i, router % routers);
        ends.extend([(host, router, nic), (router, host, false)]);
    }
    let links = ends.iter().enumerate().map(|(i, &(from, to, host_nic))| Link {
        name: format!("l{i}"),
        from: from as u32,
        to: to as u32,
        host_nic,
        ..recipes[i % recipes.len()].clone()
    });
    let links = links.collect();
    let measure =
        Measure { goodput_ns: 0, tcp_ns: 0, links_ns: 0, delay_ns: 0, links: vec![], trace: None, acks: None };
    Plan {
        version: 1,
        title: "random".into(),
        seed: 0,
        end_ns: 1,
        nodes,
        links,
        flows: vec![],
        changes: vec![],
        measure,
        phases: vec![],
        methods: weir_plan::Methods::default(),
    }
}

fn build_flow(index: u32, recipe: FlowRecipe, routers: usize, hosts: &[(usize, bool)]) -> Flow {
    let (from, to, start_ns, stop_ns, dscp, transport, source) = recipe;
    let from = from % hosts.len();
    let to = if to % hosts.len() == from { (from + 1) % hosts.len() } else { to % hosts.len() };
    Flow {
        name: format!("f[{index}]"),
        group: "f".into(),
        index,
        stream: 0,
        role: Role::Test,
        reverse: false,
        from: (routers + from) as u32,
        to: (routers + to) as u32,
        path: path(from, to, routers, hosts),
        reverse_path: path(to, from, routers, hosts),
        start_ns,
        stop_ns,
        transport,
        source,
        dscp,
    }
}

fn path(from: usize, to: usize, routers: usize, hosts: &[(usize, bool)]) -> Vec<u32> {
    let trunk = 2 * (routers - 1);
    let (a, b) = (hosts[from].0 % routers, hosts[to].0 % routers);
    let mut path = vec![trunk + 2 * from];
    if a < b {
        path.extend((a..b).map(|i| 2 * i));
    } else {
        path.extend((b..a).rev().map(|i| 2 * i + 1));
    }
    path.push(trunk + 2 * to + 1);
    path.into_iter().map(|link| link as u32).collect()
}
