//! CoDel: controlled delay (RFC 8289).
//!
//! Each packet carries the instant of its arrival. When the time that packets wait has stayed above `target` for an
//! `interval`, the queue enters its dropping state: it drops the packet at its head, and the next one
//! `interval / sqrt(count)` after the last, until a packet has waited less than the target. A queue that holds no more
//! than one full packet is never in excess. A dropping state soon after the last one (within 16 intervals) begins at the
//! rate that the last one had reached (section 5.5).
//!
//! With ECN, a capable packet is marked and sent where it would have been dropped (section 5.6 of the RFC leaves the place
//! open; this is that of Linux).
//!
//! Train: taken apart on arrival. A train dropped as a whole would be up to 44 signals where the control law asked for one.

use weir_plan::{CodelParams, Limit, Mark};
use weir_units::{Dur, Rate, Time};

use crate::fifo::{Entry, Fifo};
use crate::qdisc::Drops;
use crate::{Counters, Dequeued, DropReason, DropTail, Enqueued, Packet, Port, Qdisc};

/// The parameters of the control law.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Law {
    target: Dur,
    interval: Dur,
    ecn: bool,
    max_packet: u64,
}

impl Law {
    pub fn from_plan(params: &CodelParams, port: &Port) -> Law {
        Law {
            target: Dur(params.target_ns),
            interval: Dur(params.interval_ns),
            ecn: params.mark == Mark::Ecn,
            max_packet: u64::from(port.full_packet()),
        }
    }

    /// The next drop of a dropping state: `interval / sqrt(count)` after `last`.
    fn after(&self, last: Time, count: u32) -> Time {
        // IEEE 754 square root and division are exact to the last bit: the same on every machine.
        last + Dur((self.interval.0 as f64 / f64::from(count).sqrt()) as u64)
    }
}

/// The state of the controller of one queue; names as in the RFC.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Control {
    /// When the sojourn time will have been above the target for an interval; none while it is below.
    first_above: Option<Time>,
    drop_next: Time,
    /// Packets dropped in this dropping state.
    count: u32,
    /// `count` at the begin of this dropping state.
    last_count: u32,
    dropping: bool,
}

impl Control {
    /// The next packet of `fifo` to transmit, after dropping those that the control law asks for.
    pub fn dequeue<P: Packet>(
        &mut self,
        law: &Law,
        fifo: &mut Fifo<P>,
        now: Time,
        counters: &mut Counters,
        drops: &mut Drops<'_, P>,
    ) -> Option<Entry<P>> {
        let (mut head, mut in_excess) = self.pop(law, fifo, now);
        if !self.dropping {
            if in_excess {
                head = match signal(law, head?, counters, drops) {
                    Some(marked) => Some(marked),
                    None => self.pop(law, fifo, now).0,
                };
                self.start_dropping(law, now);
            }
            return head;
        }
        self.dropping = in_excess;
        while self.dropping && now >= self.drop_next {
            self.count = self.count.saturating_add(1);
            if let Some(marked) = signal(law, head?, counters, drops) {
                self.drop_next = law.after(self.drop_next, self.count);
                return Some(marked);
            }
            (head, in_excess) = self.pop(law, fifo, now);
            if in_excess {
                self.drop_next = law.after(self.drop_next, self.count);
            } else {
                self.dropping = false;
            }
        }
        head
    }

    /// The packet at the head, and whether the queue has been in excess for an interval.
    fn pop<P>(&mut self, law: &Law, fifo: &mut Fifo<P>, now: Time) -> (Option<Entry<P>>, bool) {
        let Some(entry) = fifo.pop() else {
            self.first_above = None;
            return (None, false);
        };
        if now.since(entry.since) < law.target || fifo.bytes() <= law.max_packet {
            self.first_above = None;
            return (Some(entry), false);
        }
        let first_above = *self.first_above.get_or_insert(now + law.interval);
        (Some(entry), now >= first_above)
    }

    fn start_dropping(&mut self, law: &Law, now: Time) {
        self.dropping = true;
        let reached = self.count - self.last_count;
        let recent = now.since(self.drop_next) < law.interval * 16;
        self.count = if reached > 1 && recent { reached } else { 1 };
        self.last_count = self.count;
        self.drop_next = law.after(now, self.count);
    }
}

/// Signals congestion with `entry`: marks it and gives it back, or drops it.
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
    pub fn from_plan(limit: &Limit, params: &CodelParams, port: Port) -> Codel<P> {
        Codel {
            limit: DropTail::from_plan(limit),
            law: Law::from_plan(params, &port),
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
        let entry = self.control.dequeue(&self.law, &mut self.fifo, now, &mut self.counters, drops)?;
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

    /// CoDel measures time, not rate.
    fn set_rate(&mut self, _now: Time, _rate: Rate) {}
}
