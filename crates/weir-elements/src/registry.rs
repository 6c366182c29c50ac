//! The registry: a line for each queue, the source of the plan's type and of both ways to build a queue.
//!
//! A queue is a file with its plan (a [`QueuePlan`](crate::QueuePlan)), discipline and tests, and a line here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Rate, Stream, Time};

use crate::admission::{AdmissionQueue, Admits, AtArrival};
use crate::declare::{ElementInfo, Fault, QueuePlan, TokenRates};
use crate::explicit::Explicit;
use crate::qdisc::{AtDeparture, Drops};
use crate::{Arrival, Backlog, Counters, Dequeued, DropTail, Enqueued, Limit, Packet, Port, Qdisc, Verdict};
use crate::{delay, loss, mtu, transmitter};

queues! {
    at arrival {
        Droptail = droptail::DroptailQueue;
        Red = red::RedQueue;
        Step = step::StepQueue;
        Marks = marks::MarksQueue;
    }
    at departure {
        Codel = codel::CodelQueue;
        FqCodel = fq_codel::FqCodelQueue;
        Fq = fq::FqQueue;
        Sfq = sfq::SfqQueue;
        Pie = pie::PieQueue;
        Dualpi2 = dualpi2::DualPi2Queue;
        Xcp = xcp::XcpQueue;
        Rcp = rcp::RcpQueue;
        Quickstart = quickstart::QuickstartQueue;
        Wrr = wrr::WrrQueue;
        Prio = prio::PrioQueue;
        Drr = drr::DrrQueue;
        Ets = ets::EtsQueue;
        Wfq = wfq::WfqQueue;
        Htb = htb::HtbQueue;
        Tbf = tbf::TbfQueue;
        Police = police::PoliceQueue;
    }
}

/// The elements before and after the queue of a link.
const BEFORE: &[ElementInfo] = &[mtu::INFO, loss::BERNOULLI, loss::GILBERT_ELLIOTT, loss::LIST];
const AFTER: &[ElementInfo] = &[transmitter::INFO, delay::FIXED, delay::JITTER, delay::REORDER];

/// Every element, in the order in which a packet passes them.
pub fn elements() -> impl Iterator<Item = &'static ElementInfo> {
    BEFORE.iter().chain(QUEUES).chain(AFTER)
}
