//! A flow: its two ends and its totals.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_cc::Algorithm;
use weir_plan::{Stack, Tcp, Transport};
use weir_units::{Time, fetch_first};

use crate::application::Application;
use crate::connection::{Connection, Totals};
use crate::error::SimError;
use crate::local_queue::LocalQueue;
use crate::packet::{Kind, Packet};
use crate::processing::Processing;
use crate::sack_work::SackWork;

/// The state of a flow; what each visit of one of its ends needs comes first ([`Flow::fetch`]).
#[repr(C)]
pub(crate) struct Flow {
    pub connection: Option<Box<Connection>>,
    pub first_link: usize,
    /// Places in the routes at which its path and its reverse path begin.
    pub forward_start: u32,
    pub reverse_start: u32,
    pub connection_number: u8,
    pub dscp: u8,
    pub local_limited: bool,
    pub wake: Time,
    /// [`Application::due`], cached because every acknowledgement asks for it.
    pub application_due: Time,
    pub local: LocalQueue,
    /// Processing times of the receiving host.
    pub processing: Option<Processing>,

    /// When its sending host ends the work for its acknowledgement.
    pub work_due: Time,
    /// The work of its sending host for selective acknowledgements, if it takes time.
    pub work: Option<SackWork>,
    pub application: Application,
    pub started: bool,
    pub finished: bool,
    /// Whether the first link is evented, so that departures are not known at arrival.
    pub first_evented: bool,
    /// Whether its data take time at their host, so that they come to the first link later.
    pub held: bool,
    /// Pacing releases trains of segments.
    trains: bool,
    /// Whether table `probes` has it.
    pub probed: bool,
    /// Whether table `acks` has it.
    pub recorded: bool,
    /// Totals of the closed connections, and counts that belong to no connection.
    pub base: Totals,
    /// `(delivered_bytes, sent_ip_bytes)` at the last goodput sample.
    pub sampled: (u64, u64),
    /// Times of losses on fused links, ahead of the clock.
    losses_ahead: BinaryHeap<Reverse<Time>>,
    pub start: Time,
    /// For TCP: settings and congestion control of its connections.
    pub tcp: Option<Box<(Tcp, Algorithm)>>,
    /// Seed of its congestion controls.
    seed: u32,
}

/// Bytes of a flow that each visit of one of its ends needs.
const VISITED_BYTES: usize = std::mem::offset_of!(Flow, work_due);

impl Flow {
    /// A flow of a plan before its start; `algorithm` for TCP; `starts`: the places of its path and reverse path.
    ///
    /// # Errors
    /// As [`Application::of`].
    pub fn new(plan: &weir_plan::Flow, algorithm: Option<Algorithm>, starts: (u32, u32)) -> Result<Flow, SimError> {
        let tcp = match &plan.transport {
            Transport::Tcp(tcp) => algorithm.map(|algorithm| Box::new((tcp.clone(), algorithm))),
            Transport::Udp(_)
            | Transport::Quic(_)
            | Transport::Tfrc(_)
            | Transport::Mptcp(_)
            | Transport::Sctp(_)
            | Transport::Dccp(_)
            | Transport::Udt(_) => None,
        };
        Ok(Flow {
            start: Time(plan.start_ns),
            forward_start: starts.0,
            reverse_start: starts.1,
            first_link: plan.path[0] as usize,
            first_evented: false,
            held: false,
            processing: None,
            work: None,
            work_due: Time::MAX,
            dscp: plan.dscp,
            connection: None,
            connection_number: 0,
            application: Application::of(plan)?,
            application_due: Time::MAX,
            local: LocalQueue::default(),
            local_limited: tcp.as_ref().is_some_and(|tcp| tcp.0.stack == Stack::Linux),
            wake: Time::MAX,
            started: false,
            finished: false,
            base: Totals::default(),
            sampled: (0, 0),
            losses_ahead: BinaryHeap::new(),
            seed: 0,
            trains: false,
            probed: false,
            recorded: false,
            tcp,
        })
    }

    /// Fetches what each visit of one of its ends needs into the cache.
    #[inline]
    pub fn fetch(&self) {
        fetch_first(self, VISITED_BYTES);
    }

    /// Seeds its congestion controls.
    pub fn seeded(mut self, seed: u32) -> Flow {
        self.seed = seed;
        self
    }

    /// Sends trains of segments where pacing spaces what it sends.
    pub fn in_trains(mut self, trains: bool) -> Flow {
        self.trains = trains;
        self.local = LocalQueue::new(trains);
        self
    }

    /// Whether a packet on `link` counts in the flow's share of its host's queue until it departs.
    #[inline]
    pub fn counts_in_local_queue(&self, link: u32, packet: &Packet) -> bool {
        self.first_evented
            && self.local_limited
            && self.first_link == link as usize
            && packet.kind() == Kind::Data
            && packet.connection() == self.connection_number
    }

    /// Counts a packet lost at `at`, which may be ahead of the clock.
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

    /// Totals up to now.
    pub fn totals(&self) -> Totals {
        let mut totals = self.base;
        if let Some(connection) = &self.connection {
            totals.add(connection);
        }
        totals
    }

    /// Whether it has opened a connection.
    pub fn has_connection(&self) -> bool {
        match &self.application {
            Application::Udt(udt) => udt.opened,
            _ => self.connection.is_some(),
        }
    }

    /// Opens a connection in place of the previous one, and keeps the totals.
    pub fn open(&mut self) {
        if let Application::Udt(udt) = &mut self.application {
            self.connection_number = self.connection_number.wrapping_add(1);
            udt.open();
            return;
        }
        let Some(tcp) = &self.tcp else { unreachable!("only flows over TCP and UDT have transfers") };
        let mut connection = Box::new(Connection::new(&tcp.0, &tcp.1));
        connection.sender.seed(self.seed.wrapping_add(u32::from(self.connection_number)));
        if self.trains {
            connection.sender.send_trains();
        }
        if self.probed {
            connection.sender.keep_probes();
        }
        if self.recorded {
            connection.sender.keep_samples();
        }
        self.base = self.totals();
        self.connection = Some(connection);
        self.connection_number = self.connection_number.wrapping_add(1);
        self.local = LocalQueue::new(self.trains);
    }

    /// Updates the next instant of the application.
    pub fn application_changed(&mut self) {
        self.application_due = self.application.due();
    }

    /// The next instant at which the application, the sender or its host acts.
    #[inline]
    pub fn due(&self) -> Time {
        let due = self.wake.min(self.application_due).min(self.work_due);
        match &self.connection {
            Some(connection) => due.min(connection.sender.deadline()),
            None => due,
        }
    }
}
