//! CoDel: controlled delay (RFC 8289).
//!
//! Each packet carries its arrival time. When the sojourn time has stayed above `target` for an `interval`, the queue
//! enters its dropping state: it drops the packet at its head, and further ones at intervals of `interval /
//! sqrt(count)`, until a packet has waited less than the target. A queue of one full packet or less is never in excess.
//! A dropping state that begins within 16 intervals of the last one resumes its rate (section 5.5).
//!
//! The square root is Linux': each drop improves the estimate of `1 / sqrt(count)` by one step of Newton's method in 16
//! bits. It begins at 1, so that the second gap of a dropping state is 0.50 of the interval instead of 0.71, the third
//! 0.56 (0.58), the fourth 0.49 (0.50).
//!
//! With ECN, a capable packet is marked instead of dropped, as in Linux.
//!
//! With `ce_threshold`, each capable packet that has waited longer is marked when it leaves, whatever the control law
//! decides, as in Linux: step marking, which DCTCP wants. Other packets are not concerned.
//!
//! Train: taken apart on arrival. Dropped as a whole, it would be up to 44 signals instead of one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Dur, Rate, Stream, Time};

use crate::declare::{ElementInfo, Fault, Form, Key, Kind, Place, QueuePlan, check, ecn, key};
use crate::fifo::{Entry, Fifo};
use crate::limit::size;
use crate::qdisc::{AtDeparture, Drops};
use crate::{Counters, Dequeued, DropReason, DropTail, Enqueued, Limit, Mark, Packet, Port, Qdisc};

/// Parameters of CoDel (RFC 8289).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodelParams {
    /// Acceptable standing delay; 5 ms.
    pub target_ns: u64,
    /// Sliding-minimum window; 100 ms.
    pub interval_ns: u64,
    /// Mark instead of dropping.
    pub mark: Mark,
    /// Mark each packet that can carry ECN and has waited longer than this; none: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ce_threshold_ns: Option<u64>,
}

/// Controlled delay (RFC 8289).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodelQueue {
    /// Hard limit.
    pub limit: Limit,
    /// Parameters.
    pub codel: CodelParams,
}

const FORM: Form = Form {
    name: "codel",
    title: "Controlled delay (RFC 8289).",
    keys: &[
        size("Hard limit; 1000 packets, as in Linux.").or("1000packets"),
        TARGET,
        INTERVAL,
        ecn("codel.mark"),
        CE_THRESHOLD,
    ],
};

/// The acceptable delay, for CoDel and FQ-CoDel.
pub(crate) const TARGET: Key =
    key("target", "codel.target_ns", Kind::Time { positive: false }, "Acceptable standing delay; 5 ms.").or("5ms");
/// The window, for CoDel and FQ-CoDel.
pub(crate) const INTERVAL: Key =
    key("interval", "codel.interval_ns", Kind::Time { positive: true }, "Window of the minimum; 100 ms.").or("100ms");
/// Step marking, for CoDel and FQ-CoDel.
pub(crate) const CE_THRESHOLD: Key = key(
    "ce_threshold",
    "codel.ce_threshold_ns",
    Kind::Time { positive: false },
    "Mark each packet that can carry ECN and has waited longer than this, whatever CoDel decides. Default: never.",
)
.optional();

impl CodelParams {
    pub(crate) fn validate(&self, at: &str) -> Result<(), Fault> {
        check(self.interval_ns > 0, || format!("{at}.codel.interval_ns"), "must not be zero")
    }
}

impl QueuePlan for CodelQueue {
    const INFO: ElementInfo = ElementInfo::new(
        "codel",
        Place::Queue,
        "Controlled delay: drops from the head while packets wait too long",
        "RFC 8289",
        &[FORM],
    );

    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn limit_mut(&mut self) -> &mut Limit {
        &mut self.limit
    }

    fn validate(&self, at: &str) -> Result<(), Fault> {
        self.codel.validate(at)
    }
}

impl AtDeparture for CodelQueue {
    type Qdisc<P: Packet + Send> = Codel<P>;

    fn qdisc<P: Packet + Send>(&self, port: Port, _stream: Stream) -> Codel<P> {
        Codel::from_plan(self, port)
    }
}

/// The parameters of the control law.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Law {
    target: Dur,
    interval: Dur,
    ecn: bool,
    /// Capable packets that have waited longer are marked; [`u64::MAX`]: none.
    ce_threshold: Dur,
    max_packet: u64,
}

impl Law {
    pub fn from_plan(params: &CodelParams, port: &Port) -> Law {
        Law {
            target: Dur(params.target_ns),
            interval: Dur(params.interval_ns),
            ecn: params.mark == Mark::Ecn,
            ce_threshold: Dur(params.ce_threshold_ns.unwrap_or(u64::MAX)),
            max_packet: u64::from(port.full_packet()),
        }
    }

    /// The next drop of a dropping state: `interval / sqrt(count)` after `last`.
    fn after(&self, last: Time, root: InverseRoot) -> Time {
        last + Dur(((u128::from(self.interval.0) * u128::from(root.0)) >> InverseRoot::BITS) as u64)
    }
}

/// An estimate of `1 / sqrt(count)`, units of 2^-16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct InverseRoot(u16);

impl InverseRoot {
    const BITS: u32 = u16::BITS;
    /// The estimate for a count of one: the maximum.
    const ONE: InverseRoot = InverseRoot(u16::MAX);

    /// One step of Newton's method towards `1 / sqrt(count)`: x (3 - count x^2) / 2.
    fn towards(self, count: u32) -> InverseRoot {
        let x = u64::from(self.0) << 16; // in units of 2^-32
        let square = (x * x) >> 32;
        // Wraps as the kernel's 64-bit arithmetic does; counts that would make it negative do not occur.
        let rest = (3u64 << 32).wrapping_sub(u64::from(count).wrapping_mul(square)) >> 2;
        InverseRoot((rest.wrapping_mul(x) >> 31 >> 16) as u16)
    }
}

/// The state of the controller of one queue; names as in the RFC.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Control {
    /// End of the first interval with the sojourn time above the target; none while it is below.
    first_above: Option<Time>,
    drop_next: Time,
    /// Packets dropped in this dropping state.
    count: u32,
    /// `count` at the start of this dropping state.
    last_count: u32,
    root: InverseRoot,
    dropping: bool,
}

impl Control {
    /// The next packet of `fifo` to transmit, after the drops of the control law, and marked if it has waited too long.
    /// `others` are bytes of other queues of the same transmitter: they count for the rule that one full packet is no
    /// excess.
    pub fn dequeue<P: Packet>(
        &mut self,
        law: &Law,
        fifo: &mut Fifo<P>,
        others: u64,
        now: Time,
        counters: &mut Counters,
        drops: &mut Drops<'_, P>,
    ) -> Option<Entry<P>> {
        let marked = counters.marked_packets;
        let mut entry = self.govern(law, fifo, others, now, counters, drops)?;
        if now.since(entry.since) > law.ce_threshold && entry.packet.ecn_capable() {
            entry.packet.mark_ce();
            // A packet that the control law has marked counts once.
            counters.marked_packets = marked + 1;
        }
        Some(entry)
    }

    /// The next packet to transmit, after the drops and marks of the control law.
    fn govern<P: Packet>(
        &mut self,
        law: &Law,
        fifo: &mut Fifo<P>,
        others: u64,
        now: Time,
        counters: &mut Counters,
        drops: &mut Drops<'_, P>,
    ) -> Option<Entry<P>> {
        let (mut head, mut in_excess) = self.pop(law, fifo, others, now);
        if !self.dropping {
            if in_excess {
                head = match signal(law, head?, counters, drops) {
                    Some(marked) => Some(marked),
                    None => self.pop(law, fifo, others, now).0,
                };
                self.start_dropping(law, now);
            }
            return head;
        }
        self.dropping = in_excess;
        while self.dropping && now >= self.drop_next {
            self.count = self.count.saturating_add(1);
            self.root = self.root.towards(self.count);
            if let Some(marked) = signal(law, head?, counters, drops) {
                self.drop_next = law.after(self.drop_next, self.root);
                return Some(marked);
            }
            (head, in_excess) = self.pop(law, fifo, others, now);
            if in_excess {
                self.drop_next = law.after(self.drop_next, self.root);
            } else {
                self.dropping = false;
            }
        }
        head
    }

    /// Removes the packet at the head; also returns whether the queue has been in excess for an interval.
    fn pop<P>(&mut self, law: &Law, fifo: &mut Fifo<P>, others: u64, now: Time) -> (Option<Entry<P>>, bool) {
        let Some(entry) = fifo.pop() else {
            self.first_above = None;
            return (None, false);
        };
        if now.since(entry.since) < law.target || others + fifo.bytes() <= law.max_packet {
            self.first_above = None;
            return (Some(entry), false);
        }
        let first_above = *self.first_above.get_or_insert(now + law.interval);
        (Some(entry), now >= first_above)
    }

    /// Counts packets dropped for another reason, so that the control law signals sooner.
    pub fn note_drops(&mut self, packets: u64) {
        self.count = self.count.saturating_add(packets as u32);
    }

    fn start_dropping(&mut self, law: &Law, now: Time) {
        self.dropping = true;
        let reached = self.count - self.last_count;
        let recent = now.since(self.drop_next) < law.interval * 16;
        (self.count, self.root) =
            if reached > 1 && recent { (reached, self.root.towards(reached)) } else { (1, InverseRoot::ONE) };
        self.last_count = self.count;
        self.drop_next = law.after(now, self.root);
    }
}

/// Signals congestion by `entry`: marks and returns it, or drops it.
fn signal<P: Packet>(
    law: &Law,
    mut entry: Entry<P>,
    counters: &mut Counters,
    drops: &mut Drops<'_, P>,
) -> Option<Entry<P>> {
    if law.ecn && entry.packet.ecn_capable() {
        entry.packet.mark_ce();
        counters.marked_packets += 1;
        return Some(entry);
    }
    counters.dropped(entry.bytes, DropReason::Early);
    drops(entry.packet, DropReason::Early);
    None
}

/// A first-in, first-out queue under CoDel, with a hard limit.
#[derive(Clone, Debug)]
pub struct Codel<P> {
    limit: DropTail,
    law: Law,
    port: Port,
    control: Control,
    fifo: Fifo<P>,
    counters: Counters,
}

impl<P: Packet> Codel<P> {
    /// An empty queue.
    pub fn from_plan(queue: &CodelQueue, port: Port) -> Codel<P> {
        Codel {
            limit: DropTail::from_plan(&queue.limit),
            law: Law::from_plan(&queue.codel, &port),
            port,
            control: Control::default(),
            fifo: Fifo::default(),
            counters: Counters::default(),
        }
    }
}

impl<P: Packet + Send> Qdisc<P> for Codel<P> {
    fn enqueue(&mut self, now: Time, packet: P, drops: &mut Drops<'_, P>) -> Enqueued {
        let bytes = self.port.wire_bytes(&packet);
        self.counters.arrived(bytes);
        if !self.limit.fits(bytes, self.fifo.bytes(), self.fifo.packets()) {
            self.counters.dropped(bytes, DropReason::Overflow);
            drops(packet, DropReason::Overflow);
            return Enqueued::Dropped;
        }
        self.fifo.push(packet, now, bytes);
        Enqueued::Queued
    }

    fn dequeue(&mut self, now: Time, drops: &mut Drops<'_, P>) -> Option<Dequeued<P>> {
        let entry = self.control.dequeue(&self.law, &mut self.fifo, 0, now, &mut self.counters, drops)?;
        self.counters.left(entry.bytes);
        Some(Dequeued { packet: entry.packet, sojourn: now.since(entry.since), class: 0 })
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

    /// CoDel does not depend on the rate.
    fn set_rate(&mut self, _now: Time, _rate: Rate) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestPacket;

    const PORT: Port = Port { rate: Rate::from_mbps(12), overhead_bytes: 0, mtu_bytes: 1500 };
    const NO_LIMIT: Limit = Limit { bytes: None, packets: Some(1_000_000) };

    fn ms(ms: u64) -> Time {
        Time::ZERO + Dur::from_millis(ms)
    }

    fn codel(mark: Mark) -> Codel<TestPacket> {
        let codel = CodelParams { target_ns: 5_000_000, interval_ns: 100_000_000, mark, ce_threshold_ns: None };
        Codel::from_plan(&CodelQueue { limit: NO_LIMIT, codel }, PORT)
    }

    /// A queue filled at instant 0 with `n` full packets: from 5 ms on every packet is in excess.
    fn filled(mark: Mark, n: u32) -> Codel<TestPacket> {
        let mut queue = codel(mark);
        for id in 0..n {
            queue.enqueue(Time::ZERO, TestPacket::new(id, 1500).with_ecn(), &mut |_, _| panic!("there is room"));
        }
        queue
    }

    /// Dequeues at `now`; the number of packets dropped on the way.
    fn drops_at(queue: &mut Codel<TestPacket>, now: Time) -> usize {
        let mut dropped = 0;
        queue.dequeue(now, &mut |_, reason| {
            assert_eq!(reason, DropReason::Early);
            dropped += 1;
        });
        dropped
    }

    /// The milliseconds at which a queue that is dequeued every millisecond drops.
    fn drop_times(queue: &mut Codel<TestPacket>, range: std::ops::RangeInclusive<u64>) -> Vec<u64> {
        range.filter(|&t| drops_at(queue, ms(t)) > 0).collect()
    }

    /// By hand, with Newton's steps from 1: 0.5, 0.5 (3 - 3/4) / 2 = 0.5625, 0.4878, 0.4415, 0.4041.
    #[test]
    fn the_root_takes_one_step_a_count() {
        let mut root = InverseRoot::ONE;
        for (count, value) in [(2, 0.5), (3, 0.5625), (4, 0.487_793), (5, 0.441_515), (6, 0.404_07)] {
            root = root.towards(count);
            assert!((f64::from(root.0) / 65536.0 - value).abs() < 2e-5, "{count}: {root:?}");
        }
        for count in 7..1000 {
            root = root.towards(count);
            let error = f64::from(root.0) / 65536.0 * f64::from(count).sqrt() - 1.0;
            assert!(error.abs() < 0.02, "{count}: {error}");
        }
    }

    /// By hand: above the target from 10 ms, first drop an interval later at 110, the next 100 ms later, then as the
    /// root has it after each other: 260.00, 316.25, 365.03, 409.18; seen at the next dequeue.
    #[test]
    fn drops_follow_the_control_law() {
        let mut queue = filled(Mark::Drop, 10_000);
        assert_eq!(drop_times(&mut queue, 10..=434), [110, 210, 260, 317, 366, 410]);
        assert_eq!(queue.control.count, 6);
        // 409.1806 + 40.4068.
        assert!((queue.control.drop_next.as_secs_f64() - 0.449_587_4).abs() < 1e-6);
    }

    #[test]
    fn a_late_dequeue_makes_all_the_drops_that_are_due() {
        let mut queue = filled(Mark::Drop, 10_000);
        assert_eq!(drop_times(&mut queue, 10..=209), [110]);
        // Due by 400: 210, 260.00, 316.25, 365.03.
        assert_eq!(drops_at(&mut queue, ms(400)), 4);
    }

    #[test]
    fn below_the_target_nothing_is_dropped() {
        let mut queue = codel(Mark::Drop);
        for t in 0..1000 {
            queue.enqueue(ms(t), TestPacket::new(0, 1500), &mut |_, _| panic!());
            queue.enqueue(ms(t), TestPacket::new(0, 1500), &mut |_, _| panic!());
            assert_eq!(drops_at(&mut queue, ms(t + 4)), 0);
            assert_eq!(drops_at(&mut queue, ms(t + 4)), 0);
        }
    }

    #[test]
    fn one_packet_below_the_target_ends_the_excess() {
        let mut queue = filled(Mark::Drop, 50);
        assert_eq!(drop_times(&mut queue, 60..=109), [0u64; 0]);
        assert_eq!(queue.control.first_above, None, "it ran empty");
        for id in 0..200 {
            queue.enqueue(ms(112), TestPacket::new(id, 1500), &mut |_, _| panic!());
        }
        // Above since 60, but for the packets up to 116, which waited less than 5 ms: the interval begins anew at 117.
        assert_eq!(drop_times(&mut queue, 113..=217), [217]);
    }

    #[test]
    fn a_queue_of_one_full_packet_is_left_alone_and_one_byte_more_is_not() {
        // One packet stays behind each one that leaves, for ever, 10 ms old.
        let drops_with = |bytes_left| {
            let mut queue = codel(Mark::Drop);
            queue.enqueue(ms(0), TestPacket::new(0, bytes_left), &mut |_, _| panic!());
            (1..100)
                .map(|t| {
                    queue.enqueue(ms(10 * t), TestPacket::new(0, bytes_left), &mut |_, _| panic!());
                    drops_at(&mut queue, ms(10 * t))
                })
                .sum::<usize>()
        };
        assert_eq!(drops_with(1500), 0);
        assert!(drops_with(1501) > 0);
    }

    /// Leaves the dropping state after its fifth drop, and returns to it at the instant given.
    fn returns_to_dropping(at_ms: u64) -> Codel<TestPacket> {
        let mut queue = filled(Mark::Drop, 10_000);
        drop_times(&mut queue, 10..=400);
        assert_eq!(queue.control.count, 5);
        while queue.packets() > 1 {
            queue.fifo.pop();
        }
        drops_at(&mut queue, ms(401));
        assert!(!queue.control.dropping);
        for id in 0..1000 {
            queue.enqueue(ms(401), TestPacket::new(id, 1500), &mut |_, _| panic!());
        }
        assert_eq!(drop_times(&mut queue, at_ms - 100..=at_ms), [at_ms]);
        queue
    }

    #[test]
    fn a_dropping_state_soon_after_another_begins_at_its_rate() {
        // Five drops, the first of which set the count to one: 5 - 1 = 4, so the next drop is 50 ms away but for the
        // error of one step from the root of five: 0.4415 (3 - 4 * 0.1949) / 2 = 0.4901.
        let queue = returns_to_dropping(600);
        assert_eq!(queue.control.count, 4);
        assert!((queue.control.drop_next.as_secs_f64() - 0.649_013).abs() < 1e-5);
    }

    #[test]
    fn a_dropping_state_long_after_another_begins_at_one() {
        // The next drop had been due at 409.18; sixteen intervals later is 2009.18.
        assert_eq!(returns_to_dropping(2009).control.count, 4);
        let queue = returns_to_dropping(2010);
        assert_eq!(queue.control.count, 1);
        assert_eq!(queue.control.root, InverseRoot::ONE);
        assert!((queue.control.drop_next.as_secs_f64() - 2.109_998_5).abs() < 1e-6);
    }

    #[test]
    fn capable_packets_are_marked_at_the_same_instants_and_none_is_lost() {
        let mut queue = filled(Mark::Ecn, 10_000);
        let mut marked = Vec::new();
        for t in 10..=434 {
            let out = queue.dequeue(ms(t), &mut |_, _| panic!("nothing is dropped")).unwrap();
            assert_eq!(u64::from(out.packet.id), t - 10);
            if out.packet.ce {
                marked.push(t);
            }
        }
        assert_eq!(marked, [110, 210, 260, 317, 366, 410]);
        assert_eq!(queue.counters().marked_packets, 6);
    }

    #[test]
    fn with_ecn_a_packet_that_is_not_capable_is_dropped() {
        let mut queue = codel(Mark::Ecn);
        for id in 0..1000 {
            queue.enqueue(Time::ZERO, TestPacket::new(id, 1500), &mut |_, _| panic!());
        }
        assert_eq!(drop_times(&mut queue, 10..=300), [110, 210, 260]);
    }

    #[test]
    fn the_sojourn_time_is_given_with_the_packet() {
        let mut queue = filled(Mark::Drop, 3);
        let out = queue.dequeue(ms(7), &mut |_, _| panic!()).unwrap();
        assert_eq!(out.sojourn, Dur::from_millis(7));
    }

    #[test]
    fn the_hard_limit_drops_the_arrival() {
        let limit = Limit { bytes: Some(3000), packets: None };
        let codel =
            CodelParams { target_ns: 5_000_000, interval_ns: 100_000_000, mark: Mark::Drop, ce_threshold_ns: None };
        let mut queue = Codel::from_plan(&CodelQueue { limit, codel }, PORT);
        let mut dropped = Vec::new();
        for id in 0..3 {
            queue.enqueue(Time::ZERO, TestPacket::new(id, 1500), &mut |p, reason| dropped.push((p.id, reason)));
        }
        assert_eq!(dropped, [(2, DropReason::Overflow)]);
    }
}
