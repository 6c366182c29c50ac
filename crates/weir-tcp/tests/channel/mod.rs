//! A connection over a random channel, watched at every step.

use std::collections::{BTreeMap, BTreeSet};

use weir_plan::Tcp;
use weir_tcp::{Ack, Arrival, Counters, Notice, PlainAck, Receiver, Segment, Sender, Transmit, feedback};
use weir_units::{Dur, Time};

/// Events after which a run counts as endless.
const MAX_EVENTS: u64 = 300_000;

/// What the channel does; probabilities are per thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Impairments {
    pub one_way_us: u64,
    /// Time a packet takes to leave: packets of a train arrive so far apart.
    pub gap_us: u64,
    pub loss: u32,
    pub ack_loss: u32,
    pub duplicates: u32,
    pub late: u32,
    pub late_by_us: u64,
    pub marks: u32,
    /// How often the host's own queue is full.
    pub blocked: u32,
}

/// What a run came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    pub counters: Counters,
    /// Data packets that the channel lost.
    pub lost: u64,
    pub probes: u64,
    /// Segments and acknowledgements that were plain, and had the effects of any other; only if they are compared.
    pub plain: (u64, u64),
    /// Trains that filled the window, and those that data or buffers ended; only if they are compared.
    pub trains: (u64, u64),
}

#[derive(Clone, Debug)]
pub struct Config {
    pub tcp: Tcp,
    pub impairments: Impairments,
    /// Microseconds to wait, then bytes to write.
    pub transfers: Vec<(u64, u64)>,
    pub seed: u64,
}

/// SplitMix64: enough randomness for a channel, and the same everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    fn happens(&mut self, per_thousand: u32) -> bool {
        self.below(1000) < u64::from(per_thousand)
    }
}

/// Compares all fields.
fn same(what: &str, left: &impl std::fmt::Debug, right: &impl std::fmt::Debug) -> Result<(), String> {
    let (left, right) = (format!("{left:?}"), format!("{right:?}"));
    if left == right { Ok(()) } else { Err(format!("the {what} differs: {left} and {right}")) }
}

#[derive(Clone, Copy)]
enum Cargo {
    Syn,
    SynAck,
    Data(Arrival),
    Ack(Ack),
    Write(u64),
}

pub struct Connection {
    config: Config,
    random: Random,
    now: Time,
    sender: Sender,
    receiver: Receiver,
    wire: BTreeMap<(Time, u64), Cargo>,
    order: u64,
    /// When the last packet has left, in each direction.
    left: [Time; 2],
    transfers: std::vec::IntoIter<(u64, u64)>,
    /// Length of each segment, as first sent.
    lengths: Vec<u32>,
    arrived: BTreeSet<u64>,
    /// The segment that came last: an ACK that was held back may not report it yet.
    latest: u64,
    last_ack: u64,
    written: u64,
    /// Transmissions that the window need not allow: a probe, or the first after a timeout.
    forced: u32,
    outcome: Outcome,
    compares: bool,
}

impl Connection {
    pub fn new(config: &Config) -> Connection {
        let algorithm = weir_cc::find(&config.tcp.cc).expect("a registered congestion control");
        Connection {
            random: Random::new(config.seed),
            now: Time::ZERO,
            sender: Sender::new(&config.tcp, &algorithm).expect("no options are given"),
            receiver: Receiver::new(&config.tcp).with_feedback(feedback(&config.tcp, &algorithm)),
            wire: BTreeMap::new(),
            order: 0,
            left: [Time::ZERO; 2],
            transfers: config.transfers.clone().into_iter(),
            lengths: Vec::new(),
            arrived: BTreeSet::new(),
            latest: u64::MAX,
            last_ack: 0,
            written: 0,
            forced: 0,
            outcome: Outcome::default(),
            compares: false,
            config: config.clone(),
        }
    }

    /// Compares the effects of plain segments and acknowledgements with those of any other.
    pub fn comparing(self) -> Connection {
        Connection { compares: true, ..self }
    }

    /// Runs all transfers.
    ///
    /// # Errors
    /// What went wrong, and when.
    pub fn run(mut self) -> Result<Outcome, String> {
        self.run_to_the_end().map_err(|problem| format!("at {} ns: {problem}", self.now.0))?;
        Ok(Outcome { counters: *self.sender.counters(), ..self.outcome })
    }

    fn run_to_the_end(&mut self) -> Result<(), String> {
        self.sender.connect(self.now);
        self.next_transfer();
        self.pump()?;
        for _ in 0..MAX_EVENTS {
            if !self.step()? {
                return self.finish();
            }
        }
        Err(format!("no end after {MAX_EVENTS} events: {} of {} bytes", self.sender.acked_bytes(), self.written))
    }

    /// The next event; false if there is none.
    fn step(&mut self) -> Result<bool, String> {
        let wire = self.wire.first_key_value().map_or(Time::MAX, |((at, _), _)| *at);
        let next = wire.min(self.sender.deadline()).min(self.receiver.deadline());
        if next == Time::MAX {
            return Ok(false);
        }
        if next < self.now {
            return Err(format!("a timer was due at {} ns and is still set", next.0));
        }
        self.now = next;
        if wire == next {
            self.deliver()?;
        } else if self.receiver.deadline() == next {
            let ack = self.receiver.on_timer(self.now);
            self.send_ack(ack)?;
        } else {
            self.sender.on_timer(self.now);
            self.pump()?;
            if self.sender.deadline() <= self.now {
                return Err("the sender's timer does not move".into());
            }
        }
        Ok(true)
    }

    fn finish(&self) -> Result<(), String> {
        let (acked, delivered) = (self.sender.acked_bytes(), self.receiver.delivered_bytes());
        if acked != self.written || delivered != self.written {
            return Err(format!("stuck: {acked} acknowledged and {delivered} delivered of {}", self.written));
        }
        let counters = self.sender.counters();
        let originals = counters.sent_packets - counters.retransmitted_packets;
        if originals != self.lengths.len() as u64 || originals != self.sender.una() || self.sender.in_flight() != 0 {
            return Err(format!("{counters:?} for {} segments", self.lengths.len()));
        }
        if self.sender.is_idle() {
            Ok(())
        } else {
            Err("everything is acknowledged, but the sender is not idle".into())
        }
    }

    fn deliver(&mut self) -> Result<(), String> {
        let Some((_, cargo)) = self.wire.pop_first() else { return Ok(()) };
        match cargo {
            Cargo::Syn => self.send(1, Cargo::SynAck, 0),
            Cargo::SynAck => {
                self.receiver.set_rtt(Dur::from_micros(2 * self.config.impairments.one_way_us));
                self.sender.on_syn_ack(self.now);
                self.pump()?;
            }
            Cargo::Data(arrival) => {
                self.arrived.insert(arrival.seq);
                self.latest = arrival.seq;
                let ack = self.take(arrival)?;
                self.check_delivery()?;
                self.send_ack(ack)?;
            }
            Cargo::Ack(ack) => {
                let flight = self.sender.in_flight();
                self.take_ack(&ack)?;
                self.check(&format!("after {ack:?} with {flight} in flight"))?;
                self.pump()?;
                if self.sender.is_idle() {
                    self.next_transfer();
                }
            }
            Cargo::Write(bytes) => {
                self.written += bytes;
                self.sender.write(self.now, bytes);
                self.pump()?;
            }
        }
        Ok(())
    }

    /// Hands a segment to the receiver, if it is plain and they are compared, in both ways.
    fn take(&mut self, arrival: Arrival) -> Result<Option<Ack>, String> {
        let Arrival { seq, len, tsval, ce, cwr, push } = arrival;
        let plain = !ce && !cwr && !push && len == self.config.tcp.mss_bytes && seq == self.receiver.next();
        if !self.compares || !plain || !self.receiver.expects(seq as u32) {
            return Ok(self.receiver.on_data(self.now, arrival));
        }
        let mut other = self.receiver.clone();
        let short = other.take_next(self.now, len, tsval);
        let short = short.map(|PlainAck { ack, echo, tsecr }| Ack { ack, echo, tsecr, ..Ack::default() });
        let ack = self.receiver.on_data(self.now, arrival);
        self.outcome.plain.0 += 1;
        same("acknowledgement of a plain segment", &short, &ack)?;
        same("receiver after a plain segment", &other, &self.receiver)?;
        Ok(ack)
    }

    /// Hands an acknowledgement to the sender, if it is plain and they are compared, in both ways.
    fn take_ack(&mut self, ack: &Ack) -> Result<(), String> {
        let before = self.compares.then(|| self.sender.clone());
        self.sender.on_ack(self.now, ack);
        let Some(mut other) = before.filter(|_| ack.sack.is_empty() && ack.echo == 0) else { return Ok(()) };
        if other.on_plain_ack(self.now, ack.ack as u32) {
            self.outcome.plain.1 += 1;
            let (mut first, mut second) = (other.clone(), self.sender.clone());
            other.sent_no_train(self.now);
            same("sender after a plain acknowledgement", &other, &self.sender)?;
            if let Some(train) = second.train(self.now).filter(|train| train.segments > 0) {
                first.sent_train(self.now, train.segments, true);
                second.sent_train(self.now, train.segments, false);
                same("sender after a plain acknowledgement and a train", &first, &second)?;
            }
        }
        Ok(())
    }

    fn next_transfer(&mut self) {
        let pending = self.wire.values().any(|cargo| matches!(cargo, Cargo::Write(_)));
        if let Some((wait, bytes)) = if pending { None } else { self.transfers.next() } {
            self.order += 1;
            self.wire.insert((self.now + Dur::from_micros(wait), self.order), Cargo::Write(bytes));
        }
    }

    /// Lets the sender transmit; now and then the host's queue is full.
    fn pump(&mut self) -> Result<(), String> {
        self.forced = 0;
        let (forced, probes) = (&mut self.forced, &mut self.outcome.probes);
        self.sender.take_notices(|notice| {
            *forced += u32::from(matches!(notice, Notice::Tlp | Notice::Rto(_)));
            *probes += u64::from(notice == Notice::Tlp);
        });
        if self.compares {
            self.compare_train()?;
        }
        loop {
            if self.random.happens(self.config.impairments.blocked) {
                self.sender.transmit_blocked(self.now);
                if self.sender.wants_to_send() {
                    self.sender.on_local_congestion(self.now);
                }
                self.check("after local congestion")?;
            }
            let (flight, cwnd) = (self.sender.in_flight(), self.sender.cwnd());
            let Some(transmit) = self.sender.poll_transmit(self.now) else { break };
            match transmit {
                Transmit::Syn => {
                    // Connections are open from the start: the scripts test requests.
                    self.send(0, Cargo::Syn, 0);
                }
                Transmit::Data(segment) => {
                    self.check_segment(&segment, flight, cwnd)?;
                    self.send_segment(segment);
                }
            }
            self.check(&format!("after {transmit:?}"))?;
        }
        self.check("when it had nothing to send")
    }

    /// Sends a train, if there is one, at once and by single segments.
    fn compare_train(&mut self) -> Result<(), String> {
        let Some(train) = self.sender.train(self.now).filter(|train| train.segments > 0) else { return Ok(()) };
        let (mut whole, mut single) = (self.sender.clone(), self.sender.clone());
        whole.sent_train(self.now, train.segments, false);
        for place in 0..train.segments {
            let expected = Segment { seq: train.first.seq + place, ..train.first };
            same("segment", &single.poll_transmit(self.now), &Some(Transmit::Data(expected)))?;
        }
        if train.fills_window {
            self.outcome.trains.0 += 1;
            whole.window_is_full(self.now);
            same("segment in a full window", &single.poll_transmit(self.now), &None::<Transmit>)?;
        } else {
            self.outcome.trains.1 += 1;
        }
        same("sender after a train", &whole, &single)
    }

    fn check(&self, when: &str) -> Result<(), String> {
        self.sender.check().map_err(|problem| format!("{when}: {problem}"))
    }

    fn check_segment(&mut self, segment: &Segment, flight: u32, cwnd: u32) -> Result<(), String> {
        if flight >= cwnd {
            if self.forced == 0 {
                return Err(format!("{segment:?} with {flight} in flight and a window of {cwnd}"));
            }
            self.forced -= 1;
        }
        if segment.len == 0 || segment.len > self.config.tcp.mss_bytes {
            return Err(format!("{segment:?} with segments of {}", self.config.tcp.mss_bytes));
        }
        let known = self.lengths.get(segment.seq as usize).copied();
        match known {
            None if segment.retransmission => Err(format!("{segment:?} was never sent")),
            None if segment.seq != self.lengths.len() as u64 => Err(format!("{segment:?} skips some")),
            None => {
                self.lengths.push(segment.len);
                Ok(())
            }
            Some(_) if !segment.retransmission || segment.cwr => Err(format!("{segment:?} was sent before")),
            Some(len) if len != segment.len => Err(format!("{segment:?} had {len} bytes")),
            Some(_) => Ok(()),
        }
    }

    fn check_delivery(&self) -> Result<(), String> {
        let next = self.receiver.next();
        let expected: u64 = self.lengths[..next as usize].iter().map(|len| u64::from(*len)).sum();
        if self.receiver.delivered_bytes() != expected || self.arrived.contains(&next) {
            let delivered = self.receiver.delivered_bytes();
            return Err(format!("{delivered} bytes delivered, {expected} up to segment {next}"));
        }
        Ok(())
    }

    fn check_ack(&mut self, ack: &Ack) -> Result<(), String> {
        let blocks = ack.sack.as_slice();
        let wrong = |what: &str| Err(format!("{ack:?}: {what}"));
        if ack.ack != self.receiver.next() || ack.ack < self.last_ack {
            return wrong("not what was received");
        }
        self.last_ack = ack.ack;
        if blocks.len() > if self.config.tcp.timestamps { 3 } else { 4 } {
            return wrong("too many blocks");
        }
        if !self.config.tcp.sack && !blocks.is_empty() {
            return wrong("blocks, but SACK is off");
        }
        for (i, &(start, end)) in blocks.iter().enumerate() {
            if start >= end || !(start..end).all(|seq| self.arrived.contains(&seq)) {
                return wrong("a block of what did not arrive");
            }
            if i == 0 && ack.sack.dsack {
                continue;
            }
            if start <= ack.ack || self.is_reportable(end) || self.is_reportable(start - 1) {
                return wrong("a block that is not whole");
            }
            let first = usize::from(ack.sack.dsack);
            if blocks[first..i].iter().any(|other| other.0 < end && start < other.1) {
                return wrong("blocks overlap");
            }
        }
        Ok(())
    }

    fn is_reportable(&self, seq: u64) -> bool {
        seq != self.latest && self.arrived.contains(&seq)
    }

    fn send_segment(&mut self, segment: Segment) {
        let impairments = self.config.impairments;
        let ce = self.config.tcp.ecn && !segment.retransmission && self.random.happens(impairments.marks);
        let Segment { seq, len, tsval, cwr, push, .. } = segment;
        let arrival = Arrival { seq, len, tsval, ce, cwr, push };
        self.send(0, Cargo::Data(arrival), impairments.loss);
        if self.random.happens(impairments.duplicates) {
            self.send(0, Cargo::Data(arrival), impairments.loss);
        }
    }

    fn send_ack(&mut self, ack: Option<Ack>) -> Result<(), String> {
        let Some(ack) = ack else { return Ok(()) };
        self.check_ack(&ack)?;
        self.send(1, Cargo::Ack(ack), self.config.impairments.ack_loss);
        Ok(())
    }

    fn send(&mut self, direction: usize, cargo: Cargo, loss: u32) {
        let impairments = self.config.impairments;
        let left = self.left[direction].max(self.now) + Dur::from_micros(impairments.gap_us);
        self.left[direction] = left;
        if self.random.happens(loss) {
            self.outcome.lost += u64::from(matches!(cargo, Cargo::Data(_)));
            return;
        }
        let mut at = left + Dur::from_micros(impairments.one_way_us);
        if self.random.happens(impairments.late) {
            at += Dur::from_micros(1 + self.random.below(impairments.late_by_us));
        }
        self.order += 1;
        self.wire.insert((at, self.order), cargo);
    }
}
