//! Parity: the same calls through the native and the BPF build of a source leave the same state, call after call.
//!
//! The BPF build is the shim's with `WEIR_REPLAY`: the kernel runs an operation once on a socket in a map
//! (`BPF_PROG_TEST_RUN`). That compares clang, the verifier and the JIT with the simulator's C compiler, in states that
//! no live connection would reach.

use crate::{
    calls::{CALL_BYTES, Call, Operation, Outcome},
    error::BpfError,
    fuzz::Fuzz,
    kernel::Kernel,
    load::load_programs,
    object::CompiledCc,
    source::{self, Source},
};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ProgramInput, ProgramMut};
use serde::Serialize;
use std::{collections::BTreeMap, path::Path};
use weir_cc::{Algorithm, Instance, Sock, caught};

/// Calls of one flow before its options and its random stream change.
const CALLS_OF_A_FLOW: u64 = 2000;

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Parity {
    /// The congestion control.
    pub cc: String,
    /// Number of compared calls.
    pub calls: u64,
    /// Number of compared calls, by operation.
    pub operations: BTreeMap<&'static str, u64>,
    /// Number of flows, each with its options.
    pub flows: u64,
    /// Number of calls that were made but could not be recorded.
    pub unrecorded: u64,
    /// Differences between the builds, at most one per flow.
    pub differences: Vec<Difference>,
}

/// A difference between two builds of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The flow's number.
    pub flow: u64,
    /// Number of the call within the flow.
    pub call: u64,
    /// The operation.
    pub operation: &'static str,
    /// The flow's options.
    pub options: BTreeMap<String, i64>,
    /// The difference in words.
    pub what: String,
}

/// Compares `calls` calls drawn from `seed`, in flows of 2000; a flow ends where its builds differ.
///
/// # Errors
/// [`BpfError`] if a build cannot be made or loaded.
pub fn fuzzed(kernel: &Kernel, cc: &str, calls: u64, seed: u64) -> Result<Parity, BpfError> {
    let source = Source::of(cc)?;
    let algorithm = native(&source)?;
    let object = source::compiled(&source, kernel.old_cong_control, &["WEIR_REPLAY"])?;
    let mut parity = Parity::of(cc);
    // The folder of a source changes no call.
    let name = Path::new(cc).file_name().unwrap_or_default().to_string_lossy();
    for flow in 0..calls.div_ceil(CALLS_OF_A_FLOW) {
        let mut fuzz = Fuzz::new(seed, &format!("{name}/{flow}"));
        // The first flow has the defaults, as most flows do.
        let options = if flow == 0 { BTreeMap::new() } else { fuzz.options(&algorithm) };
        let replay = Replay::load(kernel, cc, object.clone(), &options)?;
        let mut instance = Instance::new(&algorithm, &options)?;
        (instance.sock.hz, instance.sock.tcp_mstamp_us) = (kernel.hz, 1_000_000);
        let most = CALLS_OF_A_FLOW.min(calls - flow * CALLS_OF_A_FLOW);
        let before = parity.calls;
        let found = compare(&replay, &mut instance, &mut fuzz, most, |operation| parity.count(operation))?;
        if let Some((operation, what)) = found {
            let call = parity.calls - before;
            parity.differences.push(Difference { flow, call, operation: operation.name(), options, what });
        }
        parity.flows += 1;
    }
    Ok(parity)
}

/// The native build of a source.
///
/// # Errors
/// [`BpfError::Cc`] if it does not compile.
pub(crate) fn native(source: &Source) -> Result<Algorithm, BpfError> {
    match source {
        Source::Registered(name) => Ok(weir_cc::find(name)?),
        Source::File(path) => {
            let io = |error| BpfError::Io { path: std::env::temp_dir(), error };
            let folder = tempfile::Builder::new().prefix("weir-bpf-").tempdir().map_err(io)?;
            // This process was asked for the calls of this source, and makes them.
            weir_cc_build::permit_loading();
            let built = weir_cc_build::build(path, folder.path(), &source::confinement()?)?;
            Ok(weir_cc::find(&Path::new(&built).display().to_string())?)
        }
    }
}

/// Draws calls until `calls` of them were compared, or one differs.
fn compare(
    replay: &Replay,
    cc: &mut Instance,
    fuzz: &mut Fuzz,
    calls: u64,
    mut count: impl FnMut(Operation),
) -> Result<Option<(Operation, String)>, BpfError> {
    let mut call = Call::of(Operation::Init);
    let mut compared = 0;
    while compared < calls {
        if replay.has(call.operation) {
            count(call.operation);
            // A fault of the native build has no equivalent in the kernel's.
            let differs = caught(|| replay.differs(&call, cc));
            if let Some(what) = differs.unwrap_or_else(|fault| Ok(Some(format!("the native build {}", fault.what))))? {
                return Ok(Some((call.operation, what)));
            }
            compared += 1;
        }
        call = fuzz.next(cc);
    }
    Ok(None)
}

/// A loaded `WEIR_REPLAY` build.
struct Replay {
    cc: String,
    object: Object,
    /// `struct weir_call`.
    state: MapHandle,
}

impl Replay {
    fn load(
        kernel: &Kernel,
        cc: &str,
        object: CompiledCc,
        options: &BTreeMap<String, i64>,
    ) -> Result<Replay, BpfError> {
        let object = load_programs(kernel, cc, object, options)?;
        let state = object.maps().find(|map| map.name().to_string_lossy().ends_with(".bss"));
        let state = state.filter(|map| map.value_size() as usize == CALL_BYTES);
        let state = state.and_then(|map| MapHandle::try_from(&map).ok());
        let unlike = || BpfError::Object { cc: cc.to_owned(), reason: "its struct weir_call is another".into() };
        Ok(Replay { cc: cc.to_owned(), state: state.ok_or_else(unlike)?, object })
    }

    fn has(&self, operation: Operation) -> bool {
        self.object.progs().any(|program| Operation::of_program(&program.name().to_string_lossy()) == Some(operation))
    }

    /// Makes the call on both builds, from the state in `cc`; returns their difference. The native state stays in `cc`.
    fn differs(&self, call: &Call, cc: &mut Instance) -> Result<Option<String>, BpfError> {
        let theirs = self.run(call, &cc.sock)?;
        let result = call.make(cc).unwrap_or(0);
        let ours = Outcome { sock: cc.sock.clone(), result };
        let unwritable = || (ours.sock != theirs.sock).then(|| "a field that may not be written was".to_owned());
        Ok(ours.difference(&theirs).or_else(unwritable))
    }

    /// Makes the call on the BPF build.
    fn run(&self, call: &Call, sock: &Sock) -> Result<Outcome, BpfError> {
        let failed = |reason: String| BpfError::Load { cc: self.cc.clone(), reason };
        let key = 0_u32.to_ne_bytes();
        self.state
            .update(&key, &call.bytes(sock), MapFlags::ANY)
            .map_err(|error| failed(format!("its state cannot be set: {error}")))?;
        let mut programs = self.object.progs_mut();
        let program =
            programs.find(|other| Operation::of_program(&other.name().to_string_lossy()) == Some(call.operation));
        let program: ProgramMut<'_> = program.ok_or_else(|| failed(format!("it has no {}", call.operation.name())))?;
        program
            .test_run(ProgramInput::default())
            .map_err(|error| failed(format!("{} cannot be run: {error}", call.operation.name())))?;
        let after = self.state.lookup(&key, MapFlags::ANY).ok().flatten();
        let parsed = after.and_then(|bytes| Call::parse(&bytes));
        let (sock, _, result) = parsed.ok_or_else(|| failed("its state cannot be read".into()))?;
        Ok(Outcome { sock, result })
    }
}

impl Parity {
    /// For `cc`, with nothing compared yet.
    pub(crate) fn of(cc: &str) -> Parity {
        Parity { cc: cc.to_owned(), ..Parity::default() }
    }

    /// Counts a compared call.
    pub(crate) fn count(&mut self, operation: Operation) {
        self.calls += 1;
        *self.operations.entry(operation.name()).or_default() += 1;
    }
}
