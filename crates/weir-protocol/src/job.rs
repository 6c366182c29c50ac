//! The input of a process that serves nodes of a plan.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_plan::Plan;

use crate::{Start, Token};

/// The first line on standard input: the plan, the places of its hosts, and the part of this process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Version of this format; 1.
    pub version: u32,
    /// The whole plan.
    pub plan: Plan,
    /// Every host of the plan that a flow uses.
    pub hosts: Vec<Host>,
    /// The ends of flows that an agent serves; the emulator ignores them.
    #[serde(default)]
    pub ends: Vec<End>,
    /// The kernel's name of each congestion control that the plan names.
    #[serde(default)]
    pub kernel_cc: BTreeMap<String, String>,
    /// Where the probes of these congestion controls are, by the names that the plan gives them: the kernel's id of the
    /// map of a BPF object, or 0 for a kernel module.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub probes: BTreeMap<String, u32>,
    /// The receiver of flow `i` listens on port `first_port + i`, so that a packet identifies its flow.
    pub first_port: u16,
    /// The secret that connections and datagrams between agents carry; without one, agents take all that comes. The
    /// emulator ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
}

/// A run with a token is shorter, nanoseconds (52 days): the upper bits of times in datagrams carry the token.
const MAX_TOKEN_RUN_NS: u64 = 1 << 52;

/// The place of a host of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Index of the node in the plan.
    pub node: u32,
    /// Its network namespace, such as `/run/netns/weir-1f-h0`; none: the one of the process.
    #[serde(default)]
    pub netns: Option<PathBuf>,
    /// Its address in the experiment.
    pub address: IpAddr,
    /// Its interface in the experiment, such as `weir0`; the emulator attaches to it.
    #[serde(default)]
    pub device: Option<String>,
}

/// One end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The sender of this flow.
    From(u32),
    /// The receiver of this flow.
    To(u32),
}

/// A further line on standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "command", deny_unknown_fields)]
pub enum Command {
    /// The run begins at a future instant. Everything before it is discarded: an emulator empties its queues and
    /// restarts its random streams.
    Start(Start),
    /// End now, with the results so far. The end of standard input means: exit at once.
    Stop,
}

/// An invalid job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobError(String);

impl JobError {
    pub(crate) fn new(text: String) -> JobError {
        JobError(text)
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for JobError {}

impl Job {
    /// Reads a job and validates it.
    ///
    /// # Errors
    /// When it is not JSON of this form, its plan contradicts itself, or it names a host or flow that does not exist.
    pub fn from_json(text: &str) -> Result<Job, JobError> {
        let job: Job = serde_json::from_str(text).map_err(|e| JobError(format!("job: {e}")))?;
        job.check()?;
        Ok(job)
    }

    /// The host at a node; none if no flow begins or ends there.
    pub fn host(&self, node: u32) -> Option<&Host> {
        self.hosts.iter().find(|host| host.node == node)
    }

    /// The port on which the receiver of `flow` listens.
    pub fn port(&self, flow: u32) -> u16 {
        self.first_port + flow as u16
    }

    fn check(&self) -> Result<(), JobError> {
        let fail = |text: String| Err(JobError(text));
        if self.version != 1 {
            return fail(format!("job.version: {} is not known here; expected 1", self.version));
        }
        self.plan.validate().map_err(|e| JobError(format!("job.plan: {e}")))?;
        if self.plan.flows.len() > usize::from(u16::MAX - self.first_port) + 1 {
            return fail(format!(
                "job.first_port: no ports for {} flows from {} on",
                self.plan.flows.len(),
                self.first_port
            ));
        }
        if self.token.is_some() && self.plan.end_ns >= MAX_TOKEN_RUN_NS {
            return fail("job.token: the plan is too long for one; expected less than 52 days".to_owned());
        }
        for (index, host) in self.hosts.iter().enumerate() {
            if host.node as usize >= self.plan.nodes.len() {
                return fail(format!("job.hosts[{index}].node: the plan has no node {}", host.node));
            }
            if self.hosts[..index].iter().any(|other| other.node == host.node) {
                return fail(format!("job.hosts[{index}].node: node {} is there twice", host.node));
            }
        }
        for flow in &self.plan.flows {
            if let Some(node) = [flow.from, flow.to].into_iter().find(|&node| self.host(node).is_none()) {
                let name = &self.plan.nodes[node as usize].name;
                return fail(format!("job.hosts: {name} is missing, which flow {} uses", flow.name));
            }
        }
        for (index, end) in self.ends.iter().enumerate() {
            let (End::From(flow) | End::To(flow)) = *end;
            if flow as usize >= self.plan.flows.len() {
                return fail(format!("job.ends[{index}]: the plan has no flow {flow}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Clock;

    fn tcp_flow() -> Value {
        json!({
            "name": "f[0]", "group": "f", "index": 0, "stream": 0, "role": "test", "from": 0, "to": 1, "path": [0],
            "reverse_path": [1], "start_ns": 0, "stop_ns": null, "source": {"kind": "bulk"},
            "transport": {
                "protocol": "tcp", "cc": "reno", "stack": "linux", "mss_bytes": 1448, "timestamps": true, "sack": true,
                "ecn": false, "initial_window": 10, "send_buffer_bytes": 1_000_000, "receive_buffer_bytes": 1_000_000,
                "pacing": false, "ack": "delayed"
            }
        })
    }

    fn link(name: &str, from: u32, to: u32) -> Value {
        json!({
            "name": name, "from": from, "to": to, "rate_bps": 10_000_000, "overhead_bytes": 38, "mtu_bytes": 1500,
            "delay": {"kind": "fixed", "delay_ns": 1_000_000},
            "queue": {"kind": "droptail", "limit": {"packets": 10}}, "host_nic": true
        })
    }

    fn job() -> Value {
        json!({
            "version": 1, "first_port": 10_000, "ends": [{"from": 0}, {"to": 0}], "kernel_cc": {"reno": "reno"},
            "hosts": [
                {"node": 0, "netns": "/run/netns/weir-a", "address": "10.0.0.1", "device": "weir0"},
                {"node": 1, "address": "10.0.0.2"}
            ],
            "plan": {
                "version": 1, "title": "two", "seed": 1, "end_ns": 1_000_000_000,
                "nodes": [{"name": "a", "kind": "host"}, {"name": "b", "kind": "host"}],
                "links": [link("a->b", 0, 1), link("b->a", 1, 0)], "flows": [tcp_flow()],
                "measure": {"goodput_ns": 0, "tcp_ns": 0, "links_ns": 0}
            }
        })
    }

    fn refusal(pointer: &str, value: Value) -> String {
        let mut job = job();
        *job.pointer_mut(pointer).expect("it is there") = value;
        Job::from_json(&job.to_string()).expect_err("it is refused").to_string()
    }

    #[test]
    fn a_job_says_where_hosts_are_and_which_port_a_flow_has() {
        let job = Job::from_json(&job().to_string()).expect("a good job");
        assert_eq!(job.ends, [End::From(0), End::To(0)]);
        assert_eq!(job.host(1).map(|host| host.address.to_string()), Some("10.0.0.2".to_owned()));
        assert_eq!(job.host(2), None);
        assert_eq!(job.port(0), 10_000);
        let text = serde_json::to_string(&job).expect("JSON");
        assert_eq!(Job::from_json(&text), Ok(job));
    }

    #[test]
    fn a_refusal_says_where() {
        assert_eq!(refusal("/version", json!(2)), "job.version: 2 is not known here; expected 1");
        assert_eq!(refusal("/hosts/1/node", json!(7)), "job.hosts[1].node: the plan has no node 7");
        assert_eq!(refusal("/hosts/1/node", json!(0)), "job.hosts[1].node: node 0 is there twice");
        assert_eq!(refusal("/hosts", json!([])), "job.hosts: a is missing, which flow f[0] uses");
        assert_eq!(refusal("/ends/1", json!({"to": 1})), "job.ends[1]: the plan has no flow 1");
        assert!(refusal("/plan/flows/0/from", json!(9)).starts_with("job.plan: "));
        assert!(refusal("/hosts/0/address", json!("here")).starts_with("job: "));
    }

    #[test]
    fn a_token_needs_a_run_of_less_than_52_days() {
        let mut job = job();
        job["token"] = json!("000102030405060708090a0b0c0d0e0f");
        let read = Job::from_json(&job.to_string()).expect("a good job");
        assert_eq!(read.token.map(|token| token.as_bytes()[15]), Some(15));
        job["plan"]["end_ns"] = json!(MAX_TOKEN_RUN_NS);
        let error = Job::from_json(&job.to_string()).expect_err("it is too long").to_string();
        assert!(error.starts_with("job.token: "), "{error}");
        job.as_object_mut().expect("a job").remove("token");
        let read = Job::from_json(&job.to_string()).expect("a good job");
        assert!(!serde_json::to_string(&read).expect("JSON").contains("token"));
    }

    #[test]
    fn ports_of_all_flows_fit() {
        let mut job = job();
        job["first_port"] = json!(u16::MAX);
        assert!(Job::from_json(&job.to_string()).is_ok());
        let flow = job["plan"]["flows"][0].clone();
        job["plan"]["flows"].as_array_mut().expect("a list").push(flow);
        job["plan"]["flows"][1]["name"] = json!("f[1]");
        let error = Job::from_json(&job.to_string()).expect_err("65536 is no port").to_string();
        assert_eq!(error, "job.first_port: no ports for 2 flows from 65535 on");
    }

    #[test]
    fn commands_are_json() {
        let line = r#"{"command":"start","clock":"monotonic","reading_ns":5,"after_ns":2}"#;
        let start: Command = serde_json::from_str(line).expect("a command");
        assert_eq!(start, Command::Start(Start { clock: Clock::Monotonic, reading_ns: 5, after_ns: 2 }));
        assert_eq!(serde_json::to_string(&start).expect("JSON"), line);
        for bad in [
            r#"{"command":"start","epoch_ns":5}"#,
            &line.replace("monotonic", "sundial"),
            &line.replace('}', r#","n":1}"#),
        ] {
            assert!(serde_json::from_str::<Command>(bad).is_err(), "{bad}");
        }
        assert_eq!(serde_json::to_string(&Command::Stop).expect("JSON"), r#"{"command":"stop"}"#);
    }
}
