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
mod tests {
    use super::*;
    use crate::testing::TestPacket;
    use proptest::prelude::*;

    const PORT: Port = Port { rate: Rate::from_mbps(12), overhead_bytes: 0, mtu_bytes: 1500 };
    const UPDATE: u64 = 15_000_000;

    fn pie(mark: Mark) -> Pie<TestPacket> {
        let queue = weir_plan::Queue::Pie {
            limit: Limit { bytes: None, packets: Some(1000) },
            target_ns: 15_000_000,
            update_ns: UPDATE,
            alpha: 0.125,
            beta: 1.25,
            mark,
        };
        Pie::from_plan(&queue, PORT, Stream::new(3, "pie")).unwrap()
    }

    /// A PIE with a standing queue of 20 packets whose probability stays as it is.
    fn pinned(probability: f64, mark: Mark) -> Pie<TestPacket> {
        let mut queue = pie(mark);
        for id in 0..20 {
            queue.enqueue(Time::ZERO, TestPacket::new(id, 1500), &mut |_, _| panic!());
        }
        queue.control = Control { probability, delay: 0.02, burst_allowance: Dur::ZERO };
        queue.next_update = Time::MAX;
        queue
    }

    /// Offers a packet and takes one, so that the queue stays as long.
    fn offer(queue: &mut Pie<TestPacket>, packet: TestPacket) -> Enqueued {
        let outcome = queue.enqueue(Time::ZERO, packet, &mut |_, reason| assert_eq!(reason, DropReason::Early));
        if outcome != Enqueued::Dropped {
            queue.dequeue(Time::ZERO, &mut |_, _| panic!());
        }
        outcome
    }

    fn updated(control: Control, delay: f64) -> Control {
        let mut control = control;
        control.update(&pie(Mark::Drop).params, delay);
        control
    }

    fn assert_close(got: f64, expected: f64) {
        assert!((got - expected).abs() <= 1e-12 * expected.abs(), "{got}, expected {expected}");
    }

    /// From rest with 30 ms of delay: (0.125 * 0.015 + 1.25 * 0.030) / 2048; then, the delay unchanged and the probability under
    /// 10^-4, + 0.125 * 0.015 / 128; by hand.
    #[test]
    fn the_probability_follows_the_delay_and_its_change() {
        let first = updated(Control::START, 0.030);
        assert_close(first.probability, 0.039375 / 2048.0);
        let second = updated(first, 0.030);
        assert_close(second.probability, 0.039375 / 2048.0 + 0.001875 / 128.0);
    }

    #[test]
    fn the_change_is_scaled_to_the_probability() {
        // The delay is 8 ms over its target and unchanged: alpha * 0.008 = 0.001.
        for (probability, divisor) in [
            (0.0, 2048.0),
            (0.99e-6, 2048.0),
            (1e-6, 512.0),
            (0.99e-5, 512.0),
            (1e-5, 128.0),
            (0.99e-4, 128.0),
            (1e-4, 32.0),
            (0.99e-3, 32.0),
            (1e-3, 8.0),
            (0.99e-2, 8.0),
            (1e-2, 2.0),
            (0.99e-1, 2.0),
            (1e-1, 1.0),
            (0.5, 1.0),
        ] {
            let control = Control { probability, delay: 0.023, burst_allowance: Dur::ZERO };
            let grown = updated(control, 0.023).probability - probability;
            assert!((grown * divisor / 0.001 - 1.0).abs() < 1e-9, "{probability}: grew by {grown}");
        }
    }

    #[test]
    fn growth_is_capped_from_ten_per_cent_on() {
        // beta * 0.1 = 0.125, far more than 2 %.
        let grown = |probability| {
            let control = Control { probability, delay: 0.0, burst_allowance: Dur::ZERO };
            updated(control, 0.1).probability - probability
        };
        assert_close(grown(0.5), 0.02);
        assert!(grown(0.09) > 0.02, "not under ten per cent");
    }

    #[test]
    fn without_delay_the_probability_decays_and_it_stays_within_0_and_1() {
        let at = |probability, delay| Control { probability, delay, burst_allowance: Dur::ZERO };
        // (0.5 - alpha * 0.015) * 0.98.
        assert_close(updated(at(0.5, 0.0), 0.0).probability, 0.498125 * 0.98);
        assert_eq!(updated(at(1e-9, 0.0), 0.0).probability, 0.0);
        assert_eq!(updated(at(0.999, 1.0), 2.0).probability, 1.0);
    }

    #[test]
    fn a_burst_of_150_ms_passes_whatever_the_probability() {
        let mut queue = pie(Mark::Drop);
        for id in 0..100 {
            queue.enqueue(Time::ZERO, TestPacket::new(id, 1500), &mut |_, _| panic!());
        }
        // 100 packets of 1 ms: every update finds a delay of 100 ms.
        let mut first_drop = None;
        for t in 1..400_000u64 {
            let now = Time(t * 1_000);
            queue.control.probability = queue.control.probability.max(0.5);
            if queue.enqueue(now, TestPacket::new(0, 1500), &mut |_, _| {}) == Enqueued::Dropped {
                first_drop = Some(now);
                break;
            }
            queue.dequeue(now, &mut |_, _| panic!());
        }
        // Ten updates use the allowance up.
        let first_drop = first_drop.expect("the allowance ends");
        assert!((Time(10 * UPDATE)..Time(10 * UPDATE + 100_000)).contains(&first_drop), "first drop at {first_drop}");
    }

    #[test]
    fn the_allowance_returns_when_nothing_is_congested() {
        let mut queue = pie(Mark::Drop);
        queue.control.burst_allowance = Dur::ZERO;
        queue.enqueue(Time(1), TestPacket::new(0, 1500), &mut |_, _| panic!());
        assert_eq!(queue.control.burst_allowance, MAX_BURST);
        for spoiled in [
            Control { probability: 0.001, delay: 0.0, burst_allowance: Dur::ZERO },
            Control { probability: 0.0, delay: 0.008, burst_allowance: Dur::ZERO },
        ] {
            queue.control = spoiled;
            queue.enqueue(Time(1), TestPacket::new(0, 1500), &mut |_, _| panic!());
            assert_eq!(queue.control.burst_allowance, Dur::ZERO);
        }
    }

    #[test]
    fn a_short_queue_is_spared() {
        let mut queue = pie(Mark::Drop);
        queue.next_update = Time::MAX;
        queue.control = Control { probability: 1.0, delay: 0.02, burst_allowance: Dur::ZERO };
        let offered: Vec<_> =
            (0..4).map(|id| queue.enqueue(Time(1), TestPacket::new(id, 1500), &mut |_, _| {})).collect();
        // Two full packets wait: the third is still let in, the fourth finds three.
        assert_eq!(offered, [Enqueued::Queued, Enqueued::Queued, Enqueued::Queued, Enqueued::Dropped]);
    }

    #[test]
    fn a_low_delay_is_spared_below_a_probability_of_a_fifth() {
        let drops = |probability, delay| {
            let mut queue = pinned(probability, Mark::Drop);
            queue.control.delay = delay;
            (0..1000).filter(|_| offer(&mut queue, TestPacket::new(0, 1500)) == Enqueued::Dropped).count()
        };
        assert_eq!(drops(0.19, 0.0074), 0);
        assert!(drops(0.19, 0.0076) > 0);
        assert!(drops(0.21, 0.0074) > 0);
    }

    /// With a probability of 0.05: no drop before 0.85 / 0.05 = 17 packets, a certain one at 8.5 / 0.05 = 170, and in between
    /// each with 0.05, so that the mean is near 16 + 1 / 0.05 = 36.
    #[test]
    fn drops_are_neither_too_close_nor_too_far_apart() {
        let mut queue = pinned(0.05, Mark::Drop);
        let mut gaps = Vec::new();
        let mut gap = 0u32;
        while gaps.len() < 20_000 {
            gap += 1;
            if offer(&mut queue, TestPacket::new(0, 1500)) == Enqueued::Dropped {
                gaps.push(gap);
                gap = 0;
                offer(&mut queue, TestPacket::new(0, 1500));
                gap += 1;
            }
        }
        // The accumulated sum of a twentieth is below 0.85 by rounding at the 17th packet or not.
        assert!((17..=18).contains(gaps.iter().min().unwrap()));
        assert!((169..=171).contains(gaps.iter().max().unwrap()), "{:?}", gaps.iter().max());
        let mean = f64::from(gaps.iter().sum::<u32>()) / gaps.len() as f64;
        assert!((35.0..38.0).contains(&mean), "{mean}");
    }

    #[test]
    fn capable_packets_are_marked_under_ten_per_cent_and_dropped_above() {
        let outcomes = |probability| {
            let mut queue = pinned(probability, Mark::Ecn);
            let outcomes: Vec<_> = (0..2000).map(|_| offer(&mut queue, TestPacket::new(0, 1500).with_ecn())).collect();
            let count = |o| outcomes.iter().filter(|&&x| x == o).count();
            (count(Enqueued::Marked) > 0, count(Enqueued::Dropped) > 0)
        };
        assert_eq!(outcomes(0.099), (true, false));
        assert_eq!(outcomes(0.1), (false, true));
        let mut queue = pinned(0.05, Mark::Ecn);
        let plain = (0..2000).map(|_| offer(&mut queue, TestPacket::new(0, 1500)));
        assert!(plain.into_iter().any(|o| o == Enqueued::Dropped), "a packet that is not capable is dropped");
    }

    #[test]
    fn a_drop_at_the_limit_restarts_the_spacing() {
        // Too improbable to drop one of a thousand packets.
        let mut queue = pinned(1e-4, Mark::Drop);
        let mut reason = None;
        while reason.is_none() {
            assert!(queue.packets() == 20 || queue.accumulated > 0.0);
            queue.enqueue(Time::ZERO, TestPacket::new(0, 1500), &mut |_, r| reason = Some(r));
        }
        assert_eq!((reason, queue.packets()), (Some(DropReason::Overflow), 1000));
        assert_eq!(queue.accumulated, 0.0);
    }

    #[test]
    fn a_probability_of_zero_forgets_what_had_accumulated() {
        let mut queue = pinned(0.5, Mark::Drop);
        offer(&mut queue, TestPacket::new(0, 1500));
        assert_eq!(queue.accumulated, 0.5);
        queue.control.probability = 0.0;
        offer(&mut queue, TestPacket::new(0, 1500));
        assert_eq!(queue.accumulated, 0.0);
    }

    #[test]
    fn updates_before_a_change_of_rate_use_the_old_one() {
        let mut queue = pinned(0.2, Mark::Drop);
        queue.next_update = Time(UPDATE);
        queue.control.delay = 0.0;
        queue.set_rate(Time(UPDATE), Rate::from_mbps(120));
        // 20 packets at 12 Mb/s: 20 ms.
        assert_close(queue.control.delay, 0.02);
        queue.catch_up(Time(2 * UPDATE));
        assert_close(queue.control.delay, 0.002);
    }

    /// A load of twice the rate that does not react: half of it must go, and the queue settles at the target.
    #[test]
    fn the_delay_settles_at_the_target() {
        let mut queue = pie(Mark::Drop);
        let (mut sum, mut n, mut dropped) = (0.0, 0, 0);
        // A packet takes 1 ms and one arrives every half.
        for step in 0..400_000u64 {
            let now = Time(step * 500_000);
            if step % 2 == 0 {
                queue.dequeue(now, &mut |_, _| panic!());
            }
            queue.enqueue(now, TestPacket::new(0, 1500), &mut |_, _| dropped += u32::from(step >= 200_000));
            if step >= 200_000 {
                sum += queue.delay();
                n += 1;
            }
        }
        let (mean, share) = (sum / f64::from(n), f64::from(dropped) / f64::from(n));
        assert!((share - 0.5).abs() < 0.005, "dropped {share}");
        assert!((0.012..0.018).contains(&mean), "mean delay {mean} s");
    }

    #[test]
    fn a_long_idle_time_costs_no_time() {
        let mut queue = pinned(0.7, Mark::Drop);
        while queue.dequeue(Time::ZERO, &mut |_, _| panic!()).is_some() {}
        queue.next_update = Time(UPDATE);
        // Centuries of updates.
        let now = Time(UPDATE * 1_000_000_000_000 + 1);
        queue.catch_up(now);
        assert_eq!(queue.probability(), 0.0);
        assert!(queue.next_update > now && queue.next_update <= now + Dur(UPDATE));
        assert_eq!(queue.next_update.0 % UPDATE, 0);
    }

    proptest! {
        /// Updates made late are the updates that a timer would have made.
        #[test]
        fn late_updates_equal_a_timer(ops in prop::collection::vec((0u64..40_000_000, 0u8..4), 1..600)) {
            let (mut lazy, mut timed) = (pie(Mark::Drop), pie(Mark::Drop));
            let (mut now, mut tick) = (0, UPDATE);
            for (gap, op) in ops {
                now += gap / 8;
                while tick <= now {
                    timed.catch_up(Time(tick));
                    tick += UPDATE;
                }
                for _ in 0..op {
                    let outcomes = [&mut lazy, &mut timed].map(|q| q.enqueue(Time(now), TestPacket::new(0, 1500), &mut |_, _| {}));
                    prop_assert_eq!(outcomes[0], outcomes[1]);
                }
                if op < 2 {
                    lazy.dequeue(Time(now), &mut |_, _| {});
                    timed.dequeue(Time(now), &mut |_, _| {});
                }
                prop_assert_eq!(lazy.packets(), timed.packets());
            }
            lazy.catch_up(Time(now));
            prop_assert_eq!(lazy.control, timed.control);
        }
    }
}
