//! Arbiters that choose for each output port alone.

use weir_elements::Packet;
use weir_plan::{Arbiter as Plan, Hold};
use weir_units::{Stream, Time};

use crate::queues::Queues;

/// Bytes of a weight of 1, as a fraction.
const SCALE: u64 = 1 << 20;

/// The arbiter of an output port.
pub(crate) enum Arbiter {
    /// The only queue.
    Fifo,
    RoundRobin {
        next: usize,
    },
    Weighted(Fair),
    Bursty(Box<Burst>),
}

impl Arbiter {
    /// The arbiter of a plan, if it chooses for each output alone; `weight` gives that of an input port.
    pub fn new(plan: &Plan, weights: impl Iterator<Item = u64>, stream: impl FnOnce() -> Stream) -> Option<Arbiter> {
        match plan {
            Plan::Fifo => Some(Arbiter::Fifo),
            Plan::RoundRobin => Some(Arbiter::RoundRobin { next: 0 }),
            Plan::Weighted { .. } => Some(Arbiter::Weighted(Fair::new(weights.collect()))),
            Plan::Bursty { hold } => {
                let burst = Burst { hold: *hold, stream: stream(), favoured: None, until: Time::ZERO, next: 0 };
                Some(Arbiter::Bursty(Box::new(burst)))
            }
            Plan::Islip { .. } | Plan::Pim { .. } => None,
        }
    }

    /// A packet of `wire` bytes has come to a queue that was empty.
    pub fn backlogged(&mut self, queue: usize, wire: u64) {
        if let Arbiter::Weighted(fair) = self {
            fair.backlogged(queue, wire);
        }
    }

    /// The queue to serve, one with packets. Some queue has one.
    pub fn choose<P: Packet>(&mut self, now: Time, queues: &Queues<P>) -> usize {
        match self {
            Arbiter::Fifo => 0,
            Arbiter::RoundRobin { next } => take_turn(next, queues),
            Arbiter::Weighted(fair) => fair.choose(queues),
            Arbiter::Bursty(burst) => burst.choose(now, queues),
        }
    }

    /// The first packet of `queue` has left; the next has `wire` bytes.
    pub fn served(&mut self, queue: usize, wire: Option<u64>) {
        if let Arbiter::Weighted(fair) = self {
            fair.served(queue, wire);
        }
    }
}

fn take_turn<P: Packet>(next: &mut usize, queues: &Queues<P>) -> usize {
    let Some(queue) = queues.next(*next) else { unreachable!("an arbiter is asked while a packet waits") };
    *next = queue + 1;
    queue
}

/// Self-clocked fair queueing: a packet's tag is the virtual time at which its service would end.
pub(crate) struct Fair {
    weights: Vec<u64>,
    /// By queue: the tag of its first packet, or of its last one if it is empty.
    tags: Vec<u64>,
    /// The tag of the packet in service.
    now: u64,
}

impl Fair {
    fn new(weights: Vec<u64>) -> Fair {
        Fair { tags: vec![0; weights.len()], weights, now: 0 }
    }

    fn backlogged(&mut self, queue: usize, wire: u64) {
        self.tags[queue] = self.tags[queue].max(self.now) + wire * SCALE / self.weights[queue];
    }

    fn choose<P: Packet>(&self, queues: &Queues<P>) -> usize {
        let backlogged = (0..queues.len()).filter(|queue| queues.has(*queue));
        let Some(queue) = backlogged.min_by_key(|queue| self.tags[*queue]) else {
            unreachable!("an arbiter is asked while a packet waits")
        };
        queue
    }

    fn served(&mut self, queue: usize, wire: Option<u64>) {
        self.now = self.tags[queue];
        if let Some(wire) = wire {
            self.tags[queue] += wire * SCALE / self.weights[queue];
        }
    }
}

/// Keeps to one input for a time.
pub(crate) struct Burst {
    hold: Hold,
    stream: Stream,
    favoured: Option<usize>,
    until: Time,
    /// Where the turn of the others begins.
    next: usize,
}

impl Burst {
    fn choose<P: Packet>(&mut self, now: Time, queues: &Queues<P>) -> usize {
        if self.favoured.is_none() || now >= self.until {
            self.favoured = Some(self.another(queues));
            self.until = Time(now.0.saturating_add(self.draw()));
        }
        match self.favoured {
            Some(favoured) if queues.has(favoured) => favoured,
            _ => take_turn(&mut self.next, queues),
        }
    }

    /// Another queue with packets, at random; the present one if no other has any.
    fn another<P: Packet>(&mut self, queues: &Queues<P>) -> usize {
        let others = || (0..queues.len()).filter(|queue| queues.has(*queue) && Some(*queue) != self.favoured);
        let count = others().count() as u64;
        if count == 0 {
            return self.favoured.unwrap_or_default();
        }
        let chosen = ((u128::from(self.stream.bits()) * u128::from(count)) >> 64) as usize;
        (0..queues.len())
            .filter(|queue| queues.has(*queue) && Some(*queue) != self.favoured)
            .nth(chosen)
            .unwrap_or_default()
    }

    fn draw(&mut self) -> u64 {
        let mean = self.hold.mean_ns() as f64;
        let rest = 1.0 - self.stream.unit();
        match self.hold {
            Hold::Fixed { mean_ns } => mean_ns,
            Hold::Exponential { .. } => (-rest.ln() * mean) as u64,
            Hold::Pareto { shape, .. } => (mean * (shape - 1.0) / shape * rest.powf(-1.0 / shape)) as u64,
        }
        .max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::Sized;
    use crate::queues::Held;

    /// Packets that each queue sends of 3000, while all have packets; `bytes` are their sizes.
    fn shares(plan: &Plan, weights: &[u64], bytes: &[u32]) -> Vec<u32> {
        let mut arbiter = Arbiter::new(plan, weights.iter().copied(), || Stream::new(1, "test")).expect("it is alone");
        let mut queues = Queues::new(bytes.len(), 0);
        let packet = |input: usize| Held { packet: Sized(bytes[input]), input: input as u16 };
        for (input, size) in bytes.iter().enumerate() {
            arbiter.backlogged(input, u64::from(*size));
            queues.push(input, packet(input));
        }
        let mut sent = vec![0; bytes.len()];
        for step in 0..3000 {
            let chosen = arbiter.choose(Time(step * 1000), &queues);
            queues.push(chosen, packet(chosen));
            queues.pop(chosen);
            arbiter.served(chosen, queues.head(chosen));
            sent[chosen] += 1;
        }
        sent
    }

    #[test]
    fn round_robin_counts_packets() {
        assert_eq!(shares(&Plan::RoundRobin, &[1; 3], &[1500, 64, 700]), [1000; 3]);
    }

    #[test]
    fn weights_count_bytes() {
        let sent = shares(&Plan::Weighted { weights: vec![] }, &[3, 1], &[1000, 500]);
        // 3 : 1 in bytes is 3 : 2 in packets, the second half as large.
        assert!(sent[0].abs_diff(1800) <= 2 && sent[1].abs_diff(1200) <= 2, "{sent:?}");
    }

    #[test]
    fn a_burst_keeps_to_an_input_for_its_time() {
        let plan = Plan::Bursty { hold: Hold::Fixed { mean_ns: 100_000 } };
        let sent = shares(&plan, &[1; 2], &[1000, 1000]);
        assert_eq!(sent, [1500; 2], "bursts of 100 packets take turns between two");
        for hold in [Hold::Exponential { mean_ns: 30_000 }, Hold::Pareto { mean_ns: 30_000, shape: 2.5 }] {
            let sent = shares(&Plan::Bursty { hold }, &[1; 2], &[1000, 1000]);
            assert!(sent[0].abs_diff(1500) < 500, "{sent:?}");
        }
    }
}
