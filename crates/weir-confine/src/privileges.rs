//! Inherited rights of a process: capabilities, open files.

use std::os::fd::RawFd;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

use weir_sys::isolation;

use crate::Error;

/// Gives up every capability permanently: no later program gets one back.
pub(crate) fn give_up() -> Result<(), Error> {
    set_no_new_privs(true).map_err(Error::call("set no_new_privs"))?;
    for number in 0..u64::BITS {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            Ok(()) => {}
            Err(Errno::INVAL | Errno::PERM) => break, // past the last one; or there is none that could be given up
            Err(error) => return Err(Error::call("give up capabilities")(error)),
        }
    }
    clear_ambient_capability_set().map_err(Error::call("give up capabilities"))?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .map_err(Error::call("give up capabilities"))
}

/// Closes every descriptor except the standard ones and `keep` when a program is executed.
///
/// # Errors
/// One of `keep` is not open.
pub fn keep_only(keep: &[RawFd]) -> Result<(), Error> {
    const FIRST: u32 = 3;
    isolation::close_on_exec_from(FIRST).map_err(Error::call("close descriptors"))?;
    keep.iter().try_for_each(|&fd| isolation::keep_on_exec(fd).map_err(Error::call("keep a descriptor")))
}
