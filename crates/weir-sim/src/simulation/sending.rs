//! Sending: what a flow's sender transmits, as far as window, host and first link permit.

use weir_links::{Calendar, Link};
use weir_tcp::{Sender, Train, Transmit};
use weir_units::Time;

use super::trains::{TRAIN, surely_pass};
use super::{Simulation, Statistics};
use crate::connection::Connection;
use crate::hosts::Hosts;
use crate::local_queue::LocalQueue;
use crate::packet::{ECT, Kind, Packet};

/// A sender and what it needs to send.
pub(super) struct Sending<'a> {
    connection: &'a mut Connection,
    local: &'a mut LocalQueue,
    local_limited: bool,
    wake: &'a mut Time,
    application_due: Time,
    first: &'a mut Link<Packet>,
    calendar: &'a mut Calendar,
    /// The slot of the pipe of its first link.
    pipe: u32,
    statistics: &'a mut Statistics,
    /// The earliest instant at which a packet of its host enters the first link.
    host_until: Time,
    end: Time,
    /// A full segment, without number and timestamp.
    segment: Packet,
    /// Whether trains may be sent: no packet is observed singly, and links that are fused with the first one have room.
    trains: bool,
    /// Whether packets enter other links together with the first one.
    fused: bool,
    /// The packets that wait before those links.
    train: &'a mut Vec<(Time, Packet)>,
}

impl<'a> Sending<'a> {
    /// The sender of flow `index`; none without a connection, or while its process waits for its host.
    #[inline(always)]
    pub fn of(simulation: &'a mut Simulation, index: usize) -> Option<Sending<'a>> {
        let Simulation {
            now,
            end,
            slots,
            calendar,
            routes,
            links,
            flows,
            hosts,
            host_until,
            statistics,
            watch,
            train,
            ..
        } = simulation;
        let flow = &mut flows[index];
        let connection = flow.connection.as_mut()?;
        let (link, place) = (flow.first_link, flow.forward_start);
        let fused = routes.fused(place + 1).is_some();
        let trains = match watch {
            None => !fused || surely_pass(links, routes, place, connection.full_bytes),
            Some(_) if waits_for_host(hosts, index, connection, *now) => return None,
            Some(_) => false,
        };
        let segment = Packet::new(Kind::Data, index, place, connection.full_bytes, flow.connection_number, flow.dscp);
        Some(Sending {
            segment: segment.flagged(ECT, connection.ecn).with_ect_1(connection.ect_1),
            connection,
            local: &mut flow.local,
            local_limited: flow.local_limited,
            wake: &mut flow.wake,
            application_due: flow.application_due,
            first: &mut links[link],
            calendar,
            pipe: slots.pipes + link as u32,
            statistics,
            host_until: host_until[link],
            end: *end,
            trains,
            fused,
            train,
        })
    }

    /// The sender.
    #[inline]
    pub fn sender(&mut self) -> &mut Sender {
        &mut self.connection.sender
    }

    /// The next instant at which the application or the sender acts.
    #[inline]
    pub fn due(&self) -> Time {
        (*self.wake).min(self.application_due).min(self.connection.sender.deadline())
    }

    /// An acknowledgement without SACK blocks and flags that the sender may get: all but its number and timestamp.
    #[inline]
    pub fn plain_ack(&self) -> Packet {
        self.segment.answered(Kind::Ack, self.connection.headers)
    }

    /// Transmits trains, which the caller [moves on](Simulation::move_train); returns a packet that needs more ado. None if
    /// the sender may send nothing now. `after_ack`: at once after a plain acknowledgement.
    #[inline]
    pub fn next(&mut self, now: Time, after_ack: bool) -> Option<Transmit> {
        if *self.wake <= now {
            // Left in the past, it would be due again and again at the same instant.
            *self.wake = Time::MAX;
        }
        let (sent, fills_window) = if self.trains { self.send_train(now, after_ack) } else { (0, false) };
        if fills_window {
            return None;
        }
        if after_ack && sent == 0 {
            self.sender().sent_no_train(now);
        }
        let Connection { sender, full_bytes, .. } = &mut *self.connection;
        if self.local_limited && !self.local.has_room(sender, *full_bytes, now, self.wake) {
            return None;
        }
        if !self.first.has_room(now.max(self.host_until), *full_bytes) {
            if sender.wants_to_send() {
                sender.on_local_congestion(now);
                *self.wake = self.first.half_drained(now);
            }
            sender.transmit_blocked(now);
            return None;
        }
        sender.poll_transmit(now)
    }

    /// Transmits a train of new segments over a link that sends them without more ado; nothing if there is none. Does what
    /// the rest of [`next`](Sending::next) does for each of them, without a look at rare cases. Returns their number, and
    /// whether they fill the window, and nothing else prevents more.
    #[inline]
    fn send_train(&mut self, now: Time, after_ack: bool) -> (u32, bool) {
        let none = (0, false);
        let Connection { sender, full_bytes, .. } = &mut *self.connection;
        let Some(Train { first: segment, segments: most, fills_window }) = sender.train(now) else { return none };
        let mut room = self.local.room(self.local_limited, sender, *full_bytes, now, self.wake);
        if most == 0 || !room.is_left() {
            return none;
        }
        let first = self.segment.numbered(segment.seq).stamped(segment.tsval);
        let at = now.max(self.host_until);
        let (mut sent, mut leads) = (0, None);
        let outcome = if self.fused {
            let most = most.min((TRAIN - self.train.len()) as u64);
            if most == 0 {
                return none;
            }
            self.first.send_train(at, most, *full_bytes, |_, departure, arrival| {
                self.train.push((arrival, first.advanced(sent)));
                sent += 1;
                room.take(now, departure, *full_bytes);
                room.is_left()
            })
        } else {
            self.first.send_train(at, most, *full_bytes, |pipe, departure, arrival| {
                if pipe.push(arrival, first.advanced(sent)) {
                    leads = Some(arrival);
                }
                sent += 1;
                room.take(now, departure, *full_bytes);
                room.is_left()
            })
        };
        if outcome.is_none() {
            return none;
        }
        let has_room = room.is_left();
        if let Some(arrival) = leads {
            self.calendar.set(self.pipe, arrival);
        }
        self.statistics.packets += u64::from(sent);
        self.statistics.unsent += if at > self.end { u64::from(sent) } else { 0 };
        sender.sent_train(now, u64::from(sent), after_ack);
        let fills_window = fills_window && u64::from(sent) == most && has_room;
        if fills_window {
            sender.window_is_full(now);
        }
        (sent, fills_window)
    }
}

/// Whether the process of a flow waits until its host has sent earlier packets.
#[cold]
fn waits_for_host(hosts: &Hosts, index: usize, connection: &mut Connection, now: Time) -> bool {
    let waits = hosts.is_full(index);
    if waits {
        connection.sender.transmit_blocked(now);
    }
    waits
}
