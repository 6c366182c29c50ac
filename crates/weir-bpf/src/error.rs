//! Errors between a source and the kernel; every message ends with a remedy.

use crate::kernel::Privilege;
use serde::Serialize;
use std::{io, path::PathBuf};
use weir_cc::CcError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BpfError {
    /// The name, an option or the source is wrong.
    #[error(transparent)]
    Cc(#[from] CcError),
    /// The kernel would reject the name.
    #[error("{name:?} is no name for the kernel: 1 to 15 characters of a-z, A-Z, 0-9, _ and .")]
    BadName {
        /// The name.
        name: String,
    },
    /// The kernel has a congestion control of this name.
    #[error(
        "the kernel has a congestion control called {name} already; choose another name, or `weir cc unload {name}` if weir loaded it"
    )]
    NameTaken {
        /// The name.
        name: String,
    },
    /// There is no object for a source, and no clang to compile one.
    #[error(
        "no BPF object of {cc}: there is no {tried:?} to compile it; install clang (apt-get install clang), or set WEIR_CLANG"
    )]
    NoClang {
        /// The congestion control.
        cc: String,
        /// The command tried.
        tried: String,
    },
    /// clang rejected a source.
    #[error("{cc} does not compile for BPF:\n{messages}")]
    Compile {
        /// The congestion control.
        cc: String,
        /// clang's messages.
        messages: String,
    },
    /// A shared object whose source is missing or different.
    #[error("{}: {reason}", .path.display())]
    Source {
        /// The file.
        path: PathBuf,
        /// What is wrong, and the remedy.
        reason: String,
    },
    /// The object does not match this shim.
    #[error(
        "the BPF object of {cc} is unusable: {reason}; build it against the headers of this weir (`weir cc headers`)"
    )]
    Object {
        /// The congestion control.
        cc: String,
        /// What is wrong.
        reason: String,
    },
    /// The kernel does not describe its types.
    #[error(
        "this kernel has no BTF (/sys/kernel/btf/vmlinux), which says where its fields are; boot one built with CONFIG_DEBUG_INFO_BTF=y, as distributions ship them"
    )]
    NoBtf,
    /// The kernel lacks support altogether.
    #[error("this kernel ({release}) {lacks}; {remedy}")]
    Kernel {
        /// Its release.
        release: String,
        /// What it lacks.
        lacks: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// The process lacks privileges.
    #[error("loading a congestion control needs {}; run it as root (sudo), or grant the capabilities", privileges(.missing))]
    Privilege {
        /// The missing privileges.
        missing: Vec<Privilege>,
    },
    /// The verifier rejected a program.
    #[error(
        "the kernel's verifier refuses {cc}, in its operation {function}{}:\n{log}\nThe last lines say why; see cc/README.md for what BPF accepts",
        meaning(.log)
    )]
    Verifier {
        /// The congestion control.
        cc: String,
        /// The operation.
        function: String,
        /// The last lines of the verifier's log.
        log: String,
    },
    /// Any other error of libbpf or the kernel.
    #[error("the kernel did not take {cc}: {reason}")]
    Load {
        /// The congestion control.
        cc: String,
        /// libbpf's messages, or the error.
        reason: String,
    },
    /// There is no file system for pins, and none could be mounted.
    #[error("{}: {reason}; mount it: mount -t bpf bpf {}", .path.display(), .path.display())]
    NoBpffs {
        /// Its expected place.
        path: PathBuf,
        /// Why it could not be mounted.
        reason: String,
    },
    /// No pin has this name.
    #[error("{name} is not loaded by `weir cc load`{}", if .pinned.is_empty() { "; nothing is".to_owned() } else { format!("; loaded: {}", .pinned.join(", ")) })]
    NotPinned {
        /// The name.
        name: String,
        /// The existing pins.
        pinned: Vec<String>,
    },
    /// A malformed request.
    #[error(
        "not a request: {0}; expected {{\"load\": [{{\"cc\": NAME, \"as\": NAME, \"options\": {{...}}}}]}} or {{\"unload\": [NAME]}}"
    )]
    Request(String),
    /// An error of a file or a pipe.
    #[error("{}: {error}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// The kind of an error, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// The request is wrong: the name, an option, the source.
    BadInput,
    /// The name is taken; another would do.
    NameTaken,
    /// This host's setup does not permit it.
    Host,
    /// The kernel refuses the program.
    Refused,
    /// Anything else.
    Failed,
}

impl BpfError {
    /// Its kind.
    pub fn code(&self) -> Code {
        match self {
            BpfError::Cc(CcError::NoCompiler { .. }) => Code::Host,
            BpfError::Cc(_)
            | BpfError::BadName { .. }
            | BpfError::Compile { .. }
            | BpfError::Source { .. }
            | BpfError::Object { .. }
            | BpfError::NotPinned { .. }
            | BpfError::Request(_) => Code::BadInput,
            BpfError::NameTaken { .. } => Code::NameTaken,
            BpfError::NoClang { .. }
            | BpfError::NoBtf
            | BpfError::Kernel { .. }
            | BpfError::Privilege { .. }
            | BpfError::NoBpffs { .. } => Code::Host,
            BpfError::Verifier { .. } => Code::Refused,
            BpfError::Load { .. } | BpfError::Io { .. } => Code::Failed,
        }
    }
}

/// Explains the verifier's message, for constructs that a C compiler accepts.
fn meaning(log: &str) -> &'static str {
    const LOOPS: [&str; 4] =
        ["infinite loop detected", "back-edge from insn", "program is too large", "jumps is too complex"];
    if LOOPS.iter().any(|words| log.contains(words)) {
        ", because of a loop without a constant bound, or with one that is too large"
    } else {
        ""
    }
}

fn privileges(missing: &[Privilege]) -> String {
    missing.iter().map(|privilege| privilege.name()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_without_a_bound_is_called_one() {
        let error = |log: &str| {
            BpfError::Verifier { cc: "./mine.c".into(), function: "cong_avoid".into(), log: log.into() }.to_string()
        };
        for log in ["infinite loop detected at insn 12", "BPF program is too large. Processed 1000001 insn"] {
            assert!(
                error(log).starts_with(
                    "the kernel's verifier refuses ./mine.c, in its operation cong_avoid, because of a loop"
                )
            );
        }
        assert!(!error("R1 invalid mem access").contains("loop"));
    }
}
