//! A transport simple enough to compute by hand, for tests of congestion controls.
//!
//! It keeps the fields of [`Sock`] as Linux would, makes Linux' calls, and checks after each call that the congestion
//! control has not written a foreign field or beyond its private state, or set the window to zero or above its bound.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeMap;
use weir_cc::{AckSample, Algorithm, CaEvent, CaState, Instance, PRIVATE_WORDS, RateSample, Sock};

/// One flow under test.
#[derive(Clone)]
pub struct Flow {
    pub cc: Instance,
    state_bytes: usize,
    fastest: u64,
    apart: bool,
}

/// What sets a control apart from the others by its definition.
pub struct Nature {
    /// Options with which slow start doubles the window each round trip.
    pub standard: &'static [(&'static str, i64)],
    /// Options without what the control does regularly on its own, whatever is acknowledged and lost.
    pub steady: &'static [(&'static str, i64)],
    /// Most packets that the window gains for an acknowledged one.
    pub fastest: u64,
    /// The same with `as_linux`.
    pub fastest_as_linux: u64,
    /// The share of the window that a loss keeps, where there is no queue: bounds.
    pub kept: (f64, f64),
    /// Acknowledged and lost packets do not set the window, so that nothing that the suite requires of a window applies.
    pub apart: bool,
    /// How the requirements begin that it does not meet by its definition.
    pub otherwise: &'static [&'static str],
}

/// The nature of the control `name`.
pub fn nature(name: &str) -> Nature {
    let usual = Nature {
        standard: &[],
        steady: &[],
        fastest: 1,
        fastest_as_linux: 1,
        kept: (0.45, 0.92),
        apart: false,
        otherwise: &[],
    };
    match name {
        // Doubles the window every other round trip.
        "vegas" => Nature { standard: &[("every_other", 0)], ..usual },
        // Keeps what the path carried, which is all of it.
        "westwood" => Nature { kept: (0.45, 1.0), ..usual },
        // Counts all packets that an acknowledgement covers, at the window that there is now.
        "illinois" => Nature { fastest_as_linux: 1 << 30, ..usual },
        // Takes off what was lost, and no more.
        "relentless" => Nature { kept: (0.45, 1.0), ..usual },
        // Triples the window until n flows in slow start would have it.
        "multcp" => Nature { fastest: 2, ..usual },
        // Gains 2^rho - 1 packets for an acknowledged one; rho is 1 on the reference path.
        "hybla" => Nature { standard: &[("rtt0", 1000)], fastest: 1 << 16, fastest_as_linux: 1 << 16, ..usual },
        // A rise of the delay reduces the window.
        "lp" => Nature { standard: &[("noise", 1_000_000)], ..usual },
        "cdg" => Nature { standard: &[("scale", 1_000_000)], ..usual },
        // Short paths grow more slowly, and slowdowns leave two packets.
        "ledbatpp" => Nature {
            standard: &[("max_divisor", 1), ("slowdown", 0), ("initial_window", 0)],
            steady: &[("slowdown", 0)],
            ..usual
        },
        // Its window is the one that the rate needs, whoever limits that.
        "nv" => Nature { otherwise: &["the window stays"], ..usual },
        // A model of the path sets the window.
        "bbr" | "bbr3" => Nature { apart: true, ..usual },
        // The window never changes.
        "constant" => Nature { apart: true, fastest: 1 << 30, ..usual },
        _ => usual,
    }
}

/// Options by name.
pub fn options(pairs: &[(&str, i64)]) -> BTreeMap<String, i64> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

impl Flow {
    /// A connection just established at one second of its clock, limited by its window.
    pub fn new(algorithm: &Algorithm, options: &BTreeMap<String, i64>) -> Flow {
        let mut cc = Instance::new(algorithm, options).expect("valid options");
        cc.sock.tcp_mstamp_us = 1_000_000;
        cc.sock.is_cwnd_limited = 1;
        cc.init();
        let Nature { fastest, fastest_as_linux, apart, .. } = nature(algorithm.name());
        let fastest = if options.get("as_linux") == Some(&1) { fastest_as_linux } else { fastest };
        Flow { cc, state_bytes: algorithm.describe().state_bytes as usize, fastest, apart }
    }

    /// A flow in congestion avoidance at `cwnd` with a round-trip time of `rtt_us`.
    pub fn avoiding(algorithm: &Algorithm, options: &BTreeMap<String, i64>, cwnd: u32, rtt_us: u32) -> Flow {
        let mut flow = Flow::new(algorithm, options);
        flow.set_rtt(rtt_us);
        flow.cc.sock.snd_cwnd = cwnd;
        flow.cc.sock.snd_ssthresh = cwnd.min(2);
        flow
    }

    pub fn set_rtt(&mut self, rtt_us: u32) {
        self.cc.sock.srtt_us = rtt_us << 3;
        self.cc.sock.rtt_min_us = self.cc.sock.rtt_min_us.min(rtt_us);
    }

    pub fn cwnd(&self) -> u32 {
        self.cc.sock.snd_cwnd
    }

    pub fn rtt_us(&self) -> u64 {
        u64::from(self.cc.sock.srtt_us >> 3)
    }

    pub fn advance(&mut self, us: u64) {
        self.cc.sock.tcp_mstamp_us += us;
    }

    /// An acknowledgement of `acked` packets in one call of `cong_avoid`.
    pub fn ack(&mut self, acked: u32) {
        let before = self.cwnd();
        let sock = &mut self.cc.sock;
        sock.snd_una = sock.snd_una.wrapping_add(acked.wrapping_mul(sock.mss_cache));
        sock.delivered = sock.delivered.wrapping_add(acked);
        let ack = sock.snd_una;
        self.checked(|cc| cc.in_ack_event(2));
        if self.cc.has_cong_control() {
            let interval_us = self.rtt_us().max(1) as u32;
            self.control(acked, interval_us, 0);
        } else {
            self.checked(|cc| cc.cong_avoid(ack, acked));
        }
        let grown = u64::from(self.cwnd().saturating_sub(before));
        assert!(
            self.apart || grown <= self.fastest * u64::from(acked) + 1,
            "{acked} acknowledged packets grew the window by {grown}"
        );
    }

    /// A delivery-rate sample: `delivered` packets, acknowledged now, over `interval_us`, with `losses`.
    pub fn control(&mut self, delivered: u32, interval_us: u32, losses: u32) {
        let sock = &mut self.cc.sock;
        sock.delivered_mstamp_us = sock.tcp_mstamp_us;
        sock.clock_ns = sock.tcp_mstamp_us * 1000;
        sock.lost = sock.lost.wrapping_add(losses);
        let sample = RateSample {
            prior_mstamp: sock.tcp_mstamp_us - u64::from(interval_us).min(sock.tcp_mstamp_us),
            prior_delivered: sock.delivered.wrapping_sub(delivered),
            delivered: delivered.min(i32::MAX as u32) as i32,
            interval_us: i64::from(interval_us),
            rtt_us: i64::from(sock.srtt_us >> 3),
            losses: losses as i32,
            acked_sacked: delivered,
            prior_in_flight: sock.packets_out.saturating_add(delivered),
            ..RateSample::default()
        };
        let ack = sock.snd_una;
        self.checked(|cc| cc.cong_control(ack, 0, &sample));
    }

    /// A round-trip time sample.
    pub fn sample(&mut self, rtt_us: i32, packets: u32) {
        let sample =
            AckSample { pkts_acked: packets, rtt_us, in_flight: self.cwnd().saturating_mul(self.cc.sock.mss_cache) };
        self.checked(|cc| cc.pkts_acked(&sample));
    }

    /// One round trip: a window of packets, acknowledged `batch` at a time, evenly spaced.
    pub fn round(&mut self, batch: u32) {
        let (window, rtt) = (self.cwnd(), self.rtt_us());
        let start = self.cc.sock.tcp_mstamp_us;
        let sock = &mut self.cc.sock;
        sock.max_packets_out = window;
        sock.packets_out = window;
        sock.snd_nxt = sock.snd_una.wrapping_add(window.wrapping_mul(sock.mss_cache));
        let mut acked = 0;
        while acked < window {
            let count = batch.min(window - acked);
            acked += count;
            self.cc.sock.tcp_mstamp_us = start + rtt * u64::from(acked) / u64::from(window);
            self.sample(rtt as i32, count);
            self.ack(count);
        }
        self.cc.sock.lsndtime = self.cc.sock.jiffies32();
    }

    /// Fast retransmission in one instant: the window falls to the threshold. Returns the threshold.
    pub fn lose(&mut self) -> u32 {
        let threshold = self.enter(CaState::Recovery);
        if !self.cc.has_cong_control() {
            self.cc.sock.snd_cwnd = threshold;
        }
        self.change_state(CaState::Open);
        threshold
    }

    /// A retransmission timeout: the window falls to one packet. Returns the threshold.
    pub fn time_out(&mut self) -> u32 {
        self.take_threshold();
        self.checked(|cc| cc.cwnd_event(CaEvent::Loss));
        let threshold = self.cc.sock.snd_ssthresh;
        assert!(threshold >= 2, "a threshold of {threshold} after a timeout");
        self.change_state(CaState::Loss);
        self.cc.sock.snd_cwnd = 1;
        self.cc.sock.snd_cwnd_cnt = 0;
        self.change_state(CaState::Open);
        threshold
    }

    /// The last reduction was spurious. Returns the restored window.
    pub fn undo(&mut self) -> u32 {
        let window = self.checked(|cc| cc.undo_cwnd());
        self.cc.sock.snd_cwnd = window.clamp(1, self.cc.sock.snd_cwnd_clamp);
        self.cc.sock.snd_ssthresh = self.cc.sock.snd_ssthresh.max(self.cc.sock.prior_ssthresh);
        window
    }

    /// Nothing to send for `us`, then the first packet; the window restarts as Linux' does after one timeout.
    pub fn idle(&mut self, us: u64) {
        self.cc.sock.lsndtime = self.cc.sock.jiffies32();
        self.advance(us);
        if us > 1_000_000 {
            self.checked(|cc| cc.cwnd_event(CaEvent::CwndRestart));
            self.cc.sock.snd_ssthresh = self.cc.sock.snd_ssthresh.max(self.cwnd() / 4 * 3).max(2);
            self.cc.sock.snd_cwnd = self.cwnd().min(10);
        }
        self.checked(|cc| cc.cwnd_event(CaEvent::TxStart));
    }

    fn enter(&mut self, state: CaState) -> u32 {
        self.take_threshold();
        self.change_state(state);
        self.cc.sock.snd_ssthresh
    }

    /// The threshold of a reduction that begins.
    fn take_threshold(&mut self) -> u32 {
        self.cc.sock.prior_cwnd = self.cwnd();
        self.cc.sock.prior_ssthresh = self.cc.sock.snd_ssthresh;
        let before = self.cwnd();
        let threshold = self.checked(|cc| cc.ssthresh());
        assert!(threshold >= 2, "a threshold of {threshold}");
        assert!(threshold <= before.max(2) || self.apart, "a loss at {before} gave a threshold of {threshold}");
        self.cc.sock.snd_ssthresh = threshold;
        threshold
    }

    pub fn change_state(&mut self, state: CaState) {
        self.checked(|cc| cc.set_state(state));
        self.cc.sock.ca_state = state as u8;
    }

    pub fn event(&mut self, event: CaEvent) {
        self.checked(|cc| cc.cwnd_event(event));
    }

    /// Makes a call and checks the state that every call must leave unchanged.
    pub fn checked<T>(&mut self, call: impl FnOnce(&mut Instance) -> T) -> T {
        let before = self.cc.sock.clone();
        let private = private_bytes(&before);
        let result = call(&mut self.cc);
        let after = &self.cc.sock;
        assert_eq!(only_readable(after.clone()), only_readable(before), "a field that is not writable was written");
        assert_eq!(
            private_bytes(after)[self.state_bytes..],
            private[self.state_bytes..],
            "written beyond the private state"
        );
        assert!(after.snd_cwnd >= 1, "a window of zero");
        assert!(
            after.snd_cwnd <= after.snd_cwnd_clamp,
            "{} is above the bound {}",
            after.snd_cwnd,
            after.snd_cwnd_clamp
        );
        assert!(after.snd_ssthresh >= 1, "a threshold of zero");
        result
    }
}

/// The socket with all writable fields set to zero.
fn only_readable(mut sock: Sock) -> Sock {
    sock.snd_cwnd = 0;
    sock.snd_cwnd_cnt = 0;
    sock.snd_cwnd_stamp = 0;
    sock.snd_ssthresh = 0;
    sock.app_limited = 0;
    sock.ecn_flags = 0;
    sock.pacing_rate = 0;
    sock.pacing_status = 0;
    sock.clear_private();
    sock
}

fn private_bytes(sock: &Sock) -> [u8; PRIVATE_WORDS * 8] {
    let mut bytes = [0; PRIVATE_WORDS * 8];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(sock.private_state()) {
        chunk.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}
