//! What all endpoints share.

use std::net::SocketAddr;

use weir_plan::Flow;
use weir_protocol::{Host, Job};
use weir_sys::clock;
use weir_sys::epoll::Epoll;
use weir_sys::netns::Namespaces;
use weir_sys::pages::Zeros;
use weir_traffic::Waits;
use weir_units::Time;

use crate::error::AgentError;
use crate::schedule::{Schedule, Slot};
use crate::telemetry::Telemetry;

/// Most bytes of one write: on a path without delay it lasts as long as the receiver takes, and whatever is due waits.
pub const WRITE_BYTES: usize = 1 << 20;
/// Events taken from the kernel at a time.
const EVENTS: usize = 256;

/// A failure that another end causes is held back this long: if the plan ends meanwhile, the other end has just left
/// first.
const GRACE_NS: u64 = 500_000_000;

/// The part of a session that its endpoints use.
pub struct Context {
    /// The job.
    pub job: Job,
    /// Who is watched.
    pub epoll: Epoll,
    /// Where sockets are opened.
    pub namespaces: Namespaces,
    /// Where rows go.
    pub telemetry: Telemetry,
    /// Who is woken when.
    pub schedule: Schedule,
    /// What is sent.
    pub zeros: Zeros,
    /// Instant 0 of the plan on `CLOCK_MONOTONIC`; none before the start is known.
    pub epoch_ns: Option<u64>,
    /// The present, as of the last look at the clock; 0 before the start.
    pub now: Time,
    /// Whether the plan has begun.
    pub begun: bool,
    /// Endpoints that could write more, and let others have their turn.
    pub hungry: Vec<u32>,
    /// What transfers of flows that are sent from here wait for.
    pub waits: Waits,
    /// Flows of which a transfer has ended, or will never: others may wait for it.
    pub came: Vec<u32>,
    /// What makes numbers untrustworthy and was not told yet.
    pub warnings: Vec<String>,
    /// Why the run cannot go on, and from when on that is final.
    pub failure: Option<(Time, AgentError)>,
}

impl Context {
    /// The context of a job that has not begun.
    ///
    /// # Errors
    /// When the process may have no more descriptors or memory.
    pub fn new(job: Job) -> Result<Context, AgentError> {
        Ok(Context {
            epoll: Epoll::new(EVENTS)?,
            namespaces: Namespaces::default(),
            telemetry: Telemetry::new(job.plan.flows.len()),
            schedule: Schedule::default(),
            zeros: Zeros::new(WRITE_BYTES)?,
            epoch_ns: None,
            now: Time::ZERO,
            begun: false,
            hungry: Vec::new(),
            waits: Waits::new(&job.plan),
            came: Vec::new(),
            warnings: Vec::new(),
            failure: None,
            job,
        })
    }

    /// The flow with this number.
    pub fn flow(&self, flow: u32) -> &Flow {
        &self.job.plan.flows[flow as usize]
    }

    /// The host at a node that a flow uses.
    pub fn host(&self, node: u32) -> &Host {
        self.job.host(node).expect("the job was checked: it has every host that a flow uses")
    }

    /// Where a flow's receiver is.
    pub fn receiver(&self, flow: u32) -> SocketAddr {
        SocketAddr::new(self.host(self.flow(flow).to).address, self.job.port(flow))
    }

    /// `flow NAME from HOST to HOST`, for messages.
    pub fn describe(&self, flow: u32) -> String {
        let Flow { name, from, to, .. } = self.flow(flow);
        let host = |node: &u32| format!("{} ({})", self.job.plan.nodes[*node as usize].name, self.host(*node).address);
        format!("flow {name} from {} to {}", host(from), host(to))
    }

    /// An instant of `CLOCK_MONOTONIC` as one of the plan.
    pub fn plan_time(&self, monotonic_ns: u64) -> Time {
        Time(monotonic_ns.saturating_sub(self.epoch_ns.unwrap_or(u64::MAX)))
    }

    /// Reads the clock.
    pub fn read_clock(&mut self) {
        let now = clock::monotonic_ns();
        self.begun = self.epoch_ns.is_some_and(|epoch| now >= epoch);
        self.now = self.plan_time(now);
    }

    /// Says that a number of this run is untrustworthy.
    pub fn warn(&mut self, text: String) {
        self.warnings.push(text);
    }

    /// The run cannot go on, unless it is about to end anyway.
    pub fn fail(&mut self, text: String) {
        if self.failure.is_none() {
            self.read_clock();
            let at = Time(self.now.0 + GRACE_NS);
            self.failure = Some((at, AgentError(text)));
            self.schedule.add(at, Slot::Failure);
        }
    }
}
