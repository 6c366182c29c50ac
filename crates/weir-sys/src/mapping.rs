//! Mapped memory.

use std::io;
use std::os::fd::AsFd;
use std::ptr;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// A mapping that ends when it is dropped.
pub(crate) struct Mapping {
    begin: *mut u8,
    len: usize,
}

impl Mapping {
    /// Maps the first `len` bytes that `fd` shares, to read and write them.
    pub fn shared(fd: impl AsFd, len: usize) -> io::Result<Mapping> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let begin = unsafe { mmap(ptr::null_mut(), len, access, MapFlags::SHARED, fd, 0) }?;
        Ok(Mapping { begin: begin.cast(), len })
    }

    /// Maps `len` bytes of zeros, to read them, in pages of the smallest size.
    pub fn zeros(len: usize) -> io::Result<Mapping> {
        // SAFETY: as above; the advice is about this mapping.
        unsafe {
            let begin = mmap_anonymous(ptr::null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE)?;
            // Fails on kernels without huge pages, which need no advice.
            let _ = madvise(begin, len, Advice::LinuxNoHugepage);
            Ok(Mapping { begin: begin.cast(), len })
        }
    }

    /// Length, bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The address of the byte at `offset`, valid as long as the mapping.
    ///
    /// # Panics
    /// It is outside.
    pub fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset < self.len, "within the mapping");
        self.begin.wrapping_add(offset)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing refers to it any more.
        let _ = unsafe { munmap(self.begin.cast(), self.len) };
    }
}
