//! The course of a sending end: its transfers one after another, and what is recorded of them. The ends of TCP, QUIC, UDT,
//! MPTCP and SCTP have it in common; what their connections do is theirs.

use weir_run::EventKind;
use weir_traffic::{Job, Step, Transfers};
use weir_units::Time;

use crate::context::Context;
use crate::schedule::Slot;
use crate::telemetry::{Totals, TransferRecord};

/// The transfers of a flow.
pub struct Course {
    flow: u32,
    endpoint: u32,
    transfers: Transfers,
    next_job: Option<Job>,
    /// The end of the last transfer, while the next one waits for others of its user.
    waiting: Option<Time>,
    /// The transfer under way.
    pub active: Option<Active>,
    /// Totals of the earlier connections.
    pub base: Totals,
    sampled_ip_bytes: u64,
    started: bool,
    finished: bool,
    /// Whether the connection has failed, and the run with it.
    pub broken: bool,
}

/// A transfer under way.
pub struct Active {
    job: Job,
    start: Time,
    /// When its connection was established.
    pub established: Option<Time>,
    /// Bytes to write; `None` if only the flow's stop ends it.
    pub left: Option<u64>,
    before: Totals,
}

impl Course {
    /// That of a flow, before its start.
    pub fn new(context: &Context, endpoint: u32, flow: u32) -> Course {
        let plan = context.flow(flow);
        Course {
            flow,
            endpoint,
            transfers: Transfers::new(&plan.source, plan.stop_ns),
            next_job: None,
            waiting: None,
            active: None,
            base: Totals::default(),
            sampled_ip_bytes: 0,
            started: false,
            finished: false,
            broken: false,
        }
    }

    /// Whether there is nothing more to do.
    pub fn is_over(&self) -> bool {
        self.finished || self.broken
    }

    /// Begins the flow, once; its start then.
    pub fn start(&mut self, context: &mut Context) -> Option<Time> {
        if std::mem::replace(&mut self.started, true) {
            return None;
        }
        context.telemetry.event(context.now, EventKind::FlowStart, self.flow, 0);
        Some(Time(context.flow(self.flow).start_ns))
    }

    /// The end of the last transfer, if the next one has waited for others since.
    pub fn resume(&mut self) -> Option<Time> {
        self.waiting.take()
    }

    /// Whether the transfer under way is to end now, because the flow's source stops.
    pub fn stops(&self, now: Time) -> bool {
        self.active.as_ref().is_some_and(|active| active.left.is_none()) && now >= self.transfers.stop()
    }

    /// The next transfer, if it is due.
    pub fn take_due(&mut self, now: Time) -> Option<Job> {
        if self.active.is_some() {
            return None;
        }
        self.next_job.take_if(|job| job.at <= now)
    }

    /// Begins a transfer; `connected`: on a connection that is there already.
    pub fn begin(&mut self, context: &mut Context, job: Job, connected: bool, before: Totals) {
        context.telemetry.event(context.now, EventKind::TransferStart, self.flow, job.bytes.unwrap_or(0) as i64);
        let established = connected.then_some(context.now);
        self.active = Some(Active { job, start: context.now, established, left: job.bytes, before });
    }

    /// Schedules the stop of a source without an end.
    pub fn schedule_stop(&self, context: &mut Context) {
        if self.transfers.is_bulk() {
            context.schedule.add(self.transfers.stop(), Slot::Endpoint(self.endpoint));
        }
    }

    /// The connection of the transfer under way is established.
    pub fn established(&mut self, context: &mut Context) {
        if let Some(active) = &mut self.active {
            active.established = Some(context.now);
        }
        context.telemetry.event(context.now, EventKind::Established, self.flow, 0);
    }

    /// The transfer under way has ended at `at`; whether its connection stays for the next one.
    pub fn end(&mut self, context: &mut Context, at: Time, after: Totals) -> Option<bool> {
        let active = self.active.take()?;
        context.telemetry.transfer(self.flow, &active.record(Some(at), after));
        context.telemetry.event(at, EventKind::TransferEnd, self.flow, 0);
        context.waits.ended(self.flow, at);
        context.came.push(self.flow);
        Some(self.transfers.keeps_connection())
    }

    /// Chooses the transfer after one that ended at `ended`; false if that was the last one.
    pub fn choose_next(&mut self, context: &mut Context, ended: Time) -> bool {
        match self.transfers.step(&context.waits, self.flow, ended) {
            Step::Begin(job) => {
                self.next_job = Some(job);
                context.schedule.add(job.at, Slot::Endpoint(self.endpoint));
            }
            Step::Wait => self.waiting = Some(ended),
            Step::End => return false,
        }
        true
    }

    /// Records that the transfer under way, if there is one, does not end.
    pub fn abandon(&mut self, context: &mut Context, after: Totals) {
        if let Some(active) = self.active.take() {
            context.telemetry.transfer(self.flow, &active.record(None, after));
        }
    }

    /// Ends the flow at `at`.
    pub fn end_flow(&mut self, context: &mut Context, at: Time) {
        self.next_job = None;
        self.finished = true;
        context.telemetry.event(at, EventKind::FlowEnd, self.flow, 0);
        context.waits.over(self.flow);
        context.came.push(self.flow);
    }

    /// The plan has ended.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// Whether an instant of `measure` finds anything to record.
    pub fn is_measured(&self) -> bool {
        self.started && !self.broken && !(self.finished && self.sampled_ip_bytes == self.base.sent_ip_bytes)
    }

    /// Records what was sent since the last time, for table `sent`.
    pub fn record_sent(&mut self, context: &mut Context, at: Time, totals: &Totals) {
        let sent = totals.sent_ip_bytes - self.sampled_ip_bytes;
        self.sampled_ip_bytes = totals.sent_ip_bytes;
        context.telemetry.sent(at, self.flow, sent);
    }
}

/// A sending end: its transfers follow one another, over one connection or each over its own.
pub trait Transferring {
    fn course(&mut self) -> &mut Course;

    /// Ends the connection.
    fn close(&mut self, context: &Context);

    /// The transfer under way has ended at `at`, with these totals: goes on to the next one.
    fn end_transfer(&mut self, context: &mut Context, at: Time, after: Totals) {
        let Some(keeps) = self.course().end(context, at, after) else { return };
        if !keeps {
            self.close(context);
        }
        self.take_next_job(context, at, at);
    }

    /// Continues after a transfer that ended at `ended`. After the last one, the flow ends at `at`.
    fn take_next_job(&mut self, context: &mut Context, ended: Time, at: Time) {
        if !self.course().choose_next(context, ended) {
            self.close(context);
            self.course().end_flow(context, at);
        }
    }
}

impl Active {
    fn record(&self, end: Option<Time>, after: Totals) -> TransferRecord {
        TransferRecord {
            number: self.job.number,
            start: self.start,
            established: self.established,
            end,
            bytes: self.job.bytes,
            before: self.before,
            after,
        }
    }
}
