//! Counters and queue of a link, in bins of `measure.links`.
//!
//! A link may be ahead of the simulation's clock (see `Link::fused`). Its own time closes its bins, which are kept
//! until the simulation has passed them.

use std::collections::VecDeque;

use weir_units::Time;

use weir_run::{ClassRow, Classes, LinkRow, Links};

/// The bins of one link, if it is recorded.
pub struct LinkStats(pub(crate) Option<Box<Bins>>);

pub(crate) struct Bins {
    link: u32,
    interval_ns: u64,
    bin_end: u64,
    bin: Bin,
    queue_bytes: u64,
    queue_packets: u64,
    /// Bytes and packets in the queue at the start of the bin.
    before: (u64, u64),
    closed: VecDeque<LinkRow>,
}

#[derive(Clone, Copy, Default)]
struct Bin {
    in_packets: u64,
    in_bytes: u64,
    drop_packets: u64,
    drop_bytes: u64,
    mark_packets: u64,
    queue_max_bytes: u64,
    delay_sum: u64,
    delay_count: u64,
    delay_max: u64,
}

impl Bins {
    fn new(link: u32, interval_ns: u64) -> Bins {
        Bins {
            link,
            interval_ns,
            bin_end: interval_ns,
            bin: Bin::default(),
            queue_bytes: 0,
            queue_packets: 0,
            before: (0, 0),
            closed: VecDeque::new(),
        }
    }
}

impl LinkStats {
    /// Bins of `interval_ns`; 0 records nothing.
    pub fn new(link: u32, interval_ns: u64) -> LinkStats {
        LinkStats((interval_ns > 0).then(|| Box::new(Bins::new(link, interval_ns))))
    }

    /// The same intervals for each of `classes` classes; none if the link is not recorded or its queue has no classes.
    pub fn by_class(&self, classes: u32) -> Option<ClassStats> {
        let bins = self.0.as_ref().filter(|_| classes > 0)?;
        Some(ClassStats((0..classes).map(|_| Bins::new(bins.link, bins.interval_ns)).collect()))
    }

    /// Closes the bins that end by `at`.
    #[inline]
    pub fn roll(&mut self, at: Time) {
        if let Some(bins) = &mut self.0 {
            bins.roll(at);
        }
    }

    /// A packet arrived.
    #[inline]
    pub fn arrived(&mut self, at: Time, ip_bytes: u32) {
        if let Some(bins) = &mut self.0 {
            bins.arrived(at, ip_bytes);
        }
    }

    /// A packet was dropped.
    pub fn dropped(&mut self, ip_bytes: u32) {
        if let Some(bins) = &mut self.0 {
            bins.dropped(ip_bytes);
        }
    }

    /// A packet was marked.
    pub fn marked(&mut self) {
        if let Some(bins) = &mut self.0 {
            bins.marked();
        }
    }

    /// A packet joined the queue, which may still drop it or another one, or release it at once.
    pub fn joined(&mut self, ip_bytes: u32) {
        if let Some(bins) = &mut self.0 {
            bins.joined(ip_bytes);
        }
    }

    /// The packet that joined last waits.
    pub fn note_peak(&mut self) {
        if let Some(bins) = &mut self.0 {
            bins.note_peak();
        }
    }

    /// A packet left the queue without being transmitted.
    pub fn unqueued(&mut self, ip_bytes: u32) {
        if let Some(bins) = &mut self.0 {
            bins.unqueued(ip_bytes);
        }
    }

    /// A packet that had joined the queue began its transmission at `at`.
    #[inline]
    pub fn began(&mut self, at: Time, ip_bytes: u32) {
        if let Some(bins) = &mut self.0 {
            bins.began(at, ip_bytes);
        }
    }

    /// A packet's time in the queue is known.
    #[inline]
    pub fn waited(&mut self, delay_ns: u64) {
        if let Some(bins) = &mut self.0 {
            bins.waited(delay_ns);
        }
    }

    /// Moves the bins that end by `until` to the table, without empty ones.
    pub fn drain(&mut self, until: Time, table: &mut Vec<LinkRow>) {
        if let Some(bins) = &mut self.0 {
            bins.drain(until, table);
        }
    }
}

/// Counters and queue of each class of an evented link.
///
/// A packet is counted from its arrival at the queue: packets that the link loses before belong to no class.
pub struct ClassStats(Vec<Bins>);

impl ClassStats {
    /// A packet of `class` arrived and joined the queue.
    pub fn arrived(&mut self, class: u32, at: Time, ip_bytes: u32) {
        let bins = &mut self.0[class as usize];
        bins.arrived(at, ip_bytes);
        bins.joined(ip_bytes);
    }

    /// The queue dropped a packet of `class`.
    pub fn dropped(&mut self, class: u32, at: Time, ip_bytes: u32) {
        let bins = &mut self.0[class as usize];
        bins.roll(at);
        bins.unqueued(ip_bytes);
        bins.dropped(ip_bytes);
    }

    /// The queue marked `packets` packets of `class`.
    pub fn marked(&mut self, class: u32, packets: u64) {
        self.0[class as usize].bin.mark_packets += packets;
    }

    /// The packet of `class` that joined last waits.
    pub fn note_peak(&mut self, class: u32) {
        self.0[class as usize].note_peak();
    }

    /// As [`note_peak`](ClassStats::note_peak), of every class.
    pub fn note_peaks(&mut self) {
        self.0.iter_mut().for_each(Bins::note_peak);
    }

    /// A packet of `class` began its transmission at `at`, after it had waited for `delay_ns`.
    pub fn began(&mut self, class: u32, at: Time, ip_bytes: u32, delay_ns: u64) {
        let bins = &mut self.0[class as usize];
        bins.began(at, ip_bytes);
        bins.waited(delay_ns);
    }

    /// Moves the bins that end by `until` to the table, without empty ones.
    pub fn drain(&mut self, until: Time, table: &mut Vec<ClassRow>) {
        for (class, bins) in (0..).zip(&mut self.0) {
            let mut rows = Vec::new();
            bins.roll(until);
            bins.drain(until, &mut rows);
            table.extend(rows.into_iter().map(|row| ClassRow::of(class, row)));
        }
    }
}

/// What packets of one size add to a bin: a loop keeps it in registers.
pub(crate) struct Tally {
    ip_bytes: u64,
    bin_end: u64,
    queue_bytes: u64,
    queue_packets: u64,
    queue_max_bytes: u64,
    packets: u64,
    delay_sum: u64,
    delay_max: u64,
}

/// What follows a run of packets of one size.
pub(crate) trait Observer {
    /// Whether it follows packets that come at this instant.
    fn covers(&self, at: Time) -> bool;
    /// A packet that waited begins its transmission.
    fn began(&mut self, ip_bytes: u32);
    /// A packet comes at `at` and begins its transmission at `start`.
    fn accepted(&mut self, at: Time, start: Time);
}

/// Nothing is recorded.
impl Observer for () {
    #[inline(always)]
    fn covers(&self, _at: Time) -> bool {
        true
    }

    #[inline(always)]
    fn began(&mut self, _ip_bytes: u32) {}

    #[inline(always)]
    fn accepted(&mut self, _at: Time, _start: Time) {}
}

impl Observer for Tally {
    /// Whether an instant is within the bin.
    #[inline(always)]
    fn covers(&self, at: Time) -> bool {
        at.0 < self.bin_end
    }

    /// As [`Bins::began`], within the bin.
    #[inline(always)]
    fn began(&mut self, ip_bytes: u32) {
        self.queue_bytes -= u64::from(ip_bytes);
        self.queue_packets -= 1;
    }

    /// As [`Bins::arrived`] and [`Bins::accepted`], within the bin.
    #[inline(always)]
    fn accepted(&mut self, at: Time, start: Time) {
        if start > at {
            self.queue_bytes += self.ip_bytes;
            self.queue_packets += 1;
            self.queue_max_bytes = self.queue_max_bytes.max(self.queue_bytes);
        }
        let waited = start.since(at).0;
        self.packets += 1;
        self.delay_sum += waited;
        self.delay_max = self.delay_max.max(waited);
    }
}

impl Bins {
    /// What packets of `ip_bytes` add to the present bin, so far nothing.
    #[inline]
    pub fn tally(&self, ip_bytes: u32) -> Tally {
        Tally {
            ip_bytes: u64::from(ip_bytes),
            bin_end: self.bin_end,
            queue_bytes: self.queue_bytes,
            queue_packets: self.queue_packets,
            queue_max_bytes: self.bin.queue_max_bytes,
            packets: 0,
            delay_sum: 0,
            delay_max: self.bin.delay_max,
        }
    }

    /// Adds a tally to the bin for which it was made.
    #[inline]
    pub fn add(&mut self, tally: &Tally) {
        (self.queue_bytes, self.queue_packets) = (tally.queue_bytes, tally.queue_packets);
        let bin = &mut self.bin;
        bin.in_packets += tally.packets;
        bin.in_bytes += tally.packets * tally.ip_bytes;
        bin.queue_max_bytes = tally.queue_max_bytes;
        bin.delay_sum += tally.delay_sum;
        bin.delay_count += tally.packets;
        bin.delay_max = tally.delay_max;
    }

    #[inline]
    fn roll(&mut self, at: Time) {
        while at.0 >= self.bin_end {
            self.close();
        }
    }

    #[cold]
    fn close(&mut self) {
        let bin = std::mem::take(&mut self.bin);
        let waited = bin.delay_count > 0;
        // A packet that came and was not dropped has begun its transmission unless it waits.
        let (bytes_before, packets_before) = self.before;
        self.before = (self.queue_bytes, self.queue_packets);
        self.closed.push_back(LinkRow {
            time_ns: self.bin_end,
            link: self.link,
            in_packets: bin.in_packets,
            in_bytes: bin.in_bytes,
            out_packets: packets_before + bin.in_packets - bin.drop_packets - self.queue_packets,
            out_bytes: bytes_before + bin.in_bytes - bin.drop_bytes - self.queue_bytes,
            drop_packets: bin.drop_packets,
            drop_bytes: bin.drop_bytes,
            mark_packets: bin.mark_packets,
            queue_bytes: self.queue_bytes,
            queue_packets: self.queue_packets,
            queue_max_bytes: bin.queue_max_bytes,
            queue_delay_ns: if waited { bin.delay_sum / bin.delay_count } else { u64::MAX },
            queue_delay_max_ns: if waited { bin.delay_max } else { u64::MAX },
        });
        self.bin.queue_max_bytes = self.queue_bytes;
        self.bin_end += self.interval_ns;
    }

    #[inline]
    pub fn arrived(&mut self, at: Time, ip_bytes: u32) {
        self.roll(at);
        self.bin.in_packets += 1;
        self.bin.in_bytes += u64::from(ip_bytes);
    }

    pub fn dropped(&mut self, ip_bytes: u32) {
        self.bin.drop_packets += 1;
        self.bin.drop_bytes += u64::from(ip_bytes);
    }

    pub fn marked(&mut self) {
        self.bin.mark_packets += 1;
    }

    #[inline]
    pub fn joined(&mut self, ip_bytes: u32) {
        self.queue_bytes += u64::from(ip_bytes);
        self.queue_packets += 1;
    }

    #[inline]
    pub fn note_peak(&mut self) {
        self.bin.queue_max_bytes = self.bin.queue_max_bytes.max(self.queue_bytes);
    }

    fn unqueued(&mut self, ip_bytes: u32) {
        self.queue_bytes -= u64::from(ip_bytes);
        self.queue_packets -= 1;
    }

    #[inline]
    pub fn began(&mut self, at: Time, ip_bytes: u32) {
        self.roll(at);
        self.queue_bytes -= u64::from(ip_bytes);
        self.queue_packets -= 1;
    }

    /// A packet that arrived at `at` will begin its transmission at `start`.
    #[inline]
    pub fn accepted(&mut self, at: Time, start: Time, ip_bytes: u32) {
        if start > at {
            self.joined(ip_bytes);
            self.note_peak();
        }
        self.waited(start.since(at).0);
    }

    #[inline]
    pub fn waited(&mut self, delay_ns: u64) {
        self.bin.delay_sum += delay_ns;
        self.bin.delay_count += 1;
        self.bin.delay_max = self.bin.delay_max.max(delay_ns);
    }

    fn drain(&mut self, until: Time, table: &mut Vec<LinkRow>) {
        while self.closed.front().is_some_and(|row| row.time_ns <= until.0) {
            let row = self.closed.pop_front().expect("there is a front");
            if row.in_packets + row.out_packets + row.queue_packets + row.queue_max_bytes > 0 {
                table.push(row);
            }
        }
    }
}

/// Moves rows to the table in the order of time, then link, then class.
pub fn append_classes_sorted(mut rows: Vec<ClassRow>, table: &mut Classes) {
    rows.sort_by_key(|row| (row.time_ns, row.link, row.class));
    for row in rows {
        table.push(row);
    }
}

/// Moves rows to the table in the order of time, then link.
pub fn append_sorted(mut rows: Vec<LinkRow>, table: &mut Links) {
    rows.sort_by_key(|row| (row.time_ns, row.link));
    for row in rows {
        table.push(row);
    }
}
