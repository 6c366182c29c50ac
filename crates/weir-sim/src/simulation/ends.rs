//! The ends of flows that run ahead.
//!
//! A region that is one end of a flow takes the packets of its pipe one after the other. Most of them are plain: the next
//! full segment, or an acknowledgement while nothing is missing. They come in runs, and need neither a dispatch nor a look
//! at rare cases. What they cause is what [`Simulation::deliver`] causes.

use weir_links::Pipe;
use weir_units::Time;

use super::Simulation;
use super::links::{Forwarded, Wires};
use super::sending::Sending;
use super::trains::{TRAIN, surely_pass};
use crate::connection::Connection;
use crate::packet::{ECT, Kind, Packet};

/// An end of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// The sender of this flow.
    Sender(usize),
    /// The receiver of this flow.
    Receiver(usize),
}

impl End {
    /// Its flow.
    #[inline]
    pub fn flow(self) -> usize {
        match self {
            End::Sender(flow) | End::Receiver(flow) => flow,
        }
    }
}

impl Simulation {
    /// Processes the events of an end of a flow before `end`; the pipe of `input` leads there.
    pub(super) fn run_end(&mut self, side: End, input: u32, end: u64) {
        let timer = match side {
            End::Sender(flow) => self.slots.senders + flow as u32,
            End::Receiver(flow) => self.slots.receivers + flow as u32,
        };
        let link = &mut self.links[input as usize];
        link.catch_up();
        let Pipe::Fifo(pipe) = &mut link.pipe else { unreachable!("the pipe of an end keeps the order") };
        // Nothing enters the pipe meanwhile: another region feeds it.
        let mut pipe = std::mem::take(pipe);
        let slot = self.slots.pipes + input;
        let mut last = (Time::ZERO, 0);
        let mut taken = 0;
        let (older, newer) = pipe.parts();
        for mut packets in [older, newer] {
            while let Some((&(at, packet), others)) = packets.split_first() {
                let run = match side {
                    End::Sender(flow) => self.take_acks(flow, packets, end),
                    End::Receiver(flow) => self.take_data(flow, packets, end),
                };
                if run > 0 {
                    taken += run;
                    packets = &packets[run..];
                    continue;
                }
                self.run_timer(timer, end.min(at.0), &mut last);
                if at.0 >= end {
                    break;
                }
                taken += 1;
                packets = others;
                self.begin_event(at, slot, &mut last);
                self.deliver(packet.hopped());
            }
        }
        self.run_timer(timer, end, &mut last);
        pipe.skip(taken);
        let next = pipe.front().map_or(Time::MAX, |(at, _)| *at);
        self.links[input as usize].pipe = Pipe::Fifo(pipe);
        self.calendar.set(slot, next);
    }

    /// Processes the events of a timer before `end`.
    #[inline(always)]
    fn run_timer(&mut self, timer: u32, end: u64, last: &mut (Time, u32)) {
        loop {
            let at = self.calendar.due(timer);
            if at.0 >= end {
                return;
            }
            self.begin_event(at, timer, last);
            self.dispatch(timer);
        }
    }

    /// Takes plain segments that come to the receiver of a flow before `end` and before its timer is due, from the front
    /// of `packets`; returns their number.
    fn take_data(&mut self, index: usize, packets: &[(Time, Packet)], end: u64) -> usize {
        let Simulation { links, routes, calendar, lost, slots, flows, host_until, statistics, train, .. } = self;
        let flow = &mut flows[index];
        let Some(connection) = &mut flow.connection else { return 0 };
        if connection.syn_ack_at.is_some() {
            return 0;
        }
        let Connection { receiver, headers, full_bytes, ecn, ect_1, .. } = &mut **connection;
        let payload = *full_bytes - *headers;
        let plain = Packet::new(Kind::Data, index, 0, *full_bytes, flow.connection_number, flow.dscp)
            .flagged(ECT, *ecn)
            .with_ect_1(*ect_1);
        let reply = Packet::new(Kind::Ack, index, flow.reverse_start, *headers, flow.connection_number, flow.dscp);
        let Some(first) = routes.link(flow.reverse_start) else { return 0 };
        let fused = routes.fused(flow.reverse_start + 1).is_some()
            && links[first as usize].surely_passes(TRAIN as u64, *headers)
            && surely_pass(links, routes, flow.reverse_start, *headers);
        let mut wires = Wires { links, routes, calendar, lost, pipes: slots.pipes };
        let (mut taken, mut stopped) = (0, None);
        for &(at, packet) in packets {
            let is_next = packet.is_like(&plain) && receiver.expects(packet.number());
            if at.0 >= end || receiver.deadline() < at || !is_next {
                break;
            }
            taken += 1;
            self.now = at;
            let Some(ack) = receiver.take_next(at, payload, packet.stamp()) else { continue };
            let until = &mut host_until[first as usize];
            if let Some(processing) = &mut flow.processing {
                *until = (*until).max(at + processing.draw());
            }
            let at = at.max(*until);
            statistics.packets += 1;
            statistics.unsent += u64::from(at > self.end);
            let packet = reply.numbered(ack.ack).stamped(ack.tsecr).echoing(ack.echo);
            if fused {
                train.push((at, packet));
                if train.len() == TRAIN {
                    break;
                }
                continue;
            }
            let forwarded = wires.forward(first, packet, at);
            if !matches!(forwarded, Forwarded::Sent(_)) {
                stopped = Some(forwarded);
                break;
            }
        }
        if taken > 0 {
            wires.calendar.set(slots.receivers + index as u32, receiver.deadline());
            statistics.events += taken as u64;
            self.gone += taken as u64;
            self.batches.data += taken as u64;
        }
        if let Some(stopped) = stopped {
            self.settle(stopped);
        }
        self.move_train(Some(first));
        taken
    }

    /// Takes plain acknowledgements that come to the sender of a flow before `end` and before it is due, from the front of
    /// `packets`; returns their number.
    fn take_acks(&mut self, index: usize, packets: &[(Time, Packet)], end: u64) -> usize {
        let Some(mut sending) = Sending::of(self, index) else { return 0 };
        let plain = sending.plain_ack();
        let (mut taken, mut now, mut rest) = (0, Time::ZERO, None);
        for &(at, packet) in packets {
            let due = sending.due();
            if at.0 >= end || due < at || !packet.is_like(&plain) || !sending.sender().on_plain_ack(at, packet.number())
            {
                break;
            }
            taken += 1;
            now = at;
            rest = sending.next(now, true);
            if rest.is_some() {
                break;
            }
        }
        if taken > 0 {
            let due = sending.due();
            self.now = now;
            self.calendar.set(self.slots.senders + index as u32, due);
            self.statistics.events += taken as u64;
            self.gone += taken as u64;
            self.batches.acks += taken as u64;
        }
        self.move_train(None);
        if let Some(transmit) = rest {
            self.transmit(index, transmit);
            self.pump(index);
        }
        taken
    }
}
