//! The receiving end of a flow: accepts connections, and counts the payload of their streams.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto as quic;
use quinn_proto::crypto::HandshakeTokenKey;
use quinn_proto::{Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, ServerConfig, StreamId};
use ring::hkdf;

use crate::observed::Seen;
use crate::settings::{QuicError, Settings};
use crate::tls;

/// Payload that came in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Number of the connection, from 0, in the order in which they were established.
    pub connection: u32,
    /// Number of its stream, from 0.
    pub stream: u32,
    /// Payload.
    pub bytes: u64,
    /// Whether the stream ends with it.
    pub ended: bool,
}

/// Accepts the connections of clients that know the secret.
pub struct Server {
    endpoint: Endpoint,
    connections: BTreeMap<ConnectionHandle, Accepted>,
    /// Connections that were established so far.
    established: u32,
    /// Datagrams that belong to no connection, with their destinations.
    answers: VecDeque<(SocketAddr, Vec<u8>)>,
    delivered: Vec<Delivered>,
    strangers: u64,
}

struct Accepted {
    connection: Connection,
    /// Its number, once established.
    number: Option<u32>,
    /// Streams that have not ended.
    open: Vec<StreamId>,
}

impl Server {
    /// Prepares to accept connections, with a new key and certificate.
    ///
    /// # Errors
    /// A setting that QUIC cannot have, or a system without random numbers.
    pub fn new(settings: &Settings) -> Result<Server, QuicError> {
        let mut config = ServerConfig::new(Arc::new(tls::server(settings.alpn())?), token_key());
        config.transport_config(Arc::new(settings.transport(&Seen::default())));
        config.migration(false);
        let endpoint = Endpoint::new(Arc::new(settings.endpoint()?), Some(Arc::new(config)), true, None);
        Ok(Server {
            endpoint,
            connections: BTreeMap::new(),
            established: 0,
            answers: VecDeque::new(),
            delivered: Vec::new(),
            strangers: 0,
        })
    }

    /// Takes a datagram that came from `from`.
    pub fn receive(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) {
        let mut answer = Vec::new();
        match self.endpoint.handle(now, from, None, None, datagram.into(), &mut answer) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(accepted) = self.connections.get_mut(&handle) {
                    accepted.connection.handle_event(event);
                    self.serve(handle);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.accept(now, from, incoming),
            Some(DatagramEvent::Response(transmit)) => {
                self.answers.push_back((transmit.destination, answer[..transmit.size].to_vec()));
            }
            None => {}
        }
    }

    /// Continues connections whose deadline has passed.
    pub fn on_time(&mut self, now: Instant) {
        let due = |accepted: &mut Accepted| accepted.connection.poll_timeout().is_some_and(|at| at <= now);
        let handles: Vec<_> = self.connections.iter_mut().filter_map(|(at, one)| due(one).then_some(*at)).collect();
        for handle in handles {
            if let Some(accepted) = self.connections.get_mut(&handle) {
                accepted.connection.handle_timeout(now);
            }
            self.serve(handle);
        }
    }

    /// When to call [`on_time`](Server::on_time).
    pub fn deadline(&mut self) -> Option<Instant> {
        self.connections.values_mut().filter_map(|accepted| accepted.connection.poll_timeout()).min()
    }

    /// Writes the next datagram into `buffer` and returns its destination; `None` if there is none now.
    pub fn transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<SocketAddr> {
        buffer.clear();
        if let Some((destination, answer)) = self.answers.pop_front() {
            buffer.extend(answer);
            return Some(destination);
        }
        let handles: Vec<_> = self.connections.keys().copied().collect();
        for handle in handles {
            let accepted = self.connections.get_mut(&handle)?;
            if let Some(transmit) = accepted.connection.poll_transmit(now, 1, buffer) {
                return Some(transmit.destination);
            }
            self.serve(handle);
        }
        None
    }

    /// What was delivered since the last call.
    pub fn delivered(&mut self) -> Vec<Delivered> {
        std::mem::take(&mut self.delivered)
    }

    /// Connections that failed before they were established since the last call: their clients do not know the secret.
    pub fn strangers(&mut self) -> u64 {
        std::mem::take(&mut self.strangers)
    }

    fn accept(&mut self, now: Instant, from: SocketAddr, incoming: quic::Incoming) {
        let mut answer = Vec::new();
        match self.endpoint.accept(incoming, now, &mut answer, None) {
            Ok((handle, connection)) => {
                self.connections.insert(handle, Accepted { connection, number: None, open: Vec::new() });
                self.serve(handle);
            }
            Err(error) => {
                self.strangers += 1;
                if let Some(transmit) = error.response {
                    self.answers.push_back((from, answer[..transmit.size].to_vec()));
                }
            }
        }
    }

    /// Takes the events of a connection and reads its streams.
    fn serve(&mut self, handle: ConnectionHandle) {
        let Some(accepted) = self.connections.get_mut(&handle) else { return };
        let mut drained = false;
        while let Some(event) = accepted.connection.poll_endpoint_events() {
            drained |= event.is_drained();
            if let Some(event) = self.endpoint.handle_event(handle, event) {
                accepted.connection.handle_event(event);
            }
        }
        while let Some(event) = accepted.connection.poll() {
            match event {
                quic::Event::Connected => {
                    accepted.number = Some(self.established);
                    self.established += 1;
                }
                quic::Event::ConnectionLost { .. } if accepted.number.is_none() => self.strangers += 1,
                _ => {}
            }
        }
        accepted.read(&mut self.delivered);
        if drained {
            self.connections.remove(&handle);
        }
    }
}

impl Accepted {
    /// Reads all that waits in the streams.
    fn read(&mut self, delivered: &mut Vec<Delivered>) {
        let Some(connection) = self.number else { return };
        while let Some(stream) = self.connection.streams().accept(Dir::Uni) {
            self.open.push(stream);
        }
        self.open.retain(|&stream| {
            let (bytes, ended) = drain(&mut self.connection, stream);
            if bytes > 0 || ended {
                delivered.push(Delivered { connection, stream: stream.index() as u32, bytes, ended });
            }
            !ended
        });
    }
}

/// Reads what waits in a stream: bytes, and whether it has ended.
fn drain(connection: &mut Connection, stream: StreamId) -> (u64, bool) {
    let mut stream = connection.recv_stream(stream);
    let Ok(mut chunks) = stream.read(true) else { return (0, true) };
    let mut bytes = 0;
    let ended = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => bytes += chunk.bytes.len() as u64,
            Ok(None) | Err(quic::ReadError::Reset(_)) => break true,
            Err(quic::ReadError::Blocked) => break false,
        }
    };
    // What must be said of the freed room goes with the next datagram.
    let _ = chunks.finalize();
    (bytes, ended)
}

/// The key of address-validation tokens, which this server does not ask for.
fn token_key() -> Arc<dyn HandshakeTokenKey> {
    Arc::new(hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&[]))
}
