//! Confines this process and its future children, so that an untrusted program can do little harm.
//!
//! A congestion control from somebody else is a program; so is the kernel of a lab once a guest has broken into it.
//! After [`confine`], the host's kernel refuses this process and its descendants:
//!
//! - writing, making, renaming, linking or removing files outside the places of the [`Policy`], and reading files that
//!   [`view`] hides;
//! - changing modes, owners, times and extended attributes, because Landlock does not cover them;
//! - every socket except a connected pair, so that neither the network nor a service of the host is in reach;
//! - signals to, and tracing of, processes outside;
//! - mounting, namespaces, modules, BPF, keys, performance counters, io_uring, the clock, and the other system calls
//!   that [`calls`] does not list;
//! - new privileges: every capability is given up, also by root, and `no_new_privs` is set.
//!
//! It limits memory, processes, open files and processor time only if the policy says so, and never disk space.

#![forbid(unsafe_code)]

pub mod calls;
mod error;
pub mod files;
mod limits;
mod mounts;
mod namespaces;
mod privileges;
mod status;
pub mod view;

use std::path::PathBuf;

use calls::Calls;
pub use error::Error;
pub use limits::Limits;
use namespaces::Side;
pub use privileges::keep_only;
pub use status::{Kind, Status, status};

/// The permitted kinds of writing at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    /// Regular files and folders: readers of the place meet no link, pipe or socket.
    Files,
    /// Everything except devices.
    Everything,
}

/// The rights of a confined process.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Folders, or files, that it may write.
    pub write: Vec<(PathBuf, Writing)>,
    /// Paths that it may read although [`view`] would hide them.
    pub read: Vec<PathBuf>,
    /// Its working folder: an error if that is hidden.
    pub work: Option<PathBuf>,
    /// Further paths that it may not read.
    pub hide: Vec<PathBuf>,
    /// Whether it may trace its own children.
    pub trace: bool,
    /// Whether it may start no process: then nothing of it is left when it is killed.
    pub alone: bool,
    /// Its resource limits.
    pub limits: Limits,
    /// Folders of control groups that it joins, which limit it together with its children.
    pub groups: Vec<PathBuf>,
    /// The mechanism that guards files; the best available if `None`.
    pub kind: Option<Kind>,
}

/// Confines this process, which must have one thread, permanently. Open file descriptors stay usable.
///
/// Without Landlock, this process ends with the exit code of the program, and another one, inside, returns from here.
///
/// # Errors
/// A path of the policy cannot be opened, or this kernel cannot confine. The process may then be confined in part, and
/// should end.
pub fn confine(policy: &Policy) -> Result<(), Error> {
    limits::join(&policy.groups)?;
    match policy.kind.unwrap_or_else(|| status().kind) {
        Kind::None => Err(Error::Unavailable),
        Kind::Landlock => {
            let rules = files::Rules::open(policy)?;
            limits::set(&policy.limits)?;
            privileges::give_up()?;
            rules.enforce()?;
            limits::set_files(&policy.limits)?;
            calls::enforce(&calls_of(policy))
        }
        Kind::Namespaces => {
            let writable = canonical(policy.write.iter().map(|(path, _)| path))?;
            if let Side::Outside(status) = namespaces::enter(&files::view_of(policy)?, &writable)? {
                namespaces::end_like(status);
            }
            limits::set(&policy.limits)?;
            privileges::give_up()?;
            limits::set_files(&policy.limits)?;
            let plain = policy.write.iter().all(|(_, writing)| *writing == Writing::Files);
            calls::enforce(&Calls { plain, ..calls_of(policy) })
        }
    }
}

fn calls_of(policy: &Policy) -> Calls {
    Calls { trace: policy.trace, alone: policy.alone, plain: false }
}

fn canonical<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Result<Vec<PathBuf>, Error> {
    paths.map(|path| std::fs::canonicalize(path).map_err(Error::path(path))).collect()
}
