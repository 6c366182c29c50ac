//! Trains in memory, and the small records of their packets that go through the links.

use weir_elements::Packet;
use weir_units::Time;

use crate::frame::Frame;
use crate::pool::{Buffer, Pool};

/// The number of no flow.
pub const NO_FLOW: u32 = u32::MAX;

const DATA: u8 = 1;
const ECT: u8 = 2;
const CE: u8 = 4;
/// The mark was counted.
const COUNTED: u8 = 8;
const ECT_1: u8 = 16;
const FLOODED: u8 = 32;

/// One packet of a train, as links process it. A single packet is a train of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The train, a place in [`Trains`].
    pub train: u32,
    /// Place on its route, see `weir_links::Routes`.
    pub place: u32,
    hash: u32,
    ip_bytes: u16,
    /// Number within the train, from 0.
    pub index: u16,
    flags: u8,
    dscp: u8,
}

impl Segment {
    /// Creates packet `index` of `train`, at the start of its route.
    pub fn new(train: u32, index: u16, frame: &Frame, place: u32, hash: u32) -> Segment {
        let ecn = frame.traffic_class & 3;
        let flags = if frame.is_data() { DATA } else { 0 }
            | if ecn != 0 { ECT } else { 0 }
            | if ecn == 1 { ECT_1 } else { 0 }
            | if ecn == 3 { CE | COUNTED } else { 0 };
        let ip_bytes = frame.packet_bytes(u32::from(index)).min(u32::from(u16::MAX)) as u16;
        Segment { train, place, hash, ip_bytes, index, flags, dscp: frame.traffic_class >> 2 }
    }

    /// The same packet, one place further on its route.
    pub fn hopped(mut self) -> Segment {
        self.place += 1;
        self
    }

    /// The same packet, of which a switch makes a copy for each other port.
    pub fn flooded(mut self) -> Segment {
        self.flags |= FLOODED;
        self
    }

    /// Whether a switch makes copies of it.
    pub fn is_flooded(&self) -> bool {
        self.flags & FLOODED != 0
    }

    /// A copy at this place of a route.
    pub fn alone_at(mut self, place: u32) -> Segment {
        self.place = place;
        self.flags &= !FLOODED;
        self
    }

    /// Whether it is marked congestion-experienced.
    pub fn is_marked(&self) -> bool {
        self.flags & CE != 0
    }

    /// Whether it has been marked since the last call.
    pub fn take_new_mark(&mut self) -> bool {
        let new = self.flags & (CE | COUNTED) == CE;
        self.flags |= if new { COUNTED } else { 0 };
        new
    }
}

impl Packet for Segment {
    #[inline]
    fn ip_bytes(&self) -> u32 {
        u32::from(self.ip_bytes)
    }
    #[inline]
    fn is_data(&self) -> bool {
        self.flags & DATA != 0
    }
    #[inline]
    fn ecn_capable(&self) -> bool {
        self.flags & ECT != 0
    }
    #[inline]
    fn is_l4s(&self) -> bool {
        self.flags & (ECT_1 | CE) != 0
    }
    #[inline]
    fn mark_ce(&mut self) {
        self.flags |= CE;
    }
    #[inline]
    fn flow_hash(&self) -> u32 {
        self.hash
    }
    #[inline]
    fn dscp(&self) -> u8 {
        self.dscp
    }
}

/// A train in memory.
#[derive(Debug)]
pub struct Train {
    /// The frame as it was read, with its virtio header.
    pub buffer: Buffer,
    /// The parsed frame.
    pub frame: Frame,
    /// Its flow, or [`NO_FLOW`].
    pub flow: u32,
    /// Whether it carries data of its flow to the receiver: only then losses, marks and delays count.
    pub counts: bool,
    /// The instant at which its host handed it to its device.
    pub sent: Time,
    /// Number of its packets under way.
    alive: u32,
}

/// The trains under way.
#[derive(Debug)]
pub struct Trains {
    slots: Vec<Option<Train>>,
    free: Vec<u32>,
    /// Their memory.
    pub pool: Pool,
}

impl Trains {
    /// Creates an empty set.
    pub fn new(pool: Pool) -> Trains {
        Trains { slots: Vec::new(), free: Vec::new(), pool }
    }

    /// Adds a train; returns its place.
    pub fn add(&mut self, buffer: Buffer, frame: Frame, flow: u32, counts: bool, sent: Time) -> u32 {
        let train = Train { buffer, frame, flow, counts, sent, alive: frame.packets() };
        match self.free.pop() {
            Some(place) => {
                self.slots[place as usize] = Some(train);
                place
            }
            None => {
                self.slots.push(Some(train));
                self.slots.len() as u32 - 1
            }
        }
    }

    /// The train at `place`.
    ///
    /// # Panics
    /// The train has left.
    pub fn get(&self, place: u32) -> &Train {
        self.slots[place as usize].as_ref().expect("a packet keeps its train")
    }

    /// The train at `place`, mutable.
    ///
    /// # Panics
    /// The train has left.
    pub fn get_mut(&mut self, place: u32) -> &mut Train {
        self.slots[place as usize].as_mut().expect("a packet keeps its train")
    }

    /// Records that a switch made `copies` of a packet of the train.
    pub fn share(&mut self, place: u32, copies: u32) {
        self.get_mut(place).alive += copies;
    }

    /// Records that `packets` of the train have left; the last one frees the train's memory.
    pub fn release(&mut self, place: u32, packets: u16) {
        let train = self.get_mut(place);
        train.alive -= u32::from(packets);
        if train.alive == 0 {
            let train = self.slots[place as usize].take().expect("it was there");
            self.pool.free(train.buffer);
            self.free.push(place);
        }
    }

    /// Number of trains under way.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether none is under way.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops all trains.
    pub fn clear(&mut self) {
        let Trains { slots, free, pool } = self;
        free.clear();
        slots.drain(..).flatten().for_each(|train| pool.free(train.buffer));
    }
}
