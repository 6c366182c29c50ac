//! `weir-agent queues`: tables `links` and `classes` from the counters of queueing disciplines.
//!
//! A process of a run like any other: a [`QueuesJob`] and commands on standard input, messages on standard output.
//! Every `measure.links` it asks each namespace for all of its disciplines at once.
//!
//! A link is up to three disciplines, whose handles `python/weir/hosts/netem.py` gives: losses, rate, queue. The queue
//! of a class is a discipline below that one. Two columns are estimates from the queue at both ends of an interval,
//! because the kernel does not count them: the delay (mean length over the rate) and its maximum; for a class, the rate
//! is that of its packets in the interval. A lost packet counts as one of the link's largest size.

use std::collections::BTreeMap;
use std::io;

use weir_protocol::{Command, LinkQueue, Message, QueuesJob};
use weir_run::{ClassRow, Classes, Column, LinkRow, Links};
use weir_sys::clock::{self, Timer};
use weir_sys::epoll::{Epoll, Interest};
use weir_sys::netlink::u32_at;
use weir_sys::netns::Namespaces;
use weir_sys::qdisc::{Counters, Discipline, Disciplines, device_index};

use crate::error::AgentError;
use crate::output::{Input, Output};

/// Handles of a link's disciplines.
const LOSSES: u32 = 1 << 16;
const RATE: u32 = 2 << 16;
const QUEUE: u32 = 3 << 16;

/// Null in a nullable column.
const NULL: u64 = u64::MAX;
const FLUSH_NS: u64 = 250_000_000;
/// One part of the interval in this many: an instant later than this makes its rows inexact.
const LATE_SHARE: u64 = 4;
/// More late instants than one in so many cause a warning.
const MANY_OF: u64 = 100;

const INPUT: u64 = 0;
const OUTPUT: u64 = 1;
const TIMER: u64 = 2;
const DESCRIPTORS: usize = 3;

/// Serves one run.
///
/// # Errors
/// A namespace or device is missing, or the kernel refuses to list its disciplines; with the output, for the last
/// message.
pub fn serve(job: QueuesJob, input: Input, output: Output) -> Result<(), (AgentError, Output)> {
    let places = match open(job.queues) {
        Ok(places) => places,
        Err(error) => return Err((error, output)),
    };
    let mut service = Service { streams: Streams { input, output }, places, rows: Rows::default(), looked_ns: 0 };
    match service.serve(job.interval_ns, job.end_ns) {
        Ok(()) => Ok(()),
        Err(error) => Err((error, service.streams.output)),
    }
}

// Counters ------------------------------------------------------------------------------------------------------------

/// A link and its disciplines.
struct Watched {
    link: LinkQueue,
    /// Index of its device.
    device: u32,
    parts: Parts,
    before: Option<Readings>,
}

/// The disciplines of a link in one dump.
#[derive(Clone, Default)]
struct Parts {
    losses: Option<Counters>,
    bucket: Counters,
    queue: Counters,
    marks: u32,
    classes: Vec<Reading>,
}

/// The counters of a link, and of its classes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Readings {
    link: Reading,
    classes: Vec<Reading>,
}

/// Counters of a link since it was made; bytes are those on the wire, and counts of packets wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reading {
    out_bytes: u64,
    out_packets: u32,
    drops: u32,
    marks: u32,
    queue_bytes: u32,
    queue_packets: u32,
}

impl Parts {
    fn forget(&mut self, classes: usize) {
        *self = Parts { classes: std::mem::take(&mut self.classes), ..Parts::default() };
        self.classes.clear();
        self.classes.resize(classes, Reading::default());
    }

    fn take(&mut self, found: Discipline<'_>, link: &LinkQueue) {
        match found.handle {
            LOSSES => self.losses = Some(found.counters),
            RATE => self.bucket = found.counters,
            QUEUE => {
                self.queue = found.counters;
                self.marks = marks(found, link.marks_word);
            }
            _ => {}
        }
        if let Some(class) = link.classes.iter().position(|class| class.handle == found.handle) {
            let counters = found.counters;
            self.classes[class] = Reading {
                out_bytes: counters.bytes,
                out_packets: counters.packets,
                drops: counters.drops,
                marks: marks(found, link.classes[class].marks_word),
                queue_bytes: counters.backlog,
                queue_packets: counters.length,
            };
        }
    }

    /// The bucket counts the packets that the queue below refuses, and the losses those of both. A scheduler counts the
    /// drops of its classes, but not their marks.
    fn readings(&self) -> Readings {
        let lost = self.losses.map_or(0, |losses| losses.drops.wrapping_sub(self.bucket.drops));
        let of_classes = self.classes.iter().map(|class| class.marks).fold(0, u32::wrapping_add);
        let link = Reading {
            out_bytes: self.bucket.bytes,
            out_packets: self.bucket.packets,
            drops: lost.wrapping_add(self.queue.drops),
            marks: self.marks.wrapping_add(of_classes),
            queue_bytes: self.queue.backlog,
            queue_packets: self.queue.length,
        };
        Readings { link, classes: self.classes.clone() }
    }
}

/// The packets that a discipline marked. Older kernels may lack the word.
fn marks(found: Discipline<'_>, word: Option<u32>) -> u32 {
    word.and_then(|word| u32_at(found.own, word as usize * 4)).unwrap_or(0)
}

/// A network namespace with links in it.
struct Place {
    disciplines: Disciplines,
    watched: Vec<Watched>,
    /// Place in `watched` by device.
    by_device: BTreeMap<u32, usize>,
}

impl Place {
    fn look(&mut self) -> Result<(), AgentError> {
        let (watched, by_device) = (&mut self.watched, &self.by_device);
        watched.iter_mut().for_each(|one| one.parts.forget(one.link.classes.len()));
        let listed = self.disciplines.dump(|found| {
            if let Some(&place) = by_device.get(&found.device) {
                let one = &mut watched[place];
                one.parts.take(found, &one.link);
            }
        });
        listed.map_err(|error| AgentError(format!("the kernel's disciplines cannot be listed: {error}")))
    }
}

fn open(links: Vec<LinkQueue>) -> Result<Vec<Place>, AgentError> {
    let mut namespaces = Namespaces::default();
    let mut by_path: BTreeMap<_, Vec<LinkQueue>> = BTreeMap::new();
    for link in links {
        by_path.entry(link.netns.clone()).or_default().push(link);
    }
    let mut places = Vec::new();
    for (path, links) in by_path {
        let failed = |error: io::Error| AgentError(format!("namespace {}: {error}", path.display()));
        namespaces.enter(Some(&path)).map_err(failed)?;
        let mut watched = Vec::new();
        for link in links {
            let failed = |error| AgentError(format!("device {} in {}: {error}", link.device, path.display()));
            let device = device_index(&link.device).map_err(failed)?;
            watched.push(Watched { link, device, parts: Parts::default(), before: None });
        }
        let by_device = watched.iter().enumerate().map(|(place, one)| (one.device, place)).collect();
        places.push(Place { disciplines: Disciplines::new().map_err(failed)?, watched, by_device });
    }
    Ok(places)
}

// Rows ----------------------------------------------------------------------------------------------------------------

/// The row for the interval between two readings of packets that share `rate_bps`; none without packets.
fn interval_row(link: &LinkQueue, rate_bps: u64, time_ns: u64, before: Reading, now: Reading) -> Option<LinkRow> {
    let out = i64::from(now.out_packets.wrapping_sub(before.out_packets));
    let drops = i64::from(now.drops.wrapping_sub(before.drops));
    let came = out + drops + i64::from(now.queue_packets) - i64::from(before.queue_packets);
    if came == 0 && out == 0 && drops == 0 && now.queue_packets == 0 {
        return None;
    }
    let overhead = i64::from(link.overhead_bytes);
    let waits = |at: Reading| i64::from(at.queue_bytes) - overhead * i64::from(at.queue_packets);
    let (waiting, waited) = (waits(now), waits(before));
    let out_bytes = now.out_bytes.wrapping_sub(before.out_bytes) as i64 - overhead * out;
    let drop_bytes = drops * i64::from(link.mtu_bytes);
    let [first, last] = [before, now].map(|at| delay_ns(at.queue_bytes, rate_bps));
    let (delay, most) = if out == 0 { (NULL, NULL) } else { ((first + last) / 2, first.max(last)) };
    let count = |value: i64| u64::try_from(value).unwrap_or(0);
    Some(LinkRow {
        time_ns,
        link: link.link,
        in_packets: count(came),
        in_bytes: count(out_bytes + drop_bytes + waiting - waited),
        out_packets: count(out),
        out_bytes: count(out_bytes),
        drop_packets: count(drops),
        drop_bytes: count(drop_bytes),
        mark_packets: u64::from(now.marks.wrapping_sub(before.marks)),
        queue_bytes: count(waiting),
        queue_packets: u64::from(now.queue_packets),
        queue_max_bytes: count(waiting.max(waited)),
        queue_delay_ns: delay,
        queue_delay_max_ns: most,
    })
}

/// The row of a class for an interval of `interval_ns`.
fn class_row(
    link: &LinkQueue,
    class: u32,
    (time_ns, interval_ns): (u64, u64),
    before: Reading,
    now: Reading,
) -> Option<ClassRow> {
    let sent = u128::from(now.out_bytes.wrapping_sub(before.out_bytes));
    let rate_bps = 8_000_000_000 * sent / u128::from(interval_ns.max(1));
    let row = interval_row(link, (rate_bps as u64).max(1), time_ns, before, now)?;
    Some(ClassRow::of(class, row))
}

/// Time that bytes on the wire take at a rate.
fn delay_ns(bytes: u32, rate_bps: u64) -> u64 {
    (8_000_000_000 * u128::from(bytes) / u128::from(rate_bps)) as u64
}

/// Packets of one flow on one link: a row of table `drops` or `marks`.
#[derive(Default)]
struct Parted {
    time_ns: Vec<u64>,
    flow: Vec<u32>,
    link: Vec<u32>,
    packets: Vec<u64>,
}

impl Parted {
    fn push(&mut self, flow: u32, row: &LinkRow, packets: u64) {
        if packets > 0 {
            self.time_ns.push(row.time_ns);
            self.flow.push(flow);
            self.link.push(row.link);
            self.packets.push(packets);
        }
    }

    fn into_columns(self) -> [(&'static str, Column); 4] {
        [
            ("time_ns", Column::U64(self.time_ns)),
            ("flow", Column::U32(self.flow)),
            ("link", Column::U32(self.link)),
            ("packets", Column::U64(self.packets)),
        ]
    }
}

/// Rows that were not yet sent.
#[derive(Default)]
struct Rows {
    links: Links,
    classes: Classes,
    drops: Parted,
    marks: Parted,
}

impl Rows {
    fn add(&mut self, link: &LinkQueue, (time_ns, interval_ns): (u64, u64), before: &Readings, now: &Readings) {
        let classes = (0..).zip(before.classes.iter().zip(&now.classes));
        for (class, (&before, &now)) in classes {
            if let Some(row) = class_row(link, class, (time_ns, interval_ns), before, now) {
                self.classes.push(row);
            }
        }
        let Some(row) = interval_row(link, link.rate_bps, time_ns, before.link, now.link) else { return };
        if let Some(flow) = link.flow {
            self.drops.push(flow, &row, row.drop_packets);
            self.marks.push(flow, &row, row.mark_packets);
        }
        self.links.push(row);
    }

    fn flush(&mut self, output: &mut Output) {
        let rows = std::mem::take(self);
        output.table("links", &rows.links.into_columns());
        output.table("classes", &rows.classes.into_columns());
        output.table("drops", &rows.drops.into_columns());
        output.table("marks", &rows.marks.into_columns());
    }
}

// The run -------------------------------------------------------------------------------------------------------------

/// Why the service woke up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wake {
    /// The instant has come; the reading of `CLOCK_MONOTONIC` that showed it.
    Due(u64),
    /// A start, at an instant of `CLOCK_MONOTONIC`.
    Start(u64),
    Stop,
    /// Standard input ended: the parent is gone.
    Abandoned,
}

struct Streams {
    input: Input,
    output: Output,
}

impl Streams {
    /// Waits for an instant of `CLOCK_MONOTONIC` or a command, whichever is first. Reads the clock once: in the lab,
    /// each reading takes virtual time.
    fn wait(&mut self, epoll: &mut Epoll, timer: &mut Timer, until_ns: u64) -> Result<Wake, AgentError> {
        loop {
            if let Some(line) = self.input.line() {
                return command(&line);
            }
            if self.input.ended() {
                return Ok(Wake::Abandoned);
            }
            self.output.pump()?;
            timer.arm(until_ns)?;
            let (mut has_input, mut has_rung) = (false, false);
            epoll.wait(None, |token, _| {
                has_input |= token == INPUT;
                has_rung |= token == TIMER;
            })?;
            if has_input {
                self.input.read()?;
            }
            if has_rung {
                let now = clock::monotonic_ns();
                if now >= until_ns {
                    return Ok(Wake::Due(now));
                }
            }
        }
    }
}

fn command(line: &str) -> Result<Wake, AgentError> {
    match serde_json::from_str(line) {
        Ok(Command::Start(start)) => Ok(Wake::Start(start.epoch_ns(clock::monotonic_ns, clock::realtime_ns))),
        Ok(Command::Stop) => Ok(Wake::Stop),
        Err(error) => Err(AgentError(format!("standard input: {line:?} is not a command: {error}"))),
    }
}

struct Service {
    streams: Streams,
    places: Vec<Place>,
    rows: Rows,
    /// The instant of the last reading, since the start of the run.
    looked_ns: u64,
}

impl Service {
    fn serve(&mut self, interval_ns: u64, end_ns: u64) -> Result<(), AgentError> {
        let (mut epoll, mut timer) = (Epoll::new(DESCRIPTORS)?, Timer::new()?);
        epoll.add(&self.streams.input, INPUT, Interest::LEVEL_READ)?;
        epoll.add(&timer, TIMER, Interest::READ)?;
        match epoll.add(&self.streams.output, OUTPUT, Interest::WRITE) {
            // A regular file takes everything at once.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            other => other?,
        }
        self.streams.output.send(&Message::Ready);
        let Wake::Start(epoch_ns) = self.streams.wait(&mut epoll, &mut timer, u64::MAX)? else {
            return Ok(self.streams.output.finish()?);
        };
        self.run(&mut epoll, &mut timer, epoch_ns, interval_ns, end_ns)
    }

    /// Reads the counters every interval until the plan ends, or is ended.
    fn run(
        &mut self,
        epoll: &mut Epoll,
        timer: &mut Timer,
        epoch_ns: u64,
        interval_ns: u64,
        end_ns: u64,
    ) -> Result<(), AgentError> {
        let interval = if interval_ns == 0 { end_ns.max(1) } else { interval_ns };
        let (mut due, mut flushed, mut ticks, mut late) = (0, 0, 0_u64, 0_u64);
        loop {
            let (now, stopped) = match self.streams.wait(epoll, timer, epoch_ns.saturating_add(due))? {
                Wake::Abandoned => return Ok(()),
                Wake::Start(_) => return Err(AgentError("standard input: `start` came twice".into())),
                Wake::Stop => (clock::monotonic_ns(), true),
                Wake::Due(now) => (now, false),
            };
            let now = now.saturating_sub(epoch_ns);
            let at = if stopped { now.min(end_ns) } else { due };
            ticks += 1;
            late += u64::from(now.saturating_sub(at) > interval / LATE_SHARE);
            self.look(at, interval_ns != 0)?;
            if stopped || due >= end_ns {
                break;
            }
            if at >= flushed + FLUSH_NS {
                flushed = at;
                self.rows.flush(&mut self.streams.output);
                self.streams.output.send(&Message::Progress { now_ns: now });
            }
            // Skips instants in the past; their packets count in the next interval.
            let passed = now.saturating_sub(due) / interval;
            due = (due + (passed + 1) * interval).min(end_ns);
        }
        self.conclude(ticks, late)
    }

    fn look(&mut self, at: u64, record: bool) -> Result<(), AgentError> {
        for place in &mut self.places {
            place.look()?;
            for one in &mut place.watched {
                let now = one.parts.readings();
                if let Some(before) = one.before.as_ref().filter(|_| record) {
                    self.rows.add(&one.link, (at, at.saturating_sub(self.looked_ns)), before, &now);
                }
                one.before = Some(now);
            }
        }
        self.looked_ns = at;
        Ok(())
    }

    fn conclude(&mut self, ticks: u64, late: u64) -> Result<(), AgentError> {
        let output = &mut self.streams.output;
        self.rows.flush(output);
        if late * MANY_OF > ticks {
            let text =
                format!("{late} of {ticks} instants of measure came late by more than a quarter of their interval");
            output.send(&Message::Warning { text });
        }
        let (user, system) = clock::cpu_ns();
        let stats = BTreeMap::from([
            ("late_ticks".to_owned(), late as f64),
            ("cpu_user_s".to_owned(), user as f64 / 1e9),
            ("cpu_system_s".to_owned(), system as f64 / 1e9),
        ]);
        output.send(&Message::End { stats });
        Ok(output.finish()?)
    }
}

#[cfg(test)]
mod tests;
