//! Errors of confinement.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a process could not be confined.
#[derive(Debug)]
pub enum Error {
    /// This kernel has no mechanism for confinement.
    Unavailable,
    /// A path of the policy cannot be opened.
    Path(PathBuf, io::Error),
    /// The program's working folder is hidden from it.
    Hidden(PathBuf),
    /// A writable place contains a hidden one; Landlock would open both.
    Holds(PathBuf, PathBuf),
    /// A system call failed; its purpose.
    Call(&'static str, io::Error),
    /// Landlock refused.
    Landlock(String),
    /// The namespaces cannot be set up as required.
    Namespaces(String),
    /// The filter of system calls cannot be built.
    Filter(String),
}

impl Error {
    pub(crate) fn path(path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |error| Error::Path(path.to_owned(), error)
    }

    pub(crate) fn call<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Error {
        move |error| Error::Call(what, error.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unavailable => write!(
                f,
                "this kernel cannot confine programs: it has no Landlock (Linux 6.2 or newer, CONFIG_SECURITY_LANDLOCK), \
                 and allows no namespaces of users and mounts (Linux 5.12 or newer)"
            ),
            Error::Path(path, error) => write!(f, "{}: {error}", path.display()),
            Error::Hidden(path) => write!(
                f,
                "{}: this folder holds secrets, or lies in one that does, and is hidden from confined programs: work in \
                 another",
                path.display()
            ),
            Error::Holds(path, secret) => write!(
                f,
                "{}: this folder holds {}, which is hidden from confined programs, so that they must not write to all of \
                 it: name another",
                path.display(),
                secret.display()
            ),
            Error::Call(what, error) => write!(f, "cannot {what}: {error}"),
            Error::Landlock(error) => write!(f, "Landlock: {error}"),
            Error::Namespaces(error) => write!(f, "namespaces: {error}"),
            Error::Filter(error) => write!(f, "filter of system calls: {error}"),
        }
    }
}

impl std::error::Error for Error {}
