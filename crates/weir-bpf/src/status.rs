//! Available and loaded congestion controls, for listings.

use crate::{
    error::BpfError,
    kernel::{self, Kernel, clock_granularity_ns, hz},
    pins::Pins,
    registered::{self, AVAILABLE, MAP, MAP_NAME_MAX, words},
    source,
};
use libbpf_rs::MapCore;
use serde::Serialize;

/// The names that processes without privileges may choose.
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// The state of this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// `uname -r`.
    pub release: String,
    /// Jiffies per second.
    pub hz: u32,
    /// Granularity of the clock behind TCP's microseconds, nanoseconds.
    pub clock_ns: u64,
    /// Whether it has the `cong_control` of kernels before Linux 6.10; none if it cannot be asked.
    pub old_cong_control: Option<bool>,
    /// Why nothing can be loaded; none if it can.
    pub why_not: Option<String>,
    /// Names in the kernel's list, including the loaded ones.
    pub available: Vec<String>,
    /// The available names that processes without `CAP_NET_ADMIN` may choose.
    pub allowed: Vec<String>,
    /// Controls that weir has loaded, in any process.
    pub loaded: Vec<KernelCc>,
}

/// A congestion control of weir in the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KernelCc {
    /// The name by which sockets choose it.
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
    let probed = Kernel::probe();
    let loaded = if probed.is_ok() { loaded(pins)? } else { Vec::new() };
    let old_cong_control = probed.as_ref().ok().map(|kernel| kernel.old_cong_control);
    let why_not = probed.err().or_else(source::missing).map(|error| error.to_string());
    Ok(Status {
        release: kernel::release(),
        hz: hz(),
        clock_ns: clock_granularity_ns(),
        old_cong_control,
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
    let links = kernel::links();
    let pinned: Vec<u32> = pins.names()?.iter().filter_map(|name| pins.map_id(name, links)).collect();
    let found = registered::all().into_iter().map(|one| KernelCc {
        cc: registered_as(&one.map.name().to_string_lossy()),
        pinned: pinned.contains(&one.map_id),
        name: one.name,
    });
    Ok(found.collect())
}

/// The registered congestion control with this map name.
fn registered_as(map: &str) -> Option<String> {
    let mut names = weir_cc::list().into_iter().map(|algorithm| algorithm.name().to_owned());
    names.find(|name| {
        let whole = format!("{MAP}{}", name.replace('-', "_"));
        whole[..whole.len().min(MAP_NAME_MAX)] == *map
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_map_tells_the_congestion_control() {
        for algorithm in weir_cc::list() {
            let mut map = format!("{MAP}{}", algorithm.name().replace('-', "_"));
            map.truncate(MAP_NAME_MAX);
            assert_eq!(registered_as(&map).as_deref(), Some(algorithm.name()));
        }
        assert_eq!(registered_as("weir_cc_mine"), None);
    }
}
