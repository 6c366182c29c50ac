//! Compiles a user's congestion control to a shared object, with the same checks as for registered ones.

use crate::{
    confined::{Confinement, NotRun},
    dependencies, explain, inspect, library,
    sources::Sources,
};
use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use weir_cc::CcError;

/// The headers that a congestion control includes, by their path below the include root's parent.
pub(crate) const HEADERS: [(&str, &str); 21] = [
    ("include/weir_cc.h", include_str!("../../../cc/include/weir_cc.h")),
    ("include/weir_tcp.h", include_str!("../../../cc/include/weir_tcp.h")),
    ("include/weir_window.h", include_str!("../../../cc/include/weir_window.h")),
    ("include/weir_cubic.h", include_str!("../../../cc/include/weir_cubic.h")),
    ("include/weir_slow_start.h", include_str!("../../../cc/include/weir_slow_start.h")),
    ("include/weir_search.h", include_str!("../../../cc/include/weir_search.h")),
    ("include/weir_vegas.h", include_str!("../../../cc/include/weir_vegas.h")),
    ("include/weir_minmax.h", include_str!("../../../cc/include/weir_minmax.h")),
    ("shim/undefined.h", include_str!("../../../cc/shim/undefined.h")),
    ("shim/native.h", include_str!("../../../cc/shim/native.h")),
    ("shim/sock.h", include_str!("../../../cc/shim/sock.h")),
    ("shim/access.h", include_str!("../../../cc/shim/access.h")),
    ("shim/echo.h", include_str!("../../../cc/shim/echo.h")),
    ("shim/probe.h", include_str!("../../../cc/shim/probe.h")),
    ("shim/random.h", include_str!("../../../cc/shim/random.h")),
    ("shim/stamps.h", include_str!("../../../cc/shim/stamps.h")),
    ("shim/call.h", include_str!("../../../cc/shim/call.h")),
    ("shim/replay.h", include_str!("../../../cc/shim/replay.h")),
    ("shim/record.h", include_str!("../../../cc/shim/record.h")),
    ("shim/bpf.h", include_str!("../../../cc/shim/bpf.h")),
    ("shim/kmod.h", include_str!("../../../cc/shim/kmod.h")),
];

/// Kernel C without libc. Constructs that the kernel or BPF would refuse are errors: a write to a read-only field, even
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

/// Undefined behaviour ends the process; needs no library.
const SANITIZE: [&str; 3] = ["-fsanitize=undefined", "-fno-omit-frame-pointer", "-O1"];
/// It calls a function of `shim/undefined.h`, which says what is undefined.
const SANITIZE_CALLS: [&str; 2] = ["-fno-sanitize-recover=undefined", "-DWEIR_CC_SANITIZE"];
/// It is a trap, on processors that the header does not know.
const SANITIZE_TRAPS: [&str; 1] = ["-fsanitize-undefined-trap-on-error"];

/// Largest object, bytes.
const MAX_BYTES: u64 = 8 << 20;

/// Options of compiling a congestion control for the simulator.
#[derive(Clone, Debug, Default)]
pub struct Native {
    /// Undefined behaviour ends the run.
    pub sanitize: bool,
    /// The identity of the source, which the object records ([`recipe`] lists the other inputs of the object).
    pub built_from: String,
}

/// Whether a source is in the subset of C that the kernel's BPF accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BpfCheck {
    /// It compiles for BPF. (The kernel's verifier decides when it is loaded.)
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

/// Compiles the congestion control `source` to the shared object `out`, which [`find`](weir_cc::find) then loads by path.
///
/// `out` may be a folder: the file is then named after the source. The compiler is `CC`, or `cc`. The result is loaded
/// and checked like a registered congestion control before it replaces `out`.
///
/// # Errors
/// [`CcError::NoCompiler`], [`CcError::Compile`] with the compiler's messages, [`CcError::Invalid`] for a missing
/// operation and the like, [`CcError::Unconfined`], [`CcError::Source`], [`CcError::Io`].
pub fn build(source: &Path, out: &Path, confinement: &Confinement) -> Result<PathBuf, CcError> {
    let out = if out.is_dir() {
        out.join(source.file_stem().unwrap_or(source.as_os_str())).with_extension("so")
    } else {
        out.to_owned()
    };
    let scratch = Scratch::new()?;
    let object = scratch.folder.path().join("built.so");
    compile(&Sources::read(source)?, &object, &Native::default(), confinement)?;
    library::load(&object)?;
    install(&fs::read(&object).map_err(io(&object))?, &out)?;
    Ok(out)
}

/// Compiles the congestion control `sources` to the shared object `object`, and loads nothing. Returns the compiler's
/// warnings.
///
/// # Errors
/// As [`build`]; also for variables that all flows would share, and code that would run when the object is loaded.
pub fn compile(
    sources: &Sources,
    object: &Path,
    native: &Native,
    confinement: &Confinement,
) -> Result<String, CcError> {
    let scratch = Scratch::of(sources)?;
    let compiler = compiler();
    let mut arguments: Vec<OsString> = flags(native.sanitize).into_iter().map(OsString::from).collect();
    arguments.push(format!("-DWEIR_CC_SOURCE=\"{}\"", native.built_from).into());
    let refused = |messages: String| CcError::Compile { source_file: sources.path.clone(), messages };
    let (made, text) = match scratch.compile(&compiler, arguments, sources, confinement)? {
        Made::Object(bytes, warnings) => (bytes, warnings),
        Made::Refused(messages) => return Err(refused(messages)),
        Made::NoCompiler => return Err(CcError::NoCompiler { tried: compiler }),
    };
    let name = sources.path.display();
    if let Some(reason) = library::shares_state(&inspect::variables(&made).map_err(&refused)?) {
        return Err(refused(format!("{name}: {reason}")));
    }
    if !inspect::exports(&made, "weir_cc_abi") {
        let reason = "it has no line WEIR_CC_REGISTER(...), which registers its operations (see cc/include/weir_cc.h)";
        return Err(refused(format!("{name}: {reason}")));
    }
    if inspect::runs_at_load(&made) {
        return Err(refused(format!("{name}: it has code that runs when it is loaded (a constructor or destructor)")));
    }
    install(&made, object)?;
    Ok(text)
}

/// The inputs of an object besides its source: compiler, flags and headers, as a text whose hash can be a cache key.
///
/// # Errors
/// [`CcError::NoCompiler`].
pub fn recipe(sanitize: bool) -> Result<String, CcError> {
    let compiler = compiler();
    let version = Command::new(&compiler).arg("--version").stdin(Stdio::null()).output();
    let version = version.map_err(|_| CcError::NoCompiler { tried: compiler.clone() })?;
    let mut text = format!("{compiler}\n{}", String::from_utf8_lossy(&version.stdout));
    for part in flags(sanitize).into_iter().chain(HEADERS.into_iter().map(|(_, header)| header)) {
        text.push_str(part);
        text.push('\0');
    }
    Ok(text)
}

fn compiler() -> String {
    command_of("CC", "cc")
}

/// The command in a variable, or `usual`; made absolute if it is a path, because it runs in another folder.
fn command_of(variable: &str, usual: &str) -> String {
    let named = env::var(variable).ok().filter(|name| !name.is_empty()).unwrap_or_else(|| usual.to_owned());
    if named.contains('/') {
        let absolute = std::path::absolute(&named).ok().and_then(|path| path.to_str().map(str::to_owned));
        return absolute.unwrap_or(named);
    }
    named
}

fn flags(sanitize: bool) -> Vec<&'static str> {
    let mut flags = FLAGS.to_vec();
    let known = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
    if known {
        flags.push("-mgeneral-regs-only");
    }
    if sanitize {
        flags.extend(SANITIZE);
        flags.extend(if known { &SANITIZE_CALLS[..] } else { &SANITIZE_TRAPS });
    }
    flags
}

/// The result of compiling a source for BPF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BpfBuild {
    /// The ELF object.
    Object(Vec<u8>),
    /// It does not compile; the compiler's messages.
    Refused(String),
    /// There is no clang on this machine; the command tried.
    NoClang(String),
}

/// Compiles `sources` for BPF, as for the host kernel, and discards the result.
///
/// # Errors
/// As [`compile_bpf`].
pub fn check_bpf(sources: &Sources, confinement: &Confinement) -> Result<BpfCheck, CcError> {
    Ok(match compile_bpf(sources, &[], confinement)? {
        BpfBuild::Object(_) => BpfCheck::Accepted,
        BpfBuild::Refused(messages) => BpfCheck::Refused(messages),
        BpfBuild::NoClang(tried) => BpfCheck::NoClang(tried),
    })
}

/// Compiles `sources` to a BPF object for the host kernel, with `defines` (`NAME` or `NAME=VALUE`) for the shim.
///
/// The compiler is `WEIR_CLANG`, or `clang`.
///
/// # Errors
/// [`CcError::Unconfined`], [`CcError::Io`].
pub fn compile_bpf(sources: &Sources, defines: &[&str], confinement: &Confinement) -> Result<BpfBuild, CcError> {
    let scratch = Scratch::of(sources)?;
    let clang = command_of("WEIR_CLANG", "clang");
    let mut arguments: Vec<OsString> =
        ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-c"].into_iter().map(OsString::from).collect();
    arguments.extend(defines.iter().map(|define| format!("-D{define}").into()));
    Ok(match scratch.compile(&clang, arguments, sources, confinement)? {
        Made::Object(bytes, _) => BpfBuild::Object(bytes),
        Made::Refused(messages) => BpfBuild::Refused(messages),
        Made::NoCompiler => BpfBuild::NoClang(clang),
    })
}

/// A folder with weir's headers and a copy of the sources, in which the compiler works.
///
/// The C file gets a fixed name, because compilers take some names for options. Headers keep theirs: they are never
/// arguments of a compiler.
struct Scratch {
    folder: tempfile::TempDir,
}

/// Where compilers of most systems have their headers, such as stdint.h.
const USUAL: [&str; 4] = ["/usr/include", "/usr/lib", "/usr/lib64", "/usr/local/include"];
const MAIN: &str = "main/control.c";
const HEADERS_OF_USER: &str = "user";
const HEADERS_OF_WEIR: &str = "cc";

/// The result of compiling.
enum Made {
    /// The object, and the compiler's warnings.
    Object(Vec<u8>, String),
    /// What is wrong with the source.
    Refused(String),
    NoCompiler,
}

impl Scratch {
    fn new() -> Result<Scratch, CcError> {
        let folder = tempfile::Builder::new().prefix("weir-cc-").tempdir().map_err(io(&env::temp_dir()))?;
        Ok(Scratch { folder })
    }

    fn of(sources: &Sources) -> Result<Scratch, CcError> {
        let scratch = Scratch::new()?;
        let root = scratch.folder.path();
        write_headers(&root.join(HEADERS_OF_WEIR))?;
        let user = root.join(HEADERS_OF_USER);
        fs::create_dir(&user).map_err(io(&user))?;
        let headers = sources.headers.iter().map(|(name, content)| (user.join(name), content));
        for (path, content) in headers.chain([(root.join(MAIN), &sources.main)]) {
            let parent = path.parent().unwrap_or(root);
            fs::create_dir_all(parent).map_err(io(parent))?;
            fs::write(&path, content).map_err(io(&path))?;
        }
        Ok(scratch)
    }

    fn object(&self) -> PathBuf {
        self.folder.path().join("made")
    }

    fn compile(
        &self,
        compiler: &str,
        mut arguments: Vec<OsString>,
        sources: &Sources,
        confinement: &Confinement,
    ) -> Result<Made, CcError> {
        let root = self.folder.path();
        arguments.extend(self.shown(sources).map(|(ours, theirs)| {
            let mut map = OsString::from("-ffile-prefix-map=");
            map.push(ours);
            map.push("=");
            map.push(theirs);
            map
        }));
        let include = root.join(HEADERS_OF_WEIR).join("include");
        let rule = root.join("rule");
        arguments.push("-MD".into());
        for (option, path) in
            [("-MF", rule.clone()), ("-iquote", root.join(HEADERS_OF_USER)), ("-I", include), ("-o", self.object())]
        {
            arguments.extend([OsString::from(option), path.into()]);
        }
        arguments.push(root.join(MAIN).into());
        let arguments: Vec<_> = arguments.iter().map(OsString::as_os_str).collect();
        let ended = match confinement.run(compiler, &arguments, root) {
            Ok(ended) => ended,
            Err(NotRun::Absent) => return Ok(Made::NoCompiler),
            Err(NotRun::Failed(error)) => return Err(error),
        };
        let text = self.messages(&ended.messages, sources);
        if !ended.status.success() {
            let text = if text.is_empty() { format!("{compiler} ended with {}", ended.status) } else { text };
            return Ok(Made::Refused(explain::explained(&text, sources)));
        }
        let read = dependencies::files(&content(&rule)?);
        if let Some(foreign) = self.foreign(&read, compiler, confinement) {
            let name = sources.path.display();
            let reason = "that is neither below the folder of the source nor the compiler's: put it beside the source";
            return Ok(Made::Refused(format!("{name}: it includes {}, {reason}", foreign.display())));
        }
        let bytes = content(&self.object())?;
        if bytes.len() as u64 > MAX_BYTES {
            let name = sources.path.display();
            return Ok(Made::Refused(format!("{name}: its object has more than {} MiB", MAX_BYTES >> 20)));
        }
        Ok(Made::Object(bytes, text))
    }

    /// The first file read that is neither in this folder nor in those that the compiler searches.
    fn foreign<'a>(&self, read: &'a [PathBuf], compiler: &str, confinement: &Confinement) -> Option<&'a Path> {
        let root = self.folder.path();
        let mut folders: Vec<_> = USUAL.into_iter().map(PathBuf::from).chain([root.to_owned()]).collect();
        dependencies::first_outside(read, &folders)?;
        // Asking takes as long as compiling.
        let asked = ["-E", "-v", "-x", "c", "/dev/null"].map(OsStr::new);
        let said = confinement.run(compiler, &asked, root).map(|ended| ended.messages).unwrap_or_default();
        folders.extend(dependencies::searched(&said));
        dependencies::first_outside(read, &folders)
    }

    /// The paths of this folder in messages and debug lines, and the names that a user knows for them.
    fn shown(&self, sources: &Sources) -> impl Iterator<Item = (OsString, OsString)> + use<> {
        let root = self.folder.path();
        let folder = match sources.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.join("").into_os_string(),
            _ => OsString::new(),
        };
        let main = (root.join(MAIN).into_os_string(), sources.path.clone().into_os_string());
        [(root.join(HEADERS_OF_USER).join("").into_os_string(), folder), main].into_iter()
    }

    /// The compiler's messages with the names that a user knows, and without clang's own trace.
    fn messages(&self, text: &str, sources: &Sources) -> String {
        let mut text = text.split("PLEASE submit a bug report").next().unwrap_or("").to_owned();
        for (ours, theirs) in self.shown(sources) {
            text = text.replace(&*ours.to_string_lossy(), &theirs.to_string_lossy());
        }
        text.replace(&format!("{}/", self.folder.path().display()), "").trim_end().to_owned()
    }
}

/// The content of a file that a compiler wrote, up to a byte more than an object may have.
fn content(path: &Path) -> Result<Vec<u8>, CcError> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(io(path))?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(io(path))?;
    Ok(bytes)
}

/// Writes next to `out`, then renames: a reader sees the old file or the new one.
fn install(object: &[u8], out: &Path) -> Result<(), CcError> {
    let folder = match out.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let temporary = tempfile::NamedTempFile::new_in(folder).map_err(io(folder))?;
    fs::write(temporary.path(), object).map_err(io(temporary.path()))?;
    temporary.persist(out).map_err(|failed| CcError::Io { path: out.to_owned(), error: failed.error })?;
    Ok(())
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> CcError {
    let path = path.to_owned();
    move |error| CcError::Io { path: path.clone(), error }
}
