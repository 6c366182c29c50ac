//! The sending end of a flow: one connection, whose streams carry transfers one after another.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use quinn_proto as quic;
use quinn_proto::{ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, StreamEvent, StreamId};

use crate::observed::{Moment, Seen, State};
use crate::settings::{HEADER_BYTES, QuicError, Settings};
use crate::tls;

static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
/// Parts of [`ZEROS`] that are written at a time.
const PARTS: usize = 16;
/// quinn-proto's pacing rate: 5/4 of a window for each RTT, whatever the congestion control.
const PACING: f64 = 1.25;

/// What happened to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is established.
    Established,
    /// The finished stream is acknowledged to its last byte.
    Acknowledged,
    /// It has failed, for this reason.
    Lost(String),
}

/// A connection that sends zeros.
pub struct Client {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    remote: SocketAddr,
    seen: Seen,
    stream: Option<StreamId>,
    /// Payload written to all streams.
    written: u64,
    /// Payload of the streams that were acknowledged to their end, and the estimate at that instant.
    acked: u64,
    mark: u64,
    /// What the handshake took: payload estimates of acknowledged and of sent packets.
    before: (u64, u64),
    established: bool,
}

impl Client {
    /// Begins to connect to `remote`.
    ///
    /// # Errors
    /// A setting that QUIC cannot have.
    pub fn new(settings: &Settings, now: Instant, remote: SocketAddr) -> Result<Client, QuicError> {
        let seen = Seen::default();
        let mut config = ClientConfig::new(Arc::new(tls::client(settings.alpn())?));
        config.transport_config(Arc::new(settings.transport(&seen)));
        let mut endpoint = Endpoint::new(Arc::new(settings.endpoint()?), None, true, None);
        let (handle, connection) = endpoint.connect(now, config, remote, tls::NAME).map_err(QuicError::of)?;
        Ok(Client {
            endpoint,
            handle,
            connection,
            remote,
            seen,
            stream: None,
            written: 0,
            acked: 0,
            mark: 0,
            before: (0, 0),
            established: false,
        })
    }

    /// Takes a datagram from the server.
    pub fn receive(&mut self, now: Instant, datagram: &[u8]) {
        let mut answer = Vec::new();
        let found = self.endpoint.handle(now, self.remote, None, None, datagram.into(), &mut answer);
        // A client answers nothing outside its connection, and accepts no other.
        if let Some(DatagramEvent::ConnectionEvent(handle, event)) = found
            && handle == self.handle
        {
            self.connection.handle_event(event);
            self.settle();
        }
    }

    /// Continues if `deadline` has passed.
    pub fn on_time(&mut self, now: Instant) {
        self.connection.handle_timeout(now);
        self.settle();
    }

    /// When to call [`on_time`](Client::on_time).
    pub fn deadline(&mut self) -> Option<Instant> {
        self.connection.poll_timeout()
    }

    /// The next thing that happened.
    pub fn event(&mut self) -> Option<Event> {
        loop {
            match self.connection.poll()? {
                quic::Event::Connected => {
                    self.established = true;
                    self.before = self.estimates();
                    return Some(Event::Established);
                }
                quic::Event::ConnectionLost { reason } => return Some(Event::Lost(reason.to_string())),
                quic::Event::Stream(StreamEvent::Finished { id }) if self.stream == Some(id) => {
                    self.stream = None;
                    self.acked = self.written;
                    self.mark = self.estimates().0;
                    return Some(Event::Acknowledged);
                }
                _ => {}
            }
        }
    }

    /// Writes at most `most` zeros, as many as the send buffer and the receiver take; returns their number. The first
    /// call after a finished stream opens another one.
    pub fn write(&mut self, most: u64) -> u64 {
        if !self.established {
            return 0;
        }
        let Some(stream) = self.stream.or_else(|| self.connection.streams().open(Dir::Uni)) else { return 0 };
        self.stream = Some(stream);
        let mut left = most;
        while left > 0 {
            let mut parts: [Bytes; PARTS] = std::array::from_fn(|index| {
                let begin = (index * ZEROS.len()) as u64;
                Bytes::from_static(&ZEROS[..left.saturating_sub(begin).min(ZEROS.len() as u64) as usize])
            });
            let Ok(written) = self.connection.send_stream(stream).write_chunks(&mut parts) else { break };
            left -= written.bytes as u64;
        }
        self.written += most - left;
        most - left
    }

    /// Ends the stream: [`Event::Acknowledged`] follows.
    pub fn finish(&mut self) {
        if let Some(stream) = self.stream {
            // It fails only if the connection is lost, which has an event of its own.
            let _ = self.connection.send_stream(stream).finish();
        }
    }

    /// Closes the connection; [`transmit`](Client::transmit) has the packet that says so.
    pub fn close(&mut self, now: Instant) {
        self.connection.close(now, 0_u32.into(), Bytes::new());
    }

    /// Writes the next datagram into `buffer`; false if there is none now.
    pub fn transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> bool {
        buffer.clear();
        let found = self.connection.poll_transmit(now, 1, buffer).is_some();
        self.settle();
        found
    }

    /// The state of its sender.
    pub fn state(&self) -> State {
        let stats = self.connection.stats();
        let (acked, sent) = if self.established { self.estimates() } else { (0, 0) };
        let record = self.seen.record();
        let acked_bytes = self.written.min(self.acked + acked.saturating_sub(self.mark.max(self.before.0)));
        let sampled = record.acked_packets > 0;
        let srtt = sampled.then_some(stats.path.rtt);
        State {
            cwnd: stats.path.cwnd,
            ssthresh: record.ssthresh,
            in_flight: record.in_flight,
            srtt,
            min_rtt: sampled.then_some(stats.path.min_rtt),
            pacing_rate_bps: srtt
                .filter(|rtt| !rtt.is_zero())
                .map(|rtt| (PACING * 8.0 * stats.path.cwnd as f64 / rtt.as_secs_f64()) as u64),
            recovering: record.recovering,
            acked_bytes,
            // The estimate is some bytes too small where packets carry more than payload.
            sent_bytes: sent.saturating_sub(self.before.1).max(acked_bytes),
            udp_bytes: stats.udp_tx.bytes,
            datagrams: stats.udp_tx.datagrams,
            lost_packets: stats.path.lost_packets,
            collapses: record.collapses,
        }
    }

    /// The changes of its sender since the last call.
    pub fn moments(&mut self) -> Vec<Moment> {
        std::mem::take(&mut self.seen.record().moments)
    }

    /// Payload of acknowledged and of sent packets, estimated from their sizes.
    fn estimates(&self) -> (u64, u64) {
        let (record, sent) = (self.seen.record(), self.connection.stats().udp_tx);
        let payload = |bytes: u64, packets: u64| bytes.saturating_sub(packets * u64::from(HEADER_BYTES));
        (payload(record.acked_bytes, record.acked_packets), payload(sent.bytes, sent.datagrams))
    }

    fn settle(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
    }
}
