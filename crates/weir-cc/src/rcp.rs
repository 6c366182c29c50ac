//! RCP: the sender of the Rate Control Protocol (N. Dukkipati, M. Kobayashi, R. Zhang-Shen, N. McKeown, "Processor sharing
//! flows in the Internet", IWQoS 2005).
//!
//! Routers write the rate of all flows into the header of each packet, of the connection request too; the flow is paced
//! at the rate that the last acknowledgement returned, from its first packet on. The window only bounds what is in flight,
//! to twice the rate times the round-trip time. A loss changes nothing but that the packet is sent again: the rate is the
//! routers' business.
//!
//! Like other paced flows, it sends its first ten packets at once. Without a rate, which is a mistake that the simulator
//! refuses, it sends a window of ten packets in a round-trip time.

use crate::{
    algorithm::Algorithm,
    explicit::{self, RATE},
    ops::Ops,
    sock::{RateSample, Sock},
};

const PACING_NEEDED: u32 = 1;
/// Packets of the window: enough for delayed acknowledgements, and few enough that sums of two do not overflow.
const LEAST: u64 = 4;
const MOST: u64 = 1 << 30;
const WITHOUT_RATE: u64 = 10;

/// Sets window and pacing rate by the rate that routers give.
fn obey(sock: &mut Sock) {
    let packet = u64::from(sock.mss_cache.max(1));
    let rtt_us = u64::from(sock.srtt_us >> 3).max(1);
    let told = sock.private[RATE] / 8;
    let rate = if told > 0 { told } else { WITHOUT_RATE * packet * 1_000_000 / rtt_us };
    let in_flight = 2 * u128::from(rate) * u128::from(rtt_us) / 1_000_000 / u128::from(packet);
    let window = in_flight.clamp(u128::from(LEAST), u128::from(MOST)) as u32;
    sock.snd_cwnd = window.min(sock.snd_cwnd_clamp.max(1));
    sock.snd_ssthresh = sock.snd_cwnd.max(2);
    sock.pacing_status = PACING_NEEDED;
    sock.pacing_rate = rate.clamp(1, sock.max_pacing_rate);
}

unsafe extern "C" fn init(sock: *mut Sock) {
    // SAFETY: the transport's socket, for the time of this call.
    obey(unsafe { &mut *sock });
}

unsafe extern "C" fn window(sock: *mut Sock) -> u32 {
    // SAFETY: as in `init`.
    unsafe { (*sock).snd_cwnd.max(2) }
}

unsafe extern "C" fn cong_control(sock: *mut Sock, _ack: u32, _flag: i32, _sample: *const RateSample) {
    // SAFETY: as in `init`.
    obey(unsafe { &mut *sock });
}

static OPS: Ops = Ops {
    name: c"rcp".as_ptr(),
    title: c"Rate Control Protocol".as_ptr(),
    source: c"Dukkipati, Kobayashi, Zhang-Shen, McKeown: Processor sharing flows in the Internet, IWQoS".as_ptr(),
    year: 2005,
    init: Some(init),
    ssthresh: Some(window),
    undo_cwnd: Some(window),
    cong_control: Some(cong_control),
    ..explicit::OPS
};

/// The congestion control.
pub(crate) fn algorithm() -> Algorithm {
    Algorithm { ops: &OPS, foreign: None }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{Feedback, Instance};

    fn sender() -> Instance {
        let mut sender = Instance::new(&algorithm(), &BTreeMap::new()).unwrap();
        sender.sock.mss_cache = 1000;
        sender.sock.srtt_us = 80_000 << 3;
        sender
    }

    /// By hand: 8 Mbit/s are 1 000 000 bytes/s; in 80 ms 80 packets of 1000 bytes, twice that in flight.
    #[test]
    fn it_is_paced_at_the_rate_that_the_request_returned() {
        let mut sender = sender();
        sender.feedback(Feedback { rate_bps: 8_000_000, ..Feedback::default() });
        sender.init();
        assert_eq!((sender.sock.pacing_rate, sender.sock.pacing_status, sender.sock.snd_cwnd), (1_000_000, 1, 160));
        sender.feedback(Feedback { rate_bps: 80_000, ..Feedback::default() });
        sender.cong_control(0, 0, &RateSample::default());
        assert_eq!((sender.sock.pacing_rate, sender.sock.snd_cwnd), (10_000, 4));
    }

    #[test]
    fn a_loss_does_not_change_the_rate() {
        let mut sender = sender();
        sender.feedback(Feedback { rate_bps: 8_000_000, ..Feedback::default() });
        sender.init();
        assert_eq!(sender.ssthresh(), 160);
        sender.set_state(crate::CaState::Loss);
        sender.cong_control(0, 0, &RateSample::default());
        assert_eq!((sender.sock.pacing_rate, sender.sock.snd_cwnd), (1_000_000, 160));
    }

    #[test]
    fn without_a_rate_it_sends_ten_packets_in_a_round_trip() {
        let mut sender = sender();
        sender.init();
        assert_eq!(sender.sock.pacing_rate, 125_000);
    }
}
