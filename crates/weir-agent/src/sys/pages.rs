//! What is sent: zeros, as many as one likes, in one page of memory.

use std::io;

/// Read-only memory full of zeros. It is never written, so the kernel maps its one page of zeros everywhere, which stays
/// in the processor's nearest cache while it is copied from.
pub struct Zeros {
    start: *mut libc::c_void,
    len: usize,
}

impl Zeros {
    /// `len` bytes.
    ///
    /// # Errors
    /// When the address space has no room.
    pub fn new(len: usize) -> io::Result<Zeros> {
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no other memory.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // A huge page of zeros would not fit the nearest cache; where there are none, the advice fails and is not needed.
        // SAFETY: it is advice about the mapping just made.
        unsafe { libc::madvise(start, len, libc::MADV_NOHUGEPAGE) };
        Ok(Zeros { start, len })
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the mapping has `len` readable bytes, which nobody writes, as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.len) }
    }
}

impl Drop for Zeros {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and no slice of it outlives `self`.
        unsafe { libc::munmap(self.start, self.len) };
    }
}
