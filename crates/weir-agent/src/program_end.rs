//! An end of a flow with traffic from a program: runs the program and records its connections.
//!
//! The peer starts before the run, the command with its flow. When the flow stops, each is requested to end, and killed
//! if it does not. TCP connections are sampled in the kernel ([`crate::census`]). Only a report of the program tells
//! about datagrams.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use weir_plan::{Programs, Report as Kind, Source};
use weir_protocol::Program;
use weir_run::EventKind;
use weir_sys::epoll::{Interest, Ready};
use weir_sys::tcp_info::state;
use weir_units::Time;

use crate::census::{Census, Side, side_of};
use crate::command::{CommandError, Running, Spec, exit_code};
use crate::context::Context;
use crate::error::AgentError;
use crate::foreign::Counters;
use crate::iperf3::{self, Report};
use crate::output::Output;
use crate::program;
use crate::schedule::Slot;
use crate::session::{Due, token};
use crate::spread::spread;
use crate::telemetry::TransferRecord;

/// Time for a peer to become ready.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time between the request to end and the end by force.
const COURTESY_NS: u64 = 2_000_000_000;
/// Delay of the peer's request to end after the command's, so that it receives all data.
const LINGER_NS: u64 = 1_000_000_000;
/// Round trips of iperf3 before its test: control connection, negotiation, streams.
const IPERF3_ROUND_TRIPS: u64 = 5;

/// Generations of tokens: the descriptors of a program.
const STDOUT: u32 = 1;
const STDERR: u32 = 2;
const END: u32 = 3;

/// An end of a flow with a program.
pub struct ProgramEnd {
    flow: u32,
    endpoint: u32,
    /// Whether this end sends the data.
    sends: bool,
    side: Side,
    report: Option<Kind>,
    start: Time,
    stop: Time,
    spec: Option<Spec>,
    running: Option<Running>,
    /// Readable when the program ends.
    end: Option<OwnedFd>,
    begun: Option<Time>,
    ended: Option<Time>,
    exit_code: Option<i32>,
    told: bool,
    established: Option<Time>,
    /// The instant at which its last connection ended.
    gone: Option<Time>,
    /// Totals of its connections at the last sample, and at the last tick of `measure.goodput`.
    latest: Counters,
    told_of: Counters,
}

impl ProgramEnd {
    /// Starts the program if it is a peer; [`ProgramEnd::await_ready`] comes next.
    ///
    /// # Errors
    /// There is no such program, or it cannot be started.
    pub fn new(context: &mut Context, endpoint: u32, flow: u32, sends: bool) -> Result<ProgramEnd, AgentError> {
        let plan = context.flow(flow);
        let programs = programs_of(plan).clone();
        let side = side_of(&programs, sends);
        let mut end = ProgramEnd {
            flow,
            endpoint,
            sends,
            side,
            report: programs.report,
            start: Time(plan.start_ns),
            stop: Time(plan.stop_ns.unwrap_or(u64::MAX)),
            spec: program::spec(context, flow, &programs, side)?,
            running: None,
            end: None,
            begun: None,
            ended: None,
            exit_code: None,
            told: false,
            established: None,
            gone: None,
            latest: Counters::default(),
            told_of: Counters::default(),
        };
        if side == Side::Peer && end.spec.is_some() {
            end.launch(context)?;
        }
        Ok(end)
    }

    /// Waits until a peer can be reached.
    ///
    /// # Errors
    /// It ends before, or takes too long.
    pub fn await_ready(&mut self, context: &Context) -> Result<(), AgentError> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let Err(error) = running.wait_until_ready(PATIENCE) else { return Ok(()) };
        let said = running.last_words();
        let more = match error {
            CommandError::Late(..) if !said.is_empty() => format!("; it said: {said}"),
            _ => String::new(),
        };
        Err(AgentError(format!("{}: {error}{more}", self.describe(context))))
    }

    /// The first instant at which it is woken.
    pub fn first_instant(&self) -> Time {
        if self.sends || self.side == Side::Command { self.start } else { self.stop_instant() }
    }

    /// Continues at an instant that it has scheduled.
    ///
    /// # Errors
    /// Its program cannot be started.
    pub fn on_due(&mut self, context: &mut Context) -> Result<(), AgentError> {
        if context.now >= self.start && self.begun.is_none() {
            self.begun = Some(context.now);
            if self.sends {
                context.telemetry.event(context.now, EventKind::FlowStart, self.flow, 0);
                context.telemetry.event(context.now, EventKind::TransferStart, self.flow, 0);
            }
            if self.side == Side::Command {
                self.launch(context)?;
            }
            context.schedule.add(self.stop_instant(), Slot::Endpoint(self.endpoint));
        }
        let stop = self.stop_instant();
        let Some(running) = self.running.as_ref().filter(|_| context.now >= stop) else { return Ok(()) };
        let end_by_force = Time(stop.0.saturating_add(COURTESY_NS));
        if !self.told {
            self.told = true;
            running.ask_to_end();
            context.schedule.add(end_by_force, Slot::Endpoint(self.endpoint));
        } else if context.now >= end_by_force {
            running.kill();
        }
        Ok(())
    }

    /// Reads the program's output, or notes its end.
    ///
    /// # Errors
    /// From the kernel; none is expected.
    pub fn on_ready(&mut self, context: &mut Context, generation: u32, _: Ready) -> Result<(), AgentError> {
        let Some(running) = &mut self.running else { return Ok(()) };
        running.take_output(Duration::ZERO)?;
        if generation == END
            && let Some(status) = running.status()?
        {
            self.on_end(context, exit_code(status));
        }
        Ok(())
    }

    /// Records the ticks of `measure`.
    pub fn on_tick(&mut self, context: &mut Context, census: &mut Census, at: Time, due: Due) {
        let Some(connections) = census.of(self.flow, self.side).filter(|_| at >= self.start) else { return };
        let info = connections.settle();
        let counters = connections.counters();
        let news = counters != std::mem::replace(&mut self.latest, counters);
        if info.is_some() {
            self.gone = None;
        } else if news || (self.gone.is_none() && self.established.is_some()) {
            self.gone = Some(at);
        }
        if self.sends {
            let open = info.is_some_and(|info| info.state != state::SYN_SENT);
            if self.established.is_none() && (open || news) {
                let at = self.begun.map_or(at, |begun| at.max(begun));
                self.established = Some(at);
                context.telemetry.event(at, EventKind::Established, self.flow, 0);
            }
            if let Some(info) = info.filter(|_| due.tcp) {
                context.telemetry.sample(at, self.flow, &info, &counters.sent, info.pacing_rate < u64::MAX);
                context.telemetry.observe(at, self.flow, &info, &counters.sent);
            }
        }
        if due.goodput {
            self.tell(context, at, counters);
        }
    }

    /// Requests a program at this side to end, at the plan's end.
    pub fn ask_to_end(&mut self, side: Side) {
        if let Some(running) = self.running.as_ref().filter(|_| self.side == side && self.ended.is_none()) {
            self.told = true;
            running.ask_to_end();
        }
    }

    /// Whether its program ends by itself after the one at the other side, as a server of one test does.
    pub fn may_end_by_itself(&self) -> bool {
        self.side == Side::Peer && self.report.is_some()
    }

    /// Waits until `deadline` for the end of a program at this side.
    pub fn await_end(&mut self, context: &mut Context, side: Side, deadline: Instant) {
        let Some(running) = self.running.as_mut().filter(|_| self.side == side && self.ended.is_none()) else { return };
        if let Ok(status) = running.wait(deadline.saturating_duration_since(Instant::now())) {
            context.read_clock();
            self.on_end(context, exit_code(status));
        }
    }

    /// Kills a program that still runs.
    pub fn end_by_force(&mut self, context: &mut Context) {
        if let Some(running) = self.running.as_ref().filter(|_| self.ended.is_none()) {
            running.kill();
            self.await_end(context, self.side, Instant::now() + Duration::from_nanos(COURTESY_NS));
        }
    }

    /// Records the last rows, the program's output and its end.
    pub fn finish(&mut self, context: &mut Context, census: &mut Census, output: &mut Output) {
        let report = self.read_report(context);
        let end = Time(context.job.plan.end_ns);
        let counters = census.of(self.flow, self.side).map(|connections| connections.counters());
        match (counters, &report) {
            (Some(counters), _) => {
                self.tell(context, end, counters);
                self.conclude(context, counters);
            }
            (None, Some(report)) => self.conclude_by_report(context, report),
            (None, None) if self.sends => self.conclude(context, Counters::default()),
            (None, None) => {}
        }
        self.hand_over(context, output, report);
    }

    fn launch(&mut self, context: &mut Context) -> Result<(), AgentError> {
        let spec = self.spec.as_ref().expect("a side that is launched has a program");
        let started = Running::start(spec, &mut context.namespaces);
        let failed = |problem: String| AgentError(format!("{}: {problem}", self.describe(context)));
        let running = started.map_err(|error| failed(error.to_string()))?;
        let end = running.end().map_err(|error| failed(format!("cannot be watched: {error}; it needs Linux 5.3")))?;
        context.epoll.add(&end, token(self.endpoint, END), Interest::LEVEL_READ)?;
        for (stream, generation) in running.streams().into_iter().flatten().zip([STDOUT, STDERR]) {
            context.epoll.add(&stream, token(self.endpoint, generation), Interest::READ)?;
        }
        (self.running, self.end) = (Some(running), Some(end));
        Ok(())
    }

    fn on_end(&mut self, context: &mut Context, code: i32) {
        // A stream at its end is no longer watched.
        self.end = None;
        (self.ended, self.exit_code) = (Some(context.now), Some(code));
        if code != 0 && !self.told {
            let said = self.running.as_ref().map(Running::last_words).unwrap_or_default();
            let more = if said.is_empty() { String::new() } else { format!(": {said}") };
            let text = format!("{} ended with code {code}{more}", self.describe(context));
            if self.lacks_a_setting() { context.fail(text) } else { context.warn(text) }
        }
    }

    /// Whether its program ended because the kernel refused a setting of the plan.
    fn lacks_a_setting(&self) -> bool {
        let said = self.running.as_ref().map(|running| [&running.captured().stdout, &running.captured().stderr]);
        let refused = |output: &[u8]| iperf3::names_a_refused_setting(&String::from_utf8_lossy(output));
        self.report == Some(Kind::Iperf3) && said.into_iter().flatten().any(|output| refused(output))
    }

    /// Bytes since the last call.
    fn tell(&mut self, context: &mut Context, at: Time, counters: Counters) {
        let before = std::mem::replace(&mut self.told_of, counters);
        if self.sends {
            let sent = counters.sent.sent_ip_bytes - before.sent.sent_ip_bytes;
            if self.established.is_some() {
                context.telemetry.sent(at, self.flow, sent);
            }
        } else if counters.received_bytes > before.received_bytes {
            let bytes = counters.received_bytes - before.received_bytes;
            context.telemetry.delivered(at, self.flow, 0, bytes);
        }
    }

    /// Records the row of the flow, which has ended if its command ended by itself.
    fn conclude(&mut self, context: &mut Context, counters: Counters) {
        let Some(start) = self.begun.filter(|_| self.sends) else { return };
        let over = if self.side == Side::Command { self.ended.filter(|_| !self.told) } else { self.gone };
        let end = over.filter(|at| *at < self.stop.min(Time(context.job.plan.end_ns)));
        context.telemetry.transfer(
            self.flow,
            &TransferRecord {
                number: 0,
                start,
                established: self.established,
                end,
                bytes: None,
                before: Default::default(),
                after: counters.sent,
            },
        );
        if let Some(at) = end {
            context.telemetry.event(at, EventKind::TransferEnd, self.flow, 0);
            context.telemetry.event(at, EventKind::FlowEnd, self.flow, 0);
        }
    }

    /// Records the rows that only a report has.
    fn conclude_by_report(&mut self, context: &mut Context, report: &Report) {
        let (plan_end, step) = (context.job.plan.end_ns, context.job.plan.measure.goodput_ns);
        let begin = self.test_began(context).0;
        if !self.sends {
            let rest = report.summary.get("delivered_bytes").copied().unwrap_or(0.0) as u64;
            for (at, bytes) in spread(&report.delivered, begin, rest, step, plan_end) {
                context.telemetry.delivered(Time(at), self.flow, 0, bytes);
            }
            return;
        }
        let Some(row) = report.flows.first() else { return };
        for (at, bytes) in spread(&report.sent, begin, row.sent_bytes, step, plan_end) {
            let headers = row.sent_packets * IP_UDP_BYTES * bytes / row.sent_bytes.max(1);
            context.telemetry.sent(Time(at), self.flow, bytes + headers);
        }
        context.telemetry.flow(&weir_run::FlowRow {
            start_ns: self.begun.unwrap_or(self.start).0,
            end_ns: self.ended.filter(|_| !self.told).map_or(u64::MAX, |at| at.0),
            ..*row
        });
        context.telemetry.report_samples(report);
    }

    fn read_report(&self, context: &mut Context) -> Option<Report> {
        let Kind::Iperf3 = self.report?;
        let running = self.running.as_ref()?;
        let text = String::from_utf8_lossy(&running.captured().stdout);
        match iperf3::read(&text, self.flow, self.test_began(context).0) {
            Ok(report) => Some(report),
            // A failed command has a warning already; a server without a client has nothing to report.
            Err(_) if text.trim().is_empty() || self.exit_code != Some(0) => None,
            Err(error) => {
                context.warn(format!("{}: {error}", self.describe(context)));
                None
            }
        }
    }

    fn test_began(&self, context: &Context) -> Time {
        let round_trip = crate::path::round_trip_ns(&context.job.plan, self.flow);
        Time(self.start.0.saturating_add(IPERF3_ROUND_TRIPS * round_trip))
    }

    fn hand_over(&mut self, context: &Context, output: &mut Output, report: Option<Report>) {
        let Some(spec) = &self.spec else { return };
        let plan = context.flow(self.flow);
        let peer = self.side == Side::Peer;
        let name = format!("commands/{}{}", plan.name, if peer { ".peer" } else { "" });
        let captured = self.running.as_ref().map(Running::captured).cloned().unwrap_or_default();
        let kind = if report.is_some() { "json" } else { "out" };
        for (content, suffix) in [(&captured.stdout, kind), (&captured.stderr, "err")] {
            if !content.is_empty() {
                output.file(&format!("{name}.{suffix}"), content);
            }
        }
        let node = if self.sends { plan.from } else { plan.to };
        output.send(&weir_protocol::Message::Program(Program {
            flow: plan.name.clone(),
            peer,
            host: context.job.plan.nodes[node as usize].name.clone(),
            arguments: spec.arguments.iter().map(lossy).collect(),
            start_ns: self.begun.filter(|_| !peer).map(|at| at.0),
            end_ns: self.ended.map(|at| at.0),
            exit_code: self.exit_code,
            stopped: self.told,
            truncated: captured.truncated,
            report: report.map(|report| report.summary),
        }));
    }

    fn stop_instant(&self) -> Time {
        let more = if self.side == Side::Peer { LINGER_NS } else { 0 };
        Time(self.stop.0.saturating_add(more))
    }

    fn describe(&self, context: &Context) -> String {
        let plan = context.flow(self.flow);
        let node = if self.sends { plan.from } else { plan.to };
        let program = self.spec.as_ref().map_or_else(String::new, |spec| lossy(&spec.arguments[0]));
        let part = if self.side == Side::Peer { "peer " } else { "" };
        format!("flow {}: {part}{program} at {}", plan.name, context.job.plan.nodes[node as usize].name)
    }
}

/// IP and UDP headers of a datagram.
const IP_UDP_BYTES: u64 = 28;

fn lossy(text: &OsString) -> String {
    text.to_string_lossy().into_owned()
}

fn programs_of(flow: &weir_plan::Flow) -> &Programs {
    match &flow.source {
        Source::Command(programs) => programs,
        _ => unreachable!("other sources have endpoints of their own"),
    }
}
