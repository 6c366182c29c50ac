//! The capabilities of the running kernel, and the privileges of this process.

use crate::error::BpfError;
use libbpf_rs::{
    ReferencesType,
    btf::{
        Btf,
        types::{Func, FuncProto, Ptr, Struct},
    },
};
use rustix::time::{ClockId, clock_getres};
use std::{fs, path::Path};

/// The kernel's description of its types.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Facts about the running kernel that matter for congestion controls in BPF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// `uname -r`.
    pub release: String,
    /// Jiffies per second.
    pub hz: u32,
    /// `cong_control` has two parameters, as before Linux 6.10.
    pub old_cong_control: bool,
    /// A link registers a congestion control, which ends with the link's last descriptor; since Linux 6.4.
    pub links: bool,
}

/// A capability that loading needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// Loading BPF programs.
    Bpf,
    /// Programs that see a `struct sock`.
    Perfmon,
    /// Registering a congestion control.
    NetAdmin,
}

impl Privilege {
    /// Its name in capabilities(7).
    pub fn name(self) -> &'static str {
        match self {
            Privilege::Bpf => "CAP_BPF",
            Privilege::Perfmon => "CAP_PERFMON",
            Privilege::NetAdmin => "CAP_NET_ADMIN",
        }
    }

    /// Its number; `CAP_SYS_ADMIN` (21) implies the first two.
    fn held(self, effective: u64) -> bool {
        let (bit, sys_admin) = match self {
            Privilege::Bpf => (39, 1 << 21),
            Privilege::Perfmon => (38, 1 << 21),
            Privilege::NetAdmin => (12, 0),
        };
        effective & (1 << bit | sys_admin) != 0
    }
}

impl Kernel {
    /// Asks the running kernel.
    ///
    /// # Errors
    /// [`BpfError::NoBtf`], [`BpfError::Kernel`] if it is too old, [`BpfError::Privilege`].
    pub fn probe() -> Result<Kernel, BpfError> {
        let release = release();
        if !Path::new(BTF).exists() {
            return Err(BpfError::NoBtf);
        }
        let btf = Btf::from_vmlinux().map_err(|_| BpfError::NoBtf)?;
        if let Some((lacks, remedy)) = lacking(&btf) {
            return Err(BpfError::Kernel { release, lacks, remedy });
        }
        let missing = missing_privileges();
        if !missing.is_empty() {
            return Err(BpfError::Privilege { missing });
        }
        let old_cong_control = cong_control_parameters(&btf) == Some(2);
        Ok(Kernel { release, hz: hz(), old_cong_control, links: has_links(&btf) })
    }
}

/// Why no congestion control can be loaded here, if so.
pub fn why_not() -> Option<BpfError> {
    Kernel::probe().err()
}

/// Jiffies per second of the running kernel, from the resolution of the coarse clocks.
pub fn hz() -> u32 {
    let tick = clock_getres(ClockId::MonotonicCoarse);
    let tick_ns = (tick.tv_sec * 1_000_000_000 + tick.tv_nsec).max(1);
    u32::try_from((1_000_000_000 + tick_ns / 2) / tick_ns).unwrap_or(1).max(1)
}

/// Granularity of the clock behind TCP's microseconds, nanoseconds: 1 with high-resolution timers, else a jiffy.
pub fn clock_granularity_ns() -> u64 {
    let step = clock_getres(ClockId::Monotonic);
    (step.tv_sec * 1_000_000_000 + step.tv_nsec).unsigned_abs()
}

pub(crate) fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

fn lacking(btf: &Btf<'_>) -> Option<(&'static str, &'static str)> {
    if btf.type_by_name::<Struct<'_>>("bpf_struct_ops_tcp_congestion_ops").is_some() {
        return None;
    }
    let remedy = "Linux 5.6 or newer is needed (6.4 is best), with CONFIG_BPF_SYSCALL=y and CONFIG_BPF_JIT=y; \
                  `linux:NAME` uses the kernel's own congestion controls";
    Some(("takes no congestion control from BPF", remedy))
}

/// Whether links register congestion controls here; false if the kernel has no BTF.
pub(crate) fn links() -> bool {
    Btf::from_vmlinux().is_ok_and(|btf| has_links(&btf))
}

fn has_links(btf: &Btf<'_>) -> bool {
    btf.type_by_name::<Func<'_>>("bpf_struct_ops_link_create").is_some()
}

/// Number of parameters of `tcp_congestion_ops.cong_control`.
fn cong_control_parameters(btf: &Btf<'_>) -> Option<usize> {
    let ops = btf.type_by_name::<Struct<'_>>("tcp_congestion_ops")?;
    let member = ops.iter().find(|member| member.name.is_some_and(|name| name == "cong_control"))?;
    let pointer: Ptr<'_> = btf.type_by_id(member.ty)?;
    let function: FuncProto<'_> = pointer.referenced_type().try_into().ok()?;
    Some(function.len())
}

fn missing_privileges() -> Vec<Privilege> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = effective_capabilities(&status);
    [Privilege::Bpf, Privilege::Perfmon, Privilege::NetAdmin]
        .into_iter()
        .filter(|privilege| !privilege.held(effective))
        .collect()
}

/// The line `CapEff` of `/proc/PID/status`.
fn effective_capabilities(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_from_the_status() {
        let root = effective_capabilities("Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t000001ffffffffff\n");
        assert_eq!(root, 0x1ff_ffff_ffff);
        assert_eq!(effective_capabilities("Name:\tx\n"), 0);
        for privilege in [Privilege::Bpf, Privilege::Perfmon, Privilege::NetAdmin] {
            assert!(privilege.held(root));
            assert!(!privilege.held(0));
        }
    }

    #[test]
    fn the_administrator_of_the_system_is_not_that_of_the_network() {
        let sys_admin = 1 << 21;
        assert!(Privilege::Bpf.held(sys_admin) && Privilege::Perfmon.held(sys_admin));
        assert!(!Privilege::NetAdmin.held(sys_admin));
        assert!(Privilege::NetAdmin.held(1 << 12));
    }

    #[test]
    fn hz_is_that_of_a_kernel() {
        let hz = hz();
        assert!((24..=1200).contains(&hz), "{hz} jiffies a second");
        if let Some(configured) = configured_hz() {
            assert_eq!(hz, configured);
        }
    }

    fn configured_hz() -> Option<u32> {
        let text = fs::read_to_string(format!("/boot/config-{}", release())).ok()?;
        text.lines().find_map(|line| line.strip_prefix("CONFIG_HZ="))?.parse().ok()
    }
}
