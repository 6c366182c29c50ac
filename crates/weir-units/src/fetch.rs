//! Prefetching: memory that is read soon is on its way before.
//!
//! A simulation reads many more streams of memory than hardware prefetchers follow.

const LINE: usize = 64;

/// Fetches a record into the cache: all lines that it touches.
#[inline(always)]
pub fn fetch<T>(record: &T) {
    fetch_first(record, size_of::<T>());
}

/// As [`fetch`], the first `bytes` of a record.
#[inline(always)]
pub fn fetch_first<T>(record: &T, bytes: usize) {
    let first = std::ptr::from_ref(record).cast::<u8>();
    for offset in (0..bytes).step_by(LINE) {
        fetch_line(first.wrapping_add(offset));
    }
    fetch_line(first.wrapping_add(bytes.saturating_sub(1)));
}

/// Fetches the line of an address.
#[inline(always)]
pub fn fetch_line<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing architecturally, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
