//! A switch between the links of a plan.

use std::collections::VecDeque;

use weir_elements::Packet;
use weir_plan::{Plan, Switch as SwitchPlan};
use weir_run::PortRow;
use weir_units::{Stream, Time};

use crate::arbiter::Arbiter;
use crate::matching::Matching;
use crate::memory::Memory;
use crate::meter::Meter;
use crate::queues::{Held, Queues};

/// A packet at a node.
#[derive(Clone, Copy, Debug)]
pub struct Passing<P> {
    /// The packet.
    pub packet: P,
    /// The link over which it arrived: its input port.
    pub input: u32,
    /// The next link of its route: its output port.
    pub output: u32,
}

/// What a driver does for a switch while it acts.
pub trait Ports<P> {
    /// The current instant.
    fn now(&self) -> Time;

    /// The instant at which the link `output` becomes idle; not before now. While the rate of the link is 0, the instant
    /// to ask again.
    fn idle_from(&self, output: u32) -> Time;

    /// Forwards a packet to the link of its output port.
    fn forward(&mut self, passing: Passing<P>);

    /// Drops a packet.
    fn drop(&mut self, passing: Passing<P>);

    /// Gives the transmitter of the link of an input port another rate, bit/s, from its next packet on; 0 stops it.
    fn throttle(&mut self, input: u32, rate_bps: u64);
}

/// A switch of a plan.
pub struct Switch<P> {
    inputs: Vec<Input>,
    outputs: Vec<Output<P>>,
    /// By link: its number among the input ports, and among the output ports.
    input_of: Vec<u16>,
    output_of: Vec<u16>,
    memory: Memory,
    resume_bytes: u64,
    matching: Option<Matching>,
    fabric: Option<Fabric<P>>,
    pause: Option<PauseControl>,
    meter: Option<Meter>,
    packets: u64,
    due: Time,
    /// Free ports, while they are matched.
    free: (Vec<bool>, Vec<bool>),
}

struct Input {
    link: u32,
    /// When the fabric has passed its last packet on; for matching arbiters.
    free_from: Time,
    /// Bytes on the wire in the memory.
    bytes: u64,
}

struct Output<P> {
    link: u32,
    queues: Queues<P>,
    /// For arbiters that choose for each output alone.
    arbiter: Option<Arbiter>,
    due: Time,
}

/// The time that packets spend before they enter the memory.
struct Fabric<P> {
    jitter_ns: u64,
    stream: Stream,
    /// By input: packets under way, with their output and the end of their time.
    under_way: Vec<VecDeque<(Time, P, u16)>>,
    /// By input: the end of the last packet's time.
    last: Vec<Time>,
}

impl<P> Fabric<P> {
    /// The next packet of an input whose time is over, with its output.
    fn next(&mut self, now: Time, input: usize) -> Option<(P, u16)> {
        let (at, ..) = self.under_way[input].front()?;
        if *at > now {
            return None;
        }
        self.under_way[input].pop_front().map(|(_, packet, output)| (packet, output))
    }

    fn due(&self) -> Time {
        self.under_way.iter().filter_map(VecDeque::front).map(|(at, ..)| *at).min().unwrap_or(Time::MAX)
    }
}

struct PauseControl {
    high_bytes: u64,
    low_bytes: u64,
    /// By input: rate of its sender, bit/s, and time until it obeys.
    senders: Vec<(u64, u64)>,
    /// By input: whether its sender has been told to stop.
    stopped: Vec<bool>,
    /// Commands under way: the instant at which the sender obeys, the input, whether to stop.
    commands: Vec<(Time, usize, bool)>,
}

impl PauseControl {
    fn new(plan: &Plan, switch: &SwitchPlan, inputs: &[u32]) -> Option<PauseControl> {
        let pause = switch.pause?;
        let sender = |link: &u32| (plan.links[*link as usize].rate_bps, plan.pause_delay_ns(*link).unwrap_or_default());
        Some(PauseControl {
            high_bytes: pause.high_bytes,
            low_bytes: pause.low_bytes,
            senders: inputs.iter().map(sender).collect(),
            stopped: vec![false; inputs.len()],
            commands: Vec::new(),
        })
    }

    fn due(&self) -> Time {
        self.commands.iter().map(|(at, ..)| *at).min().unwrap_or(Time::MAX)
    }

    /// Commands the sender of an input that has `bytes` in the memory, if it has to change.
    fn watch(&mut self, now: Time, input: usize, bytes: u64) {
        let stop = if self.stopped[input] { bytes > self.low_bytes } else { bytes >= self.high_bytes };
        if stop != self.stopped[input] {
            self.stopped[input] = stop;
            self.commands.push((Time(now.0 + self.senders[input].1), input, stop));
        }
    }

    fn next_command(&mut self, now: Time) -> Option<(usize, bool)> {
        let place = self.commands.iter().position(|(at, ..)| *at <= now)?;
        let (_, input, stop) = self.commands.remove(place);
        Some((input, stop))
    }
}

/// No port.
const NONE: u16 = u16::MAX;

impl<P: Packet + Copy> Switch<P> {
    /// The switch at node `number` of the plan.
    pub fn new(plan: &Plan, number: u32, switch: &SwitchPlan) -> Switch<P> {
        let ports = |of: fn(&weir_plan::Link) -> u32| -> Vec<u32> {
            (0..).zip(&plan.links).filter(|(_, link)| of(link) == number).map(|(index, _)| index).collect()
        };
        let (ins, outs) = (ports(|link| link.to), ports(|link| link.from));
        let name = &plan.nodes[number as usize].name;
        let stream = |what: &str| Stream::new(plan.seed, &format!("node/{name}/{what}"));
        let matching = Matching::new(&switch.arbiter, ins.len(), outs.len(), || stream("arbiter"));
        let queues = if switch.arbiter == weir_plan::Arbiter::Fifo { 1 } else { ins.len() };
        let outputs = outs.iter().map(|&link| {
            let given = &plan.links[link as usize];
            let weights = ins.iter().map(|input| weight(&switch.arbiter, *input));
            let arbiter = Arbiter::new(&switch.arbiter, weights, || stream(&format!("arbiter/{}", given.name)));
            Output { link, queues: Queues::new(queues, given.overhead_bytes), arbiter, due: Time::MAX }
        });
        let recorded = |link: &u32| plan.measure.links.is_empty() || plan.measure.links.contains(link);
        let meter = (plan.measure.links_ns > 0).then(|| {
            let outputs = outs.iter().map(|link| (*link, recorded(link))).collect();
            Meter::new(number, plan.measure.links_ns, ins.clone(), outputs)
        });
        let fabric = (switch.jitter_ns > 0).then(|| Fabric {
            jitter_ns: switch.jitter_ns,
            stream: stream("jitter"),
            under_way: ins.iter().map(|_| VecDeque::new()).collect(),
            last: vec![Time::ZERO; ins.len()],
        });
        Switch {
            inputs: ins.iter().map(|&link| Input { link, free_from: Time::ZERO, bytes: 0 }).collect(),
            outputs: outputs.collect(),
            input_of: numbers(&ins, plan.links.len()),
            output_of: numbers(&outs, plan.links.len()),
            memory: Memory::new(&switch.memory),
            resume_bytes: switch.resume_bytes,
            matching,
            fabric,
            pause: PauseControl::new(plan, switch, &ins),
            meter,
            packets: 0,
            due: Time::MAX,
            free: (vec![false; ins.len()], vec![false; outs.len()]),
        }
    }

    /// Takes a packet into the memory, or drops it.
    fn admit(&mut self, packet: P, input: u16, output: u16, ports: &mut impl Ports<P>) {
        let (now, to) = (ports.now(), &mut self.outputs[usize::from(output)]);
        let (queue, wire) = (to.queues.of(input), to.queues.wire(&packet));
        let held = to.queues.bytes(queue);
        let spare = if to.queues.full[queue] { self.resume_bytes } else { 0 };
        to.queues.full[queue] = !self.memory.has_room(held, wire, spare);
        if to.queues.full[queue] {
            self.packets -= 1;
            if let Some(meter) = &mut self.meter {
                meter.dropped(now, usize::from(output), usize::from(input), packet.ip_bytes());
            }
            let from = self.inputs[usize::from(input)].link;
            ports.drop(Passing { packet, input: from, output: to.link });
            return;
        }
        self.memory.take(held, wire);
        if let (Some(arbiter), false) = (&mut to.arbiter, to.queues.has(queue)) {
            arbiter.backlogged(queue, wire);
        }
        to.queues.push(queue, Held { packet, input });
        to.due = to.due.min(ports.idle_from(to.link));
        self.due = self.due.min(to.due);
        if let Some(meter) = &mut self.meter {
            meter.admitted(now, usize::from(output), usize::from(input), packet.ip_bytes());
        }
        let from = &mut self.inputs[usize::from(input)];
        from.bytes += wire;
        if let Some(pause) = &mut self.pause {
            pause.watch(now, usize::from(input), from.bytes);
            self.due = self.due.min(pause.due());
        }
    }

    /// Forwards the first packet of a queue of an output that is idle.
    fn serve(&mut self, output: usize, queue: usize, ports: &mut impl Ports<P>) {
        let now = ports.now();
        let from = &mut self.outputs[output];
        let before = from.queues.bytes(queue);
        let Held { packet, input } = from.queues.pop(queue);
        let wire = from.queues.wire(&packet);
        self.memory.give(before, wire);
        if let Some(arbiter) = &mut from.arbiter {
            arbiter.served(queue, from.queues.head(queue));
        }
        self.packets -= 1;
        if let Some(meter) = &mut self.meter {
            meter.served(now, output, usize::from(input), packet.ip_bytes());
        }
        let port = &mut self.inputs[usize::from(input)];
        port.bytes -= wire;
        if let Some(pause) = &mut self.pause {
            pause.watch(now, usize::from(input), port.bytes);
        }
        ports.forward(Passing { packet, input: port.link, output: from.link });
    }

    /// Serves the outputs that are due, each by its own arbiter.
    fn serve_alone(&mut self, ports: &mut impl Ports<P>) {
        let now = ports.now();
        for output in 0..self.outputs.len() {
            let port = &mut self.outputs[output];
            if port.due > now {
                continue;
            }
            let idle = ports.idle_from(port.link);
            let (true, Some(arbiter)) = (idle <= now, &mut port.arbiter) else {
                port.due = idle;
                continue;
            };
            let queue = arbiter.choose(now, &port.queues);
            self.serve(output, queue, ports);
            let port = &mut self.outputs[output];
            port.due = if port.queues.waiting() > 0 { ports.idle_from(port.link) } else { Time::MAX };
        }
    }

    /// Serves the pairs of ports that the matching arbiter finds.
    fn serve_matched(&mut self, ports: &mut impl Ports<P>) {
        let Some(mut matching) = self.matching.take() else { return };
        let now = ports.now();
        let (mut inputs, mut outputs) = std::mem::take(&mut self.free);
        for (free, input) in inputs.iter_mut().zip(&self.inputs) {
            *free = input.free_from <= now;
        }
        for (free, output) in outputs.iter_mut().zip(&self.outputs) {
            *free = output.queues.waiting() > 0 && ports.idle_from(output.link) <= now;
        }
        matching.run(&mut inputs, &mut outputs, |input, output| self.outputs[output].queues.has(input));
        for &(input, output) in &matching.matched {
            self.serve(output, input, ports);
            self.inputs[input].free_from = ports.idle_from(self.outputs[output].link);
        }
        self.free = (inputs, outputs);
        self.matching = Some(matching);
        self.rematch(ports);
    }

    /// Sets the instants at which outputs with packets are matched again.
    fn rematch(&mut self, ports: &impl Ports<P>) {
        let now = ports.now();
        let idle = |output: &Output<P>| ports.idle_from(output.link);
        // With few rounds a free pair may be left over: it is matched when another one becomes free.
        let others = self.inputs.iter().map(|input| input.free_from).filter(|at| *at > now).min();
        let later = others.unwrap_or(Time::MAX);
        for output in &mut self.outputs {
            let wants = |input: &usize| output.queues.has(*input);
            let free = (0..self.inputs.len()).filter(wants).map(|input| self.inputs[input].free_from).min();
            output.due = free.map_or(Time::MAX, |free| free.max(idle(output)));
            if output.due <= now {
                output.due = later;
            }
        }
    }

    fn find_due(&mut self) {
        let outputs = self.outputs.iter().map(|output| output.due).min().unwrap_or(Time::MAX);
        let fabric = self.fabric.as_ref().map_or(Time::MAX, Fabric::due);
        let pause = self.pause.as_ref().map_or(Time::MAX, PauseControl::due);
        self.due = outputs.min(fabric).min(pause);
    }

    /// A packet has arrived.
    pub fn arrive(&mut self, passing: Passing<P>, ports: &mut impl Ports<P>) {
        let now = ports.now();
        if let Some(meter) = &mut self.meter {
            meter.roll(now);
        }
        self.packets += 1;
        let (input, output) = (self.input_of[passing.input as usize], self.output_of[passing.output as usize]);
        let Some(fabric) = &mut self.fabric else {
            self.admit(passing.packet, input, output, ports);
            return;
        };
        let more = ((u128::from(fabric.stream.bits()) * u128::from(fabric.jitter_ns + 1)) >> 64) as u64;
        let last = &mut fabric.last[usize::from(input)];
        *last = (*last).max(Time(now.0 + more));
        self.due = self.due.min(*last);
        fabric.under_way[usize::from(input)].push_back((*last, passing.packet, output));
    }

    /// The instant of [`due`](Switch::due) has come. All packets that arrive at this instant have arrived.
    pub fn act(&mut self, ports: &mut impl Ports<P>) {
        let now = ports.now();
        if let Some(meter) = &mut self.meter {
            meter.roll(now);
        }
        while let Some((input, stop)) = self.pause.as_mut().and_then(|pause| pause.next_command(now)) {
            let rate = if stop { 0 } else { self.pause.as_ref().map_or(0, |pause| pause.senders[input].0) };
            ports.throttle(self.inputs[input].link, rate);
        }
        for input in 0..self.inputs.len() {
            while let Some((packet, output)) = self.fabric.as_mut().and_then(|fabric| fabric.next(now, input)) {
                self.admit(packet, input as u16, output, ports);
            }
        }
        if self.matching.is_some() {
            self.serve_matched(ports);
        } else {
            self.serve_alone(ports);
        }
        self.find_due();
    }

    /// The instant at which the switch acts next, unless a packet arrives before; [`Time::MAX`] for none. To be asked
    /// after each call.
    pub fn due(&self) -> Time {
        self.due
    }

    /// Packets in the switch.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Moves the rows of table `ports` in the intervals that end by `now` to `rows`.
    pub fn drain(&mut self, now: Time, rows: &mut Vec<PortRow>) {
        if let Some(meter) = &mut self.meter {
            meter.drain(now, rows);
        }
    }
}

fn weight(arbiter: &weir_plan::Arbiter, input: u32) -> u64 {
    let weir_plan::Arbiter::Weighted { weights } = arbiter else { return 1 };
    weights.iter().find(|weight| weight.link == input).map_or(1, |weight| u64::from(weight.weight))
}

/// By link: its place in `ports`.
fn numbers(ports: &[u32], links: usize) -> Vec<u16> {
    let mut numbers = vec![NONE; links];
    for (number, link) in (0..).zip(ports) {
        numbers[*link as usize] = number;
    }
    numbers
}
