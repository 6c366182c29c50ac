//! A small switch as a node with state, and a node that passes everything on at once.

use std::collections::VecDeque;

use weir_plan::{Flow, NodeKind, Plan, Source};
use weir_run::Tables;
use weir_switch::Ports as _;
use weir_units::Time;

use super::common::{CONTROL, MS, S, add_flow, cbr, close, droptail, dumbbell, goodput, tcp, udp};
use super::run;
use crate::simulation::Options;
use crate::simulation::nodes::{Node, Passing, Ports};

/// Where the two flows of a dumbbell meet: the near end of its bottleneck.
const LEFT: u32 = 0;

/// Forwards at once, as a router does.
struct Transparent;

impl Node for Transparent {
    fn arrive(&mut self, passing: Passing, ports: &mut Ports<'_>) {
        ports.forward(passing);
    }
    fn act(&mut self, _ports: &mut Ports<'_>) {
        unreachable!("it is never due");
    }
    fn due(&self) -> Time {
        Time::MAX
    }
    fn packets(&self) -> u64 {
        0
    }
}

/// Input queues in one memory of `memory` packets, and a round-robin arbiter at the output `contended`; all other outputs
/// are passed through. An input may hold `alpha` times the free memory (Choudhury and Hahne, "Dynamic queue length
/// thresholds for shared-memory packet switches", IEEE/ACM Transactions on Networking 6(2), 1998).
struct Switch {
    contended: u32,
    memory: usize,
    alpha: usize,
    /// The queue of each input link seen so far.
    inputs: Vec<(u32, VecDeque<Passing>)>,
    turn: usize,
    due: Time,
}

impl Switch {
    fn new(contended: u32, memory: usize, alpha: usize) -> Switch {
        Switch { contended, memory, alpha, inputs: Vec::new(), turn: 0, due: Time::MAX }
    }

    fn used(&self) -> usize {
        self.inputs.iter().map(|(_, queue)| queue.len()).sum()
    }
}

impl Node for Switch {
    fn arrive(&mut self, passing: Passing, ports: &mut Ports<'_>) {
        if passing.output != self.contended {
            ports.forward(passing);
            return;
        }
        let free = self.memory - self.used();
        let place = self.inputs.iter().position(|(input, _)| *input == passing.input).unwrap_or_else(|| {
            self.inputs.push((passing.input, VecDeque::new()));
            self.inputs.len() - 1
        });
        let queue = &mut self.inputs[place].1;
        if free == 0 || queue.len() >= self.alpha.saturating_mul(free) {
            ports.drop(passing);
            return;
        }
        queue.push_back(passing);
        self.due = self.due.min(ports.idle_from(self.contended));
    }

    fn act(&mut self, ports: &mut Ports<'_>) {
        self.due = Time::MAX;
        let count = self.inputs.len();
        for place in (self.turn..self.turn + count).map(|place| place % count) {
            let Some(passing) = self.inputs[place].1.pop_front() else { continue };
            assert_eq!(ports.idle_from(self.contended), ports.now(), "the arbiter sends when the output is free");
            self.turn = place + 1;
            ports.forward(passing);
            break;
        }
        if self.used() > 0 {
            self.due = ports.idle_from(self.contended);
        }
    }

    fn due(&self) -> Time {
        self.due
    }

    fn packets(&self) -> u64 {
        self.used() as u64
    }
}

const RATE: u64 = 10_000_000;
/// The wire takes 1000 of the 1038 bytes of a datagram.
const FULL: f64 = RATE as f64 * 972.0 / 1038.0;

/// A datagram source for each of these shares of the rate that the two inputs contend for.
fn contention(shares: &[f64]) -> Plan {
    let mut plan = dumbbell(shares.len() as u32, 10 * RATE, RATE, 20 * MS, droptail(None, Some(100)), 10 * S);
    for (pair, share) in (0..).zip(shares) {
        // Of IP bytes, 38 less a packet than on the wire.
        let rate = share * RATE as f64 * 1000.0 / 1038.0;
        let flow = add_flow(&mut plan, pair, u64::from(pair) * 12_345, tcp(CONTROL), cbr(rate as u64));
        plan.flows[flow].transport = udp(1000);
    }
    plan
}

fn switched(plan: &Plan, options: Options, memory: usize, alpha: usize) -> Tables {
    run(plan, options, S, |parts| parts.nodes.push((LEFT, Box::new(Switch::new(0, memory, alpha)))))
}

/// Goodput of a flow from second 2 on, bit/s.
fn rate(tables: &Tables, flow: u32) -> f64 {
    goodput(tables, flow, 2 * S, 10 * S)
}

#[test]
fn a_node_without_state_is_a_router() {
    let mut plan = dumbbell(3, 100_000_000, 20_000_000, 20 * MS, droptail(Some(60_000), None), 5 * S);
    plan.measure.delay_ns = 100 * MS;
    plan.measure.links = vec![];
    for pair in 0..2 {
        add_flow(&mut plan, pair, u64::from(pair) * 10 * MS, tcp(CONTROL), Source::Bulk);
    }
    let datagrams = add_flow(&mut plan, 2, 0, tcp(CONTROL), cbr(3_000_000));
    plan.flows[datagrams] = Flow { transport: udp(700), ..plan.flows[datagrams].clone() };
    assert!(plan.nodes[LEFT as usize].kind == NodeKind::Router);
    let router = run(&plan, Options::default(), S, |_| {});
    let node = run(&plan, Options::default(), S, |parts| parts.nodes.push((LEFT, Box::new(Transparent))));
    assert!(router.flows.lost_packets.iter().sum::<u64>() > 0);
    assert_eq!(node, router);
}

#[test]
fn a_round_robin_arbiter_serves_its_inputs_in_turn() {
    let tables = switched(&contention(&[0.8, 1.6]), Options::default(), 40, 1);
    for flow in 0..2 {
        close("half of the output", rate(&tables, flow), FULL / 2.0, 0.001);
    }
    let links = &tables.links;
    // The node holds the packets, and the queue of the output port none.
    assert_eq!(links.queue_max_bytes.iter().max(), Some(&0));
    assert_eq!(links.queue_delay_max_ns.iter().filter(|&&ns| ns < u64::MAX).max(), Some(&0));
    let sum = |column: &[u64]| column.iter().sum::<u64>();
    assert_eq!(sum(&links.drop_packets), sum(&tables.flows.lost_packets));
    assert_eq!(sum(&links.in_packets), sum(&links.out_packets) + sum(&links.drop_packets));
}

#[test]
fn an_input_that_asks_for_less_than_its_turn_gets_all_and_the_other_the_rest() {
    let tables = switched(&contention(&[0.21, 1.57]), Options::default(), 40, 1);
    close("the small one", rate(&tables, 0), 0.21 * FULL, 0.001);
    close("the rest", rate(&tables, 1), 0.79 * FULL, 0.001);
    assert_eq!(tables.flows.lost_packets[0], 0, "the threshold keeps room for an input that is nearly empty");
    let unfair = switched(&contention(&[0.21, 1.57]), Options::default(), 40, usize::MAX);
    let lost = unfair.flows.lost_packets[0];
    assert!(lost > 100, "without it one input fills the memory of both: {lost}");
}

#[test]
fn a_switch_gives_the_same_tables_fused_or_not_and_in_any_steps() {
    let mut plan = contention(&[0.3, 0.5]);
    plan.measure.delay_ns = 100 * MS;
    add_flow(&mut plan, 0, 0, tcp(CONTROL), Source::Bulk);
    let make = |options, step_ns| {
        run(&plan, options, step_ns, |parts| parts.nodes.push((LEFT, Box::new(Switch::new(0, 30, 1)))))
    };
    let whole = make(Options::default(), 20 * S);
    assert!(whole.flows.lost_packets[2] > 0 && whole.flows.delivered_bytes[2] > 100_000);
    assert_eq!(make(Options::default(), 13 * MS), whole);
    assert_eq!(make(Options { reference: true, ..Options::default() }, S), whole);
}
