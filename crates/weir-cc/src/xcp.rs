//! XCP: the sender of the Explicit Control Protocol (D. Katabi, M. Handley, C. Rohrs, SIGCOMM 2002, section 3.1;
//! draft-falk-xcp-spec-03, section 5.1).
//!
//! Each acknowledgement returns by how much the flow's throughput may change; the window changes by that times the
//! round-trip time, and never falls below a packet. A loss is rare, and treated as by TCP: fast recovery halves the
//! window once, a timeout leaves one packet. The window between two acknowledgements is exact to a thousandth of a byte,
//! as many small changes add up.
//!
//! A packet that no XCP router saw changes nothing. So that a path without such a router is a mistake that shows, the
//! window then stays as it is.

use crate::{
    algorithm::Algorithm,
    explicit::{self, SPACING_NS, take_change},
    ops::{Ops, OptionRow},
    sock::{RateSample, Sock},
};

/// Words of the private state: the window, and the one before the last loss, thousandths of a byte.
const WINDOW: usize = 0;
const BEFORE: usize = 1;

const MILLI: u64 = 1000;
/// Packets of the window, at most: sums of two must not overflow.
const MOST_PACKETS: u64 = 1 << 30;

/// Index of the option `pacing`.
const PACING: usize = 0;

const TX_START: u32 = 0;
const RECOVERY: u8 = 3;
const LOSS: u8 = 4;

fn packet(sock: &Sock) -> u64 {
    u64::from(sock.mss_cache.max(1)) * MILLI
}

/// Sets the window, and what depends on it.
fn set(sock: &mut Sock, window: u64) {
    let packet = packet(sock);
    let window = window.clamp(packet, MOST_PACKETS * packet);
    sock.private[WINDOW] = window;
    let packets = (window + packet / 2) / packet;
    sock.snd_cwnd = (packets as u32).clamp(1, sock.snd_cwnd_clamp.max(1));
    sock.snd_ssthresh = sock.snd_cwnd.max(2);
    let rtt_us = u64::from(sock.srtt_us >> 3);
    if rtt_us == 0 {
        return;
    }
    sock.private[SPACING_NS] = (u128::from(rtt_us) * 1000 * u128::from(packet) / u128::from(window)) as u64;
    let rate = u128::from(window / MILLI) * 1_000_000 / u128::from(rtt_us);
    sock.pacing_rate = (rate as u64).clamp(1, sock.max_pacing_rate);
    sock.pacing_status = sock.options[PACING];
}

/// The window after a change of the throughput.
fn changed(sock: &Sock, change_bps: i64) -> u64 {
    let rtt_us = i128::from(sock.srtt_us >> 3);
    // bit/s times microseconds: 8 bits a byte, 10^6 microseconds a second, 10^3 thousandths of a byte.
    let change = i128::from(change_bps) * rtt_us / 8000;
    (i128::from(sock.private[WINDOW]) + change).clamp(0, i128::from(u64::MAX)) as u64
}

unsafe extern "C" fn init(sock: *mut Sock) {
    // SAFETY: the transport's socket, for the time of this call.
    let sock = unsafe { &mut *sock };
    let window = u64::from(sock.snd_cwnd) * packet(sock);
    set(sock, window);
}

/// A loss: half of the window.
unsafe extern "C" fn ssthresh(sock: *mut Sock) -> u32 {
    // SAFETY: as in `init`.
    let sock = unsafe { &mut *sock };
    let window = sock.private[WINDOW];
    sock.private[BEFORE] = window;
    ((window / 2 / packet(sock)) as u32).max(2)
}

unsafe extern "C" fn undo(sock: *mut Sock) -> u32 {
    // SAFETY: as in `init`.
    let sock = unsafe { &mut *sock };
    let window = sock.private[WINDOW].max(sock.private[BEFORE]);
    set(sock, window);
    sock.snd_cwnd
}

unsafe extern "C" fn set_state(sock: *mut Sock, new: u8) {
    // SAFETY: as in `init`.
    let sock = unsafe { &mut *sock };
    match new {
        RECOVERY => {
            let window = sock.private[WINDOW] / 2;
            set(sock, window);
        }
        LOSS => {
            let window = packet(sock);
            set(sock, window);
        }
        _ => {}
    }
}

/// After an idle time of more than a second the network may have given the throughput to others: begins anew with ten
/// packets, as RFC 6928 does.
unsafe extern "C" fn cwnd_event(sock: *mut Sock, event: u32) {
    // SAFETY: as in `init`.
    let sock = unsafe { &mut *sock };
    if event == TX_START && sock.jiffies32().wrapping_sub(sock.lsndtime) > sock.hz && sock.private[WINDOW] > 0 {
        let window = sock.private[WINDOW].min(10 * packet(sock));
        set(sock, window);
    }
}

unsafe extern "C" fn cong_control(sock: *mut Sock, _ack: u32, _flag: i32, _sample: *const RateSample) {
    // SAFETY: as in `init`.
    let sock = unsafe { &mut *sock };
    let change = take_change(sock);
    let window = changed(sock, change);
    set(sock, window);
}

struct Options([OptionRow; 1]);
// SAFETY: pointers to constants of this file.
unsafe impl Sync for Options {}

static OPTIONS: Options = Options([OptionRow {
    name: c"pacing".as_ptr(),
    doc: c"1: send at the rate of a window per round-trip time; 0: when an acknowledgement permits, as in the paper"
        .as_ptr(),
    value: 0,
    min: 0,
    max: 1,
    reserved: 0,
}]);

static OPS: Ops = Ops {
    name: c"xcp".as_ptr(),
    title: c"Explicit Control Protocol".as_ptr(),
    source: c"Katabi, Handley, Rohrs: Congestion control for high bandwidth-delay product networks, SIGCOMM; \
              draft-falk-xcp-spec-03"
        .as_ptr(),
    year: 2002,
    option_count: 1,
    options: OPTIONS.0.as_ptr(),
    init: Some(init),
    ssthresh: Some(ssthresh),
    set_state: Some(set_state),
    cwnd_event: Some(cwnd_event),
    undo_cwnd: Some(undo),
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
    use crate::{CaState, Feedback, Instance};

    /// A window of 100 packets of 1000 bytes, round-trip time 80 ms.
    fn sender() -> Instance {
        let mut sender = Instance::new(&algorithm(), &BTreeMap::new()).unwrap();
        sender.sock.mss_cache = 1000;
        sender.sock.snd_cwnd = 100;
        sender.sock.srtt_us = 80_000 << 3;
        sender.init();
        sender
    }

    fn acknowledge(sender: &mut Instance, change_bps: i64) {
        sender.feedback(Feedback { change_bps, ..Feedback::default() });
        sender.cong_control(0, 0, &RateSample::default());
    }

    /// By hand: 100 packets in 80 ms are one in 800 us. 1 Mbit/s more are 10 000 bytes in 80 ms, ten packets; then one in
    /// 80 000 / 110 us.
    #[test]
    fn the_window_changes_by_feedback_times_round_trip_time() {
        let mut sender = sender();
        let announced = sender.announcement().unwrap();
        assert_eq!((announced.rtt_ns, announced.spacing_ns), (80_000_000, 800_000));
        acknowledge(&mut sender, 1_000_000);
        assert_eq!(sender.sock.snd_cwnd, 110);
        assert_eq!(sender.announcement().unwrap().spacing_ns, 727_272);
        acknowledge(&mut sender, -2_000_000);
        assert_eq!(sender.sock.snd_cwnd, 90);
    }

    /// By hand: 5000 bit/s over 80 ms are 50 bytes; ten of them are half a packet, and the window is rounded.
    #[test]
    fn small_changes_add_up() {
        let mut sender = sender();
        (0..9).for_each(|_| acknowledge(&mut sender, 5_000));
        assert_eq!(sender.sock.snd_cwnd, 100);
        acknowledge(&mut sender, 5_000);
        assert_eq!(sender.sock.snd_cwnd, 101);
    }

    #[test]
    fn a_window_has_at_least_one_packet_whatever_routers_take() {
        let mut sender = sender();
        acknowledge(&mut sender, i64::MIN);
        assert_eq!(sender.sock.snd_cwnd, 1);
        acknowledge(&mut sender, i64::MAX);
        assert_eq!(u64::from(sender.sock.snd_cwnd), MOST_PACKETS);
    }

    #[test]
    fn a_loss_halves_the_window_and_undo_restores_it() {
        let mut sender = sender();
        assert_eq!(sender.ssthresh(), 50);
        sender.set_state(CaState::Recovery);
        assert_eq!(sender.sock.snd_cwnd, 50);
        assert_eq!(sender.undo_cwnd(), 100);
        sender.set_state(CaState::Loss);
        assert_eq!(sender.sock.snd_cwnd, 1);
    }

    #[test]
    fn pacing_is_an_option() {
        let mut paced = Instance::new(&algorithm(), &BTreeMap::from([("pacing".into(), 1)])).unwrap();
        paced.sock.srtt_us = 80_000 << 3;
        paced.init();
        // 10 packets of 1448 bytes in 80 ms.
        assert_eq!((paced.sock.pacing_status, paced.sock.pacing_rate), (1, 181_000));
        assert_eq!(sender().sock.pacing_status, 0);
    }
}
