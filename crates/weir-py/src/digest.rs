//! Checksums of files.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;

use pyo3::prelude::*;
use twox_hash::XxHash3_128;

/// Bytes read at once: the kernel reads ahead of a reader that goes on from where it was, and a piece stays in cache.
const PIECE: usize = 64 * 1024;

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
