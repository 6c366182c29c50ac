//! The two ends of a flow, and what it reports.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_cc::Algorithm;
use weir_elements::Ring;
use weir_plan::{Source, Stack, Tcp, Transport};
use weir_tcp::{Counters, Receiver, Sender};
use weir_traffic::{CbrClock, Job, Transfers};
use weir_units::Time;

use crate::packet::{Kind, Packet};
use crate::processing::Processing;

/// A TCP connection.
pub(crate) struct Connection {
    pub sender: Sender,
    pub receiver: Receiver,
    /// When the SYN-ACK was sent, until the first data show the round-trip time.
    pub syn_ack_at: Option<Time>,
    /// Bytes of the headers of a data segment.
    pub headers: u32,
    /// Bytes of the IP packet of a full segment.
    pub full_bytes: u32,
    pub ecn: bool,
}

/// What a flow has done so far, over all its connections.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Totals {
    pub delivered_bytes: u64,
    pub acked_bytes: u64,
    pub sent_ip_bytes: u64,
    pub counters: Counters,
    pub lost_packets: u64,
    pub marked_packets: u64,
}

/// A transfer under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Active {
    pub job: Job,
    pub established: Option<Time>,
    /// The totals when it began.
    pub before: Totals,
}

/// The flow's share of its host's queue (Linux' small-queue limit).
///
/// On an analytic link the departure of each packet is known at once. On an evented link a packet waits first, and its
/// departure is known when its transmission begins.
#[derive(Default)]
pub(crate) struct LocalQueue {
    departures: Ring<(Time, u32)>,
    /// Of these, the departures are not known yet.
    waiting: u64,
    pub bytes: u64,
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

    /// Whether [`LocalQueue::started`] will tell when to wake the sender.
    pub fn is_blocked(&self) -> bool {
        self.wake_below.is_some()
    }

    /// The sender is not held back any more.
    #[inline]
    pub fn unblock(&mut self) {
        self.wake_below = None;
    }

    /// Forgets what has left by `now`.
    #[inline]
    pub fn expire(&mut self, now: Time) {
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
    pub fn block(&mut self, limit: u64, quantum: u64) -> Time {
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
}

/// The state of a flow.
pub(crate) struct Flow {
    pub transport: Transport,
    pub algorithm: Option<Algorithm>,
    pub start: Time,
    /// Where its path and its reverse path begin in the routes.
    pub forward_start: u32,
    pub reverse_start: u32,
    pub first_link: usize,
    /// How long the receiving host takes to answer.
    pub processing: Option<Processing>,
    /// The first link is evented: what becomes of a packet there is not known when it enters.
    pub first_evented: bool,
    pub dscp: u8,
    pub connection: Option<Box<Connection>>,
    pub connection_number: u8,
    pub transfers: Transfers,
    pub next_job: Option<Job>,
    /// Its next transfer waits for others of its user; its own last one ended then.
    pub waiting: Option<Time>,
    pub active: Option<Active>,
    pub writing: bool,
    pub cbr: Option<CbrClock>,
    pub datagrams: u32,
    pub last_sent: Time,
    pub local: LocalQueue,
    pub local_limited: bool,
    pub wake: Time,
    pub started: bool,
    pub finished: bool,
    /// Totals of the closed connections, and what is counted outside of a connection.
    pub base: Totals,
    /// `(delivered_bytes, sent_ip_bytes)` at the last goodput sample.
    pub sampled: (u64, u64),
    /// When packets are lost that passed fused links ahead of the clock.
    losses_ahead: BinaryHeap<Reverse<Time>>,
}

impl Flow {
    pub fn new(plan: &weir_plan::Flow, algorithm: Option<Algorithm>, starts: (u32, u32)) -> Flow {
        let start = Time(plan.start_ns);
        let cbr = match (&plan.source, &plan.transport) {
            (Source::Cbr(cbr), Transport::Udp(udp)) => {
                Some(CbrClock::new(cbr, udp.payload_bytes + UDP_HEADERS, start, plan.stop_ns))
            }
            _ => None,
        };
        let local_limited = matches!(&plan.transport, Transport::Tcp(tcp) if tcp.stack == Stack::Linux);
        Flow {
            transport: plan.transport.clone(),
            algorithm,
            start,
            forward_start: starts.0,
            reverse_start: starts.1,
            first_link: plan.path[0] as usize,
            first_evented: false,
            processing: None,
            dscp: plan.dscp,
            connection: None,
            connection_number: 0,
            transfers: Transfers::new(&plan.source, plan.stop_ns),
            next_job: None,
            waiting: None,
            active: None,
            writing: false,
            cbr,
            datagrams: 0,
            last_sent: Time::ZERO,
            local: LocalQueue::default(),
            local_limited,
            wake: Time::MAX,
            started: false,
            finished: false,
            base: Totals::default(),
            sampled: (0, 0),
            losses_ahead: BinaryHeap::new(),
        }
    }

    /// Whether a packet that is on `link` counts in the flow's share of its host's queue, until it departs.
    #[inline]
    pub fn counts_in_local_queue(&self, link: u32, packet: &Packet) -> bool {
        self.first_evented
            && self.local_limited
            && self.first_link == link as usize
            && packet.kind() == Kind::Data
            && packet.connection() == self.connection_number
    }

    /// A packet is lost at `at`.
    pub fn lose(&mut self, now: Time, at: Time) {
        self.settle_losses(now);
        if at > now {
            self.losses_ahead.push(Reverse(at));
        } else {
            self.base.lost_packets += 1;
        }
    }

    /// Counts the losses that the clock has reached.
    pub fn settle_losses(&mut self, now: Time) {
        while self.losses_ahead.peek().is_some_and(|Reverse(at)| *at <= now) {
            self.losses_ahead.pop();
            self.base.lost_packets += 1;
        }
    }

    pub fn tcp(&self) -> Option<&Tcp> {
        match &self.transport {
            Transport::Tcp(tcp) => Some(tcp),
            Transport::Udp(_) => None,
        }
    }

    /// Everything up to now.
    pub fn totals(&self) -> Totals {
        let mut totals = self.base;
        if let Some(connection) = &self.connection {
            let counters = connection.sender.counters();
            totals.delivered_bytes += connection.receiver.delivered_bytes();
            totals.acked_bytes += connection.sender.acked_bytes();
            totals.sent_ip_bytes += counters.sent_bytes + counters.sent_packets * u64::from(connection.headers);
            totals.counters.sent_bytes += counters.sent_bytes;
            totals.counters.sent_packets += counters.sent_packets;
            totals.counters.retransmitted_packets += counters.retransmitted_packets;
            totals.counters.timeouts += counters.timeouts;
        }
        totals
    }

    /// Closes the connection; its totals are kept.
    pub fn close(&mut self) {
        self.base = self.totals();
        self.connection = None;
    }

    /// When the application or the sender wants to act next.
    #[inline]
    pub fn due(&self) -> Time {
        let mut due = self.wake;
        if let Some(connection) = &self.connection {
            due = due.min(connection.sender.deadline());
        }
        if self.writing {
            due = due.min(self.transfers.stop());
        }
        match &self.next_job {
            Some(job) if self.active.is_none() => due.min(job.at),
            _ => due,
        }
    }
}

/// Bytes of IPv4 and UDP headers.
pub(crate) const UDP_HEADERS: u32 = 20 + 8;
