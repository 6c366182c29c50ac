//! `weir-confine`: confines itself, then becomes another program.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use weir_confine::{Kind, Policy, Writing, confine, keep_only, status};

const USAGE: &str = "\
weir-confine - run a program that can do nothing to this machine

    weir-confine [OPTION]... [--] COMMAND [ARGUMENT]...
    weir-confine --status

COMMAND and all that it starts read the files of this machine, without devices, secrets and dot files of the home; they
write nothing, open no socket, and reach no process outside. Its exit code is the result.

    --write PATH           it may write below PATH
    --files PATH           it may write files and folders below PATH, but make no link, pipe or socket there
    --read PATH            it may read below PATH, even where that is hidden otherwise
    --hide PATH            it may not read below PATH
    --work PATH            where it is to work: an error, if that is hidden
    --trace                it may trace its own children (ptrace)
    --alone                it starts no process, so that nothing of it is left when it is killed
    --kind KIND            what guards files: landlock or namespaces; by default the best there is
    --keep FD              it gets this descriptor; all but 0, 1 and 2 are closed otherwise
    --limit-memory BYTES   address space of each process
    --limit-cpu SECONDS    processor time of each process
    --limit-file BYTES     size of each file
    --limit-files COUNT    open files of each process
    --limit-processes N    processes and threads beside those that the user has; nothing to root
    --group PATH           it joins this control group, with all that it starts
    --status               print what this kernel has to confine with, as JSON; end with 1 if it has nothing
    --help, --version

125: it could not be confined, and did not start. 126, 127: COMMAND cannot be executed, is not there.";

const FAILED: u8 = 125;
const CANNOT: u8 = 126;
const ABSENT: u8 = 127;

/// The request in the arguments.
enum Request {
    Run { policy: Box<Policy>, keep: Vec<RawFd>, command: OsString, arguments: Vec<OsString> },
    Status,
    Help,
    Version,
}

fn main() -> ExitCode {
    match parse(lexopt::Parser::from_env()) {
        Ok(Request::Run { policy, keep, command, arguments }) => run(&policy, &keep, &command, &arguments),
        Ok(Request::Status) => tell_status(),
        Ok(Request::Help) => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        Ok(Request::Version) => {
            println!("weir-confine {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Err(error) => complain(&format!("{error}; --help lists the options"), FAILED),
    }
}

fn parse(mut parser: lexopt::Parser) -> Result<Request, lexopt::Error> {
    use lexopt::prelude::*;

    let (mut policy, mut keep) = (Policy::default(), Vec::new());
    while let Some(argument) = parser.next()? {
        match argument {
            Long("write") => policy.write.push((path(&mut parser)?, Writing::Everything)),
            Long("files") => policy.write.push((path(&mut parser)?, Writing::Files)),
            Long("read") => policy.read.push(path(&mut parser)?),
            Long("work") => policy.work = Some(path(&mut parser)?),
            Long("hide") => policy.hide.push(path(&mut parser)?),
            Long("trace") => policy.trace = true,
            Long("alone") => policy.alone = true,
            Long("kind") => policy.kind = Some(kind(&mut parser)?),
            Long("keep") => keep.push(parser.value()?.parse()?),
            Long("limit-memory") => policy.limits.memory_bytes = Some(parser.value()?.parse()?),
            Long("limit-cpu") => policy.limits.cpu_s = Some(parser.value()?.parse()?),
            Long("limit-file") => policy.limits.file_bytes = Some(parser.value()?.parse()?),
            Long("limit-files") => policy.limits.files = Some(parser.value()?.parse()?),
            Long("limit-processes") => policy.limits.processes = Some(parser.value()?.parse()?),
            Long("group") => policy.groups.push(path(&mut parser)?),
            Long("status") => return Ok(Request::Status),
            Long("help") | Short('h') => return Ok(Request::Help),
            Long("version") => return Ok(Request::Version),
            Value(command) => {
                let arguments = parser.raw_args()?.collect();
                return Ok(Request::Run { policy: Box::new(policy), keep, command, arguments });
            }
            _ => return Err(argument.unexpected()),
        }
    }
    Err("expected a command".into())
}

fn kind(parser: &mut lexopt::Parser) -> Result<Kind, lexopt::Error> {
    let name = parser.value()?;
    let known = [Kind::Landlock, Kind::Namespaces].into_iter().find(|kind| name.to_str() == Some(kind.name()));
    known.ok_or_else(|| format!("there is no kind {name:?}: landlock, namespaces").into())
}

fn path(parser: &mut lexopt::Parser) -> Result<PathBuf, lexopt::Error> {
    Ok(parser.value()?.into())
}

fn run(policy: &Policy, keep: &[RawFd], command: &OsString, arguments: &[OsString]) -> ExitCode {
    if let Err(error) = keep_only(keep).and_then(|()| confine(policy)) {
        return complain(&error.to_string(), FAILED);
    }
    let error = Command::new(command).args(arguments).exec();
    let code = if error.kind() == io::ErrorKind::NotFound { ABSENT } else { CANNOT };
    complain(&format!("{}: {error}", std::path::Path::new(command).display()), code)
}

fn tell_status() -> ExitCode {
    let status = status();
    let told = serde_json::json!({
        "kind": status.kind.name(),
        "landlock_abi": status.landlock_abi,
        "gaps": status.gaps,
        "why": status.why,
    });
    println!("{told}");
    ExitCode::from(u8::from(status.kind == Kind::None))
}

fn complain(text: &str, code: u8) -> ExitCode {
    eprintln!("weir-confine: {text}");
    ExitCode::from(code)
}
