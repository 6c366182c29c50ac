//! One flow's congestion control.

use crate::{
    algorithm::Algorithm,
    error::CcError,
    explicit::{self, Announcement, Feedback},
    ops::Ops,
    probes::{ProbeName, Probes},
    sock::{AckSample, RateSample, Sock},
    watch::Operation,
};
use std::collections::BTreeMap;

/// State of loss recovery, as Linux' `enum tcp_ca_state`.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaState {
    /// Nothing unusual.
    Open = 0,
    /// Selective or duplicate acknowledgements have arrived.
    Disorder = 1,
    /// The window is being reduced for a congestion mark.
    Cwr = 2,
    /// Fast retransmission.
    Recovery = 3,
    /// The retransmission timer has expired.
    Loss = 4,
}

/// Events of the window, as Linux' `enum tcp_ca_event`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaEvent {
    /// First transmission with nothing in flight.
    TxStart = 0,
    /// The window restarts after idling.
    CwndRestart = 1,
    /// A window reduction has ended.
    CompleteCwr = 2,
    /// The retransmission timer has expired.
    Loss = 3,
    /// A packet without a congestion mark arrived.
    EcnNoCe = 4,
    /// A packet with a congestion mark arrived.
    EcnIsCe = 5,
}

/// A flow's congestion control. Plain data: it may be moved, cloned and sent to another thread.
///
/// The transport keeps [`Instance::sock`] up to date before each call. A missing operation costs one predictable
/// branch.
#[derive(Debug)]
pub struct Instance {
    /// The flow's transport state.
    pub sock: Sock,
    algorithm: Algorithm,
    probes: Option<Probes>,
}

impl Clone for Instance {
    fn clone(&self) -> Instance {
        let probes = self.probes.clone();
        let sock = Sock { probes: address(probes.as_ref()), ..self.sock.clone() };
        Instance { sock, algorithm: self.algorithm.clone(), probes }
    }
}

fn address(probes: Option<&Probes>) -> u64 {
    probes.map_or(0, Probes::address)
}

impl Instance {
    /// A flow's congestion control with `options` by name; those not given have their defaults.
    ///
    /// # Errors
    /// [`CcError::UnknownOption`] and [`CcError::OptionRange`].
    pub fn new(algorithm: &Algorithm, options: &BTreeMap<String, i64>) -> Result<Instance, CcError> {
        let mut sock = Sock::default();
        let rows = algorithm.rows();
        for (slot, row) in sock.options.iter_mut().zip(rows) {
            *slot = row.value;
        }
        for (option, &value) in options {
            let index = rows.iter().position(|row| row.name() == option).ok_or_else(|| {
                let known: Vec<String> = rows.iter().map(|row| row.name().to_owned()).collect();
                CcError::unknown_option(algorithm.name(), option, known)
            })?;
            let (min, max) = (rows[index].min, rows[index].max);
            let in_range = u32::try_from(value).ok().filter(|value| (min..=max).contains(value));
            sock.options[index] = in_range.ok_or_else(|| CcError::OptionRange {
                cc: algorithm.name().to_owned(),
                option: option.clone(),
                value,
                min,
                max,
            })?;
        }
        Ok(Instance { sock, algorithm: algorithm.clone(), probes: None })
    }

    /// Sets an option that has its default, if the congestion control has an option of this name and range.
    pub fn prefer(&mut self, option: &str, value: u32) {
        let rows = self.algorithm.rows();
        let found = rows.iter().position(|row| row.name() == option && (row.min..=row.max).contains(&value));
        if let Some(index) = found.filter(|&index| self.sock.options[index] == rows[index].value) {
            self.sock.options[index] = value;
        }
    }

    /// Takes every field of `sock` except the options and the place of probes, which stay this flow's.
    pub fn set_sock(&mut self, sock: Sock) {
        self.sock = Sock { options: self.sock.options, probes: self.sock.probes, ..sock };
    }

    /// From now on the values that the congestion control shows by `WEIR_PROBE` are kept.
    pub fn keep_probes(&mut self) {
        let probes = Probes::default();
        self.sock.probes = probes.address();
        self.probes = Some(probes);
    }

    /// The names and latest values of the probes, in the order in which they were first shown.
    ///
    /// # Panics
    /// With a [`Fault`](crate::Fault) when a user's congestion control shows too many, or one with an invalid name.
    pub fn probes(&self) -> impl Iterator<Item = (ProbeName, i64)> + '_ {
        if let Some(foreign) = self.algorithm.foreign {
            if let Some(what) = self.probe_fault() {
                foreign.fault(Operation::Probe, what);
            }
        }
        self.probes.iter().flat_map(Probes::values)
    }

    /// What is wrong with the probes that were shown so far, if something is.
    pub fn probe_fault(&self) -> Option<String> {
        self.probes.as_ref().and_then(Probes::fault)
    }

    /// The congestion control of this instance.
    pub fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }

    #[inline]
    fn ops(&self) -> &'static Ops {
        self.algorithm.ops
    }

    /// Makes a call; calls of a user's congestion control are guarded.
    #[inline]
    fn call<T>(&mut self, operation: Operation, call: impl FnOnce(*mut Sock) -> T) -> T {
        match self.algorithm.foreign {
            None => call(&raw mut self.sock),
            Some(foreign) => foreign.call(operation, &mut self.sock, call),
        }
    }

    /// Makes a call that returns a number of packets.
    #[inline]
    fn ask(&mut self, operation: Operation, call: unsafe extern "C" fn(*mut Sock) -> u32) -> u32 {
        // SAFETY: `sock` has the layout the C source was compiled for, and is not aliased.
        let packets = self.call(operation, |sock| unsafe { call(sock) });
        match self.algorithm.foreign {
            Some(foreign) if packets == 0 => {
                foreign.fault(operation, "returned 0; a window has at least one packet".into())
            }
            _ => packets,
        }
    }

    /// The connection is established: clears the private state and calls `init`.
    pub fn init(&mut self) {
        let rate = self.sock.private[explicit::RATE];
        self.sock.clear_private();
        if self.algorithm.queue().is_some() {
            self.sock.private[explicit::RATE] = rate;
        }
        if let Some(init) = self.ops().init {
            // SAFETY: `sock` has the layout the C source was compiled for, and is not aliased.
            self.call(Operation::Init, |sock| unsafe { init(sock) });
        }
    }

    /// The connection ends.
    pub fn release(&mut self) {
        if let Some(release) = self.ops().release {
            // SAFETY: as in `init`.
            self.call(Operation::Release, |sock| unsafe { release(sock) });
        }
    }

    /// What the congestion header of a packet says now; none for a control without explicit feedback.
    pub fn announcement(&self) -> Option<Announcement> {
        self.algorithm.queue().map(|_| explicit::announcement(&self.sock))
    }

    /// An acknowledgement returned feedback; it precedes the calls for the acknowledgement.
    pub fn feedback(&mut self, feedback: Feedback) {
        if self.algorithm.queue().is_some() {
            explicit::give(&mut self.sock, feedback);
        }
    }

    /// The slow-start threshold after a loss now, packets.
    #[inline]
    pub fn ssthresh(&mut self) -> u32 {
        match self.ops().ssthresh {
            Some(ssthresh) => self.ask(Operation::Ssthresh, ssthresh),
            None => self.sock.snd_ssthresh,
        }
    }

    /// An acknowledgement up to `ack` delivered `acked` packets: grow the window.
    #[inline]
    pub fn cong_avoid(&mut self, ack: u32, acked: u32) {
        if let Some(cong_avoid) = self.ops().cong_avoid {
            // SAFETY: as in `init`.
            self.call(Operation::CongAvoid, |sock| unsafe { cong_avoid(sock, ack, acked) });
        }
    }

    /// Loss recovery enters `state`; called before [`Sock::ca_state`] changes, as Linux does.
    #[inline]
    pub fn set_state(&mut self, state: CaState) {
        if let Some(set_state) = self.ops().set_state {
            // SAFETY: as in `init`.
            self.call(Operation::SetState, |sock| unsafe { set_state(sock, state as u8) });
        }
    }

    /// Something happened to the window.
    #[inline]
    pub fn cwnd_event(&mut self, event: CaEvent) {
        if let Some(cwnd_event) = self.ops().cwnd_event {
            // SAFETY: as in `init`.
            self.call(Operation::CwndEvent, |sock| unsafe { cwnd_event(sock, event as u32) });
        }
    }

    /// An acknowledgement arrived; `flags` are Linux' `CA_ACK_*`.
    #[inline]
    pub fn in_ack_event(&mut self, flags: u32) {
        if let Some(in_ack_event) = self.ops().in_ack_event {
            // SAFETY: as in `init`.
            self.call(Operation::InAckEvent, |sock| unsafe { in_ack_event(sock, flags) });
        }
    }

    /// An acknowledgement's count of packets and round-trip time.
    #[inline]
    pub fn pkts_acked(&mut self, sample: &AckSample) {
        if let Some(pkts_acked) = self.ops().pkts_acked {
            // SAFETY: as in `init`; the sample outlives the call.
            self.call(Operation::PktsAcked, |sock| unsafe { pkts_acked(sock, sample) });
        }
    }

    /// The window to restore when a loss turns out to be spurious, packets.
    #[inline]
    pub fn undo_cwnd(&mut self) -> u32 {
        match self.ops().undo_cwnd {
            Some(undo_cwnd) => self.ask(Operation::UndoCwnd, undo_cwnd),
            None => self.sock.snd_cwnd.max(self.sock.prior_cwnd),
        }
    }

    /// The window at which rate halving stops, packets: the threshold, unless the congestion control has its own.
    #[inline]
    pub fn min_cwnd(&mut self) -> u32 {
        match self.ops().min_cwnd {
            // SAFETY: as in `init`.
            Some(min_cwnd) => self.call(Operation::MinCwnd, |sock| unsafe { min_cwnd(sock) }),
            None => self.sock.snd_ssthresh,
        }
    }

    /// Whether [`Instance::cong_control`] replaces `cong_avoid` and the transport's own window reduction.
    #[inline]
    pub fn has_cong_control(&self) -> bool {
        self.algorithm.has_cong_control()
    }

    /// See [`Algorithm::needs_samples`].
    #[inline]
    pub fn needs_samples(&self) -> bool {
        self.algorithm.needs_samples()
    }

    /// Sets window and pacing rate from an acknowledgement's delivery-rate sample.
    #[inline]
    pub fn cong_control(&mut self, ack: u32, flag: u32, sample: &RateSample) {
        if let Some(cong_control) = self.ops().cong_control {
            // SAFETY: as in `pkts_acked`.
            self.call(Operation::CongControl, |sock| unsafe { cong_control(sock, ack, flag as i32, sample) });
        } else if let Some(cong_control) = self.ops().cong_control_rs {
            // SAFETY: as in `pkts_acked`.
            self.call(Operation::CongControl, |sock| unsafe { cong_control(sock, sample) });
        }
    }

    /// Fewest packets in a segmentation-offload train, if the congestion control has an opinion.
    pub fn min_tso_segs(&mut self) -> Option<u32> {
        let ask = self.ops().min_tso_segs?;
        // SAFETY: as in `init`.
        Some(self.call(Operation::MinTsoSegs, |sock| unsafe { ask(sock) }))
    }

    /// Factor of the window by which the send buffer grows, if the congestion control has an opinion.
    pub fn sndbuf_expand(&mut self) -> Option<u32> {
        let ask = self.ops().sndbuf_expand?;
        // SAFETY: as in `init`.
        Some(self.call(Operation::SndbufExpand, |sock| unsafe { ask(sock) }))
    }
}
