//! Congestion-window validation: an unused window does not grow, and decays when idle.

use weir_cc::{CaEvent, CaState};
use weir_units::Time;

use super::{Sender, micros, recovery};

impl Sender {
    pub(super) fn restart_after_idle(&mut self, now: Time) {
        if self.cc.has_cong_control() {
            return;
        }
        let rto = self.rtt.rto();
        let mut idle = now.since(self.last_sent);
        if idle <= rto {
            return;
        }
        self.set_clock(now);
        self.cc.cwnd_event(CaEvent::CwndRestart);
        self.cc.sock.snd_ssthresh = self.current_ssthresh();
        let floor = self.initial_window.min(self.cc.sock.snd_cwnd);
        let mut cwnd = self.cc.sock.snd_cwnd;
        while idle > rto && cwnd > floor {
            idle = idle - rto;
            cwnd >>= 1;
        }
        self.cc.sock.snd_cwnd = cwnd.max(floor);
        self.stamp_cwnd(now);
        self.cwnd_used = 0;
    }

    /// Congestion-window validation (RFC 7661 in Linux' form): tells the congestion control whether the window limited
    /// the flight, and decays a window unused for an RTO.
    #[inline]
    pub(super) fn validate_cwnd(&mut self, now: Time, limited: bool) {
        if !limited && self.validated_next == self.board.next {
            // Nothing was sent since: the use of the window is unknown.
            return;
        }
        self.validated_next = self.board.next;
        let sock = &mut self.cc.sock;
        if self.board.una >= self.cwnd_usage_next
            || limited
            || (sock.is_cwnd_limited == 0 && sock.packets_out > sock.max_packets_out)
        {
            sock.is_cwnd_limited = u8::from(limited);
            sock.max_packets_out = sock.packets_out;
            self.cwnd_usage_next = self.board.next;
        }
        if self.is_cwnd_limited() {
            self.cwnd_used = 0;
            self.cwnd_stamp = now;
            return;
        }
        self.cwnd_used = self.cwnd_used.max(self.cc.sock.packets_out);
        if now.since(self.cwnd_stamp) >= self.rtt.rto() && !self.cc.has_cong_control() {
            self.decay_unused_cwnd(now);
        }
    }

    fn decay_unused_cwnd(&mut self, now: Time) {
        let buffer_limited = self.written_bytes - self.una_bytes >= self.send_buffer;
        if self.cc.sock.ca_state == CaState::Open as u8 && !buffer_limited {
            let used = self.cwnd_used.max(self.initial_window);
            if used < self.cc.sock.snd_cwnd {
                self.cc.sock.snd_ssthresh = self.current_ssthresh();
                self.cc.sock.snd_cwnd = (self.cc.sock.snd_cwnd + used) / 2;
            }
            self.cwnd_used = 0;
        }
        self.stamp_cwnd(now);
    }

    #[inline]
    fn is_cwnd_limited(&self) -> bool {
        let sock = &self.cc.sock;
        sock.is_cwnd_limited != 0 || sock.snd_cwnd < sock.snd_ssthresh && sock.snd_cwnd < 2 * sock.max_packets_out
    }

    /// The threshold to remember when the window shrinks for want of use (RFC 2861: three quarters of the window).
    pub(super) fn current_ssthresh(&self) -> u32 {
        let sock = &self.cc.sock;
        if recovery::reduces_window(sock.ca_state) {
            sock.snd_ssthresh
        } else {
            sock.snd_ssthresh.max((sock.snd_cwnd >> 1) + (sock.snd_cwnd >> 2))
        }
    }

    pub(super) fn stamp_cwnd(&mut self, now: Time) {
        self.cwnd_stamp = now;
        self.cc.sock.snd_cwnd_stamp = self.jiffies(now);
    }

    pub(super) fn jiffies(&self, at: Time) -> u32 {
        (micros(at) * u64::from(self.cc.sock.hz) / 1_000_000) as u32
    }
}
