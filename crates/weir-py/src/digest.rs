//! Checksums of files.

use std::fs::{File, Metadata, OpenOptions, symlink_metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use pyo3::prelude::*;
use twox_hash::XxHash3_128;

/// Bytes per read: the kernel reads ahead of a sequential reader, and a piece stays in cache.
const PIECE: usize = 64 * 1024;

/// No link is followed, and nobody is waited for.
const PLAIN: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;

/// Inode, size in bytes, and time of the last change in seconds and nanoseconds.
type State = (u64, u64, i64, i64);

/// The size of a file in bytes, and the XXH3-128 of its content in hexadecimal digits.
#[pyfunction]
pub(crate) fn digest_file(py: Python<'_>, path: PathBuf) -> PyResult<(u64, String)> {
    Ok(py.detach(|| digest(File::open(&path)?))?)
}

/// The XXH3-128 of `content` in hexadecimal digits.
#[pyfunction]
pub(crate) fn digest_bytes(content: &[u8]) -> String {
    hexadecimal(XxHash3_128::oneshot(content))
}

/// The state of the plain file at `path`; `None` if none can be seen there.
#[pyfunction]
pub(crate) fn plain_file(path: PathBuf) -> Option<State> {
    state(&symlink_metadata(path).ok()?)
}

/// The state of the plain file at `path`, and the XXH3-128 of its content in hexadecimal digits; `None` if none can be
/// read there.
#[pyfunction]
pub(crate) fn digest_plain(py: Python<'_>, path: PathBuf) -> Option<(State, String)> {
    py.detach(|| {
        state(&symlink_metadata(&path).ok()?)?; // before it is opened: to open a device may do something
        let file = OpenOptions::new().read(true).custom_flags(PLAIN).open(&path).ok()?;
        let state = state(&file.metadata().ok()?)?;
        let (bytes, digest) = digest(file).ok()?;
        (bytes == state.1).then_some((state, digest))
    })
}

fn state(found: &Metadata) -> Option<State> {
    found.is_file().then(|| (found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
}

fn digest(mut file: File) -> std::io::Result<(u64, String)> {
    let (mut hash, mut piece, mut bytes) = (XxHash3_128::new(), vec![0; PIECE], 0);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok((bytes, hexadecimal(hash.finish_128()))),
            Ok(n) => {
                hash.write(&piece[..n]);
                bytes += n as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn hexadecimal(hash: u128) -> String {
    format!("{hash:032x}")
}
