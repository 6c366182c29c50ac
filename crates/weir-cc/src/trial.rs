//! A first trial of a user's congestion control: calls like Linux', before any result depends on them.
//!
//! Mistakes in the first minutes of a connection show here, once, when the control is described, instead of in one
//! method and not in another: a division by zero passes silently in BPF and crashes the kernel in a module.

use crate::{
    Algorithm, CcOption, Instance,
    guard::{self, Fault},
    instance::{CaEvent, CaState},
    probe_text,
    probes::ProbeName,
    sock::{AckSample, RateSample},
    watch::{self, Options},
};
use std::collections::{BTreeMap, BTreeSet};

const ROUNDS: u32 = 60;
const RTTS_US: [u32; 3] = [100, 20_000, 300_000];
const START_US: u64 = 1_000_000;
/// Largest window of the trial, packets.
const MAX_PACKETS: u32 = 100_000;

/// Makes random calls with the options at their defaults, at their smallest and at their largest values. Returns the
/// names of the probes that the congestion control showed.
///
/// # Errors
/// The [`Fault`] of a violation; a violation that raises a signal does not return.
pub fn trial(algorithm: &Algorithm) -> Result<Vec<String>, Fault> {
    let mut shown: Vec<String> = Vec::new();
    for values in Options::ALL {
        watch::trying(values);
        let value = |option: &CcOption| match values {
            Options::Default => option.default,
            Options::Least => option.min,
            Options::Largest => option.max,
        };
        let options: BTreeMap<String, i64> =
            algorithm.options().iter().map(|option| (option.name.clone(), i64::from(value(option)))).collect();
        for rtt_us in RTTS_US {
            let mut cc = Instance::new(algorithm, &options).expect("values within the bounds that it declares");
            cc.keep_probes();
            let names = guard::caught(|| Flow::new(cc, rtt_us).live())
                .map_err(|fault| Fault { what: format!("{}{}", fault.what, values.clause()), ..fault })?;
            shown.extend(names.iter().map(probe_text));
        }
    }
    watch::trying(Options::Default);
    let mut seen = BTreeSet::new();
    shown.retain(|name| seen.insert(name.clone()));
    Ok(shown)
}

/// A flow whose calls are like Linux'.
#[derive(Clone)]
pub(crate) struct Flow {
    pub cc: Instance,
    rtt_us: u32,
    random: u64,
    /// Whether round-trip times vary, by up to a quarter.
    varies: bool,
    /// Largest window, packets.
    pub most: u32,
}

impl Flow {
    fn new(cc: Instance, rtt_us: u32) -> Flow {
        Flow { cc, rtt_us, random: 1, varies: true, most: MAX_PACKETS }
    }

    /// A connection that was just established, on a path whose round-trip time never varies.
    pub fn steady(cc: Instance, rtt_us: u32) -> Flow {
        let mut flow = Flow { varies: false, ..Flow::new(cc, rtt_us) };
        flow.cc.sock.tcp_mstamp_us = START_US;
        flow.cc.sock.is_cwnd_limited = 1;
        flow.cc.sock.srtt_us = rtt_us << 3;
        flow.cc.sock.rtt_min_us = rtt_us;
        flow.cc.init();
        flow
    }

    pub fn cwnd(&self) -> u32 {
        self.cc.sock.snd_cwnd
    }

    /// Returns the names of the probes.
    fn live(mut self) -> Vec<ProbeName> {
        self.cc.sock.tcp_mstamp_us = START_US;
        self.cc.sock.is_cwnd_limited = 1;
        self.cc.init();
        self.cc.cwnd_event(CaEvent::TxStart);
        // The handshake may have been repeated, so there is no round-trip time yet.
        self.ack(1, -1);
        for round in 0..ROUNDS {
            self.round();
            match round % 12 {
                4 => drop(self.lose()),
                6 => self.mark(),
                8 => self.undo(),
                10 => self.time_out(),
                11 => self.idle(),
                _ => (),
            }
        }
        self.cc.release();
        self.cc.probes().map(|(name, _)| name).collect()
    }

    pub fn round(&mut self) {
        let window = self.cc.sock.snd_cwnd.min(MAX_PACKETS);
        let batch = 1 + window / 16;
        let sock = &mut self.cc.sock;
        (sock.packets_out, sock.max_packets_out) = (window, window);
        sock.snd_nxt = sock.snd_una.wrapping_add(window.wrapping_mul(sock.mss_cache));
        sock.lsndtime = sock.jiffies32();
        let mut left = window;
        while left > 0 {
            let acked = batch.min(left);
            left -= acked;
            self.cc.sock.tcp_mstamp_us += u64::from(self.rtt_us) * u64::from(acked) / u64::from(window);
            let jitter = if self.varies { self.below(u64::from(self.rtt_us) / 4 + 1) as i32 } else { 0 };
            self.ack(acked, self.rtt_us as i32 + jitter);
        }
        let _ = (self.cc.min_tso_segs(), self.cc.sndbuf_expand());
    }

    /// As `tcp_ack` does: samples first, then growth.
    pub fn ack(&mut self, acked: u32, rtt_us: i32) {
        let sock = &mut self.cc.sock;
        sock.snd_una = sock.snd_una.wrapping_add(acked.wrapping_mul(sock.mss_cache));
        sock.packets_out = sock.packets_out.saturating_sub(acked);
        sock.delivered = sock.delivered.wrapping_add(acked);
        sock.delivered_mstamp_us = sock.tcp_mstamp_us;
        if rtt_us > 0 {
            sock.srtt_us = (rtt_us as u32).min(u32::MAX >> 3) << 3;
            sock.mdev_us = rtt_us as u32;
            sock.rtt_min_us = sock.rtt_min_us.min(rtt_us as u32);
        }
        let in_flight = sock.packets_out.saturating_add(acked).wrapping_mul(sock.mss_cache);
        let (ack, now) = (sock.snd_una, sock.tcp_mstamp_us);
        self.cc.in_ack_event(0);
        self.cc.pkts_acked(&AckSample { pkts_acked: acked, rtt_us, in_flight });
        if self.cc.has_cong_control() {
            let sampled = RateSample {
                prior_mstamp: now - START_US.min(u64::from(self.rtt_us)),
                delivered: acked as i32,
                interval_us: i64::from(self.rtt_us),
                rtt_us: i64::from(rtt_us),
                acked_sacked: acked,
                prior_in_flight: in_flight,
                last_end_seq: ack,
                ..RateSample::default()
            };
            let sample = if rtt_us > 0 { sampled } else { RateSample::default() };
            self.cc.cong_control(ack, 0, &sample);
        } else {
            self.cc.cong_avoid(ack, acked);
        }
        self.cc.sock.snd_cwnd = self.cc.sock.snd_cwnd.min(self.most);
    }

    fn reduce(&mut self, state: CaState) -> u32 {
        self.cc.sock.prior_cwnd = self.cc.sock.snd_cwnd;
        self.cc.sock.prior_ssthresh = self.cc.sock.snd_ssthresh;
        let threshold = self.cc.ssthresh();
        self.cc.sock.snd_ssthresh = threshold;
        self.enter(state);
        threshold
    }

    fn enter(&mut self, state: CaState) {
        self.cc.set_state(state);
        self.cc.sock.ca_state = state as u8;
    }

    /// A loss and its recovery; returns the threshold.
    pub fn lose(&mut self) -> u32 {
        let threshold = self.reduce(CaState::Recovery);
        let _ = self.cc.min_cwnd();
        self.leave(threshold);
        threshold
    }

    fn mark(&mut self) {
        self.cc.in_ack_event(4);
        let threshold = self.reduce(CaState::Cwr);
        self.leave(threshold);
        self.cc.cwnd_event(CaEvent::CompleteCwr);
    }

    fn leave(&mut self, threshold: u32) {
        if !self.cc.has_cong_control() {
            self.cc.sock.snd_cwnd = threshold.clamp(1, self.most);
        }
        self.enter(CaState::Open);
    }

    pub fn time_out(&mut self) {
        self.cc.sock.retransmits = 1;
        self.reduce(CaState::Loss);
        self.cc.cwnd_event(CaEvent::Loss);
        (self.cc.sock.snd_cwnd, self.cc.sock.snd_cwnd_cnt) = (1, 0);
        self.ack(1, -1);
        self.cc.sock.retransmits = 0;
        self.enter(CaState::Open);
    }

    fn undo(&mut self) {
        self.reduce(CaState::Recovery);
        self.undo_last();
    }

    /// The last reduction was spurious.
    pub fn undo_last(&mut self) {
        self.cc.sock.snd_cwnd = self.cc.undo_cwnd().min(self.most);
        self.cc.sock.snd_ssthresh = self.cc.sock.snd_ssthresh.max(self.cc.sock.prior_ssthresh);
        self.enter(CaState::Open);
    }

    fn idle(&mut self) {
        let us = 5 * u64::from(self.rtt_us) + self.below(10_000_000);
        self.rest(us);
    }

    /// A pause of less than a timeout, then the first packet.
    pub fn pause(&mut self, us: u64) {
        self.cc.sock.packets_out = 0;
        self.cc.sock.lsndtime = self.cc.sock.jiffies32();
        self.cc.sock.tcp_mstamp_us += us;
        self.cc.cwnd_event(CaEvent::TxStart);
    }

    /// Nothing to send for `us`, then the first packet.
    pub fn rest(&mut self, us: u64) {
        self.cc.sock.packets_out = 0;
        self.cc.sock.tcp_mstamp_us += us;
        self.cc.cwnd_event(CaEvent::CwndRestart);
        self.cc.sock.snd_cwnd = self.cc.sock.snd_cwnd.min(10);
        self.cc.cwnd_event(CaEvent::TxStart);
    }

    /// A random number below `bound`, by SplitMix64.
    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_registered_one_passes() {
        for algorithm in crate::list() {
            super::trial(&algorithm).unwrap_or_else(|fault| panic!("{}: {fault}", algorithm.name()));
        }
    }

    #[test]
    fn it_finds_the_probes() {
        let shown = |name: &str| super::trial(&crate::find(name).expect("registered")).expect("allowed");
        assert_eq!(shown("illinois"), ["alpha", "beta"]);
        assert_eq!(shown("dctcp"), ["alpha"]);
        assert!(shown("reno").is_empty());
    }
}
