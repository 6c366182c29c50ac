//! A TCP connection, and the totals of a flow over all its connections.

use weir_cc::Algorithm;
use weir_plan::{Stack, Tcp};
use weir_tcp::{Counters, Receiver, Sender, feedback, header_bytes};
use weir_units::Time;

/// A TCP connection.
pub(crate) struct Connection {
    pub sender: Sender,
    pub receiver: Receiver,
    /// Time of the SYN-ACK, until what follows it gives the round-trip time.
    pub syn_ack_at: Option<Time>,
    /// Bytes of the headers of a data segment.
    pub headers: u32,
    /// Bytes of the IP packet of a full segment.
    pub full_bytes: u32,
    pub ecn: bool,
    /// Its packets are ECT(1) instead of ECT(0).
    pub ect_1: bool,
    /// Sends the third packet of the handshake. Linux of any age does; older stacks do not here, as in the stored results of
    /// the papers' claims.
    pub confirms: bool,
}

impl Connection {
    /// A closed connection.
    pub fn new(tcp: &Tcp, algorithm: &Algorithm) -> Connection {
        let headers = header_bytes(tcp.timestamps);
        Connection {
            sender: Sender::new(tcp, algorithm).expect("the options were checked when the simulation was built"),
            receiver: Receiver::new(tcp).with_feedback(feedback(tcp, algorithm)),
            syn_ack_at: None,
            headers,
            full_bytes: tcp.mss_bytes + headers,
            ecn: tcp.ecn,
            ect_1: tcp.ecn && algorithm.sends_ect_1(),
            confirms: tcp.stack == Stack::Linux,
        }
    }
}

/// Totals of a flow over all its connections.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Totals {
    pub delivered_bytes: u64,
    pub acked_bytes: u64,
    pub sent_ip_bytes: u64,
    pub counters: Counters,
    pub lost_packets: u64,
    pub marked_packets: u64,
}

impl Totals {
    /// Adds the totals of a connection.
    pub fn add(&mut self, connection: &Connection) {
        let counters = connection.sender.counters();
        self.delivered_bytes += connection.receiver.delivered_bytes();
        self.acked_bytes += connection.sender.acked_bytes();
        self.sent_ip_bytes += counters.sent_bytes + counters.sent_packets * u64::from(connection.headers);
        self.counters.sent_bytes += counters.sent_bytes;
        self.counters.sent_packets += counters.sent_packets;
        self.counters.retransmitted_packets += counters.retransmitted_packets;
        self.counters.timeouts += counters.timeouts;
    }
}
