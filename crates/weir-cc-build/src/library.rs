//! Loads a congestion control from a shared object.
//!
//! A shared object is a program: its constructors run when it is opened. So a process loads one only after it has
//! called [`permit_loading`]; the processes of the command line never do.

use crate::inspect;
use libloading::Library;
use rustix::fs::{MemfdFlags, memfd_create};
use std::{
    collections::BTreeMap,
    ffi::c_void,
    fs,
    io::Write,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    sync::{
        LazyLock, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::SystemTime,
};
use weir_cc::{ABI, Algorithm, CcError, Loading};

/// A file's identity: the same path built again is another library.
type Key = (PathBuf, Option<SystemTime>, u64);

static LOADED: LazyLock<Mutex<BTreeMap<Key, Algorithm>>> = LazyLock::new(Mutex::default);
static PERMITTED: AtomicBool = AtomicBool::new(false);

/// Largest file that is read.
const MAX_BYTES: u64 = 64 << 20;

/// From now on this process may load users' congestion controls.
pub fn permit_loading() {
    PERMITTED.store(true, Relaxed);
    weir_cc::load_with(load);
}

/// The congestion control in the shared object at `path`. It stays loaded for the life of the process.
pub(crate) fn load(path: &Path) -> Result<Algorithm, CcError> {
    let fail = |reason: String| CcError::Load { path: path.to_owned(), reason };
    if !PERMITTED.load(Relaxed) {
        return Err(fail("a shared object is a program, and this process loads none".into()));
    }
    let key = identify(path)?;
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(algorithm) = loaded.get(&key) {
        return Ok(algorithm.clone());
    }
    let algorithm = open(path)?;
    loaded.insert(key, algorithm.clone());
    Ok(algorithm)
}

fn identify(path: &Path) -> Result<Key, CcError> {
    let io = |error| CcError::Io { path: path.to_owned(), error };
    let canonical = fs::canonicalize(path).map_err(io)?;
    let metadata = fs::metadata(&canonical).map_err(io)?;
    if !metadata.is_file() || metadata.len() > MAX_BYTES {
        let reason = format!("it is no file of at most {} MiB", MAX_BYTES >> 20);
        return Err(CcError::Load { path: path.to_owned(), reason });
    }
    Ok((canonical, metadata.modified().ok(), metadata.len()))
}

fn open(path: &Path) -> Result<Algorithm, CcError> {
    let fail = |reason: String| CcError::Load { path: path.to_owned(), reason };
    let bytes = fs::read(path).map_err(|error| CcError::Io { path: path.to_owned(), error })?;
    if let Some(reason) = shares_state(&inspect::variables(&bytes).map_err(&fail)?) {
        return Err(fail(reason));
    }
    // The dynamic linker identifies libraries by their file: load a copy. It has no name, so that nothing is left
    // behind, and even a process that may write no file can make it.
    let held = unnamed(&bytes).map_err(|error| fail(error.to_string()))?;
    let copy = format!("/proc/self/fd/{}", held.as_raw_fd());
    let mut loading = Loading::begin(path);
    // SAFETY: its constructors affect only a process that exists for this purpose.
    let library = unsafe { Library::new(&copy) };
    loading.opened();
    let library = library.map_err(|error| fail(error.to_string().replace(&copy, "the file")))?;
    // Never unloaded: algorithms are handed out for the life of the process. The linker knows it by this descriptor
    // number, which must not be reused.
    std::mem::forget(held);
    let library: &'static Library = Box::leak(Box::new(library));
    // SAFETY: the symbol is a u32 in every version of the interface.
    let abi = unsafe { library.get::<*const u32>(b"weir_cc_abi\0") }
        .map_err(|_| fail("it was not built by `weir cc build` (no symbol weir_cc_abi)".into()))?;
    loading.loaded_at(base_of((*abi).cast()));
    // SAFETY: the address of a constant in a library that stays loaded.
    let abi = unsafe { **abi };
    if abi != ABI {
        return Err(fail(format!("it was built for interface version {abi}, this is version {ABI}; build it again")));
    }
    // SAFETY: the address of a symbol, which is not followed here.
    let entry = unsafe { library.get::<*const c_void>(b"weir_cc_entry\0") }
        .map_err(|_| fail("it registers no congestion control (no symbol weir_cc_entry)".into()))?;
    // SAFETY: with this version of the interface the symbol is a table of operations, in a library that stays loaded.
    unsafe { loading.algorithm(*entry) }
}

/// A file without a name, of this content.
fn unnamed(bytes: &[u8]) -> std::io::Result<fs::File> {
    let mut file = fs::File::from(memfd_create("weir-cc", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file)
}

/// Why variables of the object are a mistake, if it has any.
pub(crate) fn shares_state(variables: &[String]) -> Option<String> {
    (!variables.is_empty()).then(|| {
        format!(
            "all flows would share its variables: {}; what a flow remembers is in its private state (inet_csk_ca), what \
             never changes is const",
            variables.join(", ")
        )
    })
}

/// Load address of the object that contains `address`; zero if unknown.
fn base_of(address: *const libc::c_void) -> usize {
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: it fills `found`, or says that it did not.
    if unsafe { libc::dladdr(address, found.as_mut_ptr()) } == 0 {
        return 0;
    }
    // SAFETY: filled above.
    unsafe { found.assume_init() }.dli_fbase as usize
}
