//! A directed link: MTU, losses, queue, transmitter and delay line of `weir-elements`, driven in virtual time.
//!
//! A first-in, first-out queue that decides at arrival (drop-tail, RED) at a constant rate is *analytic*: a packet's
//! departure is known at its arrival, and its serialisation needs no event. All other queues are *evented*: they have
//! an explicit dequeue whenever the transmitter becomes free.

use weir_elements::{
    Admission, AnyQdisc, Arrival, DelayLine, Enqueued, FifoLink, LossModel, Mtu, Offer, Port, Qdisc, Transmitter,
};
use weir_plan::ChangeKind;
use weir_run::ClassRow;
use weir_units::{Dur, Rate, Stream, Time};

use crate::Record;
use crate::evented::{Evented, Next};
use crate::pipe::Pipe;
use crate::stats::LinkStats;

/// Interval at which a sender looks for room in the queue of a stopped transmitter.
const STOPPED_RETRY: Dur = Dur::from_millis(1);
/// Times to drain more than this are inexact.
const MAX_DRAIN_BYTES: u64 = 1 << 30;

/// The fate of a packet that entered a link.
pub enum Passage<P> {
    /// Its last bit leaves the near end at `departure` and it reaches the far end at `arrival`.
    Sent {
        /// The packet, marked or not.
        packet: P,
        /// Time at which its last bit leaves the near end.
        departure: Time,
        /// Time at which it reaches the far end.
        arrival: Time,
    },
    /// It waits in an evented queue; the transmitter is free and must be started.
    QueuedIdle,
    /// It waits in an evented queue.
    Queued,
    /// It was dropped.
    Dropped,
}

/// What a transmitter that became free does next.
pub enum Start<P> {
    /// It sends a packet.
    Sent {
        /// The packet.
        packet: P,
        /// When its last bit leaves the near end, and the transmitter is free again.
        departure: Time,
        /// When it reaches the far end.
        arrival: Time,
    },
    /// Packets wait, but the queue holds them back until then.
    Held(Time),
    /// Nothing, until a packet comes or the link changes.
    Idle,
}

enum Discipline<P: Record> {
    Analytic(FifoLink),
    Evented(Box<Evented<P>>),
}

/// A directed link.
pub struct Link<P: Record> {
    mtu: Mtu,
    overhead: u32,
    // Rare parts are boxed: a simulation walks over all links all the time, and smaller links stay in the cache.
    loss: Option<Box<LossModel>>,
    discipline: Discipline<P>,
    delay: DelayStage,
    /// Its statistics per interval.
    pub stats: LinkStats,
    /// The packets in flight on it.
    pub pipe: Pipe<P>,
    /// Whether all packets come from one analytic link with a fixed delay: they may enter ahead of the clock, when they
    /// enter that link, since their order is already known.
    pub fused: bool,
    /// Whether queues of other links use the same memory: what finds room depends on the packets there, so that nothing may
    /// enter ahead of the clock.
    pub shares_buffer: bool,
    /// Whether a node with state is at its near end: it decides when packets enter, so that none may ahead of the clock.
    pub behind_node: bool,
    /// Whether the stack of a host sees this link's queue.
    pub host_nic: bool,
    seed: u64,
    name: Box<str>,
    loss_changes: u32,
}

enum DelayStage {
    Fixed(Dur),
    Varying(Box<DelayLine>),
}

impl DelayStage {
    #[inline]
    fn release_time(&mut self, departure: Time) -> Time {
        match self {
            DelayStage::Fixed(delay) => departure + *delay,
            DelayStage::Varying(line) => line.release_time(departure),
        }
    }

    fn may_reorder(&self) -> bool {
        matches!(self, DelayStage::Varying(line) if line.may_reorder())
    }
}

impl<P: Record> Link<P> {
    /// A link of the plan; `changes` says whether its rate or delay will change.
    pub fn new(plan: &weir_plan::Link, index: u32, seed: u64, interval_ns: u64, changes: bool) -> Link<P> {
        let port = Port::from(plan);
        let stream = |what: &str| Stream::new(seed, &format!("link/{}/{what}", plan.name));
        let admission = Admission::from_plan(&plan.queue, &port, stream("queue"));
        let discipline = match admission.filter(|_| !changes) {
            Some(admission) => Discipline::Analytic(FifoLink::new(admission, port.rate)),
            None => {
                let qdisc = AnyQdisc::from_plan(&plan.queue, port, stream("queue"));
                Discipline::Evented(Box::new(Evented::new(qdisc, Transmitter::new(port.rate))))
            }
        };
        let line = DelayLine::from_plan(&plan.delay, stream("delay"));
        let pipe = Pipe::new(line.may_reorder() || changes);
        let delay = match line.is_fixed().filter(|_| !changes) {
            Some(delay) => DelayStage::Fixed(delay),
            None => DelayStage::Varying(Box::new(line)),
        };
        Link {
            mtu: Mtu::new(plan.mtu_bytes),
            overhead: plan.overhead_bytes,
            loss: plan.loss.as_ref().map(|loss| Box::new(LossModel::from_plan(loss, stream("loss")))),
            discipline,
            delay,
            stats: LinkStats::new(index, interval_ns),
            pipe,
            fused: false,
            shares_buffer: false,
            behind_node: false,
            host_nic: plan.host_nic,
            seed,
            name: plan.name.as_str().into(),
            loss_changes: 0,
        }
    }

    /// The link with a queue that no plan describes, such as a scheduler with children. It is evented.
    #[must_use]
    pub fn with_queue(mut self, queue: Box<dyn Qdisc<P> + Sync>) -> Link<P> {
        let transmitter = match self.discipline {
            Discipline::Analytic(fifo) => fifo.transmitter().clone(),
            Discipline::Evented(evented) => evented.transmitter,
        };
        let mut evented = Evented::new(AnyQdisc::Own(queue), transmitter);
        evented.classes = self.stats.by_class(evented.qdisc.classes());
        self.discipline = Discipline::Evented(Box::new(evented));
        self
    }

    /// Whether the link records the classes of its queue.
    pub fn has_classes(&self) -> bool {
        matches!(&self.discipline, Discipline::Evented(evented) if evented.classes.is_some())
    }

    /// Moves the rows of classes in the intervals that end by `until` to the table.
    pub fn drain_classes(&mut self, until: Time, table: &mut Vec<ClassRow>) {
        if let Discipline::Evented(evented) = &mut self.discipline
            && let Some(classes) = &mut evented.classes
        {
            classes.drain(until, table);
        }
    }

    /// Whether the fate of a packet is known only after its arrival.
    pub fn is_evented(&self) -> bool {
        matches!(self.discipline, Discipline::Evented(_))
    }

    /// Whether packets may enter before the clock is there, as far as the link knows: in their order, and unless it changes.
    pub fn may_run_ahead(&self) -> bool {
        !self.is_evented() && !self.shares_buffer && !self.behind_node
    }

    /// Whether departures are known at arrival and packets arrive in the order in which they enter.
    pub fn is_analytic(&self) -> bool {
        matches!(self.discipline, Discipline::Analytic(_)) && !self.delay.may_reorder()
    }

    /// Reserves room for `waiting` packets in its queue and for `under_way` more in flight, for a driver that cannot
    /// stall for an allocation.
    pub fn reserve(&mut self, waiting: usize, under_way: usize) {
        match &mut self.discipline {
            // Waiting packets are in the pipe already.
            Discipline::Analytic(fifo) => {
                fifo.reserve(waiting);
                self.pipe.reserve(waiting + under_way);
            }
            Discipline::Evented(_) => self.pipe.reserve(under_way),
        }
    }

    /// Packets that wait, are in transmission or in the delay line.
    pub fn packets(&self) -> u64 {
        let waiting = match &self.discipline {
            // Waiting packets are in the pipe already.
            Discipline::Analytic(_) => 0,
            Discipline::Evented(evented) => evented.qdisc.packets(),
        };
        waiting + self.pipe.len() as u64
    }

    /// A packet enters the link; dropped packets, this one or one that gives way to it, are added to `lost`.
    #[inline(always)]
    pub fn enter(&mut self, at: Time, mut packet: P, lost: &mut Vec<P>) -> Passage<P> {
        let bytes = packet.ip_bytes();
        if !self.mtu.fits(&packet) || self.loss.as_mut().is_some_and(|loss| loss.drops(packet.is_data())) {
            self.refuse(at, packet, lost);
            return Passage::Dropped;
        }
        match &mut self.discipline {
            Discipline::Analytic(fifo) => {
                let (stats, overhead) = (&mut self.stats, self.overhead);
                let wire = bytes + overhead;
                let arrival = Arrival { bytes: wire, ecn_capable: packet.ecn_capable(), dscp: packet.dscp() };
                let offer = fifo.offer_observed(at, &arrival, |start, wire| stats.began(start, wire - overhead));
                stats.arrived(at, bytes);
                let Offer::Sent { start, departure, mark } = offer else {
                    stats.dropped(bytes);
                    lost.push(packet);
                    return Passage::Dropped;
                };
                if mark {
                    packet.mark_ce();
                    self.stats.marked();
                }
                if start > at {
                    self.stats.queued(bytes);
                } else {
                    self.stats.sent(bytes);
                }
                self.stats.waited(start.since(at).0);
                Passage::Sent { packet, departure, arrival: self.delay.release_time(departure) }
            }
            Discipline::Evented(_) => self.enqueue(at, packet, lost),
        }
    }

    /// A packet is lost before the queue; it is added to `lost`.
    #[cold]
    pub fn refuse(&mut self, at: Time, packet: P, lost: &mut Vec<P>) {
        self.advance(at);
        self.stats.arrived(at, packet.ip_bytes());
        self.stats.dropped(packet.ip_bytes());
        lost.push(packet);
    }

    fn enqueue(&mut self, at: Time, packet: P, lost: &mut Vec<P>) -> Passage<P> {
        let Discipline::Evented(evented) = &mut self.discipline else { unreachable!("only evented links enqueue") };
        match evented.enqueue(at, packet, &mut self.stats, lost) {
            Enqueued::Dropped => Passage::Dropped,
            _ if evented.is_ready() => Passage::QueuedIdle,
            _ => Passage::Queued,
        }
    }

    /// Starts the next transmission of an evented link. Dropped packets are added to `lost`.
    pub fn start(&mut self, at: Time, lost: &mut Vec<P>) -> Start<P> {
        let Discipline::Evented(evented) = &mut self.discipline else { return Start::Idle };
        match evented.start(at, self.overhead, &mut self.stats, lost) {
            Next::Sent(packet, departure) => {
                Start::Sent { packet, departure, arrival: self.delay.release_time(departure) }
            }
            Next::Held(until) => Start::Held(until),
            Next::Idle => Start::Idle,
        }
    }

    /// Accounts for the packets that have begun transmission by `at`.
    #[inline]
    pub fn advance(&mut self, at: Time) {
        if let Discipline::Analytic(fifo) = &mut self.discipline {
            let (stats, overhead) = (&mut self.stats, self.overhead);
            fifo.backlog_observed(at, |start, wire| stats.began(start, wire - overhead));
        }
    }

    /// Whether a packet of `ip_bytes` finds room in the queue of a host; for other links, always true.
    #[inline]
    pub fn has_room(&mut self, at: Time, ip_bytes: u32) -> bool {
        if !self.host_nic {
            return true;
        }
        let wire = ip_bytes + self.overhead;
        if let Discipline::Analytic(fifo) = &self.discipline
            && fifo.had_room(wire)
        {
            return true;
        }
        self.advance(at);
        match &mut self.discipline {
            Discipline::Analytic(fifo) => fifo.had_room(wire),
            Discipline::Evented(evented) => match &evented.qdisc {
                AnyQdisc::Admission(queue) => queue.has_room(wire),
                _ => true,
            },
        }
    }

    /// Time at which half of the waiting bytes will have been sent; while the transmitter is stopped, the time to ask
    /// again.
    pub fn half_drained(&mut self, at: Time) -> Time {
        Time(at.0 + (self.drained(at).since(at).0 / 2).max(1_000))
    }

    /// Time at which all waiting bytes will have been sent, not before `at`; while the transmitter is stopped, after
    /// the time to ask again.
    pub fn drained(&self, at: Time) -> Time {
        match &self.discipline {
            Discipline::Analytic(fifo) => fifo.transmitter().busy_until().max(at),
            Discipline::Evented(evented) if evented.transmitter.is_stopped() => at + STOPPED_RETRY * 2,
            Discipline::Evented(evented) => {
                let mut transmitter = evented.transmitter.clone();
                transmitter.transmit(at, evented.qdisc.bytes().min(MAX_DRAIN_BYTES) as u32)
            }
        }
    }

    /// Applies a change; true if an idle transmitter has to be started.
    pub fn change(&mut self, at: Time, change: &ChangeKind) -> bool {
        match change {
            ChangeKind::Rate { rate_bps } => {
                let Discipline::Evented(evented) = &mut self.discipline else { return false };
                return evented.set_rate(at, Rate::from_bps(*rate_bps));
            }
            ChangeKind::Delay { delay } => {
                if let DelayStage::Varying(line) = &mut self.delay {
                    line.change(delay);
                }
            }
            ChangeKind::Loss { loss } => {
                self.loss_changes += 1;
                let name = format!("link/{}/loss/{}", self.name, self.loss_changes);
                self.loss =
                    loss.as_ref().map(|loss| Box::new(LossModel::from_plan(loss, Stream::new(self.seed, &name))));
            }
        }
        false
    }
}

/// The links of a plan, none of them fused.
pub fn build_links<P: Record>(plan: &weir_plan::Plan) -> Vec<Link<P>> {
    let evented = |index: usize| {
        plan.changes
            .iter()
            .any(|change| change.link as usize == index && !matches!(change.change, ChangeKind::Loss { .. }))
    };
    let measured = |index: u32| plan.measure.links.is_empty() || plan.measure.links.contains(&index);
    let links = plan.links.iter().enumerate();
    links
        .map(|(i, link)| {
            let interval = if measured(i as u32) { plan.measure.links_ns } else { 0 };
            Link::new(link, i as u32, plan.seed, interval, evented(i))
        })
        .collect()
}
