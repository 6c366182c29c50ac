//! A flow's share of its host's queue, which Linux bounds (TCP small queues).

use weir_elements::Ring;
use weir_tcp::Sender;
use weir_units::Time;

/// The packets of a flow in its host's queue.
///
/// On an analytic link the departure of each packet is known at once. On an evented link a packet waits first, and its
/// departure is known when its transmission begins.
#[derive(Default)]
pub(crate) struct LocalQueue {
    departures: Ring<(Time, u32)>,
    /// Of these, the departures are not known yet.
    waiting: u64,
    bytes: u64,
    /// The sender is to be woken when no more than this is left.
    wake_below: Option<u64>,
}

impl LocalQueue {
    /// A packet departs at `departure`.
    #[inline]
    pub fn push(&mut self, departure: Time, bytes: u32) {
        self.departures.push((departure, bytes));
        self.bytes += u64::from(bytes);
    }

    /// A packet waits on an evented link.
    pub fn wait(&mut self, bytes: u32) {
        self.waiting += u64::from(bytes);
        self.bytes += u64::from(bytes);
    }

    /// A packet that waited departs at `departure`; true if the sender is to be woken then.
    pub fn started(&mut self, departure: Time, bytes: u32) -> bool {
        self.waiting -= u64::from(bytes);
        self.departures.push((departure, bytes));
        self.wake_below.take_if(|left| self.waiting <= *left).is_some()
    }

    /// A packet that waited was dropped.
    pub fn dropped(&mut self, bytes: u32) {
        self.waiting -= u64::from(bytes);
        self.bytes -= u64::from(bytes);
    }

    /// Forgets what has left by `now`.
    #[inline]
    fn expire(&mut self, now: Time) {
        while let Some(&(departure, bytes)) = self.departures.front() {
            if departure > now {
                break;
            }
            self.bytes -= u64::from(bytes);
            self.departures.pop();
        }
    }

    /// The sender is held back: when less than `limit` is left and at least `quantum` has gone. [`Time::MAX`] while that
    /// depends on packets that wait; [`LocalQueue::started`] tells then.
    fn block(&mut self, limit: u64, quantum: u64) -> Time {
        let enough = limit.saturating_sub(1).min(self.bytes.saturating_sub(quantum));
        let mut left = self.bytes;
        self.wake_below = None;
        for &(departure, bytes) in self.departures.iter() {
            left -= u64::from(bytes);
            if left <= enough {
                return departure;
            }
        }
        self.wake_below = Some(enough);
        Time::MAX
    }

    /// Whether `sender` may put more into it; sets `wake` to when it may, if not now.
    #[inline]
    pub fn has_room(&mut self, sender: &mut Sender, now: Time, wake: &mut Time) -> bool {
        self.expire(now);
        let limit = sender.local_queue_limit();
        if self.bytes < limit {
            *wake = Time::MAX;
            self.wake_below = None;
            return true;
        }
        sender.transmit_blocked(now);
        if *wake == Time::MAX && self.wake_below.is_none() {
            *wake = self.block(limit, sender.quantum_bytes() / 2);
        }
        false
    }
}
