//! The state that all endpoints share.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::SocketAddr;

use weir_plan::Flow;
use weir_protocol::{Host, Job};
use weir_sys::clock;
use weir_sys::epoll::Epoll;
use weir_sys::netns::Namespaces;
use weir_sys::pages::Zeros;
use weir_sys::probes::Probes;
use weir_traffic::Waits;
use weir_units::Time;

use crate::error::AgentError;
use crate::schedule::{Schedule, Slot};
use crate::telemetry::Telemetry;

/// Maximum bytes of one write. On a path without delay, a write lasts until the receiver has the data, and due work
/// waits.
pub const WRITE_BYTES: usize = 1 << 20;
/// Events taken from the kernel at a time.
const EVENTS: usize = 256;

/// Delay of the report of a failure that another end causes. If the plan ends meanwhile, the other end merely left
/// first.
const GRACE_NS: u64 = 500_000_000;

/// Opens the maps of probes; warns of those that the kernel does not show.
fn probes_of(job: &Job) -> (BTreeMap<String, Probes>, Vec<String>) {
    let (mut probes, mut warnings) = (BTreeMap::new(), Vec::new());
    for (cc, &id) in &job.probes {
        let found = if id == 0 { Ok(Probes::Module) } else { Probes::of_map(id) };
        match found {
            Ok(found) => drop(probes.insert(cc.clone(), found)),
            Err(error) => warnings.push(format!("cc: {cc}: its probes are not sampled: {error}")),
        }
    }
    (probes, warnings)
}

/// The part of a session that its endpoints use.
pub struct Context {
    /// The job.
    pub job: Job,
    /// The watched descriptors.
    pub epoll: Epoll,
    /// The namespaces of sockets.
    pub namespaces: Namespaces,
    /// The collected rows.
    pub telemetry: Telemetry,
    /// Where the probes of congestion controls are, by their names in the plan.
    pub probes: BTreeMap<String, Probes>,
    /// The instants at which endpoints are woken.
    pub schedule: Schedule,
    /// The payload.
    pub zeros: Zeros,
    /// Instant 0 of the plan on `CLOCK_MONOTONIC`; `None` before the start is known.
    pub epoch_ns: Option<u64>,
    /// The present, at the last reading of the clock; 0 before the start.
    pub now: Time,
    /// Whether the plan has begun.
    pub begun: bool,
    /// Endpoints that could write more, and wait for their next turn.
    pub hungry: Vec<u32>,
    /// The dependencies of transfers that are sent from here.
    pub waits: Waits,
    /// Flows with a transfer that has ended, or never will: other transfers may wait for it.
    pub came: Vec<u32>,
    /// Warnings that were not yet sent.
    pub warnings: Vec<String>,
    /// Connections and datagrams that did not carry the run's token.
    pub strangers: u64,
    /// A failure, and the instant at which it becomes final.
    pub failure: Option<(Time, AgentError)>,
}

impl Context {
    /// Creates the context of a job that has not begun.
    ///
    /// # Errors
    /// The process has no descriptor or memory left.
    pub fn new(job: Job) -> Result<Context, AgentError> {
        let (probes, warnings) = probes_of(&job);
        Ok(Context {
            epoll: Epoll::new(EVENTS)?,
            namespaces: Namespaces::default(),
            telemetry: Telemetry::new(job.plan.flows.len()),
            probes,
            schedule: Schedule::default(),
            zeros: Zeros::new(WRITE_BYTES)?,
            epoch_ns: None,
            now: Time::ZERO,
            begun: false,
            hungry: Vec::new(),
            waits: Waits::new(&job.plan),
            came: Vec::new(),
            warnings,
            strangers: 0,
            failure: None,
            job,
        })
    }

    /// The flow with this number.
    pub fn flow(&self, flow: u32) -> &Flow {
        &self.job.plan.flows[flow as usize]
    }

    /// The host of a node with a flow.
    pub fn host(&self, node: u32) -> &Host {
        self.job.host(node).expect("the job was checked: it has every host that a flow uses")
    }

    /// The address of a flow's receiver.
    pub fn receiver(&self, flow: u32) -> SocketAddr {
        SocketAddr::new(self.host(self.flow(flow).to).address, self.job.port(flow))
    }

    /// `flow NAME from HOST to HOST`, for messages.
    pub fn describe(&self, flow: u32) -> String {
        let Flow { name, from, to, .. } = self.flow(flow);
        let host = |node: &u32| format!("{} ({})", self.job.plan.nodes[*node as usize].name, self.host(*node).address);
        format!("flow {name} from {} to {}", host(from), host(to))
    }

    /// Converts an instant of `CLOCK_MONOTONIC` to the plan's time.
    pub fn plan_time(&self, monotonic_ns: u64) -> Time {
        Time(monotonic_ns.saturating_sub(self.epoch_ns.unwrap_or(u64::MAX)))
    }

    /// Reads the clock.
    pub fn read_clock(&mut self) {
        let now = clock::monotonic_ns();
        self.begun = self.epoch_ns.is_some_and(|epoch| now >= epoch);
        self.now = self.plan_time(now);
    }

    /// Warns that a figure of this run is untrustworthy.
    pub fn warn(&mut self, text: String) {
        self.warnings.push(text);
    }

    /// Counts a stranger that came to the receiver of `flow`, and warns of the first one.
    pub fn refuse(&mut self, flow: u32, what: &dyn Display) {
        self.strangers += 1;
        if self.strangers == 1 {
            let place = self.describe(flow);
            self.warn(format!(
                "{place}: {what} did not carry the token of this run and was refused: somebody else sends to port {}; \
                 others are only counted, as `strangers`",
                self.job.port(flow)
            ));
        }
    }

    /// Fails the run, unless the plan is about to end.
    pub fn fail(&mut self, text: String) {
        if self.failure.is_none() {
            self.read_clock();
            let at = Time(self.now.0 + GRACE_NS);
            self.failure = Some((at, AgentError(text)));
            self.schedule.add(at, Slot::Failure);
        }
    }
}
