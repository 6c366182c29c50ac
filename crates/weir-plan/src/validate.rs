//! The consistency of a plan.

use std::fmt;

use weir_elements::Fault;

use crate::{
    ChangeKind, DCCP_CONTROLS, Dccp, Flow, LEAST_DCCP_BYTES, LEAST_TFRC_BYTES, Link, Native, Plan, Programs,
    QUIC_CONTROLS, Quic, RateStep, Ready, SCTP_CONTROLS, Sender, Source, Tcp, Transport, UDT_HEADERS, Udt,
};

/// A plan contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// The place in the plan, as a path such as `flows[3].path`.
    pub place: String,
    /// The problem, and what was expected.
    pub problem: String,
}

impl PlanError {
    pub(crate) fn new(place: impl Into<String>, problem: impl Into<String>) -> PlanError {
        PlanError { place: place.into(), problem: problem.into() }
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}
impl std::error::Error for PlanError {}

impl From<Fault> for PlanError {
    fn from(fault: Fault) -> PlanError {
        PlanError { place: fault.place, problem: fault.problem }
    }
}

pub(crate) fn check(ok: bool, place: impl FnOnce() -> String, problem: impl Into<String>) -> Result<(), PlanError> {
    if ok { Ok(()) } else { Err(PlanError::new(place(), problem)) }
}

impl Plan {
    /// Verifies that indices exist, paths connect, sizes and rates are not zero and instants lie within the run.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn validate(&self) -> Result<(), PlanError> {
        check(
            self.version == 1,
            || "version".into(),
            format!("{} is not a version this weir reads; it reads 1", self.version),
        )?;
        check(self.end_ns > 0, || "end_ns".into(), "a run needs some time")?;
        for (i, link) in self.links.iter().enumerate() {
            self.validate_link(i, link)?;
        }
        crate::switch::validate(self)?;
        for (i, flow) in self.flows.iter().enumerate() {
            self.validate_flow(i, flow)?;
        }
        crate::host::validate(self)?;
        crate::pages::validate(&self.flows)?;
        if let Some(trace) = &self.measure.trace {
            let traced = |i: usize| trace.flows.is_empty() || trace.flows.contains(&(i as u32));
            let native = (0..self.flows.len()).find(|&i| traced(i) && self.flows[i].transport.is_native());
            let problem = "a trace has packets of TCP and UDP only, and this flow has another transport";
            check(native.is_none(), || format!("flows[{}]", native.unwrap_or_default()), problem)?;
        }
        for (i, change) in self.changes.iter().enumerate() {
            check(
                (change.link as usize) < self.links.len(),
                || format!("changes[{i}].link"),
                format!("no link {}", change.link),
            )?;
            match &change.change {
                ChangeKind::Rate { .. } | ChangeKind::Loss { loss: None } => {}
                ChangeKind::Loss { loss: Some(loss) } => loss.validate(&format!("changes[{i}].change.loss"))?,
                ChangeKind::Delay { delay } => delay.validate(&format!("changes[{i}].change.delay"))?,
                ChangeKind::Shares { shares } => {
                    let queue = &self.links[change.link as usize].queue;
                    queue.validate_shares(shares, &format!("changes[{i}].change.shares"))?;
                }
                ChangeKind::TokenRates { rates } => {
                    let queue = &self.links[change.link as usize].queue;
                    queue.validate_token_rates(rates, &format!("changes[{i}].change.rates"))?;
                }
            }
        }
        check(self.changes.is_sorted_by_key(|c| c.at_ns), || "changes".into(), "must be in the order of their time")?;
        for (i, phase) in self.phases.iter().enumerate() {
            check(phase.from_ns < phase.to_ns, || format!("phases[{i}]"), "must end after it begins")?;
        }
        Ok(())
    }

    fn validate_link(&self, i: usize, link: &Link) -> Result<(), PlanError> {
        let at = |field: &str| format!("links[{i}] ({}).{field}", link.name);
        check((link.from as usize) < self.nodes.len(), || at("from"), format!("no node {}", link.from))?;
        check((link.to as usize) < self.nodes.len(), || at("to"), format!("no node {}", link.to))?;
        check(link.rate_bps > 0, || at("rate_bps"), "must not be zero")?;
        check(link.mtu_bytes >= 68, || at("mtu_bytes"), "IPv4 needs at least 68 bytes")?;
        link.queue.validate(&at("queue"))?;
        link.loss.as_ref().map_or(Ok(()), |loss| loss.validate(&at("loss")))?;
        Ok(link.delay.validate(&at("delay"))?)
    }

    fn validate_flow(&self, i: usize, flow: &Flow) -> Result<(), PlanError> {
        let at = |field: &str| format!("flows[{i}] ({}).{field}", flow.name);
        self.validate_path(&flow.path, flow.from, flow.to).map_err(|p| PlanError::new(at("path"), p))?;
        if flow.transport.is_two_way() {
            self.validate_path(&flow.reverse_path, flow.to, flow.from)
                .map_err(|p| PlanError::new(at("reverse_path"), p))?;
        }
        if let Transport::Tcp(tcp) = &flow.transport {
            check((1..=65_495).contains(&tcp.mss_bytes), || at("transport.mss_bytes"), "must be 1 to 65495")?;
            check(tcp.initial_window > 0, || at("transport.initial_window"), "must not be zero")?;
            let mss = u64::from(tcp.mss_bytes);
            check(tcp.send_buffer_bytes >= mss, || at("transport.send_buffer_bytes"), "must hold one segment")?;
            check(tcp.receive_buffer_bytes >= mss, || at("transport.receive_buffer_bytes"), "must hold one segment")?;
            check(!matches!(flow.source, Source::Cbr(_)), || at("source"), "constant bit rate needs UDP")?;
            validate_profile(tcp, flow).map_err(|(field, problem)| PlanError::new(at(field), problem))?;
        }
        if let Transport::Udt(udt) = &flow.transport {
            validate_udt(udt, flow).map_err(|(field, problem)| PlanError::new(at(field), problem))?;
        }
        if let Transport::Udp(udp) = &flow.transport {
            check((1..=65_507).contains(&udp.payload_bytes), || at("transport.payload_bytes"), "must be 1 to 65507")?;
            let fits = matches!(flow.source, Source::Cbr(_) | Source::Command(_));
            check(fits, || at("source"), "UDP needs a constant-bit-rate source, or a program")?;
        }
        if let Transport::Quic(quic) = &flow.transport {
            validate_quic(quic).map_err(|(field, problem)| PlanError::new(at(field), problem))?;
            let fits = matches!(flow.source, Source::Bulk | Source::Transfers { .. });
            check(fits, || at("source"), "QUIC needs a bulk source or transfers")?;
        }
        if let Transport::Tfrc(tfrc) = &flow.transport {
            let fits = (LEAST_TFRC_BYTES..=65_507).contains(&tfrc.payload_bytes);
            check(fits, || at("transport.payload_bytes"), format!("must be {LEAST_TFRC_BYTES} to 65507"))?;
            check(matches!(flow.source, Source::Bulk), || at("source"), "TFRC needs a bulk source")?;
        }
        if let Some(native) = flow.transport.native() {
            validate_native(&flow.transport, native).map_err(|(field, problem)| PlanError::new(at(field), problem))?;
            let fits = matches!(flow.source, Source::Bulk | Source::Transfers { .. });
            check(fits, || at("source"), "MPTCP and SCTP need a bulk source or transfers")?;
        }
        if let Transport::Dccp(dccp) = &flow.transport {
            validate_dccp(dccp).map_err(|(field, problem)| PlanError::new(at(field), problem))?;
            check(matches!(flow.source, Source::Bulk), || at("source"), "DCCP needs a bulk source")?;
        }
        if let Source::Cbr(cbr) = &flow.source {
            check(cbr.rate_bps > 0, || at("source.rate_bps"), "must not be zero")?;
        }
        if let Source::Transfers { transfers, .. } = &flow.source {
            // An empty transfer sends nothing, so it would never end.
            let empty = transfers.iter().position(|transfer| transfer.bytes == 0);
            let place = || at(&format!("source.transfers[{}].bytes", empty.unwrap_or_default()));
            check(empty.is_none(), place, "must not be zero")?;
        }
        if let Source::Command(programs) = &flow.source {
            validate_programs(programs).map_err(|(field, problem)| PlanError::new(at(field), problem))?;
        }
        check(flow.dscp < 64, || at("dscp"), "must be 0 to 63")
    }

    fn validate_path(&self, path: &[u32], from: u32, to: u32) -> Result<(), String> {
        let mut here = from;
        for &id in path {
            let link = self.links.get(id as usize).ok_or_else(|| format!("no link {id}"))?;
            if link.from != here {
                return Err(format!("link {id} ({}) does not leave node {here}", link.name));
            }
            here = link.to;
        }
        if path.is_empty() || here != to {
            return Err(format!("does not lead from node {from} to node {to}"));
        }
        Ok(())
    }
}

fn validate_udt(udt: &Udt, flow: &Flow) -> Result<(), (&'static str, &'static str)> {
    let payload = u64::from(udt.payload_bytes);
    if !(1..=65_535 - u64::from(UDT_HEADERS)).contains(&payload) {
        return Err(("transport.payload_bytes", "must be 1 to 65491"));
    }
    if udt.send_buffer_bytes < payload {
        return Err(("transport.send_buffer_bytes", "must hold one packet"));
    }
    if udt.receive_buffer_bytes < payload {
        return Err(("transport.receive_buffer_bytes", "must hold one packet"));
    }
    if !matches!(flow.source, Source::Bulk | Source::Transfers { .. }) {
        return Err(("source", "UDT needs a bulk source or transfers"));
    }
    validate_steps(&udt.profile, flow)
}

fn validate_steps(profile: &[RateStep], flow: &Flow) -> Result<(), (&'static str, &'static str)> {
    if profile.first().is_some_and(|first| first.at_ns > flow.start_ns) {
        return Err(("transport.profile", "must begin with the flow, or before"));
    }
    if !profile.is_sorted_by(|one, next| one.at_ns < next.at_ns) {
        return Err(("transport.profile", "must have ascending instants"));
    }
    if profile.iter().any(|step| step.rate_bps == 0) {
        return Err(("transport.profile", "must not have a rate of zero"));
    }
    Ok(())
}

fn validate_profile(tcp: &Tcp, flow: &Flow) -> Result<(), (&'static str, &'static str)> {
    if tcp.profile.is_empty() {
        return Ok(());
    }
    validate_steps(&tcp.profile, flow)?;
    if tcp.jump_start || tcp.quick_start_bps > 0 {
        return Err((
            "transport.profile",
            "sets the rate of the first window, and so do jump_start and quick_start_bps",
        ));
    }
    if matches!(flow.source, Source::Command(_)) {
        return Err(("transport.profile", "needs a bulk source or transfers"));
    }
    Ok(())
}

fn validate_quic(quic: &Quic) -> Result<(), (&'static str, &'static str)> {
    if !QUIC_CONTROLS.contains(&quic.cc.as_str()) {
        return Err(("transport.cc", "must be reno, cubic or bbr: the QUIC library has no other"));
    }
    if !(1200..=65_507).contains(&quic.payload_bytes) {
        return Err(("transport.payload_bytes", "must be 1200 to 65507"));
    }
    if quic.initial_window == 0 {
        return Err(("transport.initial_window", "must not be zero"));
    }
    if quic.send_buffer_bytes < quic.payload_bytes.into() {
        return Err(("transport.send_buffer_bytes", "must hold one packet"));
    }
    if quic.receive_buffer_bytes < quic.payload_bytes.into() {
        return Err(("transport.receive_buffer_bytes", "must hold one packet"));
    }
    Ok(())
}

fn validate_native(transport: &Transport, native: &Native) -> Result<(), (&'static str, &'static str)> {
    let (known, problem) = match transport {
        Transport::Sctp(_) => (SCTP_CONTROLS.contains(&native.cc.as_str()), "must be sctp: SCTP has one control"),
        _ => (native.cc.starts_with("linux:"), "must be linux:NAME, one of the kernel's"),
    };
    if !known {
        return Err(("transport.cc", problem));
    }
    if !(64..=65_000).contains(&native.payload_bytes) {
        return Err(("transport.payload_bytes", "must be 64 to 65000"));
    }
    if native.send_buffer_bytes < native.payload_bytes.into() {
        return Err(("transport.send_buffer_bytes", "must hold one packet"));
    }
    if native.receive_buffer_bytes < native.payload_bytes.into() {
        return Err(("transport.receive_buffer_bytes", "must hold one packet"));
    }
    Ok(())
}

fn validate_dccp(dccp: &Dccp) -> Result<(), (&'static str, String)> {
    if !DCCP_CONTROLS.contains(&dccp.ccid) {
        return Err(("transport.ccid", "must be 2 or 3: Linux has no other".into()));
    }
    if !(LEAST_DCCP_BYTES..=65_000).contains(&dccp.payload_bytes) {
        return Err(("transport.payload_bytes", format!("must be {LEAST_DCCP_BYTES} to 65000")));
    }
    Ok(())
}

fn validate_programs(programs: &Programs) -> Result<(), (&'static str, &'static str)> {
    let peer = programs.peer.as_deref();
    for (field, arguments) in [("source.command", Some(programs.command.as_slice())), ("source.peer", peer)] {
        let Some(arguments) = arguments else { continue };
        if arguments.first().is_none_or(String::is_empty) {
            return Err((field, "must begin with a program"));
        }
        if arguments.iter().any(|argument| argument.contains('\0')) {
            return Err((field, "must not hold a NUL character"));
        }
    }
    if peer.is_none() && programs.sender == Sender::Peer {
        return Err(("source.sender", "there is no peer"));
    }
    if peer.is_none() && programs.ready != Ready::Started {
        return Err(("source.ready", "there is no peer"));
    }
    Ok(())
}
