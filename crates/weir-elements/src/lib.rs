//! Network elements: the parts of a link.
//!
//! A packet that enters a link passes an [`Mtu`] check, a [`LossModel`], a queue, a [`Transmitter`] and a
//! [`DelayLine`]. Every element is sans-IO: the driver passes `now` and a named random [`weir_units::Stream`], and
//! moves the packets. The elements know neither the simulator nor the emulator, read no clock and no entropy, and never
//! allocate for a packet that finds room.
//!
//! Queues come in two forms that decide alike, because both call the same code:
//!
//! - [`Admission`] decides at the arrival of a packet only, as drop-tail and RED do. The link can then be *analytic*
//!   ([`FifoLink`]): the departure is computed at the arrival, and serialisation needs no event.
//! - [`Qdisc`] has an explicit dequeue, for disciplines that decide at a packet's departure (CoDel, FQ-CoDel), for links
//!   with a variable rate, and for an emulator.
//!
//! A scheduler is a [`Qdisc`] with a child for each class of packets; any queue can be a child, another scheduler too.
//!
//! # Trains
//!
//! A driver may hand over a train of packets in one piece (segmentation offload). Every element treats its packets one
//! by one: [`Qdisc::enqueue_train`] takes the train apart, and the documentation of each other element says how it is
//! asked for each packet. No element gives a 64 KB train one verdict.
//!
//! # Example
//!
//! ```
//! use weir_elements::{Admission, Arrival, Delay, DelayLine, FifoLink, Limit, Offer, Port, plan::DroptailQueue};
//! use weir_units::{Rate, Stream, Time};
//!
//! let queue = DroptailQueue { limit: Limit { bytes: None, packets: Some(1) } }.into();
//! let port = Port { rate: Rate::from_gbps(1), overhead_bytes: 38, mtu_bytes: 1500 };
//! let admission = Admission::from_plan(&queue, &port, Stream::new(1, "queue")).expect("drop-tail decides at arrival");
//! let mut link = FifoLink::new(admission, port.rate);
//! let mut line = DelayLine::from_plan(&Delay::Fixed { delay_ns: 1_000_000 }, Stream::new(1, "delay"));
//!
//! // Three full packets at once: one is transmitted, one waits, one is dropped.
//! let arrival = Arrival { bytes: 1538, ecn_capable: false, dscp: 0 };
//! let offers = [(); 3].map(|()| link.offer(Time(0), &arrival));
//! let Offer::Sent { departure, .. } = offers[1] else { panic!("it waits") };
//! assert_eq!(departure, Time(2 * 12_304));
//! assert_eq!(line.release_time(departure), Time(1_024_608));
//! assert!(matches!(offers[2], Offer::Dropped(_)));
//! ```

#[macro_use]
mod queues;

mod admission;
mod analytic;
mod bucket;
mod children;
mod classes;
mod codel;
mod declare;
mod delay;
mod droptail;
mod drr;
mod dualpi2;
mod ets;
mod explicit;
mod fifo;
mod fq;
mod fq_codel;
mod htb;
mod limit;
mod loss;
mod marks;
mod mtu;
mod packet;
mod pie;
mod police;
mod prio;
mod qdisc;
mod quickstart;
mod rcp;
mod red;
mod registry;
mod ring;
mod router;
mod sfq;
mod step;
mod tbf;
#[cfg(test)]
mod testing;
mod transmitter;
mod turns;
mod wfq;
mod wrr;
mod xcp;

pub use admission::{AdmissionQueue, Admits, Arrival, AtArrival, Backlog, Verdict};
pub use analytic::{FifoLink, Offer, Run};
pub use classes::Members;
pub use codel::{Codel, CodelParams};
pub use declare::{ElementInfo, Fault, Form, Key, Kind, Place, QueuePlan, TokenRates};
pub use delay::{Delay, DelayLine};
pub use droptail::DropTail;
pub use drr::{Drr, DrrClass};
pub use dualpi2::DualPi2;
pub use ets::{Ets, EtsClass};
pub use explicit::{Explicit, Header, Scheme, UNLIMITED};
pub use fq::Fq;
pub use fq_codel::FqCodel;
pub use htb::{Htb, HtbClass};
pub use limit::{Limit, Mark};
pub use loss::{Loss, LossModel};
pub use marks::Marks;
pub use mtu::Mtu;
pub use packet::{Packet, Port, flow_hash};
pub use pie::Pie;
pub use police::Police;
pub use prio::{Prio, PrioClass};
pub use qdisc::{AtDeparture, Counters, Dequeued, DropReason, Drops, Enqueued, Qdisc, TrainOutcome};
pub use quickstart::{Quickstart, quick_start_rate};
pub use rcp::Rcp;
pub use red::{Red, RedCurve};
pub use registry::{Admission, AnyQdisc, Queue, elements, plan};
pub use ring::Ring;
pub use step::Step;
pub use tbf::Tbf;
pub use transmitter::Transmitter;
pub use wfq::{Wfq, WfqClass};
pub use wrr::{Wrr, WrrClass};
pub use xcp::Xcp;
