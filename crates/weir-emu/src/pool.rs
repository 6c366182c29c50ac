//! Memory for frames under way: reused buffers of four sizes.
//!
//! A link of 10 Gb/s and 100 ms holds 125 MB. Frames are read into buffers of the largest size. A frame that fits a
//! smaller size is copied there, so that an acknowledgement does not take 64 KB. Of a payload of zeros, which weir's
//! senders and many others send, only the length is stored: 125 MB fit in no processor's cache, and moving them costs
//! more than all other work of the emulator.

use std::ops::Range;

/// The largest frame of a device: an IP packet of 65535 bytes behind an Ethernet and a virtio header, rounded up.
pub const LARGEST: usize = 66 * 1024;
/// An acknowledgement or the headers before zeros; a full packet; the packets of a jumbo frame.
const SIZES: [usize; 3] = [256, 2 * 1024, 16 * 1024];
/// Minimum zeros to omit: a packet with fewer fits the smallest size anyway.
const MIN_ZEROS: usize = 128;
/// Bytes that are compared with zero at once.
const STRIDE: usize = 256;

static ZEROS: [u8; LARGEST] = [0; LARGEST];

/// Frames in memory.
#[derive(Debug)]
pub struct Pool {
    free: [Vec<Box<[u8]>>; SIZES.len() + 1],
    most_bytes: usize,
    bytes: usize,
}

/// A frame in memory, possibly without its final zeros.
#[derive(Debug, Default)]
pub struct Buffer {
    memory: Box<[u8]>,
    len: u32,
    zeros: u32,
}

impl Buffer {
    /// The frame up to its [`zeros`](Buffer::zeros): at least its headers.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[..self.len as usize]
    }

    /// The final zeros that are not in memory.
    pub fn zeros(&self) -> &'static [u8] {
        &ZEROS[..self.zeros as usize]
    }

    /// A part of the frame, entirely before or entirely among its zeros.
    ///
    /// # Panics
    /// It is neither.
    pub fn part(&self, range: Range<usize>) -> &[u8] {
        let stored = self.len as usize;
        if range.end <= stored { &self.memory[range] } else { &self.zeros()[range.start - stored..range.end - stored] }
    }
}

impl Pool {
    /// Creates a pool of at most `most_bytes`.
    pub fn new(most_bytes: usize) -> Pool {
        Pool { free: Default::default(), most_bytes, bytes: 0 }
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A buffer of [`LARGEST`] bytes to read a frame into; it contains an earlier frame.
    pub fn scratch(&mut self) -> Box<[u8]> {
        self.free[SIZES.len()].pop().unwrap_or_else(|| vec![0; LARGEST].into_boxed_slice())
    }

    /// Takes back a buffer of [`scratch`](Pool::scratch).
    pub fn unused(&mut self, scratch: Box<[u8]>) {
        self.free[SIZES.len()].push(scratch);
    }

    /// Stores the first `len` bytes of `scratch`, of which `headers` are headers, in the smallest size; `None` if the
    /// pool is full.
    pub fn keep(&mut self, scratch: Box<[u8]>, len: usize, headers: usize) -> Option<Buffer> {
        let zeros = zeros_of(&scratch[headers..len]);
        let len = len - zeros;
        let class = SIZES.iter().position(|&size| len <= size).unwrap_or(SIZES.len());
        let size = SIZES.get(class).copied().unwrap_or(LARGEST);
        if self.bytes + size > self.most_bytes {
            self.unused(scratch);
            return None;
        }
        self.bytes += size;
        if class == SIZES.len() {
            return Some(Buffer { memory: scratch, len: len as u32, zeros: zeros as u32 });
        }
        let mut memory = self.free[class].pop().unwrap_or_else(|| vec![0; size].into_boxed_slice());
        memory[..len].copy_from_slice(&scratch[..len]);
        self.unused(scratch);
        Some(Buffer { memory, len: len as u32, zeros: zeros as u32 })
    }

    /// Takes a buffer back.
    pub fn free(&mut self, buffer: Buffer) {
        let size = buffer.memory.len();
        self.bytes -= size;
        let class = SIZES.iter().position(|&s| s == size).unwrap_or(SIZES.len());
        self.free[class].push(buffer.memory);
    }
}

/// The length of `payload` if it consists of zeros that are worth omitting, otherwise 0.
fn zeros_of(payload: &[u8]) -> usize {
    let is_zero = |bytes: &[u8]| bytes.iter().fold(0, |any, byte| any | byte) == 0;
    if payload.len() >= MIN_ZEROS && payload.chunks(STRIDE).all(is_zero) { payload.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADERS: usize = 62;

    /// The stored part of a frame with this payload, and the memory that it takes.
    fn kept(payload: &[u8]) -> (Buffer, usize) {
        let mut pool = Pool::new(usize::MAX);
        let mut scratch = pool.scratch();
        // The earlier frame must not show.
        scratch.fill(9);
        scratch[..HEADERS].fill(7);
        let len = HEADERS + payload.len();
        scratch[HEADERS..len].copy_from_slice(payload);
        let buffer = pool.keep(scratch, len, HEADERS).expect("room");
        (buffer, pool.bytes())
    }

    #[test]
    fn a_frame_is_what_it_was_with_zeros_and_without() {
        let almost: Vec<_> = (0..65_000).map(|at| u8::from(at == 64_999)).collect();
        let first: Vec<_> = (0..1448).map(|at| u8::from(at == 0)).collect();
        for payload in [&[][..], &[0; 12], &[0; 1448], &[0; 65_000], &[3; 1448], &almost, &first] {
            let (buffer, _) = kept(payload);
            assert_eq!([buffer.bytes(), buffer.zeros()].concat(), [&[7; HEADERS], payload].concat());
            let half = HEADERS + payload.len() / 2..HEADERS + payload.len();
            assert_eq!(buffer.part(half.clone()), &payload[half.start - HEADERS..]);
        }
    }

    #[test]
    fn zeros_take_no_memory_and_all_else_does() {
        let sizes = [&[0; 65_000][..], &[1; 65_000], &[0; 1448], &[1; 1448], &[1; 8948], &[]].map(|p| kept(p).1);
        assert_eq!(sizes, [256, LARGEST, 256, 2048, 16 * 1024, 256]);
    }

    #[test]
    fn a_pool_hands_out_no_more_than_it_may_and_takes_all_back() {
        let mut pool = Pool::new(600);
        let mut keep = || {
            let scratch = pool.scratch();
            pool.keep(scratch, HEADERS, HEADERS)
        };
        let (first, second) = (keep().expect("room"), keep().expect("room"));
        assert!(keep().is_none());
        [first, second].into_iter().for_each(|buffer| pool.free(buffer));
        assert_eq!(pool.bytes(), 0);
    }
}
