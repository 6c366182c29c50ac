//! Compiles a user's congestion control to a shared object, with the same checks as the registered ones.

use crate::{error::CcError, library};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// The headers a congestion control includes, by their path below the include root's parent.
const HEADERS: [(&str, &str); 13] = [
    ("include/weir_cc.h", include_str!("../../../cc/include/weir_cc.h")),
    ("include/weir_tcp.h", include_str!("../../../cc/include/weir_tcp.h")),
    ("include/weir_window.h", include_str!("../../../cc/include/weir_window.h")),
    ("include/weir_cubic.h", include_str!("../../../cc/include/weir_cubic.h")),
    ("include/weir_slow_start.h", include_str!("../../../cc/include/weir_slow_start.h")),
    ("shim/native.h", include_str!("../../../cc/shim/native.h")),
    ("shim/sock.h", include_str!("../../../cc/shim/sock.h")),
    ("shim/access.h", include_str!("../../../cc/shim/access.h")),
    ("shim/call.h", include_str!("../../../cc/shim/call.h")),
    ("shim/replay.h", include_str!("../../../cc/shim/replay.h")),
    ("shim/record.h", include_str!("../../../cc/shim/record.h")),
    ("shim/bpf.h", include_str!("../../../cc/shim/bpf.h")),
    ("shim/kmod.h", include_str!("../../../cc/shim/kmod.h")),
];

/// Kernel C without libc. What the kernel or BPF would refuse is an error: a write to a field that is not writable, also
/// through a cast, floating point, an undeclared function.
const FLAGS: [&str; 17] = [
    "-std=gnu11",
    "-O2",
    "-fPIC",
    "-shared",
    "-nostdlib",
    "-ffreestanding",
    "-fvisibility=hidden",
    "-fno-strict-aliasing",
    "-DWEIR_CC_SHARED",
    "-Wall",
    "-Wextra",
    "-Werror=cast-qual",
    "-Werror=discarded-qualifiers",
    "-Werror=implicit-function-declaration",
    "-Werror=incompatible-pointer-types",
    "-Werror=int-conversion",
    "-Wl,-z,defs",
];

/// Whether a source is in the subset of C that the kernel's BPF accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BpfCheck {
    /// It compiles for BPF. (The kernel's verifier has the last word when it is loaded.)
    Accepted,
    /// It does not compile for BPF; the compiler's messages.
    Refused(String),
    /// There is no clang on this machine; the command tried.
    NoClang(String),
}

/// Writes the headers a congestion control includes below `folder`, for editors and for builds outside weir. Returns
/// the include path, `folder/include`.
///
/// # Errors
/// [`CcError::Io`].
pub fn write_headers(folder: &Path) -> Result<PathBuf, CcError> {
    for (name, text) in HEADERS {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(io(parent))?;
        fs::write(&path, text).map_err(io(&path))?;
    }
    Ok(folder.join("include"))
}

/// Compiles the congestion control `source` to the shared object `out`, which [`find`](crate::find) then loads by path.
///
/// `out` may be a folder: the file is then named after the source. The compiler is `CC`, or `cc`. The result is checked
/// like a registered congestion control before it replaces what was at `out`.
///
/// # Errors
/// [`CcError::NoCompiler`], [`CcError::Compile`] with the compiler's messages, [`CcError::Invalid`] for a missing
/// operation and the like, [`CcError::Io`].
pub fn build(source: &Path, out: &Path) -> Result<PathBuf, CcError> {
    fs::metadata(source).map_err(io(source))?;
    let out = if out.is_dir() {
        out.join(source.file_stem().unwrap_or(source.as_os_str())).with_extension("so")
    } else {
        out.to_owned()
    };
    let scratch = tempfile::Builder::new().prefix("weir-cc-").tempdir().map_err(io(&env::temp_dir()))?;
    let include = write_headers(scratch.path())?;
    let object = scratch.path().join("cc.so");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut command = Command::new(&compiler);
    command.args(FLAGS);
    if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        command.arg("-mgeneral-regs-only");
    }
    command.arg("-I").arg(&include).arg("-o").arg(&object).arg(source);
    let output = command.output().map_err(|_| CcError::NoCompiler { tried: compiler })?;
    if !output.status.success() {
        return Err(CcError::Compile { source_file: source.to_owned(), messages: messages(&output, scratch.path()) });
    }
    library::load(&object)?;
    install(&object, &out)?;
    Ok(out)
}

/// What came of compiling a source for BPF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BpfBuild {
    /// The ELF object.
    Object(Vec<u8>),
    /// It does not compile; the compiler's messages.
    Refused(String),
    /// There is no clang on this machine; the command tried.
    NoClang(String),
}

/// Compiles `source` for BPF, as it will be for the host kernel, and discards the result.
///
/// # Errors
/// [`CcError::Io`].
pub fn check_bpf(source: &Path) -> Result<BpfCheck, CcError> {
    Ok(match compile_bpf(source, &[])? {
        BpfBuild::Object(_) => BpfCheck::Accepted,
        BpfBuild::Refused(messages) => BpfCheck::Refused(messages),
        BpfBuild::NoClang(tried) => BpfCheck::NoClang(tried),
    })
}

/// Compiles `source` to a BPF object for the host kernel, with `defines` (`NAME` or `NAME=VALUE`) for the shim.
///
/// The compiler is `WEIR_CLANG`, or `clang`.
///
/// # Errors
/// [`CcError::Io`].
pub fn compile_bpf(source: &Path, defines: &[&str]) -> Result<BpfBuild, CcError> {
    fs::metadata(source).map_err(io(source))?;
    let scratch = tempfile::Builder::new().prefix("weir-cc-").tempdir().map_err(io(&env::temp_dir()))?;
    let include = write_headers(scratch.path())?;
    let object = scratch.path().join("cc.o");
    let clang = env::var("WEIR_CLANG").unwrap_or_else(|_| "clang".to_owned());
    let output = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-c", "-I"])
        .arg(&include)
        .args(defines.iter().map(|define| format!("-D{define}")))
        .arg("-o")
        .arg(&object)
        .arg(source)
        // clang leaves a bug report behind for what its BPF backend does not know, signed division for one.
        .env("TMPDIR", scratch.path())
        .output();
    Ok(match output {
        Err(_) => BpfBuild::NoClang(clang),
        Ok(output) if output.status.success() => BpfBuild::Object(fs::read(&object).map_err(io(&object))?),
        Ok(output) => BpfBuild::Refused(messages(&output, scratch.path())),
    })
}

/// The compiler's messages without the name of the temporary folder, and without clang's own trace.
fn messages(output: &Output, scratch: &Path) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let text = text.split("PLEASE submit a bug report").next().unwrap_or("");
    text.replace(&format!("{}/", scratch.display()), "cc/").trim_end().to_owned()
}

/// Copies next to `out`, then renames: a reader sees the old file or the new one.
fn install(object: &Path, out: &Path) -> Result<(), CcError> {
    let folder = match out.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let temporary = tempfile::NamedTempFile::new_in(folder).map_err(io(folder))?;
    fs::copy(object, temporary.path()).map_err(io(temporary.path()))?;
    temporary.persist(out).map_err(|failed| CcError::Io { path: out.to_owned(), error: failed.error })?;
    Ok(())
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> CcError {
    let path = path.to_owned();
    move |error| CcError::Io { path: path.clone(), error }
}
