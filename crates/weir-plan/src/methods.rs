//! Options of methods: how one of them executes the plan, where it has a choice.
//!
//! They describe no part of the experiment, but may change its results. So they are in the plan, whose hash names a run.

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
}

/// Options of method `emul`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EmulOptions {
    /// What the links are.
    pub links: EmulLinks,
    /// What the hosts do about segments.
    pub offload: EmulOffload,
}

/// What the links of method `emul` are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EmulLinks {
    /// The program weir-emu.
    #[default]
    Emulator,
    /// Queueing disciplines of the kernel between namespaces: netem, tbf and what stands below it.
    Netem,
}

/// What the hosts of method `emul` do about segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EmulOffload {
    /// `packets` where they are few enough for any machine, else `trains`.
    #[default]
    Auto,
    /// Each packet is alone from the start.
    Packets,
    /// TCP makes trains of segments, which stay whole on the way.
    Trains,
}

/// Options of method `lab`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LabOptions {
    /// What the links are.
    pub links: LabLinks,
    /// What the hosts' devices do about segments.
    pub offload: Offload,
}

/// What the links of method `lab` are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LabLinks {
    /// `kernel` where that can do all of the plan, else `emulator`.
    #[default]
    Auto,
    /// weir's own module of the lab kernel.
    Kernel,
    /// The program weir-emu.
    Emulator,
    /// Queueing disciplines of the kernel between namespaces: netem, tbf and what stands below it.
    Netem,
}

/// What the devices of the lab's hosts do about segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Offload {
    /// Each packet is alone from the start.
    #[default]
    Packets,
    /// Trains of segments stay whole on every link.
    Trains,
    /// TCP makes trains, and the host's device takes them apart.
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
        for text in [r#"{"sim": {}}"#, r#"{"lab": {"offlaod": "trains"}}"#, r#"{"emul": {"links": "kernel"}}"#] {
            assert!(serde_json::from_str::<Methods>(text).is_err(), "{text}");
        }
    }
}
