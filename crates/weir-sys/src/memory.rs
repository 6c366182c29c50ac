//! Memory that a process keeps.

/// Allocations up to this size come from the heap; glibc permits no more.
#[cfg(target_env = "gnu")]
const HEAP_BYTES: i32 = 32 << 20;
/// The free end of the heap returns to the kernel beyond this size.
#[cfg(target_env = "gnu")]
const KEPT_BYTES: i32 = 256 << 20;

/// From now on the process keeps memory that it frees, up to 256 MB: the tables of a simulation are freed and allocated
/// again many times a second, and the kernel would clear each of their pages every time.
///
/// Only for processes that mainly simulate, and only with glibc; elsewhere it does nothing.
pub fn keep_freed() {
    #[cfg(target_env = "gnu")]
    // SAFETY: both are parameters of glibc, and the values are in their ranges.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, HEAP_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
    }
}
