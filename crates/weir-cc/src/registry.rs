//! The registered congestion controls, and lookup by name.

use crate::{
    algorithm::Algorithm,
    asked,
    error::{CcError, nearest},
    explicit, loading,
    ops::Ops,
};
use std::path::Path;

include!(concat!(env!("OUT_DIR"), "/built_in.rs"));

/// Every registered congestion control, in the order of `cc/registry.txt`.
///
/// # Panics
/// If a source of `cc/` lacks a mandatory operation or its name differs from its folder: caught by this crate's tests.
pub fn list() -> Vec<Algorithm> {
    BUILT_IN
        .iter()
        .map(|(folder, ops)| {
            let algorithm = Algorithm::check(ops).unwrap_or_else(|error| panic!("cc/{folder}: {error}"));
            assert_eq!(algorithm.name(), *folder, "cc/{folder} registers another name");
            algorithm
        })
        .collect()
}

/// All of [`list`], and those that exist in the simulator only, because routers tell them what to do.
///
/// # Panics
/// As [`list`].
pub fn everywhere() -> Vec<Algorithm> {
    list().into_iter().chain(explicit::all()).collect()
}

/// The congestion control with a registered name, or of a shared object, for which this process has a [`Loader`](crate::Loader).
///
/// A name that holds a `/` or ends in `.so` is a path. [`ASKED`](crate::ASKED) is found, but in no list.
///
/// # Errors
/// [`CcError::Unknown`] with the nearest names, [`CcError::Load`], [`CcError::Invalid`].
pub fn find(name: &str) -> Result<Algorithm, CcError> {
    let all = everywhere();
    if name.contains('/') || name.ends_with(".so") {
        return unlike(loading::load(Path::new(name))?, &all);
    }
    if let Some(algorithm) = all.iter().find(|algorithm| algorithm.name() == name) {
        return Ok(algorithm.clone());
    }
    if name == asked::ASKED {
        return Ok(asked::algorithm());
    }
    let known: Vec<String> = all.iter().map(|algorithm| algorithm.name().to_owned()).collect();
    Err(CcError::Unknown { name: name.to_owned(), nearest: nearest(name, &known), known })
}

/// Refuses a loaded congestion control with a registered name, which would make results ambiguous.
fn unlike(loaded: Algorithm, registered: &[Algorithm]) -> Result<Algorithm, CcError> {
    if registered.iter().any(|algorithm| algorithm.name() == loaded.name()) {
        let reason = "this name is registered already; give yours another".to_owned();
        return Err(CcError::Invalid { name: loaded.name().to_owned(), reason });
    }
    Ok(loaded)
}
