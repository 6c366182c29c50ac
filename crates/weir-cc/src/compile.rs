//! Compiles a user's congestion control to a shared object, with the same checks as the registered ones.

use crate::{error::CcError, explain, inspect, library};
use std::{
    env, fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// The headers a congestion control includes, by their path below the include root's parent.
pub(crate) const HEADERS: [(&str, &str); 13] = [
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
const FLAGS: [&str; 19] = [
    "-std=gnu11",
    "-O2",
    "-g",
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
    "-Werror=div-by-zero",
    "-Werror=implicit-function-declaration",
    "-Werror=incompatible-pointer-types",
    "-Werror=int-conversion",
    "-Wl,-z,defs,-z,relro,-z,now",
];

/// What C leaves undefined ends the process at that instruction; no library is needed for that.
const SANITIZE: [&str; 3] = ["-fsanitize=undefined", "-fno-omit-frame-pointer", "-O1"];
const SANITIZE_GCC: &str = "-fsanitize-undefined-trap-on-error";
const SANITIZE_CLANG: &str = "-fsanitize-trap=undefined";

/// Processor seconds that a compiler gets.
const COMPILER_CPU_S: libc::rlim_t = 60;

/// How a congestion control is compiled for the simulator.
#[derive(Clone, Debug, Default)]
pub struct Native {
    /// What C leaves undefined ends the run.
    pub sanitize: bool,
    /// What tells the source from others; the object says it ([`recipe`] says what else decides the object).
    pub built_from: String,
}

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
/// `out` may be a folder: the file is then named after the source. The compiler is `CC`, or `cc`. The result is loaded
/// and checked like a registered congestion control before it replaces what was at `out`.
///
/// # Errors
/// [`CcError::NoCompiler`], [`CcError::Compile`] with the compiler's messages, [`CcError::Invalid`] for a missing
/// operation and the like, [`CcError::Io`].
pub fn build(source: &Path, out: &Path) -> Result<PathBuf, CcError> {
    let out = if out.is_dir() {
        out.join(source.file_stem().unwrap_or(source.as_os_str())).with_extension("so")
    } else {
        out.to_owned()
    };
    let scratch = tempfile::Builder::new().prefix("weir-cc-").tempdir().map_err(io(&env::temp_dir()))?;
    let object = scratch.path().join("cc.so");
    compile(source, &object, &Native::default())?;
    library::load(&object)?;
    install(&object, &out)?;
    Ok(out)
}

/// Compiles the congestion control `source` to the shared object `object`, and loads nothing. Returns the compiler's
/// warnings.
///
/// # Errors
/// As [`build`]; also for variables that all flows would share, and code that would run when the object is loaded.
pub fn compile(source: &Path, object: &Path, native: &Native) -> Result<String, CcError> {
    if !fs::metadata(source).map_err(io(source))?.is_file() {
        return Err(io(source)(std::io::Error::other("not a file")));
    }
    let scratch = tempfile::Builder::new().prefix("weir-cc-").tempdir().map_err(io(&env::temp_dir()))?;
    let include = write_headers(scratch.path())?;
    let made = scratch.path().join("cc.so");
    let compiler = compiler();
    let mut command = Command::new(&compiler);
    command.args(flags(&compiler, native.sanitize));
    command.arg(format!("-DWEIR_CC_SOURCE=\"{}\"", native.built_from));
    command.arg("-I").arg(&include).arg("-o").arg(&made).arg(source);
    // The linker's messages name the compiler's temporary files.
    command.env("TMPDIR", scratch.path());
    let output = run(&mut command).map_err(|_| CcError::NoCompiler { tried: compiler })?;
    let refused = |messages: String| CcError::Compile { source_file: source.to_owned(), messages };
    let text = messages(&output, scratch.path());
    if !output.status.success() {
        return Err(refused(explain::explained(&text, source)));
    }
    let bytes = fs::read(&made).map_err(io(&made))?;
    let name = source.display();
    if let Some(reason) = library::shares_state(&inspect::variables(&bytes).map_err(&refused)?) {
        return Err(refused(format!("{name}: {reason}")));
    }
    if inspect::runs_at_load(&bytes) {
        return Err(refused(format!("{name}: it has code that runs when it is loaded (a constructor or destructor)")));
    }
    install(&made, object)?;
    Ok(text)
}

/// What decides an object beside its source: compiler, flags and headers, as a text whose hash can name a cache's entry.
///
/// # Errors
/// [`CcError::NoCompiler`].
pub fn recipe(sanitize: bool) -> Result<String, CcError> {
    let compiler = compiler();
    let version = Command::new(&compiler).arg("--version").stdin(Stdio::null()).output();
    let version = version.map_err(|_| CcError::NoCompiler { tried: compiler.clone() })?;
    let mut text = format!("{compiler}\n{}", String::from_utf8_lossy(&version.stdout));
    for part in flags(&compiler, sanitize).into_iter().chain(HEADERS.into_iter().map(|(_, header)| header)) {
        text.push_str(part);
        text.push('\0');
    }
    Ok(text)
}

fn compiler() -> String {
    env::var("CC").unwrap_or_else(|_| "cc".to_owned())
}

fn flags(compiler: &str, sanitize: bool) -> Vec<&'static str> {
    let mut flags = FLAGS.to_vec();
    if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        flags.push("-mgeneral-regs-only");
    }
    if sanitize {
        flags.extend(SANITIZE);
        flags.push(if is_clang(compiler) { SANITIZE_CLANG } else { SANITIZE_GCC });
    }
    flags
}

fn is_clang(compiler: &str) -> bool {
    let output = Command::new(compiler).arg("--version").stdin(Stdio::null()).output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("clang"))
}

/// Runs a compiler, in English and with a bound: a source may include what never ends.
fn run(command: &mut Command) -> std::io::Result<Output> {
    command.stdin(Stdio::null()).env("LC_ALL", "C");
    // SAFETY: only a system call that may be made between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit { rlim_cur: COMPILER_CPU_S, rlim_max: COMPILER_CPU_S };
            libc::setrlimit(libc::RLIMIT_CPU, &raw const limit);
            Ok(())
        });
    }
    command.output()
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
    let mut command = Command::new(&clang);
    command
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-c", "-I"])
        .arg(&include)
        .args(defines.iter().map(|define| format!("-D{define}")))
        .arg("-o")
        .arg(&object)
        .arg(source)
        // clang leaves a bug report behind for what its BPF backend does not know, signed division for one.
        .env("TMPDIR", scratch.path());
    Ok(match run(&mut command) {
        Err(_) => BpfBuild::NoClang(clang),
        Ok(output) if output.status.success() => BpfBuild::Object(fs::read(&object).map_err(io(&object))?),
        Ok(output) => BpfBuild::Refused(explain::explained(&messages(&output, scratch.path()), source)),
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
