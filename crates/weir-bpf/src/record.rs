//! Parity on live connections: loads a build that records its calls, and repeats every call natively.
//!
//! A run loads the recording build (`WEIR_RECORD`), which writes the socket's fields before and after each call to a
//! ring buffer. So this shows that the fields are read at the right offsets of the running kernel, which a random
//! sequence of calls ([`crate::fuzzed`]) cannot.

use crate::{
    calls::{CALL_BYTES, Call, Operation, Outcome},
    error::BpfError,
    kernel::Kernel,
    load::{Loaded, Request, load_object},
    parity::{Difference, Parity, native},
    source::{self, Source},
};
use libbpf_rs::{ErrorKind, MapCore, MapFlags, RingBufferBuilder};
use std::{cell::RefCell, collections::BTreeMap, time::Duration};
use weir_cc::{Algorithm, Instance, PRIVATE_WORDS, Sock};

/// Three numbers, the call and the socket after it: `struct weir_record`.
const CALL: usize = 3 * 8;
const AFTER: usize = CALL + CALL_BYTES;
const RECORD_BYTES: usize = AFTER + size_of::<Sock>();
/// Interval at which the recording checks for its end.
const TURN: Duration = Duration::from_millis(50);

/// A congestion control whose calls are compared while connections use it.
pub struct Recorder {
    loaded: Loaded,
    replays: RefCell<Replays>,
}

impl Recorder {
    /// Loads the recording build.
    ///
    /// # Errors
    /// As [`crate::load`].
    pub fn load(kernel: &Kernel, request: &Request) -> Result<Recorder, BpfError> {
        let source = Source::of(&request.cc)?;
        let object = source::compiled(&source, kernel.old_cong_control, &["WEIR_RECORD"])?;
        let loaded = load_object(kernel, request, object)?;
        let mut programs = loaded.object.progs();
        let has_init =
            programs.any(|program| Operation::of_program(&program.name().to_string_lossy()) == Some(Operation::Init));
        drop(programs);
        let replays = Replays {
            algorithm: native(&source)?,
            has_init,
            options: request.options.clone(),
            flows: BTreeMap::new(),
            parity: Parity::of(&request.cc),
        };
        Ok(Recorder { loaded, replays: RefCell::new(replays) })
    }

    /// The name by which sockets choose it.
    pub fn name(&self) -> &str {
        &self.loaded.name
    }

    /// Compares calls until `ended`.
    ///
    /// # Errors
    /// [`BpfError::Load`] if the ring buffer cannot be read.
    pub fn run(self, ended: impl Fn() -> bool) -> Result<Parity, BpfError> {
        self.listen(ended)
            .map_err(|error| BpfError::Load { cc: self.loaded.name.clone(), reason: error.to_string() })?;
        let unrecorded = self.unrecorded();
        let mut parity = self.replays.into_inner().parity;
        parity.unrecorded += unrecorded;
        Ok(parity)
    }

    fn listen(&self, ended: impl Fn() -> bool) -> libbpf_rs::Result<()> {
        let map = self.loaded.object.maps().find(|map| map.name() == "weir_records");
        let map = map.ok_or_else(|| libbpf_rs::Error::from(std::io::Error::other("it has no weir_records")))?;
        let mut builder = RingBufferBuilder::new();
        builder.add(&map, |bytes| {
            self.replays.borrow_mut().take(bytes);
            0
        })?;
        let ring = builder.build()?;
        while !ended() {
            match ring.poll(TURN) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => (),
            }
        }
        ring.consume()
    }

    fn unrecorded(&self) -> u64 {
        let map = self.loaded.object.maps().find(|map| map.name().to_string_lossy().ends_with(".bss"));
        let value = map.and_then(|map| map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok().flatten());
        value.and_then(|value| long(&value, 0)).unwrap_or(0)
    }
}

/// The native build of every flow that is recorded.
struct Replays {
    algorithm: Algorithm,
    has_init: bool,
    options: BTreeMap<String, i64>,
    /// By the address of the kernel's socket; flows whose beginning was not seen, or that differ, are missing.
    flows: BTreeMap<u64, Replay>,
    parity: Parity,
}

struct Replay {
    cc: Instance,
    number: u64,
    calls: u64,
}

/// `struct weir_record`.
struct Record {
    flow: u64,
    /// The kernel's clock before and after the call.
    jiffies: [u32; 2],
    before: Sock,
    call: Call,
    theirs: Outcome,
}

impl Record {
    fn parse(bytes: &[u8]) -> Option<Record> {
        // The ring buffer rounds a record's length up to 8 bytes.
        let bytes = bytes.get(..RECORD_BYTES)?;
        let (before, call, result) = Call::parse(&bytes[CALL..AFTER])?;
        let sock = Sock::from_bytes(&bytes[AFTER..])?;
        let jiffies = [long(bytes, 8)? as u32, long(bytes, 16)? as u32];
        Some(Record { flow: long(bytes, 0)?, jiffies, before, call, theirs: Outcome { sock, result } })
    }
}

impl Replays {
    fn take(&mut self, bytes: &[u8]) {
        let Some(record) = Record::parse(bytes) else {
            self.parity.unrecorded += 1;
            return;
        };
        if self.begins(&record) {
            self.begin(record.flow);
        }
        let Some(replay) = self.flows.get_mut(&record.flow) else { return };
        let difference = replay.differs(&record);
        replay.calls += 1;
        let (flow, call) = (replay.number, replay.calls);
        self.parity.count(record.call.operation);
        if let Some(what) = difference {
            self.flows.remove(&record.flow);
            let (operation, options) = (record.call.operation.name(), self.options.clone());
            self.parity.differences.push(Difference { flow, call, operation, options, what });
        }
    }

    /// Without a first operation, a flow begins when it has no state yet.
    fn begins(&self, record: &Record) -> bool {
        if self.has_init {
            return record.call.operation == Operation::Init;
        }
        let known = self.flows.get(&record.flow).map(|replay| replay.cc.sock.private_state());
        let fresh = *record.before.private_state() == [0; PRIVATE_WORDS];
        fresh && known.is_none_or(|known| known != record.before.private_state())
    }

    fn begin(&mut self, flow: u64) {
        // The options were verified when the object was loaded.
        if let Ok(cc) = Instance::new(&self.algorithm, &self.options) {
            self.flows.insert(flow, Replay { cc, number: self.parity.flows, calls: 0 });
            self.parity.flows += 1;
        }
    }
}

impl Replay {
    /// Makes the recorded call natively. The jiffies clock, which a replay derives from the flow's, may have advanced
    /// during the call: either reading is accepted.
    fn differs(&mut self, record: &Record) -> Option<String> {
        let kept = *self.cc.sock.private_state();
        let begins = record.call.operation == Operation::Init;
        if !begins && kept != *record.before.private_state() {
            return Some("the private state was changed between two calls".into());
        }
        let mut differs = None;
        for now in record.jiffies {
            self.cc.set_sock(record.before.clone());
            let sock = &mut self.cc.sock;
            sock.lsndtime = sock.jiffies32().wrapping_sub(now.wrapping_sub(sock.lsndtime));
            let result = record.call.make(&mut self.cc)?;
            differs = Outcome { sock: self.cc.sock.clone(), result }.difference(&record.theirs);
            if differs.is_none() {
                break;
            }
        }
        differs
    }
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_cc::find;

    fn bytes(jiffies: u64, call: &Call, before: &Sock, result: u32, after: &Sock) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [7, jiffies, jiffies] {
            bytes.extend_from_slice(&number.to_ne_bytes());
        }
        bytes.extend_from_slice(&call.bytes(before));
        bytes[CALL + size_of::<Sock>() + 12..][..4].copy_from_slice(&result.to_ne_bytes());
        bytes.extend_from_slice(after.as_bytes());
        bytes
    }

    fn replays() -> Replays {
        let algorithm = find("cubic").expect("registered");
        Replays {
            algorithm,
            has_init: true,
            options: BTreeMap::new(),
            flows: BTreeMap::new(),
            parity: Parity::of("cubic"),
        }
    }

    /// A recording of `calls` by the native build itself, whose jiffies clock began at another time.
    fn recorded(calls: &[Call], jiffies_ahead: u32) -> Vec<Vec<u8>> {
        let mut cc = Instance::new(&find("cubic").expect("registered"), &BTreeMap::new()).expect("no options");
        let mut records = Vec::new();
        for call in calls {
            cc.sock.tcp_mstamp_us += 3_000_000;
            let before = cc.sock.clone();
            let result = call.make(&mut cc).expect("a call that Linux makes");
            let now = u64::from(cc.sock.jiffies32().wrapping_add(jiffies_ahead));
            let mut shifted = before.clone();
            shifted.lsndtime = shifted.lsndtime.wrapping_add(jiffies_ahead);
            records.push(bytes(now, call, &shifted, result, &cc.sock));
        }
        records
    }

    fn calls() -> Vec<Call> {
        let acked = Call { arg2: 10, ..Call::of(Operation::CongAvoid) };
        let idle = Call::of(Operation::CwndEvent);
        vec![Call::of(Operation::Init), acked, Call::of(Operation::Ssthresh), acked, idle, acked]
    }

    #[test]
    fn a_faithful_recording_has_no_difference_whatever_the_kernels_jiffies() {
        for ahead in [0, 1, 0xfffb_6c20] {
            let mut replays = replays();
            recorded(&calls(), ahead).iter().for_each(|record| replays.take(record));
            assert_eq!(replays.parity.differences, []);
            assert_eq!((replays.parity.calls, replays.parity.flows, replays.parity.unrecorded), (6, 1, 0));
        }
    }

    #[test]
    fn a_difference_ends_the_comparison_of_its_flow() {
        let mut replays = replays();
        let mut records = recorded(&calls(), 0);
        let cwnd_after = AFTER;
        records[2][cwnd_after] ^= 1;
        records.iter().for_each(|record| replays.take(record));
        let [difference] = &replays.parity.differences[..] else { panic!("{:?}", replays.parity) };
        assert_eq!((difference.operation, difference.call), ("ssthresh", 3));
        assert!(difference.what.starts_with("snd_cwnd: "), "{}", difference.what);
        assert_eq!(replays.parity.calls, 3);
    }

    #[test]
    fn a_call_that_is_missing_shows_in_the_private_state() {
        let mut replays = replays();
        let mut records = recorded(&calls(), 0);
        records.remove(1);
        records.remove(1);
        records.push(vec![0; 9]);
        records.iter().for_each(|record| replays.take(record));
        let [difference] = &replays.parity.differences[..] else { panic!("{:?}", replays.parity) };
        assert!(difference.what.contains("between two calls"), "{}", difference.what);
        assert_eq!(replays.parity.unrecorded, 1);
    }

    #[test]
    fn without_init_a_flow_begins_where_it_has_no_state_yet() {
        let mut replays = Replays { has_init: false, ..replays() };
        let calls = [Call::of(Operation::Ssthresh); 2];
        for _ in 0..2 {
            recorded(&calls, 0).iter().for_each(|record| replays.take(record));
        }
        assert_eq!(replays.parity.differences, []);
        assert_eq!((replays.parity.calls, replays.parity.flows), (4, 2));
    }

    #[test]
    fn a_flow_whose_beginning_was_not_seen_is_left_out() {
        let mut replays = replays();
        recorded(&calls(), 0)[1..].iter().for_each(|record| replays.take(record));
        assert_eq!((replays.parity.calls, replays.parity.flows), (0, 0));
    }
}
