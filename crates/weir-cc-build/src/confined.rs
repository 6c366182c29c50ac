//! Runs compilers on what somebody else wrote: under `weir-confine`, with bounds, and without this process' environment.
//!
//! A compiler is no guard. Its options and its precompiled headers execute code, its assembler reads any file, and a few
//! lines of C keep it busy for hours.

use std::{
    env, fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};
use weir_cc::CcError;

/// What keeps a compiler from this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confinement {
    /// The program `weir-confine` at this path.
    Under(PathBuf),
    /// Nothing: the sources are one's own, or the user wants it so.
    Off,
}

/// What a compiler may use up; see setrlimit(2).
const LIMITS: [(libc::__rlimit_resource_t, libc::rlim_t); 4] = [
    (libc::RLIMIT_CPU, 60),         // seconds
    (libc::RLIMIT_AS, 2 << 30),     // bytes
    (libc::RLIMIT_FSIZE, 64 << 20), // bytes
    (libc::RLIMIT_CORE, 0),
];
/// What a user is told of them.
pub(crate) const LIMITS_SAID: &str = "a compiler has 60 s of processor time, 2 GiB of memory and 64 MiB for each file";
/// A compiler gets two minutes at least, because it may also wait, for a pipe that is included.
const POLLS: u32 = 120_000;
const POLL: Duration = Duration::from_millis(1);
/// Most bytes of messages that are read.
const MOST_MESSAGES: usize = 1 << 18;
/// What `weir-confine` ends with if it could not confine, if the command cannot be executed, and if there is none.
const NOT_CONFINED: i32 = 125;
const NO_COMMAND: [i32; 2] = [126, 127];
/// Of the environment, a compiler gets what says where programs and libraries are.
const KEPT: [&str; 3] = ["PATH", "HOME", "LD_LIBRARY_PATH"];
/// Variables of Nix's compilers.
const KEPT_PREFIX: &str = "NIX_";

/// What came of running a compiler.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// What it wrote to standard error.
    pub(crate) messages: String,
}

/// Why a compiler was not run.
pub(crate) enum NotRun {
    /// It is not there.
    Absent,
    Failed(CcError),
}

impl Confinement {
    /// As this program has it: by the `weir-confine` beside it, or in the folder `WEIR_BIN`; off with `WEIR_UNCONFINED=1`.
    ///
    /// # Errors
    /// [`CcError::Unconfined`]: there is none.
    pub fn of_program() -> Result<Confinement, CcError> {
        if env::var_os("WEIR_UNCONFINED").is_some_and(|value| value == "1") {
            return Ok(Confinement::Off);
        }
        let beside = || env::current_exe().ok().and_then(|program| program.parent().map(Path::to_owned));
        let folder = env::var_os("WEIR_BIN").filter(|named| !named.is_empty()).map(PathBuf::from).or_else(beside);
        let program = folder.unwrap_or_default().join("weir-confine");
        if program.is_file() {
            return Ok(Confinement::Under(program));
        }
        Err(CcError::Unconfined { reason: format!("{} is missing", program.display()) })
    }

    /// Runs `program` with `arguments` in `scratch`, which is all that it may write.
    pub(crate) fn run(&self, program: &str, arguments: &[&std::ffi::OsStr], scratch: &Path) -> Result<Ended, NotRun> {
        let said = scratch.join("messages");
        let failed = |error| NotRun::Failed(CcError::Io { path: said.clone(), error });
        let messages = fs::File::create(&said).map_err(failed)?;
        let mut command = self.command(program, scratch);
        command.args(arguments).current_dir(scratch).stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages);
        bound(&mut command);
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(_) if *self == Confinement::Off => return Err(NotRun::Absent),
            Err(error) => return Err(NotRun::Failed(CcError::Unconfined { reason: error.to_string() })),
        };
        for _ in 0..POLLS {
            if has_ended(&child) {
                break;
            }
            thread::sleep(POLL);
        }
        // SAFETY: the group was made for this child, which has not been waited for: nobody else has its number.
        unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
        let status = child.wait().map_err(failed)?;
        let mut messages = fs::read(&said).map_err(failed)?;
        messages.truncate(MOST_MESSAGES);
        let messages = String::from_utf8_lossy(&messages).into_owned();
        match status.code() {
            Some(NOT_CONFINED) if *self != Confinement::Off => {
                let reason = messages.trim().trim_start_matches("weir-confine: ").to_owned();
                Err(NotRun::Failed(CcError::Unconfined { reason }))
            }
            Some(code) if *self != Confinement::Off && NO_COMMAND.contains(&code) => Err(NotRun::Absent),
            _ => Ok(Ended { status, messages }),
        }
    }

    fn command(&self, program: &str, scratch: &Path) -> Command {
        let mut command = match self {
            Confinement::Under(confine) => {
                let mut command = Command::new(confine);
                command.arg("--files").arg(scratch).arg("--").arg(program);
                command
            }
            Confinement::Off => Command::new(program),
        };
        let kept = env::vars_os().filter(|(name, _)| {
            name.to_str().is_some_and(|name| KEPT.contains(&name) || name.starts_with(KEPT_PREFIX))
        });
        // In English. The linker's messages name the compiler's temporary files; clang leaves reports of its faults there.
        command.env_clear().envs(kept).env("LC_ALL", "C").env("TMPDIR", scratch).env("CCACHE_DISABLE", "1");
        command
    }
}

/// Whether a child has ended; it can be waited for still.
fn has_ended(child: &Child) -> bool {
    // SAFETY: all zero is a siginfo_t.
    let mut about: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the kernel fills `about`, and takes nothing from the child.
    let result = unsafe { libc::waitid(libc::P_PID, child.id(), &raw mut about, how) };
    // SAFETY: filled by the kernel, or zero.
    result != 0 || unsafe { about.si_pid() } != 0
}

/// Sets the limits, and makes a group of processes that can be ended together.
fn bound(command: &mut Command) {
    command.process_group(0);
    // SAFETY: only system calls that may be made between fork and exec.
    unsafe {
        command.pre_exec(|| {
            for (resource, most) in LIMITS {
                let mut limit = libc::rlimit { rlim_cur: most, rlim_max: most };
                let mut here = limit;
                if libc::getrlimit(resource, &raw mut here) == 0 {
                    limit.rlim_max = limit.rlim_max.min(here.rlim_max);
                    limit.rlim_cur = limit.rlim_max;
                }
                libc::setrlimit(resource, &raw const limit);
            }
            Ok(())
        });
    }
}
