//! How a congestion control that a user built gets here. This crate opens no file: a process that is there for users'
//! controls brings a [`Loader`], which `weir-cc-build` has.

use crate::{
    algorithm::Algorithm,
    error::CcError,
    guard::Foreign,
    ops::Ops,
    watch::{self, Operation},
};
use std::{ffi::c_void, path::Path, sync::OnceLock};

/// Loads the congestion control in the shared object at a path, which stays loaded for the life of the process.
pub type Loader = fn(&Path) -> Result<Algorithm, CcError>;

static LOADER: OnceLock<Loader> = OnceLock::new();

/// From now on [`find`](crate::find) takes paths, and asks `loader` for what is there. The first loader stays.
pub fn load_with(loader: Loader) {
    LOADER.get_or_init(|| loader);
}

pub(crate) fn load(path: &Path) -> Result<Algorithm, CcError> {
    let Some(loader) = LOADER.get() else {
        let reason = "a shared object is a program, and this process loads none".to_owned();
        return Err(CcError::Load { path: path.to_owned(), reason });
    };
    loader(path)
}

/// A congestion control that is being loaded, in the record of calls: its constructors may loop or crash.
#[derive(Debug)]
pub struct Loading {
    path: String,
    slot: u32,
}

impl Loading {
    /// The shared object at `path` will be opened now.
    pub fn begin(path: &Path) -> Loading {
        let path = path.display().to_string();
        let slot = watch::register(&path);
        watch::begin(slot, Operation::Load, 0);
        Loading { path, slot }
    }

    /// It is open, or could not be opened.
    pub fn opened(&mut self) {
        watch::end();
    }

    /// Its object is at `address` in memory; zero if nobody knows.
    pub fn loaded_at(&mut self, address: usize) {
        watch::set_base(self.slot, address);
    }

    /// The congestion control that it registers.
    ///
    /// # Errors
    /// [`CcError::Invalid`] for operations that Linux would refuse, too.
    ///
    /// # Safety
    /// `entry` is the symbol `weir_cc_entry` of an object that is never unloaded and was built for interface version
    /// [`ABI`](crate::ABI).
    pub unsafe fn algorithm(self, entry: *const c_void) -> Result<Algorithm, CcError> {
        // SAFETY: as the caller promises; the constant lives as long as the object, that is, for ever.
        let algorithm = Algorithm::check(unsafe { &*entry.cast::<Ops>() })?;
        let state_bytes = algorithm.ops.priv_size as usize;
        let foreign = Foreign { path: Box::leak(self.path.into_boxed_str()), slot: self.slot, state_bytes };
        Ok(Algorithm { foreign: Some(Box::leak(Box::new(foreign))), ..algorithm })
    }
}
