//! The values that the congestion control of a connection shows by `WEIR_PROBE` (`cc/shim/probe.h`): from the map of a
//! BPF object, or from a kernel module, which answers `TCP_CC_INFO`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use crate::call::{check, get_option};
use crate::socket::Socket;

/// Maximum number of probes of a congestion control.
const PLACES: usize = 8;
/// Bytes of `struct weir_probe` and of `struct weir_probes`.
const PLACE_BYTES: usize = 24;
const BYTES: usize = PLACES * PLACE_BYTES + 16;
/// Bytes of the answer of a module: a value and a name of 12 bytes.
const INFO_BYTES: usize = 20;
const NAME_BYTES: usize = INFO_BYTES - 8;

const BPF_MAP_LOOKUP_ELEM: libc::c_int = 1;
const BPF_MAP_GET_FD_BY_ID: libc::c_int = 14;
const TCP_CC_INFO: libc::c_int = 26;

/// The name of a probe, padded with zeros.
pub type Name = [u8; 16];

/// Where the values are.
#[derive(Debug)]
pub enum Probes {
    /// In the storage of sockets of this map.
    Map(OwnedFd),
    /// In a kernel module.
    Module,
}

/// `union bpf_attr` of the calls here.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    /// `map_fd`, or the id of a map.
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

fn bpf(command: libc::c_int, attributes: &mut Attributes) -> io::Result<usize> {
    let bytes = size_of::<Attributes>();
    // SAFETY: the kernel reads the attributes, of this size; `key` and `value` are places of the caller's.
    Ok(check(unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, bytes) })?)
}

impl Probes {
    /// Those of the map with this id of the kernel's.
    ///
    /// # Errors
    /// From the kernel: there is no such map, or this process may not see it (CAP_SYS_ADMIN).
    pub fn of_map(id: u32) -> io::Result<Probes> {
        let fd = bpf(BPF_MAP_GET_FD_BY_ID, &mut Attributes { map: id, ..Attributes::default() })?;
        // SAFETY: the kernel has just made it for this process.
        Ok(Probes::Map(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    /// Names and latest values of the probes of a connection; none if it has shown none yet.
    pub fn of(&self, socket: &Socket, each: impl FnMut(Name, i64)) {
        match self {
            Probes::Map(map) => of_map(map, socket, each),
            Probes::Module => of_module(socket, each),
        }
    }
}

fn of_map(map: &OwnedFd, socket: &Socket, mut each: impl FnMut(Name, i64)) {
    let (key, mut value) = (socket.as_fd().as_raw_fd(), [0_u8; BYTES]);
    let mut attributes = Attributes {
        map: map.as_raw_fd() as u32,
        key: &raw const key as u64,
        value: value.as_mut_ptr() as u64,
        ..Attributes::default()
    };
    if bpf(BPF_MAP_LOOKUP_ELEM, &mut attributes).is_err() {
        return;
    }
    for place in value[..PLACES * PLACE_BYTES].chunks_exact(PLACE_BYTES) {
        let mut name = Name::default();
        name.copy_from_slice(&place[..16]);
        if name[0] != 0 {
            each(name, i64::from_ne_bytes(place[16..].try_into().expect("eight bytes")));
        }
    }
}

/// A module gives one probe at a time, in turn.
fn of_module(socket: &Socket, mut each: impl FnMut(Name, i64)) {
    let mut first = None;
    for _ in 0..PLACES {
        let mut answer = [0_u8; INFO_BYTES];
        let length = get_option(socket.as_fd(), libc::IPPROTO_TCP, TCP_CC_INFO, &mut answer);
        if !length.is_ok_and(|length| length == INFO_BYTES) || answer[8] == 0 {
            return;
        }
        let mut name = Name::default();
        name[..NAME_BYTES].copy_from_slice(&answer[8..]);
        if first == Some(name) {
            return;
        }
        first.get_or_insert(name);
        each(name, i64::from_ne_bytes(answer[..8].try_into().expect("eight bytes")));
    }
}
