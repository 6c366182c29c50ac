//! Resource limits of a confined process.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use weir_sys::process::{Resource, lower_limit};

use crate::Error;

/// Limits of each process; `None` leaves one unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Address space, in bytes.
    pub memory_bytes: Option<u64>,
    /// Processor time, in seconds.
    pub cpu_s: Option<u64>,
    /// Size of a file that is written, in bytes.
    pub file_bytes: Option<u64>,
    /// Open descriptors. Pipes and sockets hold kernel memory, which the address space does not include.
    pub files: Option<u64>,
    /// Processes and threads in addition to the user's present ones. Linux does not limit root: see
    /// [`Policy::groups`](crate::Policy::groups).
    pub processes: Option<u64>,
}

/// The only limit at which Linux neither writes a core dump nor starts the program of `core_pattern`, which would run
/// outside (core(5)).
const NO_DUMP: u64 = 1;

pub(crate) fn set(limits: &Limits) -> Result<(), Error> {
    lower(Resource::Core, Some(NO_DUMP))?;
    lower(Resource::As, limits.memory_bytes)?;
    lower(Resource::Cpu, limits.cpu_s)?;
    lower(Resource::Fsize, limits.file_bytes)?;
    lower(Resource::Nproc, limits.processes.map(|more| more.saturating_add(tasks_of_user())))
}

/// Sets the limit on descriptors. Call it last, because confinement opens descriptors itself.
pub(crate) fn set_files(limits: &Limits) -> Result<(), Error> {
    lower(Resource::Nofile, limits.files)
}

/// Processes and threads of this process' user.
fn tasks_of_user() -> u64 {
    let user = rustix::process::geteuid().as_raw();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let own = processes.filter(|entry| entry.metadata().is_ok_and(|about| about.uid() == user));
    // A folder has two links and one for each subfolder; this one has a subfolder for each thread.
    own.filter_map(|entry| fs::metadata(entry.path().join("task")).ok())
        .map(|about| about.nlink().saturating_sub(2))
        .sum()
}

/// Moves this process and its future children to control groups (cgroups(7)).
pub(crate) fn join(groups: &[PathBuf]) -> Result<(), Error> {
    for group in groups {
        let file = group.join("cgroup.procs");
        fs::write(&file, "0").map_err(Error::path(&file))?;
    }
    Ok(())
}

fn lower(resource: Resource, to: Option<u64>) -> Result<(), Error> {
    to.map_or(Ok(()), |to| lower_limit(resource, to)).map_err(Error::call("set a limit"))
}
