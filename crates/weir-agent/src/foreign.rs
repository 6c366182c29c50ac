//! The sockets of other programs, by `inet_diag`: which flow they are follows from a port.
//!
//! A flow is what has flow's port at either end. Programs open more than one connection (iperf3 has one to control its
//! test): the busiest is the flow. Connections that follow one another are one flow whose counters go on.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use weir_units::Time;

use crate::sys::diag::{Diag, DiagSocket, Ports, States};
use crate::sys::tcp_info::{TcpInfo, option};
use crate::telemetry::{Telemetry, Totals};

/// Looks at the connections of a range of ports.
#[derive(Debug)]
pub struct Watcher {
    ports: RangeInclusive<u16>,
    flows: Vec<Watched>,
}

#[derive(Clone, Debug, Default)]
struct Watched {
    /// The connection that was the busiest, and what it had done.
    present: Option<(Ends, Totals)>,
    /// What the connections before had done.
    base: Totals,
    busiest: Option<DiagSocket>,
}

type Ends = (SocketAddr, SocketAddr);

impl Watcher {
    /// Port `ports.start()` is flow 0, and so on.
    pub fn new(ports: RangeInclusive<u16>) -> Watcher {
        let flows = vec![Watched::default(); ports.len()];
        Watcher { ports, flows }
    }

    /// Looks at the sockets of some namespaces and writes a row of `samples` for each flow that has a connection.
    ///
    /// # Errors
    /// When the kernel has no `inet_diag` for TCP.
    pub fn look(&mut self, at: Time, diags: &mut [Diag], telemetry: &mut Telemetry) -> std::io::Result<()> {
        for diag in diags {
            for v6 in [false, true] {
                let (flows, ports) = (&mut self.flows, &self.ports);
                diag.dump(v6, States::Alive, &Ports::Either(ports.clone()), |socket| {
                    if let Some(flow) = flow_of(&socket, ports) {
                        flows[flow].offer(socket);
                    }
                })?;
            }
        }
        for (flow, watched) in (0..).zip(&mut self.flows) {
            if let Some((info, totals)) = watched.settle() {
                telemetry.sample(at, flow, &info, &totals, info.pacing_rate < u64::MAX);
                telemetry.observe(at, flow, &info, &totals);
            }
        }
        Ok(())
    }
}

impl Watched {
    fn offer(&mut self, socket: DiagSocket) {
        let busier = self.busiest.is_none_or(|best| socket.info.bytes_sent > best.info.bytes_sent);
        if busier {
            self.busiest = Some(socket);
        }
    }

    /// The connection that is the flow now, and the totals of the flow.
    fn settle(&mut self) -> Option<(TcpInfo, Totals)> {
        let socket = self.busiest.take()?;
        let ends = (socket.local, socket.remote);
        if let Some((before, totals)) = self.present
            && before != ends
            && totals.sent_bytes > socket.info.bytes_sent
        {
            // The one before has ended: one that is still there and has sent more would be the busiest.
            self.base = self.base + totals;
        }
        let totals = totals_of(&socket.info);
        self.present = Some((ends, totals));
        Some((socket.info, self.base + totals))
    }
}

fn flow_of(socket: &DiagSocket, ports: &RangeInclusive<u16>) -> Option<usize> {
    let port = [socket.remote.port(), socket.local.port()].into_iter().find(|port| ports.contains(port))?;
    Some(usize::from(port - ports.start()))
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
        let info = TcpInfo { bytes_sent: sent, bytes_acked: sent + 1, ..TcpInfo::default() };
        DiagSocket { local: at(local), remote: at(remote), info }
    }

    #[test]
    fn a_flow_is_known_by_either_port() {
        let ports = 5201..=5210;
        assert_eq!(flow_of(&socket(40_000, 5203, 0), &ports), Some(2));
        assert_eq!(flow_of(&socket(5210, 40_000, 0), &ports), Some(9));
        assert_eq!(flow_of(&socket(40_000, 80, 0), &ports), None);
    }

    #[test]
    fn the_busiest_connection_is_the_flow_and_its_counters_never_fall() {
        let mut watched = Watched::default();
        let mut acked = |sockets: &[DiagSocket]| {
            sockets.iter().for_each(|socket| watched.offer(*socket));
            watched.settle().map(|(_, totals)| totals.acked_bytes)
        };
        let control = socket(1, 5201, 100);
        assert_eq!(acked(&[control]), Some(100));
        assert_eq!(acked(&[control, socket(2, 5201, 5000)]), Some(5000));
        assert_eq!(acked(&[]), None);
        // A test after the first: what that one had sent still counts.
        assert_eq!(acked(&[socket(3, 5201, 70)]), Some(5070));
        assert_eq!(acked(&[socket(3, 5201, 80)]), Some(5080));
    }
}
