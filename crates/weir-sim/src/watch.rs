//! What is kept beside single packets: congestion headers, and observers for traces, one-way delays and
//! acknowledgements. Runs without them pay nothing.

use weir_cc::Feedback;
use weir_elements::Packet as _;
use weir_links::{DelayStats, Link};
use weir_plan::Plan;
use weir_run::Tables;
use weir_tcp::{Segment, Sender};
use weir_units::Time;

use crate::acks::AckLog;
use crate::flow::Flow;
use crate::headers::Headers;
use crate::packet::Packet;
use crate::sacks::Sacks;
use crate::slab::Slab;
use crate::trace::{TraceRecord, Tracer};

/// Follows packets from end to end.
pub(crate) struct Watch {
    headers: Option<Headers>,
    delays: Option<Delays>,
    tracer: Option<Tracer>,
    acks: Option<AckLog>,
}

struct Delays {
    stats: DelayStats,
    /// Time of sending of each data packet in flight. A data packet stores its place instead of that of SACK blocks.
    sent: Slab<Time>,
}

impl Watch {
    /// What a plan with these flows needs; none if it needs nothing. With `hosts` that take time for packets there is one
    /// that observes nothing: their packets are looked at one by one, too.
    pub fn of(plan: &Plan, flows: &[Flow], hosts: bool) -> Option<Watch> {
        let interval_ns = plan.measure.delay_ns;
        let delays = (interval_ns > 0)
            .then(|| Delays { stats: DelayStats::new(plan.flows.len(), interval_ns), sent: Slab::default() });
        let (tracer, acks, headers) = (Tracer::from_plan(plan), AckLog::from_plan(plan), Headers::of(plan, flows));
        let observed = delays.is_some() || tracer.is_some() || acks.is_some();
        (observed || hosts || headers.is_some()).then_some(Watch { headers, delays, tracer, acks })
    }

    /// A host sends a packet into its first link; returns the packet with its identity.
    #[inline(never)]
    pub fn sent(&mut self, at: Time, mut packet: Packet, sacks: &Sacks) -> Packet {
        if let Some(delays) = self.delays.as_mut().filter(|_| packet.is_data()) {
            packet = packet.with_sack(delays.sent.put(at));
        }
        if let Some(tracer) = &mut self.tracer {
            packet = tracer.sent(at, packet, sacks);
        }
        match &mut self.headers {
            None => packet,
            Some(headers) => headers.sent(packet),
        }
    }

    /// A packet comes to an evented link, before its queue may transmit it.
    #[cold]
    pub fn arrived(&mut self, link: &mut Link<Packet>, at: Time, packet: &Packet) {
        if let Some(headers) = &mut self.headers {
            headers.arrived(link, at, packet);
        }
    }

    /// A packet begins its transmission on an evented link.
    #[cold]
    pub fn departs(&mut self, link: &mut Link<Packet>, at: Time, packet: &Packet) {
        if let Some(headers) = &mut self.headers {
            headers.departs(link, at, packet);
        }
    }

    /// A packet reaches its destination. Returns it as it was before [`sent`](Watch::sent) but for observers' numbers, and
    /// the explicit feedback for its sender.
    #[inline(never)]
    pub fn received(&mut self, now: Time, packet: Packet) -> (Packet, Option<Feedback>) {
        let (packet, feedback) = match &mut self.headers {
            None => (packet, None),
            Some(headers) => headers.received(packet),
        };
        if let Some(tracer) = &mut self.tracer {
            tracer.received(now, &packet);
        }
        if let Some(delays) = self.delays.as_mut().filter(|_| packet.is_data()) {
            let sent = delays.sent.take(packet.sack());
            delays.stats.arrived(packet.flow() as u32, sent, now);
        }
        (packet, feedback)
    }

    /// A flow sends a segment.
    #[cold]
    pub fn segment(&mut self, now: Time, index: usize, connection: u8, segment: &Segment, sender: &Sender) {
        if let Some(headers) = &mut self.headers {
            headers.announce(index, connection, sender);
        }
        if let Some(acks) = &mut self.acks {
            acks.sent(now, index, connection, segment, sender);
        }
    }

    /// A flow has processed an acknowledgement.
    #[cold]
    pub fn acknowledged(&mut self, now: Time, index: usize, connection: u8, sender: &mut Sender) {
        if let Some(acks) = &mut self.acks {
            acks.acknowledged(now, index, connection, sender);
        }
    }

    /// A link drops a packet; returns it as [`received`](Watch::received) does.
    #[cold]
    pub fn dropped(&mut self, at: Time, link: u32, packet: Packet) -> Packet {
        let packet = match &mut self.headers {
            None => packet,
            Some(headers) => headers.removed(packet).0,
        };
        if let Some(tracer) = &mut self.tracer {
            tracer.dropped(at, link, &packet);
        }
        if let Some(delays) = self.delays.as_mut().filter(|_| packet.is_data()) {
            delays.sent.take(packet.sack());
        }
        packet
    }

    /// Adds the rows of the intervals that end by `now`.
    pub fn drain(&mut self, now: Time, tables: &mut Tables) {
        if let Some(delays) = &mut self.delays {
            let (rows, bins) = delays.stats.take(now);
            tables.delays.extend(rows);
            tables.delay_bins.extend(bins);
        }
        if let Some(acks) = &mut self.acks {
            acks.drain(&mut tables.acks);
        }
    }

    /// Removes and returns the records of the trace up to `now`.
    pub fn drain_trace(&mut self, now: Time) -> Vec<TraceRecord> {
        self.tracer.as_mut().map_or_else(Vec::new, |tracer| tracer.drain(now))
    }
}
