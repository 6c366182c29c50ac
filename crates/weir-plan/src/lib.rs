//! The plan, which every method executes.
//!
//! A scenario is compiled into one plan per cell of its sweep and per repeat. A plan is concrete: nodes, directed
//! links, flows with their paths, start times and sizes; all random draws of the workload are already made. It is JSON;
//! its schema is generated from these types. Units are in the names: `_ns` nanoseconds, `_bps` bits per second,
//! `_bytes` bytes.
//!
//! Plans have no behaviour except the check of their own consistency, and the course of a rate profile, which simulator and
//! agent share. The crate of the elements defines their parameters.

mod flow;
mod host;
mod link;
mod methods;
mod pages;
mod rates;
mod switch;
mod validate;

pub use flow::{
    Ack, After, Cbr, DCCP_CONTROLS, Dccp, Flow, LEAST_DCCP_BYTES, LEAST_TFRC_BYTES, Native, Programs, QUIC_CONTROLS,
    Quic, RateStep, Ready, Report, Role, SCTP_CONTROLS, Sender, Source, Stack, Tcp, Tfrc, Transfer, Transport,
    UDT_HEADERS, Udp, Udt, VARIABLES,
};
pub use host::{Capacity, Disk, HostMemory, PacketWork, Processor};
pub use link::{Change, ChangeKind, Link};
pub use methods::{
    EmulLinks, EmulOffload, EmulOptions, LabLinks, LabOptions, Methods, Offload, SimOffload, SimOptions,
};
pub use rates::Rates;
pub use switch::{Arbiter, Forwarding, Hold, Memory, Pause, Switch, Weight};
pub use validate::PlanError;
pub use weir_elements::plan::*;
pub use weir_elements::{CodelParams, Delay, Limit, Loss, Mark, Queue, RedCurve};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One concrete experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Version of this format; 1.
    pub version: u32,
    /// Title of the scenario.
    pub title: String,
    /// Seed of all randomness while the plan runs (loss, jitter, RED). Differs between repeats.
    pub seed: u64,
    /// The run ends at this instant.
    pub end_ns: u64,
    /// Nodes; links name them by index.
    pub nodes: Vec<Node>,
    /// Directed links; flows name them by index.
    pub links: Vec<Link>,
    /// Flows, in the order of their start.
    pub flows: Vec<Flow>,
    /// Changes of links while the plan runs, in the order of their time.
    #[serde(default)]
    pub changes: Vec<Change>,
    /// The measurements and their intervals.
    pub measure: Measure,
    /// Named windows for metrics.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// Options of methods.
    #[serde(default)]
    pub methods: Methods,
}

/// A node of the topology.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Unique name, such as `src3`.
    pub name: String,
    /// Whether flows may start or end here.
    pub kind: NodeKind,
    /// A router that holds packets in a memory until an arbiter forwards them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<Switch>,
    /// What a host's components can do; none: they take no time. Only for the simulator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
}

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// An end host with a transport stack.
    Host,
    /// Forwards packets.
    Router,
}

/// The measurements and their intervals. An interval of 0 switches a table off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Interval of table `goodput`.
    pub goodput_ns: u64,
    /// Interval of table `samples` (TCP_INFO-like state of each sender).
    pub tcp_ns: u64,
    /// Interval of table `links`.
    pub links_ns: u64,
    /// Interval of tables `delays` and `delay_bins`. Omitted at 0, as in plans from before this field.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delay_ns: u64,
    /// Indices of the recorded links; empty: all.
    #[serde(default)]
    pub links: Vec<u32>,
    /// Per-packet trace.
    #[serde(default)]
    pub trace: Option<Trace>,
    /// Table `acks`. Omitted without, as in plans from before this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acks: Option<AckRecord>,
}

fn is_zero(interval_ns: &u64) -> bool {
    *interval_ns == 0
}

/// A per-packet trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// Indices of the traced flows; empty: all.
    #[serde(default)]
    pub flows: Vec<u32>,
    /// Start of the traced window.
    pub from_ns: u64,
    /// End of the traced window.
    pub to_ns: u64,
    /// Maximum number of packets.
    pub max_packets: u64,
}

/// A record of every acknowledgement and transmission: table `acks`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AckRecord {
    /// Indices of the recorded TCP flows; empty: all.
    #[serde(default)]
    pub flows: Vec<u32>,
    /// Start of the recorded window.
    pub from_ns: u64,
    /// End of the recorded window.
    pub to_ns: u64,
    /// Maximum number of rows; recording ends there.
    pub max_rows: u64,
}

/// A named window for metrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Unique name.
    pub name: String,
    /// Start, inclusive.
    pub from_ns: u64,
    /// End, exclusive.
    pub to_ns: u64,
}

impl Plan {
    /// Reads a plan and checks it.
    ///
    /// # Errors
    /// When the text is not JSON of this schema, or the plan contradicts itself; the error says where.
    pub fn from_json(text: &str) -> Result<Plan, PlanError> {
        let plan: Plan = serde_json::from_str(text).map_err(|e| PlanError::new("plan", e.to_string()))?;
        plan.validate()?;
        Ok(plan)
    }

    /// The users with transfers that wait for each other: for each, its connections as indices of flows.
    pub fn users(&self) -> Vec<Vec<usize>> {
        pages::users(&self.flows)
    }

    /// The plan as canonical JSON: the text from which a manifest's `plan_hash` is computed.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a plan holds no map with non-string keys")
    }
}

/// What the elements of links say of themselves, as JSON: a list in the order in which a packet passes them.
pub fn elements() -> serde_json::Value {
    serde_json::to_value(weir_elements::elements().collect::<Vec<_>>()).expect("a declaration is JSON")
}

/// The JSON schema of a plan.
pub fn schema() -> serde_json::Value {
    serde_json::to_value(schemars::schema_for!(Plan)).expect("a schema is JSON")
}
