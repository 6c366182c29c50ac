//! Datagrams of flows at a constant bit rate, over TFRC and over DCCP: their headers, and many of them in one system call.
//!
//! In a run with a token, each carries a part of it, and none is longer for it: in the upper bits of the header's fields
//! (48 bits in all), or as the first bytes of a payload that is too short for a header.

use std::io::{self, IoSlice};

use weir_protocol::Token;
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
    /// Due instant, since the start of the run; over TFRC, the sender's round-trip time.
    pub due_ns: u64,
    /// Instant of sending, since the start of the run.
    pub sent_ns: u64,
}

impl Header {
    /// Length, bytes.
    pub const BYTES: usize = 24;

    /// The header of a whole payload, if it is of this run.
    pub fn admitted(payload: &[u8], seal: &Seal) -> Option<Header> {
        seal.admits(payload).then(|| Header::read(payload, seal)).flatten()
    }

    fn write(&self, payload: &mut [u8], seal: &Seal) {
        let [number, due, sent] = seal.words;
        if let Some(place) = payload.get_mut(..Header::BYTES) {
            place[..8].copy_from_slice(&(self.number ^ number).to_be_bytes());
            place[8..16].copy_from_slice(&(self.due_ns ^ due).to_be_bytes());
            place[16..].copy_from_slice(&(self.sent_ns ^ sent).to_be_bytes());
        }
    }

    fn read(payload: &[u8], seal: &Seal) -> Option<Header> {
        let field = |at: usize| payload.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes);
        let [number, due, sent] = seal.words;
        Some(Header { number: field(0)? ^ number, due_ns: field(8)? ^ due, sent_ns: field(16)? ^ sent })
    }
}

/// The part of a run's token that each datagram carries. Without a token it changes nothing, and admits everything.
#[derive(Clone, Copy, Default)]
pub struct Seal {
    token: Option<Token>,
    /// Combined with the fields of a header by exclusive or; their lower bits are 0.
    words: [u64; 3],
}

impl Seal {
    /// Lower bits of a datagram's number, and of an instant: those of a real one are no longer.
    const NUMBER_BITS: u32 = 40;
    const TIME_BITS: u32 = 52;

    /// The seal of a run with this token.
    pub fn new(token: Option<Token>) -> Seal {
        let Some(secret) = token else { return Seal::default() };
        let secret = u128::from_be_bytes(*secret.as_bytes());
        let (first, second) = ((secret >> 64) as u64, secret as u64);
        let times = u64::MAX << Seal::TIME_BITS;
        let words =
            [first & (u64::MAX << Seal::NUMBER_BITS), second & times, (second << (64 - Seal::TIME_BITS)) & times];
        Seal { token, words }
    }

    /// Prepares the payload of a datagram, which is 0 otherwise.
    fn mark(&self, payload: &mut [u8]) {
        if let Some(token) = self.token.filter(|_| payload.len() < Header::BYTES) {
            payload.iter_mut().zip(token.as_bytes()).for_each(|(place, byte)| *place = *byte);
        }
    }

    /// Whether a datagram that begins with `head` is of this run.
    fn admits(&self, head: &[u8]) -> bool {
        let Some(token) = self.token else { return true };
        match Header::read(head, self) {
            Some(Header { number, due_ns, sent_ns }) => {
                number >> Seal::NUMBER_BITS == 0 && (due_ns | sent_ns) >> Seal::TIME_BITS == 0
            }
            None => head.iter().zip(token.as_bytes()).all(|(byte, wanted)| byte == wanted),
        }
    }
}

/// Datagrams to be sent in one system call.
pub struct Batch {
    payload_bytes: usize,
    payloads: Vec<u8>,
    len: usize,
    seal: Seal,
}

impl Batch {
    /// Creates a batch of datagrams with this payload.
    pub fn new(payload_bytes: usize, seal: Seal) -> Batch {
        let mut payloads = vec![0; payload_bytes * BATCH];
        payloads.chunks_exact_mut(payload_bytes).for_each(|payload| seal.mark(payload));
        Batch { payload_bytes, payloads, len: 0, seal }
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Number of datagrams.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no room for another one.
    pub fn is_full(&self) -> bool {
        self.len == BATCH
    }

    /// Appends a datagram; false if there is no room.
    pub fn push(&mut self, header: &Header) -> bool {
        if self.is_full() {
            return false;
        }
        let start = self.len * self.payload_bytes;
        header.write(&mut self.payloads[start..start + self.payload_bytes], &self.seal);
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
    /// Whether it is of this run.
    pub admitted: bool,
}

/// Receives many datagrams in one system call; only their headers are copied.
pub struct Arrivals {
    receiver: Receiver<{ Header::BYTES }>,
    arrivals: Vec<Arrival>,
    payload_bytes: u32,
    seal: Seal,
}

impl Arrivals {
    /// Creates room for a batch of datagrams with this payload.
    pub fn new(payload_bytes: u32, seal: Seal) -> Arrivals {
        Arrivals { receiver: Receiver::new(BATCH), arrivals: Vec::with_capacity(BATCH), payload_bytes, seal }
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
            let head = &head[..Header::BYTES.min(bytes as usize)];
            let of_size = self.seal.token.is_none() || bytes == self.payload_bytes;
            let (header, admitted) = (Header::read(head, &self.seal), of_size && self.seal.admits(head));
            self.arrivals.push(Arrival { bytes, at_ns, dropped, header, admitted });
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_written_where_there_is_room() {
        let header = Header { number: 7, due_ns: 1 << 40, sent_ns: u64::MAX };
        let none = Seal::default();
        let mut payload = [0; 30];
        header.write(&mut payload, &none);
        assert_eq!(Header::read(&payload, &none), Some(header));
        assert_eq!(payload[..8], 7_u64.to_be_bytes());
        let mut short = [0; 23];
        header.write(&mut short, &none);
        assert_eq!((short, Header::read(&short, &none)), ([0; 23], None));
        assert!(none.admits(&payload[..24]) && none.admits(&short) && none.admits(&[]));
    }

    fn sealed(length: usize, seal: &Seal) -> Vec<u8> {
        let mut payload = vec![0; length];
        seal.mark(&mut payload);
        Header { number: (1 << 40) - 1, due_ns: (1 << 52) - 1, sent_ns: 3 }.write(&mut payload, seal);
        payload
    }

    #[test]
    fn a_seal_admits_its_own_and_a_header_is_read_back() {
        let seal = Seal::new(Some(Token::from(*b"0123456789abcdef")));
        let payload = sealed(24, &seal);
        assert_eq!(
            Header::read(&payload, &seal).map(|header| (header.number, header.sent_ns)),
            Some(((1 << 40) - 1, 3))
        );
        for length in [1, 8, 16, 23, 24] {
            assert!(seal.admits(&sealed(length, &seal)), "{length}");
            assert!(!seal.admits(&sealed(length, &Seal::default())), "{length}");
        }
    }

    /// Each bit of the token that a datagram carries counts: 48 in a header, all of a payload too short for one.
    #[test]
    fn a_seal_refuses_each_other_one() {
        let mut carried = [0; 3];
        for bit in 0..128 {
            let secret = u128::from_be_bytes(*b"0123456789abcdef");
            let seal = Seal::new(Some(Token::from(secret.to_be_bytes())));
            let other = Seal::new(Some(Token::from((secret ^ 1 << bit).to_be_bytes())));
            for (count, length) in carried.iter_mut().zip([4, 20, 24]) {
                *count += u32::from(!seal.admits(&sealed(length, &other)));
            }
        }
        assert_eq!(carried, [32, 128, 48]);
    }
}
