//! The trace of the plan's packets: each packet of a train by itself, at its logical instants.

use weir_trace::{Direction, Observer, Sent, TraceRecord};
use weir_units::Time;

use crate::directory::Way;
use crate::frame::{Frame, VNET_BYTES};
use crate::piece::{self, Run};
use crate::train::Segment;

/// The packets of a train, as they were sent; `None` for packets that are not traced or have left.
type Packets = Vec<Option<Box<Sent>>>;

/// Follows packets from host to host.
#[derive(Debug)]
pub struct Tracer {
    observer: Observer,
    /// The packets, by train.
    under_way: Vec<Packets>,
}

impl Tracer {
    /// Creates a tracer without packets.
    pub fn new(observer: Observer) -> Tracer {
        Tracer { observer, under_way: Vec::new() }
    }

    /// Records that a host sends a frame, which begins with `bytes`, a virtio header first.
    pub fn sent(&mut self, at: Time, way: Way, frame: &Frame, bytes: &[u8]) -> Packets {
        let Some(flow) = way.flow.filter(|&flow| self.observer.wants(flow, at)) else { return Packets::new() };
        let direction = if way.route % 2 == 0 { Direction::Forward } else { Direction::Reverse };
        let start = VNET_BYTES + usize::from(frame.ip_start);
        let mut packet = |index| {
            let run = Run { first: index, packets: 1, marked: false };
            let headers = piece::headers(frame, bytes, &run)?;
            self.observer.sent(at, flow, direction, &headers.bytes()[start..], frame.packet_bytes(index))
        };
        (0..frame.packets()).map(&mut packet).collect()
    }

    /// Assigns the packets sent last to `train`.
    pub fn keep(&mut self, train: u32, packets: Packets) {
        let place = train as usize;
        if place >= self.under_way.len() {
            self.under_way.resize_with(place + 1, Packets::new);
        }
        self.under_way[place] = packets;
    }

    /// Records that there was no memory for the packets sent last.
    pub fn forget(&mut self, at: Time, packets: Packets) {
        for sent in packets.into_iter().flatten() {
            self.observer.dropped(at, None, *sent, false);
        }
    }

    /// Records that a packet reaches its host.
    pub fn received(&mut self, at: Time, packet: &Segment) {
        if let Some(sent) = self.take_packet(packet) {
            self.observer.received(at, *sent, packet.is_marked());
        }
    }

    /// Records that a link drops a packet.
    pub fn dropped(&mut self, at: Time, link: u32, packet: &Segment) {
        if let Some(sent) = self.take_packet(packet) {
            self.observer.dropped(at, Some(link), *sent, packet.is_marked());
        }
    }

    fn take_packet(&mut self, packet: &Segment) -> Option<Box<Sent>> {
        self.under_way.get_mut(packet.train as usize)?.get_mut(usize::from(packet.index))?.take()
    }

    /// Removes and returns the records since the last call, in the order of their discovery.
    pub fn take(&mut self) -> Vec<TraceRecord> {
        self.observer.take()
    }
}
