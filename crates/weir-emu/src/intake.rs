//! The frames of the hosts, in the order in which the hosts sent them.
//!
//! A frame enters the network at the instant at which it entered its device, if the device or its tap knows that
//! instant. Then late reading does not delay the frame on its way through the links. This requires that the network
//! advances to an instant only when it has all earlier frames. So each device is read until it is empty or shows a
//! later frame, and the earliest frame of all devices enters first.

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

/// Frames read per readable device before due frames are delivered.
const READ_BATCH: usize = 8;
/// The same after a stall, when the due frames depend on unread ones.
const CATCH_UP_BATCH: usize = 32;
/// After a stall, the wait of the first unread frame shrinks steadily. If it grows by this much, hosts send faster than
/// this processor reads: then the network advances, and frames enter when they are read.
const FALLING_BEHIND: Dur = Dur::from_millis(2);

/// The devices of the hosts.
pub struct Intake {
    ports: Vec<Port>,
    /// A host's device is read only while its network card's queue is shorter than this.
    horizon: Dur,
    /// The hosts with a frame, by its instant.
    order: BinaryHeap<Reverse<(Time, u32)>>,
    scratch: Option<Box<[u8]>>,
    /// While each reading leaves earlier frames: the shortest wait of the first of them.
    behind: Option<Dur>,
    /// Whether hosts send faster than frames are read.
    is_flooded: bool,
}

struct Port {
    device: Device,
    /// Whether the device may have frames.
    readable: bool,
    /// The frame read last, if it has not yet entered the network.
    head: Option<Head>,
    /// The instant at which the frame read last entered the device.
    last_at: Time,
}

struct Head {
    at: Time,
    is_stamped: bool,
    frame: Frame,
    bytes: Box<[u8]>,
    len: usize,
}

/// The stations of a frame on its way in.
pub struct Way<'a> {
    /// The network.
    pub network: &'a mut Network,
    /// The network's clock.
    pub clock: Clock,
    /// The capture, if any.
    pub capture: Option<&'a mut Capture>,
    /// The counters.
    pub meter: &'a mut Meter,
}

/// The progress of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The network has all frames that hosts sent before this instant.
    pub complete: Time,
    /// The instant of the next reading, unless a device becomes readable before.
    pub again: Time,
}

impl Intake {
    /// For `devices`, one for each host.
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

    /// Records that a device has new frames.
    pub fn tell(&mut self, host: u64) {
        self.ports[host as usize].readable = true;
    }

    /// Whether the instants at which frames entered their devices are known.
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

    /// Compares the clocks of timestamps and of the emulator.
    pub fn read_clocks(&mut self) {
        self.ports.iter_mut().for_each(|port| port.device.read_clocks());
    }

    /// Drops the frames that were read.
    pub fn forget(&mut self, network: &mut Network) {
        self.catch_up();
        let heads = self.ports.iter_mut().filter_map(|port| port.head.take());
        heads.for_each(|head| network.trains.pool.unused(head.bytes));
    }

    /// Reads the frames that hosts sent until `seen`, up to a number. All devices with earlier frames are known to be
    /// readable.
    ///
    /// # Errors
    /// From a device.
    pub fn read(&mut self, seen: Time, way: &mut Way<'_>) -> io::Result<Read> {
        let mut again = Time::MAX;
        self.order.clear();
        for host in 0..self.ports.len() as u32 {
            again = again.min(self.refill(host, way)?);
        }
        // In a flood, further reading would leave less time for deliveries.
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

    /// The instant up to which all frames are known, if all devices were polled at `now`. A frame that waits in a
    /// device for its host's network card is unknown, but it entered later than the frame before it.
    pub fn known(&self, now: Time) -> Time {
        let known = |port: &Port| match &port.head {
            Some(head) => head.at,
            None if port.readable => port.last_at,
            None => now,
        };
        self.ports.iter().map(known).fold(now, Time::min)
    }

    /// How far the network may advance if the first unread frame entered at `at`.
    fn fall_behind(&mut self, at: Time, seen: Time) -> Time {
        let wait = seen.since(at);
        let shortest = self.behind.map_or(wait, |shortest| shortest.min(wait));
        self.behind = Some(shortest);
        self.is_flooded = wait > shortest + FALLING_BEHIND;
        if self.is_flooded { seen } else { at.min(seen) }
    }

    /// Records that no earlier frame is unread.
    fn catch_up(&mut self) {
        self.behind = None;
        self.is_flooded = false;
    }

    /// Reads the next frame of a host, if the host may send; otherwise returns when it may.
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
        // A frame with an earlier instant has waited for its network card, or was overtaken by very little.
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

    /// How far the network advances beyond the first unread frame after such a wait; in us.
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
