//! Every queue discipline in one type, built from the plan, without dynamic dispatch.

use weir_plan::Queue;
use weir_units::{Rate, Stream, Time};

use crate::qdisc::Drops;
use crate::{Admission, AdmissionQueue, Codel, Counters, Dequeued, Enqueued, FqCodel, Packet, Pie, Port, Qdisc};

/// A queue discipline of the plan.
pub enum AnyQdisc<P> {
    /// Drop-tail, RED or WRED.
    Admission(AdmissionQueue<P>),
    /// CoDel.
    Codel(Codel<P>),
    /// FQ-CoDel.
    FqCodel(FqCodel<P>),
    /// PIE.
    Pie(Pie<P>),
}

impl<P: Packet + Send> AnyQdisc<P> {
    /// The queue of the plan before `port`; its random decisions are drawn from `stream`.
    pub fn from_plan(queue: &Queue, port: Port, stream: Stream) -> AnyQdisc<P> {
        match queue {
            Queue::Droptail { .. } | Queue::Red { .. } => {
                let admission = Admission::from_plan(queue, &port, stream).expect("both decide at arrival");
                AnyQdisc::Admission(AdmissionQueue::new(admission, port))
            }
            Queue::Codel { limit, codel } => AnyQdisc::Codel(Codel::from_plan(limit, codel, port)),
            Queue::FqCodel { limit, buckets, quantum_bytes, codel } => {
                AnyQdisc::FqCodel(FqCodel::from_plan(limit, *buckets, *quantum_bytes, codel, port, stream))
            }
            Queue::Pie { .. } => AnyQdisc::Pie(Pie::from_plan(queue, port, stream).expect("it is PIE")),
        }
    }
}

macro_rules! each {
    ($self:ident, $queue:ident => $call:expr) => {
        match $self {
            AnyQdisc::Admission($queue) => $call,
            AnyQdisc::Codel($queue) => $call,
            AnyQdisc::FqCodel($queue) => $call,
            AnyQdisc::Pie($queue) => $call,
        }
    };
}

impl<P: Packet + Send> Qdisc<P> for AnyQdisc<P> {
    #[inline]
    fn enqueue(&mut self, now: Time, packet: P, drops: &mut Drops<'_, P>) -> Enqueued {
        each!(self, queue => queue.enqueue(now, packet, drops))
    }

    #[inline]
    fn dequeue(&mut self, now: Time, drops: &mut Drops<'_, P>) -> Option<Dequeued<P>> {
        each!(self, queue => queue.dequeue(now, drops))
    }

    fn bytes(&self) -> u64 {
        each!(self, queue => queue.bytes())
    }

    fn packets(&self) -> u64 {
        each!(self, queue => queue.packets())
    }

    fn counters(&self) -> &Counters {
        each!(self, queue => queue.counters())
    }

    fn set_rate(&mut self, now: Time, rate: Rate) {
        each!(self, queue => queue.set_rate(now, rate));
    }
}
