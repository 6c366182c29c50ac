//! What the property tests share: plans, arrivals, and a link driven by events.

use proptest::prelude::*;
use weir_elements::plan::{
    CodelQueue, DroptailQueue, DrrQueue, DualPi2Queue, EtsQueue, FqCodelQueue, FqQueue, HtbQueue, MarksQueue, PieQueue,
    PoliceQueue, PrioQueue, QuickstartQueue, RcpQueue, RedQueue, SfqQueue, StepQueue, TbfQueue, WfqQueue, WrrQueue,
    XcpQueue,
};
use weir_elements::{
    CodelParams, DrrClass, EtsClass, HtbClass, Limit, Mark, Members, PrioClass, Queue, RedCurve, WfqClass, WrrClass,
};
use weir_elements::{DropReason, Port, Qdisc, Transmitter};
use weir_units::{Bytes, Rate, Time};

use crate::testing::TestPacket;

pub fn limit() -> impl Strategy<Value = Limit> {
    prop_oneof![
        (1_000u64..60_000).prop_map(|bytes| Limit { bytes: Some(bytes), packets: None }),
        (1u64..40).prop_map(|packets| Limit { bytes: None, packets: Some(packets) }),
        (1_000u64..60_000, 1u64..40).prop_map(|(b, p)| Limit { bytes: Some(b), packets: Some(p) }),
    ]
}

pub fn mark() -> impl Strategy<Value = Mark> {
    prop_oneof![Just(Mark::Drop), Just(Mark::Ecn)]
}

pub fn droptail() -> impl Strategy<Value = Queue> {
    limit().prop_map(|limit| Queue::Droptail(DroptailQueue { limit }))
}

/// RED with one curve or WRED with two; thresholds and weights at which the random arrivals cross every region.
pub fn red() -> impl Strategy<Value = Queue> {
    let curve = |dscp_from, dscp_to| {
        (500u64..8_000, 500u64..20_000, 0.01f64..1.0).prop_map(move |(min_bytes, width, max_p)| RedCurve {
            dscp_from,
            dscp_to,
            min_bytes,
            max_bytes: min_bytes + width,
            max_p,
        })
    };
    let curves =
        prop_oneof![curve(0, 63).prop_map(|c| vec![c]), (curve(0, 0), curve(1, 63)).prop_map(|(a, b)| vec![a, b])];
    (limit(), curves, 0.002f64..0.9, any::<bool>(), mark())
        .prop_map(|(limit, curves, weight, gentle, mark)| Queue::Red(RedQueue { limit, curves, weight, gentle, mark }))
}

pub fn step() -> impl Strategy<Value = Queue> {
    (limit(), 0u64..30_000, any::<bool>())
        .prop_map(|(limit, threshold_bytes, drop)| Queue::Step(StepQueue { limit, threshold_bytes, drop }))
}

pub fn marks() -> impl Strategy<Value = Queue> {
    (limit(), 0.0f64..=1.0).prop_map(|(limit, p)| Queue::Marks(MarksQueue { limit, p }))
}

/// Both schedulers, and controllers that act within the times of the arrivals.
pub fn dualpi2() -> impl Strategy<Value = Queue> {
    let controller = (1_000u64..3_000_000, 1_000u64..3_000_000, 0.5f64..4.0);
    let ramp = (0u64..2_000_000, prop_oneof![Just(0u64), 1u64..2_000_000], 0u64..3);
    let scheduler = (0u32..=1_000_000, prop::option::of(0u64..5_000_000));
    (limit(), controller, ramp, scheduler, any::<bool>()).prop_map(
        |(limit, (target_ns, update_ns, coupling), (threshold_ns, range_ns, spared_packets), scheduler, any_ect)| {
            let (classic_ppm, shift_ns) = scheduler;
            let (alpha, beta) = (15.0, 300.0);
            Queue::Dualpi2(DualPi2Queue {
                limit,
                target_ns,
                update_ns,
                alpha,
                beta,
                coupling,
                threshold_ns,
                range_ns,
                spared_packets,
                classic_ppm,
                shift_ns,
                any_ect,
            })
        },
    )
}

pub fn codel_params() -> impl Strategy<Value = CodelParams> {
    // Short against the times of the arrivals, so that the controllers act.
    let ce_threshold = prop::option::of(0u64..3_000_000);
    (1_000u64..3_000_000, 1_000u64..20_000_000, mark(), ce_threshold).prop_map(
        |(target_ns, interval_ns, mark, ce_threshold_ns)| CodelParams { target_ns, interval_ns, mark, ce_threshold_ns },
    )
}

/// The limit of a scheduler in the tests: the sum of the limits of its classes, or less.
pub fn shared_limit() -> impl Strategy<Value = Limit> {
    prop_oneof![Just(Limit { bytes: Some(1 << 30), packets: None }), limit()]
}

/// Two classes: code point 0 and some flows, and the rest of [`arrivals`].
pub fn members() -> impl Strategy<Value = [Members; 2]> {
    prop::sample::subsequence(vec![0u32, 1, 2, 3], 0..3)
        .prop_map(|flows| [Members { dscp: vec![0], flows, rest: false }, Members { rest: true, ..Members::default() }])
}

fn wrr(child: impl Strategy<Value = Queue> + Clone) -> impl Strategy<Value = Queue> {
    let class = (0u32..=500_000, any::<bool>(), child);
    (shared_limit(), 1u64..20_000, members(), class.clone(), class).prop_map(
        |(limit, burst_bytes, [a, b], first, second)| {
            let class = |name: &str, members, (weight_ppm, high, queue)| WrrClass {
                name: name.into(),
                members,
                weight_ppm,
                high,
                queue,
            };
            let classes = vec![class("a", a, first), class("b", b, second)];
            Queue::Wrr(WrrQueue { limit, burst_bytes, classes })
        },
    )
}

fn prio(child: impl Strategy<Value = Queue> + Clone) -> impl Strategy<Value = Queue> {
    (shared_limit(), members(), child.clone(), child).prop_map(|(limit, [a, b], first, second)| {
        let class = |name: &str, members, queue| PrioClass { name: name.into(), members, queue };
        Queue::Prio(PrioQueue { limit, classes: vec![class("a", a, first), class("b", b, second)] })
    })
}

fn drr(child: impl Strategy<Value = Queue> + Clone) -> impl Strategy<Value = Queue> {
    let class = (100u64..20_000, child);
    (shared_limit(), members(), class.clone(), class).prop_map(|(limit, [a, b], first, second)| {
        let class =
            |name: &str, members, (quantum_bytes, queue)| DrrClass { name: name.into(), members, quantum_bytes, queue };
        Queue::Drr(DrrQueue { limit, classes: vec![class("a", a, first), class("b", b, second)] })
    })
}

/// A strict class before one that takes turns, or two that do.
fn ets(child: impl Strategy<Value = Queue> + Clone) -> impl Strategy<Value = Queue> {
    let class = (100u64..20_000, child);
    (shared_limit(), members(), any::<bool>(), class.clone(), class).prop_map(
        |(limit, [a, b], strict, first, second)| {
            let class = |name: &str, members, strict, (quantum_bytes, queue)| EtsClass {
                name: name.into(),
                members,
                strict,
                quantum_bytes,
                queue,
            };
            let classes = vec![class("a", a, strict, first), class("b", b, false, second)];
            Queue::Ets(EtsQueue { limit, classes })
        },
    )
}

/// Two classes that may borrow, above or below the load of the [`arrivals`], with or without a limit for both.
fn htb(child: impl Strategy<Value = Queue> + Clone) -> impl Strategy<Value = Queue> {
    let rate = 1_000_003u64..100_000_000;
    let class = (rate.clone(), 0u64..100_000_000, 100u64..20_000, 0u32..3, 100u64..20_000, child);
    (shared_limit(), prop::option::of(rate), members(), class.clone(), class).prop_map(
        |(limit, rate_bps, [a, b], first, second)| {
            let class = |name: &str, members, (rate, more, burst_bytes, priority, quantum_bytes, queue)| HtbClass {
                name: name.into(),
                members,
                rate_bps: rate,
                ceil_bps: (more > 0).then_some(rate + more),
                burst_bytes,
                priority,
                quantum_bytes,
                queue,
            };
            let classes = vec![class("a", a, first), class("b", b, second)];
            Queue::Htb(HtbQueue { limit, rate_bps, classes })
        },
    )
}

fn wfq(child: impl Strategy<Value = Queue> + Clone) -> impl Strategy<Value = Queue> {
    let class = (1u32..=500_000, child);
    (shared_limit(), members(), class.clone(), class).prop_map(|(limit, [a, b], first, second)| {
        let class =
            |name: &str, members, (weight_ppm, queue)| WfqClass { name: name.into(), members, weight_ppm, queue };
        Queue::Wfq(WfqQueue { limit, classes: vec![class("a", a, first), class("b", b, second)] })
    })
}

/// A shaper above or below the rate of the [`port`].
fn tbf(child: impl Strategy<Value = Queue>) -> impl Strategy<Value = Queue> {
    (shared_limit(), 1_000_003u64..200_000_000, 100u64..20_000, child).prop_map(
        |(limit, rate_bps, burst_bytes, queue)| {
            Queue::Tbf(TbfQueue { limit, rate_bps, burst_bytes, queue: Box::new(queue) })
        },
    )
}

/// A policer with either meter, above or below the load of the [`arrivals`].
fn police(child: impl Strategy<Value = Queue>) -> impl Strategy<Value = Queue> {
    let peak = prop_oneof![Just(0u64), 0u64..200_000_000];
    let meter = (1_000_003u64..200_000_000, 100u64..20_000, 0u64..20_000, peak, any::<bool>());
    (shared_limit(), meter, child).prop_map(|(limit, (rate_bps, burst_bytes, second, above, drop_yellow), queue)| {
        let (excess_bytes, peak_burst_bytes) = if above == 0 { (second, 0) } else { (0, second + 1) };
        let peak_bps = if above == 0 { 0 } else { rate_bps + above };
        let queue = Box::new(queue);
        Queue::Police(PoliceQueue {
            limit,
            rate_bps,
            burst_bytes,
            excess_bytes,
            peak_bps,
            peak_burst_bytes,
            drop_yellow,
            queue,
        })
    })
}

fn scheduler(child: impl Strategy<Value = Queue> + Clone) -> impl Strategy<Value = Queue> {
    prop_oneof![
        wrr(child.clone()),
        prio(child.clone()),
        drr(child.clone()),
        ets(child.clone()),
        wfq(child.clone()),
        htb(child.clone()),
        tbf(child.clone()),
        police(child)
    ]
}

/// Every queue, and schedulers whose classes have any queue, other schedulers too.
pub fn any_queue() -> impl Strategy<Value = Queue> {
    let plain = any_plain_queue().boxed();
    let nested = prop_oneof![4 => plain.clone(), 1 => scheduler(plain.clone())].boxed();
    prop_oneof![4 => plain, 5 => scheduler(nested)]
}

fn any_plain_queue() -> impl Strategy<Value = Queue> {
    prop_oneof![
        droptail(),
        red(),
        step(),
        marks(),
        dualpi2(),
        (limit(), 0.01f64..2.0, 0.01f64..2.0, 0.0f64..1.0)
            .prop_map(|(limit, alpha, beta, gamma)| Queue::Xcp(XcpQueue { limit, alpha, beta, gamma })),
        (limit(), 0.01f64..2.0, 0.01f64..2.0, 0.1f64..1.0, 1_000u64..20_000_000, 0.01f64..1.0).prop_map(
            |(limit, alpha, beta, eta, update_ns, initial)| Queue::Rcp(RcpQueue {
                limit,
                alpha,
                beta,
                eta,
                update_ns,
                initial
            })
        ),
        (limit(), 0.01f64..1.0, 5u64..2_000_000_000)
            .prop_map(|(limit, share, window_ns)| { Queue::Quickstart(QuickstartQueue { limit, share, window_ns }) }),
        (limit(), codel_params()).prop_map(|(limit, codel)| Queue::Codel(CodelQueue { limit, codel })),
        (limit(), 1u32..16, 100u32..3000, codel_params()).prop_map(|(limit, buckets, quantum_bytes, codel)| {
            Queue::FqCodel(FqCodelQueue { limit, buckets, quantum_bytes, codel })
        }),
        fq(),
        (limit(), 1u32..16, 100u32..3000, 1u32..40, 1u32..8, prop_oneof![Just(0u64), 1_000_000u64..1_000_000_000])
            .prop_map(|(limit, buckets, quantum_bytes, depth_packets, flows, perturb_ns)| {
                Queue::Sfq(SfqQueue { limit, buckets, quantum_bytes, depth_packets, flows, perturb_ns })
            }),
        (limit(), 1_000u64..3_000_000, 1_000u64..3_000_000, mark()).prop_map(|(limit, target_ns, update_ns, mark)| {
            Queue::Pie(PieQueue { limit, target_ns, update_ns, alpha: 12.5, beta: 125.0, mark })
        }),
    ]
}

fn fq() -> impl Strategy<Value = Queue> {
    let rate = prop::option::of(100_000u64..100_000_000);
    let threshold = prop::option::of(0u64..3_000_000);
    let quanta = (100u32..3000, 0u32..10_000);
    (limit(), 1u64..50, 1u32..16, quanta, 0u64..30_000_000, rate, threshold).prop_map(
        |(
            limit,
            flow_limit,
            buckets,
            (quantum_bytes, initial_quantum_bytes),
            refill_ns,
            max_rate_bps,
            ce_threshold_ns,
        )| {
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

/// Ports from well above to well below the load of [`arrivals`], at odd rates.
pub fn port() -> impl Strategy<Value = Port> {
    (3_000_001u64..200_000_000, 0u32..40).prop_map(|(rate, overhead_bytes)| Port {
        rate: Rate(rate),
        overhead_bytes,
        mtu_bytes: 1500,
    })
}

/// Packets and the instants of their arrival: bursts, and now and then an idle time.
pub fn arrivals() -> impl Strategy<Value = Vec<(Time, TestPacket)>> {
    let gap = prop_oneof![3 => Just(0u64), 6 => 0u64..200_000, 1 => 0u64..20_000_000];
    let packet = (gap, 40u32..=1500, 0u32..6, 0u8..2, 0u8..3);
    prop::collection::vec(packet, 1..400).prop_map(|packets| {
        let mut now = 0;
        let with_time = |(id, (gap, bytes, flow, dscp, ecn))| {
            now += gap;
            let (ecn, ect1) = (ecn > 0, ecn > 1);
            let packet = TestPacket { dscp, ecn, ect1, ..TestPacket::new(id, bytes).of_flow(flow) };
            (Time(now), packet)
        };
        (0..).zip(packets).map(with_time).collect()
    })
}

/// Packets of one size on a grid of their transmission time, so that arrivals fall on the instants of departures.
pub fn arrivals_on_departures(port: Port) -> impl Strategy<Value = Vec<(Time, TestPacket)>> {
    let slot = port.rate.time_for(Bytes(1500 + u64::from(port.overhead_bytes)));
    prop::collection::vec((0u64..4, 0u8..2), 1..300).prop_map(move |packets| {
        let mut now = Time::ZERO;
        let with_time = |(id, (slots, dscp)): (u32, (u64, u8))| {
            // Three of four go on within the slot: bursts.
            now += slot * slots.saturating_sub(1);
            (now, TestPacket { dscp, ecn: id % 2 == 0, ..TestPacket::new(id, 1500) })
        };
        (0..).zip(packets).map(with_time).collect()
    })
}

/// A transmitter that draws on a queue by events, as a driver does it.
pub struct EventedLink<Q> {
    pub queue: Q,
    transmitter: Transmitter,
    port: Port,
    in_transmission: Option<(Time, TestPacket)>,
    pub departures: Vec<(Time, TestPacket)>,
    pub dropped: Vec<(u32, DropReason)>,
}

impl<Q: Qdisc<TestPacket>> EventedLink<Q> {
    pub fn new(queue: Q, port: Port) -> EventedLink<Q> {
        let transmitter = Transmitter::new(port.rate);
        EventedLink { queue, transmitter, port, in_transmission: None, departures: Vec::new(), dropped: Vec::new() }
    }

    /// Lets departures happen up to and including `now`.
    pub fn advance(&mut self, now: Time) {
        while let Some((departure, packet)) = self.in_transmission.take_if(|(departure, _)| *departure <= now) {
            self.departures.push((departure, packet));
            self.start(departure);
        }
    }

    pub fn arrive(&mut self, now: Time, packet: TestPacket) {
        self.advance(now);
        self.queue.enqueue(now, packet, &mut |p, reason| self.dropped.push((p.id, reason)));
        if self.in_transmission.is_none() {
            self.start(now);
        }
    }

    fn start(&mut self, now: Time) {
        let out = self.queue.dequeue(now, &mut |p, reason| self.dropped.push((p.id, reason)));
        if let Some(out) = out {
            let departure = self.transmitter.transmit(now, self.port.wire_bytes(&out.packet));
            self.in_transmission = Some((departure, out.packet));
        }
    }
}
