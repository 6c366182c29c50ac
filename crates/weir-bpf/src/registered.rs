//! Weir's congestion controls in the kernel, by any process.

use libbpf_rs::{
    MapCore, MapFlags, MapHandle, MapType,
    btf::{
        Btf,
        types::{MemberAttr, Struct},
    },
    query::MapInfoIter,
};
use std::fs;

/// The kernel's list of congestion controls.
pub(crate) const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
/// Name of weir's maps of operations; the kernel cuts it at [`MAP_NAME_MAX`] characters.
pub(crate) const MAP: &str = "weir_cc_";
pub(crate) const MAP_NAME_MAX: usize = 15;
/// The only key of a map of operations.
const KEY: [u8; 4] = [0; 4];

/// One of them.
pub(crate) struct Registered {
    /// The name by which sockets choose it.
    pub name: String,
    /// Its map of operations.
    pub map: MapHandle,
    /// The map's id.
    pub map_id: u32,
}

/// All of them, by name.
pub(crate) fn all() -> Vec<Registered> {
    let available = words(AVAILABLE);
    let Some(name_at) = name_offset() else { return Vec::new() };
    let mut found: Vec<Registered> = MapInfoIter::default()
        .filter(|map| map.ty == MapType::StructOps && map.name.to_string_lossy().starts_with(MAP))
        .filter_map(|info| {
            let map = MapHandle::from_map_id(info.id).ok()?;
            let value = map.lookup(&KEY, MapFlags::empty()).ok()??;
            let name = c_text(value.get(name_at..)?)?;
            // A map can outlive the registration of its operations.
            available.contains(&name).then_some(Registered { name, map, map_id: info.id })
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Unregisters the operations of a map if no link does (before Linux 6.4).
pub(crate) fn unregister(map: &MapHandle) -> libbpf_rs::Result<()> {
    map.delete(&KEY)
}

/// The words of a kernel file; empty if it cannot be read.
pub(crate) fn words(path: &str) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// Offset of the registered name in a map of operations.
fn name_offset() -> Option<usize> {
    let btf = Btf::from_vmlinux().ok()?;
    let offset = |of: &str, field: &str| {
        let of = btf.type_by_name::<Struct<'_>>(of)?;
        let member = of.iter().find(|member| member.name.is_some_and(|name| name == field))?;
        match member.attr {
            MemberAttr::Normal { offset } => Some(offset as usize / 8),
            MemberAttr::BitField { .. } => None,
        }
    };
    Some(offset("bpf_struct_ops_tcp_congestion_ops", "data")? + offset("tcp_congestion_ops", "name")?)
}

fn c_text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    std::str::from_utf8(&bytes[..end]).ok().map(str::to_owned)
}
