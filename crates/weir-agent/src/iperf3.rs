//! The report of iperf3 (`-J`) as rows of the tables of a run.
//!
//! A stream is a flow. Figures that iperf3 does not report are null, or 0 in columns that cannot be null: packets in
//! flight, and TCP's number of sent packets. iperf3 counts written bytes as sent, which exceed the acknowledged bytes
//! by the send buffer. Its instants are relative to the start of its test, which the caller knows.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use weir_run::{FlowRow, SampleRow};

const NULL_U32: u32 = u32::MAX;
const NULL_U64: u64 = u64::MAX;

/// The error of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportError {
    /// The text is not a report of `iperf3 -J`; where and why.
    Malformed(String),
    /// iperf3 itself failed; its message.
    Failed(String),
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReportError::Malformed(problem) => write!(f, "not a report of iperf3 -J: {problem}"),
            ReportError::Failed(problem) => write!(f, "iperf3: {problem}"),
        }
    }
}

impl std::error::Error for ReportError {}

/// The content of a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// One for each stream.
    pub flows: Vec<FlowRow>,
    /// One for each TCP stream and interval, if the report has the sender's intervals.
    pub samples: Vec<SampleRow>,
    /// Bytes that a stream sent in an interval, without headers.
    pub sent: Vec<IntervalRow>,
    /// Bytes that a stream delivered in an interval: of the receiver's intervals, if the report has them (`-R`, or
    /// `--get-server-output`).
    pub delivered: Vec<IntervalRow>,
    /// The sender's congestion control; `None` for UDP.
    pub congestion_control: Option<String>,
    /// Why the test ended early; the report covers the time until then.
    pub interrupted: Option<String>,
    /// The figures of its summary, over all streams: `seconds`, `sent_bytes`, `delivered_bytes` and, as far as it knows
    /// them, `retransmitted_packets`, `lost_packets`, `jitter_s`.
    pub summary: BTreeMap<String, f64>,
}

/// Bytes of a stream in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalRow {
    /// End of the interval.
    pub time_ns: u64,
    /// The flow.
    pub flow: u32,
    /// Payload.
    pub bytes: u64,
}

/// Whether iperf3 reports that the kernel refused a socket option: congestion control, segment size, code point,
/// buffer.
pub fn names_a_refused_setting(said: &str) -> bool {
    ["unable to set ", "socket buffer size not set correctly"].iter().any(|words| said.contains(words))
}

/// Parses the report of a client or server whose test began at `start_ns`; its streams are the flows from `first_flow`
/// on.
///
/// # Errors
/// The text is not such a report, or iperf3 failed before it had figures.
pub fn read(text: &str, first_flow: u32, start_ns: u64) -> Result<Report, ReportError> {
    let malformed = |error: serde_json::Error| ReportError::Malformed(error.to_string());
    // iperf3 prints two errors under the same name; the parsed value has the last one.
    let value: serde_json::Value = serde_json::from_str(text).map_err(malformed)?;
    let raw: raw::Report = serde_json::from_value(value).map_err(malformed)?;
    if let Some(error) = raw.error.as_ref().filter(|_| raw.end.streams.is_empty()) {
        return Err(ReportError::Failed(error.clone()));
    }
    let reader = Reader::new(&raw, first_flow, start_ns)?;
    let mut report = Report {
        congestion_control: raw.end.sender_tcp_congestion.clone(),
        interrupted: raw.error.clone(),
        summary: summary(&raw.end),
        ..Report::default()
    };
    reader.intervals(&raw.intervals, &mut report)?;
    if let Some(server) = &raw.server_output_json {
        reader.server(server, &mut report)?;
    }
    for (stream, number) in raw.end.streams.iter().zip(first_flow..) {
        report.flows.push(reader.flow(stream, number));
    }
    Ok(report)
}

struct Reader {
    /// The sockets of the streams, in their order.
    sockets: Vec<i64>,
    first_flow: u32,
    start_ns: u64,
    mss: u64,
}

impl Reader {
    fn new(raw: &raw::Report, first_flow: u32, start_ns: u64) -> Result<Reader, ReportError> {
        let Some(start) = &raw.start else { return Err(ReportError::Malformed("`start` is missing".into())) };
        if raw.end.streams.is_empty() {
            return Err(ReportError::Malformed("`end.streams` is empty: the test did not end".into()));
        }
        let sockets = start.connected.iter().map(|stream| stream.socket).collect();
        Ok(Reader { sockets, first_flow, start_ns, mss: start.tcp_mss_default.unwrap_or(0).max(1) })
    }

    fn intervals(&self, intervals: &[raw::Interval], report: &mut Report) -> Result<(), ReportError> {
        let mut totals = vec![(0_u64, 0_u64); self.sockets.len()];
        for (index, stream) in intervals.iter().flat_map(|interval| interval.streams.iter().enumerate()) {
            // The client's own sockets are in its order; a server's have numbers of their own.
            let number = self.number(stream, index)?;
            let row = self.row(stream, number);
            if !stream.sender {
                report.delivered.push(row);
                continue;
            }
            report.sent.push(row);
            let (sent, retransmitted) = &mut totals[number];
            *sent += stream.bytes;
            *retransmitted += count(stream.retransmits);
            report.samples.extend(self.sample(stream, row, *sent, *retransmitted));
        }
        Ok(())
    }

    /// A server's figures of the streams that it received, and samples of those that it sent.
    fn server(&self, server: &raw::Server, report: &mut Report) -> Result<(), ReportError> {
        let mut found = Report::default();
        let sockets = server.start.iter().flat_map(|start| &start.connected).map(|stream| stream.socket).collect();
        let mss = server.start.as_ref().and_then(|start| start.tcp_mss_default).unwrap_or(self.mss).max(1);
        Reader { sockets, mss, ..*self }.intervals(&server.intervals, &mut found)?;
        if report.delivered.is_empty() {
            report.delivered = found.delivered;
        }
        if report.sent.is_empty() {
            (report.sent, report.samples) = (found.sent, found.samples);
        }
        Ok(())
    }

    fn number(&self, stream: &raw::Stream, index: usize) -> Result<usize, ReportError> {
        let known = self.sockets.iter().position(|socket| *socket == stream.socket);
        known.or(Some(index).filter(|index| *index < self.sockets.len())).ok_or_else(|| {
            ReportError::Malformed(format!("`intervals` has a stream of socket {} that `start` has not", stream.socket))
        })
    }

    fn row(&self, stream: &raw::Stream, number: usize) -> IntervalRow {
        let time_ns = self.start_ns + nanoseconds(stream.end);
        IntervalRow { time_ns, flow: self.first_flow + number as u32, bytes: stream.bytes }
    }

    fn sample(&self, stream: &raw::Stream, row: IntervalRow, sent: u64, retransmitted: u64) -> Option<SampleRow> {
        Some(SampleRow {
            time_ns: row.time_ns,
            flow: row.flow,
            cwnd: u32::try_from(stream.snd_cwnd? / self.mss).unwrap_or(NULL_U32),
            ssthresh: NULL_U32,
            in_flight: 0,
            srtt_ns: stream.rtt.filter(|rtt| *rtt > 0).map_or(NULL_U64, |us| us * 1_000),
            min_rtt_ns: NULL_U64,
            pacing_rate_bps: NULL_U64,
            acked_bytes: sent,
            sent_bytes: sent,
            retransmitted_packets: retransmitted,
            timeouts: 0,
            ca_state: 0,
        })
    }

    fn flow(&self, stream: &raw::EndStream, flow: u32) -> FlowRow {
        let sender = stream.sender.or(stream.udp).unwrap_or_default();
        let receiver = stream.receiver.or(stream.udp).unwrap_or_default();
        let lost = count(receiver.lost_packets);
        let packets = sender.packets.unwrap_or(0);
        // A report gives sent datagrams in bytes and lost ones in packets.
        let delivered = match stream.udp {
            Some(_) if packets > 0 => sender.bytes - sender.bytes / packets * lost.min(packets),
            _ => receiver.bytes,
        };
        FlowRow {
            flow,
            transfer: 0,
            start_ns: self.start_ns + nanoseconds(sender.start),
            established_ns: if stream.udp.is_some() { NULL_U64 } else { self.start_ns },
            end_ns: self.start_ns + nanoseconds(sender.end),
            bytes: NULL_U64,
            delivered_bytes: delivered,
            sent_bytes: sender.bytes,
            sent_packets: packets,
            retransmitted_packets: count(sender.retransmits),
            lost_packets: lost,
            marked_packets: 0,
            timeouts: 0,
        }
    }
}

fn summary(end: &raw::End) -> BTreeMap<String, f64> {
    let (sent, received) = (end.sum_sent.or(end.sum), end.sum_received.or(end.sum));
    let whole = |value: Option<i64>| value.filter(|value| *value >= 0).map(|value| value as f64);
    let figures = [
        ("seconds", sent.or(received).map(|total| total.end - total.start)),
        ("sent_bytes", sent.map(|total| total.bytes as f64)),
        ("delivered_bytes", received.map(|total| total.bytes as f64)),
        ("retransmitted_packets", whole(sent.and_then(|total| total.retransmits))),
        ("lost_packets", whole(received.and_then(|total| total.lost_packets))),
        ("jitter_s", received.and_then(|total| total.jitter_ms).map(|ms| ms / 1e3)),
    ];
    figures.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// A count; iperf3 writes -1 for an unknown one.
fn count(value: Option<i64>) -> u64 {
    value.unwrap_or(0).max(0) as u64
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// The parts of iperf3's output that are read here.
mod raw {
    use super::Deserialize;

    #[derive(Deserialize)]
    pub struct Report {
        pub error: Option<String>,
        pub start: Option<Start>,
        #[serde(default)]
        pub intervals: Vec<Interval>,
        #[serde(default)]
        pub end: End,
        pub server_output_json: Option<Server>,
    }

    #[derive(Deserialize)]
    pub struct Server {
        pub start: Option<Start>,
        #[serde(default)]
        pub intervals: Vec<Interval>,
    }

    #[derive(Deserialize)]
    pub struct Start {
        #[serde(default)]
        pub connected: Vec<Connected>,
        pub tcp_mss_default: Option<u64>,
    }

    #[derive(Deserialize)]
    pub struct Connected {
        pub socket: i64,
    }

    #[derive(Deserialize)]
    pub struct Interval {
        #[serde(default)]
        pub streams: Vec<Stream>,
    }

    #[derive(Deserialize)]
    pub struct Stream {
        pub socket: i64,
        pub end: f64,
        pub bytes: u64,
        pub retransmits: Option<i64>,
        pub snd_cwnd: Option<u64>,
        pub rtt: Option<u64>,
        #[serde(default)]
        pub sender: bool,
    }

    #[derive(Default, Deserialize)]
    pub struct End {
        #[serde(default)]
        pub streams: Vec<EndStream>,
        pub sum: Option<Total>,
        pub sum_sent: Option<Total>,
        pub sum_received: Option<Total>,
        pub sender_tcp_congestion: Option<String>,
    }

    #[derive(Deserialize)]
    pub struct EndStream {
        pub sender: Option<Total>,
        pub receiver: Option<Total>,
        pub udp: Option<Total>,
    }

    #[derive(Clone, Copy, Default, Deserialize)]
    pub struct Total {
        #[serde(default)]
        pub start: f64,
        #[serde(default)]
        pub end: f64,
        pub bytes: u64,
        pub retransmits: Option<i64>,
        pub packets: Option<u64>,
        pub lost_packets: Option<i64>,
        pub jitter_ms: Option<f64>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: &str = include_str!("../tests/data/iperf3-tcp.json");
    const UDP: &str = include_str!("../tests/data/iperf3-udp.json");
    const REVERSE: &str = include_str!("../tests/data/iperf3-reverse.json");
    const SERVER: &str = include_str!("../tests/data/iperf3-server.json");
    const REFUSED: &str = include_str!("../tests/data/iperf3-refused.json");

    #[test]
    fn streams_of_tcp_are_flows_with_samples() {
        let report = read(TCP, 3, 1_000_000_000).expect("a report");
        assert_eq!(report.flows.len(), 2);
        let first = report.flows[0];
        assert_eq!((first.flow, first.transfer, first.bytes), (3, 0, NULL_U64));
        assert_eq!((first.start_ns, first.end_ns), (1_000_000_000, 2_001_840_000));
        assert_eq!((first.sent_bytes, first.delivered_bytes), (541_327_360, 541_196_288));
        assert_eq!((first.retransmitted_packets, report.flows[1].retransmitted_packets), (21, 0));
        assert_eq!(report.samples.len(), 4);
        let last = report.samples[2];
        assert_eq!((last.time_ns, last.flow), (2_001_840_000, 3));
        assert_eq!((last.cwnd, last.srtt_ns, last.retransmitted_packets), (785_796 / 32_768, 126_000, 21));
        assert_eq!((last.sent_bytes, report.sent[2].bytes), (541_327_360, 169_082_880));
        assert!(report.delivered.is_empty());
        assert_eq!(report.congestion_control.as_deref(), Some("bbr"));
    }

    #[test]
    fn datagrams_have_losses_and_no_samples() {
        let report = read(UDP, 0, 0).expect("a report");
        let flow = report.flows[0];
        assert_eq!((flow.sent_packets, flow.lost_packets, flow.sent_bytes), (20, 0, 655_360));
        assert_eq!((flow.delivered_bytes, flow.established_ns), (655_360, NULL_U64));
        assert!(report.samples.is_empty());
        assert_eq!(report.sent.iter().map(|row| row.bytes).sum::<u64>(), 655_360);
        let lossy = UDP.replace("\"lost_packets\":\t0", "\"lost_packets\":\t5");
        let flow = read(&lossy, 0, 0).expect("a report").flows[0];
        assert_eq!((flow.lost_packets, flow.delivered_bytes), (5, 655_360 * 3 / 4));
    }

    #[test]
    fn the_receivers_intervals_are_what_was_delivered() {
        for text in [REVERSE, SERVER] {
            let report = read(text, 0, 0).expect("a report");
            let delivered: u64 = report.delivered.iter().map(|row| row.bytes).sum();
            assert!(delivered > 0 && delivered.abs_diff(report.flows[0].delivered_bytes) < delivered / 50);
            assert!(!report.sent.is_empty() && !report.samples.is_empty());
            assert!(report.samples.iter().all(|sample| sample.cwnd > 0));
        }
    }

    #[test]
    fn what_iperf3_says_of_its_failure_is_passed_on() {
        let error = read(REFUSED, 0, 0).expect_err("it failed");
        assert_eq!(error.to_string(), "iperf3: unable to connect to server: Connection refused");
    }

    #[test]
    fn an_interrupted_test_is_reported_as_far_as_it_came() {
        let twice =
            ",\n\"error\": \"the client has terminated\", \"error\": \"interrupt - the server has terminated\"}";
        let end = TCP.trim_end().strip_suffix('}').expect("an object");
        let report = read(&format!("{end}{twice}"), 0, 0).expect("a report");
        assert_eq!(report.interrupted.as_deref(), Some("interrupt - the server has terminated"));
        assert_eq!(report.flows.len(), 2);
        let whole = read(TCP, 0, 0).expect("a report");
        assert_eq!((&whole.summary, &whole.interrupted), (&report.summary, &None));
        assert_eq!(whole.summary["retransmitted_packets"], 21.0);
        assert!(whole.summary["delivered_bytes"] <= whole.summary["sent_bytes"] && whole.summary["seconds"] > 0.9);
    }

    #[test]
    fn what_is_no_report_is_refused() {
        for text in ["", "[]", "{}", "{\"start\": {}}", &TCP[..TCP.len() / 2], "{\"start\": 1}"] {
            assert!(matches!(read(text, 0, 0), Err(ReportError::Malformed(_))), "{text}");
        }
        let stranger = TCP.replacen("\"streams\":\t[{", "\"streams\":\t[{\"socket\":9,\"end\":1,\"bytes\":1},{\"socket\":9,\"end\":1,\"bytes\":1},{\"socket\":9,\"end\":1,\"bytes\":1},{", 1);
        assert!(read(&stranger, 0, 0).expect_err("a stream too many").to_string().contains("socket 9"));
    }
}
