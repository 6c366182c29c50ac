//! Memory for what is under way: buffers in three sizes, used again and again.
//!
//! A link of 10 Gb/s and 100 ms holds 125 MB. Frames are read into the largest size; one that fits a smaller size is
//! copied there, so that a network full of acknowledgements does not take 64 KB for each.

/// The largest frame of a device: an IP packet of 65535 bytes behind an Ethernet and a virtio header, rounded up.
pub const LARGEST: usize = 66 * 1024;
/// A full packet, or the packets of a jumbo frame.
const SIZES: [usize; 2] = [2 * 1024, 16 * 1024];

/// Frames in memory.
#[derive(Debug)]
pub struct Pool {
    free: [Vec<Box<[u8]>>; 3],
    most_bytes: usize,
    bytes: usize,
}

/// A frame in memory.
#[derive(Debug, Default)]
pub struct Buffer {
    memory: Box<[u8]>,
    len: u32,
}

impl Buffer {
    /// The frame.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[..self.len as usize]
    }

    /// The frame, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.len as usize]
    }
}

impl Pool {
    /// A pool that hands out at most `most_bytes`.
    pub fn new(most_bytes: usize) -> Pool {
        Pool { free: Default::default(), most_bytes, bytes: 0 }
    }

    /// Bytes handed out.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Memory of [`LARGEST`] bytes to read a frame into; what it holds is left over from another one.
    pub fn scratch(&mut self) -> Box<[u8]> {
        self.free[SIZES.len()].pop().unwrap_or_else(|| vec![0; LARGEST].into_boxed_slice())
    }

    /// Takes back what [`scratch`](Pool::scratch) gave.
    pub fn unused(&mut self, scratch: Box<[u8]>) {
        self.free[SIZES.len()].push(scratch);
    }

    /// Keeps the first `len` bytes of `scratch`, in the smallest size; none when the pool is full.
    pub fn keep(&mut self, scratch: Box<[u8]>, len: usize) -> Option<Buffer> {
        let class = SIZES.iter().position(|&size| len <= size).unwrap_or(SIZES.len());
        let size = SIZES.get(class).copied().unwrap_or(LARGEST);
        if self.bytes + size > self.most_bytes {
            self.unused(scratch);
            return None;
        }
        self.bytes += size;
        if class == SIZES.len() {
            return Some(Buffer { memory: scratch, len: len as u32 });
        }
        let mut memory = self.free[class].pop().unwrap_or_else(|| vec![0; size].into_boxed_slice());
        memory[..len].copy_from_slice(&scratch[..len]);
        self.unused(scratch);
        Some(Buffer { memory, len: len as u32 })
    }

    /// Takes a buffer back.
    pub fn free(&mut self, buffer: Buffer) {
        let size = buffer.memory.len();
        self.bytes -= size;
        let class = SIZES.iter().position(|&s| s == size).unwrap_or(SIZES.len());
        self.free[class].push(buffer.memory);
    }
}
