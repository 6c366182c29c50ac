//! The sockets of other programs, by `inet_diag`.
//!
//! A flow comprises all connections with its port at an end. Programs open several, at once or in turn: iperf3 has one
//! to control its test. Counters are sums over all connections, including ended ones. The window, the round-trip time
//! and the state are those of the busiest connection.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use weir_sys::diag::DiagSocket;
use weir_sys::tcp_info::{TcpInfo, option};

use crate::telemetry::Totals;

/// The connections of a flow at one of its ends.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    /// Open connections, with their counters at the last sample.
    present: BTreeMap<(SocketAddr, SocketAddr), Counters>,
    /// Sums over the ended connections.
    past: Counters,
    busiest: Option<DiagSocket>,
}

/// Sums over connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sums of the senders.
    pub sent: Totals,
    /// Payload received in order, read or not.
    pub received_bytes: u64,
}

impl Connections {
    /// Adds the sample of a connection.
    pub fn offer(&mut self, socket: &DiagSocket) {
        self.note(socket);
        let busier = self.busiest.is_none_or(|best| socket.info.bytes_sent > best.info.bytes_sent);
        if busier {
            self.busiest = Some(*socket);
        }
    }

    /// Adds the final state of a connection.
    pub fn bury(&mut self, socket: &DiagSocket) {
        self.note(socket);
        if let Some(counters) = self.present.remove(&(socket.local, socket.remote)) {
            self.past = self.past + counters;
        }
    }

    /// The state of the busiest connection sampled since the last call.
    pub fn settle(&mut self) -> Option<TcpInfo> {
        self.busiest.take().map(|socket| socket.info)
    }

    /// Sums over all connections, ended and open.
    pub fn counters(&self) -> Counters {
        self.present.values().fold(self.past, |sum, counters| sum + *counters)
    }

    fn note(&mut self, socket: &DiagSocket) {
        let now = counters_of(&socket.info);
        let before = self.present.entry((socket.local, socket.remote)).or_default();
        if now.sent.sent_bytes < before.sent.sent_bytes || now.received_bytes < before.received_bytes {
            // Another connection between the same two ports.
            self.past = self.past + *before;
        }
        *before = now;
    }
}

impl std::ops::Add for Counters {
    type Output = Counters;

    fn add(self, other: Counters) -> Counters {
        Counters { sent: self.sent + other.sent, received_bytes: self.received_bytes + other.received_bytes }
    }
}

fn counters_of(info: &TcpInfo) -> Counters {
    Counters { sent: totals_of(info), received_bytes: info.bytes_received }
}

fn totals_of(info: &TcpInfo) -> Totals {
    const HEADER_BYTES: u64 = 40;
    const TIMESTAMPS_BYTES: u64 = 12;
    let packets = u64::from(info.data_segs_out);
    let headers = HEADER_BYTES + if info.options & option::TIMESTAMPS != 0 { TIMESTAMPS_BYTES } else { 0 };
    Totals {
        acked_bytes: info.acked_payload(info.bytes_sent),
        sent_bytes: info.bytes_sent,
        sent_ip_bytes: info.bytes_sent + packets * headers,
        sent_packets: packets,
        retransmitted_packets: u64::from(info.total_retrans),
        timeouts: u64::from(info.total_rto),
        busy_ns: info.busy_us * 1_000,
        rwnd_limited_ns: info.rwnd_limited_us * 1_000,
        sndbuf_limited_ns: info.sndbuf_limited_us * 1_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(local: u16, remote: u16, sent: u64) -> DiagSocket {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let info = TcpInfo { bytes_sent: sent, bytes_acked: sent + 1, snd_cwnd: sent as u32, ..TcpInfo::default() };
        DiagSocket { local: at(local), remote: at(remote), info }
    }

    #[test]
    fn counters_are_sums_that_never_fall_and_the_window_is_that_of_the_busiest() {
        let mut connections = Connections::default();
        let mut look = |alive: &[DiagSocket], ended: &[DiagSocket]| {
            alive.iter().for_each(|socket| connections.offer(socket));
            ended.iter().for_each(|socket| connections.bury(socket));
            (connections.settle().map(|info| info.snd_cwnd), connections.counters().sent.acked_bytes)
        };
        let control = socket(1, 5201, 100);
        assert_eq!(look(&[control], &[]), (Some(100), 100));
        assert_eq!(look(&[control, socket(2, 5201, 5000)], &[]), (Some(5000), 5100));
        // It has ended, and had sent more by then.
        assert_eq!(look(&[control], &[socket(2, 5201, 6000)]), (Some(100), 6100));
        // One that was too short to be seen.
        assert_eq!(look(&[], &[socket(4, 5201, 7)]), (None, 6107));
        // The next one with the same ports, and one whose end nobody told.
        assert_eq!(look(&[socket(2, 5201, 70)], &[]), (Some(70), 6177));
        assert_eq!(look(&[socket(2, 5201, 20)], &[]), (Some(20), 6197));
    }
}
