//! Preparation of a plan: its limits, network and flows.

use std::collections::BTreeMap;

use weir_cc::Algorithm;
use weir_links::{Calendar, Link, Routes, build_links};
use weir_plan::{Plan, SimOffload, Tcp, Transport, UDT_HEADERS};
use weir_switch::Switch;
use weir_tcp::{Sender, header_bytes};
use weir_units::{Stream, Time};

use super::nodes::Node;
use super::slots::Slots;
use crate::acks::AckLog;
use crate::application::Application;
use crate::error::SimError;
use crate::flow::Flow;
use crate::hosts::Hosts;
use crate::packet::{MAX_FLOWS, Packet, UDP_HEADERS};
use crate::processing::Processing;
use crate::sack_work::SackWork;

/// Checks that the plan is within the simulator's limits.
pub(super) fn check_limits(plan: &Plan, slots: Slots) -> Result<(), SimError> {
    if plan.flows.len() > MAX_FLOWS {
        return Err(SimError::Unsupported(format!("{} flows: {MAX_FLOWS} at most", plan.flows.len())));
    }
    let horizon = Calendar::horizon(slots.count as usize);
    if Time(plan.end_ns) >= horizon {
        let (hours, flows) = (horizon.as_secs_f64() / 3600.0, plan.flows.len());
        return Err(SimError::Unsupported(format!("with {flows} flows a run may last {hours:.1} hours at most")));
    }
    let too_big = |flow: &&weir_plan::Flow| match &flow.transport {
        Transport::Tcp(tcp) => tcp.mss_bytes + header_bytes(tcp.timestamps) > u32::from(u16::MAX),
        Transport::Udp(udp) => udp.payload_bytes + UDP_HEADERS > u32::from(u16::MAX),
        Transport::Tfrc(tfrc) => tfrc.payload_bytes + UDP_HEADERS > u32::from(u16::MAX),
        Transport::Udt(udt) => udt.payload_bytes + UDT_HEADERS > u32::from(u16::MAX),
        // The application refuses it.
        Transport::Quic(_) | Transport::Mptcp(_) | Transport::Sctp(_) | Transport::Dccp(_) => false,
    };
    if let Some(flow) = plan.flows.iter().find(too_big) {
        return Err(SimError::Unsupported(format!("flow {}: an IP packet holds 65535 bytes at most", flow.name)));
    }
    Ok(())
}

/// The network of a plan, before its links are fused.
pub(super) struct Parts {
    pub links: Vec<Link<Packet>>,
    /// The nodes that have state, with their numbers in the plan.
    pub nodes: Vec<(u32, Box<dyn Node>)>,
}

impl Parts {
    pub fn of(plan: &Plan) -> Parts {
        let nodes = (0..).zip(&plan.nodes).filter_map(|(number, node)| Some((number, stateful(plan, number, node)?)));
        Parts { links: build_links(plan), nodes: nodes.collect() }
    }
}

/// A node of the plan, if it has state.
fn stateful(plan: &Plan, number: u32, node: &weir_plan::Node) -> Option<Box<dyn Node>> {
    Some(Box::new(Switch::new(plan, number, node.switch.as_ref()?)))
}

/// The flows of a plan before their start.
pub(super) fn flows(
    plan: &Plan,
    routes: &Routes,
    links: &[Link<Packet>],
    hosts: &Hosts,
) -> Result<Vec<Flow>, SimError> {
    let work = SackWork::of(plan);
    let mut known: BTreeMap<&str, Algorithm> = BTreeMap::new();
    let mut flows = Vec::with_capacity(plan.flows.len());
    for (index, flow) in plan.flows.iter().enumerate() {
        let mut algorithm = None;
        if let Transport::Tcp(tcp) = &flow.transport {
            let error = |problem: String| SimError::CongestionControl { flow: flow.name.clone(), problem };
            if !known.contains_key(tcp.cc.as_str()) {
                known.insert(&tcp.cc, weir_cc::find(&tcp.cc).map_err(|e| error(e.to_string()))?);
            }
            let found = known[tcp.cc.as_str()].clone();
            Sender::new(tcp, &found).map_err(|e| error(e.to_string()))?;
            check_routers(plan, flow, tcp, &found, links).map_err(error)?;
            check_startup(tcp, &found).map_err(error)?;
            algorithm = Some(found);
        }
        let route = 2 * index as u32;
        let mut made = Flow::new(flow, algorithm, (routes.start(route), routes.start(route + 1)))?
            .seeded(Stream::new(plan.seed, &format!("flow/{}/control", flow.name)).bits() as u32)
            .in_trains(plan.methods.sim.offload == SimOffload::Device);
        if let Application::Udt(udt) = &mut made.application {
            udt.seed = Stream::new(plan.seed, &format!("flow/{}/udt", flow.name)).bits();
        }
        made.probed = plan.measure.tcp_ns > 0;
        made.recorded = AckLog::records(plan, index);
        made.first_evented = links[made.first_link].is_evented();
        made.processing = Processing::of(plan, links, index);
        made.work = work[index];
        made.held = hosts.holds_data(index);
        flows.push(made);
    }
    Ok(flows)
}

/// Checks that the congestion control leaves the first window to the transport.
fn check_startup(tcp: &Tcp, control: &Algorithm) -> Result<(), String> {
    let key = match (tcp.jump_start, tcp.quick_start_bps) {
        (false, 0) => return Ok(()),
        (true, _) => "jump_start",
        (false, _) => "quick_start",
    };
    if control.has_cong_control() {
        let cc = &tcp.cc;
        return Err(format!(
            "{key} sets the first window, and cc: {cc} sets window and rate by itself from the first acknowledgement on; take \
             a control that grows a window, such as reno or cubic"
        ));
    }
    Ok(())
}

/// Checks that the path of a flow with explicit feedback has routers that give it: no link may be slower than the
/// slowest one with such a queue.
fn check_routers(
    plan: &Plan,
    flow: &weir_plan::Flow,
    tcp: &Tcp,
    control: &Algorithm,
    links: &[Link<Packet>],
) -> Result<(), String> {
    let Some(queue) = control.queue() else { return Ok(()) };
    let path = || flow.path.iter().map(|link| *link as usize);
    let gives = |link: &usize| plan.links[*link].queue.info().name == queue && !links[*link].behind_node;
    let rate = |link: usize| plan.links[link].rate_bps;
    let cc = &tcp.cc;
    let Some(slowest) = path().filter(gives).map(rate).min() else {
        let last = path().min_by_key(|link| rate(*link)).map_or("", |link| &plan.links[link].name);
        return Err(format!(
            "cc: {cc} does what routers say, and no link of its path has such a router; give the slowest one, {last}, \
             `queue: {{{queue}: {{}}}}`"
        ));
    };
    match path().filter(|link| !gives(link)).find(|link| rate(*link) < slowest) {
        None => Ok(()),
        Some(link) => Err(format!(
            "cc: {cc} does what routers say, and link {}, slower than those with such a router, has none; give it \
             `queue: {{{queue}: {{}}}}`",
            plan.links[link].name
        )),
    }
}
