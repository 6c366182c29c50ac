//! `weir-agent queues`: table `links` from the counters of queueing disciplines.
//!
//! A process of a run like any other: a [`QueuesJob`] and commands on standard input, messages on standard output.
//! Every `measure.links` it asks each namespace for all of its disciplines at once.
//!
//! A link is up to three disciplines, whose handles `python/weir/hosts/netem.py` gives: losses, rate, queue. Two
//! columns are estimates from the queue at both ends of an interval, because the kernel does not count them: the delay
//! (mean length over the rate) and its maximum. A lost packet counts as one of the link's largest size.

use std::collections::BTreeMap;
use std::io;

use weir_protocol::{Command, LinkQueue, Message, QueuesJob};
use weir_run::{Column, LinkRow, Links};
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
    let mut service = Service { streams: Streams { input, output }, places, rows: Rows::default() };
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
    before: Option<Reading>,
}

/// The disciplines of a link in one dump.
#[derive(Clone, Copy, Default)]
struct Parts {
    losses: Option<Counters>,
    bucket: Counters,
    queue: Counters,
    marks: u32,
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
    fn take(&mut self, found: Discipline<'_>, marks_word: Option<u32>) {
        match found.handle {
            LOSSES => self.losses = Some(found.counters),
            RATE => self.bucket = found.counters,
            QUEUE => {
                self.queue = found.counters;
                // Older kernels may lack the word.
                self.marks = marks_word.and_then(|word| u32_at(found.own, word as usize * 4)).unwrap_or(0);
            }
            _ => {}
        }
    }

    /// The bucket counts the packets that the queue below refuses, and the losses those of both.
    fn reading(&self) -> Reading {
        let lost = self.losses.map_or(0, |losses| losses.drops.wrapping_sub(self.bucket.drops));
        Reading {
            out_bytes: self.bucket.bytes,
            out_packets: self.bucket.packets,
            drops: lost.wrapping_add(self.queue.drops),
            marks: self.marks,
            queue_bytes: self.queue.backlog,
            queue_packets: self.queue.length,
        }
    }
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
        watched.iter_mut().for_each(|one| one.parts = Parts::default());
        let listed = self.disciplines.dump(|found| {
            if let Some(&place) = by_device.get(&found.device) {
                let one = &mut watched[place];
                one.parts.take(found, one.link.marks_word);
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

/// The row of table `links` for the interval between two readings; none without packets.
fn interval_row(link: &LinkQueue, time_ns: u64, before: Reading, now: Reading) -> Option<LinkRow> {
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
    let [first, last] = [before, now].map(|at| delay_ns(at.queue_bytes, link.rate_bps));
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
    drops: Parted,
    marks: Parted,
}

impl Rows {
    fn add(&mut self, link: &LinkQueue, time_ns: u64, before: Reading, now: Reading) {
        let Some(row) = interval_row(link, time_ns, before, now) else { return };
        if let Some(flow) = link.flow {
            self.drops.push(flow, &row, row.drop_packets);
            self.marks.push(flow, &row, row.mark_packets);
        }
        self.links.push(row);
    }

    fn flush(&mut self, output: &mut Output) {
        let rows = std::mem::take(self);
        output.table("links", &rows.links.into_columns());
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
                let now = one.parts.reading();
                if let Some(before) = one.before.replace(now).filter(|_| record) {
                    self.rows.add(&one.link, at, before, now);
                }
            }
        }
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
mod tests {
    use super::*;

    fn link() -> LinkQueue {
        LinkQueue {
            link: 4,
            netns: "/run/netns/a".into(),
            device: "weir0".into(),
            overhead_bytes: 38,
            mtu_bytes: 1500,
            rate_bps: 10_000_000,
            flow: Some(2),
            marks_word: None,
        }
    }

    fn reading(out_packets: u32, drops: u32, queue_packets: u32) -> Reading {
        let out_bytes = 1538 * u64::from(out_packets);
        Reading { out_bytes, out_packets, drops, marks: 0, queue_bytes: 1538 * queue_packets, queue_packets }
    }

    #[test]
    fn a_row_counts_ip_bytes_and_conserves_packets() {
        let now = Reading { marks: 2, ..reading(14, 3, 3) };
        let row = interval_row(&link(), 50, reading(10, 1, 1), now).expect("there were packets");
        assert_eq!((row.time_ns, row.link), (50, 4));
        assert_eq!((row.out_packets, row.out_bytes), (4, 6000));
        assert_eq!((row.drop_packets, row.drop_bytes), (2, 3000));
        assert_eq!((row.in_packets, row.in_bytes), (4 + 2 + 2, 6000 + 3000 + 3000));
        assert_eq!((row.queue_packets, row.queue_bytes, row.queue_max_bytes), (3, 4500, 4500));
        assert_eq!(row.mark_packets, 2);
        let packet_ns = 1538 * 8 * 100; // at 10 Mb/s
        assert_eq!((row.queue_delay_ns, row.queue_delay_max_ns), (2 * packet_ns, 3 * packet_ns));
    }

    #[test]
    fn an_interval_without_packets_has_no_row_and_one_without_departures_no_delay() {
        assert_eq!(interval_row(&link(), 1, reading(1, 0, 0), reading(1, 0, 0)), None);
        let row = interval_row(&link(), 1, reading(1, 0, 0), reading(1, 0, 2)).expect("two wait");
        assert_eq!((row.queue_delay_ns, row.queue_delay_max_ns), (NULL, NULL));
    }

    #[test]
    fn counters_of_32_bits_wrap() {
        let before = Reading { out_bytes: 0, ..reading(u32::MAX, u32::MAX, 0) };
        let now = Reading { out_bytes: 3 * 1538, ..reading(2, 1, 0) };
        let row = interval_row(&link(), 1, before, now).expect("there were packets");
        assert_eq!((row.out_packets, row.out_bytes, row.drop_packets), (3, 4500, 2));
    }

    #[test]
    fn losses_are_told_from_drops_of_the_queue() {
        let mut parts = Parts::default();
        let counters = |bytes, packets, drops, length, backlog| Counters { bytes, packets, length, backlog, drops };
        let marks: Vec<u8> = [1_u32, 1, 1, 77].iter().flat_map(|word| word.to_ne_bytes()).collect();
        for (handle, counters, own) in [
            (LOSSES, counters(0, 0, 15, 0, 0), &[][..]),
            (RATE, counters(9000, 6, 5, 0, 0), &[]),
            (QUEUE, counters(0, 0, 5, 2, 3076), &marks),
            (0, counters(1, 1, 1, 1, 1), &[]),
        ] {
            parts.take(Discipline { device: 7, handle, counters, own }, Some(3));
        }
        let found = parts.reading();
        let marked =
            Reading { out_bytes: 9000, out_packets: 6, drops: 15, marks: 77, queue_bytes: 3076, queue_packets: 2 };
        assert_eq!(found, marked);
        parts.take(Discipline { device: 7, handle: QUEUE, counters: Counters::default(), own: &marks[..12] }, Some(3));
        assert_eq!(parts.reading().marks, 0, "an older kernel lacks the word");
    }

    #[test]
    fn drops_of_a_link_with_one_flow_are_that_flows() {
        let mut rows = Rows::default();
        rows.add(&link(), 50, reading(0, 0, 0), reading(1, 2, 0));
        rows.add(&LinkQueue { flow: None, ..link() }, 50, reading(0, 0, 0), reading(1, 2, 0));
        assert_eq!(rows.links.rows(), 2);
        assert_eq!((&rows.drops.flow[..], &rows.drops.packets[..]), (&[2][..], &[2][..]));
        assert!(rows.marks.flow.is_empty());
    }

    #[test]
    fn input_that_is_no_command_is_refused() {
        assert_eq!(command(r#"{"command":"stop"}"#), Ok(Wake::Stop));
        let start = command(r#"{"command":"start","clock":"monotonic","reading_ns":5,"after_ns":2}"#);
        assert_eq!(start, Ok(Wake::Start(7)));
        let error = command("{}").expect_err("it says nothing").to_string();
        assert!(error.starts_with("standard input: \"{}\" is not a command: "), "{error}");
    }
}
