//! One run, from the job to the last message.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use weir_plan::{Source, Transport};
use weir_protocol::{Command, End, Job, Message};
use weir_run::{ProcessPart, ProcessorRow};
use weir_sys::clock::{self, Timer};
use weir_sys::epoll::{Interest, Ready};
use weir_sys::process;
use weir_units::{Histogram, Time};

use crate::cbr_receiver::CbrReceiver;
use crate::cbr_sender::CbrSender;
use crate::census::{Census, Side};
use crate::context::Context;
use crate::datagram_flow::Incoming;
use crate::dccp_receiver::DccpReceiver;
use crate::dccp_sender::DccpSender;
use crate::error::AgentError;
use crate::native_receiver::NativeReceiver;
use crate::native_sender::NativeSender;
use crate::output::{Input, Output};
use crate::program_end::ProgramEnd;
use crate::quic_receiver::QuicReceiver;
use crate::quic_sender::QuicSender;
use crate::sampler::{Sampler, Sampling};
use crate::schedule::Slot;
use crate::tcp_receiver::TcpReceiver;
use crate::tcp_sender::TcpSender;
use crate::tfrc_receiver::TfrcReceiver;
use crate::tfrc_sender::TfrcSender;
use crate::udt_receiver::UdtReceiver;
use crate::udt_sender::UdtSender;

const INPUT: u64 = u64::MAX;
const OUTPUT: u64 = u64::MAX - 1;
const TIMER: u64 = u64::MAX - 2;

/// The lowest real-time priority.
const PRIORITY: u32 = 1;
/// Interval at which rows and progress are sent.
const FLUSH_NS: u64 = 250_000_000;
/// One part of its interval in this many: a tick later than this makes its rows inexact.
const LATE_SHARE: u64 = 4;
/// Time for programs to end after the plan's end.
const COURTESY: Duration = Duration::from_secs(2);
/// Time for a peer to end by itself after its command.
const LAST_WORDS: Duration = Duration::from_millis(250);
/// More late ticks than one in so many cause a warning.
const MANY_OF: u64 = 100;

/// The token of an endpoint's socket. `generation` distinguishes its connections; 0 is the listening socket.
pub fn token(endpoint: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(endpoint)
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The plan ended, or `stop` came; all results were sent.
    Complete,
    /// Standard input ended: the parent is gone.
    Abandoned,
}

/// How a session is served, besides its job.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How connections are looked at.
    pub sampling: Sampling,
    /// Whether the run begins before all ordinary processes: many that wake at one instant otherwise wait for each other
    /// and for everything else.
    pub at_once: bool,
}

/// The intervals of `measure` that end.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    /// `measure.goodput`.
    pub goodput: bool,
    /// `measure.tcp`.
    pub tcp: bool,
}

enum Endpoint {
    TcpSender(TcpSender),
    TcpReceiver(TcpReceiver),
    CbrSender(Box<CbrSender>),
    CbrReceiver(Box<CbrReceiver>),
    TfrcSender(Box<TfrcSender>),
    TfrcReceiver(Box<TfrcReceiver>),
    UdtSender(Box<UdtSender>),
    UdtReceiver(Box<UdtReceiver>),
    DccpSender(Box<DccpSender>),
    DccpReceiver(Box<DccpReceiver>),
    QuicSender(Box<QuicSender>),
    QuicReceiver(Box<QuicReceiver>),
    NativeSender(Box<NativeSender>),
    NativeReceiver(Box<NativeReceiver>),
    Program(ProgramEnd),
}

/// The parts of a session.
type Prepared = (Context, Vec<Endpoint>, Timer, Census);

/// A run.
pub struct Session {
    context: Context,
    endpoints: Vec<Endpoint>,
    /// The endpoint that sends each flow.
    senders: BTreeMap<u32, usize>,
    input: Input,
    output: Output,
    timer: Timer,
    sampler: Sampler,
    census: Census,
    next_goodput: Time,
    next_tcp: Time,
    lateness: Histogram,
    /// How late this process woke for the start.
    start_late_ns: Option<u64>,
    at_once: bool,
    /// Whether this process goes before ordinary ones now.
    is_urgent: bool,
    wakeups: u64,
    ticks: u64,
    late_ticks: u64,
    /// Processor time spent on sampling connections and on rows.
    measuring_ns: u64,
    /// Processor time at the last row of it; none where the clock stands still while a process computes.
    processor: Option<(u64, u64)>,
    done: bool,
}

impl Session {
    /// Opens the sockets of a job.
    ///
    /// # Errors
    /// This machine has not the host, or refuses a setting of the plan.
    pub fn new(job: Job, options: Options, mut input: Input, output: Output) -> Result<Session, (AgentError, Output)> {
        match Session::prepare(job, &mut input, &output) {
            Ok((mut context, endpoints, timer, census)) => {
                let sampler = Sampler::new(&mut context, options.sampling);
                let first = |interval: u64| if interval == 0 { Time::MAX } else { Time(interval) };
                let measure = &context.job.plan.measure;
                let sends = |(number, end): (usize, &End)| match end {
                    End::From(flow) => Some((*flow, number)),
                    End::To(_) => None,
                };
                Ok(Session {
                    next_goodput: first(measure.goodput_ns),
                    next_tcp: first(measure.tcp_ns),
                    senders: context.job.ends.iter().enumerate().filter_map(sends).collect(),
                    context,
                    endpoints,
                    input,
                    output,
                    timer,
                    sampler,
                    census,
                    lateness: Histogram::default(),
                    start_late_ns: None,
                    at_once: options.at_once,
                    is_urgent: false,
                    wakeups: 0,
                    ticks: 0,
                    late_ticks: 0,
                    measuring_ns: 0,
                    processor: (!clock::stands_still()).then_some((0, 0)),
                    done: false,
                })
            }
            Err(error) => Err((error, output)),
        }
    }

    fn prepare(job: Job, input: &mut Input, output: &Output) -> Result<Prepared, AgentError> {
        let mut context = Context::new(job)?;
        let timer = Timer::new()?;
        context.epoll.add(&timer, TIMER, Interest::READ)?;
        if !watch(&context, input, INPUT, Interest::LEVEL_READ)? {
            while !input.ended() {
                input.read()?;
            }
        }
        watch(&context, output, OUTPUT, Interest::WRITE)?;
        let mut endpoints = Vec::with_capacity(context.job.ends.len());
        for (number, end) in context.job.ends.clone().into_iter().enumerate() {
            endpoints.push(open(&mut context, number as u32, end)?);
        }
        for endpoint in &mut endpoints {
            if let Endpoint::Program(end) = endpoint {
                end.await_ready(&context)?;
            }
        }
        let census = Census::new(&mut context)?;
        Ok((context, endpoints, timer, census))
    }

    /// Serves until the plan ends, and sends the last rows.
    ///
    /// # Errors
    /// The run cannot continue, or the reader of standard output is gone.
    pub fn run(mut self) -> Result<Outcome, (AgentError, Output)> {
        match self.serve() {
            Ok(outcome) => Ok(outcome),
            Err(error) => {
                self.context.telemetry.flush(&mut self.output);
                Err((error, self.output))
            }
        }
    }

    fn serve(&mut self) -> Result<Outcome, AgentError> {
        self.output.send(&Message::Ready);
        let (mut ready, mut hungry) = (Vec::new(), Vec::new());
        loop {
            if let Some(outcome) = self.take_commands()? {
                return Ok(outcome);
            }
            if self.done {
                self.conclude()?;
                return Ok(Outcome::Complete);
            }
            self.tell_warnings();
            self.output.pump()?;
            self.arm()?;
            ready.clear();
            let timeout_ns = (!self.context.hungry.is_empty()).then_some(0);
            self.context.epoll.wait(timeout_ns, |token, what| ready.push((token, what)))?;
            self.wakeups += 1;
            std::mem::swap(&mut hungry, &mut self.context.hungry);
            self.take_turns(&ready, &hungry)?;
            hungry.clear();
            if self.is_urgent && self.start_late_ns.is_some() {
                process::set_ordinary()?;
                self.is_urgent = false;
            }
        }
    }

    /// Serves ready and hungry endpoints. Due work goes first, and between any two of them: with many flows a round is
    /// long.
    fn take_turns(&mut self, ready: &[(u64, Ready)], hungry: &[u32]) -> Result<(), AgentError> {
        for &(token, what) in ready {
            self.catch_up()?;
            self.dispatch(token, what)?;
        }
        for &endpoint in hungry {
            self.catch_up()?;
            self.feed(endpoint);
        }
        self.tell_others()
    }

    /// Informs the other connections of a user that a transfer has ended.
    fn tell_others(&mut self) -> Result<(), AgentError> {
        while let Some(flow) = self.context.came.pop() {
            for other in self.context.waits.others(flow) {
                let Some(&endpoint) = self.senders.get(&other) else { continue };
                match &mut self.endpoints[endpoint] {
                    Endpoint::TcpSender(sender) => sender.on_others(&mut self.context)?,
                    Endpoint::QuicSender(sender) => sender.on_others(&mut self.context)?,
                    Endpoint::UdtSender(sender) => sender.on_others(&mut self.context),
                    Endpoint::NativeSender(sender) => sender.on_others(&mut self.context)?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn catch_up(&mut self) -> Result<(), AgentError> {
        self.context.read_clock();
        if self.context.schedule.first() <= self.context.now { self.run_due() } else { Ok(()) }
    }

    fn feed(&mut self, endpoint: u32) {
        match self.endpoints.get_mut(endpoint as usize) {
            Some(Endpoint::TcpSender(sender)) => sender.write(&mut self.context),
            Some(Endpoint::NativeSender(sender)) => sender.write(&mut self.context),
            Some(Endpoint::DccpSender(sender)) => sender.write(&mut self.context),
            _ => {}
        }
    }

    fn dispatch(&mut self, token: u64, ready: Ready) -> Result<(), AgentError> {
        match token {
            // The next turn writes to the pipe anyway.
            TIMER | OUTPUT => return Ok(()),
            INPUT => return Ok(self.input.read()?),
            _ => {}
        }
        let (endpoint, generation) = (token as u32, (token >> 32) as u32);
        let context = &mut self.context;
        match self.endpoints.get_mut(endpoint as usize) {
            Some(Endpoint::TcpSender(sender)) => sender.on_ready(context, generation, ready),
            Some(Endpoint::TcpReceiver(receiver)) => receiver.on_ready(context, generation, ready),
            Some(Endpoint::TfrcSender(sender)) => sender.on_ready(context),
            Some(Endpoint::TfrcReceiver(receiver)) => receiver.on_ready(context),
            Some(Endpoint::UdtSender(sender)) => {
                sender.on_ready(context);
                Ok(())
            }
            Some(Endpoint::UdtReceiver(receiver)) => receiver.on_ready(context),
            Some(Endpoint::DccpSender(sender)) => {
                sender.on_ready(context, ready);
                Ok(())
            }
            Some(Endpoint::DccpReceiver(receiver)) => receiver.on_ready(context, generation),
            Some(Endpoint::QuicSender(sender)) => sender.on_ready(context, generation),
            Some(Endpoint::QuicReceiver(receiver)) => receiver.on_ready(context),
            Some(Endpoint::NativeSender(sender)) => sender.on_ready(context, generation, ready),
            Some(Endpoint::NativeReceiver(receiver)) => receiver.on_ready(context, generation),
            Some(Endpoint::Program(end)) => end.on_ready(context, generation, ready),
            Some(Endpoint::CbrSender(_) | Endpoint::CbrReceiver(_)) | None => Ok(()),
        }
    }

    /// Executes the commands that have come; returns the outcome if one of them ends the session.
    fn take_commands(&mut self) -> Result<Option<Outcome>, AgentError> {
        while let Some(line) = self.input.line() {
            let command: Command = serde_json::from_str(&line)
                .map_err(|e| AgentError(format!("standard input: {line:?} is not a command: {e}")))?;
            match command {
                Command::Start(start) => self.start(start.epoch_ns(clock::monotonic_ns, clock::realtime_ns))?,
                Command::Stop => self.done = true,
            }
        }
        Ok(self.input.ended().then_some(Outcome::Abandoned))
    }

    fn start(&mut self, epoch_ns: u64) -> Result<(), AgentError> {
        if self.context.epoch_ns.is_some() {
            return Err(AgentError("standard input: `start` came twice".into()));
        }
        let now = clock::monotonic_ns();
        if epoch_ns < now {
            let late = (now - epoch_ns) as f64 / 1e9;
            return Err(AgentError(format!("standard input: `start` is {late:.3} s past; it must be ahead")));
        }
        self.context.epoch_ns = Some(epoch_ns);
        // Programs that start at once would inherit another niceness than later ones.
        if self.at_once && programs(&mut self.endpoints).next().is_none() {
            self.is_urgent = process::set_fifo(PRIORITY).is_ok();
        }
        let schedule = &mut self.context.schedule;
        for (number, endpoint) in self.endpoints.iter().enumerate() {
            let at = match endpoint {
                Endpoint::TcpReceiver(_)
                | Endpoint::QuicReceiver(_)
                | Endpoint::TfrcReceiver(_)
                | Endpoint::UdtReceiver(_)
                | Endpoint::DccpReceiver(_)
                | Endpoint::NativeReceiver(_) => Time::MAX,
                Endpoint::CbrReceiver(_) => Time::ZERO,
                Endpoint::Program(end) => end.first_instant(),
                Endpoint::TcpSender(_)
                | Endpoint::QuicSender(_)
                | Endpoint::NativeSender(_)
                | Endpoint::TfrcSender(_)
                | Endpoint::UdtSender(_)
                | Endpoint::DccpSender(_)
                | Endpoint::CbrSender(_) => {
                    Time(self.context.job.plan.flows[flow_of(&self.context.job, number)].start_ns)
                }
            };
            schedule.add(at, Slot::Endpoint(number as u32));
        }
        schedule.add(Time::ZERO, Slot::Start);
        schedule.add(self.next_goodput.min(self.next_tcp), Slot::Tick);
        schedule.add(Time(FLUSH_NS), Slot::Flush);
        schedule.add(Time(self.context.job.plan.end_ns), Slot::PlanEnd);
        Ok(())
    }

    fn arm(&mut self) -> io::Result<()> {
        let Some(epoch) = self.context.epoch_ns else { return Ok(()) };
        let first = self.context.schedule.first();
        self.timer.arm(if first == Time::MAX { u64::MAX } else { epoch.saturating_add(first.0) })
    }

    fn run_due(&mut self) -> Result<(), AgentError> {
        if !self.context.begun || self.done {
            return Ok(());
        }
        while let Some((at, slot)) = self.context.schedule.take(self.context.now) {
            self.lateness.add(self.context.now.since(at).0, 1);
            match slot {
                Slot::Start => {
                    self.start_late_ns = Some(self.context.now.since(at).0);
                    self.processor = self.processor.map(|_| clock::cpu_ns());
                }
                Slot::Endpoint(number) => self.endpoint_due(number)?,
                Slot::Tick => self.measuring(|session| session.tick(at))?,
                Slot::Flush => self.measuring(|session| session.flush(at)),
                Slot::Failure => {
                    let ended = self.context.now.0 >= self.context.job.plan.end_ns;
                    if let Some((_, error)) = self.context.failure.take().filter(|_| !ended) {
                        return Err(error);
                    }
                }
                Slot::PlanEnd => {
                    self.done = true;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn endpoint_due(&mut self, number: u32) -> Result<(), AgentError> {
        let context = &mut self.context;
        match &mut self.endpoints[number as usize] {
            Endpoint::TcpSender(sender) => sender.on_due(context),
            Endpoint::CbrReceiver(receiver) => receiver.on_due(context),
            Endpoint::CbrSender(sender) => {
                sender.on_due(context);
                Ok(())
            }
            Endpoint::TfrcSender(sender) => {
                sender.on_due(context);
                Ok(())
            }
            Endpoint::TfrcReceiver(receiver) => receiver.on_due(context),
            Endpoint::UdtSender(sender) => {
                sender.on_due(context);
                Ok(())
            }
            Endpoint::UdtReceiver(receiver) => receiver.on_due(context),
            Endpoint::QuicSender(sender) => sender.on_due(context),
            Endpoint::QuicReceiver(receiver) => receiver.on_due(context),
            Endpoint::NativeSender(sender) => sender.on_due(context),
            Endpoint::DccpSender(sender) => sender.on_due(context),
            Endpoint::NativeReceiver(_) | Endpoint::DccpReceiver(_) => Ok(()),
            Endpoint::Program(end) => end.on_due(context),
            Endpoint::TcpReceiver(receiver) => receiver.on_due(context),
        }
    }

    /// Does `work` and counts its processor time as measuring.
    fn measuring<T>(&mut self, work: impl FnOnce(&mut Session) -> T) -> T {
        let begun = clock::thread_cpu_ns();
        let result = work(self);
        self.measuring_ns += clock::thread_cpu_ns() - begun;
        result
    }

    fn tick(&mut self, at: Time) -> Result<(), AgentError> {
        let due = Due { goodput: at >= self.next_goodput, tcp: at >= self.next_tcp };
        let measure = &self.context.job.plan.measure;
        let interval = if due.tcp { measure.tcp_ns } else { measure.goodput_ns };
        self.ticks += 1;
        if self.context.now.since(at).0 > interval / LATE_SHARE {
            self.late_ticks += 1;
        }
        if due.goodput {
            self.next_goodput = Time(at.0 + measure.goodput_ns);
        }
        if due.tcp {
            self.next_tcp = Time(at.0 + measure.tcp_ns);
        }
        self.context.schedule.add(self.next_goodput.min(self.next_tcp), Slot::Tick);
        if due.goodput {
            self.record_processor(at);
        }
        self.sampler.look(&self.context);
        self.census.look();
        let context = &mut self.context;
        for endpoint in &mut self.endpoints {
            match endpoint {
                Endpoint::TcpSender(sender) => {
                    let info = self.sampler.info(sender.flow());
                    sender.on_tick(context, at, due, info);
                }
                Endpoint::TcpReceiver(receiver) if due.goodput => receiver.on_tick(context, at)?,
                Endpoint::TfrcSender(sender) => sender.on_tick(context, at, due),
                Endpoint::TfrcReceiver(receiver) if due.goodput => receiver.on_tick(context, at)?,
                Endpoint::UdtSender(sender) => sender.on_tick(context, at, due),
                Endpoint::UdtReceiver(receiver) if due.goodput => receiver.on_tick(context, at)?,
                Endpoint::DccpSender(sender) => sender.on_tick(context, at, due),
                Endpoint::DccpReceiver(receiver) if due.goodput => receiver.on_tick(context, at)?,
                Endpoint::QuicSender(sender) => sender.on_tick(context, at, due),
                Endpoint::QuicReceiver(receiver) if due.goodput => receiver.on_tick(context, at)?,
                Endpoint::NativeSender(sender) => sender.on_tick(context, at, due),
                Endpoint::NativeReceiver(receiver) if due.goodput => receiver.on_tick(context, at)?,
                Endpoint::CbrSender(sender) if due.goodput => sender.on_tick(context, at),
                Endpoint::CbrReceiver(receiver) if due.goodput => receiver.on_tick(context, at)?,
                Endpoint::Program(end) => end.on_tick(context, &mut self.census, at, due),
                _ => {}
            }
        }
        Ok(())
    }

    /// Records the processor time since the last row.
    fn record_processor(&mut self, at: Time) {
        let Some((user, system)) = self.processor else { return };
        let now = clock::cpu_ns();
        let ends = &self.context.job.ends;
        let sends = |end: &End| matches!(end, End::From(_));
        let part = match (ends.iter().any(sends), ends.iter().all(sends)) {
            (true, true) => ProcessPart::Senders,
            (true, false) => ProcessPart::Both,
            (false, _) => ProcessPart::Receivers,
        };
        self.processor = Some(now);
        self.context.telemetry.processor(ProcessorRow {
            time_ns: at.0,
            part: part as u8,
            user_ns: now.0 - user,
            system_ns: now.1 - system,
        });
    }

    fn flush(&mut self, at: Time) {
        self.context.schedule.add(Time(at.0.max(self.context.now.0) + FLUSH_NS), Slot::Flush);
        self.context.telemetry.flush(&mut self.output);
        self.output.send(&Message::Progress { now_ns: self.context.now.0 });
    }

    fn tell_warnings(&mut self) {
        for text in self.context.warnings.drain(..) {
            self.output.send(&Message::Warning { text });
        }
    }

    fn conclude(&mut self) -> Result<(), AgentError> {
        self.end_programs();
        let context = &mut self.context;
        for endpoint in &mut self.endpoints {
            match endpoint {
                Endpoint::TcpSender(sender) => sender.finish(context),
                Endpoint::TcpReceiver(receiver) => receiver.finish(),
                Endpoint::TfrcSender(sender) => sender.finish(context),
                Endpoint::TfrcReceiver(receiver) => receiver.finish(context),
                Endpoint::UdtSender(sender) => sender.finish(context),
                Endpoint::UdtReceiver(receiver) => receiver.finish(context),
                Endpoint::DccpSender(sender) => sender.finish(context),
                Endpoint::DccpReceiver(receiver) => receiver.finish(context),
                Endpoint::QuicSender(sender) => sender.finish(context),
                Endpoint::QuicReceiver(_) => {}
                Endpoint::NativeSender(sender) => sender.finish(context),
                Endpoint::NativeReceiver(receiver) => receiver.finish(),
                Endpoint::CbrSender(sender) => sender.finish(context),
                Endpoint::CbrReceiver(receiver) => receiver.finish(context),
                Endpoint::Program(end) => end.finish(context, &mut self.census, &mut self.output),
            }
        }
        if self.late_ticks * MANY_OF > self.ticks {
            context.warn(format!(
                "{} of {} instants of measure came late by more than a quarter of their interval: this host was busy",
                self.late_ticks, self.ticks
            ));
        }
        context.telemetry.flush(&mut self.output);
        self.tell_warnings();
        let stats = self.stats();
        self.output.send(&Message::End { stats });
        Ok(self.output.finish()?)
    }

    /// Ends every command, then every peer.
    fn end_programs(&mut self) {
        self.census.look();
        let context = &mut self.context;
        let mut ends: Vec<&mut ProgramEnd> = programs(&mut self.endpoints).collect();
        for side in [Side::Command, Side::Peer] {
            let quietly = Instant::now() + LAST_WORDS;
            for end in ends.iter_mut().filter(|end| side == Side::Peer && end.may_end_by_itself()) {
                end.await_end(context, side, quietly);
            }
            ends.iter_mut().for_each(|end| end.ask_to_end(side));
            let deadline = Instant::now() + COURTESY;
            ends.iter_mut().for_each(|end| end.await_end(context, side, deadline));
        }
        ends.iter_mut().for_each(|end| end.end_by_force(context));
    }

    fn stats(&self) -> BTreeMap<String, f64> {
        let (user, system) = clock::cpu_ns();
        let telemetry = &self.context.telemetry;
        let mut stats = BTreeMap::from([
            ("cpu_user_s".to_owned(), user as f64 / 1e9),
            ("cpu_system_s".to_owned(), system as f64 / 1e9),
            ("measuring_cpu_s".to_owned(), self.measuring_ns as f64 / 1e9),
            ("wakeups".to_owned(), self.wakeups as f64),
            ("late_ticks".to_owned(), self.late_ticks as f64),
            ("dumps".to_owned(), self.sampler.dumps as f64),
            ("acked_bytes".to_owned(), telemetry.acked_bytes as f64),
            ("delivered_bytes".to_owned(), telemetry.delivered_bytes as f64),
        ]);
        if let Some(late) = self.start_late_ns {
            stats.insert("start_late_ns".to_owned(), late as f64);
        }
        if self.context.job.token.is_some() {
            stats.insert("strangers".to_owned(), self.context.strangers as f64);
        }
        add_quantiles(&mut stats, "timer_late", &self.lateness);
        for endpoint in &self.endpoints {
            match endpoint {
                Endpoint::CbrSender(sender) => {
                    add_quantiles(&mut stats, &format!("cbr.{}.send_late", sender.flow()), sender.lateness());
                }
                Endpoint::CbrReceiver(receiver) => {
                    let prefix = format!("cbr.{}", receiver.incoming.flow());
                    add_incoming(&mut stats, &prefix, &receiver.incoming);
                    add_quantiles(&mut stats, &format!("{prefix}.spacing_error"), &receiver.spacing_error);
                    add_quantiles(&mut stats, &format!("{prefix}.delay"), &receiver.delay);
                }
                Endpoint::TfrcSender(sender) => {
                    let prefix = format!("tfrc.{}", sender.flow());
                    stats.insert(format!("{prefix}.reports"), sender.reports as f64);
                    add_quantiles(&mut stats, &format!("{prefix}.send_late"), sender.lateness());
                }
                Endpoint::TfrcReceiver(receiver) => {
                    let prefix = format!("tfrc.{}", receiver.incoming.flow());
                    add_incoming(&mut stats, &prefix, &receiver.incoming);
                    stats.insert(format!("{prefix}.reports_sent"), receiver.reports as f64);
                }
                Endpoint::UdtSender(sender) => {
                    add_quantiles(&mut stats, &format!("udt.{}.send_late", sender.flow()), &sender.lateness);
                }
                Endpoint::UdtReceiver(receiver) => {
                    let prefix = format!("udt.{}", receiver.flow());
                    stats.insert(format!("{prefix}.received"), receiver.received as f64);
                    stats.insert(format!("{prefix}.duplicates"), receiver.duplicates as f64);
                }
                Endpoint::DccpReceiver(receiver) => {
                    let prefix = format!("dccp.{}", receiver.incoming.flow());
                    add_incoming(&mut stats, &prefix, &receiver.incoming);
                }
                Endpoint::DccpSender(_)
                | Endpoint::TcpSender(_)
                | Endpoint::TcpReceiver(_)
                | Endpoint::QuicSender(_)
                | Endpoint::QuicReceiver(_)
                | Endpoint::NativeSender(_)
                | Endpoint::NativeReceiver(_)
                | Endpoint::Program(_) => {}
            }
        }
        stats
    }
}

/// Adds what a receiver of datagrams has counted.
fn add_incoming(stats: &mut BTreeMap<String, f64>, prefix: &str, incoming: &Incoming) {
    stats.insert(format!("{prefix}.received"), incoming.received as f64);
    stats.insert(format!("{prefix}.lost"), incoming.lost() as f64);
    stats.insert(format!("{prefix}.reordered"), incoming.reordered as f64);
}

fn add_quantiles(stats: &mut BTreeMap<String, f64>, name: &str, distribution: &Histogram) {
    for (suffix, value) in
        [("p50", distribution.quantile(0.5)), ("p99", distribution.quantile(0.99)), ("max", distribution.max())]
    {
        stats.insert(format!("{name}_{suffix}_ns"), value as f64);
    }
}

fn flow_of(job: &Job, number: usize) -> usize {
    let (End::From(flow) | End::To(flow)) = job.ends[number];
    flow as usize
}

fn open(context: &mut Context, number: u32, end: End) -> Result<Endpoint, AgentError> {
    let (End::From(flow) | End::To(flow)) = end;
    if let Source::Command(_) = context.flow(flow).source {
        return ProgramEnd::new(context, number, flow, matches!(end, End::From(_))).map(Endpoint::Program);
    }
    Ok(match (end, &context.flow(flow).transport) {
        (End::From(_), Transport::Tcp(_)) => Endpoint::TcpSender(TcpSender::new(context, number, flow)?),
        (End::To(_), Transport::Tcp(_)) => Endpoint::TcpReceiver(TcpReceiver::new(context, number, flow)?),
        (End::From(_), Transport::Quic(_)) => Endpoint::QuicSender(Box::new(QuicSender::new(context, number, flow)?)),
        (End::To(_), Transport::Quic(_)) => Endpoint::QuicReceiver(Box::new(QuicReceiver::new(context, number, flow)?)),
        (End::From(_), Transport::Dccp(_)) => Endpoint::DccpSender(Box::new(DccpSender::new(context, number, flow)?)),
        (End::To(_), Transport::Dccp(_)) => Endpoint::DccpReceiver(Box::new(DccpReceiver::new(context, number, flow)?)),
        (End::From(_), Transport::Mptcp(_) | Transport::Sctp(_)) => {
            Endpoint::NativeSender(Box::new(NativeSender::new(context, number, flow)?))
        }
        (End::To(_), Transport::Mptcp(_) | Transport::Sctp(_)) => {
            Endpoint::NativeReceiver(Box::new(NativeReceiver::new(context, number, flow)?))
        }
        (End::From(_), Transport::Udp(_)) => Endpoint::CbrSender(Box::new(CbrSender::new(context, number, flow)?)),
        (End::From(_), Transport::Tfrc(_)) => Endpoint::TfrcSender(Box::new(TfrcSender::new(context, number, flow)?)),
        (End::To(_), Transport::Tfrc(_)) => Endpoint::TfrcReceiver(Box::new(TfrcReceiver::new(context, number, flow)?)),
        (End::To(_), Transport::Udp(_)) => Endpoint::CbrReceiver(Box::new(CbrReceiver::new(context, number, flow)?)),
        (End::From(_), Transport::Udt(_)) => Endpoint::UdtSender(Box::new(UdtSender::new(context, number, flow)?)),
        (End::To(_), Transport::Udt(_)) => Endpoint::UdtReceiver(Box::new(UdtReceiver::new(context, number, flow)?)),
    })
}

fn programs(endpoints: &mut [Endpoint]) -> impl Iterator<Item = &mut ProgramEnd> {
    endpoints.iter_mut().filter_map(|endpoint| match endpoint {
        Endpoint::Program(end) => Some(end),
        _ => None,
    })
}

/// Watches a stream; false for a regular file, which is always ready and cannot be watched.
fn watch(context: &Context, fd: &impl AsFd, token: u64, interest: Interest) -> io::Result<bool> {
    match context.epoll.add(fd, token, interest) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
        other => other.map(|()| true),
    }
}
