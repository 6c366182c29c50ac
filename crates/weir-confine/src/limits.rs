//! What a confined process may use up.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Error;

/// Limits of each process; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Address space, in bytes.
    pub memory_bytes: Option<u64>,
    /// Processor time, in seconds.
    pub cpu_s: Option<u64>,
    /// Size of a file that is written, in bytes.
    pub file_bytes: Option<u64>,
}

/// The only limit at which Linux neither writes a core dump nor starts the program of `core_pattern`, which would run
/// outside (core(5)).
const NO_DUMP: u64 = 1;

pub(crate) fn set(limits: &Limits) -> Result<(), Error> {
    lower(Resource::Core, Some(NO_DUMP))?;
    lower(Resource::As, limits.memory_bytes)?;
    lower(Resource::Cpu, limits.cpu_s)?;
    lower(Resource::Fsize, limits.file_bytes)
}

fn lower(resource: Resource, to: Option<u64>) -> Result<(), Error> {
    let Some(to) = to else { return Ok(()) };
    let most = getrlimit(resource).maximum.map_or(to, |most| most.min(to));
    setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) }).map_err(Error::call("set a limit"))
}
