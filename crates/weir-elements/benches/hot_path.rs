//! Nanoseconds for each operation on the path of every packet: `cargo bench -p weir-elements`.
//!
//! Best of five rounds of ten million operations, so that a busy machine shows the cost of the code and not of its neighbours.

#![allow(clippy::disallowed_methods, reason = "it measures wall time")]

use std::hint::black_box;
use std::time::Instant;

use weir_elements::plan::{CodelQueue, DroptailQueue, FqCodelQueue, PieQueue, RedQueue};
use weir_elements::{
    Admission, AnyQdisc, Arrival, Backlog, DelayLine, FifoLink, LossModel, Packet, Port, Qdisc, Transmitter,
};
use weir_elements::{CodelParams, Delay, Limit, Loss, Mark, Queue, RedCurve};
use weir_units::{Rate, Stream, Time};

const OPERATIONS: u64 = 10_000_000;
const PORT: Port = Port { rate: Rate(9_999_999_937), overhead_bytes: 38, mtu_bytes: 1500 };
const LIMIT: Limit = Limit { bytes: Some(1_000_000), packets: None };

#[derive(Clone, Copy)]
struct Segment(u32);

impl Packet for Segment {
    fn ip_bytes(&self) -> u32 {
        1500
    }
    fn is_data(&self) -> bool {
        true
    }
    fn ecn_capable(&self) -> bool {
        false
    }
    fn is_l4s(&self) -> bool {
        false
    }
    fn mark_ce(&mut self) {}
    fn flow_hash(&self) -> u32 {
        self.0
    }
    fn dscp(&self) -> u8 {
        0
    }
}

fn measure(name: &str, mut operation: impl FnMut(u64)) {
    let best = (0..5)
        .map(|_| {
            let start = Instant::now();
            for i in 0..OPERATIONS {
                operation(i);
            }
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    println!("{name:<32} {:6.2} ns", best * 1e9 / OPERATIONS as f64);
}

fn stream() -> Stream {
    Stream::new(1, "bench")
}

fn red() -> Queue {
    let curve = RedCurve { dscp_from: 0, dscp_to: 63, min_bytes: 200_000, max_bytes: 800_000, max_p: 0.1 };
    Queue::Red(RedQueue { limit: LIMIT, curves: vec![curve], weight: 0.002, gentle: true, mark: Mark::Ecn })
}

fn admissions() {
    let arrival = Arrival { bytes: 1538, ecn_capable: true, dscp: 0 };
    for (name, plan) in [("admit: drop-tail", Queue::Droptail(DroptailQueue { limit: LIMIT })), ("admit: RED", red())] {
        let mut admission = Admission::from_plan(&plan, &PORT, stream()).expect("it decides at arrival");
        measure(name, |i| {
            let queue = Backlog { bytes: i * 1538 % 900_000, packets: 100, idle_since: None };
            black_box(admission.admit(Time(i), black_box(&arrival), &queue));
        });
    }
}

fn losses() {
    for (name, loss) in [
        ("drops: Bernoulli", Loss::Bernoulli { p: 0.001 }),
        ("drops: Gilbert-Elliott", Loss::GilbertElliott { p: 0.001, r: 0.1, good: 0.0, bad: 1.0 }),
        ("drops: list", Loss::List { packets: (0..1000).map(|n| n * 1000).collect() }),
    ] {
        let mut model = LossModel::from_plan(&loss, stream());
        measure(name, |_| {
            black_box(model.drops(black_box(true)));
        });
    }
}

fn delays() {
    let jitter = |normal| Delay::Jitter { delay_ns: 50_000_000, jitter_ns: 1_000_000, normal, reorder: false };
    for (name, delay) in [
        ("release_time: fixed", Delay::Fixed { delay_ns: 50_000_000 }),
        ("release_time: uniform jitter", jitter(false)),
        ("release_time: normal jitter", jitter(true)),
    ] {
        let mut line = DelayLine::from_plan(&delay, stream());
        measure(name, |i| {
            black_box(line.release_time(black_box(Time(i * 1000))));
        });
    }
}

fn transmitters() {
    let mut transmitter = Transmitter::new(PORT.rate);
    measure("transmit: one size", |_| {
        black_box(transmitter.transmit(Time(0), black_box(1538)));
    });
    let mut transmitter = Transmitter::new(PORT.rate);
    measure("transmit: two sizes in turn", |i| {
        black_box(transmitter.transmit(Time(0), black_box(if i & 1 == 0 { 1538 } else { 90 })));
    });
    let mut transmitter = Transmitter::new(PORT.rate);
    measure("transmit: all sizes", |i| {
        black_box(transmitter.transmit(Time(0), black_box(64 + (i % 1475) as u32)));
    });
}

fn links() {
    let arrival = Arrival { bytes: 1538, ecn_capable: true, dscp: 0 };
    for (name, plan) in
        [("offer: drop-tail link", Queue::Droptail(DroptailQueue { limit: LIMIT })), ("offer: RED link", red())]
    {
        let admission = Admission::from_plan(&plan, &PORT, stream()).expect("it decides at arrival");
        let mut link = FifoLink::new(admission, PORT.rate);
        let mut now = 0;
        measure(name, |_| {
            // 0.5 % over the rate: the queue fills and stays full.
            now += 1224;
            black_box(link.offer(Time(now), black_box(&arrival)));
        });
    }
}

fn qdiscs() {
    let codel = CodelParams { target_ns: 5_000_000, interval_ns: 100_000_000, mark: Mark::Drop, ce_threshold_ns: None };
    let pie = Queue::Pie(PieQueue {
        limit: LIMIT,
        target_ns: 15_000_000,
        update_ns: 15_000_000,
        alpha: 0.125,
        beta: 1.25,
        mark: Mark::Drop,
    });
    for (name, plan) in [
        ("enqueue, dequeue: drop-tail", Queue::Droptail(DroptailQueue { limit: LIMIT })),
        ("enqueue, dequeue: RED", red()),
        ("enqueue, dequeue: CoDel", Queue::Codel(CodelQueue { limit: LIMIT, codel })),
        (
            "enqueue, dequeue: FQ-CoDel",
            Queue::FqCodel(FqCodelQueue { limit: LIMIT, buckets: 1024, quantum_bytes: 1538, codel }),
        ),
        ("enqueue, dequeue: PIE", pie),
    ] {
        let mut queue = AnyQdisc::from_plan(&plan, PORT, stream());
        for flow in 0..100 {
            queue.enqueue(Time(0), Segment(flow), &mut |_, _| {});
        }
        let mut now = 0;
        measure(name, |i| {
            now += 1230;
            queue.enqueue(Time(now), Segment((i % 12) as u32), &mut |_, _| {});
            black_box(queue.dequeue(Time(now), &mut |_, _| {}));
        });
    }
}

fn main() {
    admissions();
    losses();
    delays();
    transmitters();
    links();
    qdiscs();
}
