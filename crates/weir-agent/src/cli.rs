//! The command line.

use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use weir_run::{Job, Message};

use crate::command::{Readiness, Spec};
use crate::error::AgentError;
use crate::output::{Input, Output};
use crate::sampler::Sampling;
use crate::services::{self, Service};
use crate::session::Session;
use crate::supervise;
use crate::sys::clock;

const HELP: &str = "\
Generates and sinks the traffic of a weir plan on a node, and measures it.

Usage: weir-agent                                    serve a plan: a job and commands on standard input
       weir-agent echo|sink|source... [OPTIONS]      serve whoever comes, over TCP and UDP
       weir-agent run [OPTIONS] -- COMMAND...        run a command as a workload
       weir-agent watch --ports FIRST-LAST [OPTIONS] sample the TCP connections of any program

All but the services write the tables of a run to standard output, as JSON lines with binary columns (crates/weir-run).
All leave when standard input ends, if it is a pipe or a terminal; `{\"command\":\"stop\"}` on it ends `run` and `watch` with their results.

Services: they print `ready` when they can be reached.
  echo     sends back what it gets (port 7)
  sink     throws away what it gets (port 9)
  source   TCP: sends zeros as fast as it can (port 19); UDP: answers as many zeros as it got
  --address ADDRESS   listen at this address; default 0.0.0.0
  --port PORT         listen on this port; with one service only

Run: a report of `iperf3 -J` becomes rows of flows, samples, sent and delivered.
  --ready-port PORT   ready when this TCP port listens
  --ready-line TEXT   ready when a line with this text is printed; default: when it is started
  --patience SECONDS  it must be ready within this time; default 30
  --output FOLDER     keep what it prints in FOLDER/stdout and FOLDER/stderr
  --first-flow N      the number of the flow that its first stream is; default 0
  and the options of watch, to sample the connections of the command

Watch: the busiest connection with port FIRST at either end is flow 0, and so on.
  --ports FIRST-LAST  the ports
  --interval MS       time between two rows, in milliseconds; default 20
  --netns PATH        look, or run, in this network namespace; may be repeated
  --epoch NS          instant 0 on CLOCK_MONOTONIC; default: now
  --until SECONDS     end then, since the epoch

Other options:
  --sampling HOW      how a plan's connections are looked at: calls (one each), dumps (inet_diag, one a namespace),
                      or auto, the default: what is cheaper here
  -V, --version
  -h, --help

Examples:
  weir-agent echo sink source --address 10.0.0.2
  weir-agent run --netns /run/netns/dst --ready-port 5201 -- iperf3 -s -1
  weir-agent run --netns /run/netns/src --ports 5201-5201 -- iperf3 -c 10.0.0.2 -J
";

const FAILED: u8 = 1;
const MISUSED: u8 = 2;

enum Action {
    Job(Sampling),
    Services(IpAddr, Vec<(Service, u16)>),
    Supervise(Box<supervise::Options>),
    Print(String),
}

/// Runs the command; its arguments begin with the name of the program.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match parse(arguments) {
        Ok(Action::Job(sampling)) => serve_job(sampling),
        Ok(Action::Services(address, services)) => serve_services(address, &services),
        Ok(Action::Supervise(options)) => serve_supervise(&options),
        Ok(Action::Print(text)) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(problem) => misused(&problem.to_string()),
    }
}

fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Action, lexopt::Error> {
    use lexopt::prelude::*;
    let mut parser = lexopt::Parser::from_iter(arguments);
    let mut services = Vec::new();
    let (mut address, mut port) = (None, None);
    let mut sampling = Sampling::Auto;
    while let Some(argument) = parser.next()? {
        match argument {
            Long("version") | Short('V') => {
                return Ok(Action::Print(format!("weir-agent {}\n", env!("CARGO_PKG_VERSION"))));
            }
            Long("help") | Short('h') => return Ok(Action::Print(HELP.to_owned())),
            Long("address") => address = Some(parser.value()?.parse::<IpAddr>()?),
            Long("port") => port = Some(parser.value()?.parse::<u16>()?),
            Long("sampling") => sampling = sampling_of(&parser.value()?.string()?)?,
            Value(name) if services.is_empty() && (name == "run" || name == "watch") => {
                return parse_supervise(&mut parser, name == "run");
            }
            Value(name) => services.push(service_of(&name.string()?)?),
            other => return Err(other.unexpected()),
        }
    }
    if services.is_empty() {
        return match (address, port) {
            (None, None) => Ok(Action::Job(sampling)),
            _ => Err("--address and --port belong to a service: echo, sink or source".into()),
        };
    }
    if port.is_some() && services.len() > 1 {
        return Err("--port goes with one service only".into());
    }
    let services = services.into_iter().map(|service| (service, port.unwrap_or(service.port()))).collect();
    Ok(Action::Services(address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), services))
}

fn parse_supervise(parser: &mut lexopt::Parser, run: bool) -> Result<Action, lexopt::Error> {
    use lexopt::prelude::*;
    let (mut ports, mut interval_ns, mut netns) = (None, 20_000_000, Vec::new());
    let (mut readiness, mut patience, mut arguments) = (Readiness::Started, 30.0, Vec::new());
    let (mut epoch_ns, mut until, mut first_flow, mut folder) = (clock::monotonic_ns(), None, 0, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("ports") => ports = Some(ports_of(&parser.value()?.string()?)?),
            Long("interval") => interval_ns = nanoseconds(parser.value()?.parse::<f64>()? / 1e3)?.max(1_000),
            Long("netns") => netns.push(PathBuf::from(parser.value()?)),
            Long("epoch") => epoch_ns = parser.value()?.parse()?,
            Long("until") => until = Some(nanoseconds(parser.value()?.parse()?)?),
            Long("ready-port") if run => readiness = Readiness::Port(parser.value()?.parse()?),
            Long("ready-line") if run => readiness = Readiness::Line(parser.value()?.string()?),
            Long("patience") if run => patience = parser.value()?.parse()?,
            Long("first-flow") if run => first_flow = parser.value()?.parse()?,
            Long("output") if run => folder = Some(PathBuf::from(parser.value()?)),
            Value(first) if run => {
                arguments.push(first);
                arguments.extend(parser.raw_args()?);
            }
            other => return Err(other.unexpected()),
        }
    }
    if run == arguments.is_empty() {
        return Err("run needs a command: weir-agent run -- COMMAND".into());
    }
    if !run && ports.is_none() {
        return Err("watch needs --ports FIRST-LAST".into());
    }
    if run && netns.len() > 1 {
        return Err("run takes one --netns: the one to run in".into());
    }
    let spec = run.then(|| Spec { arguments, environment: Vec::new(), netns: netns.first().cloned(), readiness });
    Ok(Action::Supervise(Box::new(supervise::Options {
        command: spec,
        patience: Duration::from_nanos(nanoseconds(patience)?),
        watch: ports.map(|ports| supervise::Watch { ports, interval_ns, netns }),
        epoch_ns,
        until_ns: until,
        first_flow,
        folder,
    })))
}

/// `FIRST-LAST`, or one port.
fn ports_of(text: &str) -> Result<RangeInclusive<u16>, lexopt::Error> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
        _ => Err(format!("--ports: {text:?} is no range of ports; expected FIRST-LAST, such as 5201-5210").into()),
    }
}

fn nanoseconds(seconds: f64) -> Result<u64, lexopt::Error> {
    if (0.0..1e9).contains(&seconds) {
        return Ok((seconds * 1e9) as u64);
    }
    Err(format!("{seconds} is no time; expected 0 to a billion seconds").into())
}

fn serve_supervise(options: &supervise::Options) -> ExitCode {
    match streams() {
        Err(code) => code,
        Ok((mut input, mut output)) => match supervise::run(options, &mut input, &mut output) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => give_up(output, &error, FAILED),
        },
    }
}

fn streams() -> Result<(Input, Output), ExitCode> {
    Input::new(io::stdin().as_fd())
        .and_then(|input| Output::new(io::stdout().as_fd()).map(|output| (input, output)))
        .map_err(|error| misused(&format!("standard input and output: {error}")))
}

fn sampling_of(name: &str) -> Result<Sampling, lexopt::Error> {
    match name {
        "auto" => Ok(Sampling::Auto),
        "calls" => Ok(Sampling::Calls),
        "dumps" => Ok(Sampling::Dumps),
        other => Err(format!("{other:?} is no way of sampling; expected auto, calls or dumps").into()),
    }
}

fn service_of(name: &str) -> Result<Service, lexopt::Error> {
    match name {
        "echo" => Ok(Service::Echo),
        "sink" => Ok(Service::Sink),
        "source" => Ok(Service::Source),
        other => Err(format!("{other:?} is no service; expected echo, sink, source, run or watch").into()),
    }
}

fn serve_services(address: IpAddr, services: &[(Service, u16)]) -> ExitCode {
    raise_descriptor_limit();
    match services::serve(address, services) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir-agent: {error}");
            ExitCode::from(FAILED)
        }
    }
}

fn misused(problem: &str) -> ExitCode {
    eprintln!("weir-agent: {problem}; see weir-agent --help");
    ExitCode::from(MISUSED)
}

fn serve_job(sampling: Sampling) -> ExitCode {
    let (mut input, output) = match streams() {
        Ok(streams) => streams,
        Err(code) => return code,
    };
    let job = match read_job(&mut input) {
        Ok(job) => job,
        Err(error) => return give_up(output, &error, MISUSED),
    };
    raise_descriptor_limit();
    match Session::new(job, sampling, input, output).and_then(Session::run) {
        Ok(_) => ExitCode::SUCCESS,
        Err((error, output)) => give_up(output, &error, FAILED),
    }
}

fn read_job(input: &mut Input) -> Result<Job, AgentError> {
    loop {
        if let Some(line) = input.line() {
            return Job::from_json(&line).map_err(|error| AgentError(error.to_string()));
        }
        if input.ended() {
            return Err(AgentError("standard input ended before a whole line; expected a job".into()));
        }
        input.read()?;
    }
}

fn give_up(mut output: Output, error: &AgentError, code: u8) -> ExitCode {
    eprintln!("weir-agent: {error}");
    output.send(&Message::Error { text: error.to_string() });
    // If nobody reads it, standard error had it.
    let _ = output.finish();
    ExitCode::from(code)
}

/// Each flow needs a descriptor or two; the soft limit is often 1024.
fn raise_descriptor_limit() {
    // SAFETY: both calls get a valid rlimit. A refusal leaves the limit, and opening a socket will tell.
    unsafe {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}
