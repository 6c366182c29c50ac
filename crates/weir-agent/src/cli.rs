//! The command line.

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::process::ExitCode;

use weir_protocol::{Job, JobError, Message, QueuesJob};
use weir_sys::process::raise_descriptor_limit;

use crate::error::AgentError;
use crate::output::{Input, Output};
use crate::queues;
use crate::sampler::Sampling;
use crate::services::{self, Service};
use crate::session::{Options, Session};
use crate::tester;

const HELP: &str = "\
Generates and sinks the traffic of a weir plan on a node, and measures it.

Usage: weir-agent                                    serve a plan: a job and commands on standard input
       weir-agent queues                             read the counters of queueing disciplines for table links
       weir-agent tester                             send frames at constant rates through a switch, and time them
       weir-agent echo|sink|source... [OPTIONS]      serve whoever comes, over TCP and UDP

A plan's tables go to standard output, as JSON lines with binary columns (crates/weir-run). The agent leaves when
standard input ends, if it is a pipe or a terminal.

Services: they print `ready` when they can be reached.
  echo     sends back what it gets (port 7)
  sink     throws away what it gets (port 9)
  source   TCP: sends zeros as fast as it can (port 19); UDP: answers as many zeros as it got
  --address ADDRESS   listen at this address; default 0.0.0.0
  --port PORT         listen on this port; with one service only

Other options:
  --sampling HOW      how a plan's connections are looked at: calls (one each), dumps (inet_diag, one a namespace),
                      or auto, the default: what is cheaper here
  --at-once           begin a plan before all ordinary processes of this machine (SCHED_FIFO), if the user may; they
                      are equals again as soon as the first packets are sent. Not with programs
  -V, --version
  -h, --help

Examples:
  weir-agent echo sink source --address 10.0.0.2
";

const FAILED: u8 = 1;
const MISUSED: u8 = 2;

enum Action {
    Job(Options),
    Queues,
    Tester,
    Services(IpAddr, Vec<(Service, u16)>),
    Print(String),
}

/// Runs the command; its arguments begin with the name of the program.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match parse(arguments) {
        Ok(Action::Job(options)) => serve_job(options),
        Ok(Action::Queues) => serve_queues(),
        Ok(Action::Tester) => serve_tester(),
        Ok(Action::Services(address, services)) => serve_services(address, &services),
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
    let mut options = Options { sampling: Sampling::Auto, at_once: false };
    let mut whole = None;
    while let Some(argument) = parser.next()? {
        match argument {
            Long("version") | Short('V') => {
                return Ok(Action::Print(format!("weir-agent {}\n", env!("CARGO_PKG_VERSION"))));
            }
            Long("help") | Short('h') => return Ok(Action::Print(HELP.to_owned())),
            Long("address") => address = Some(parser.value()?.parse::<IpAddr>()?),
            Long("port") => port = Some(parser.value()?.parse::<u16>()?),
            Long("at-once") => options.at_once = true,
            Long("sampling") => options.sampling = sampling_of(&parser.value()?.string()?)?,
            Value(name) if name == "queues" && whole.is_none() => whole = Some(Action::Queues),
            Value(name) if name == "tester" && whole.is_none() => whole = Some(Action::Tester),
            Value(name) => services.push(service_of(&name.string()?)?),
            other => return Err(other.unexpected()),
        }
    }
    if let Some(action) = whole {
        return match (services.is_empty(), address, port) {
            (true, None, None) => Ok(action),
            _ => Err("queues and tester go with no service, --address or --port".into()),
        };
    }
    if services.is_empty() {
        return match (address, port) {
            (None, None) => Ok(Action::Job(options)),
            _ => Err("--address and --port belong to a service: echo, sink or source".into()),
        };
    }
    if port.is_some() && services.len() > 1 {
        return Err("--port goes with one service only".into());
    }
    let services = services.into_iter().map(|service| (service, port.unwrap_or(service.port()))).collect();
    Ok(Action::Services(address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), services))
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
        other => Err(format!("{other:?} is no service; expected echo, sink, source, queues or tester").into()),
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

fn serve_job(options: Options) -> ExitCode {
    let (mut input, output) = match streams() {
        Ok(streams) => streams,
        Err(code) => return code,
    };
    let job = match read_job(&mut input, Job::from_json) {
        Ok(job) => job,
        Err(error) => return give_up(output, &error, MISUSED),
    };
    raise_descriptor_limit();
    match Session::new(job, options, input, output).and_then(Session::run) {
        Ok(_) => ExitCode::SUCCESS,
        Err((error, output)) => give_up(output, &error, FAILED),
    }
}

fn serve_tester() -> ExitCode {
    let line = match io::stdin().lines().next() {
        Some(Ok(line)) => line,
        _ => return misused("standard input ended before a whole line; expected a job"),
    };
    let ask = |together: bool| {
        let mut start = String::new();
        if together {
            println!("{{\"ready\":true}}");
            io::stdout().flush()?;
            io::stdin().read_line(&mut start)?;
        }
        std::thread::spawn(leave_with_the_driver);
        Ok(start)
    };
    let seen = tester::test(&line, ask).and_then(|seen| {
        serde_json::to_writer(io::stdout().lock(), &seen).map_err(|error| AgentError(error.to_string()))
    });
    match seen {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir-agent: {error}");
            ExitCode::from(FAILED)
        }
    }
}

/// Ends this process when standard input ends: who would read what the tester sees is gone.
fn leave_with_the_driver() {
    let mut rest = String::new();
    while io::stdin().read_line(&mut rest).is_ok_and(|bytes| bytes > 0) {
        rest.clear();
    }
    std::process::exit(FAILED.into());
}

fn serve_queues() -> ExitCode {
    let (mut input, output) = match streams() {
        Ok(streams) => streams,
        Err(code) => return code,
    };
    let job = match read_job(&mut input, QueuesJob::from_json) {
        Ok(job) => job,
        Err(error) => return give_up(output, &error, MISUSED),
    };
    raise_descriptor_limit();
    match queues::serve(job, input, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err((error, output)) => give_up(output, &error, FAILED),
    }
}

/// Reads the first line of standard input by `parse`.
fn read_job<J>(input: &mut Input, parse: fn(&str) -> Result<J, JobError>) -> Result<J, AgentError> {
    loop {
        if let Some(line) = input.line() {
            return parse(&line).map_err(|error| AgentError(error.to_string()));
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
    // Without a reader, the text on standard error remains.
    let _ = output.finish();
    ExitCode::from(code)
}
