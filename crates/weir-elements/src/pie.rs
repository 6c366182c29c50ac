//! PIE: proportional integral controller enhanced (RFC 8033).
//!
//! Every `update` the probability of a drop changes by `alpha (delay - target) + beta (delay - last delay)`, scaled down while
//! the probability is small, and each arrival is dropped with it. The delay is the queue over the rate of the transmitter
//! (section 4.3), which is known here and need not be estimated as in section 5.2. Bursts of up to 150 ms after an
//! uncongested time pass untouched (section 4.4), and so does a queue of no more than two full packets.
//!
//! Of the enhancements of section 5: ECN marks instead of drops while the probability is under 10 % (5.1), drops are neither
//! closer nor farther apart than randomness alone would make them (5.4, de-randomisation), and from 10 % on the probability
//! grows by at most 2 % an update (5.5).
//!
//! There is no timer: between two calls the queue does not change, so the updates that were due are made at the next call and
//! give what a timer would have given. An update falls before a call of the same instant.
//!
//! Train: taken apart on arrival; each packet makes its own draw.

use weir_plan::{Limit, Mark};
use weir_units::{Dur, Rate, Stream, Time};

use crate::droptail::LIMIT;
use crate::fifo::Fifo;
use crate::qdisc::Drops;
use crate::registry::{Place, parameter};
use crate::{Counters, Dequeued, DropReason, DropTail, ElementInfo, Enqueued, Packet, Port, Qdisc};

pub(crate) const INFO: ElementInfo = ElementInfo {
    name: "pie",
    place: Place::Queue,
    title: "Proportional integral controller of the queueing delay",
    source: "RFC 8033",
    parameters: &[
        LIMIT,
        parameter("target_ns", "ns", "delay aimed at"),
        parameter("update_ns", "ns", "time between two updates of the probability"),
        parameter("alpha", "1/s", "weight of the deviation from the target"),
        parameter("beta", "1/s", "weight of the change of the delay"),
        parameter("mark", "drop or ecn", "what happens to ECN-capable packets under 10 %"),
    ],
};

/// Bursts of this length are let through after an uncongested time (section 4.4).
const MAX_BURST: Dur = Dur::from_millis(150);
/// Marks give way to drops from this probability on (section 5.1).
const MAX_MARK_PROBABILITY: f64 = 0.1;
/// From this probability on its growth is capped (section 5.5) ...
const CAPPED_FROM: f64 = 0.1;
/// ... to this an update.
const MAX_GROWTH: f64 = 0.02;
/// Decay an update while there is no delay at all (section 4.2).
const DECAY: f64 = 0.98;
/// No drop before the accumulated probability reaches this (section 5.4) ...
const ACCUMULATED_MIN: f64 = 0.85;
/// ... and a certain one at this.
const ACCUMULATED_MAX: f64 = 8.5;
/// Below each probability, the change is divided by the number beside it (section 4.2).
const SCALES: [(f64, f64); 6] = [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)];

/// The parameters of the plan.
#[derive(Clone, Copy, Debug)]
struct Params {
    /// Seconds.
    target: f64,
    update: Dur,
    /// 1/s.
    alpha: f64,
    /// 1/s.
    beta: f64,
    ecn: bool,
    /// Queues of up to this many bytes are left alone.
    spared_bytes: u64,
}

/// The controller: everything that an update changes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Control {
    probability: f64,
    /// Queueing delay at the last update, in seconds.
    delay: f64,
    burst_allowance: Dur,
}

impl Control {
    const START: Control = Control { probability: 0.0, delay: 0.0, burst_allowance: MAX_BURST };

    /// One update, the queue having this delay now (section 4.2).
    fn update(&mut self, params: &Params, delay: f64) {
        let mut change = params.alpha * (delay - params.target) + params.beta * (delay - self.delay);
        change /= SCALES.iter().find(|(below, _)| self.probability < *below).map_or(1.0, |(_, divisor)| *divisor);
        if self.probability >= CAPPED_FROM {
            change = change.min(MAX_GROWTH);
        }
        self.probability += change;
        if delay == 0.0 && self.delay == 0.0 {
            self.probability *= DECAY;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        self.delay = delay;
        self.burst_allowance = self.burst_allowance - params.update;
    }

    /// Whether the delay was low and nothing dropped: a burst may then pass.
    fn is_uncongested(&self, params: &Params, delay: f64) -> bool {
        self.probability == 0.0 && delay < params.target / 2.0 && self.delay < params.target / 2.0
    }
}

/// A first-in, first-out queue under PIE, with a hard limit.
#[derive(Clone, Debug)]
pub struct Pie<P> {
    limit: DropTail,
    params: Params,
    port: Port,
    control: Control,
    accumulated: f64,
    next_update: Time,
    fifo: Fifo<P>,
    counters: Counters,
    stream: Stream,
}

impl<P: Packet> Pie<P> {
    /// The PIE of the plan; none for another discipline.
    ///
    /// # Panics
    /// When the time between updates is zero.
    pub fn from_plan(queue: &weir_plan::Queue, port: Port, stream: Stream) -> Option<Pie<P>> {
        let weir_plan::Queue::Pie { limit, target_ns, update_ns, alpha, beta, mark } = queue else { return None };
        assert!(*update_ns > 0, "PIE needs time between two updates");
        let params = Params {
            target: Dur(*target_ns).as_secs_f64(),
            update: Dur(*update_ns),
            alpha: *alpha,
            beta: *beta,
            ecn: *mark == Mark::Ecn,
            spared_bytes: 2 * u64::from(port.full_packet()),
        };
        Some(Pie::new(limit, params, port, stream))
    }

    fn new(limit: &Limit, params: Params, port: Port, stream: Stream) -> Pie<P> {
        Pie {
            limit: DropTail::from_plan(limit),
            params,
            port,
            control: Control::START,
            accumulated: 0.0,
            next_update: Time::ZERO + params.update,
            fifo: Fifo::default(),
            counters: Counters::default(),
            stream,
        }
    }

    /// The probability of a drop, after the last update.
    pub fn probability(&self) -> f64 {
        self.control.probability
    }

    /// Seconds that the queue needs at the present rate; endless while the transmitter is stopped.
    fn delay(&self) -> f64 {
        if self.fifo.bytes() == 0 {
            return 0.0;
        }
        8.0 * self.fifo.bytes() as f64 / self.port.rate.0 as f64
    }

    /// Makes the updates due by `now`.
    fn catch_up(&mut self, now: Time) {
        if self.next_update > now {
            return;
        }
        // A stopped transmitter has no finite delay; what matters is that it is far above the target.
        let delay = self.delay().min(1e6);
        while self.next_update <= now {
            let before = self.control;
            self.control.update(&self.params, delay);
            self.next_update += self.params.update;
            if self.control == before && self.next_update <= now {
                // Nothing will change until the queue does: skip the rest of a long idle time.
                let skipped = (now.0 - self.next_update.0) / self.params.update.0 + 1;
                self.next_update += self.params.update * skipped;
            }
        }
    }

    /// Whether to signal congestion with the packet that arrives.
    fn chooses(&mut self) -> bool {
        if self.control.is_uncongested(&self.params, self.delay()) {
            self.control.burst_allowance = MAX_BURST;
        }
        if self.control.burst_allowance > Dur::ZERO || self.is_spared() {
            return false;
        }
        if self.control.probability == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += self.control.probability;
        if self.accumulated < ACCUMULATED_MIN {
            return false;
        }
        let chosen = self.accumulated >= ACCUMULATED_MAX || self.stream.chance(self.control.probability);
        if chosen {
            self.accumulated = 0.0;
        }
        chosen
    }

    /// The queue is short enough to be left alone.
    fn is_spared(&self) -> bool {
        let low_delay = self.control.delay < self.params.target / 2.0 && self.control.probability < 0.2;
        low_delay || self.fifo.bytes() <= self.params.spared_bytes
    }

    fn drop_packet(&mut self, packet: P, bytes: u32, reason: DropReason, drops: &mut Drops<'_, P>) -> Enqueued {
        self.accumulated = 0.0;
        self.counters.dropped(bytes, reason);
        drops(packet, reason);
        Enqueued::Dropped
    }
}

impl<P: Packet + Send> Qdisc<P> for Pie<P> {
    fn enqueue(&mut self, now: Time, mut packet: P, drops: &mut Drops<'_, P>) -> Enqueued {
        self.catch_up(now);
        let bytes = self.port.wire_bytes(&packet);
        self.counters.arrived(bytes);
        if !self.limit.fits(bytes, self.fifo.bytes(), self.fifo.packets()) {
            return self.drop_packet(packet, bytes, DropReason::Overflow, drops);
        }
        let mut outcome = Enqueued::Queued;
        if self.chooses() {
            let may_mark = self.params.ecn && self.control.probability < MAX_MARK_PROBABILITY;
            if !(may_mark && packet.ecn_capable()) {
                return self.drop_packet(packet, bytes, DropReason::Early, drops);
            }
            packet.mark_ce();
            self.counters.marked_packets += 1;
            outcome = Enqueued::Marked;
        }
        self.fifo.push(packet, now, bytes);
        outcome
    }

    fn dequeue(&mut self, now: Time, _drops: &mut Drops<'_, P>) -> Option<Dequeued<P>> {
        self.catch_up(now);
        let entry = self.fifo.pop()?;
        self.counters.left(entry.bytes);
        Some(Dequeued { packet: entry.packet, sojourn: now.since(entry.since) })
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }

    fn packets(&self) -> u64 {
        self.fifo.packets()
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn set_rate(&mut self, now: Time, rate: Rate) {
        self.catch_up(now);
        self.port.rate = rate;
    }
}

#[cfg(test)]
mod tests;
