//! Network namespaces: sockets belong to the one in which their maker was.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use super::check;

/// The namespaces of a job. The thread enters one to open a socket and stays until another is wanted: most sockets of a
/// process are opened in the same few.
pub struct Namespaces {
    home: Option<File>,
    known: Vec<(PathBuf, File)>,
    current: Option<usize>,
}

impl Namespaces {
    /// None but the one of this thread.
    pub fn new() -> Namespaces {
        Namespaces { home: None, known: Vec::new(), current: None }
    }

    /// Enters the namespace at `path`; none: the one in which the process was started.
    ///
    /// # Errors
    /// When there is no such namespace, or the process may not enter it.
    pub fn enter(&mut self, path: Option<&Path>) -> io::Result<()> {
        let Some(path) = path else { return self.go_home() };
        let index = match self.known.iter().position(|(known, _)| known == path) {
            Some(index) => index,
            None => {
                self.known.push((path.to_owned(), File::open(path)?));
                self.known.len() - 1
            }
        };
        if self.current != Some(index) {
            if self.home.is_none() {
                self.home = Some(File::open("/proc/thread-self/ns/net")?);
            }
            set(&self.known[index].1)?;
            self.current = Some(index);
        }
        Ok(())
    }

    fn go_home(&mut self) -> io::Result<()> {
        if let (Some(home), Some(_)) = (&self.home, self.current) {
            set(home)?;
            self.current = None;
        }
        Ok(())
    }
}

impl Default for Namespaces {
    fn default() -> Namespaces {
        Namespaces::new()
    }
}

fn set(namespace: &File) -> io::Result<()> {
    // SAFETY: the call has no pointers and the descriptor is open.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}
