//! `weir-emu`: emulates the links of a plan between the devices of its hosts. It speaks the protocol of
//! `crates/weir-protocol` on standard input and output.

#![forbid(unsafe_code)]

mod alarm;
mod capture;
mod clock;
mod control;
mod device;
mod engine;
mod intake;
mod meter;
mod options;
mod tap;
mod trace;

use std::io::{self, BufRead, BufReader};
use std::process::ExitCode;

use weir_emu::frame::Link;
use weir_emu::{Directory, Network};
use weir_protocol::{Job, Message};
use weir_sys::clock::stands_still;
use weir_sys::process;

use capture::Capture;
use control::{Inbox, Reporter};
use device::{Device, Opening};
use engine::{End, Engine, Shown};
use options::Options;
use trace::Trace;

/// Other programs keep a tenth of the processor, in parts shorter than the intervals of a scenario.
const PERIOD_NS: u64 = 500_000;
const RUNTIME_NS: u64 = 450_000;
const FAILED: u8 = 1;
const BAD_JOB: u8 = 2;

fn main() -> ExitCode {
    let options = match options::parse() {
        Ok(Some(options)) => options,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => return fail(BAD_JOB, &error.to_string()),
    };
    process::ignore_interrupts();
    let mut input = BufReader::new(io::stdin());
    let job = match read_job(&mut input) {
        Ok(job) => job,
        Err(text) => return refuse(BAD_JOB, text),
    };
    match emulate(job, input, &options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(FAILED, error.to_string()),
    }
}

fn read_job(input: &mut impl BufRead) -> Result<Job, String> {
    let mut line = String::new();
    input.read_line(&mut line).map_err(|error| format!("standard input: {error}"))?;
    if line.is_empty() {
        return Err("standard input: expected a job, a line of JSON".to_owned());
    }
    let job = Job::from_json(&line).map_err(|error| error.to_string())?;
    if job.plan.flows.is_empty() {
        return Err("job.plan.flows: without a flow there is no route".to_owned());
    }
    Ok(job)
}

fn emulate(job: Job, input: BufReader<io::Stdin>, options: &Options) -> io::Result<()> {
    let is_switch = job.plan.nodes.iter().any(|node| node.switch.is_some());
    let (link, directory) = match (options.bridge, is_switch) {
        (true, true) => (Link::Ethernet, Directory::switch(&job)),
        (true, false) => (Link::Ethernet, Directory::bridge(&job)),
        (false, _) => (Link::Ip, Directory::new(&job)),
    };
    let opening = Opening { link, offloads: options.offloads, taps: options.stamps && !stands_still() };
    let devices: Vec<Device> =
        job.hosts.iter().map(|host| Device::open(host, opening, job.hosts.len())).collect::<io::Result<_>>()?;
    devices.iter().try_for_each(Device::await_running)?;
    let shown = Shown {
        capture: options.capture.as_ref().map(|path| Capture::create(path, &job)).transpose()?,
        trace: options.trace.as_ref().map(|paths| Trace::create(paths, job.plan.clone())).transpose()?,
    };
    let network = Network::new(&without_changes(&job), directory, options.network);
    let (inbox, reporter) = (Inbox::new(input)?, Reporter::new(io::stdout())?);
    process::disable_timer_slack();
    if options.real_time {
        take_priority();
    }
    let mut engine = Engine::new(job, network, devices, options.settings, inbox, reporter, shown)?;
    match engine.run()? {
        End::Complete => engine.into_reporter().finish(),
        // The parent is gone.
        End::Abandoned => Ok(()),
    }
}

/// The job as it is before the run. Its changes begin with the run, when the network starts anew.
fn without_changes(job: &Job) -> Job {
    let mut before = job.clone();
    before.plan.changes.clear();
    before
}

/// Schedules this thread before ordinary ones, by deadline if permitted.
///
/// To keep ordinary threads from starving, the kernel stops a thread with a real-time priority for 50 ms at a time. It
/// stops a thread with a deadline only for the rest of its period, after it has used its share.
fn take_priority() {
    if process::set_deadline(RUNTIME_NS, PERIOD_NS).or_else(|_| process::set_fifo(1)).is_err() {
        eprintln!("weir-emu: no real-time priority here; deliveries may be later");
    }
}

/// Reports an error to people, and to the parent.
fn refuse(code: u8, text: String) -> ExitCode {
    let code = fail(code, &text);
    // Without a reader, the exit code remains.
    let _ = weir_protocol::Outbox::new(io::stdout()).send(&Message::Error { text });
    code
}

fn fail(code: u8, text: &str) -> ExitCode {
    eprintln!("weir-emu: {text}");
    ExitCode::from(code)
}
