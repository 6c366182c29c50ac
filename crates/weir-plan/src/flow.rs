//! Flows: endpoints, paths, transport and payload.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One flow: consecutive transport connections between two hosts, or one stream of datagrams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Unique name: `elephants[4]`, or `elephants[4].2` for the third of parallel streams.
    pub name: String,
    /// Name of the workload entry it comes from.
    pub group: String,
    /// Number within the group, from 0; parallel streams share it.
    pub index: u32,
    /// Number among parallel streams, from 0.
    pub stream: u32,
    /// Role in the experiment.
    pub role: Role,
    /// Whether a flow under test sends from sink to source.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reverse: bool,
    /// Index of the sending node.
    pub from: u32,
    /// Index of the receiving node.
    pub to: u32,
    /// Indices of the links that data cross, in order.
    pub path: Vec<u32>,
    /// Indices of the links that acknowledgements cross, in order.
    pub reverse_path: Vec<u32>,
    /// Start.
    pub start_ns: u64,
    /// The source stops offering data at this instant; data already offered are not cut off.
    pub stop_ns: Option<u64>,
    /// Transport.
    pub transport: Transport,
    /// Payload.
    pub source: Source,
    /// Differentiated-services code point.
    #[serde(default)]
    pub dscp: u8,
}

/// The role of a flow in the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Under test: metrics include it.
    Test,
    /// Background traffic from source to sink.
    Background,
    /// Background traffic from sink to source.
    Reverse,
}

/// The transport of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "protocol", deny_unknown_fields)]
pub enum Transport {
    /// TCP.
    Tcp(Tcp),
    /// UDP.
    Udp(Udp),
    /// QUIC (RFC 9000), by a program; for methods with a real kernel.
    Quic(Quic),
    /// TFRC (RFC 5348): datagrams at the rate that the throughput equation of TCP gives.
    Tfrc(Tfrc),
    /// Multipath TCP (RFC 8684) of a real kernel.
    Mptcp(Native),
    /// SCTP (RFC 9260) of a real kernel.
    Sctp(Native),
    /// DCCP (RFC 4340) of a real kernel.
    Dccp(Dccp),
    /// UDT (draft-gg-udt-03); with a rate profile for the simulator.
    Udt(Udt),
}

impl Transport {
    /// Whether the receiver answers, so that the flow needs a path back.
    pub fn is_two_way(&self) -> bool {
        !matches!(self, Transport::Udp(_))
    }

    /// Whether only a real kernel has it.
    pub fn is_native(&self) -> bool {
        matches!(self, Transport::Mptcp(_) | Transport::Sctp(_) | Transport::Dccp(_))
    }

    /// The settings of MPTCP or SCTP.
    pub fn native(&self) -> Option<&Native> {
        match self {
            Transport::Mptcp(native) | Transport::Sctp(native) => Some(native),
            Transport::Tcp(_)
            | Transport::Udp(_)
            | Transport::Quic(_)
            | Transport::Tfrc(_)
            | Transport::Dccp(_)
            | Transport::Udt(_) => None,
        }
    }
}

/// Settings of a TCP connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tcp {
    /// Congestion control: a registered name, `linux:NAME`, or the path of a C source, of a shared object, or of a Python file.
    pub cc: String,
    /// Options of the congestion control, by name.
    #[serde(default)]
    pub cc_options: std::collections::BTreeMap<String, i64>,
    /// For a path: the identity of its source, such as `sha256:...`. Plans with different sources are different plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cc_source: Option<String>,
    /// Profile of the stack.
    pub stack: Stack,
    /// Payload of a full segment; the IP packet adds 20 + 20 bytes and the options.
    pub mss_bytes: u32,
    /// Timestamps option (12 bytes in every segment).
    pub timestamps: bool,
    /// Selective acknowledgements.
    pub sack: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// Accurate feedback of congestion marks (AccECN, RFC 9768), if ECN is on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accecn: bool,
    /// Initial window, in segments.
    pub initial_window: u32,
    /// Slow-start threshold of a new connection, in segments, as Linux 2.4 kept it of earlier ones. 0: none. Only for the
    /// simulator.
    #[serde(default, skip_serializing_if = "is_none")]
    pub initial_ssthresh: u32,
    /// Jump Start: a new connection sends all data that it has and the peer's window permits, paced over the first
    /// round-trip time. Only for the simulator.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub jump_start: bool,
    /// Quick-Start (RFC 4782): the rate on the wire that a new connection asks the routers of its path for. 0: none. Only
    /// for the simulator.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub quick_start_bps: u64,
    /// Rate profile: the sender spaces its packets at the rate of the latest step, even if the congestion control permits
    /// more. Empty: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profile: Vec<RateStep>,
    /// Maximum number of bytes sent and not acknowledged.
    pub send_buffer_bytes: u64,
    /// Maximum number of bytes received and not read, as advertised in the window.
    pub receive_buffer_bytes: u64,
    /// Pace even if the congestion control does not ask for it.
    pub pacing: bool,
    /// Acknowledgement policy of the receiver.
    pub ack: Ack,
    /// Maximum time until the receiving host's answer is at its link, uniformly distributed. For the simulator and the
    /// links of the lab's kernel, which draw the same times; real hosts take their own.
    #[serde(default)]
    pub processing_ns: u64,
    /// Time that the sending host takes for each segment that it passes while it looks for those of a SACK block: from the
    /// first unacknowledged one to the end of each block. The flows of a host share its time. Only for the simulator.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sack_cost_ns: u64,
    /// Acknowledgements that may wait while the sending host is busy; it drops more. 0: no limit.
    #[serde(default, skip_serializing_if = "is_none")]
    pub backlog_packets: u32,
    /// No congestion moderation: the window may exceed the flight by more than three segments after an unusual
    /// acknowledgement. Only `linux-2.4` and `linux-2.6` moderate it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unmoderated: bool,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

fn is_none(value: &u32) -> bool {
    *value == 0
}

/// A step of a rate profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateStep {
    /// Instant of the run from which the rate holds.
    pub at_ns: u64,
    /// Rate of the IP packets, headers included.
    pub rate_bps: u64,
}

/// Profile of a TCP stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Stack {
    /// Current Linux: RACK-TLP, PRR, small-queue back-pressure, HyStart if the congestion control has it.
    #[serde(rename = "linux")]
    Linux,
    /// Linux 2.6: duplicate-ACK threshold and FACK, rate halving, no TLP, no back-pressure, HyStart or pacing.
    #[serde(rename = "linux-2.6")]
    Linux26,
    /// Linux 2.4: as `linux-2.6`, but selective acknowledgements give no round-trip time and restart no timeout. Its hosts
    /// have shorter queues and a shorter backlog of arriving packets.
    #[serde(rename = "linux-2.4")]
    Linux24,
}

/// Acknowledgement policy of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ack {
    /// Every second full segment, at once while in quick-ACK mode, at the latest after the delayed-ACK timer.
    Delayed,
    /// Every segment.
    Every,
}

/// Settings of a UDP flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Udp {
    /// Payload of a datagram; the IP packet adds 28 bytes.
    pub payload_bytes: u32,
}

/// Settings of a TFRC flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tfrc {
    /// Payload of a datagram; the IP packet adds 28 bytes.
    pub payload_bytes: u32,
}

/// Least payload of a TFRC datagram: what it says of itself.
pub const LEAST_TFRC_BYTES: u32 = 64;

/// Settings of a UDT connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Udt {
    /// Payload of a full packet; the IP packet adds 20 + 8 + 16 bytes.
    pub payload_bytes: u32,
    /// Maximum number of bytes sent and not acknowledged.
    pub send_buffer_bytes: u64,
    /// Maximum number of bytes received and not read.
    pub receive_buffer_bytes: u64,
    /// Tick of the sending host's timer: the sender wakes at its multiples only, and sends at once what is due by then. 0: it
    /// wakes at any instant.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub timer_ns: u64,
    /// Rate profile, which replaces the congestion control. Empty: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profile: Vec<RateStep>,
}

/// Bytes of the headers of IP, UDP and UDT.
pub const UDT_HEADERS: u32 = 20 + 8 + 16;

/// Settings of a QUIC connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quic {
    /// Congestion control of the QUIC library: `reno`, `cubic` or `bbr`.
    pub cc: String,
    /// Payload of a full datagram: a QUIC packet with its headers; the IP packet adds 28 bytes.
    pub payload_bytes: u32,
    /// Initial window, in full packets.
    pub initial_window: u32,
    /// Maximum number of bytes written and not acknowledged.
    pub send_buffer_bytes: u64,
    /// Maximum number of bytes received and not read, as advertised to the sender.
    pub receive_buffer_bytes: u64,
}

/// Settings of a DCCP connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dccp {
    /// Congestion control of both directions, by its identifier: 2 is TCP-like (RFC 4341), 3 is TFRC (RFC 4342).
    pub ccid: u8,
    /// Payload of a datagram; the IP packet adds 36 bytes, and options now and then.
    pub payload_bytes: u32,
}

/// Congestion controls that [`Dccp`] may name.
pub const DCCP_CONTROLS: [u8; 2] = [2, 3];

/// Least payload of a DCCP datagram: what it says of itself.
pub const LEAST_DCCP_BYTES: u32 = 64;

/// Settings of MPTCP or SCTP, which only a real kernel has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Native {
    /// Congestion control: one of the kernel's for TCP (`linux:NAME`) with MPTCP, `sctp` with SCTP, which has one.
    pub cc: String,
    /// Payload of a full packet: of a message with SCTP, approximately of a segment with MPTCP.
    pub payload_bytes: u32,
    /// Maximum number of bytes written and not acknowledged.
    pub send_buffer_bytes: u64,
    /// Maximum number of bytes received and not read.
    pub receive_buffer_bytes: u64,
}

/// The congestion control of SCTP, which has one (RFC 9260, section 7).
pub const SCTP_CONTROLS: [&str; 1] = ["sctp"];

/// Congestion controls that [`Quic`] may name.
pub const QUIC_CONTROLS: [&str; 3] = ["reno", "cubic", "bbr"];

/// The payload of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Source {
    /// As much as the transport takes, from start to stop.
    Bulk,
    /// One transfer after another: wait, send, and continue when the last byte was acknowledged.
    Transfers {
        /// The transfers, in order.
        transfers: Vec<Transfer>,
        /// One connection for all of them, instead of one each.
        keep_connection: bool,
    },
    /// Constant bit rate.
    Cbr(Cbr),
    /// The traffic of a program; for methods with a real kernel.
    Command(Programs),
}

/// One transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// Wait after the end of the previous transfer, or after the start of the flow; and after the end of all in
    /// `after`.
    pub wait_ns: u64,
    /// Size.
    pub bytes: u64,
    /// Number of the page of which it is an object, among the pages of its user, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// Transfers over other connections of the same user that must have ended first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<After>,
}

/// A transfer over another connection of the same user: of a flow of the same group and index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct After {
    /// Its connection, by the number among parallel streams.
    pub stream: u32,
    /// Its number within the connection, from 0.
    pub transfer: u32,
}

/// A constant-bit-rate source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cbr {
    /// Rate of the IP packets, headers included.
    pub rate_bps: u64,
    /// ON and OFF periods in turn, beginning with ON; empty: always on.
    #[serde(default)]
    pub periods_ns: Vec<u64>,
}

/// Programs that make the traffic of a flow: one at its sender and, if needed, a peer at the other end.
///
/// In their arguments, `${WEIR_PEER}` and the other [`VARIABLES`] stand for facts that the method knows about the flow;
/// they are also in the environment. The programs' connections with `${WEIR_PORT}` at either end form the flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Programs {
    /// The program that begins with the flow, and its arguments; never a shell's command line.
    pub command: Vec<String>,
    /// The program at the other end, which starts before the plan does.
    #[serde(default)]
    pub peer: Option<Vec<String>>,
    /// When the peer can be reached.
    #[serde(default)]
    pub ready: Ready,
    /// Which of the two sends the data, at the sending node.
    #[serde(default)]
    pub sender: Sender,
    /// The format of the report on their standard output.
    #[serde(default)]
    pub report: Option<Report>,
    /// Upper bound of their sending rate: the rate of the IP packets, headers included. For estimates.
    #[serde(default)]
    pub rate_bps: Option<u64>,
}

/// Variables in the arguments of [`Programs`], written `${NAME}`.
pub const VARIABLES: [&str; 6] = ["WEIR_PEER", "WEIR_PORT", "WEIR_HOST", "WEIR_CC", "WEIR_FLOW", "WEIR_SECONDS"];

/// When a peer can be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "when", deny_unknown_fields)]
pub enum Ready {
    /// At once.
    #[default]
    Started,
    /// When it listens on a port, TCP or UDP; none: the flow's port.
    Port {
        /// The port.
        port: Option<u16>,
    },
    /// When it has printed a line that contains this text, on either stream.
    Output {
        /// The text.
        text: String,
    },
    /// After this time since its start.
    After {
        /// The time.
        time_ns: u64,
    },
}

/// Which program sends the data of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sender {
    /// The command.
    #[default]
    Command,
    /// Its peer: a download.
    Peer,
}

/// Formats of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// Output of `iperf3 --json`.
    Iperf3,
}
