//! Clocks, in nanoseconds, and the timer of an event loop.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
    timerfd_settime,
};

const NS_PER_S: u64 = 1_000_000_000;

fn read(clock: ClockId) -> u64 {
    ns_of(clock_gettime(clock))
}

fn ns_of(time: Timespec) -> u64 {
    time.tv_sec as u64 * NS_PER_S + time.tv_nsec as u64
}

/// A time as the kernel takes it.
pub(crate) fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / NS_PER_S) as _, tv_nsec: (ns % NS_PER_S) as _ }
}

/// `CLOCK_MONOTONIC`.
pub fn monotonic_ns() -> u64 {
    read(ClockId::Monotonic)
}

/// `CLOCK_REALTIME`, since the Unix epoch.
pub fn realtime_ns() -> u64 {
    read(ClockId::Realtime)
}

/// Processor time of this thread.
pub fn thread_cpu_ns() -> u64 {
    read(ClockId::ThreadCPUTime)
}

/// Processor time of this process: in user mode, and in the kernel.
pub fn cpu_ns() -> (u64, u64) {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes one rusage, for which zeros are valid as well.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * NS_PER_S + time.tv_usec as u64 * 1_000;
    (ns(usage.ru_utime), ns(usage.ru_stime))
}

/// Converts an instant of `CLOCK_REALTIME`, which the kernel's timestamps of packets use, to `CLOCK_MONOTONIC`.
pub fn monotonic_of_realtime(realtime_ns: u64) -> u64 {
    let monotonic = monotonic_ns();
    let realtime = self::realtime_ns();
    monotonic.wrapping_sub(realtime.wrapping_sub(realtime_ns))
}

/// The lead of `CLOCK_REALTIME` over `CLOCK_MONOTONIC`: the most precise of three measurements.
pub fn realtime_lead_ns() -> i64 {
    const TRIES: usize = 3;
    let measure = |_| {
        let (before, real, after) = (monotonic_ns(), realtime_ns(), monotonic_ns());
        (after - before, real as i64 - (before + (after - before) / 2) as i64)
    };
    (0..TRIES).map(measure).min().map_or(0, |(_, lead_ns)| lead_ns)
}

/// Whether the clock stands still while programs compute, as in weir's lab. (Reading that clock advances it by some
/// hundred nanoseconds, so that programs that wait for an instant make progress.)
pub fn stands_still() -> bool {
    const TRIALS: u64 = 100;
    /// Less than a system call takes on any computer.
    const LESS_THAN_A_CALL_NS: u64 = 10;
    let begun = monotonic_ns();
    for _ in 0..TRIALS {
        let _ = rustix::process::getppid();
    }
    monotonic_ns() - begun < TRIALS * LESS_THAN_A_CALL_NS
}

/// A timer on `CLOCK_MONOTONIC` whose descriptor becomes readable when it expires. Watch it edge-triggered: then nobody
/// has to read the expiration.
pub struct Timer {
    fd: OwnedFd,
    armed: u64,
}

impl Timer {
    /// Creates a disarmed timer.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn new() -> io::Result<Timer> {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        Ok(Timer { fd, armed: u64::MAX })
    }

    /// Sets the expiration to instant `at` of `CLOCK_MONOTONIC`; `u64::MAX` means never. Costs no system call if `at`
    /// has not changed.
    ///
    /// # Errors
    /// From the kernel; none is expected.
    pub fn arm(&mut self, at: u64) -> io::Result<()> {
        if at == self.armed {
            return Ok(());
        }
        self.armed = at;
        // The kernel takes 0 for "never".
        let at = if at == u64::MAX { 0 } else { at.max(1) };
        let setting = Itimerspec { it_interval: timespec(0), it_value: timespec(at) };
        timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &setting)?;
        Ok(())
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

    /// The two clocks are not read at the same instant.
    const SLACK: u64 = 50_000_000;

    #[test]
    fn a_realtime_stamp_of_now_is_now_on_the_monotonic_clock() {
        let before = monotonic_ns();
        let stamp = monotonic_of_realtime(realtime_ns());
        let after = monotonic_ns();
        assert!(stamp + SLACK >= before && stamp <= after + SLACK, "{before} {stamp} {after}");
    }

    #[test]
    fn the_lead_of_the_calendar_is_the_difference_of_the_clocks() {
        let lead = realtime_ns() as i64 - monotonic_ns() as i64;
        assert!(lead.abs_diff(realtime_lead_ns()) < SLACK, "{lead}");
    }

    #[test]
    fn time_passes_here() {
        assert!(!stands_still());
    }
}
