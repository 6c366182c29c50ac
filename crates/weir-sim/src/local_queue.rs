//! A flow's share of its host's queue; Linux limits it (TCP small queues).

use weir_elements::Ring;
use weir_tcp::Sender;
use weir_units::Time;

/// The packets of a flow in its host's queue.
///
/// On an analytic link, the departure of each packet is known at once; on an evented link, at the start of its
/// transmission.
#[derive(Default)]
pub(crate) struct LocalQueue {
    departures: Ring<(Time, u32)>,
    /// Bytes whose departures are not known yet.
    waiting: u64,
    bytes: u64,
    /// Wakes the sender when at most so many bytes are left.
    wake_below: Option<u64>,
}

impl LocalQueue {
    /// Adds a packet at `now` that departs at `departure`.
    #[inline]
    pub fn push(&mut self, now: Time, departure: Time, bytes: u32) {
        if self.departures.is_full() {
            self.expire(now);
        }
        self.departures.push((departure, bytes));
        self.bytes += u64::from(bytes);
    }

    /// The room for packets of `sender` at `now`; for any number if its queue is not `limited`.
    #[inline]
    pub fn room(&mut self, limited: bool, sender: &Sender, now: Time, wake: &mut Time) -> Room<'_> {
        let limit = if limited { sender.local_queue_limit() } else { u64::MAX };
        if self.bytes >= limit {
            self.expire(now);
        }
        if limited && self.bytes < limit {
            *wake = Time::MAX;
            self.wake_below = None;
        }
        Room { queue: self, limit }
    }

    /// Adds a packet that waits on an evented link.
    pub fn wait(&mut self, bytes: u32) {
        self.waiting += u64::from(bytes);
        self.bytes += u64::from(bytes);
    }

    /// Sets the departure of a packet that waited; true if the sender must wake then.
    pub fn started(&mut self, departure: Time, bytes: u32) -> bool {
        self.waiting -= u64::from(bytes);
        self.departures.push((departure, bytes));
        self.wake_below.take_if(|left| self.waiting <= *left).is_some()
    }

    /// Removes a dropped packet that waited.
    pub fn dropped(&mut self, bytes: u32) {
        self.waiting -= u64::from(bytes);
        self.bytes -= u64::from(bytes);
    }

    /// Removes the packets that have departed by `now`.
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

    /// The instant at which less than `limit` is left and at least `quantum` has departed. [`Time::MAX`] while it
    /// depends on packets that wait; [`LocalQueue::started`] reports it then.
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

    /// Whether `sender` may add a packet; if not, sets `wake` to the instant at which it may.
    #[inline]
    pub fn has_room(&mut self, sender: &mut Sender, now: Time, wake: &mut Time) -> bool {
        let limit = sender.local_queue_limit();
        if self.bytes >= limit {
            self.expire(now);
        }
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

/// The room in a flow's share of its host's queue, for a train of packets whose departures are known.
pub(crate) struct Room<'a> {
    queue: &'a mut LocalQueue,
    /// Bytes; [`u64::MAX`] for none.
    limit: u64,
}

impl Room<'_> {
    /// Whether there is room for a packet.
    #[inline]
    pub fn is_left(&self) -> bool {
        self.limit == u64::MAX || self.queue.bytes < self.limit
    }

    /// Adds a packet at `now` that departs at `departure`.
    #[inline]
    pub fn take(&mut self, now: Time, departure: Time, bytes: u32) {
        if self.limit < u64::MAX {
            self.queue.push(now, departure, bytes);
        }
    }
}
