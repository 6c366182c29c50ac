//! A directed link: MTU, losses, queue, transmitter and delay line of `weir-elements`, driven in virtual time.
//!
//! A first-in, first-out queue that decides at arrival (drop-tail, RED, step marking) at a constant rate is *analytic*: the departure
//! of a packet is computed at its arrival, and its serialisation needs no event. All other queues are *evented*: they
//! dequeue whenever the transmitter becomes idle.

use weir_elements::{
    Admission, AnyQdisc, Arrival, DelayLine, Enqueued, FifoLink, Header, LossModel, Mtu, Offer, Port, Qdisc,
    Transmitter,
};
use weir_plan::{ChangeKind, Delay, Forwarding};
use weir_run::ClassRow;
use weir_units::{Bytes, Dur, Rate, Stream, Time, fetch_line};

use crate::Record;
use crate::deferral::Deferred;
use crate::evented::{Evented, Next};
use crate::pipe::Pipe;
use crate::stats::LinkStats;

/// Interval at which a sender checks for room before a stopped transmitter.
const STOPPED_RETRY: Dur = Dur::from_millis(1);
/// Above this backlog the drain time is inexact.
const MAX_DRAIN_BYTES: u64 = 1 << 30;

/// The outcome of a packet's entry into a link.
pub enum Passage<P> {
    /// The packet leaves the near end at `departure` and reaches the far end at `arrival`.
    Sent {
        /// The packet, marked or not.
        packet: P,
        /// Departure of its last bit from the near end.
        departure: Time,
        /// Arrival at the far end.
        arrival: Time,
    },
    /// The packet waits in an evented queue; the transmitter is idle and must be started.
    QueuedIdle,
    /// The packet waits in an evented queue.
    Queued,
    /// The packet was dropped.
    Dropped,
}

/// The next action of a transmitter that became idle.
pub enum Start<P> {
    /// A packet is sent.
    Sent {
        /// The packet.
        packet: P,
        /// Departure of its last bit from the near end; the transmitter is idle again then.
        departure: Time,
        /// Arrival at the far end.
        arrival: Time,
    },
    /// Packets wait, but the queue holds them back until this instant.
    Held(Time),
    /// No transmission until a packet arrives or the link changes.
    Idle,
}

pub(crate) enum Discipline<P: Record> {
    Analytic(FifoLink),
    Evented(Box<Evented<P>>),
}

impl<P: Record> Discipline<P> {
    /// The same, which records the classes of its queue in the intervals of `stats`, if it has some.
    fn by_class(mut self, stats: &LinkStats) -> Discipline<P> {
        if let Discipline::Evented(evented) = &mut self {
            evented.classes = stats.by_class(evented.qdisc.classes());
        }
        self
    }
}

/// A directed link.
pub struct Link<P: Record> {
    pub(crate) mtu: Mtu,
    pub(crate) overhead: u32,
    // Rare parts are boxed: a simulation accesses all links all the time, and smaller links stay in the cache.
    pub(crate) loss: Option<Box<LossModel>>,
    pub(crate) discipline: Discipline<P>,
    pub(crate) delay: DelayStage,
    /// Its statistics per interval.
    pub stats: LinkStats,
    /// The packets in flight on it.
    pub pipe: Pipe<P>,
    /// Whether all packets come from one analytic link with a fixed delay. They may enter ahead of the clock, together
    /// with that link, since their order is already known.
    pub fused: bool,
    /// Whether queues of other links share its memory. Admission depends on all of them, so that no packet may enter
    /// ahead of the clock.
    pub shares_buffer: bool,
    /// Whether a node with state is at its near end. The node decides when packets enter: none does ahead of the clock.
    pub behind_node: bool,
    /// Whether the stack of a host sees this link's queue.
    pub host_nic: bool,
    /// Whether nothing but an unobserved queue and a fixed delay happens to most packets.
    pub(crate) is_plain: bool,
    pub(crate) deferred: Deferred,
    seed: u64,
    name: Box<str>,
    loss_changes: u32,
}

pub(crate) enum DelayStage {
    Fixed(Dur),
    Varying(Box<DelayLine>),
    /// The far end forwards a packet when it has the packet's first bytes.
    CutThrough {
        delay: Dur,
        rate: Rate,
    },
}

/// Bytes on the wire after which a packet is cut through: the preamble and the smallest frame.
const CUT_BYTES: u32 = 8 + 64;

impl DelayStage {
    /// The arrival of a packet of `wire` bytes at the far end.
    #[inline]
    fn release_time(&mut self, departure: Time, wire: u32) -> Time {
        match self {
            DelayStage::Fixed(delay) => departure + *delay,
            DelayStage::Varying(line) => line.release_time(departure),
            DelayStage::CutThrough { delay, rate } => {
                let rest = rate.time_for(Bytes(u64::from(wire.saturating_sub(CUT_BYTES))));
                Time(departure.0.saturating_sub(rest.0)) + *delay
            }
        }
    }

    fn may_reorder(&self) -> bool {
        matches!(self, DelayStage::Varying(line) if line.may_reorder())
    }
}

impl<P: Record> Link<P> {
    /// A link of the plan; `changes`: its rate or delay changes during the run.
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
        let stats = LinkStats::new(index, interval_ns);
        let discipline = discipline.by_class(&stats);
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
            stats,
            pipe,
            fused: false,
            shares_buffer: false,
            behind_node: false,
            host_nic: plan.host_nic,
            is_plain: interval_ns == 0 && plan.loss.is_none(),
            deferred: Deferred::default(),
            seed,
            name: plan.name.as_str().into(),
            loss_changes: 0,
        }
    }

    /// The link with another queue, such as a scheduler with children, of the driver's own. It is evented.
    #[must_use]
    pub fn with_queue(mut self, queue: Box<dyn Qdisc<P> + Sync>) -> Link<P> {
        let transmitter = match self.discipline {
            Discipline::Analytic(fifo) => fifo.transmitter().clone(),
            Discipline::Evented(evented) => evented.transmitter,
        };
        let evented = Evented::new(AnyQdisc::Own(queue), transmitter);
        self.discipline = Discipline::Evented(Box::new(evented)).by_class(&self.stats);
        self
    }

    /// The link, whose far end forwards packets before their last bit has arrived. Its rate and delay must be constant.
    #[must_use]
    fn cut_through(mut self, plan: &weir_plan::Link) -> Link<P> {
        if let Delay::Fixed { delay_ns } = plan.delay {
            self.delay = DelayStage::CutThrough { delay: Dur(delay_ns), rate: Rate::from_bps(plan.rate_bps) };
        }
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

    /// Whether each departure is an event: the outcome of a packet is not known at its arrival.
    pub fn is_evented(&self) -> bool {
        matches!(self.discipline, Discipline::Evented(_))
    }

    /// Whether packets may enter ahead of the clock, in order, provided that the link does not change.
    pub fn may_run_ahead(&self) -> bool {
        !self.is_evented() && !self.shares_buffer && !self.behind_node
    }

    /// The least time from a packet's departure to its arrival; zero if the delay varies.
    pub fn least_delay(&self) -> Dur {
        match self.delay {
            DelayStage::Fixed(delay) => delay,
            DelayStage::Varying(_) | DelayStage::CutThrough { .. } => Dur::ZERO,
        }
    }

    /// Whether packets may [pass](Link::pass) in batches.
    pub fn passes_batches(&self) -> bool {
        !self.is_evented() && matches!(self.delay, DelayStage::Fixed(_))
    }

    /// Whether departures are computed at arrival and packets stay in order.
    pub fn is_analytic(&self) -> bool {
        matches!(self.discipline, Discipline::Analytic(_)) && !self.delay.may_reorder()
    }

    /// Preallocates storage for `waiting` packets in the queue and `under_way` more in flight: reallocating during a
    /// run stalls a driver in real time.
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

    /// Fetches into the cache what the next packet that enters or leaves reads.
    #[inline]
    pub fn fetch_ends(&self) {
        if let Pipe::Fifo(ring) = &self.pipe {
            ring.fetch_ends();
        }
    }

    /// Fetches into the cache what [`defer`](Link::defer) reads, if packets wait.
    #[inline]
    pub fn fetch_deferral(&self) {
        fetch_line(&self.pipe);
        fetch_line(&self.deferred);
        fetch_line(&self.mtu);
    }

    /// Takes a packet into the link; dropped packets, this or another one, are added to `lost`.
    #[inline(always)]
    pub fn enter(&mut self, at: Time, packet: P, lost: &mut Vec<P>) -> Passage<P> {
        if self.is_plain
            && let Discipline::Analytic(fifo) = &mut self.discipline
            && let DelayStage::Fixed(delay) = self.delay
            && self.mtu.fits(&packet)
            && let Some((_, departure)) = fifo.send_surely(at, packet.ip_bytes() + self.overhead)
        {
            return Passage::Sent { packet, departure, arrival: departure + delay };
        }
        self.enter_any(at, packet, lost)
    }

    /// Sends `packets` packets of a host, of `ip_bytes` each, at once, and calls `each` with departure and arrival of
    /// one after the other until it returns false. None, and nothing sent, unless all surely have room and nothing but
    /// queueing and a fixed delay happens to them.
    #[inline(always)]
    pub fn send_train(
        &mut self,
        at: Time,
        packets: u64,
        ip_bytes: u32,
        mut each: impl FnMut(&mut Pipe<P>, Time, Time) -> bool,
    ) -> Option<()> {
        let Discipline::Analytic(fifo) = &mut self.discipline else { return None };
        let DelayStage::Fixed(delay) = self.delay else { return None };
        let wire = ip_bytes + self.overhead;
        if !self.is_plain || !self.mtu.fits_bytes(ip_bytes) || !fifo.has_room_for(packets, wire) {
            return None;
        }
        for _ in 0..packets {
            let sent = fifo.send_surely(at, wire).or_else(|| fifo.send_observed(at, wire, |_, _| {}));
            let Some((_, departure)) = sent else { unreachable!("all packets have room") };
            if !each(&mut self.pipe, departure, departure + delay) {
                break;
            }
        }
        Some(())
    }

    /// Whether nothing but queueing and a fixed delay happens to the next `packets` packets of `ip_bytes` each, whenever
    /// they come: [`pass`](Link::pass) drops and marks none of them.
    pub fn surely_passes(&self, packets: u64, ip_bytes: u32) -> bool {
        let Discipline::Analytic(fifo) = &self.discipline else { return false };
        self.loss.is_none()
            && matches!(self.delay, DelayStage::Fixed(_))
            && self.mtu.fits_bytes(ip_bytes)
            && fifo.has_room_for(packets, ip_bytes + self.overhead)
    }

    /// As [`enter`](Link::enter), whatever the link and the state of its queue.
    #[inline(never)]
    pub(crate) fn enter_any(&mut self, at: Time, mut packet: P, lost: &mut Vec<P>) -> Passage<P> {
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
                if let Some(bins) = &mut self.stats.0 {
                    bins.accepted(at, start, bytes);
                }
                Passage::Sent { packet, departure, arrival: self.delay.release_time(departure, wire) }
            }
            Discipline::Evented(_) => self.enqueue(at, packet, lost),
        }
    }

    /// Drops a packet before the queue; it is added to `lost`.
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
                let arrival = self.delay.release_time(departure, packet.ip_bytes() + self.overhead);
                Start::Sent { packet, departure, arrival }
            }
            Next::Held(until) => Start::Held(until),
            Next::Idle => Start::Idle,
        }
    }

    /// A packet with a congestion header has entered an evented link.
    pub fn header_arrived(&mut self, at: Time, header: &Header) {
        if let Discipline::Evented(evented) = &mut self.discipline
            && let Some(router) = evented.qdisc.explicit()
        {
            router.arrived(at, header);
        }
    }

    /// A packet of `ip_bytes` with a congestion header begins transmission: a router that gives explicit feedback rewrites
    /// the header.
    pub fn header_departs(&mut self, at: Time, ip_bytes: u32, header: &mut Header) {
        if let Discipline::Evented(evented) = &mut self.discipline
            && let Some(router) = evented.qdisc.explicit()
        {
            router.departs(at, ip_bytes + self.overhead, header);
        }
    }

    /// Counts the packets that have begun transmission by `at`.
    #[inline]
    pub fn advance(&mut self, at: Time) {
        if let Discipline::Analytic(fifo) = &mut self.discipline {
            let (stats, overhead) = (&mut self.stats, self.overhead);
            fifo.backlog_observed(at, |start, wire| stats.began(start, wire - overhead));
        }
    }

    /// Whether a packet of `ip_bytes` has room in the queue of a host; always true for other links.
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

    /// The instant at which half of the waiting bytes will have been sent; for a stopped transmitter, of the next
    /// check.
    pub fn half_drained(&mut self, at: Time) -> Time {
        Time(at.0 + (self.drained(at).since(at).0 / 2).max(1_000))
    }

    /// The instant at which all waiting bytes will have been sent, not before `at`; for a stopped transmitter, after
    /// the next check.
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

    /// Applies a change; true if an idle transmitter must be started.
    pub fn change(&mut self, at: Time, change: &ChangeKind) -> bool {
        match change {
            ChangeKind::Rate { rate_bps } => {
                let Discipline::Evented(evented) = &mut self.discipline else { return false };
                return evented.set_rate(at, Rate::from_bps(*rate_bps));
            }
            ChangeKind::Shares { shares } => {
                if let Discipline::Evented(evented) = &mut self.discipline {
                    evented.qdisc.set_shares(at, shares);
                }
            }
            ChangeKind::TokenRates { rates } => {
                let Discipline::Evented(evented) = &mut self.discipline else { return false };
                evented.qdisc.set_token_rates(at, &mut rates.iter());
                // A packet that was held back may leave at another instant.
                return !evented.busy;
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
                self.is_plain = self.loss.is_none() && self.stats.0.is_none();
            }
        }
        false
    }
}

/// The links of a plan, none of them fused.
pub fn build_links<P: Record>(plan: &weir_plan::Plan) -> Vec<Link<P>> {
    let evented = |index: usize| {
        plan.switch_after(&plan.links[index]).is_some_and(|switch| switch.pause.is_some())
            || plan
                .changes
                .iter()
                .any(|change| change.link as usize == index && !matches!(change.change, ChangeKind::Loss { .. }))
    };
    let measured = |index: u32| plan.measure.links.is_empty() || plan.measure.links.contains(&index);
    let links = plan.links.iter().enumerate();
    links
        .map(|(i, link)| {
            let interval = if measured(i as u32) { plan.measure.links_ns } else { 0 };
            let made = Link::new(link, i as u32, plan.seed, interval, evented(i));
            match plan.switch_after(link).map(|switch| switch.forwarding) {
                Some(Forwarding::CutThrough) => made.cut_through(link),
                _ => made,
            }
        })
        .collect()
}
