//! Recomputes the sender's counters from its records, for tests.

use std::collections::BTreeSet;

use weir_units::Time;

use super::Sender;
use super::scoreboard::{LOST, RETRANS, SACKED};

/// Returns an error with the values if a condition does not hold.
macro_rules! ensure {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err(format!($($what)+));
        }
    };
}

impl Sender {
    /// Verifies the invariants between any two calls.
    ///
    /// # Errors
    /// A description of the first inconsistency.
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), String> {
        self.check_counters()?;
        self.check_queues()?;
        self.check_bytes()?;
        let sock = &self.cc.sock;
        ensure!(sock.snd_cwnd >= 1, "the congestion window is zero");
        ensure!(self.reordering >= 1, "the reordering degree is zero");
        let waits = self.is_established() && self.board.outstanding() > 0;
        let will_act = self.deadline() < Time::MAX || self.forced.is_some();
        ensure!(!waits || will_act, "{} segments outstanding, but no timer", self.board.outstanding());
        Ok(())
    }

    fn check_counters(&self) -> Result<(), String> {
        let sock = &self.cc.sock;
        let records = (self.board.una..self.board.next).map(|seq| (seq, self.board.get(seq).flags));
        let count = |flag: u8| records.clone().filter(|(_, flags)| flags & flag != 0).count() as u32;
        ensure!(
            u64::from(sock.packets_out) == self.board.outstanding(),
            "packets_out {} of {} records",
            sock.packets_out,
            self.board.outstanding()
        );
        ensure!(sock.lost_out == count(LOST), "lost_out {}, but {} records", sock.lost_out, count(LOST));
        ensure!(sock.retrans_out == count(RETRANS), "retrans_out {}, but {} records", sock.retrans_out, count(RETRANS));
        let sacked = count(SACKED);
        let emulated = !self.sack && sacked == 0;
        ensure!(emulated || sock.sacked_out == sacked, "sacked_out {}, but {sacked} records", sock.sacked_out);
        ensure!(
            sock.sacked_out + sock.lost_out <= sock.packets_out,
            "sacked_out {} and lost_out {} exceed packets_out {}",
            sock.sacked_out,
            sock.lost_out,
            sock.packets_out
        );
        for (seq, flags) in records {
            ensure!(flags & SACKED == 0 || flags & LOST == 0, "segment {seq} is both delivered and lost");
            let held = self.board.sacked.find(seq).is_some();
            ensure!(held == (flags & SACKED != 0), "segment {seq} with flags {flags}: in the set of delivered {held}");
        }
        Ok(())
    }

    fn check_queues(&self) -> Result<(), String> {
        let waiting: BTreeSet<u64> = self.board.waiting().collect();
        let resent: BTreeSet<(u64, u64)> = self.board.retransmissions.iter().map(|r| (r.seq, r.sent_ns)).collect();
        for seq in self.board.una..self.board.next {
            let record = self.board.get(seq);
            let lost = record.flags & (LOST | RETRANS | SACKED) == LOST;
            ensure!(!lost || waiting.contains(&seq), "lost segment {seq} does not wait for retransmission");
            let copied = record.flags & (RETRANS | SACKED) == RETRANS;
            ensure!(
                !copied || resent.contains(&(seq, record.sent_ns)),
                "segment {seq} was retransmitted, but nothing watches the copy"
            );
            let plain = record.flags == 0;
            ensure!(
                !plain || seq >= self.board.examined || self.legacy || !self.sack,
                "segment {seq} is passed over by loss detection (examined up to {})",
                self.board.examined
            );
        }
        Ok(())
    }

    fn check_bytes(&self) -> Result<(), String> {
        let outstanding: u64 = (self.board.una..self.board.next).map(|seq| u64::from(self.board.get(seq).len)).sum();
        ensure!(
            self.una_bytes + outstanding == self.next_bytes,
            "{} bytes acknowledged and {outstanding} outstanding of {} sent",
            self.una_bytes,
            self.next_bytes
        );
        ensure!(self.next_bytes <= self.written_bytes, "{} bytes sent of {}", self.next_bytes, self.written_bytes);
        let window = self.permitted();
        ensure!(outstanding <= window, "{outstanding} bytes outstanding in a window of {window}");
        ensure!(self.high_sacked <= self.board.next, "delivery of {} was reported", self.high_sacked);
        Ok(())
    }
}
