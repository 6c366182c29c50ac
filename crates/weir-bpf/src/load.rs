//! Loads one congestion control and holds it.

use crate::{
    error::BpfError,
    kernel::Kernel,
    names,
    object::{CompiledCc, PROBES},
    source::{self, Source},
};
use libbpf_rs::{ErrorKind, Link, MapCore, MapType, Object, ObjectBuilder, OpenObject, PrintLevel, set_print};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// `BPF_F_LINK`: a link registers the operations, and closing its last descriptor unregisters them.
const BY_LINK: u32 = 1 << 13;
/// Lines of the verifier's log that an error quotes.
const LOG_LINES: usize = 12;

/// What to load, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// A registered name, or the path of a C file or of a shared object beside one.
    pub cc: String,
    /// The BPF object of `cc`, if another machine has compiled it: `cc` is a name in messages then.
    #[serde(default)]
    pub object: Option<PathBuf>,
    /// The name in the kernel; [`names::default_name`] if not given.
    #[serde(default, rename = "as")]
    pub name: Option<String>,
    /// Options by name; those not given have their defaults.
    #[serde(default)]
    pub options: BTreeMap<String, i64>,
    /// Processes without `CAP_NET_ADMIN` may choose it.
    #[serde(default)]
    pub unrestricted: bool,
    /// Its probes keep their values: [`Loaded::probes`].
    #[serde(default)]
    pub probes: bool,
}

/// A congestion control in the kernel, for as long as this value lives.
///
/// Before Linux 6.4 ([`Kernel::links`]) it is unregistered when this value is dropped, but not when its process is
/// killed.
#[derive(Debug)]
pub struct Loaded {
    /// The name by which sockets choose it.
    pub name: String,
    // Before the object: without links it refers to the object's descriptor of the map.
    pub(crate) link: Link,
    pub(crate) object: Object,
    pub(crate) by_link: bool,
}

impl Loaded {
    /// The kernel's id of the map of its probes' values, by socket; none where probes are not kept.
    pub fn probes(&self) -> Option<u32> {
        let map = self.object.maps().find(|map| map.name() == PROBES)?;
        Some(map.info().ok()?.info.id)
    }
}

/// Loads and registers a congestion control.
///
/// # Errors
/// [`BpfError`]: the request, the host or the kernel; each says what to do.
pub fn load(kernel: &Kernel, request: &Request) -> Result<Loaded, BpfError> {
    let object = match &request.object {
        Some(path) => source::compiled_elsewhere(&request.cc, path)?,
        None => source::compiled(&Source::of(&request.cc)?, kernel.old_cong_control, &[])?,
    };
    load_object(kernel, request, object)
}

/// As [`load`], from an existing object.
pub(crate) fn load_object(kernel: &Kernel, request: &Request, mut object: CompiledCc) -> Result<Loaded, BpfError> {
    let name = request.name.clone().unwrap_or_else(|| names::default_name(object.name()));
    object.set_options(&request.options)?;
    object.set_hz(kernel.hz);
    object.set_registered_name(&name)?;
    if request.unrestricted {
        object.set_unrestricted();
    }
    if request.probes {
        object.set_probing();
    }
    let (link, object) = listening(&request.cc, &name, || {
        let mut loaded = open(&object, kernel.links, request.probes)?.load()?;
        Ok((attach(&mut loaded)?, loaded))
    })?;
    Ok(Loaded { name, link, object, by_link: kernel.links })
}

/// Loads the programs of an object without registering anything.
pub(crate) fn load_programs(
    kernel: &Kernel,
    cc: &str,
    mut object: CompiledCc,
    options: &BTreeMap<String, i64>,
) -> Result<Object, BpfError> {
    object.set_options(options)?;
    object.set_hz(kernel.hz);
    listening(cc, "", || open(&object, kernel.links, false)?.load())
}

/// Opens an object for loading; without `probes`, the map of their values is not made.
fn open(object: &CompiledCc, links: bool, probes: bool) -> libbpf_rs::Result<OpenObject> {
    let mut open = ObjectBuilder::default().name(object.operations())?.open_memory(object.bytes())?;
    for mut map in open.maps_mut() {
        if links && map.map_type() == MapType::StructOps {
            map.set_map_flags(BY_LINK)?;
        }
        if !probes && map.name() == PROBES {
            map.set_autocreate(false)?;
        }
    }
    Ok(open)
}

fn attach(object: &mut Object) -> libbpf_rs::Result<Link> {
    let operations = object.maps_mut().find(|map| map.map_type() == MapType::StructOps);
    operations.ok_or_else(|| libbpf_rs::Error::from_raw_os_error(2))?.attach_struct_ops()
}

/// libbpf has one message callback per process.
static MESSAGES: Mutex<String> = Mutex::new(String::new());
static LISTENING: Mutex<()> = Mutex::new(());

/// Runs `call` and explains its failure by libbpf's messages.
fn listening<T>(cc: &str, name: &str, call: impl FnOnce() -> libbpf_rs::Result<T>) -> Result<T, BpfError> {
    let _one_at_a_time = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
    messages().clear();
    let previous = set_print(Some((PrintLevel::Warn, |_, text| messages().push_str(&text))));
    let result = call();
    set_print(previous);
    result.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => BpfError::NameTaken { name: name.to_owned() },
        _ => explain(cc, &messages(), &error.to_string()),
    })
}

fn messages() -> MutexGuard<'static, String> {
    MESSAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error in libbpf's messages.
fn explain(cc: &str, messages: &str, error: &str) -> BpfError {
    let cc = cc.to_owned();
    if let Some((before, log)) = messages.split_once("-- BEGIN PROG LOAD LOG --\n") {
        let log = log.split("-- END PROG LOAD LOG --").next().unwrap_or(log);
        let lines: Vec<&str> = log.lines().filter(|line| !is_statistics(line)).collect();
        let log = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        return BpfError::Verifier { cc, function: operation(before).to_owned(), log };
    }
    let said: Vec<&str> = messages.lines().map(|line| line.trim_start_matches("libbpf: ")).collect();
    let reason = if said.is_empty() { error.to_owned() } else { said.join("; ") };
    BpfError::Load { cc, reason }
}

/// `processed 100 insns ...`, which ends every log.
fn is_statistics(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with("processed ") && line.contains(" insns")
}

/// The program of libbpf's last message, without the shim's prefix.
fn operation(messages: &str) -> &str {
    let quoted = messages.rsplit("prog '").next().and_then(|rest| rest.split('\'').next());
    quoted.map_or("unknown", |program| program.strip_prefix("weir_op_").unwrap_or(program))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn the_verifiers_last_lines_and_the_operation_are_quoted() {
        let lines: String = (0..100).map(|line| format!("{line}: (b7) r0 = {line}\n")).collect();
        let said = format!(
            "libbpf: prog 'weir_op_init': fine\nlibbpf: prog 'weir_op_cong_avoid': BPF program load failed: -13\n\
             libbpf: prog 'weir_op_cong_avoid': -- BEGIN PROG LOAD LOG --\n{lines}R1 type=ptr_sock expected=fp\n\
             processed 9 insns (limit 1000000) max_states_per_insn 0\n-- END PROG LOAD LOG --\nlibbpf: failed to load\n"
        );
        let error = explain("mine", &said, "Permission denied");
        assert_eq!(error.code(), Code::Refused);
        let text = error.to_string();
        assert!(text.contains("mine, in its operation cong_avoid"), "{text}");
        assert!(text.contains("R1 type=ptr_sock expected=fp"), "{text}");
        assert!(text.contains("99: (b7)") && !text.contains("50: (b7)") && !text.contains("processed"), "{text}");
    }

    #[test]
    fn without_a_log_libbpfs_messages_are_the_reason() {
        let error = explain("mine", "libbpf: one\nlibbpf: two\n", "Invalid argument");
        assert_eq!(error.to_string(), "the kernel did not take mine: one; two");
        assert_eq!(
            explain("mine", "", "Invalid argument").to_string(),
            "the kernel did not take mine: Invalid argument"
        );
    }

    #[test]
    fn a_request_has_defaults_and_no_unknown_parts() {
        let request: Request = serde_json::from_str(r#"{"cc": "cubic", "as": "w1_cubic"}"#).expect("valid");
        assert_eq!((request.name.as_deref(), request.unrestricted), (Some("w1_cubic"), false));
        assert!(serde_json::from_str::<Request>(r#"{"cc": "cubic", "name": "x"}"#).is_err());
        assert!(serde_json::from_str::<Request>(r#"{"cc": "cubic", "options": {"beta": 0.7}}"#).is_err());
    }
}
