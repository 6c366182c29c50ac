//! What is available and what is loaded, for listings.

use crate::{
    error::BpfError,
    kernel::{self, Kernel, clock_granularity_ns, hz},
    pins::Pins,
};
use libbpf_rs::{
    MapCore, MapFlags, MapHandle,
    btf::{Btf, types::Struct},
    query::{LinkInfoIter, LinkTypeInfo},
};
use serde::Serialize;
use std::fs;

/// The kernel's list of congestion controls.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
/// Those that processes without privileges may choose.
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
/// What the map of a congestion control of weir is called, cut at 15 characters by the kernel.
const MAP: &str = "weir_cc_";
const MAP_NAME_MAX: usize = 15;

/// The state of this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// `uname -r`.
    pub release: String,
    /// Jiffies a second.
    pub hz: u32,
    /// Granularity of the clock that TCP's microseconds are taken from, nanoseconds.
    pub clock_ns: u64,
    /// Why nothing can be loaded, or nothing.
    pub why_not: Option<String>,
    /// Names in the kernel's list, the loaded ones among them.
    pub available: Vec<String>,
    /// Of those, what processes without `CAP_NET_ADMIN` may choose.
    pub allowed: Vec<String>,
    /// What weir has loaded, in whatever process.
    pub loaded: Vec<KernelCc>,
}

/// A congestion control of weir in the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KernelCc {
    /// The name sockets choose it by.
    pub name: String,
    /// The registered congestion control; none for a user's own.
    pub cc: Option<String>,
    /// Pinned by `weir cc load`; otherwise a process holds it.
    pub pinned: bool,
}

/// Asks the kernel and the pins.
///
/// # Errors
/// [`BpfError::Io`] if the pins cannot be read.
pub fn status(pins: &Pins) -> Result<Status, BpfError> {
    let why_not = Kernel::probe().err().map(|error| error.to_string());
    let loaded = if why_not.is_none() { loaded(pins)? } else { Vec::new() };
    Ok(Status {
        release: kernel::release(),
        hz: hz(),
        clock_ns: clock_granularity_ns(),
        why_not,
        available: words(AVAILABLE),
        allowed: words(ALLOWED),
        loaded,
    })
}

/// The congestion controls of weir in the kernel, by name.
///
/// # Errors
/// [`BpfError::Io`] if the pins cannot be read.
pub fn loaded(pins: &Pins) -> Result<Vec<KernelCc>, BpfError> {
    let pinned: Vec<u32> = pins.names()?.iter().filter_map(|name| pins.link_id(name)).collect();
    let Some(name_at) = name_offset() else { return Ok(Vec::new()) };
    let mut found: Vec<KernelCc> = LinkInfoIter::default()
        .filter_map(|link| match link.info {
            LinkTypeInfo::StructOps(operations) => Some((link.id, operations.map_id)),
            _ => None,
        })
        .filter_map(|(link, map)| {
            let map = MapHandle::from_map_id(map).ok()?;
            let map_name = map.name().to_str()?.to_owned();
            let value = map.lookup(&0_u32.to_ne_bytes(), MapFlags::empty()).ok()??;
            let name = c_text(value.get(name_at..)?)?;
            map_name.starts_with(MAP).then(|| KernelCc {
                name,
                cc: registered(&map_name),
                pinned: pinned.contains(&link),
            })
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Where the registered name is in what a map of operations holds.
fn name_offset() -> Option<usize> {
    let btf = Btf::from_vmlinux().ok()?;
    let offset = |of: &str, field: &str| {
        let of = btf.type_by_name::<Struct<'_>>(of)?;
        let member = of.iter().find(|member| member.name.is_some_and(|name| name == field))?;
        match member.attr {
            libbpf_rs::btf::types::MemberAttr::Normal { offset } => Some(offset as usize / 8),
            libbpf_rs::btf::types::MemberAttr::BitField { .. } => None,
        }
    };
    Some(offset("bpf_struct_ops_tcp_congestion_ops", "data")? + offset("tcp_congestion_ops", "name")?)
}

/// The registered congestion control with this name of a map.
fn registered(map: &str) -> Option<String> {
    let mut names = weir_cc::list().into_iter().map(|algorithm| algorithm.name().to_owned());
    names.find(|name| {
        let whole = format!("{MAP}{}", name.replace('-', "_"));
        whole[..whole.len().min(MAP_NAME_MAX)] == *map
    })
}

fn c_text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    std::str::from_utf8(&bytes[..end]).ok().map(str::to_owned)
}

fn words(path: &str) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_map_tells_the_congestion_control() {
        for algorithm in weir_cc::list() {
            let mut map = format!("{MAP}{}", algorithm.name().replace('-', "_"));
            map.truncate(MAP_NAME_MAX);
            assert_eq!(registered(&map).as_deref(), Some(algorithm.name()));
        }
        assert_eq!(registered("weir_cc_mine"), None);
    }
}
