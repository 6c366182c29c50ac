//! The sending end of a connection (section 6.1).

use std::collections::VecDeque;

use weir_units::{Dur, Time};

use crate::native::Native;
use crate::pace::{Pacer, Step, profile_period_ns};
use crate::ranges::Ranges;
use crate::{Control, Report, SYN};

/// An unanswered step of the handshake is repeated after this time.
const HANDSHAKE_AGAIN: Dur = Dur(250_000_000);
/// Round-trip time before the first measurement, and its variation.
const FIRST_RTT: (Dur, Dur) = (Dur(100_000_000), Dur(50_000_000));
/// Least time without an answer after which everything counts as lost.
const LEAST_SILENCE: Dur = Dur(300_000_000);
/// The window of a sender with a rate profile, packets: that of UDT's class for constant rates.
const PROFILE_WINDOW: u64 = 83_333;

/// The settings of a connection.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Payload of a full packet, and its size with all headers of IP, UDP and UDT.
    pub payload_bytes: u32,
    /// Bytes of the IP packet.
    pub packet_bytes: u32,
    /// Packets that may be sent and not acknowledged.
    pub send_buffer: u64,
    /// Packets for which the receiver has room.
    pub receive_buffer: u64,
    /// The tick of the sending host's timer; 0: it wakes at any instant.
    pub timer: Dur,
    /// A rate profile instead of UDT's own control; empty: none.
    pub profile: Vec<Step>,
    /// Of the control's random decreases, and of the ticks.
    pub seed: u64,
}

/// What a sender sends.
#[derive(Clone, Debug, PartialEq)]
pub enum Outgoing {
    /// A control packet.
    Control(Control),
    /// A data packet.
    Data {
        /// Its number, from 0.
        number: u64,
        /// Its payload.
        bytes: u32,
        /// Whether it was sent before.
        resent: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// A step of the handshake has no answer yet.
    Asking(u8),
    Established,
}

/// What sets the interval between packets.
#[derive(Debug)]
enum Rate {
    Profile(Vec<Step>),
    Native(Box<Native>),
}

/// The sending end.
#[derive(Debug)]
pub struct Sender {
    payload_bytes: u32,
    packet_bytes: u32,
    send_buffer: u64,
    phase: Phase,
    handshake_due: Time,
    /// The first packet that is not acknowledged, the first that was not sent, and the number of those written.
    una: u64,
    next: u64,
    end: u64,
    /// Last packets of writes, and their payload.
    short: VecDeque<(u64, u32)>,
    acked_bytes: u64,
    lost: Ranges,
    pacer: Pacer,
    rate: Rate,
    rtt: (Dur, Dur),
    room: u64,
    answer: Option<u32>,
    /// Since the last answer, or the first packet after all were acknowledged; and the intervals without one.
    heard: Time,
    silences: u32,
    timeouts: u64,
}

impl Sender {
    /// A sender without connection.
    pub fn new(settings: Settings) -> Sender {
        let Settings { payload_bytes, packet_bytes, send_buffer, receive_buffer, timer, profile, seed } = settings;
        let native = || Rate::Native(Box::new(Native::new(packet_bytes, seed)));
        Sender {
            payload_bytes,
            packet_bytes,
            send_buffer,
            phase: Phase::Idle,
            handshake_due: Time::MAX,
            una: 0,
            next: 0,
            end: 0,
            short: VecDeque::new(),
            acked_bytes: 0,
            lost: Ranges::default(),
            pacer: Pacer::new(timer, seed),
            rate: if profile.is_empty() { native() } else { Rate::Profile(profile) },
            rtt: FIRST_RTT,
            room: receive_buffer,
            answer: None,
            heard: Time::ZERO,
            silences: 1,
            timeouts: 0,
        }
    }

    /// Begins the handshake.
    pub fn connect(&mut self, now: Time) {
        (self.phase, self.handshake_due) = (Phase::Asking(1), now);
    }

    /// Adds `bytes` to what is to be sent; [`u64::MAX`]: data without end.
    pub fn write(&mut self, bytes: u64) {
        if bytes == u64::MAX {
            self.end = u64::MAX;
            return;
        }
        let payload = u64::from(self.payload_bytes);
        self.end += bytes.div_ceil(payload);
        if bytes % payload != 0 {
            self.short.push_back((self.end - 1, (bytes % payload) as u32));
        }
    }

    /// Sends no more new data.
    pub fn stop_writing(&mut self) {
        self.end = self.next;
    }

    /// Whether all data are acknowledged.
    pub fn is_idle(&self) -> bool {
        self.una == self.end
    }

    /// Whether the connection exists.
    pub fn is_established(&self) -> bool {
        self.phase == Phase::Established
    }

    /// The first packet that is not acknowledged.
    pub fn una(&self) -> u64 {
        self.una
    }

    /// Payload that is acknowledged, bytes.
    pub fn acked_bytes(&self) -> u64 {
        self.acked_bytes
    }

    /// Times at which everything counted as lost because nothing came back.
    pub fn timeouts(&self) -> u64 {
        self.timeouts
    }

    /// The next packet, if one may leave now.
    pub fn poll(&mut self, now: Time) -> Option<Outgoing> {
        if let Some(number) = self.answer.take() {
            return Some(Outgoing::Control(Control::Ack2(number)));
        }
        match self.phase {
            Phase::Idle => None,
            Phase::Asking(step) => (self.handshake_due <= now).then(|| {
                self.handshake_due = now + HANDSHAKE_AGAIN;
                Outgoing::Control(Control::Handshake(step))
            }),
            Phase::Established => self.poll_data(now),
        }
    }

    fn poll_data(&mut self, now: Time) -> Option<Outgoing> {
        let resent = !self.lost.is_empty();
        if !resent && !self.has_room() {
            self.pacer.stall();
            return None;
        }
        self.pacer.resume(now);
        if self.pacer.due() > now {
            return None;
        }
        if self.una == self.next {
            self.heard = now;
        }
        let number = self.lost.pop().unwrap_or(self.next);
        self.next = self.next.max(number + 1);
        self.pacer.sent(number, resent, self.period_ns());
        Some(Outgoing::Data { number, bytes: self.bytes_of(number), resent })
    }

    fn has_room(&self) -> bool {
        self.next < self.end && self.next - self.una < self.window()
    }

    /// Packets that may be in flight.
    fn window(&self) -> u64 {
        let control = match &self.rate {
            Rate::Profile(_) => PROFILE_WINDOW,
            Rate::Native(native) => native.window(),
        };
        control.min(self.room).min(self.send_buffer)
    }

    fn period_ns(&self) -> f64 {
        match &self.rate {
            Rate::Profile(steps) => profile_period_ns(steps, self.pacer.ready_ns(), self.packet_bytes),
            Rate::Native(native) => native.period_ns(),
        }
    }

    fn bytes_of(&self, number: u64) -> u32 {
        self.short.iter().find(|(last, _)| *last == number).map_or(self.payload_bytes, |(_, bytes)| *bytes)
    }

    /// The next instant at which it acts by itself.
    pub fn due(&self) -> Time {
        match self.phase {
            Phase::Idle => Time::MAX,
            Phase::Asking(_) => self.handshake_due,
            Phase::Established => {
                let data = !self.lost.is_empty() || self.has_room();
                let silence = if self.next > self.una { self.silent_until() } else { Time::MAX };
                if data { self.pacer.due().min(silence) } else { silence }
            }
        }
    }

    /// When everything counts as lost (section 6.1, EXP).
    fn silent_until(&self) -> Time {
        let round = Dur(self.rtt.0.0 + 4 * self.rtt.1.0 + SYN.0).max(LEAST_SILENCE);
        self.heard + Dur(round.0 * u64::from(self.silences))
    }

    /// A deadline may have passed.
    pub fn on_timer(&mut self, now: Time) {
        if self.phase != Phase::Established || self.next == self.una || now < self.silent_until() {
            return;
        }
        if self.lost.is_empty() {
            self.lost.insert(self.una..self.next);
        }
        if let Rate::Native(native) = &mut self.rate {
            native.on_timeout();
        }
        self.silences += 1;
        self.timeouts += 1;
        self.heard = now;
    }

    /// A control packet arrives. Returns whether it establishes the connection.
    pub fn on_control(&mut self, now: Time, control: Control) -> bool {
        match control {
            Control::Handshake(step) => return self.answered(now, step),
            Control::Ack { next, report } => self.on_ack(now, next, report),
            Control::Nak(ranges) => self.on_nak(&ranges),
            Control::Ack2(_) => {}
        }
        (self.heard, self.silences) = (now, 1);
        false
    }

    fn answered(&mut self, now: Time, step: u8) -> bool {
        if self.phase != Phase::Asking(step) {
            return false;
        }
        let established = step > 1;
        self.phase = if established { Phase::Established } else { Phase::Asking(step + 1) };
        (self.heard, self.handshake_due) = (now, now);
        established
    }

    fn on_ack(&mut self, now: Time, next: u64, report: Option<Report>) {
        let next = next.min(self.next);
        let acked = next.saturating_sub(self.una);
        self.una += acked;
        self.lost.remove_below(self.una);
        self.acked_bytes += acked * u64::from(self.payload_bytes);
        while let Some((_, bytes)) = self.short.front().filter(|(last, _)| *last < self.una) {
            self.acked_bytes -= u64::from(self.payload_bytes - bytes);
            self.short.pop_front();
        }
        let Some(report) = report else { return };
        self.answer = Some(report.number);
        self.rtt = report.rtt;
        self.room = report.room;
        if let Rate::Native(native) = &mut self.rate {
            native.on_ack(now, acked, &report);
        }
    }

    fn on_nak(&mut self, ranges: &[std::ops::Range<u64>]) {
        for range in ranges {
            self.lost.insert(range.start.max(self.una)..range.end.min(self.next));
        }
        if let (Rate::Native(native), Some(first)) = (&mut self.rate, ranges.first()) {
            native.on_nak(first.start, self.next);
        }
    }

    /// What tables show of it.
    pub fn probes(&self) -> [(&'static str, i64); 3] {
        let rate = f64::from(self.packet_bytes) * 8e9 / self.period_ns();
        [("send_bps", rate as i64), ("window", self.window() as i64), ("rtt_ns", self.rtt.0.0 as i64)]
    }
}
