//! Clocks, and the timer that wakes the event loop.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::check;

const NS_PER_S: u64 = 1_000_000_000;

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that the call fills; these clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * NS_PER_S + time.tv_nsec as u64
}

/// `CLOCK_MONOTONIC`, in nanoseconds.
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// The clock that a start names, in nanoseconds.
pub fn now_ns(clock: weir_protocol::Clock) -> u64 {
    match clock {
        weir_protocol::Clock::Monotonic => monotonic_ns(),
        weir_protocol::Clock::Realtime => read(libc::CLOCK_REALTIME),
    }
}

/// Processor time that this thread has used, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// An instant of `CLOCK_REALTIME` on `CLOCK_MONOTONIC`: the kernel stamps packets with the former.
pub fn monotonic_of_realtime(realtime_ns: u64) -> u64 {
    let monotonic = read(libc::CLOCK_MONOTONIC);
    let realtime = read(libc::CLOCK_REALTIME);
    monotonic.wrapping_sub(realtime.wrapping_sub(realtime_ns))
}

/// Processor time that this process has used: in user mode and in the kernel, in nanoseconds.
pub fn cpu_ns() -> (u64, u64) {
    // SAFETY: an all-zero rusage is valid, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * NS_PER_S + time.tv_usec as u64 * 1_000;
    (ns(usage.ru_utime), ns(usage.ru_stime))
}

/// A timer on `CLOCK_MONOTONIC` that becomes readable when it expires. It is watched edge-triggered, so that an
/// expiration need not be read.
pub struct Timer {
    fd: OwnedFd,
    armed: u64,
}

impl Timer {
    /// A timer that is not armed.
    ///
    /// # Errors
    /// When the process may have no more descriptors.
    pub fn new() -> io::Result<Timer> {
        // SAFETY: the call has no pointers.
        let fd = check(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) })?;
        // SAFETY: the descriptor was just made and nobody else owns it.
        Ok(Timer { fd: unsafe { OwnedFd::from_raw_fd(fd) }, armed: u64::MAX })
    }

    /// Expires at `at`, an instant of `CLOCK_MONOTONIC`; `u64::MAX` is never. No system call if that is so already.
    ///
    /// # Errors
    /// From the kernel; none is expected.
    pub fn arm(&mut self, at: u64) -> io::Result<()> {
        if at == self.armed {
            return Ok(());
        }
        self.armed = at;
        // An expiration of 0 would disarm it; so does the never.
        let at = if at == u64::MAX { 0 } else { at.max(1) };
        let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let value = libc::timespec { tv_sec: (at / NS_PER_S) as _, tv_nsec: (at % NS_PER_S) as _ };
        let setting = libc::itimerspec { it_interval: never, it_value: value };
        // SAFETY: `setting` outlives the call, which wants no old value.
        let done = unsafe {
            libc::timerfd_settime(self.fd.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &setting, std::ptr::null_mut())
        };
        check(done).map(drop)
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_realtime_stamp_of_now_is_now_on_the_monotonic_clock() {
        let before = monotonic_ns();
        let stamp = monotonic_of_realtime(read(libc::CLOCK_REALTIME));
        let after = monotonic_ns();
        // The two clocks are not read at the same instant.
        let slack = 50_000_000;
        assert!(stamp + slack >= before && stamp <= after + slack, "{before} {stamp} {after}");
    }
}
