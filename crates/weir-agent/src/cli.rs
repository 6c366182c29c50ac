//! The command line.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

use weir_run::{Job, Message};

use crate::error::AgentError;
use crate::output::{Input, Output};
use crate::session::Session;

const HELP: &str = "\
Generates and sinks the traffic of a weir plan on a node, and measures it.

Usage: weir-agent             serve: a job and commands on standard input, tables on standard output
       weir-agent --version
       weir-agent --help
";

const FAILED: u8 = 1;
const MISUSED: u8 = 2;

/// Runs the command; its arguments begin with the name of the program.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut parser = lexopt::Parser::from_iter(arguments);
    match parser.next() {
        Ok(None) => serve(),
        Ok(Some(lexopt::Arg::Long("version"))) => {
            println!("weir-agent {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Ok(Some(lexopt::Arg::Long("help") | lexopt::Arg::Short('h'))) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Ok(Some(other)) => misused(&other.unexpected().to_string()),
        Err(error) => misused(&error.to_string()),
    }
}

fn misused(problem: &str) -> ExitCode {
    eprintln!("weir-agent: {problem}; see weir-agent --help");
    ExitCode::from(MISUSED)
}

fn serve() -> ExitCode {
    let streams = Input::new(io::stdin().as_fd())
        .and_then(|input| Output::new(io::stdout().as_fd()).map(|output| (input, output)));
    let (mut input, output) = match streams {
        Ok(streams) => streams,
        Err(error) => return misused(&format!("standard input and output: {error}")),
    };
    let job = match read_job(&mut input) {
        Ok(job) => job,
        Err(error) => return give_up(output, &error, MISUSED),
    };
    raise_descriptor_limit();
    match Session::new(job, input, output).and_then(Session::run) {
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
