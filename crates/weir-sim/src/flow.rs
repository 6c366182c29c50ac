//! The two ends of a flow, and what it reports.

use weir_cc::Algorithm;
use weir_elements::Ring;
use weir_plan::{Source, Stack, Tcp, Transport};
use weir_tcp::{Counters, Receiver, Sender};
use weir_traffic::{CbrClock, Job, Transfers};
use weir_units::Time;

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
#[derive(Default)]
pub(crate) struct LocalQueue {
    departures: Ring<(Time, u32)>,
    pub bytes: u64,
}

impl LocalQueue {
    #[inline]
    pub fn push(&mut self, departure: Time, bytes: u32) {
        self.departures.push((departure, bytes));
        self.bytes += u64::from(bytes);
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

    /// When less than `limit` is left, and at least `quantum` has gone.
    pub fn room_at(&self, limit: u64, quantum: u64) -> Time {
        let mut left = self.bytes;
        for &(departure, bytes) in self.departures.iter() {
            left -= u64::from(bytes);
            if left < limit && self.bytes - left >= quantum {
                return departure;
            }
        }
        self.departures.back().map_or(Time::MAX, |(departure, _)| *departure)
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
    pub dscp: u8,
    pub connection: Option<Box<Connection>>,
    pub connection_number: u8,
    pub transfers: Transfers,
    pub next_job: Option<Job>,
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
            dscp: plan.dscp,
            connection: None,
            connection_number: 0,
            transfers: Transfers::new(&plan.source, plan.stop_ns),
            next_job: None,
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
