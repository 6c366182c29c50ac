//! What hosts send, in the order in which they sent it.
//!
//! Frames enter the network at the instant at which they entered their device, where the device or a tap beside it says
//! so: however late the emulator reads them, on their way through the links they are not late. For that, all that hosts
//! sent before an instant must be in the network before the network goes on to it. So each device is read until it is
//! empty or shows a frame of later, and the earliest frame of all goes first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use weir_emu::Network;
use weir_emu::frame::Frame;
use weir_emu::pool::LARGEST;
use weir_units::{Dur, Time};

use crate::capture::Capture;
use crate::clock::Clock;
use crate::device::Device;
use crate::meter::Meter;

/// Frames read, for each device that has some, before what is due is delivered.
const READ_BATCH: usize = 8;
/// The same after a stall: what is due follows from what is still to be read.
const CATCH_UP_BATCH: usize = 32;
/// After a stall, the wait of the first unread frame becomes shorter all the time. If it becomes longer by this much, hosts
/// send more than this processor reads: then the network goes on, and frames enter when they are read.
const FALLING_BEHIND: Dur = Dur::from_millis(2);

/// The devices of the hosts.
pub struct Intake {
    ports: Vec<Port>,
    /// A host's device is read only while its network card holds less than this.
    horizon: Dur,
    /// The hosts that have a frame, the earliest first.
    order: BinaryHeap<Reverse<(Time, u32)>>,
    scratch: Option<Box<[u8]>>,
    /// If each reading left frames of before: the shortest that the first of them had waited.
    behind: Option<Dur>,
    /// Hosts send more than is read.
    is_flooded: bool,
}

struct Port {
    device: Device,
    /// It may hold frames.
    readable: bool,
    /// A frame that was read.
    head: Option<Head>,
    /// When the frame read last had entered.
    last_at: Time,
}

struct Head {
    at: Time,
    is_stamped: bool,
    frame: Frame,
    bytes: Box<[u8]>,
    len: usize,
}

/// What a frame passes on its way in.
pub struct Way<'a> {
    /// Its network.
    pub network: &'a mut Network,
    /// The network's clock.
    pub clock: Clock,
    /// Where it is captured.
    pub capture: Option<&'a mut Capture>,
    /// Where it is counted.
    pub meter: &'a mut Meter,
}

/// How far the devices were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// All that hosts sent before is in the network.
    pub complete: Time,
    /// When to read again, if no device tells of new frames before.
    pub again: Time,
}

impl Intake {
    /// For `devices`, one a host.
    pub fn new(devices: Vec<Device>, horizon: Dur) -> Intake {
        let port = |device| Port { device, readable: true, head: None, last_at: Time::ZERO };
        Intake {
            ports: devices.into_iter().map(port).collect(),
            horizon,
            order: BinaryHeap::new(),
            scratch: None,
            behind: None,
            is_flooded: false,
        }
    }

    /// The device of a host.
    pub fn device(&self, host: u32) -> &Device {
        &self.ports[host as usize].device
    }

    /// A device has new frames.
    pub fn tell(&mut self, host: u64) {
        self.ports[host as usize].readable = true;
    }

    /// Whether frames come with the instant at which they entered.
    pub fn has_stamps(&self) -> bool {
        self.ports.iter().any(|port| port.device.has_stamps())
    }

    /// Frames that the devices have refused because they were full.
    ///
    /// # Errors
    /// From the system.
    pub fn refused(&self) -> io::Result<u64> {
        self.ports.iter().map(|port| port.device.refused()).sum()
    }

    /// Learns how the clock of the stamps stands.
    pub fn read_clocks(&mut self) {
        self.ports.iter_mut().for_each(|port| port.device.read_clocks());
    }

    /// Drops what was read.
    pub fn forget(&mut self, network: &mut Network) {
        self.catch_up();
        let heads = self.ports.iter_mut().filter_map(|port| port.head.take());
        heads.for_each(|head| network.trains.pool.unused(head.bytes));
    }

    /// Reads what hosts sent until `seen`, up to a number of frames. Devices that have frames of before were told.
    ///
    /// # Errors
    /// From a device.
    pub fn read(&mut self, seen: Time, way: &mut Way<'_>) -> io::Result<Read> {
        let mut again = Time::MAX;
        self.order.clear();
        for host in 0..self.ports.len() as u32 {
            again = again.min(self.refill(host, way)?);
        }
        // In a flood, to read more would leave less time for what is due.
        let batch = if self.behind.is_some() && !self.is_flooded { CATCH_UP_BATCH } else { READ_BATCH };
        let mut left = batch * self.order.len();
        while let Some(Reverse((at, host))) = self.order.pop() {
            // Frames without a stamp are of now; another one of before may still come where there are stamps.
            if at > seen && self.ports[host as usize].head.as_ref().is_some_and(|head| head.is_stamped) {
                again = Time::ZERO;
                break;
            }
            if left == 0 {
                return Ok(Read { complete: self.fall_behind(at, seen), again: Time::ZERO });
            }
            left -= 1;
            self.inject(host, way);
            again = again.min(self.refill(host, way)?);
        }
        self.catch_up();
        Ok(Read { complete: seen, again })
    }

    /// Up to when it is known what hosts sent, if all devices were asked until `now`: a frame that waits in a device for
    /// the network card of its host is not known, but it entered later than the one before it.
    pub fn known(&self, now: Time) -> Time {
        let known = |port: &Port| match &port.head {
            Some(head) => head.at,
            None if port.readable => port.last_at,
            None => now,
        };
        self.ports.iter().map(known).fold(now, Time::min)
    }

    /// The first frame that is still to be read is of `at`: how far the network may go.
    fn fall_behind(&mut self, at: Time, seen: Time) -> Time {
        let wait = seen.since(at);
        let shortest = self.behind.map_or(wait, |shortest| shortest.min(wait));
        self.behind = Some(shortest);
        self.is_flooded = wait > shortest + FALLING_BEHIND;
        if self.is_flooded { seen } else { at.min(seen) }
    }

    /// No frame of before is left.
    fn catch_up(&mut self) {
        self.behind = None;
        self.is_flooded = false;
    }

    /// Has the next frame of a host in its place, if it has one and may send it; else says when it may.
    fn refill(&mut self, host: u32, way: &mut Way<'_>) -> io::Result<Time> {
        let port = &mut self.ports[host as usize];
        while port.head.is_none() && port.readable {
            let ready = way.network.ready_for(host, self.horizon);
            if ready > way.clock.now() {
                return Ok(ready);
            }
            let mut bytes = self.scratch.take().unwrap_or_else(|| way.network.trains.pool.scratch());
            let Some(arrival) = port.device.read(&mut bytes[..LARGEST])? else {
                port.readable = false;
                self.scratch = Some(bytes);
                break;
            };
            match Frame::parse(&bytes[..arrival.len], port.device.link) {
                Ok(frame) => {
                    let (now, len) = (way.clock.now(), arrival.len);
                    let stamp = arrival.at_ns.map(|at_ns| way.clock.at(at_ns).min(now));
                    way.meter.read(now, stamp);
                    port.last_at = stamp.unwrap_or(now);
                    port.head = Some(Head { at: port.last_at, is_stamped: stamp.is_some(), frame, bytes, len });
                }
                Err(_) => {
                    way.meter.malformed_frames += 1;
                    self.scratch = Some(bytes);
                }
            }
        }
        if let Some(head) = &port.head {
            self.order.push(Reverse((head.at, host)));
        }
        Ok(Time::MAX)
    }

    fn inject(&mut self, host: u32, way: &mut Way<'_>) {
        let Some(Head { at, frame, bytes, len, .. }) = self.ports[host as usize].head.take() else { return };
        // What entered earlier than the network is waited for its network card, or was overtaken by a hair.
        let sent = at;
        let at = at.max(way.network.now());
        if let Some(capture) = &mut way.capture {
            capture.sent(at, host, &frame, &bytes[..len]);
        }
        way.network.inject(at, sent, host, &frame, bytes, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    /// How far the network may go, less the instant of the first unread frame, when it had waited so long; in us.
    fn ahead(waits_us: &[u64]) -> Vec<u64> {
        let mut intake = Intake::new(Vec::new(), Dur::ZERO);
        let seen = Time(1_000_000 * US);
        let ahead = |wait_us| {
            let at = Time(seen.0 - wait_us * US);
            intake.fall_behind(at, seen).since(at).0 / US
        };
        waits_us.iter().copied().map(ahead).collect()
    }

    #[test]
    fn after_a_stall_the_network_waits_for_what_is_still_to_be_read() {
        assert_eq!(ahead(&[20_000, 15_000, 16_000, 9_000, 4_000, 100]), [0; 6]);
    }

    #[test]
    fn hosts_that_send_more_than_is_read_do_not_hold_it_back() {
        assert_eq!(ahead(&[100, 1_000, 2_000, 2_200, 9_000]), [0, 0, 0, 2_200, 9_000]);
        assert_eq!(ahead(&[20_000, 5_000, 7_500, 6_000]), [0, 0, 7_500, 0]);
    }
}
