//! Network namespaces. A socket belongs to the namespace of the thread that creates it.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The namespaces of a job. The thread enters one to open a socket and stays there until it needs another one, because
/// most sockets of a process are in the same few namespaces.
#[derive(Default)]
pub struct Namespaces {
    home: Option<File>,
    known: Vec<(PathBuf, File)>,
    current: Option<usize>,
}

impl Namespaces {
    /// Enters the namespace at `path`, or for `None` the one in which the process was started.
    ///
    /// # Errors
    /// There is no such namespace, or the process may not enter it.
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
                self.home = Some(own()?);
            }
            enter(&self.known[index].1)?;
            self.current = Some(index);
        }
        Ok(())
    }

    fn go_home(&mut self) -> io::Result<()> {
        if let (Some(home), Some(_)) = (&self.home, self.current) {
            enter(home)?;
            self.current = None;
        }
        Ok(())
    }
}

/// Does `work` in the namespace at `path`; this thread is back in its own namespace afterwards.
///
/// # Errors
/// There is no such namespace, the process may not enter it, or `work` failed.
pub fn within<T>(path: &Path, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let own = own()?;
    enter(&File::open(path)?)?;
    let result = work();
    enter(&own)?;
    result
}

fn own() -> io::Result<File> {
    File::open("/proc/thread-self/ns/net")
}

fn enter(namespace: &File) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}
