//! Sequences of calls, plausible and implausible ones, so that every path of a source is taken.

use crate::calls::{Call, Operation};
use std::collections::BTreeMap;
use weir_cc::{AckSample, Algorithm, Instance, RateSample, Sock};
use weir_units::Stream;

/// Longest jump of a flow's clock, microseconds: an hour.
const LONGEST_US: u64 = 3_600_000_000;

/// One flow's calls, drawn one after another from the flow's state.
pub(crate) struct Fuzz {
    random: Stream,
    rtt_us: u32,
}

impl Fuzz {
    /// The same `seed` and `name` give the same calls.
    pub fn new(seed: u64, name: &str) -> Fuzz {
        let mut random = Stream::new(seed, name);
        let rtt_us = 1 + (random.bits() % 300_000) as u32;
        Fuzz { random, rtt_us }
    }

    /// Options at their defaults, at their bounds or anywhere between.
    pub fn options(&mut self, algorithm: &Algorithm) -> BTreeMap<String, i64> {
        let options = algorithm.options().into_iter();
        options
            .map(|option| {
                let value = match self.below(6) {
                    0 => option.min,
                    1 => option.max,
                    2 => option.min + self.below(u64::from(option.max - option.min) + 1) as u32,
                    _ => option.default,
                };
                (option.name, i64::from(value))
            })
            .collect()
    }

    /// Changes the socket as time, packets and other parts of the stack would; returns the next call.
    pub fn next(&mut self, cc: &mut Instance) -> Call {
        self.time_passes(&mut cc.sock);
        self.packets_move(&mut cc.sock);
        if self.below(8) == 0 {
            self.anything(&mut cc.sock);
        }
        self.call(&cc.sock)
    }

    fn time_passes(&mut self, sock: &mut Sock) {
        let us = match self.below(20) {
            0 => self.below(LONGEST_US),
            1 => 0,
            2..6 => self.below(2 * u64::from(self.rtt_us)),
            _ => self.below(u64::from(self.rtt_us) / u64::from(sock.snd_cwnd.max(1)) + 2),
        };
        sock.tcp_mstamp_us += us;
        if self.below(4) != 0 {
            sock.lsndtime = sock.jiffies32();
        }
    }

    fn packets_move(&mut self, sock: &mut Sock) {
        let acked = 1 + self.below(64) as u32;
        sock.snd_una = sock.snd_una.wrapping_add(acked.wrapping_mul(sock.mss_cache));
        sock.snd_nxt = sock.snd_una.wrapping_add(sock.snd_cwnd.wrapping_mul(sock.mss_cache));
        sock.delivered = sock.delivered.wrapping_add(acked);
        sock.delivered_mstamp_us = sock.tcp_mstamp_us;
        sock.clock_ns = sock.tcp_mstamp_us * 1000;
        sock.departure_ns = sock.clock_ns + self.below(2_000_000);
        sock.lost = sock.lost.wrapping_add((self.below(16) / 14) as u32);
        sock.random = sock.random.wrapping_add(1);
        sock.packets_out = sock.snd_cwnd;
        sock.max_packets_out = sock.snd_cwnd;
        sock.is_cwnd_limited = u8::from(self.below(10) != 0);
        if self.below(4) == 0 {
            self.rtt_us = (self.rtt_us / 2 + self.below(u64::from(self.rtt_us) + 1) as u32 + 1).clamp(1, 3_000_000);
        }
        sock.srtt_us = self.rtt_us << 3;
        sock.rtt_min_us = sock.rtt_min_us.min(self.rtt_us);
    }

    /// Sets one field to an extreme value. The window stays within the stack's guarantee: 1 up to its bound.
    fn anything(&mut self, sock: &mut Sock) {
        let edge = self.edge();
        match self.below(14) {
            0 => sock.snd_cwnd = edge,
            1 => sock.snd_ssthresh = edge.max(1),
            2 => sock.snd_cwnd_clamp = edge,
            3 => sock.snd_cwnd_cnt = edge,
            4 => sock.prior_cwnd = edge,
            5 => sock.srtt_us = edge,
            6 => sock.rtt_min_us = edge,
            7 => sock.lsndtime = edge,
            8 => sock.snd_una = edge,
            9 => sock.snd_nxt = edge,
            10 => sock.pacing_status = edge % 3,
            11 => sock.pacing_rate = u64::from(edge) << self.below(33),
            12 => sock.max_packets_out = edge,
            _ => sock.ca_state = (edge % 5) as u8,
        }
        sock.snd_cwnd_clamp = sock.snd_cwnd_clamp.max(1);
        sock.snd_cwnd = sock.snd_cwnd.clamp(1, sock.snd_cwnd_clamp);
    }

    fn call(&mut self, sock: &Sock) -> Call {
        let operation = match self.below(64) {
            0 => Operation::Init,
            1..4 => Operation::Ssthresh,
            4..7 => Operation::SetState,
            7..11 => Operation::CwndEvent,
            11..15 => Operation::InAckEvent,
            15..17 => Operation::UndoCwnd,
            17..36 => Operation::PktsAcked,
            36..40 => Operation::CongControl,
            40 => Operation::Release,
            41 => Operation::MinTsoSegs,
            42 => Operation::SndbufExpand,
            _ => Operation::CongAvoid,
        };
        let mut call = Call::of(operation);
        match operation {
            Operation::CongAvoid => (call.arg1, call.arg2) = (sock.snd_una, self.acked()),
            Operation::SetState => call.arg1 = self.below(5) as u32,
            Operation::CwndEvent => call.arg1 = self.below(6) as u32,
            Operation::InAckEvent => call.arg1 = self.below(8) as u32,
            Operation::PktsAcked => call.ack = self.ack_sample(sock),
            Operation::CongControl => {
                (call.arg1, call.arg2, call.rate) = (sock.snd_una, self.below(1 << 16) as u32, self.rate_sample(sock));
            }
            _ => (),
        }
        call
    }

    fn acked(&mut self) -> u32 {
        match self.below(16) {
            0 => self.edge().max(1),
            1 => 1 + self.below(10_000) as u32,
            _ => 1 + self.below(64) as u32,
        }
    }

    fn ack_sample(&mut self, sock: &Sock) -> AckSample {
        let rtt_us = match self.below(16) {
            0 => -1,
            1 => self.edge() as i32,
            _ => (self.rtt_us + self.below(u64::from(self.rtt_us) / 4 + 1) as u32) as i32,
        };
        AckSample { pkts_acked: self.acked(), rtt_us, in_flight: sock.packets_out.wrapping_mul(sock.mss_cache) }
    }

    fn rate_sample(&mut self, sock: &Sock) -> RateSample {
        if self.below(8) == 0 {
            return RateSample::default();
        }
        RateSample {
            prior_mstamp: sock.tcp_mstamp_us.saturating_sub(u64::from(self.rtt_us)),
            prior_delivered: sock.delivered.wrapping_sub(sock.snd_cwnd),
            delivered: self.acked() as i32,
            delivered_ce: self.below(3) as i32,
            interval_us: i64::from(self.rtt_us),
            rtt_us: i64::from(self.rtt_us),
            losses: self.below(3) as i32,
            acked_sacked: self.acked(),
            prior_in_flight: sock.packets_out,
            last_end_seq: sock.snd_una,
            is_app_limited: self.below(2) as u8,
            is_retrans: self.below(2) as u8,
            is_ack_delayed: self.below(2) as u8,
            ..RateSample::default()
        }
    }

    /// A number near a power of two, or any number.
    fn edge(&mut self) -> u32 {
        let power = 1_u32 << self.below(32);
        match self.below(4) {
            0 => power,
            1 => power - 1,
            2 => 0_u32.wrapping_sub(power),
            _ => self.random.bits() as u32,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.bits() % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_calls_and_every_operation_is_among_them() {
        let algorithm = weir_cc::find("cubic").expect("registered");
        let calls = |seed| {
            let mut fuzz = Fuzz::new(seed, "cubic");
            let options = fuzz.options(&algorithm);
            let mut cc = Instance::new(&algorithm, &options).expect("within the bounds");
            (0..2000)
                .map(|_| {
                    let call = fuzz.next(&mut cc);
                    call.make(&mut cc).expect("a call that Linux makes");
                    assert!(cc.sock.snd_cwnd >= 1 && cc.sock.snd_cwnd <= cc.sock.snd_cwnd_clamp);
                    call
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(calls(1), calls(1));
        assert_ne!(calls(1), calls(2));
        for (operation, name) in crate::calls::OPERATIONS {
            assert!(calls(1).iter().any(|call| call.operation == operation), "no call of {name}");
        }
    }
}
