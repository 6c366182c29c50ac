//! From a scenario's name to a BPF object: registered congestion controls, and a user's own C file.

use crate::{error::BpfError, object::CompiledCc};
use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
};
use weir_cc::CcError;
use weir_cc_build::{BpfBuild, Confinement, Sources, compile_bpf};

/// A congestion control of `cc/`, as of weir's build.
pub(crate) struct Embedded {
    name: &'static str,
    source: &'static str,
    /// For this shim's `cong_control`, that of Linux 6.10 and later; none if there was no clang.
    object: Option<&'static [u8]>,
    /// For the `cong_control` of older kernels, if it has the operation.
    before_6_10: Option<&'static [u8]>,
}

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// Largest object that another machine has compiled, bytes: what the compiler may make here.
const MAX_OBJECT: u64 = 8 << 20;

static TRUSTED: AtomicBool = AtomicBool::new(false);

/// From now on this process compiles unconfined: it trusts its sources, such as those of tests.
pub fn trust_sources() {
    TRUSTED.store(true, Ordering::Relaxed);
}

/// The confinement of compilers.
///
/// # Errors
/// [`CcError::Unconfined`]: there is none.
pub(crate) fn confinement() -> Result<Confinement, CcError> {
    if TRUSTED.load(Ordering::Relaxed) { Ok(Confinement::Off) } else { Confinement::of_program() }
}

/// The source of a congestion control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A name of `cc/registry.txt`.
    Registered(String),
    /// A C file.
    File(PathBuf),
}

impl Source {
    /// Resolves `cc`: a name, or the path of a C file.
    ///
    /// # Errors
    /// [`CcError::Unknown`] for a name; [`BpfError::Source`] for a shared object: the caller knows its source.
    pub fn of(cc: &str) -> Result<Source, BpfError> {
        let path = Path::new(cc);
        if cc.ends_with(".so") {
            let reason = "the kernel needs its source: name the C file".to_owned();
            return Err(BpfError::Source { path: path.to_owned(), reason });
        }
        if cc.contains('/') || cc.ends_with(".c") {
            return Ok(Source::File(path.to_owned()));
        }
        weir_cc::find(cc)?;
        Ok(Source::Registered(cc.to_owned()))
    }
}

/// The BPF object of a source, embedded or compiled now with `defines` for the shim.
///
/// # Errors
/// [`BpfError::NoClang`], [`BpfError::Compile`], [`BpfError::Object`].
pub fn compiled(source: &Source, old_cong_control: bool, defines: &[&str]) -> Result<CompiledCc, BpfError> {
    let mut defines = defines.to_vec();
    let (cc, bytes) = match source {
        Source::Registered(name) => {
            let embedded = EMBEDDED.iter().find(|embedded| embedded.name == name);
            let embedded =
                embedded.ok_or_else(|| BpfError::Cc(weir_cc::find(name).err().unwrap_or_else(|| unlisted(name))))?;
            if let (Some(object), []) = (embedded.for_kernel(old_cong_control), &defines[..]) {
                return CompiledCc::parse(name, object.to_vec());
            }
            if old_cong_control {
                defines.push("WEIR_OLD_CONG_CONTROL");
            }
            (name.clone(), compile_text(name, embedded.source, &defines)?)
        }
        Source::File(path) => {
            if old_cong_control {
                defines.push("WEIR_OLD_CONG_CONTROL");
            }
            (path.display().to_string(), compile(&path.display().to_string(), path, &defines)?)
        }
    };
    CompiledCc::parse(&cc, bytes)
}

/// The BPF object of `cc` in the file `path`, which another machine has compiled for this kernel.
///
/// # Errors
/// [`BpfError::Io`]; [`BpfError::Object`] if it is none of weir's shim.
pub(crate) fn compiled_elsewhere(cc: &str, path: &Path) -> Result<CompiledCc, BpfError> {
    let io = |error| BpfError::Io { path: path.to_owned(), error };
    let mut bytes = Vec::new();
    fs::File::open(path).map_err(io)?.take(MAX_OBJECT + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MAX_OBJECT {
        let reason = format!("it has more than {MAX_OBJECT} bytes");
        return Err(BpfError::Object { cc: cc.to_owned(), reason });
    }
    CompiledCc::parse(cc, bytes)
}

/// Why registered congestion controls cannot be loaded for lack of their objects, if so.
pub(crate) fn missing() -> Option<BpfError> {
    let without = EMBEDDED.iter().find(|embedded| embedded.object.is_none())?;
    let tried = std::env::var("WEIR_CLANG").unwrap_or_else(|_| "clang".to_owned());
    let found = Command::new(&tried).arg("--version").output().is_ok();
    (!found).then(|| BpfError::NoClang { cc: without.name.to_owned(), tried })
}

impl Embedded {
    fn for_kernel(&self, old_cong_control: bool) -> Option<&'static [u8]> {
        self.before_6_10.filter(|_| old_cong_control).or(self.object)
    }
}

/// A bug of the build: the table of objects and weir-cc's registry come from one file.
fn unlisted(name: &str) -> CcError {
    CcError::Invalid { name: name.to_owned(), reason: "weir-bpf was built without it; build it again".into() }
}

fn compile_text(cc: &str, text: &str, defines: &[&str]) -> Result<Vec<u8>, BpfError> {
    let io = |path: &Path, error| BpfError::Io { path: path.to_owned(), error };
    let folder =
        tempfile::Builder::new().prefix("weir-bpf-").tempdir().map_err(|error| io(&std::env::temp_dir(), error))?;
    let path = folder.path().join(format!("{cc}.c"));
    fs::write(&path, text).map_err(|error| io(&path, error))?;
    compile(cc, &path, defines)
}

fn compile(cc: &str, path: &Path, defines: &[&str]) -> Result<Vec<u8>, BpfError> {
    match compile_bpf(&Sources::read(path)?, defines, &confinement()?)? {
        BpfBuild::Object(bytes) => Ok(bytes),
        BpfBuild::Refused(messages) => Err(BpfError::Compile { cc: cc.to_owned(), messages }),
        BpfBuild::NoClang(tried) => Err(BpfError::NoClang { cc: cc.to_owned(), tried }),
    }
}
