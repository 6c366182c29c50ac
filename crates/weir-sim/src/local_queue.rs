//! A flow's share of its host's queue; Linux limits it (TCP small queues).

use weir_elements::Ring;
use weir_tcp::Sender;
use weir_units::Time;

/// Memory of a segment in Linux beside its IP packet: 832 bytes for `sk_buff`, its shared info and room for headers, less the
/// 52 bytes of the headers.
const MEMORY_BYTES: u32 = 780;
/// Up to this limit each packet's departure wakes the sender.
const FEW_PACKETS: u32 = 8;

/// The packets of a flow in its host's queue.
///
/// On an analytic link, the departure of each packet is known at once; on an evented link, at the start of its
/// transmission.
///
/// Linux counts the memory of buffers (`tcp_small_queue_check`). Single segments count with theirs; the memory of a train is
/// about its bytes.
#[derive(Default)]
pub(crate) struct LocalQueue {
    /// Bytes that each packet counts beside its own.
    beside: u32,
    departures: Ring<(Time, u32)>,
    /// The bytes of each packet whose departure is known, if all have the same; else 0.
    size: u32,
    /// Bytes whose departures are not known yet.
    waiting: u64,
    bytes: u64,
    /// Wakes the sender when at most so many bytes are left.
    wake_below: Option<u64>,
}

impl LocalQueue {
    /// An empty queue, of segments that the host's device sends in `trains`, or of single ones.
    pub fn new(trains: bool) -> LocalQueue {
        LocalQueue { beside: if trains { 0 } else { MEMORY_BYTES }, ..LocalQueue::default() }
    }

    /// The limit of the bytes in this queue at which `sender` adds no packet, of which a full one has `full` bytes: a
    /// millisecond at its pacing rate, at least two packets; twice that before a retransmission.
    #[inline]
    fn limit(&self, sender: &Sender, full: u32) -> u64 {
        if self.beside == 0 {
            return sender.local_queue_limit();
        }
        let limit = sender.bytes_a_millisecond().max(2 * u64::from(full + self.beside)).min(sender.most_local_bytes());
        if sender.has_lost_segments() { 2 * limit } else { limit }
    }

    /// Fetches what the next packet reads into the cache.
    #[inline]
    pub fn fetch_ends(&self) {
        self.departures.fetch_ends();
    }

    /// Adds a packet at `now` that departs at `departure`.
    #[inline]
    pub fn push(&mut self, now: Time, departure: Time, bytes: u32) {
        if self.departures.is_full() {
            self.expire(now);
        }
        let bytes = bytes + self.beside;
        self.departs(departure, bytes);
        self.bytes += u64::from(bytes);
    }

    /// The room for packets of `full` bytes of `sender` at `now`; for any number if its queue is not `limited`.
    #[inline]
    pub fn room(&mut self, limited: bool, sender: &Sender, full: u32, now: Time, wake: &mut Time) -> Room<'_> {
        let limit = if limited { self.limit(sender, full) } else { u64::MAX };
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
        let bytes = bytes + self.beside;
        self.waiting += u64::from(bytes);
        self.bytes += u64::from(bytes);
    }

    /// Sets the departure of a packet that waited; true if the sender must wake then.
    pub fn started(&mut self, departure: Time, bytes: u32) -> bool {
        let bytes = bytes + self.beside;
        self.waiting -= u64::from(bytes);
        self.departs(departure, bytes);
        self.wake_below.take_if(|left| self.waiting <= *left).is_some()
    }

    /// Removes a dropped packet that waited.
    pub fn dropped(&mut self, bytes: u32) {
        let bytes = bytes + self.beside;
        self.waiting -= u64::from(bytes);
        self.bytes -= u64::from(bytes);
    }

    #[inline]
    fn departs(&mut self, departure: Time, bytes: u32) {
        if self.size != bytes {
            self.size = if self.departures.is_empty() { bytes } else { 0 };
        }
        self.departures.push((departure, bytes));
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
        let last = self.last_before(self.bytes - enough);
        self.wake_below = if last.is_none() { Some(enough) } else { None };
        last.unwrap_or(Time::MAX)
    }

    /// The instant at which `bytes` have departed; none if it is not known. `bytes` is not 0.
    fn last_before(&self, bytes: u64) -> Option<Time> {
        if self.size > 0 {
            let packets = bytes.div_ceil(u64::from(self.size));
            return self.departures.get(packets as usize - 1).map(|(departure, _)| *departure);
        }
        let mut departed = 0;
        let mut reached = self.departures.iter().skip_while(|(_, size)| {
            departed += u64::from(*size);
            departed < bytes
        });
        reached.next().map(|(departure, _)| *departure)
    }

    /// Whether `sender`, of which a full packet has `full` bytes, may add one; if not, sets `wake` to the instant at which it
    /// may.
    #[inline]
    pub fn has_room(&mut self, sender: &mut Sender, full: u32, now: Time, wake: &mut Time) -> bool {
        let limit = self.limit(sender, full);
        if self.bytes >= limit {
            self.expire(now);
        }
        if self.bytes < limit {
            *wake = Time::MAX;
            self.wake_below = None;
            return true;
        }
        sender.transmit_blocked(now);
        // What gives a sender something to send asks again.
        if *wake == Time::MAX && self.wake_below.is_none() && sender.wants_to_send() {
            // Linux wakes the sender after each packet. While many wait, the link stays busy until later, too.
            let few = limit <= u64::from(FEW_PACKETS * (full + self.beside));
            let quantum = if few && self.beside > 0 { 0 } else { sender.quantum_bytes() / 2 };
            *wake = self.block(limit, quantum);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Packets of one size and of several: the packet with which so many bytes have departed, by adding them up.
        #[test]
        fn bytes_have_departed_with_the_packet_that_completes_them(
            sizes in proptest::collection::vec(proptest::sample::select(vec![1500, 1500, 1500, 576]), 1..40),
            gone in 0usize..40,
            bytes in 1u64..70_000,
        ) {
            let mut queue = LocalQueue::default();
            for (place, size) in (1..).zip(&sizes) {
                queue.push(Time::ZERO, Time(place), *size);
            }
            queue.expire(Time(gone as u64));
            let left = sizes.iter().enumerate().skip(gone);
            let sums = left.scan(0, |sum, (place, size)| {
                *sum += u64::from(*size);
                Some((*sum, Time(place as u64 + 1)))
            });
            let expected = sums.clone().find(|(sum, _)| *sum >= bytes).map(|(_, at)| at);
            prop_assert_eq!(queue.last_before(bytes), expected);
            prop_assert_eq!(queue.bytes, sums.last().map_or(0, |(sum, _)| sum));
        }
    }
}
