//! PIE: proportional integral controller enhanced (RFC 8033), in Linux' form.
//!
//! The delay is the sojourn time of the last packet that left, or zero if it left an empty queue. RFC 8033 permits this
//! or an estimate from the departure rate (section 5.2); it is Linux' default. Every `update` the drop probability
//! changes by `alpha (delay - target) + beta (delay - last delay)`, scaled down while the probability is small. Bursts
//! of up to 150 ms after an uncongested period (section 4.4) and queues shorter than two full packets are exempt.
//!
//! Of the enhancements of section 5, it has ECN marks instead of drops up to a probability of 10 % (5.1), limits on the
//! gaps between drops (5.4, de-randomisation), and a growth of at most 2 % an update from 10 % on (5.5).
//!
//! This file follows Linux' `sch_pie` where it deviates from the RFC:
//!
//! - the burst allowance decreases by the time between departures, not between updates;
//! - a delay above 250 ms adds another 2 % an update (RFC 8033 leaves it out);
//! - without delay, the probability decays by 1/64, not by 2 %;
//! - the probability is not limited to 1: after a long overload it takes as long to fall as it took to rise;
//! - an overdue mark does not restart the spacing; an overdue drop does.
//!
//! There is no timer: the input of an update changes by calls only, so the next call makes the updates due since the
//! last one, with the same result. An update precedes a call of the same instant.
//!
//! Train: taken apart on arrival; each packet has its own draw.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Dur, Rate, Stream, Time};

use crate::declare::{ElementInfo, Fault, Form, Kind, Place, QueuePlan, check, ecn, key};
use crate::fifo::Fifo;
use crate::limit::size;
use crate::qdisc::{AtDeparture, Drops};
use crate::{Counters, Dequeued, DropReason, DropTail, Enqueued, Limit, Mark, Packet, Port, Qdisc};

/// Proportional integral controller enhanced (RFC 8033).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PieQueue {
    /// Hard limit.
    pub limit: Limit,
    /// Target delay; 15 ms.
    pub target_ns: u64,
    /// Time between two updates of the probability; 15 ms.
    pub update_ns: u64,
    /// Weight of the deviation from the target, in 1/s; 0.125.
    pub alpha: f64,
    /// Weight of the change of the delay, in 1/s; 1.25.
    pub beta: f64,
    /// Mark instead of dropping while the probability is at most 10 %.
    pub mark: Mark,
}

const WEIGHT: Kind = Kind::Number { min: 0.0, max: 1000.0, positive: false };
const FORM: Form = Form {
    name: "pie",
    title: "Proportional integral controller enhanced (RFC 8033).",
    keys: &[
        size("Hard limit; 1000 packets, as in Linux.").or("1000packets"),
        key("target", "target_ns", Kind::Time { positive: false }, "Target delay; 15 ms.").or("15ms"),
        key(
            "update",
            "update_ns",
            Kind::Time { positive: true },
            "Time between two updates of the probability; 15 ms.",
        )
        .or("15ms"),
        key("alpha", "alpha", WEIGHT, "Weight of the deviation from the target, in 1/s; 0.125.").or("0.125"),
        key("beta", "beta", WEIGHT, "Weight of the change of the delay, in 1/s; 1.25.").or("1.25"),
        ecn("mark"),
    ],
};

impl QueuePlan for PieQueue {
    const INFO: ElementInfo = ElementInfo::new(
        "pie",
        Place::Queue,
        "Proportional integral controller of the queueing delay",
        "RFC 8033",
        &[FORM],
    )
    .random();

    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn limit_mut(&mut self) -> &mut Limit {
        &mut self.limit
    }

    fn validate(&self, at: &str) -> Result<(), Fault> {
        valid_controller(at, self.update_ns, self.alpha, self.beta)
    }
}

/// Checks the parameters of a proportional integral controller.
pub(crate) fn valid_controller(at: &str, update_ns: u64, alpha: f64, beta: f64) -> Result<(), Fault> {
    check(update_ns > 0, || format!("{at}.update_ns"), "must not be zero")?;
    for (name, weight) in [("alpha", alpha), ("beta", beta)] {
        let place = || format!("{at}.{name}");
        check(weight.is_finite() && weight >= 0.0, place, "must be finite and not negative")?;
    }
    Ok(())
}

impl AtDeparture for PieQueue {
    type Qdisc<P: Packet + Send> = Pie<P>;

    fn qdisc<P: Packet + Send>(&self, port: Port, stream: Stream) -> Pie<P> {
        Pie::from_plan(self, port, stream)
    }
}

/// Length of bursts exempt after an uncongested period (section 4.4).
const MAX_BURST: Dur = Dur::from_millis(150);
/// Above this probability ECN-capable packets are dropped, too (section 5.1).
const MAX_MARK_PROBABILITY: f64 = 0.1;
/// From this probability on, its growth is limited (section 5.5) ...
const CAPPED_FROM: f64 = 0.1;
/// ... to this an update.
const MAX_GROWTH: f64 = 0.02;
/// A delay above this one ...
const HIGH_DELAY: Dur = Dur::from_millis(250);
/// ... adds this to every update, beyond that limit (Linux).
const HIGH_DELAY_GROWTH: f64 = 0.02;
/// Factor of an update without any delay (section 4.2, with Linux' value).
const DECAY: f64 = 1.0 - 1.0 / 64.0;
/// Maximum of Linux' 64-bit probability.
const MAX_PROBABILITY: f64 = 256.0;
/// Below this probability no packet is dropped while the delay is below half the target (section 4.1).
const SPARED_PROBABILITY: f64 = 0.2;
/// No drop before the accumulated probability reaches this (section 5.4) ...
const ACCUMULATED_MIN: f64 = 0.85;
/// ... and a certain drop at this.
const ACCUMULATED_MAX: f64 = 8.5;
/// Below each probability, the change is divided by its number (section 4.2).
const SCALES: [(f64, f64); 6] = [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)];

/// The parameters of the plan.
#[derive(Clone, Copy, Debug)]
struct Params {
    target: Dur,
    update: Dur,
    /// 1/s.
    alpha: f64,
    /// 1/s.
    beta: f64,
    ecn: bool,
    /// Queues of fewer bytes are exempt.
    spared_bytes: u64,
}

/// The controller: the state changed by updates and departures.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Control {
    probability: f64,
    /// Delay of the last packet that left.
    delay: Dur,
    /// The delay at the last update.
    last_delay: Dur,
    burst_allowance: Dur,
    /// Rest of the allowance since the last uncongested period.
    last_departure: Option<Time>,
    /// Sum of the probabilities since the last drop.
    accumulated: f64,
}

impl Control {
    const START: Control = Control {
        probability: 0.0,
        delay: Dur::ZERO,
        last_delay: Dur::ZERO,
        burst_allowance: MAX_BURST,
        last_departure: None,
        accumulated: 0.0,
    };

    /// Notes the delay of a packet that leaves (section 4.3); `is_last`: it leaves an empty queue.
    fn depart(&mut self, now: Time, sojourn: Dur, is_last: bool) {
        self.delay = if is_last { Dur::ZERO } else { sojourn };
        if let Some(last) = self.last_departure.replace(now) {
            self.burst_allowance = self.burst_allowance - now.since(last);
        }
    }

    /// Makes one update (section 4.2); `is_empty`: no packet waits.
    fn update(&mut self, params: &Params, is_empty: bool) {
        self.probability = (self.probability + self.change(params)).clamp(0.0, MAX_PROBABILITY);
        if self.delay == Dur::ZERO && self.last_delay == Dur::ZERO && is_empty {
            self.probability *= DECAY;
        }
        if self.is_uncongested(params) {
            *self = Control { delay: self.delay, last_delay: self.last_delay, ..Control::START };
        }
        self.last_delay = self.delay;
    }

    fn change(&self, params: &Params) -> f64 {
        let (delay, last, target) =
            (self.delay.as_secs_f64(), self.last_delay.as_secs_f64(), params.target.as_secs_f64());
        let mut change = params.alpha * (delay - target) + params.beta * (delay - last);
        change /= SCALES.iter().find(|(below, _)| self.probability < *below).map_or(1.0, |(_, divisor)| *divisor);
        if self.probability >= CAPPED_FROM {
            change = change.min(MAX_GROWTH);
        }
        if self.delay > HIGH_DELAY {
            change += HIGH_DELAY_GROWTH;
        }
        change
    }

    /// Renews the burst allowance after two updates with low delay and no drops.
    fn is_uncongested(&self, params: &Params) -> bool {
        self.probability == 0.0 && self.is_low(params, self.delay) && self.is_low(params, self.last_delay)
    }

    fn is_low(&self, params: &Params, delay: Dur) -> bool {
        delay < Dur(params.target.0 / 2)
    }

    /// Whether a packet that arrives at a queue of so many bytes signals congestion (sections 4.1 and 5.4).
    fn chooses(&mut self, params: &Params, waiting: u64, stream: &mut Stream) -> bool {
        let low_delay = self.is_low(params, self.delay) && self.probability < SPARED_PROBABILITY;
        if self.burst_allowance > Dur::ZERO || low_delay || waiting < params.spared_bytes {
            return false;
        }
        self.accumulated = if self.probability == 0.0 { 0.0 } else { self.accumulated + self.probability };
        if self.accumulated < ACCUMULATED_MIN {
            return false;
        }
        if self.accumulated >= ACCUMULATED_MAX {
            return true;
        }
        let chosen = stream.chance(self.probability);
        if chosen {
            self.accumulated = 0.0;
        }
        chosen
    }
}

/// A first-in, first-out queue under PIE, with a hard limit.
#[derive(Clone, Debug)]
pub struct Pie<P> {
    limit: DropTail,
    params: Params,
    port: Port,
    control: Control,
    next_update: Time,
    fifo: Fifo<P>,
    counters: Counters,
    stream: Stream,
}

impl<P: Packet> Pie<P> {
    /// The PIE of the plan.
    ///
    /// # Panics
    /// An interval of updates of zero.
    pub fn from_plan(queue: &PieQueue, port: Port, stream: Stream) -> Pie<P> {
        assert!(queue.update_ns > 0, "PIE needs time between two updates");
        let params = Params {
            target: Dur(queue.target_ns),
            update: Dur(queue.update_ns),
            alpha: queue.alpha,
            beta: queue.beta,
            ecn: queue.mark == Mark::Ecn,
            spared_bytes: 2 * u64::from(port.full_packet()),
        };
        Pie::new(&queue.limit, params, port, stream)
    }

    fn new(limit: &Limit, params: Params, port: Port, stream: Stream) -> Pie<P> {
        Pie {
            limit: DropTail::from_plan(limit),
            params,
            port,
            control: Control::START,
            next_update: Time::ZERO + params.update,
            fifo: Fifo::default(),
            counters: Counters::default(),
            stream,
        }
    }

    /// The drop probability after the last update; 1 and above mean every packet.
    pub fn probability(&self) -> f64 {
        self.control.probability
    }

    /// Makes the updates due by `now`.
    fn catch_up(&mut self, now: Time) {
        let is_empty = self.fifo.packets() == 0;
        while self.next_update <= now {
            let before = self.control;
            self.control.update(&self.params, is_empty);
            self.next_update += self.params.update;
            if self.control == before && self.next_update <= now {
                // The state is constant until the next packet: skip the rest of a long idle time.
                let skipped = (now.0 - self.next_update.0) / self.params.update.0 + 1;
                self.next_update += self.params.update * skipped;
            }
        }
    }

    fn drop_packet(&mut self, packet: P, bytes: u32, reason: DropReason, drops: &mut Drops<'_, P>) -> Enqueued {
        self.control.accumulated = 0.0;
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
        if self.control.chooses(&self.params, self.fifo.bytes(), &mut self.stream) {
            let may_mark = self.params.ecn && self.control.probability <= MAX_MARK_PROBABILITY;
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
        let sojourn = now.since(entry.since);
        self.control.depart(now, sojourn, self.fifo.packets() == 0);
        Some(Dequeued { packet: entry.packet, sojourn, class: 0 })
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

    /// PIE measures the delay and does not depend on the rate.
    fn set_rate(&mut self, _now: Time, _rate: Rate) {}
}

#[cfg(test)]
mod tests;
