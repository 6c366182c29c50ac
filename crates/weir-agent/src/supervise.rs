//! A command as a workload, and the connections of any program, as rows of the tables: `weir-agent run` and
//! `weir-agent watch`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_run::{Command, Message};
use weir_units::Time;

use crate::command::{CommandError, Running, Spec, exit_code};
use crate::error::AgentError;
use crate::foreign::Watcher;
use crate::iperf3::{self, ReportError};
use crate::output::{Input, Output};
use crate::sys::clock;
use crate::sys::diag::Diag;
use crate::sys::netns::Namespaces;
use crate::telemetry::Telemetry;

/// Rows are handed over this often.
const FLUSH_NS: u64 = 250_000_000;
/// A command's end is noticed within this time.
const LOOK_NS: u64 = 10_000_000;

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Options {
    /// The command; none: only watch.
    pub command: Option<Spec>,
    /// Time that the command has to become ready.
    pub patience: Duration,
    /// The connections to watch.
    pub watch: Option<Watch>,
    /// Instant 0 of the tables on `CLOCK_MONOTONIC`.
    pub epoch_ns: u64,
    /// When to end, since the epoch, if nothing else ends it.
    pub until_ns: Option<u64>,
    /// The number of the flow that the first stream of a command is.
    pub first_flow: u32,
    /// Where `stdout` and `stderr` of the command are kept; none: nowhere but in messages.
    pub folder: Option<PathBuf>,
}

/// Connections to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// One flow a port, at either end.
    pub ports: RangeInclusive<u16>,
    /// Time between two rows.
    pub interval_ns: u64,
    /// The network namespaces to look in; none: the one of the command, or of this process.
    pub netns: Vec<PathBuf>,
}

enum End {
    /// The command has ended.
    Exited,
    /// It was told to end, or its time is over.
    Told,
    /// Standard input ended.
    Abandoned,
}

/// Runs until the command ends, `until_ns`, a `stop` or the end of standard input.
///
/// # Errors
/// When the command cannot be started or fails, or the kernel cannot tell what is to be watched.
pub fn run(options: &Options, input: &mut Input, output: &mut Output) -> Result<(), AgentError> {
    let mut namespaces = Namespaces::new();
    let watching = options.watch.as_ref().map(|watch| Watching::new(watch, options, &mut namespaces)).transpose()?;
    let running = options.command.as_ref().map(|spec| Running::start(spec, &mut namespaces)).transpose();
    let mut supervisor = Supervisor {
        options,
        running: running.map_err(failed)?,
        began_ns: clock::monotonic_ns(),
        watching,
        telemetry: Telemetry::new(options.watch.as_ref().map_or(0, |watch| watch.ports.len())),
        next_flush: 0,
        output,
    };
    if let Some(running) = &mut supervisor.running {
        running.wait_until_ready(options.patience).map_err(failed)?;
    }
    supervisor.output.send(&Message::Ready);
    match supervisor.serve(input)? {
        End::Abandoned => Ok(()),
        end => supervisor.conclude(&end),
    }
}

struct Watching {
    watcher: Watcher,
    diags: Vec<Diag>,
    interval_ns: u64,
    next: u64,
}

impl Watching {
    fn new(watch: &Watch, options: &Options, namespaces: &mut Namespaces) -> Result<Watching, AgentError> {
        let own = options.command.as_ref().and_then(|spec| spec.netns.clone());
        let places: Vec<Option<&Path>> = match watch.netns.as_slice() {
            [] => vec![own.as_deref()],
            some => some.iter().map(|path| Some(path.as_path())).collect(),
        };
        let mut diags = Vec::with_capacity(places.len());
        for place in places {
            let opened = namespaces.enter(place).and_then(|()| Diag::new());
            let name = place.map_or("this network namespace".into(), |path| path.display().to_string());
            diags.push(opened.map_err(|error| AgentError(format!("{name}: cannot watch its connections: {error}")))?);
        }
        Ok(Watching { watcher: Watcher::new(watch.ports.clone()), diags, interval_ns: watch.interval_ns, next: 0 })
    }
}

struct Supervisor<'a> {
    options: &'a Options,
    running: Option<Running>,
    began_ns: u64,
    watching: Option<Watching>,
    telemetry: Telemetry,
    next_flush: u64,
    output: &'a mut Output,
}

impl Supervisor<'_> {
    fn serve(&mut self, input: &mut Input) -> Result<End, AgentError> {
        loop {
            let now = clock::monotonic_ns().saturating_sub(self.options.epoch_ns);
            self.look(now)?;
            if let Some(running) = &mut self.running {
                running.take_output(Duration::ZERO)?;
                if running.status()?.is_some() {
                    return Ok(End::Exited);
                }
            }
            if self.options.until_ns.is_some_and(|until| now >= until) {
                return Ok(End::Told);
            }
            if wait_for(input, Duration::from_nanos(self.next_due(now) - now)) {
                input.read()?;
                if let Some(end) = read_commands(input)? {
                    return Ok(end);
                }
            }
        }
    }

    /// Does what is due.
    fn look(&mut self, now: u64) -> Result<(), AgentError> {
        if let Some(Watching { watcher, diags, interval_ns, next }) = &mut self.watching
            && now >= *next
        {
            // Rows are at multiples of the interval; those that could not be had in time are left out.
            let at = now - now % *interval_ns;
            *next = at + *interval_ns;
            watcher
                .look(Time(at), diags, &mut self.telemetry)
                .map_err(|error| AgentError(format!("inet_diag: {error}; does this kernel have tcp_diag?")))?;
        }
        if now >= self.next_flush {
            self.next_flush = now + FLUSH_NS;
            self.telemetry.flush(self.output);
            self.output.send(&Message::Progress { now_ns: now });
        }
        Ok(self.output.pump().map(drop)?)
    }

    fn next_due(&self, now: u64) -> u64 {
        let mut due = self.next_flush;
        if let Some(watching) = &self.watching {
            due = due.min(watching.next);
        }
        if self.running.is_some() {
            due = due.min(now + LOOK_NS);
        }
        if let Some(until) = self.options.until_ns {
            due = due.min(until);
        }
        due.max(now)
    }

    fn conclude(mut self, end: &End) -> Result<(), AgentError> {
        let mut stats = BTreeMap::new();
        if let Some(mut running) = self.running.take() {
            let status = running.stop_or_status().map_err(failed)?;
            self.keep_output(&running)?;
            self.take_report(&running, end)?;
            let code = exit_code(status);
            stats.insert("exit_code".to_owned(), f64::from(code));
            if matches!(end, End::Exited) && code != 0 {
                return Err(AgentError(format!("the command ended with code {code}: {}", running.last_words())));
            }
        }
        self.telemetry.flush(self.output);
        self.output.send(&Message::End { stats });
        Ok(self.output.finish()?)
    }

    fn keep_output(&self, running: &Running) -> Result<(), AgentError> {
        let Some(folder) = &self.options.folder else { return Ok(()) };
        let keep = || -> io::Result<()> {
            fs::create_dir_all(folder)?;
            fs::write(folder.join("stdout"), &running.captured().stdout)?;
            fs::write(folder.join("stderr"), &running.captured().stderr)
        };
        keep().map_err(|error| AgentError(format!("{}: {error}", folder.display())))
    }

    /// A report of iperf3 becomes rows. One of a failure is a failure, whatever the exit code, which is 0 in some versions.
    fn take_report(&mut self, running: &Running, end: &End) -> Result<(), AgentError> {
        let program = self.options.command.as_ref().and_then(|spec| spec.arguments.first());
        let known = program.is_some_and(|program| Path::new(program).file_name() == Some("iperf3".as_ref()));
        let text = String::from_utf8_lossy(&running.captured().stdout);
        if !known || !text.trim_start().starts_with('{') {
            return Ok(());
        }
        let start = self.began_ns.saturating_sub(self.options.epoch_ns);
        match iperf3::read(&text, self.options.first_flow, start) {
            // What was seen in the kernel is more than what iperf3 tells.
            Ok(report) => {
                self.telemetry.report(&report, self.watching.is_none());
                if let (Some(why), End::Exited) = (report.interrupted, end) {
                    return Err(AgentError(format!("iperf3: {why}")));
                }
            }
            Err(error @ ReportError::Failed(_)) if matches!(end, End::Exited) => {
                return Err(AgentError(error.to_string()));
            }
            Err(error) => self.output.send(&Message::Warning { text: error.to_string() }),
        }
        Ok(())
    }
}

fn failed(error: CommandError) -> AgentError {
    AgentError(format!("command: {error}"))
}

/// Waits for input; true if there is some, or its end.
fn wait_for(input: &Input, patience: Duration) -> bool {
    // Of one that nobody attends, poll passes over the -1 and only waits.
    let fd = if input.is_attended() { input.as_fd().as_raw_fd() } else { -1 };
    let mut wanted = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let timeout = libc::timespec { tv_sec: patience.as_secs() as _, tv_nsec: patience.subsec_nanos() as _ };
    // SAFETY: both structures outlive the call; no signal mask is given.
    unsafe { libc::ppoll(&mut wanted, 1, &timeout, std::ptr::null()) > 0 }
}

fn read_commands(input: &mut Input) -> Result<Option<End>, AgentError> {
    if let Some(line) = input.line() {
        return match serde_json::from_str(&line) {
            Ok(Command::Stop) => Ok(Some(End::Told)),
            _ => Err(AgentError(format!("standard input: {line:?} is not a command; expected `stop`"))),
        };
    }
    Ok(input.ended().then_some(End::Abandoned))
}
