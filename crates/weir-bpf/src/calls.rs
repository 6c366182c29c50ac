//! Recorded and repeated calls of a congestion control's operations: the Rust side of `cc/shim/call.h`.

use weir_cc::{AckSample, CaEvent, CaState, Instance, RateSample, Sock};

/// An operation, in the order of `enum weir_op`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Init,
    Release,
    Ssthresh,
    CongAvoid,
    SetState,
    CwndEvent,
    InAckEvent,
    UndoCwnd,
    PktsAcked,
    CongControl,
    MinTsoSegs,
    SndbufExpand,
}

/// All operations, with Linux' names.
pub(crate) const OPERATIONS: [(Operation, &str); 12] = [
    (Operation::Init, "init"),
    (Operation::Release, "release"),
    (Operation::Ssthresh, "ssthresh"),
    (Operation::CongAvoid, "cong_avoid"),
    (Operation::SetState, "set_state"),
    (Operation::CwndEvent, "cwnd_event"),
    (Operation::InAckEvent, "in_ack_event"),
    (Operation::UndoCwnd, "undo_cwnd"),
    (Operation::PktsAcked, "pkts_acked"),
    (Operation::CongControl, "cong_control"),
    (Operation::MinTsoSegs, "min_tso_segs"),
    (Operation::SndbufExpand, "sndbuf_expand"),
];

const SOCK: usize = size_of::<Sock>();
const ACK: usize = SOCK + 4 * 4;
const RATE: usize = ACK + size_of::<AckSample>() + 4;
/// Bytes of `struct weir_call`.
pub(crate) const CALL_BYTES: usize = RATE + size_of::<RateSample>();

/// The arguments of an operation besides the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub operation: Operation,
    pub arg1: u32,
    pub arg2: u32,
    pub ack: AckSample,
    pub rate: RateSample,
}

impl Operation {
    /// Linux' name.
    pub fn name(self) -> &'static str {
        OPERATIONS[self as usize].1
    }

    /// The operation of the program `weir_op_NAME`.
    pub fn of_program(program: &str) -> Option<Operation> {
        let name = program.strip_prefix("weir_op_")?;
        OPERATIONS.iter().find(|(_, other)| *other == name).map(|(operation, _)| *operation)
    }

    fn of_number(number: u32) -> Option<Operation> {
        OPERATIONS.get(number as usize).map(|(operation, _)| *operation)
    }

    /// Whether its return value is meaningful.
    fn returns(self) -> bool {
        use Operation::{MinTsoSegs, SndbufExpand, Ssthresh, UndoCwnd};
        matches!(self, Ssthresh | UndoCwnd | MinTsoSegs | SndbufExpand)
    }
}

impl Call {
    /// A call of `operation` without arguments.
    pub fn of(operation: Operation) -> Call {
        Call { operation, arg1: 0, arg2: 0, ack: AckSample::default(), rate: RateSample::default() }
    }

    /// Makes the call on the native build; returns its result, zero for none. `None`: Linux makes no such call.
    pub fn make(&self, cc: &mut Instance) -> Option<u32> {
        let mut result = 0;
        match self.operation {
            Operation::Init => cc.init(),
            Operation::Release => cc.release(),
            Operation::Ssthresh => result = cc.ssthresh(),
            Operation::CongAvoid => cc.cong_avoid(self.arg1, self.arg2),
            Operation::SetState => cc.set_state(state(self.arg1)?),
            Operation::CwndEvent => cc.cwnd_event(event(self.arg1)?),
            Operation::InAckEvent => cc.in_ack_event(self.arg1),
            Operation::UndoCwnd => result = cc.undo_cwnd(),
            Operation::PktsAcked => cc.pkts_acked(&self.ack),
            Operation::CongControl => cc.cong_control(self.arg1, self.arg2, &self.rate),
            Operation::MinTsoSegs => result = cc.min_tso_segs().unwrap_or(0),
            Operation::SndbufExpand => result = cc.sndbuf_expand().unwrap_or(0),
        }
        Some(result)
    }

    /// `struct weir_call` for this call on `sock`.
    pub fn bytes(&self, sock: &Sock) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(CALL_BYTES);
        bytes.extend_from_slice(sock.as_bytes());
        for word in [self.operation as u32, self.arg1, self.arg2, 0] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes.extend_from_slice(self.ack.as_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(self.rate.as_bytes());
        bytes
    }

    /// The socket, the call and its result from a `struct weir_call`.
    pub fn parse(bytes: &[u8]) -> Option<(Sock, Call, u32)> {
        if bytes.len() != CALL_BYTES {
            return None;
        }
        let sock = Sock::from_bytes(&bytes[..SOCK])?;
        let word = |index: usize| number(bytes, SOCK + 4 * index);
        let operation = Operation::of_number(word(0)?)?;
        let ack = AckSample::from_bytes(&bytes[ACK..ACK + size_of::<AckSample>()])?;
        let rate = RateSample::from_bytes(&bytes[RATE..])?;
        let result = if operation.returns() { word(3)? } else { 0 };
        Some((sock, Call { operation, arg1: word(1)?, arg2: word(2)?, ack, rate }, result))
    }
}

/// The result of a call on one build, for comparison with the other's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub sock: Sock,
    pub result: u32,
}

impl Outcome {
    /// Where `self` (native) and `other` (BPF) differ, in words.
    pub fn difference(&self, other: &Outcome) -> Option<String> {
        let mut found = Vec::new();
        let mut compare = |what: &str, ours: u64, theirs: u64| {
            if ours != theirs {
                found.push(format!("{what}: native {ours}, BPF {theirs}"));
            }
        };
        let (ours, theirs) = (&self.sock, &other.sock);
        compare("result", self.result.into(), other.result.into());
        compare("snd_cwnd", ours.snd_cwnd.into(), theirs.snd_cwnd.into());
        compare("snd_cwnd_cnt", ours.snd_cwnd_cnt.into(), theirs.snd_cwnd_cnt.into());
        compare("snd_cwnd_stamp", ours.snd_cwnd_stamp.into(), theirs.snd_cwnd_stamp.into());
        compare("snd_ssthresh", ours.snd_ssthresh.into(), theirs.snd_ssthresh.into());
        compare("app_limited", ours.app_limited.into(), theirs.app_limited.into());
        compare("ecn_flags", ours.ecn_flags.into(), theirs.ecn_flags.into());
        compare("sk_pacing_rate", ours.pacing_rate, theirs.pacing_rate);
        compare("sk_pacing_status", ours.pacing_status.into(), theirs.pacing_status.into());
        for (index, (ours, theirs)) in ours.private_state().iter().zip(theirs.private_state()).enumerate() {
            compare(&format!("private state, bytes {} to {}", 8 * index, 8 * index + 7), *ours, *theirs);
        }
        (!found.is_empty()).then(|| found.join("; "))
    }
}

pub(crate) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

fn state(number: u32) -> Option<CaState> {
    use CaState::{Cwr, Disorder, Loss, Open, Recovery};
    [Open, Disorder, Cwr, Recovery, Loss].into_iter().find(|state| *state as u32 == number)
}

fn event(number: u32) -> Option<CaEvent> {
    use CaEvent::{CompleteCwr, CwndRestart, EcnIsCe, EcnNoCe, Loss, TxStart};
    [TxStart, CwndRestart, CompleteCwr, Loss, EcnNoCe, EcnIsCe].into_iter().find(|event| *event as u32 == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_survives_its_bytes() {
        let mut sock = Sock::default();
        (sock.snd_cwnd, sock.tcp_mstamp_us) = (77, 1 << 40);
        let call = Call {
            arg1: 3,
            arg2: 4,
            ack: AckSample { pkts_acked: 5, rtt_us: -1, in_flight: 6 },
            rate: RateSample { delivered: 7, rtt_us: 8, ..RateSample::default() },
            ..Call::of(Operation::CongAvoid)
        };
        assert_eq!(Call::parse(&call.bytes(&sock)), Some((sock, call, 0)));
    }

    #[test]
    fn operations_are_found_by_number_and_by_program() {
        for (index, (operation, name)) in OPERATIONS.into_iter().enumerate() {
            assert_eq!((operation as usize, operation.name()), (index, name));
            assert_eq!(Operation::of_number(index as u32), Some(operation));
            assert_eq!(Operation::of_program(&format!("weir_op_{name}")), Some(operation));
        }
        assert_eq!((Operation::of_number(12), Operation::of_program("cong_avoid")), (None, None));
    }

    #[test]
    fn every_field_that_may_be_written_is_compared() {
        let plain = Outcome { sock: Sock::default(), result: 0 };
        assert_eq!(plain.difference(&plain), None);
        type Write = fn(&mut Outcome);
        let writes: [(&str, Write); 9] = [
            ("result", |o| o.result = 1),
            ("snd_cwnd:", |o| o.sock.snd_cwnd += 1),
            ("snd_cwnd_cnt", |o| o.sock.snd_cwnd_cnt = 1),
            ("snd_cwnd_stamp", |o| o.sock.snd_cwnd_stamp = 1),
            ("snd_ssthresh", |o| o.sock.snd_ssthresh = 1),
            ("app_limited", |o| o.sock.app_limited = 1),
            ("ecn_flags", |o| o.sock.ecn_flags = 1),
            ("sk_pacing_rate", |o| o.sock.pacing_rate = 1),
            ("sk_pacing_status", |o| o.sock.pacing_status = 1),
        ];
        for (what, write) in writes {
            let mut other = plain.clone();
            write(&mut other);
            let difference = plain.difference(&other).expect("a difference");
            assert!(difference.starts_with(what) && !difference.contains(';'), "{difference}");
        }
    }
}
