//! Runs compilers on untrusted sources: under `weir-confine`, with limits, and without this process' environment.
//!
//! A compiler does not protect the host. Its options and its precompiled headers execute code, its assembler reads any
//! file, and a few lines of C keep it busy for hours.

use std::{
    env, fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};
use weir_cc::CcError;
use weir_sys::process::{ChildRules, Resource, Signal, has_ended, signal_group};

/// The confinement of a compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confinement {
    /// Under the program `weir-confine` at this path.
    Under(PathBuf),
    /// None: the sources are trusted, or the user has switched it off.
    Off,
}

/// Resource limits of a compiler; see setrlimit(2).
const LIMITS: [(Resource, u64); 4] = [
    (Resource::Cpu, 60),         // seconds
    (Resource::As, 2 << 30),     // bytes
    (Resource::Fsize, 64 << 20), // bytes
    (Resource::Core, 0),
];
/// Description of the limits for users.
pub(crate) const LIMITS_SAID: &str = "a compiler has 60 s of processor time, 2 GiB of memory and 64 MiB for each file";
/// A compiler gets at least two minutes, because it may also wait, for a pipe that is included.
const POLLS: u32 = 120_000;
const POLL: Duration = Duration::from_millis(1);
/// Maximum bytes of messages that are read.
const MAX_MESSAGES: usize = 1 << 18;
/// Exit code of `weir-confine` if it could not confine, or if the command is missing or cannot be executed.
const NOT_CONFINED: i32 = 125;
const NO_COMMAND: [i32; 2] = [126, 127];
/// Environment variables for compilers: the places of programs and libraries.
const KEPT: [&str; 3] = ["PATH", "HOME", "LD_LIBRARY_PATH"];
/// Variables of Nix's compilers.
const KEPT_PREFIX: &str = "NIX_";

/// The result of running a compiler.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// Its standard error.
    pub(crate) messages: String,
}

/// Why a compiler was not run.
pub(crate) enum NotRun {
    /// It is missing.
    Absent,
    Failed(CcError),
}

impl Confinement {
    /// This program's confinement: the `weir-confine` beside it, or in the folder `WEIR_BIN`; off with
    /// `WEIR_UNCONFINED=1`.
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

    /// Runs `program` with `arguments` in `scratch`, the only folder that it may write.
    pub(crate) fn run(&self, program: &str, arguments: &[&std::ffi::OsStr], scratch: &Path) -> Result<Ended, NotRun> {
        let said = scratch.join("messages");
        let failed = |error| NotRun::Failed(CcError::Io { path: said.clone(), error });
        let messages = fs::File::create(&said).map_err(failed)?;
        let mut command = self.command(program, scratch);
        command.args(arguments).current_dir(scratch).stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages);
        command.process_group(0);
        ChildRules { limits: LIMITS.into(), ..ChildRules::default() }.apply(&mut command);
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(_) if *self == Confinement::Off => return Err(NotRun::Absent),
            Err(error) => return Err(NotRun::Failed(CcError::Unconfined { reason: error.to_string() })),
        };
        for _ in 0..POLLS {
            if has_ended(&child).unwrap_or(true) {
                break;
            }
            thread::sleep(POLL);
        }
        signal_group(&child, Signal::KILL);
        let status = child.wait().map_err(failed)?;
        let mut messages = fs::read(&said).map_err(failed)?;
        messages.truncate(MAX_MESSAGES);
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
        // Messages in English. The linker's messages name the compiler's temporary files; clang leaves crash reports
        // there.
        command.env_clear().envs(kept).env("LC_ALL", "C").env("TMPDIR", scratch).env("CCACHE_DISABLE", "1");
        command
    }
}
