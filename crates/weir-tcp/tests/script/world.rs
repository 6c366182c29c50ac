//! Runs scripts: the end or ends under test, the path between them, and the log of their actions.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;

use weir_cc::Feedback;
use weir_plan::Tcp;
use weir_tcp::{Ack, Arrival, Notice, Receiver, SackBlocks, Segment, Sender, Transmit, timestamp};
use weir_units::{Dur, Time};

use super::parse::parse_seconds;
use super::{AckLine, Action, DataLine, Drive, Line, Script, Sent, Span};

/// Lines of the trace shown on failure.
const TRACE: usize = 80;

/// Something an end sent.
#[derive(Clone, Copy, Debug)]
enum Output {
    Transmit(Transmit),
    Ack(Ack),
}

/// Something under way.
#[derive(Clone, Copy, Debug)]
enum Cargo {
    Data(Arrival),
    Ack(Ack),
}

/// What the path does to chosen packets.
#[derive(Default)]
struct Path {
    delay: Dur,
    /// Transmissions of a segment still to be lost, and to let pass before.
    losses: BTreeMap<u64, (u32, u32)>,
    delays: BTreeMap<u64, Dur>,
    duplicates: Vec<u64>,
    marks: Vec<u64>,
    lost_acks: Vec<u64>,
    acks: u64,
}

pub struct World {
    drive: Drive,
    mss: u32,
    now: Time,
    sender: Sender,
    receiver: Receiver,
    path: Path,
    /// What is under way, by arrival and order of sending.
    wire: BTreeMap<(Time, u64), Cargo>,
    packets: u64,
    log: VecDeque<(Time, Output)>,
    notices: Vec<String>,
    trace: Vec<String>,
}

impl World {
    pub fn new(script: &Script) -> World {
        let tcp: &Tcp = &script.tcp;
        let algorithm = weir_cc::find(&tcp.cc).expect("a registered congestion control");
        let mut sender = Sender::new(tcp, &algorithm).expect("no options are given");
        if script.trains {
            sender.send_trains();
        }
        World {
            drive: script.drive,
            mss: tcp.mss_bytes,
            now: Time::ZERO,
            sender,
            receiver: Receiver::new(tcp),
            path: Path::default(),
            wire: BTreeMap::new(),
            packets: 0,
            log: VecDeque::new(),
            notices: Vec::new(),
            trace: Vec::new(),
        }
    }

    /// Advances to the line's time and executes its action.
    pub fn step(&mut self, line: &Line) -> Result<(), String> {
        let at = self.now + line.after;
        self.advance(at)?;
        if self.drive == Drive::Both {
            self.log.retain(|(at, _)| *at == self.now);
        }
        match self.log.front() {
            Some((at, output)) if *at < self.now && line.action != Action::SentAnything => {
                Err(format!("{} was sent at {} and no line says so", describe(output), seconds(*at)))
            }
            _ => self.act(&line.action),
        }
    }

    /// The sender's own consistency.
    pub fn check(&self) -> Result<(), String> {
        self.sender.check().map_err(|problem| format!("the sender is inconsistent: {problem}"))
    }

    pub fn finish(&self) -> Result<(), String> {
        match self.log.front() {
            Some((at, output)) if self.drive != Drive::Both => {
                Err(format!("{} was sent at {} and no line says so", describe(output), seconds(*at)))
            }
            _ => Ok(()),
        }
    }

    pub fn explain(&self, line: &Line, problem: &str) -> String {
        format!("line {}: {problem}\n    {}\nwhat had happened:\n{}", line.number, line.text, self.trace())
    }

    pub fn trace(&self) -> String {
        self.trace[self.trace.len().saturating_sub(TRACE)..].join("\n")
    }

    fn advance(&mut self, to: Time) -> Result<(), String> {
        loop {
            let wire = self.wire.first_key_value().map_or(Time::MAX, |((at, _), _)| *at);
            let next = wire.min(self.sender.deadline()).min(self.receiver.deadline());
            if next > to {
                break;
            }
            self.now = self.now.max(next);
            if wire == next {
                self.deliver();
            } else {
                self.run_timers();
            }
            self.check()?;
        }
        self.now = to;
        Ok(())
    }

    fn run_timers(&mut self) {
        if self.receiver.deadline() <= self.now {
            let ack = self.receiver.on_timer(self.now);
            self.take_ack(ack);
        }
        if self.sender.deadline() <= self.now {
            self.sender.on_timer(self.now);
            self.pump();
        }
    }

    fn deliver(&mut self) {
        let Some((_, cargo)) = self.wire.pop_first() else { return };
        match cargo {
            Cargo::Data(arrival) => {
                let ack = self.receiver.on_data(self.now, arrival);
                self.take_ack(ack);
            }
            Cargo::Ack(ack) => {
                self.sender.on_ack(self.now, &ack);
                self.pump();
            }
        }
    }

    /// Lets the sender transmit.
    fn pump(&mut self) {
        while let Some(transmit) = self.sender.poll_transmit(self.now) {
            self.record(Output::Transmit(transmit));
            if let Transmit::Data(segment) = transmit
                && self.drive == Drive::Both
            {
                self.carry(segment);
            }
        }
        let mut notices = Vec::new();
        self.sender.take_notices(|notice| notices.push(name_of(notice).to_owned()));
        for notice in notices {
            self.note(format!("({notice})"));
            self.notices.push(notice);
        }
    }

    fn record(&mut self, output: Output) {
        self.note(format!("> {}", describe(&output)));
        self.log.push_back((self.now, output));
    }

    fn note(&mut self, what: String) {
        let cwnd = self.sender.cwnd();
        let mut line = format!("    {:>14} {what:<40}", seconds(self.now));
        if self.drive != Drive::Receiver {
            let _ = write!(line, " cwnd {cwnd} flight {} {}", self.sender.in_flight(), state(&self.sender));
        }
        self.trace.push(line);
    }

    /// Puts a segment on the path.
    fn carry(&mut self, segment: Segment) {
        let (seq, path) = (segment.seq, &mut self.path);
        if let Some((pass, lose)) = path.losses.get_mut(&seq) {
            if *pass > 0 {
                *pass -= 1;
            } else if *lose > 0 {
                *lose -= 1;
                return;
            }
        }
        let extra = path.delays.remove(&seq).unwrap_or(Dur::ZERO);
        let mut copies = 1;
        if let Some(index) = path.duplicates.iter().position(|s| *s == seq) {
            path.duplicates.remove(index);
            copies = 2;
        }
        let mark = path.marks.iter().position(|s| *s == seq);
        if let Some(index) = mark {
            path.marks.remove(index);
        }
        let Segment { len, tsval, cwr, push, .. } = segment;
        let arrival = Arrival { seq, len, tsval, ce: mark.is_some(), cwr, push };
        let at = self.now + path.delay + extra;
        for _ in 0..copies {
            self.packets += 1;
            self.wire.insert((at, self.packets), Cargo::Data(arrival));
        }
    }

    fn take_ack(&mut self, ack: Option<Ack>) {
        let Some(ack) = ack else { return };
        self.record(Output::Ack(ack));
        if self.drive == Drive::Both {
            self.path.acks += 1;
            if !self.path.lost_acks.contains(&self.path.acks) {
                self.packets += 1;
                self.wire.insert((self.now + self.path.delay, self.packets), Cargo::Ack(ack));
            }
        }
    }

    fn act(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Wait => {}
            Action::Connect => {
                self.sender.connect(self.now);
                self.pump();
            }
            Action::SynAck => self.establish(),
            Action::Open(rtt) => self.open(*rtt)?,
            Action::Write(bytes) => {
                self.sender.write(self.now, *bytes);
                self.pump();
            }
            Action::Stop => self.sender.stop_writing(),
            Action::Approve(rate_bps) => self.sender.feedback(Feedback { rate_bps: *rate_bps, ..Feedback::default() }),
            Action::LocalCongestion => self.sender.on_local_congestion(self.now),
            Action::Ack(line) => {
                let ack = build_ack(line);
                self.note(format!("< {}", describe(&Output::Ack(ack))));
                self.sender.on_ack(self.now, &ack);
                self.pump();
            }
            Action::Arrive(line) => self.arrive(line),
            Action::SentSyn => self.expect_syn()?,
            Action::Sent(spans) => self.expect_sent(spans)?,
            Action::SentNothing => self.expect_nothing()?,
            Action::SentAnything => self.log.clear(),
            Action::Acked(line) => self.expect_ack(line)?,
            Action::ReceiverRtt(rtt) => self.receiver.set_rtt(*rtt),
            Action::Path(delay) => self.path.delay = *delay,
            Action::Lose { span, again } => {
                for seq in span.0..=span.1 {
                    let entry = self.path.losses.entry(seq).or_default();
                    entry.1 += 1;
                    entry.0 += u32::from(*again && entry.1 == 1);
                }
            }
            Action::Delay { segment, by } => {
                self.path.delays.insert(*segment, *by);
            }
            Action::Duplicate(segment) => self.path.duplicates.push(*segment),
            Action::Mark(segment) => self.path.marks.push(*segment),
            Action::LoseAck(number) => self.path.lost_acks.push(*number),
            Action::Expect { what, value } => self.expect(what, value)?,
        }
        Ok(())
    }

    fn open(&mut self, rtt: Dur) -> Result<(), String> {
        self.sender.connect(self.now);
        self.pump();
        self.expect_syn()?;
        self.advance(self.now + rtt)?;
        self.receiver.set_rtt(rtt);
        self.establish();
        Ok(())
    }

    fn establish(&mut self) {
        self.sender.on_syn_ack(self.now);
        self.pump();
    }

    fn arrive(&mut self, line: &DataLine) {
        for seq in line.span.0..=line.span.1 {
            let stamp = line.stamp.unwrap_or(self.now);
            let DataLine { len, ce, cwr, push, .. } = *line;
            let arrival = Arrival { seq, len: len.unwrap_or(self.mss), tsval: timestamp(stamp), ce, cwr, push };
            self.note(format!("< {seq}"));
            let ack = self.receiver.on_data(self.now, arrival);
            self.take_ack(ack);
        }
    }

    fn pop(&mut self, expected: &str) -> Result<Output, String> {
        match self.log.pop_front() {
            None => Err(format!("expected {expected}, but nothing was sent")),
            Some((at, output)) if at < self.now => {
                Err(format!("expected {expected} now, but {} was sent at {}", describe(&output), seconds(at)))
            }
            Some((_, output)) => Ok(output),
        }
    }

    fn expect_syn(&mut self) -> Result<(), String> {
        match self.pop("a connection request")? {
            Output::Transmit(Transmit::Syn) => Ok(()),
            other => Err(format!("expected a connection request, but {} was sent", describe(&other))),
        }
    }

    fn expect_sent(&mut self, expected: &[Sent]) -> Result<(), String> {
        for Sent { span, resent, cwr } in expected {
            for seq in span.0..=span.1 {
                let wanted = label(seq, *resent, *cwr);
                let output = self.pop(&wanted)?;
                let found = describe(&output);
                if found != wanted {
                    return Err(format!("expected {wanted}, but {found} was sent"));
                }
            }
        }
        self.expect_nothing()
    }

    fn expect_nothing(&mut self) -> Result<(), String> {
        match self.log.front() {
            Some((_, output)) => Err(format!("{} was sent as well", describe(output))),
            None => Ok(()),
        }
    }

    fn expect_ack(&mut self, line: &AckLine) -> Result<(), String> {
        let wanted = describe(&Output::Ack(build_ack(line)));
        let output = self.pop(&wanted)?;
        let found = describe(&output);
        if found != wanted {
            return Err(format!("expected {wanted}, but {found} was sent"));
        }
        match (&output, line.echo) {
            (Output::Ack(ack), Some(echo)) if ack.tsecr != timestamp(echo) => {
                Err(format!("expected the echo of {}, but it is {}", seconds(echo), ack.tsecr))
            }
            _ => Ok(()),
        }
    }

    fn expect(&mut self, what: &str, value: &str) -> Result<(), String> {
        let found = self.look_up(what)?;
        // Times may be written with fewer decimals than they are shown with.
        let same = found == value || parse_seconds(value).is_ok_and(|v| parse_seconds(&found) == Ok(v));
        if same { Ok(()) } else { Err(format!("expected {what} {value:?}, but it is {found:?}")) }
    }

    fn look_up(&mut self, what: &str) -> Result<String, String> {
        let sender = &self.sender;
        let counters = sender.counters();
        let time = |dur: Option<Dur>| dur.map_or("none".to_owned(), |d| seconds(Time(d.0)));
        let until = |at: Time| if at == Time::MAX { None } else { Some(at.since(self.now)) };
        Ok(match what {
            "cwnd" => sender.cwnd().to_string(),
            "ssthresh" => sender.ssthresh().map_or("none".into(), |s| s.to_string()),
            "state" => state(sender).into(),
            "in_flight" => sender.in_flight().to_string(),
            "una" => sender.una().to_string(),
            "acked" => sender.acked_bytes().to_string(),
            "sent" => counters.sent_packets.to_string(),
            "retransmitted" => counters.retransmitted_packets.to_string(),
            "timeouts" => counters.timeouts.to_string(),
            "marked" => sender.marked().to_string(),
            "srtt" => time(sender.srtt()),
            "min_rtt" => time(sender.min_rtt()),
            "pacing" => sender.pacing_rate().map_or("none".into(), |rate| rate.to_string()),
            "established" => sender.is_established().to_string(),
            "idle" => sender.is_idle().to_string(),
            // Time until the timer of the sender, and of the receiver.
            "timer" => time(until(sender.exact_deadline())),
            "ack-timer" => time(until(self.receiver.deadline())),
            "delivered" => self.receiver.delivered_bytes().to_string(),
            // What was worth recording since the last such line.
            "notices" => std::mem::take(&mut self.notices).join(" "),
            _ => return Err(format!("nothing is called {what:?}")),
        })
    }
}

fn build_ack(line: &AckLine) -> Ack {
    let mut sack = SackBlocks::default();
    let half_open = |span: Span| (span.0, span.1 + 1);
    if let Some((start, end)) = line.dsack.map(half_open) {
        sack.dsack = true;
        sack.push(start, end, 4);
    }
    for (start, end) in line.sack.iter().copied().map(half_open) {
        sack.push(start, end, 4);
    }
    Ack { ack: line.ack, sack, echo: line.marks, tsecr: line.echo.map_or(0, timestamp) }
}

fn describe(output: &Output) -> String {
    match output {
        Output::Transmit(Transmit::Syn) => "syn".into(),
        Output::Transmit(Transmit::Data(segment)) => label(segment.seq, segment.retransmission, segment.cwr),
        Output::Ack(ack) => {
            let mut text = format!("ack {}", ack.ack);
            for (i, (start, end)) in ack.sack.as_slice().iter().enumerate() {
                let kind = match i {
                    0 if ack.sack.dsack => " dsack",
                    0 => " sack",
                    1 if ack.sack.dsack => " sack",
                    _ => "",
                };
                let _ = write!(text, "{kind} {start}..{}", end - 1);
            }
            match ack.echo {
                0 => {}
                1 => text.push_str(" ece"),
                counter => {
                    let _ = write!(text, " ace {counter}");
                }
            }
            text
        }
    }
}

fn label(seq: u64, resent: bool, cwr: bool) -> String {
    format!("{seq}{}{}", if resent { " resent" } else { "" }, if cwr { " cwr" } else { "" })
}

fn state(sender: &Sender) -> &'static str {
    ["open", "disorder", "cwr", "recovery", "loss"][usize::from(sender.ca_state())]
}

fn name_of(notice: Notice) -> &'static str {
    match notice {
        Notice::Recovery(_) => "recovery",
        Notice::RecoveryEnd => "recovery-end",
        Notice::Rto(_) => "rto",
        Notice::Tlp => "tlp",
        Notice::Undo => "undo",
        Notice::Cwr(_) => "cwr",
        Notice::LocalCongestion => "local-congestion",
    }
}

fn seconds(at: Time) -> String {
    format!("{}.{:09}", at.0 / 1_000_000_000, at.0 % 1_000_000_000)
}
