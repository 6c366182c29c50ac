//! The loop: devices and the clock on one side, the network in logical time on the other.
//!
//! One thread reads the frames that hosts have sent, advances the network to the present, writes the frames that are
//! due, and sleeps until the next event or arrival. It spins through the last microseconds before a departure, because
//! kernel timers are later than that.

use std::io;

use weir_emu::gather::Delivery;
use weir_emu::{Network, piece};
use weir_protocol::{Command, Job, Message};
use weir_run::Processor;
use weir_sys::Errno;
use weir_sys::clock::{monotonic_ns, realtime_ns, stands_still};
use weir_sys::epoll::{Epoll, Interest};
use weir_units::{Dur, Time};

use crate::alarm::Alarm;
use crate::capture::Capture;
use crate::clock::Clock;
use crate::control::{Inbox, Input, Reporter};
use crate::device::Device;
use crate::intake::{Intake, Read, Way};
use crate::meter::Meter;
use crate::trace::Trace;

/// Frames written before devices are read again. Hosts answer meanwhile, and a device holds only some hundred frames.
const WRITE_BATCH: usize = 64;
/// Interval at which tables are sent.
const DRAIN: Dur = Dur::from_millis(200);
/// Maximum sleep; it limits the effect of a wrong estimate of the next event.
const LONGEST_SLEEP: Dur = Dur::from_millis(100);
/// Interval at which devices are polled while the loop spins.
const SPIN_TURN: Dur = Dur::from_micros(4);
const INBOX: u64 = u64::MAX;

/// Parameters of the loop.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// A host's device is read only while its network card holds less than this.
    pub horizon: Dur,
    /// The loop spins at most this long before something is due.
    pub spin: Dur,
}

/// Records of single packets.
#[derive(Default)]
pub struct Shown {
    /// The capture of all packets at the sending hosts.
    pub capture: Option<Capture>,
    /// The trace that the plan requests.
    pub trace: Option<Trace>,
}

/// Why the loop ended.
pub enum End {
    /// The plan's end, or a command to stop.
    Complete,
    /// The end of standard input.
    Abandoned,
}

/// The emulator at work.
pub struct Engine {
    job: Job,
    network: Network,
    intake: Intake,
    epoll: Epoll,
    settings: Settings,
    inbox: Inbox,
    reporter: Reporter,
    shown: Shown,
    meter: Meter,
    /// Whether the clock goes on while this process computes.
    real: bool,
    alarm: Alarm,
    /// Before the run: time since the emulator started.
    clock: Clock,
    started: bool,
    /// The instant at which the run begins, once known.
    pending_epoch_ns: Option<u64>,
    /// Frames that devices had refused before the run.
    refused_before: u64,
    next_drain: Time,
    has_input: bool,
    stopped: bool,
    abandoned: bool,
}

impl Engine {
    /// Creates an engine between `devices`, one for each host of the job.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new(
        job: Job,
        network: Network,
        devices: Vec<Device>,
        settings: Settings,
        inbox: Inbox,
        reporter: Reporter,
        shown: Shown,
    ) -> io::Result<Engine> {
        let epoll = Epoll::new(devices.len() + 1)?;
        epoll.add(inbox.wake(), INBOX, Interest::READ)?;
        for (index, device) in (0u64..).zip(&devices) {
            epoll.add(device, index, Interest::READ)?;
        }
        let (bin_ns, real) = (job.plan.measure.links_ns, !stands_still());
        Ok(Engine {
            network,
            intake: Intake::new(devices, settings.horizon),
            epoll,
            settings,
            inbox,
            reporter,
            shown,
            meter: Meter::new(bin_ns, real),
            real,
            alarm: Alarm::new(settings.spin),
            clock: Clock::new(monotonic_ns(), Time::MAX),
            started: false,
            pending_epoch_ns: None,
            refused_before: 0,
            next_drain: Time(DRAIN.0),
            has_input: false,
            stopped: false,
            abandoned: false,
            job,
        })
    }

    /// Works until the plan's end.
    ///
    /// # Errors
    /// A device or a stream fails.
    pub fn run(&mut self) -> io::Result<End> {
        self.reporter.send(Message::Ready);
        loop {
            self.meter.rounds += 1;
            self.begin_if_due();
            let now = self.now();
            if self.abandoned {
                return Ok(End::Abandoned);
            }
            let due = self.network.next_event();
            if due < now {
                self.meter.came_late(now.since(due));
            }
            if self.stopped || self.started && now.0 >= self.job.plan.end_ns {
                return self.complete(now.min(Time(self.job.plan.end_ns))).map(|()| End::Complete);
            }
            let read = self.read(now)?;
            self.network.advance(read.complete);
            self.deliver()?;
            if now >= self.next_drain {
                self.hand_over(now)?;
            }
            self.wait(read.again)?;
            self.read_input()?;
        }
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    /// Begins the run if it is time, and drops all packets under way.
    fn begin_if_due(&mut self) {
        let Some(epoch_ns) = self.pending_epoch_ns.filter(|&epoch| epoch <= monotonic_ns()) else { return };
        self.pending_epoch_ns = None;
        self.intake.forget(&mut self.network);
        self.network.restart(&self.job);
        self.meter = Meter::new(self.job.plan.measure.links_ns, self.real);
        self.clock = Clock::new(epoch_ns, Time(self.job.plan.end_ns));
        self.alarm = Alarm::new(self.settings.spin);
        self.started = true;
        self.next_drain = Time(DRAIN.0);
        self.reporter.send(Message::Progress { now_ns: 0 });
    }

    /// Reads the frames that hosts sent until `now`.
    fn read(&mut self, now: Time) -> io::Result<Read> {
        if self.intake.has_stamps() {
            // A device that became readable since the last wait may have an earlier frame than those known.
            self.poll(Dur::ZERO)?;
        }
        let (network, meter, capture) = (&mut self.network, &mut self.meter, self.shown.capture.as_mut());
        self.intake.read(now, &mut Way { network, clock: self.clock, capture, meter })
    }

    /// Writes frames that are due, up to a number.
    fn deliver(&mut self) -> io::Result<()> {
        for _ in 0..WRITE_BATCH {
            let Some(delivery) = self.network.next_delivery() else { break };
            let (now, held) = (self.now(), delivery.due.since(delivery.first_at));
            self.meter.delivered(now.since(delivery.due), held, delivery.run.packets);
            if self.write(&delivery)? {
                self.meter.writes += 1;
            } else {
                self.meter.write_failures += 1;
            }
            self.network.delivered(&delivery);
        }
        Ok(())
    }

    fn write(&mut self, delivery: &Delivery) -> io::Result<bool> {
        let train = self.network.trains.get(delivery.train);
        let (device, buffer) = (self.intake.device(delivery.host), &train.buffer);
        if let Some(capture) = &mut self.shown.capture {
            capture.received(train.flow, delivery, &train.frame, buffer.bytes());
        }
        let written = if piece::is_whole(&train.frame, &delivery.run) {
            device.write(buffer.bytes(), buffer.zeros())
        } else {
            let Some(headers) = piece::headers(&train.frame, buffer.bytes(), &delivery.run) else { return Ok(false) };
            device.write(headers.bytes(), buffer.part(headers.payload.clone()))
        };
        match written {
            Ok(written) => Ok(written.is_some()),
            Err(error) if is_refusal(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends the tables up to `now`; drops them before the run.
    fn hand_over(&mut self, now: Time) -> io::Result<()> {
        self.next_drain = now + DRAIN;
        self.intake.read_clocks();
        let records = self.network.drain();
        if let Some(capture) = &mut self.shown.capture {
            capture.flush()?;
        }
        let traced = self.network.take_trace();
        if !self.started {
            return Ok(());
        }
        if let Some(trace) = &self.shown.trace {
            trace.add(traced, self.intake.known(self.network.now()));
        }
        self.reporter.table("links", records.links.into_columns());
        if let Some(classes) = records.classes {
            self.reporter.table("classes", classes.into_columns());
        }
        if let Some(ports) = records.ports {
            self.reporter.table("ports", ports.into_columns());
        }
        self.reporter.table("delays", records.delays.into_columns());
        self.reporter.table("delay_bins", records.delay_bins.into_columns());
        self.reporter.table("events", records.events.into_columns());
        if let Some(row) = self.meter.processor(now) {
            let mut processor = Processor::default();
            processor.push(row);
            self.reporter.table("processor", processor.into_columns());
        }
        for (name, columns) in records.ledgers {
            self.reporter.table(name, columns);
        }
        self.reporter.send(Message::Progress { now_ns: now.0 });
        Ok(())
    }

    fn complete(&mut self, end: Time) -> io::Result<()> {
        self.network.advance(end);
        self.network.close_bins();
        self.hand_over(end)?;
        self.shown.trace.take().map_or(Ok(()), Trace::finish)?;
        let statistics = self.network.statistics();
        let mut stats = self.meter.stats(&statistics);
        let refused = self.intake.refused()?.saturating_sub(self.refused_before);
        for text in self.meter.warnings(&statistics, refused) {
            self.reporter.send(Message::Warning { text });
        }
        stats.insert("host_queue_drops".to_owned(), refused as f64);
        self.reporter.send(Message::End { stats });
        Ok(())
    }

    /// Sleeps until `wake`, an arrival or an event.
    fn wait(&mut self, wake: Time) -> io::Result<()> {
        // Reading takes time, so that more frames may be due.
        if wake == Time::ZERO || self.network.has_deliveries() {
            return self.poll_unless_read();
        }
        let epoch = self.pending_epoch_ns.map_or(Time::MAX, |epoch_ns| self.clock.at(epoch_ns));
        let now = self.now();
        let next = wake.min(self.network.next_event()).min(self.next_drain).min(epoch).min(now + LONGEST_SLEEP);
        let sleep = self.alarm.sleep(now, next.since(now));
        if sleep == Dur::ZERO {
            if next > now {
                self.spin(now, next);
            }
            return self.poll_unless_read();
        }
        if self.poll(sleep)? {
            self.alarm.rang(self.now().since(now + sleep));
        }
        Ok(())
    }

    /// Spins until `next`, or until devices should be polled.
    fn spin(&mut self, begin: Time, next: Time) {
        // The network's clock stops at the plan's end and never reaches a later instant.
        let end = next.min(begin + SPIN_TURN).min(self.clock.end());
        let mut now = begin;
        while now < end {
            std::hint::spin_loop();
            now = self.now();
        }
        self.alarm.spun(now.since(begin));
        self.meter.spun(now.since(begin).0);
    }

    /// Polls the devices, unless the next reading does.
    fn poll_unless_read(&mut self) -> io::Result<()> {
        if self.intake.has_stamps() { Ok(()) } else { self.poll(Dur::ZERO).map(drop) }
    }

    /// Waits at most `timeout` for frames and input; true if none came.
    fn poll(&mut self, timeout: Dur) -> io::Result<bool> {
        let (intake, has_input, mut is_idle) = (&mut self.intake, &mut self.has_input, true);
        self.epoll.wait(Some(timeout.0), |token, _| {
            is_idle = false;
            match token {
                INBOX => *has_input = true,
                host => intake.tell(host),
            }
        })?;
        Ok(is_idle)
    }

    fn read_input(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.has_input) {
            return Ok(());
        }
        self.inbox.forget_wake()?;
        while let Some(input) = self.inbox.next() {
            match input {
                Input::Command(Command::Start(start)) => {
                    self.pending_epoch_ns = Some(start.epoch_ns(monotonic_ns, realtime_ns));
                    self.refused_before = self.intake.refused()?;
                }
                Input::Command(Command::Stop) => self.stopped = true,
                Input::Bad(text) => return Err(io::Error::new(io::ErrorKind::InvalidInput, text)),
                Input::End => self.abandoned = true,
            }
        }
        Ok(())
    }

    /// Returns the streams, so that they can be ended.
    pub fn into_reporter(self) -> Reporter {
        self.reporter
    }
}

/// Whether a device refused one frame, and still works.
fn is_refusal(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::NOBUFS | Errno::NOMEM | Errno::MSGSIZE))
}
