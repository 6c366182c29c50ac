//! `weir-agent tester`: constant rates of Ethernet frames over interfaces, with the instants at which each left and came.
//!
//! A [`TesterJob`] on standard input, a [`Seen`] on standard output, both a line of JSON. One thread sends for all
//! interfaces, so that frames enter in the order of their instants; it computes while it waits for the next one, because
//! a timer is late by more than a frame takes. The other thread receives; the kernel tells when a frame came.
//!
//! An interface sends a frame no earlier than the time on the wire after the one before, also when the thread was late.
//! So a burst is never faster than the port.
//!
//! Ports may be on several machines, each with a tester. A tester sends and receives for its own ports. It then prints
//! `{"ready":true}` once switches know its ports, and reads a line `{"begin_ns": N}`: the start, of its monotonic clock.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use weir_sys::{clock, netns, packet};

use crate::error::AgentError;

/// Buffer of a socket.
const SOCKET_BYTES: usize = 16 << 20;
/// `struct virtio_net_hdr`, all zeros: a whole frame.
const VNET_BYTES: usize = 10;
const ETHERNET_BYTES: usize = 14;
/// Local experimental Ethertype (IEEE Std 802): no stack answers.
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
const TOKEN_AT: usize = ETHERNET_BYTES;
const STREAM_AT: usize = TOKEN_AT + 8;
const NUMBER_AT: usize = STREAM_AT + 4;
/// The smallest Ethernet frame without its checksum.
const LEAST_BYTES: usize = 60;
/// A stream of frames from which switches learn where each interface is.
const HELLO: u32 = u32::MAX;
const HELLO_WAIT: Duration = Duration::from_millis(50);
/// The thread sleeps until so long before an instant, and computes for the rest.
const SPIN_NS: u64 = 80_000;

/// What to send.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TesterJob {
    /// Distinguishes the frames of this job.
    token: u64,
    ports: Vec<Port>,
    streams: Vec<Stream>,
    /// When to stop receiving, since the start.
    end_ns: u64,
    /// Whether ports are on several machines.
    #[serde(default)]
    together: bool,
}

/// The start of a job on several machines.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Begin {
    begin_ns: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Port {
    /// None: it is on another machine.
    #[serde(default)]
    device: Option<String>,
    /// Path of its network namespace; none: this process'.
    netns: Option<PathBuf>,
    mac: [u8; 6],
    /// Rate and bytes that a frame's payload has besides on the wire.
    rate_bps: f64,
    overhead_bytes: u32,
}

/// Frames at a constant rate.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stream {
    input: usize,
    output: usize,
    /// Between two frames.
    gap_ns: f64,
    /// Payload of a frame.
    ip_bytes: usize,
    start_ns: u64,
    stop_ns: u64,
}

/// What was sent and received, in nanoseconds since the start.
#[derive(Debug, Default, Serialize)]
pub struct Seen {
    /// By stream: when each frame was sent, and when it should have been; empty if another machine sends it.
    sent: Vec<Vec<i64>>,
    due: Vec<Vec<i64>>,
    /// By stream: numbers of frames that the interface did not take.
    refused: Vec<Vec<u64>>,
    /// By stream: number and instant of each frame that came out at its output.
    received: Vec<Vec<(u64, i64)>>,
}

/// Executes a job. `ask` is called before anything is sent; if other machines take part, it says that this one is ready,
/// and returns the line with the start.
///
/// # Errors
/// The job is none, or an interface is missing or cannot send.
pub fn test(text: &str, ask: impl FnOnce(bool) -> io::Result<String>) -> Result<Seen, AgentError> {
    let job: TesterJob =
        serde_json::from_str(text).map_err(|error| AgentError(format!("no job of a tester: {error}")))?;
    job.check()?;
    let sockets = job.ports.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    greet(&job, &sockets).map_err(|error| AgentError(format!("sending: {error}")))?;
    let over = AtomicBool::new(false);
    let line = ask(job.together).map_err(|error| AgentError(format!("reading the start: {error}")))?;
    let begin = if job.together {
        let Begin { begin_ns } =
            serde_json::from_str(&line).map_err(|error| AgentError(format!("no start of a tester: {error}")))?;
        begin_ns
    } else {
        clock::monotonic_ns() + 10_000_000
    };
    let mut seen = Seen::default();
    let (sent, received) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(&job, &sockets, begin, &over));
        let sent = send(&job, &sockets, begin);
        if sent.is_err() {
            over.store(true, Ordering::Relaxed);
        }
        (sent, receiver.join())
    });
    (seen.sent, seen.due, seen.refused) = sent.map_err(|error| AgentError(format!("sending: {error}")))?;
    let received = received.unwrap_or_else(|_| Err(io::Error::other("its thread failed")));
    seen.received = received.map_err(|error| AgentError(format!("receiving: {error}")))?;
    Ok(seen)
}

impl TesterJob {
    fn check(&self) -> Result<(), AgentError> {
        let ports = self.ports.len();
        for (number, stream) in self.streams.iter().enumerate() {
            if stream.input >= ports || stream.output >= ports || stream.input == stream.output {
                return Err(AgentError(format!("stream {number} goes from and to no two of {ports} ports")));
            }
            if !(stream.gap_ns.is_finite() && stream.gap_ns >= 1.0) || stream.ip_bytes > 65_000 {
                return Err(AgentError(format!("stream {number} has no rate, or frames that are too large")));
            }
        }
        Ok(())
    }

    fn frame(&self, stream: u32, from: usize, to: Option<usize>, ip_bytes: usize) -> Vec<u8> {
        let mut frame = vec![0; VNET_BYTES + (ETHERNET_BYTES + ip_bytes).max(LEAST_BYTES)];
        let ethernet = &mut frame[VNET_BYTES..];
        ethernet[..6].copy_from_slice(&to.map_or([0xff; 6], |to| self.ports[to].mac));
        ethernet[6..12].copy_from_slice(&self.ports[from].mac);
        ethernet[12..14].copy_from_slice(&ETHERTYPE);
        ethernet[TOKEN_AT..STREAM_AT].copy_from_slice(&self.token.to_be_bytes());
        ethernet[STREAM_AT..NUMBER_AT].copy_from_slice(&stream.to_be_bytes());
        frame
    }
}

/// The socket of a port; none if the port is on another machine.
fn open(port: &Port) -> Result<Option<OwnedFd>, AgentError> {
    let Some(device) = &port.device else { return Ok(None) };
    let opened = match &port.netns {
        None => packet::open(device, SOCKET_BYTES),
        Some(path) => netns::within(path, || packet::open(device, SOCKET_BYTES)),
    };
    opened.map(Some).map_err(|error| AgentError(format!("interface {device}: {error}")))
}

/// Sends a broadcast over each interface, so that a switch learns where it is.
fn greet(job: &TesterJob, sockets: &[Option<OwnedFd>]) -> io::Result<()> {
    for (port, socket) in sockets.iter().enumerate() {
        let Some(socket) = socket else { continue };
        rustix::io::write(socket, &job.frame(HELLO, port, None, 0))?;
    }
    std::thread::sleep(HELLO_WAIT);
    Ok(())
}

/// A stream and how far it is.
struct Turn<'a> {
    number: usize,
    stream: &'a Stream,
    frame: Vec<u8>,
    count: u64,
}

impl Turn<'_> {
    /// When the next frame is due.
    fn due(&self) -> Option<u64> {
        let at = self.stream.start_ns + (self.count as f64 * self.stream.gap_ns) as u64;
        (at < self.stream.stop_ns).then_some(at)
    }
}

type Sent = (Vec<Vec<i64>>, Vec<Vec<i64>>, Vec<Vec<u64>>);

fn send(job: &TesterJob, sockets: &[Option<OwnedFd>], begin: u64) -> io::Result<Sent> {
    let count = job.streams.len();
    let (mut sent, mut due, mut refused) = (vec![Vec::new(); count], vec![Vec::new(); count], vec![Vec::new(); count]);
    let mut turns: Vec<Turn> = (0..)
        .zip(&job.streams)
        .filter(|(_, stream)| sockets[stream.input].is_some())
        .map(|(number, stream): (usize, _)| {
            let frame = job.frame(number as u32, stream.input, Some(stream.output), stream.ip_bytes);
            Turn { number, stream, frame, count: 0 }
        })
        .collect();
    // By port: when it has sent what it was given.
    let mut free = vec![0_u64; job.ports.len()];
    loop {
        let next = turns.iter_mut().filter_map(|turn| turn.due().map(|due| (due.max(free[turn.stream.input]), turn)));
        let Some((at, turn)) = next.min_by_key(|(at, turn)| (*at, turn.number)) else { break };
        let now = wait_until(begin + at) - begin;
        let stream = turn.stream;
        let Some(socket) = &sockets[stream.input] else { break };
        turn.frame[VNET_BYTES + NUMBER_AT..VNET_BYTES + NUMBER_AT + 8].copy_from_slice(&turn.count.to_be_bytes());
        due[turn.number].push(turn.due().unwrap_or(at) as i64);
        sent[turn.number].push(now as i64);
        match rustix::io::write(socket, &turn.frame) {
            Ok(_) => {}
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::NOBUFS) => refused[turn.number].push(turn.count),
            Err(error) => return Err(error.into()),
        }
        let port = &job.ports[stream.input];
        let wire = (stream.ip_bytes as f64 + f64::from(port.overhead_bytes)) * 8e9 / port.rate_bps;
        free[stream.input] = now + wire as u64;
        turn.count += 1;
    }
    Ok((sent, due, refused))
}

/// Waits for an instant of the monotonic clock; returns the present one.
fn wait_until(at: u64) -> u64 {
    loop {
        let now = clock::monotonic_ns();
        if now >= at {
            return now;
        }
        if at - now > SPIN_NS {
            std::thread::sleep(Duration::from_nanos(at - now - SPIN_NS));
        } else {
            std::hint::spin_loop();
        }
    }
}

fn receive(
    job: &TesterJob,
    sockets: &[Option<OwnedFd>],
    begin: u64,
    over: &AtomicBool,
) -> io::Result<Vec<Vec<(u64, i64)>>> {
    let mut received = vec![Vec::new(); job.streams.len()];
    let mut room = vec![0; 1 << 16];
    let lead = clock::realtime_lead_ns();
    while clock::monotonic_ns() < begin + job.end_ns && !over.load(Ordering::Relaxed) {
        let own = || sockets.iter().enumerate().filter_map(|(port, socket)| Some((port, socket.as_ref()?)));
        let mut ready: Vec<PollFd> = own().map(|(_, socket)| PollFd::new(socket, PollFlags::IN)).collect();
        // An interrupted wait is repeated.
        let _ = poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 5_000_000 }));
        for (port, socket) in own() {
            while let Some((len, stamp)) = packet::receive(socket.as_fd(), &mut room)? {
                let Some((stream, number)) = job.read(port, &room[..len]) else { continue };
                let at = stamp.map_or_else(clock::monotonic_ns, |at| at.saturating_add_signed(-lead));
                received[stream].push((number, at as i64 - begin as i64));
            }
        }
    }
    Ok(received)
}

impl TesterJob {
    /// Stream and number of a frame that came out of `port`, if it is one of this job and belongs there.
    fn read(&self, port: usize, frame: &[u8]) -> Option<(usize, u64)> {
        let ethernet = frame.get(VNET_BYTES..)?;
        let field = |from: usize, to: usize| ethernet.get(from..to);
        if field(12, 14)? != ETHERTYPE || field(TOKEN_AT, STREAM_AT)? != self.token.to_be_bytes() {
            return None;
        }
        let stream = u32::from_be_bytes(field(STREAM_AT, NUMBER_AT)?.try_into().ok()?) as usize;
        let number = u64::from_be_bytes(field(NUMBER_AT, NUMBER_AT + 8)?.try_into().ok()?);
        (self.streams.get(stream)?.output == port).then_some((stream, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(gap_ns: f64) -> TesterJob {
        let port = |last: u8| Port {
            device: Some("none".into()),
            netns: None,
            mac: [2, 0, 0, 0, 0, last],
            rate_bps: 1e9,
            overhead_bytes: 38,
        };
        let stream = Stream { input: 0, output: 1, gap_ns, ip_bytes: 1500, start_ns: 0, stop_ns: 100 };
        TesterJob { token: 7, ports: vec![port(1), port(2)], streams: vec![stream], end_ns: 100, together: false }
    }

    #[test]
    fn a_frame_tells_its_stream_and_number_at_its_output_only() {
        let mut job = job(10.0);
        let mut frame = job.frame(0, 0, Some(1), 1500);
        frame[VNET_BYTES + NUMBER_AT..VNET_BYTES + NUMBER_AT + 8].copy_from_slice(&99_u64.to_be_bytes());
        assert_eq!(frame.len(), 10 + 1514);
        assert_eq!(job.read(1, &frame), Some((0, 99)));
        assert_eq!(job.read(0, &frame), None);
        job.token = 8;
        assert_eq!(job.read(1, &frame), None);
        assert_eq!(job.read(1, &frame[..20]), None);
    }

    #[test]
    fn frames_are_due_without_drift() {
        let job = job(33.4);
        let mut turn = Turn { number: 0, stream: &job.streams[0], frame: vec![], count: 0 };
        let mut found = Vec::new();
        while let Some(due) = turn.due() {
            found.push(due);
            turn.count += 1;
        }
        assert_eq!(found, [0, 33, 66]);
    }

    /// All ports are elsewhere: nothing is sent, and what comes is nothing's.
    #[test]
    fn a_tester_without_ports_of_its_own_begins_when_it_is_told() {
        let port =
            |last: u8| format!(r#"{{"netns":null,"mac":[2,0,0,0,0,{last}],"rate_bps":1e9,"overhead_bytes":38}}"#);
        let stream = r#"{"input":0,"output":1,"gap_ns":10.0,"ip_bytes":1500,"start_ns":0,"stop_ns":100}"#;
        let ports = format!("{},{}", port(1), port(2));
        let job = format!(r#"{{"token":7,"ports":[{ports}],"streams":[{stream}],"end_ns":1,"together":true}}"#);
        let begin = clock::monotonic_ns() + 20_000_000;
        let seen = test(&job, |_| Ok(format!(r#"{{"begin_ns":{begin}}}"#))).expect("a job");
        assert!(clock::monotonic_ns() > begin);
        assert_eq!((&seen.sent, &seen.received), (&vec![vec![]], &vec![vec![]]));
        let error = test(&job, |_| Ok("{}".into())).expect_err("no start");
        assert!(error.to_string().starts_with("no start of a tester: "), "{error}");
    }

    #[test]
    fn a_job_without_sense_is_refused() {
        assert!(job(0.0).check().is_err());
        let mut same = job(1.0);
        same.streams[0].output = 0;
        assert!(same.check().is_err());
        assert!(test("{}", |_| Ok(String::new())).is_err());
    }
}
