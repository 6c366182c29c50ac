//! Switches: nodes that hold packets in a memory until an arbiter forwards them.
//!
//! A switch has an input port for each link that reaches its node, and an output port for each link that leaves it. With
//! the arbiter `fifo`, the memory has one queue for each output port, in the order of arrival. With all others it has one
//! for each pair of input and output port. Sizes count bytes on the wire of the output port; a packet leaves the memory
//! when its transmission begins.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::validate::check;
use crate::{Change, ChangeKind, Link, Plan, PlanError};
use weir_elements::Delay;

/// What makes a router a switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// The memory.
    pub memory: Memory,
    /// After it has dropped a packet, a queue takes the next one when there is room for this much more.
    #[serde(default)]
    pub resume_bytes: u64,
    /// The choice among packets that wait for an output port.
    pub arbiter: Arbiter,
    /// When a packet may be forwarded.
    #[serde(default)]
    pub forwarding: Forwarding,
    /// Largest time that a packet spends in the fabric before it enters the memory, uniformly distributed. Packets of an
    /// input port stay in order.
    #[serde(default)]
    pub jitter_ns: u64,
    /// IEEE 802.3 flow control.
    #[serde(default)]
    pub pause: Option<Pause>,
}

/// The memory of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Memory {
    /// All queues share it. A queue may hold at most `alpha` times the free memory (Choudhury and Hahne, "Dynamic queue
    /// length thresholds for shared-memory packet switches", IEEE/ACM Transactions on Networking 6(2), 1998).
    Shared {
        /// Size.
        bytes: u64,
        /// The factor; none: a queue may take all of it.
        alpha: Option<f64>,
    },
    /// Each queue has its own.
    Partitioned {
        /// Size of each.
        bytes: u64,
    },
    /// Each queue has its own, and takes more from a shared part when that is full.
    Mixed {
        /// Size of each queue's own part.
        reserved_bytes: u64,
        /// Size of the shared part.
        shared_bytes: u64,
        /// As in a shared memory, of the shared part.
        alpha: Option<f64>,
    },
}

/// The choice among packets that wait for an output port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Arbiter {
    /// The packet that arrived first.
    Fifo,
    /// A packet from each input in turn.
    RoundRobin,
    /// Inputs get bytes in proportion to their weights: self-clocked fair queueing (Golestani, INFOCOM 1994).
    Weighted {
        /// By input: weights of the links that reach the switch; 1 for others.
        weights: Vec<Weight>,
    },
    /// iSLIP (McKeown, IEEE/ACM Transactions on Networking 7(2), 1999) for whole packets: an input sends to one output at
    /// a time.
    Islip {
        /// Rounds of request, grant and accept at an instant.
        iterations: u32,
    },
    /// Parallel iterative matching (Anderson et al., ACM Transactions on Computer Systems 11(4), 1993) for whole packets.
    Pim {
        /// Rounds of request, grant and accept at an instant.
        iterations: u32,
    },
    /// Forwards one input for a time, then another one chosen at random. The others get what it leaves.
    Bursty {
        /// The time.
        hold: Hold,
    },
}

/// The weight of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Weight {
    /// Index of the link that reaches the switch.
    pub link: u32,
    /// Its weight.
    pub weight: u32,
}

/// The law of the times for which a bursty arbiter keeps to an input.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Hold {
    /// Always the same.
    Fixed {
        /// The time.
        mean_ns: u64,
    },
    /// Exponentially distributed.
    Exponential {
        /// Mean.
        mean_ns: u64,
    },
    /// Pareto distributed.
    Pareto {
        /// Mean.
        mean_ns: u64,
        /// Shape, above 1.
        shape: f64,
    },
}

impl Hold {
    /// The mean.
    pub fn mean_ns(&self) -> u64 {
        match *self {
            Hold::Fixed { mean_ns } | Hold::Exponential { mean_ns } | Hold::Pareto { mean_ns, .. } => mean_ns,
        }
    }
}

/// When a packet may be forwarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Forwarding {
    /// When its last bit has arrived.
    #[default]
    StoreAndForward,
    /// When its first 64 bytes have arrived.
    CutThrough,
}

/// IEEE 802.3 flow control: the switch stops the sender of a link while the link's packets fill its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// Bytes of an input in the memory at which its sender is stopped.
    pub high_bytes: u64,
    /// Bytes at which it may send again.
    pub low_bytes: u64,
}

/// Verifies the switches of a plan.
pub(crate) fn validate(plan: &Plan) -> Result<(), PlanError> {
    for (number, node) in (0u32..).zip(&plan.nodes) {
        let Some(switch) = &node.switch else { continue };
        let at = |field: &str| format!("nodes[{number}] ({}).switch.{field}", node.name);
        check(node.kind == crate::NodeKind::Router, || at("kind"), "a host is no switch")?;
        check_memory(&switch.memory).map_err(|problem| PlanError::new(at("memory"), problem))?;
        check_arbiter(&switch.arbiter, plan, number).map_err(|problem| PlanError::new(at("arbiter"), problem))?;
        if let Some(pause) = &switch.pause {
            check(pause.low_bytes < pause.high_bytes, || at("pause"), "low_bytes must be below high_bytes")?;
            check_inputs(plan, number, true).map_err(|problem| PlanError::new(at("pause"), problem))?;
        }
        if switch.forwarding == Forwarding::CutThrough {
            check_inputs(plan, number, false).map_err(|problem| PlanError::new(at("forwarding"), problem))?;
            check_rates(plan, number).map_err(|problem| PlanError::new(at("forwarding"), problem))?;
        }
    }
    Ok(())
}

fn check_memory(memory: &Memory) -> Result<(), String> {
    let (sizes, alpha) = match *memory {
        Memory::Shared { bytes, alpha } => ([bytes, bytes], alpha),
        Memory::Partitioned { bytes } => ([bytes, bytes], None),
        Memory::Mixed { reserved_bytes, shared_bytes, alpha } => ([reserved_bytes, shared_bytes], alpha),
    };
    if sizes.contains(&0) {
        return Err("must not be empty".into());
    }
    match alpha {
        Some(alpha) if !(alpha.is_finite() && alpha > 0.0) => Err("alpha must be positive".into()),
        _ => Ok(()),
    }
}

fn check_arbiter(arbiter: &Arbiter, plan: &Plan, node: u32) -> Result<(), String> {
    match arbiter {
        Arbiter::Fifo | Arbiter::RoundRobin => Ok(()),
        Arbiter::Weighted { weights } => match weights.iter().find(|weight| !is_input(plan, node, weight)) {
            Some(weight) if weight.weight == 0 => Err(format!("the weight of link {} must not be zero", weight.link)),
            Some(weight) => Err(format!("link {} does not reach the switch", weight.link)),
            None => Ok(()),
        },
        Arbiter::Islip { iterations } | Arbiter::Pim { iterations } if *iterations == 0 => {
            Err("iterations must not be zero".into())
        }
        Arbiter::Islip { .. } | Arbiter::Pim { .. } => Ok(()),
        Arbiter::Bursty { hold } => match hold {
            _ if hold.mean_ns() == 0 => Err("hold.mean_ns must not be zero".into()),
            Hold::Pareto { shape, .. } if !(shape.is_finite() && *shape > 1.0) => {
                Err("hold.shape must be above 1, else there is no mean".into())
            }
            _ => Ok(()),
        },
    }
}

fn is_input(plan: &Plan, node: u32, weight: &Weight) -> bool {
    weight.weight > 0 && plan.links.get(weight.link as usize).is_some_and(|link| link.to == node)
}

/// Whether the inputs of a switch permit PAUSE, or cut-through forwarding.
fn check_inputs(plan: &Plan, node: u32, pause: bool) -> Result<(), String> {
    let changes = |index: u32, change: &Change| {
        change.link == index && (!pause || matches!(change.change, ChangeKind::Rate { .. }))
    };
    for (index, link) in (0u32..).zip(&plan.links).filter(|(_, link)| link.to == node) {
        if plan.changes.iter().any(|change| changes(index, change)) {
            return Err(format!("its input {} changes during the run", link.name));
        }
        if pause && way_back(plan, link).is_none() {
            return Err(format!("no link leads back over its input {}", link.name));
        }
        if !pause && !matches!(link.delay, Delay::Fixed { .. }) {
            return Err(format!("its input {} has no fixed delay", link.name));
        }
    }
    Ok(())
}

/// A packet that is cut through must not run dry: its output is not faster than its input.
fn check_rates(plan: &Plan, node: u32) -> Result<(), String> {
    let inputs = plan.links.iter().filter(|link| link.to == node);
    let slowest = inputs.min_by_key(|link| link.rate_bps);
    let outputs = plan.links.iter().filter(|link| link.from == node);
    match (slowest, outputs.max_by_key(|link| link.rate_bps)) {
        (Some(input), Some(output)) if output.rate_bps > input.rate_bps => {
            Err(format!("its output {} is faster than its input {}", output.name, input.name))
        }
        _ => Ok(()),
    }
}

/// The link in the other direction.
pub(crate) fn way_back<'a>(plan: &'a Plan, link: &Link) -> Option<&'a Link> {
    plan.links.iter().find(|other| other.from == link.to && other.to == link.from)
}

impl Plan {
    /// The time from the decision of a switch to pause the sender of one of its inputs until the sender obeys: the
    /// transmission of a PAUSE frame and its propagation over the link in the other direction. None without that link.
    pub fn pause_delay_ns(&self, link: u32) -> Option<u64> {
        /// A frame of 64 bytes, with preamble and gap.
        const FRAME_BYTES: u64 = 84;
        let back = way_back(self, &self.links[link as usize])?;
        let transmission = FRAME_BYTES * 8 * 1_000_000_000 / back.rate_bps;
        Some(transmission + back.delay.max_ns())
    }

    /// The switch that a link reaches.
    pub fn switch_after(&self, link: &Link) -> Option<&Switch> {
        self.nodes[link.to as usize].switch.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The problem of a plan with a host `a`, a switch `s` and a host `b`, of which `change` spoils something.
    fn problem(change: impl FnOnce(&mut Plan)) -> Option<String> {
        let link = |name: &str, from: u32, to: u32| {
            format!(
                r#"{{"name": "{name}", "from": {from}, "to": {to}, "rate_bps": 1000000, "overhead_bytes": 38,
                "mtu_bytes": 1500, "delay": {{"kind": "fixed", "delay_ns": 0}},
                "queue": {{"kind": "droptail", "limit": {{"bytes": null, "packets": 9}}}}}}"#
            )
        };
        let links = [link("up", 0, 1), link("down", 1, 0), link("on", 1, 2)].join(",");
        let text = format!(
            r#"{{"version": 1, "title": "", "seed": 1, "end_ns": 1, "links": [{links}], "flows": [],
            "nodes": [{{"name": "a", "kind": "host"}}, {{"name": "s", "kind": "router", "switch": {{
                "memory": {{"kind": "shared", "bytes": 1000, "alpha": 1.0}}, "arbiter": {{"kind": "fifo"}}}}}},
                {{"name": "b", "kind": "host"}}],
            "measure": {{"goodput_ns": 0, "tcp_ns": 0, "links_ns": 0}}}}"#
        );
        let mut plan = Plan::from_json(&text).expect("the plan is sound");
        change(&mut plan);
        plan.validate().err().map(|error| error.to_string())
    }

    fn with(change: impl FnOnce(&mut Switch)) -> Option<String> {
        problem(|plan| change(plan.nodes[1].switch.as_mut().expect("it is the switch")))
    }

    #[test]
    fn a_contradiction_names_its_place() {
        assert_eq!(with(|_| {}), None);
        let found = [
            with(|switch| switch.memory = Memory::Shared { bytes: 1, alpha: Some(0.0) }),
            with(|switch| switch.memory = Memory::Partitioned { bytes: 0 }),
            with(|switch| switch.arbiter = Arbiter::Islip { iterations: 0 }),
            with(|switch| switch.arbiter = Arbiter::Weighted { weights: vec![Weight { link: 2, weight: 1 }] }),
            with(|switch| switch.arbiter = Arbiter::Bursty { hold: Hold::Pareto { mean_ns: 1, shape: 1.0 } }),
            with(|switch| switch.pause = Some(Pause { high_bytes: 1, low_bytes: 1 })),
            problem(|plan| plan.nodes[0].switch = plan.nodes[1].switch.clone()),
            problem(|plan| {
                plan.links[2].rate_bps *= 2;
                plan.nodes[1].switch.as_mut().expect("it is the switch").forwarding = Forwarding::CutThrough;
            }),
        ];
        let expected = [
            "nodes[1] (s).switch.memory: alpha must be positive",
            "nodes[1] (s).switch.memory: must not be empty",
            "nodes[1] (s).switch.arbiter: iterations must not be zero",
            "nodes[1] (s).switch.arbiter: link 2 does not reach the switch",
            "nodes[1] (s).switch.arbiter: hold.shape must be above 1, else there is no mean",
            "nodes[1] (s).switch.pause: low_bytes must be below high_bytes",
            "nodes[0] (a).switch.kind: a host is no switch",
            "nodes[1] (s).switch.forwarding: its output on is faster than its input up",
        ];
        assert_eq!(found.map(Option::unwrap_or_default), expected);
    }
}
