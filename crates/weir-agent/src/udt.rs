//! What both ends of a UDT flow need: their settings, and the names of their connections.
//!
//! Cookies, socket identifiers and the first packet number of a connection are parts of the run's token, so that each end
//! knows what is of this run: a handshake carries 127 bits of it, other packets 32 bits, and a number that is to be expected.

use weir_plan::{Transport, UDT_HEADERS};
use weir_protocol::Token;
use weir_udt::Settings;
use weir_udt::wire::{Handshake, Numbering};
use weir_units::{Dur, Stream, Time};

use crate::context::Context;

/// Bytes of the header of UDT.
pub const HEADER: usize = weir_udt::HEADER_BYTES as usize;

/// The settings of a flow.
pub fn settings(context: &Context, flow: u32) -> Settings {
    let plan = context.flow(flow);
    let Transport::Udt(udt) = &plan.transport else { unreachable!("only UDT flows have such endpoints") };
    let packets = |bytes: u64| (bytes / u64::from(udt.payload_bytes)).max(1);
    Settings {
        payload_bytes: udt.payload_bytes,
        packet_bytes: udt.payload_bytes + UDT_HEADERS,
        send_buffer: packets(udt.send_buffer_bytes),
        receive_buffer: packets(udt.receive_buffer_bytes),
        timer: Dur(udt.timer_ns),
        profile: Vec::new(),
        // The stream that the simulator has.
        seed: Stream::new(context.job.plan.seed, &format!("flow/{}/udt", plan.name)).bits(),
    }
}

/// The names of one connection of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// The number of the connection within its flow, from 1.
    pub connection: u32,
    /// The sockets of both ends.
    pub sender: u32,
    pub receiver: u32,
    first: u32,
    cookie: u32,
}

impl Names {
    /// Those of a flow's connection.
    pub fn new(token: Option<&Token>, connection: u32) -> Names {
        let words = token.map_or([0; 16], |token| *token.as_bytes());
        let word = |index: usize| words[4 * index..].iter().take(4).fold(0, |word, byte| word << 8 | u32::from(*byte));
        Names {
            connection,
            sender: word(0) ^ connection,
            receiver: word(1) ^ connection,
            first: word(2) >> 1,
            cookie: word(3) ^ connection,
        }
    }

    /// The names of the connection after this one.
    pub fn following(&self, token: Option<&Token>) -> Names {
        Names::new(token, self.connection + 1)
    }

    /// Whether `socket` is the sender's in this connection, or in one before it.
    pub fn knows(&self, socket: u32) -> bool {
        (socket ^ self.sender ^ self.connection) <= self.connection
    }

    /// The same for the receiver's.
    pub fn receives(&self, socket: u32) -> bool {
        (socket ^ self.receiver ^ self.connection) <= self.connection
    }

    /// The numbers of its packets.
    pub fn numbering(&self) -> Numbering {
        Numbering::new(self.first)
    }

    /// A step of the sender, 1 or 2.
    pub fn request(&self, settings: &Settings, step: u8) -> Handshake {
        let cookie = if step == 1 { 0 } else { self.cookie };
        self.handshake(settings, self.sender, cookie, false)
    }

    /// The step of the sender that a handshake is, if it is one of this connection.
    pub fn requested(&self, it: &Handshake, settings: &Settings) -> Option<u8> {
        (1..=2).find(|step| self.request(settings, *step) == *it)
    }

    /// The receiver's answer to a step.
    pub fn answer(&self, settings: &Settings, step: u8) -> Handshake {
        self.handshake(settings, self.receiver, self.cookie, step > 1)
    }

    /// The step that a handshake answers, if it is one of this connection.
    pub fn answered(&self, it: &Handshake, settings: &Settings) -> Option<u8> {
        (1..=2).find(|step| self.answer(settings, *step) == *it)
    }

    fn handshake(&self, settings: &Settings, socket: u32, cookie: u32, is_answer: bool) -> Handshake {
        let window = u32::try_from(settings.receive_buffer).unwrap_or(u32::MAX);
        Handshake { first: self.first, packet_bytes: settings.packet_bytes, window, socket, cookie, is_answer }
    }
}

/// Microseconds from `since` to `now`, as headers have them.
pub fn stamp_us(since: Time, now: Time) -> u32 {
    (now.since(since).0 / 1000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            payload_bytes: 1456,
            packet_bytes: 1500,
            send_buffer: 100,
            receive_buffer: 100,
            timer: Dur(0),
            profile: Vec::new(),
            seed: 1,
        }
    }

    #[test]
    fn the_steps_of_a_handshake_are_told_apart() {
        let (token, settings) = (Token::from(*b"0123456789abcdef"), settings());
        for token in [None, Some(&token)] {
            let names = Names::new(token, 1);
            for step in [1, 2] {
                assert_eq!(names.requested(&names.request(&settings, step), &settings), Some(step));
                assert_eq!(names.answered(&names.answer(&settings, step), &settings), Some(step));
                let next = names.following(token);
                assert_eq!(next.requested(&names.request(&settings, step), &settings), None);
                assert_eq!(next.answered(&names.answer(&settings, step), &settings), None);
            }
        }
    }

    #[test]
    fn a_handshake_of_another_run_is_refused() {
        let (ours, settings) = (*b"0123456789abcdef", settings());
        let names = Names::new(Some(&Token::from(ours)), 1);
        let refused = (0..128).filter(|bit| {
            let theirs = u128::from_be_bytes(ours) ^ 1 << bit;
            let other = Names::new(Some(&Token::from(theirs.to_be_bytes())), 1);
            let (request, answer) = (other.request(&settings, 2), other.answer(&settings, 2));
            names.requested(&request, &settings).is_none() || names.answered(&answer, &settings).is_none()
        });
        assert_eq!(refused.count(), 127);
    }
}
