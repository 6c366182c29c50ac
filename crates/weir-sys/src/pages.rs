//! A payload of zeros in one page of memory.

use std::io;
use std::slice;

use crate::mapping::Mapping;

/// Read-only zeros. Nobody writes them, so the kernel maps its one page of zeros everywhere, and copying from them stays
/// in the processor's nearest cache. A huge page would not fit there.
pub struct Zeros(Mapping);

impl Zeros {
    /// Maps `len` bytes.
    ///
    /// # Errors
    /// The address space has no room.
    pub fn new(len: usize) -> io::Result<Zeros> {
        Mapping::zeros(len).map(Zeros)
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the mapping has this many readable bytes, which nobody writes, as long as `self` lives.
        unsafe { slice::from_raw_parts(self.0.at(0), self.0.len()) }
    }
}
