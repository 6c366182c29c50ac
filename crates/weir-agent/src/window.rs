//! The receive window: a plan gives it in bytes, the kernel derives it from memory.
//!
//! Linux offers a share of the receive buffer as the window: the share of payload in the memory of recent packets. It
//! depends on the path (nearly 1 for trains of segments, half for small packets). Since Linux 6.9 the kernel overwrites
//! `TCP_WINDOW_CLAMP` whenever the share changes. So the buffer is adjusted until the window is the plan's.
//!
//! If the path cannot fill the window, the buffer is large. With just enough memory, the kernel would drop out-of-order
//! packets when the packets after a loss are smaller than those before it. The window must not grow into that buffer,
//! because Linux acknowledges each segment that lets it grow (`tcp_grow_window`), so that acknowledgements of tens of
//! megabytes would not be delayed. The first data would overwrite a clamp. So the connection is accepted with twice the
//! buffer and continues with half of it, which offers no more than the first window at any share.

use std::io;

use weir_sys::socket::{IntOption, Socket};
use weir_sys::tcp_info::TcpInfo;
use weir_units::Time;

/// The kernel's share before the first packet, and the share assumed after it.
const FIRST_SHARE_PERCENT: u64 = 50;
const USUAL_SHARE_PERCENT: u64 = 80;
/// Bounds of the share.
const MIN_SHARE_PERCENT: u64 = 20;
const LOOK_NS: u64 = 10_000_000;
const LONGEST_LOOK_NS: u64 = 640_000_000;
/// Relative error of the window that needs no adjustment.
const TOLERANCE_PERMILLE: u64 = 5;
const MAX_UNREAD_BYTES: u64 = 4 << 20;
const FEW_SEGMENTS_BYTES: u64 = 6_000;

/// The unread payload that a receiver tolerates, and the window that compensates for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowPlan {
    /// The window to offer.
    pub window_bytes: u64,
    /// Payload that may wait unread.
    pub unread_bytes: u32,
    /// Whether the window may limit the flow.
    pub limits: bool,
}

impl WindowPlan {
    /// For a connection with these limits of unacknowledged and of unread bytes. Its path holds `capacity` bytes, which
    /// slow start overshoots by as much again.
    pub fn new(send_buffer: u64, receive_buffer: u64, capacity: u64) -> WindowPlan {
        let window = send_buffer.min(receive_buffer);
        let limits = window <= capacity.saturating_mul(2);
        // What waits unread is missing in flight: little of a window that limits, but more than a few segments, which
        // would wake the receiver for each. Elsewhere the more the better: the segment with which the limit is reached is
        // acknowledged by other rules (`__tcp_ack_snd_check`), as a program that reads at once would not see.
        let share = if limits {
            (window / 128).max(FEW_SEGMENTS_BYTES).min(window / 16)
        } else {
            (window / 16).max((window - capacity.saturating_mul(2)) / 2)
        };
        let unread = share.clamp(1, MAX_UNREAD_BYTES);
        WindowPlan { window_bytes: window, unread_bytes: unread as u32, limits }
    }

    /// Bytes that the buffer must hold. Unread payload has left the path but occupies the buffer: half its limit on
    /// average.
    fn held_bytes(&self) -> u64 {
        self.window_bytes.saturating_add(u64::from(self.unread_bytes) / 2)
    }

    /// The listening socket's buffer. The handshake fixes the window scale, which must suffice later; a window that
    /// cannot limit the flow is greatest at first.
    pub fn listening_buffer(&self) -> u64 {
        let spare = if self.limits { 1 } else { 100 / FIRST_SHARE_PERCENT };
        self.held_bytes().saturating_mul(2 * 100 / FIRST_SHARE_PERCENT * spare)
    }
}

/// Keeps the window of one connection.
#[derive(Debug)]
pub struct WindowKeeper {
    plan: WindowPlan,
    buffer: u64,
    /// The window at the last inspection.
    seen: u64,
    next_look: Time,
    interval_ns: u64,
}

impl WindowKeeper {
    /// For a new connection.
    ///
    /// # Errors
    /// From the kernel; none is expected.
    pub fn new(plan: WindowPlan, socket: &Socket, now: Time) -> io::Result<WindowKeeper> {
        let buffer = plan.held_bytes().saturating_mul(100) / USUAL_SHARE_PERCENT;
        let mut next_look = Time::MAX;
        if plan.limits {
            set(socket, buffer, plan.window_bytes)?;
            next_look = Time(now.0 + LOOK_NS);
        } else {
            let granted = socket.set_receive_buffer(plan.listening_buffer())?;
            socket.set_receive_buffer(granted / 100 * FIRST_SHARE_PERCENT)?;
        }
        Ok(WindowKeeper { plan, buffer, seen: 0, next_look, interval_ns: LOOK_NS })
    }

    /// Payload that may wait unread.
    pub fn unread_bytes(&self) -> u32 {
        self.plan.unread_bytes
    }

    /// Whether the window may limit the flow.
    pub fn limits(&self) -> bool {
        self.plan.limits
    }

    /// Inspects the window at intervals and adjusts the buffer; `taken` bytes were read since the last call.
    ///
    /// # Errors
    /// From the kernel; none is expected.
    pub fn look(&mut self, socket: &Socket, now: Time, taken: u64) -> io::Result<()> {
        if now < self.next_look {
            return Ok(());
        }
        let offered = offered(&TcpInfo::of(socket)?, taken);
        let growing = offered > self.seen;
        self.seen = offered;
        match adjusted(self.buffer, offered, &self.plan, growing) {
            Some(buffer) => {
                self.buffer = buffer;
                set(socket, buffer, self.plan.window_bytes)?;
                self.interval_ns = LOOK_NS;
            }
            None => self.interval_ns = (self.interval_ns * 2).min(LONGEST_LOOK_NS),
        }
        self.next_look = Time(now.0 + self.interval_ns);
        Ok(())
    }
}

/// Makes the kernel use a new buffer: it does so only when the share or the clamp changes.
fn set(socket: &Socket, buffer: u64, window: u64) -> io::Result<()> {
    socket.set_receive_buffer(buffer)?;
    socket.set(IntOption::WindowClamp, u32::try_from(window).unwrap_or(u32::MAX / 2))
}

/// The window of the last acknowledgement, plus the unread bytes at that time. Before Linux 6.2: the limit to which the
/// window may grow.
fn offered(info: &TcpInfo, taken: u64) -> u64 {
    match info.rcv_wnd {
        0 => u64::from(info.rcv_ssthresh),
        window => u64::from(window) + taken,
    }
}

/// The buffer that would offer the wanted window, if it differs from the present one.
fn adjusted(buffer: u64, offered: u64, plan: &WindowPlan, growing: bool) -> Option<u64> {
    let wanted = plan.held_bytes();
    let tolerance = wanted / 1000 * TOLERANCE_PERMILLE;
    // Under a clamp, the window is the wanted one although data wait.
    let most = wanted + tolerance + u64::from(plan.unread_bytes);
    let near = (wanted - tolerance..=most).contains(&offered);
    if near || offered == 0 || (offered < wanted && growing) {
        return None;
    }
    let exact = u128::from(buffer) * u128::from(wanted) / u128::from(offered);
    // A window that does not grow may also be unused.
    let most = u128::from(buffer) * 5 / 4;
    let limit = u128::from(wanted) * 100 / u128::from(MIN_SHARE_PERCENT);
    let next = exact.min(most).min(limit).max(u128::from(wanted)) as u64;
    (next != buffer).then_some(next)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_smaller_buffer_is_the_window() {
        let plan = WindowPlan::new(1 << 20, 1 << 30, 1 << 19);
        assert_eq!(plan, WindowPlan { window_bytes: 1 << 20, unread_bytes: 1 << 13, limits: true });
        assert_eq!(plan.held_bytes(), (1 << 20) + (1 << 12));
        let wide = WindowPlan::new(1 << 20, 1 << 30, (1 << 19) - 1);
        assert_eq!(wide, WindowPlan { window_bytes: 1 << 20, unread_bytes: 1 << 16, limits: false });
        assert_eq!(WindowPlan::new(1 << 18, 1 << 30, 1 << 18).unread_bytes, 6_000);
        assert_eq!(WindowPlan::new(1 << 14, 1 << 30, 1 << 14).unread_bytes, 1 << 10);
        assert_eq!(WindowPlan::new(50_000_000, 60_000_000, 0).unread_bytes, 4 << 20);
        assert_eq!(WindowPlan::new(1, 1, u64::MAX).unread_bytes, 1);
        assert!(WindowPlan::new(u64::MAX, u64::MAX, 0).listening_buffer() > 0);
    }

    #[test]
    fn the_buffer_converges_whatever_the_share() {
        let plan = WindowPlan::new(1_000_000, 1_000_000, u64::MAX);
        for share in [25, 53, 69, 98] {
            let mut buffer = plan.held_bytes() * 100 / USUAL_SHARE_PERCENT;
            for _ in 0..20 {
                buffer = adjusted(buffer, buffer * share / 100, &plan, false).unwrap_or(buffer);
            }
            let window = buffer * share / 100;
            assert!((995_000..=1_015_000).contains(&window), "{share}: {window}");
        }
    }

    #[test]
    fn a_window_that_still_grows_is_left_alone() {
        let plan = WindowPlan { window_bytes: 800, unread_bytes: 0, limits: true };
        assert_eq!(adjusted(1000, 500, &plan, true), None);
        assert_eq!(adjusted(1000, 500, &plan, false), Some(1250));
        assert_eq!(adjusted(1000, 950, &plan, true), Some(842));
    }

    /// A connection over loopback: the sending and the receiving end.
    fn connection(buffer: u64) -> (Socket, Socket) {
        let local = IpAddr::from([127, 0, 0, 1]);
        let listener = Socket::tcp(&local).unwrap();
        listener.set(IntOption::MaxSegment, 1460).unwrap();
        listener.set_receive_buffer(buffer).unwrap();
        listener.bind((local, 0).into()).unwrap();
        listener.listen().unwrap();
        let sender = Socket::tcp(&local).unwrap();
        sender.connect((local, listener.local_port().unwrap()).into()).unwrap();
        (sender, eventually(|| listener.accept().unwrap()))
    }

    fn eventually<T>(mut get: impl FnMut() -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(it) = get() {
                return it;
            }
            assert!(begun.elapsed().as_secs() < 10, "it never came");
            std::thread::yield_now();
        }
    }

    /// A window that grows would have each segment acknowledged.
    #[test]
    fn a_window_that_cannot_limit_never_grows() {
        let plan = WindowPlan { window_bytes: 100_000, unread_bytes: 4_000, limits: false };
        let (sender, receiver) = connection(plan.listening_buffer());
        let window = || TcpInfo::of(&receiver).unwrap().rcv_ssthresh;
        let mut last = window();
        assert!(last >= 100_000, "{last}");
        let mut keeper = WindowKeeper::new(plan, &receiver, Time::ZERO).unwrap();
        for _ in 0..20 {
            let sent = eventually(|| sender.send(&[0; 4_344]).unwrap());
            assert_eq!(sent, 4_344);
            let taken = eventually(|| receiver.discard(1 << 20).unwrap());
            keeper.look(&receiver, Time::ZERO, taken as u64).unwrap();
            assert!((100_000..=last).contains(&window()), "{} after {last}", window());
            last = window();
        }
    }

    #[test]
    fn what_waited_is_part_of_what_the_buffer_offers() {
        let info = TcpInfo { rcv_wnd: 1000, rcv_ssthresh: 5000, ..TcpInfo::default() };
        assert_eq!(offered(&info, 20), 1020);
        assert_eq!(offered(&TcpInfo { rcv_wnd: 0, ..info }, 20), 5000);
    }
}
