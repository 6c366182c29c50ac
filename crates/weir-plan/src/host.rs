//! Capacities of hosts: how fast processor, memory, bus and disks handle packets.
//!
//! These are the terms of the thesis' bound of a transfer (R. Guillier, "Methodologies and Tools for the Evaluation of
//! Transport Protocols in the Context of High-Speed Networks", equations 6.1 to 6.6); the rate of the card is that of the
//! host's link. Only the simulator has them.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::validate::check;
use crate::{NodeKind, Plan, PlanError, Transport};

/// The capacities of a host. What is missing takes no time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// The processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<Processor>,
    /// The memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<HostMemory>,
    /// Rate of the bus between memory and card, both directions together. 0: no limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bus_bps: u64,
    /// The disks: data come from them and go to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// The processor of a host. All packets of a process pass one core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Processor {
    /// Number of cores. Process number n of a host runs on core n modulo this.
    pub cores: u32,
    /// The work for each data packet that a process sends.
    pub send: PacketWork,
    /// The work for each data packet that a process receives, its acknowledgement included.
    pub receive: PacketWork,
    /// Time of a core for each acknowledgement that arrives.
    pub ack_ns: u64,
}

/// The work of a core for a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PacketWork {
    /// Time for a packet of any size.
    pub packet_ns: u64,
    /// Rate of copying its payload. 0: copies take no time.
    pub copy_bps: u64,
}

/// The memory of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostMemory {
    /// Its rate, reads and writes together.
    pub rate_bps: u64,
    /// How often a data packet passes it.
    pub passes: u32,
}

/// The disks of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Rate of reading, for senders. 0: data come from memory.
    pub read_bps: u64,
    /// Rate of writing, for receivers. 0: data stay in memory.
    pub write_bps: u64,
}

/// Verifies the capacities of all hosts, and that only TCP flows use them.
pub(crate) fn validate(plan: &Plan) -> Result<(), PlanError> {
    let mut limited = BTreeSet::new();
    for (number, node) in (0u32..).zip(&plan.nodes) {
        let Some(capacity) = &node.capacity else { continue };
        let place = || format!("nodes[{number}] ({}).capacity", node.name);
        check(node.kind == NodeKind::Host, place, "a router has none; expected a host")?;
        let cores = capacity.processor.as_ref().is_none_or(|processor| processor.cores > 0);
        check(cores, place, "processor.cores must not be zero")?;
        let memory = capacity.memory.is_none_or(|memory| memory.rate_bps > 0 && memory.passes > 0);
        check(memory, place, "memory.rate_bps and memory.passes must not be zero")?;
        limited.insert(number);
    }
    let other = |flow: &&crate::Flow| {
        let uses = limited.contains(&flow.from) || limited.contains(&flow.to);
        uses && !matches!(flow.transport, Transport::Tcp(_))
    };
    match plan.flows.iter().position(|flow| other(&flow)) {
        None => Ok(()),
        Some(index) => {
            let name = &plan.flows[index].name;
            let problem = "a host with a capacity carries TCP only, whose windows close while packets wait for it";
            Err(PlanError::new(format!("flows[{index}] ({name})"), problem))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The problem of a plan with a router `r` and two hosts, of which `change` spoils something.
    fn problem(change: impl FnOnce(&mut Plan)) -> Option<String> {
        let text = r#"{"version": 1, "title": "", "seed": 1, "end_ns": 1, "flows": [], "nodes": [
            {"name": "r", "kind": "router"}, {"name": "a", "kind": "host", "capacity": {
                "processor": {"cores": 2, "send": {"packet_ns": 1, "copy_bps": 0},
                    "receive": {"packet_ns": 1, "copy_bps": 0}, "ack_ns": 0},
                "memory": {"rate_bps": 8, "passes": 4}, "bus_bps": 1}}, {"name": "b", "kind": "host"}],
            "links": [{"name": "on", "from": 1, "to": 2, "rate_bps": 1000000, "overhead_bytes": 38,
                "mtu_bytes": 1500, "delay": {"kind": "fixed", "delay_ns": 0},
                "queue": {"kind": "droptail", "limit": {"bytes": null, "packets": 9}}}],
            "measure": {"goodput_ns": 0, "tcp_ns": 0, "links_ns": 0}}"#;
        let mut plan = Plan::from_json(text).expect("the plan is sound");
        change(&mut plan);
        plan.validate().err().map(|error| error.to_string())
    }

    fn capacity(plan: &mut Plan) -> &mut Capacity {
        plan.nodes[1].capacity.as_mut().expect("it has one")
    }

    #[test]
    fn a_contradiction_names_its_place() {
        assert_eq!(problem(|_| {}), None);
        let found = [
            problem(|plan| plan.nodes[0].capacity = plan.nodes[1].capacity.clone()),
            problem(|plan| capacity(plan).processor.as_mut().expect("it has one").cores = 0),
            problem(|plan| capacity(plan).memory.as_mut().expect("it has one").passes = 0),
        ];
        let expected = [
            "nodes[0] (r).capacity: a router has none; expected a host",
            "nodes[1] (a).capacity: processor.cores must not be zero",
            "nodes[1] (a).capacity: memory.rate_bps and memory.passes must not be zero",
        ];
        assert_eq!(found, expected.map(|text| Some(text.to_string())));
    }

    #[test]
    fn only_tcp_flows_use_it() {
        let flow = r#"{"name": "f[0]", "group": "f", "index": 0, "stream": 0, "role": "test", "from": 1, "to": 2,
            "path": [0], "reverse_path": [], "start_ns": 0, "stop_ns": null,
            "transport": {"protocol": "udp", "payload_bytes": 100},
            "source": {"kind": "cbr", "rate_bps": 1000}}"#;
        let found = problem(|plan| plan.flows.push(serde_json::from_str(flow).expect("the flow is sound")));
        assert!(found.expect("it is refused").starts_with("flows[0] (f[0]): a host with a capacity carries TCP only"));
    }
}
