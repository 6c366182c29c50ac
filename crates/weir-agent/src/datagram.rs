//! Datagrams of constant-bit-rate flows: their headers, and many of them in one system call.

use std::io::{self, IoSlice};

use weir_sys::datagrams::{self, Datagram, Receiver};
use weir_sys::socket::Socket;

/// Bytes of the IPv4 and UDP headers.
pub const IP_UDP_BYTES: u32 = 20 + 8;

/// Maximum datagrams of one system call.
const BATCH: usize = 64;

/// The header in a datagram's payload, if the payload is long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its number, from 0.
    pub number: u64,
    /// Due instant, since the start of the run.
    pub due_ns: u64,
    /// Instant of sending, since the start of the run.
    pub sent_ns: u64,
}

impl Header {
    /// Length, bytes.
    pub const BYTES: usize = 24;

    fn write(&self, payload: &mut [u8]) {
        if let Some(place) = payload.get_mut(..Header::BYTES) {
            place[..8].copy_from_slice(&self.number.to_be_bytes());
            place[8..16].copy_from_slice(&self.due_ns.to_be_bytes());
            place[16..].copy_from_slice(&self.sent_ns.to_be_bytes());
        }
    }

    fn read(payload: &[u8]) -> Option<Header> {
        let field = |at: usize| payload.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes);
        Some(Header { number: field(0)?, due_ns: field(8)?, sent_ns: field(16)? })
    }
}

/// Datagrams to be sent in one system call.
pub struct Batch {
    payload_bytes: usize,
    payloads: Vec<u8>,
    len: usize,
}

impl Batch {
    /// Creates a batch of datagrams with this payload.
    pub fn new(payload_bytes: usize) -> Batch {
        Batch { payload_bytes, payloads: vec![0; payload_bytes * BATCH], len: 0 }
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Number of datagrams.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Appends a datagram; false if there is no room.
    pub fn push(&mut self, header: &Header) -> bool {
        if self.len == BATCH {
            return false;
        }
        let start = self.len * self.payload_bytes;
        header.write(&mut self.payloads[start..start + self.payload_bytes]);
        self.len += 1;
        true
    }

    /// Sends them; returns how many the kernel took.
    ///
    /// # Errors
    /// The kernel took none.
    pub fn send(&mut self, socket: &Socket) -> io::Result<usize> {
        if self.len == 1 {
            let payload = &self.payloads[..self.payload_bytes];
            return socket.send(payload)?.map(|_| 1).ok_or_else(|| io::ErrorKind::WouldBlock.into());
        }
        let payloads = self.payloads.chunks_exact(self.payload_bytes).take(self.len);
        datagrams::send(socket, &payloads.map(IoSlice::new).collect::<Vec<_>>())
    }
}

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its payload, bytes.
    pub bytes: u32,
    /// Instant of arrival, on `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Datagrams that the socket has dropped so far.
    pub dropped: u32,
    /// Its header; `None` in a datagram that is too short.
    pub header: Option<Header>,
}

/// Receives many datagrams in one system call; only their headers are copied.
pub struct Arrivals {
    receiver: Receiver<{ Header::BYTES }>,
    arrivals: Vec<Arrival>,
}

impl Arrivals {
    /// Creates room for a batch.
    pub fn new() -> Arrivals {
        Arrivals { receiver: Receiver::new(BATCH), arrivals: Vec::with_capacity(BATCH) }
    }

    /// Maximum datagrams of one call.
    pub fn room(&self) -> usize {
        BATCH
    }

    /// Datagram `index` of the last call.
    pub fn get(&self, index: usize) -> Arrival {
        self.arrivals[index]
    }

    /// Receives the datagrams that wait; returns their number.
    ///
    /// # Errors
    /// From the socket.
    pub fn receive(&mut self, socket: &Socket) -> io::Result<usize> {
        self.arrivals.clear();
        self.receiver.receive(socket, |datagram| {
            let Datagram { bytes, at_ns, dropped, head } = datagram;
            let header = head.as_ref().and_then(|head| Header::read(head));
            self.arrivals.push(Arrival { bytes, at_ns, dropped, header });
        })
    }
}

impl Default for Arrivals {
    fn default() -> Arrivals {
        Arrivals::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_written_where_there_is_room() {
        let header = Header { number: 7, due_ns: 1 << 40, sent_ns: u64::MAX };
        let mut payload = [0; 30];
        header.write(&mut payload);
        assert_eq!(Header::read(&payload), Some(header));
        let mut short = [0; 23];
        header.write(&mut short);
        assert_eq!((short, Header::read(&short)), ([0; 23], None));
    }
}
