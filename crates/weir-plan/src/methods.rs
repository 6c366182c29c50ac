//! Options of methods: choices of how a method executes the plan.
//!
//! They describe no part of the experiment, but may change its results. So they are in the plan, whose hash names a
//! run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of each method that has some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Methods {
    /// This host's Linux in real time.
    pub emul: EmulOptions,
    /// Linux in virtual time.
    pub lab: LabOptions,
    /// The simulator.
    pub sim: SimOptions,
}

/// Options of method `sim`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SimOptions {
    /// What the hosts of paced flows send at once.
    pub offload: SimOffload,
}

/// What the simulator's hosts send at once if pacing spaces what they send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SimOffload {
    /// Each packet is separate from the start.
    #[default]
    Packets,
    /// TCP makes trains, and the host's device segments them.
    Device,
}

/// Options of method `emul`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EmulOptions {
    /// The implementation of the links.
    pub links: EmulLinks,
    /// The treatment of segments by the hosts.
    pub offload: EmulOffload,
}

/// The implementation of the links of method `emul`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EmulLinks {
    /// The program weir-emu.
    #[default]
    Emulator,
    /// Queueing disciplines of the kernel between namespaces: netem, tbf and what stands below it.
    Netem,
}

/// The treatment of segments by the hosts of method `emul`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EmulOffload {
    /// `packets` if there are few enough for any machine, else `trains`.
    #[default]
    Auto,
    /// Each packet is separate from the start.
    Packets,
    /// TCP makes trains of segments, which stay whole on the path.
    Trains,
}

/// Options of method `lab`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LabOptions {
    /// The implementation of the links.
    pub links: LabLinks,
    /// The treatment of segments by the hosts' devices.
    pub offload: Offload,
}

/// The implementation of the links of method `lab`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LabLinks {
    /// `kernel` if it supports all of the plan, else `emulator`.
    #[default]
    Auto,
    /// weir's own module of the lab kernel.
    Kernel,
    /// The program weir-emu.
    Emulator,
    /// Queueing disciplines of the kernel between namespaces: netem, tbf and what stands below it.
    Netem,
}

/// The treatment of segments by the devices of the lab's hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Offload {
    /// Each packet is separate from the start.
    #[default]
    Packets,
    /// Trains of segments stay whole on every link.
    Trains,
    /// TCP makes trains, and the host's device segments them.
    Device,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_given_has_its_default() {
        assert_eq!(serde_json::from_str::<Methods>("{}").unwrap(), Methods::default());
        let given: Methods = serde_json::from_str(r#"{"lab": {"offload": "trains"}}"#).unwrap();
        assert_eq!(given.lab, LabOptions { links: LabLinks::Auto, offload: Offload::Trains });
        assert_eq!(given.emul, EmulOptions { links: EmulLinks::Emulator, offload: EmulOffload::Auto });
    }

    #[test]
    fn what_no_method_knows_is_refused() {
        for text in [
            r#"{"model": {}}"#,
            r#"{"sim": {"offload": "trains"}}"#,
            r#"{"lab": {"offlaod": "trains"}}"#,
            r#"{"emul": {"links": "kernel"}}"#,
        ] {
            assert!(serde_json::from_str::<Methods>(text).is_err(), "{text}");
        }
    }
}
