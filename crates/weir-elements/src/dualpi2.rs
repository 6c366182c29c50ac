//! DualPI2: two coupled queues, one for scalable and one for classic congestion controls (RFC 9332, appendix A).
//!
//! Packets with ECT(1) or CE enter the L queue, all others the C queue (RFC 9331, section 5.1); both share one limit. A
//! proportional integral controller of the delay keeps a base probability `p'`. The C queue drops, or marks packets with
//! ECT(0), with `p'^2`, which Reno and CUBIC need; the L queue marks with `k p'`, which scalable controls need. With
//! `k = 2` flows of both kinds then get about the same rate. The L queue marks by its own delay as well, by a ramp from
//! `threshold` on, `range` wide; a range of 0 is a step. The higher of both probabilities counts. A packet that is alone
//! in the L queue is not marked by the ramp.
//!
//! *Scheduler* (section 4.2.2). While both queues have packets, the C queue has a share of the link, `classic`, by a
//! credit in bytes as in Linux' `sch_dualpi2`: it changes only while both have packets, a dropped packet does not change it, and
//! an idle link resets it in favour of the L queue (appendix A.1). The L queue has the rest and comes first. RFC 9332 advises a small share, such as 1/16; the default
//! of 10 % is Linux'. With `shift`, the scheduler is
//! a time-shifted FIFO instead: the L queue is served unless the first C packet has waited by `shift` longer.
//!
//! *Overload* (appendix A.2). The controller takes the longer delay of both queues. When `k p'` has reached 1, the L
//! queue drops with `p'^2`, like the C queue, and the C queue no longer spares packets with ECT(0).
//!
//! Probabilities become marks and drops by accumulation, without random numbers (`recur()` of appendix A.1): a packet is
//! chosen whenever the sum of the probabilities since the last choice reaches 1; the pseudocode's sum must exceed 1, so its
//! first choice may come a packet later. As in Linux, the controller neither marks nor drops a packet while less than two full
//! packets wait, this one counted (Linux does not count it); the ramp of the L queue does (appendix A.1). There is no timer: an update's input changes by calls only, so the
//! next call makes the updates due since the last one. An update precedes a call of the same instant.
//!
//! With `any_ect`, packets with ECT(0) belong to the L queue, too: DCTCP sends them.
//!
//! Train: taken apart on arrival.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Dur, Rate, Stream, Time};

use crate::classes::WHOLE_PPM;
use crate::declare::{ElementInfo, Fault, Form, Kind, Place, QueuePlan, check, key};
use crate::fifo::{Entry, Fifo};
use crate::limit::size;
use crate::pie::valid_controller;
use crate::qdisc::{AtDeparture, Drops};
use crate::{Counters, Dequeued, DropReason, DropTail, Enqueued, Limit, Packet, Port, Qdisc};

/// Two coupled queues under a proportional integral controller (RFC 9332).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DualPi2Queue {
    /// Hard limit over both queues.
    pub limit: Limit,
    /// Target of the C queue's delay; 15 ms.
    pub target_ns: u64,
    /// Time between two updates of the base probability; 15 ms.
    pub update_ns: u64,
    /// Weight of the deviation from the target, in 1/s; 0.15.
    pub alpha: f64,
    /// Weight of the change of the delay, in 1/s; 3.
    pub beta: f64,
    /// Coupling factor k; 2.
    pub coupling: f64,
    /// Delay at which the L queue's own ramp begins; 800 us.
    pub threshold_ns: u64,
    /// Width of the ramp; 400 us. 0: a step.
    pub range_ns: u64,
    /// The ramp spares packets while the L queue has no more than this many, the departing one counted; 1.
    pub spared_packets: u64,
    /// Guaranteed share of the C queue, parts of a million; 10 %.
    pub classic_ppm: u32,
    /// Time shift of a time-shifted FIFO; none: the guaranteed share counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift_ns: Option<u64>,
    /// Packets with ECT(0) belong to the L queue, too.
    pub any_ect: bool,
}

const WEIGHT: Kind = Kind::Number { min: 0.0, max: 1000.0, positive: false };
const TIME: Kind = Kind::Time { positive: false };
const FORM: Form = Form {
    name: "dualpi2",
    title: "Two coupled queues, one for scalable and one for classic congestion controls (RFC 9332). Classes: `l4s`, \
            `classic`.",
    keys: &[
        size("Hard limit over both queues; 10000 packets, as in Linux.").or("10000packets"),
        key("target", "target_ns", TIME, "Target of the C queue's delay; 15 ms.").or("15ms"),
        key(
            "update",
            "update_ns",
            Kind::Time { positive: true },
            "Time between two updates of the base probability; 15 ms.",
        )
        .or("15ms"),
        key("alpha", "alpha", WEIGHT, "Weight of the deviation from the target, in 1/s; 0.15.").or("0.15"),
        key("beta", "beta", WEIGHT, "Weight of the change of the delay, in 1/s; 3.").or("3"),
        key(
            "coupling",
            "coupling",
            Kind::Number { min: 0.0, max: 100.0, positive: true },
            "Coupling factor k: the L queue marks with k times the base probability, the C queue drops with its square.",
        )
        .or("2"),
        key("threshold", "threshold_ns", TIME, "Delay at which the L queue's own ramp of marks begins; 800 us.")
            .or("800us"),
        key("range", "range_ns", TIME, "Width of the ramp; 400 us. 0: a step.").or("400us"),
        key(
            "spared",
            "spared_packets",
            Kind::Integer { min: 0, max: 1000 },
            "The ramp spares packets while the L queue has no more than this many, the departing one counted.",
        )
        .or("1"),
        key("classic", "classic_ppm", Kind::Share, "Guaranteed share of the C queue.").or("10%"),
        key(
            "shift",
            "shift_ns",
            TIME,
            "Serve the L queue unless the first C packet has waited by this longer: a time-shifted FIFO instead of the \
             guaranteed share.",
        )
        .optional(),
        key("any_ect", "any_ect", Kind::Flag, "Packets with ECT(0) belong to the L queue, too, as DCTCP's.")
            .or("false"),
    ],
};

impl QueuePlan for DualPi2Queue {
    const INFO: ElementInfo = ElementInfo {
        classes: &["l4s", "classic"],
        ..ElementInfo::new(
            "dualpi2",
            Place::Queue,
            "Two coupled queues, one for scalable and one for classic congestion controls",
            "RFC 9332",
            &[FORM],
        )
    };

    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn limit_mut(&mut self) -> &mut Limit {
        &mut self.limit
    }

    fn validate(&self, at: &str) -> Result<(), Fault> {
        valid_controller(at, self.update_ns, self.alpha, self.beta)?;
        let factor = self.coupling;
        check(factor.is_finite() && factor > 0.0, || format!("{at}.coupling"), "must be finite and above zero")?;
        check(self.classic_ppm <= WHOLE_PPM, || format!("{at}.classic_ppm"), "a share is at most 1000000")
    }
}

impl AtDeparture for DualPi2Queue {
    type Qdisc<P: Packet + Send> = DualPi2<P>;

    fn qdisc<P: Packet + Send>(&self, port: Port, _stream: Stream) -> DualPi2<P> {
        DualPi2::from_plan(self, port)
    }
}

/// Number of the L queue among the classes.
const L4S: usize = 0;
/// Number of the C queue.
const CLASSIC: usize = 1;

/// The base probability, and its controller (figure 6).
#[derive(Clone, Copy, Debug)]
struct Base {
    /// 1/s.
    alpha: f64,
    /// 1/s.
    beta: f64,
    target_s: f64,
    probability: f64,
    /// The delay at the last update, seconds.
    last_s: f64,
}

impl Base {
    fn update(&mut self, delay: Dur) {
        let delay_s = delay.as_secs_f64();
        let change = self.alpha * (delay_s - self.target_s) + self.beta * (delay_s - self.last_s);
        self.probability = (self.probability + change).clamp(0.0, 1.0);
        self.last_s = delay_s;
    }

    /// Whether updates with an empty queue change nothing.
    fn is_at_rest(&self) -> bool {
        self.probability == 0.0 && self.last_s == 0.0
    }
}

/// Makes choices of a probability, without random numbers (`recur()` of appendix A.1).
#[derive(Clone, Copy, Debug, Default)]
struct Recurrence(f64);

impl Recurrence {
    fn chooses(&mut self, probability: f64) -> bool {
        self.0 += probability;
        let chosen = self.0 >= 1.0;
        if chosen {
            self.0 -= 1.0;
        }
        chosen
    }
}

/// What happens to a packet at its departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Pass,
    Mark,
    Drop,
}

/// Two coupled queues.
#[derive(Clone, Debug)]
pub struct DualPi2<P> {
    plan: DualPi2Queue,
    limit: DropTail,
    port: Port,
    base: Base,
    next_update: Time,
    queues: [Fifo<P>; 2],
    l4s_marks: Recurrence,
    l4s_drops: Recurrence,
    classic: Recurrence,
    /// What the scheduler owes the C queue: bytes times parts of a million.
    credit: i64,
    /// The same at an idle link: as if a full packet of each queue had left, which favours the one with the larger share.
    idle_credit: i64,
    counters: Counters,
}

impl<P: Packet> DualPi2<P> {
    /// The queue of the plan.
    ///
    /// # Panics
    /// An interval of updates of zero.
    pub fn from_plan(plan: &DualPi2Queue, port: Port) -> DualPi2<P> {
        assert!(plan.update_ns > 0, "DualPI2 needs time between two updates");
        let target_s = Dur(plan.target_ns).as_secs_f64();
        let whole = i64::from(WHOLE_PPM);
        let idle_credit = i64::from(port.full_packet()) * (2 * i64::from(plan.classic_ppm) - whole);
        DualPi2 {
            limit: DropTail::from_plan(&plan.limit),
            port,
            base: Base { alpha: plan.alpha, beta: plan.beta, target_s, probability: 0.0, last_s: 0.0 },
            next_update: Time(plan.update_ns),
            queues: [Fifo::default(), Fifo::default()],
            l4s_marks: Recurrence::default(),
            l4s_drops: Recurrence::default(),
            classic: Recurrence::default(),
            credit: idle_credit,
            idle_credit,
            counters: Counters::default(),
            plan: plan.clone(),
        }
    }

    fn class(&self, packet: &P) -> usize {
        let is_l4s = packet.is_l4s() || self.plan.any_ect && packet.ecn_capable();
        if is_l4s { L4S } else { CLASSIC }
    }

    fn waiting_bytes(&self) -> u64 {
        self.queues[L4S].bytes() + self.queues[CLASSIC].bytes()
    }

    fn waiting_packets(&self) -> u64 {
        self.queues[L4S].packets() + self.queues[CLASSIC].packets()
    }

    /// Time for which the first packet of a queue has waited; zero if it is empty.
    fn delay(&self, class: usize, now: Time) -> Dur {
        self.queues[class].front().map_or(Dur::ZERO, |entry| now.since(entry.since))
    }

    /// Makes the updates due by `now`.
    fn update(&mut self, now: Time) {
        while self.next_update <= now {
            let at = self.next_update;
            self.base.update(self.delay(L4S, at).max(self.delay(CLASSIC, at)));
            self.next_update = at + Dur(self.plan.update_ns);
            if self.base.is_at_rest() && self.waiting_packets() == 0 {
                let idle = now.since(at).0 / self.plan.update_ns;
                self.next_update += Dur(idle * self.plan.update_ns);
            }
        }
    }

    /// The queue to serve next; none if both are empty.
    fn schedule(&mut self, now: Time) -> Option<usize> {
        let waiting = [L4S, CLASSIC].map(|class| self.queues[class].packets() > 0);
        match (waiting, self.plan.shift_ns) {
            ([false, false], _) => None,
            ([true, false], _) => Some(L4S),
            ([false, true], _) => Some(CLASSIC),
            (_, Some(shift)) if self.delay(L4S, now) + Dur(shift) >= self.delay(CLASSIC, now) => Some(L4S),
            (_, Some(_)) => Some(CLASSIC),
            (_, None) => Some(if self.credit > 0 { CLASSIC } else { L4S }),
        }
    }

    /// Removes the first packet of a queue. Also returns by how much its transmission changes the credit.
    fn take(&mut self, class: usize) -> Option<(Entry<P>, i64)> {
        let both = self.queues.iter().all(|queue| queue.packets() > 0);
        let entry = self.queues[class].pop()?;
        let share = i64::from(self.plan.classic_ppm);
        let bytes = i64::from(entry.bytes);
        let change = match (both, class) {
            (false, _) => 0,
            (true, L4S) => bytes * share,
            (true, _) => -bytes * (i64::from(WHOLE_PPM) - share),
        };
        Some((entry, change))
    }

    /// The probability of the L queue's ramp for a packet that has waited for `sojourn` before `behind` others.
    fn ramp(&self, sojourn: Dur, behind: u64) -> f64 {
        let above = sojourn.0.saturating_sub(self.plan.threshold_ns);
        if above == 0 || behind < self.plan.spared_packets {
            return 0.0;
        }
        if self.plan.range_ns == 0 { 1.0 } else { (above as f64 / self.plan.range_ns as f64).min(1.0) }
    }

    /// Decides on a packet that has left its queue (appendix A.2). `spared`: too few packets wait for drops.
    fn decide(&mut self, class: usize, sojourn: Dur, capable: bool, spared: bool) -> Fate {
        let squared = self.base.probability * self.base.probability;
        let coupled = self.plan.coupling * self.base.probability;
        if class == L4S {
            if coupled >= 1.0 && !spared && self.l4s_drops.chooses(squared) {
                return Fate::Drop;
            }
            let native = self.ramp(sojourn, self.queues[L4S].packets());
            let coupled = if spared { 0.0 } else { coupled };
            let marked = self.l4s_marks.chooses(native.max(coupled).min(1.0));
            return if marked { Fate::Mark } else { Fate::Pass };
        }
        if spared || !self.classic.chooses(squared) {
            return Fate::Pass;
        }
        // p_C has reached min(1 / k^2, 1).
        let overload = coupled >= 1.0 || squared >= 1.0;
        if capable && !overload { Fate::Mark } else { Fate::Drop }
    }
}

impl<P: Packet + Send> Qdisc<P> for DualPi2<P> {
    fn enqueue(&mut self, now: Time, packet: P, drops: &mut Drops<'_, P>) -> Enqueued {
        self.update(now);
        let bytes = self.port.wire_bytes(&packet);
        self.counters.arrived(bytes);
        if !self.limit.fits(bytes, self.waiting_bytes(), self.waiting_packets()) {
            self.counters.dropped(bytes, DropReason::Overflow);
            drops(packet, DropReason::Overflow);
            return Enqueued::Dropped;
        }
        let class = self.class(&packet);
        self.queues[class].push(packet, now, bytes);
        Enqueued::Queued
    }

    fn dequeue(&mut self, now: Time, drops: &mut Drops<'_, P>) -> Option<Dequeued<P>> {
        self.update(now);
        loop {
            let spared = self.waiting_bytes() < 2 * u64::from(self.port.full_packet());
            let Some(class) = self.schedule(now) else {
                self.credit = self.idle_credit;
                return None;
            };
            let (mut entry, change) = self.take(class)?;
            let sojourn = now.since(entry.since);
            match self.decide(class, sojourn, entry.packet.ecn_capable(), spared) {
                Fate::Drop => {
                    self.counters.dropped(entry.bytes, DropReason::Early);
                    drops(entry.packet, DropReason::Early);
                    continue;
                }
                Fate::Mark => {
                    entry.packet.mark_ce();
                    self.counters.marked_packets += 1;
                }
                Fate::Pass => {}
            }
            self.credit += change;
            self.counters.left(entry.bytes);
            return Some(Dequeued { packet: entry.packet, sojourn, class: class as u32 });
        }
    }

    fn bytes(&self) -> u64 {
        self.waiting_bytes()
    }

    fn packets(&self) -> u64 {
        self.waiting_packets()
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The controller measures time.
    fn set_rate(&mut self, _now: Time, _rate: Rate) {}

    fn classes(&self) -> u32 {
        2
    }

    fn class_of(&self, packet: &P) -> u32 {
        self.class(packet) as u32
    }
}

#[cfg(test)]
#[path = "dualpi2/tests.rs"]
mod tests;
