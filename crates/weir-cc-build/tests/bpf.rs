//! Every registered source, and the example, is in the subset of C that the kernel's BPF accepts.

use std::{
    fs,
    path::{Path, PathBuf},
};
use weir_cc::{CcError, list};
use weir_cc_build::{BpfCheck, Confinement, Sources};

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn check_bpf(source: &Path) -> Result<BpfCheck, CcError> {
    weir_cc_build::check_bpf(&Sources::read(source)?, &Confinement::Off)
}

/// Whether clang is installed; otherwise prints so. `WEIR_REQUIRE_CLANG` forbids skipping.
fn accepted(check: &BpfCheck, what: &str) -> bool {
    match check {
        BpfCheck::Accepted => true,
        BpfCheck::Refused(messages) => panic!("{what} does not compile for BPF:\n{messages}"),
        BpfCheck::NoClang(tried) => {
            let required = std::env::var_os("WEIR_REQUIRE_CLANG").is_some();
            assert!(!required, "WEIR_REQUIRE_CLANG is set and there is no clang: tried {tried}");
            eprintln!("skipped: no clang on this machine (tried {tried}); install clang to check for BPF");
            false
        }
    }
}

#[test]
fn every_source_compiles_for_bpf() {
    let registered = list().into_iter().map(|algorithm| {
        let name = algorithm.name();
        repository().join("cc").join(name).join(format!("{name}.c"))
    });
    for source in registered.chain([repository().join("examples/my_cc/my_cc.c")]) {
        let check = check_bpf(&source).expect("a readable source");
        if !accepted(&check, &source.display().to_string()) {
            return;
        }
    }
}

#[test]
fn what_bpf_cannot_do_is_refused() {
    let reno = fs::read_to_string(repository().join("cc/reno/reno.c")).expect("readable");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("bad.c");
    let refused = [
        ("tcp_sk(sk)->prior_cwnd = 1;", "const-qualified", "a field that is not writable"),
        ("volatile s64 a = -1; tcp_sk(sk)->snd_cwnd = a / (s64)acked;", "signed division", "signed division"),
        ("volatile char big[600]; big[acked % 600] = 1;", "stack", "more than 512 bytes of stack"),
    ];
    for (statement, message, what) in refused {
        fs::write(&source, reno.replacen("(void)ack;", &format!("(void)ack; {statement}"), 1)).expect("writable");
        match check_bpf(&source).expect("a readable source") {
            BpfCheck::Refused(messages) => assert!(messages.contains(message), "{what}: {messages}"),
            check => assert!(!accepted(&check, what), "{what} was accepted"),
        }
    }
}
