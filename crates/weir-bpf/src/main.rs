//! The command `weir-bpf`: see `USAGE`.

use lexopt::prelude::*;
use std::{
    env,
    io::{self, Write},
    process::{Command, ExitCode},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};
use weir_bpf::{BPFFS, BpfError, Code, Kernel, Parity, Pins, Recorder, Request, fuzzed, guarded, hold, load, status};

const USAGE: &str = "\
weir-bpf: the congestion controls of weir in the running kernel

  weir-bpf hold                          loads what its input says, one JSON line each time, and holds it
                                         while the input is open: {\"load\": [{\"cc\": \"cubic\", \"as\": \"w1_cubic\",
                                         \"options\": {\"beta\": 717}, \"unrestricted\": false}]}, {\"unload\": [NAME]};
                                         \"object\": FILE is the BPF object of a CC that another machine compiled
  weir-bpf load CC [--as NAME] [--option NAME=VALUE]... [--unrestricted]
                                         loads one and keeps it for other programs
  weir-bpf unload NAME... | --all        removes what `load` kept
  weir-bpf status                        what this host can do and has loaded, as JSON
  weir-bpf parity CC [--calls N] [--seed N] [--any-outcome]
                                         makes the same drawn calls on the native and the BPF build and compares
                                         the state after each; JSON; 1 if they differ, 0 with --any-outcome
  weir-bpf record CC [--as NAME] [--option NAME=VALUE]...
                                         loads a build that records its calls, says its name, compares the calls of
                                         connections that choose it until its input ends; JSON; 1 if they differ

  CC is a registered name (`weir cc list`), a C file, or a shared object of `weir cc build` beside its C file.
  The BPF file system that keeps what `load` loads is /sys/fs/bpf, or WEIR_BPFFS.

Exit codes: 0, 1 if the host or the kernel refuses, 2 if the request is wrong.";

enum Failure {
    Usage(String),
    Bpf(BpfError),
    Differs(String),
}

impl From<BpfError> for Failure {
    fn from(error: BpfError) -> Failure {
        Failure::Bpf(error)
    }
}

impl From<lexopt::Error> for Failure {
    fn from(error: lexopt::Error) -> Failure {
        Failure::Usage(error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Bpf(BpfError::Io { path: "standard input or output".into(), error })
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Bpf(error)) => {
            eprintln!("weir-bpf: {error}");
            ExitCode::from(if error.code() == Code::BadInput { 2 } else { 1 })
        }
        Err(Failure::Differs(cc)) => {
            eprintln!("weir-bpf: the native and the BPF build of {cc} differ");
            ExitCode::FAILURE
        }
        Err(Failure::Usage(error)) => {
            eprintln!("weir-bpf: {error}; `weir-bpf --help` says how");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), Failure> {
    let mut parser = lexopt::Parser::from_env();
    match parser.next()? {
        Some(Value(command)) => match command.string()?.as_str() {
            "hold" => hold_all(parser),
            "load" => keep(parser),
            "unload" => unload(parser),
            "status" => show(parser),
            "parity" => compare(parser),
            "record" => record(parser),
            other => Err(Failure::Usage(format!("no command {other:?}"))),
        },
        Some(Short('h') | Long("help")) => Ok(writeln!(io::stdout(), "{USAGE}")?),
        Some(argument) => Err(argument.unexpected().into()),
        None => Err(Failure::Usage("a command is missing".into())),
    }
}

/// Kernels that would keep a killed process' controls need a guard; the flags are for the guard, and for tests.
fn hold_all(mut parser: lexopt::Parser) -> Result<(), Failure> {
    let mut guard = None;
    while let Some(argument) = parser.next()? {
        match argument {
            Long("guarded") => guard = Some(true),
            Long("unguarded") => guard = Some(false),
            other => return Err(other.unexpected().into()),
        }
    }
    if !guard.unwrap_or_else(|| Kernel::probe().is_ok_and(|kernel| !kernel.links)) {
        return Ok(hold(io::stdin().lock(), io::stdout().lock())?);
    }
    let mut holder = Command::new(env::current_exe()?);
    holder.args(["hold", "--unguarded"]);
    Ok(guarded(holder)?)
}

fn finished<T>(mut parser: lexopt::Parser, value: T) -> Result<T, Failure> {
    match parser.next()? {
        None => Ok(value),
        Some(argument) => Err(argument.unexpected().into()),
    }
}

fn keep(parser: lexopt::Parser) -> Result<(), Failure> {
    let request = requested(parser, "load")?;
    let loaded = load(&Kernel::probe()?, &request)?;
    let name = loaded.name.clone();
    pins().keep(loaded)?;
    Ok(writeln!(io::stdout(), "{name}")?)
}

fn requested(mut parser: lexopt::Parser, command: &str) -> Result<Request, Failure> {
    let mut request = Request::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Value(cc) if request.cc.is_empty() => request.cc = cc.string()?,
            Long("as") => request.name = Some(parser.value()?.string()?),
            Long("option") => {
                let (name, value) = option(&parser.value()?.string()?)?;
                request.options.insert(name, value);
            }
            Long("unrestricted") => request.unrestricted = true,
            other => return Err(other.unexpected().into()),
        }
    }
    if request.cc.is_empty() {
        return Err(Failure::Usage(format!("`{command}` needs a congestion control")));
    }
    Ok(request)
}

fn option(text: &str) -> Result<(String, i64), Failure> {
    let parsed = text.split_once('=').and_then(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
    parsed.ok_or_else(|| Failure::Usage(format!("--option {text:?}: expected NAME=VALUE with a whole number")))
}

fn unload(mut parser: lexopt::Parser) -> Result<(), Failure> {
    let mut names = Vec::new();
    let mut all = false;
    let pins = pins();
    while let Some(argument) = parser.next()? {
        match argument {
            Value(name) => names.push(name.string()?),
            Long("all") => all = true,
            other => return Err(other.unexpected().into()),
        }
    }
    if all != names.is_empty() {
        return Err(Failure::Usage("`unload` needs names, or --all".into()));
    }
    if all {
        names = pins.names()?;
    }
    for name in names {
        pins.remove(&name)?;
        writeln!(io::stdout(), "{name}")?;
    }
    Ok(())
}

fn show(parser: lexopt::Parser) -> Result<(), Failure> {
    let status = finished(parser, status(&pins()))??;
    Ok(writeln!(io::stdout(), "{}", serde_json::to_string(&status).map_err(io::Error::from)?)?)
}

fn pins() -> Pins {
    Pins::at(env::var_os("WEIR_BPFFS").unwrap_or_else(|| BPFFS.into()))
}

fn compare(mut parser: lexopt::Parser) -> Result<(), Failure> {
    let (mut cc, mut calls, mut seed, mut any) = (String::new(), 20_000_u64, 1_u64, false);
    while let Some(argument) = parser.next()? {
        match argument {
            Value(name) if cc.is_empty() => cc = name.string()?,
            Long("calls") => calls = parser.value()?.parse()?,
            Long("seed") => seed = parser.value()?.parse()?,
            Long("any-outcome") => any = true,
            other => return Err(other.unexpected().into()),
        }
    }
    if cc.is_empty() {
        return Err(Failure::Usage("`parity` needs a congestion control".into()));
    }
    told(&fuzzed(&Kernel::probe()?, &cc, calls, seed)?, any)
}

fn record(parser: lexopt::Parser) -> Result<(), Failure> {
    let request = requested(parser, "record")?;
    let recorder = Recorder::load(&Kernel::probe()?, &request)?;
    writeln!(io::stdout(), "{}", serde_json::json!({ "loaded": recorder.name(), "cc": request.cc }))?;
    let ended = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&ended);
    thread::spawn(move || {
        // Only the end of the input matters, not its content or the reason.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        ends.store(true, Ordering::Relaxed);
    });
    told(&recorder.run(|| ended.load(Ordering::Relaxed))?, false)
}

fn told(parity: &Parity, any: bool) -> Result<(), Failure> {
    writeln!(io::stdout(), "{}", serde_json::to_string(parity).map_err(io::Error::from)?)?;
    if any || parity.differences.is_empty() { Ok(()) } else { Err(Failure::Differs(parity.cc.clone())) }
}
