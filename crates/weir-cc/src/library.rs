//! Loads a congestion control from a shared object.

use crate::{
    algorithm::Algorithm,
    error::CcError,
    ops::{ABI, Ops},
};
use libloading::Library;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{LazyLock, Mutex, PoisonError},
    time::SystemTime,
};

/// A file's identity: the same path built again is another library.
type Key = (PathBuf, Option<SystemTime>, u64);

static LOADED: LazyLock<Mutex<BTreeMap<Key, Algorithm>>> = LazyLock::new(Mutex::default);

/// The congestion control in the shared object at `path`. It stays loaded for the life of the process.
pub(crate) fn load(path: &Path) -> Result<Algorithm, CcError> {
    let key = identify(path).map_err(|error| CcError::Io { path: path.to_owned(), error })?;
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(algorithm) = loaded.get(&key) {
        return Ok(algorithm.clone());
    }
    let algorithm = open(path)?;
    loaded.insert(key, algorithm.clone());
    Ok(algorithm)
}

fn identify(path: &Path) -> std::io::Result<Key> {
    let path = fs::canonicalize(path)?;
    let metadata = fs::metadata(&path)?;
    Ok((path, metadata.modified().ok(), metadata.len()))
}

fn open(path: &Path) -> Result<Algorithm, CcError> {
    let fail = |reason: String| CcError::Load { path: path.to_owned(), reason };
    // The dynamic linker takes a path it has seen for the library it has: load a copy under a name never used before.
    let copy = tempfile::Builder::new()
        .prefix("weir-cc-")
        .suffix(".so")
        .tempfile()
        .and_then(|copy| fs::copy(path, copy.path()).map(|_| copy))
        .map_err(|error| fail(error.to_string()))?;
    // SAFETY: a congestion control built by `build` has no initialisers; loading anything else is the user's choice.
    let library = unsafe { Library::new(copy.path()) }
        .map_err(|error| fail(error.to_string().replace(&copy.path().display().to_string(), "the file")))?;
    // Never unloaded: algorithms are handed out for the life of the process.
    let library: &'static Library = Box::leak(Box::new(library));
    // SAFETY: the symbol is a u32 in every version of the interface.
    let abi = unsafe { library.get::<*const u32>(b"weir_cc_abi\0") }
        .map_err(|_| fail("it was not built by `weir cc build` (no symbol weir_cc_abi)".into()))?;
    // SAFETY: the address of a constant in a library that stays loaded.
    let abi = unsafe { **abi };
    if abi != ABI {
        return Err(fail(format!("it was built for interface version {abi}, this is version {ABI}; build it again")));
    }
    // SAFETY: with this version of the interface the symbol is a table of operations.
    let ops = unsafe { library.get::<*const Ops>(b"weir_cc_entry\0") }
        .map_err(|_| fail("it registers no congestion control (no symbol weir_cc_entry)".into()))?;
    // SAFETY: as above; the constant lives as long as the library, that is, for ever.
    Algorithm::check(unsafe { &**ops })
}
