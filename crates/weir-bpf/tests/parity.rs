//! The native and the BPF build of every source give the same result for the same calls; a differing source is
//! detected.

use std::fs;
use weir_bpf::{Kernel, fuzzed};

/// The running kernel, if it accepts congestion controls from this process; otherwise prints the reason.
fn kernel() -> Option<Kernel> {
    match Kernel::probe() {
        Ok(kernel) => Some(kernel),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// Whether the sources can be compiled for a comparison here; otherwise prints the reason.
fn clang() -> bool {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/my_cc/my_cc.c");
    weir_bpf::trust_sources();
    let sources = weir_cc_build::Sources::read(example.as_ref()).expect("readable");
    let checked = weir_cc_build::check_bpf(&sources, &weir_cc_build::Confinement::Off);
    let there = !matches!(checked, Ok(weir_cc_build::BpfCheck::NoClang(_)));
    if !there {
        eprintln!("skipped: no clang on this machine; install clang to compare with the BPF builds");
    }
    there
}

#[test]
fn every_congestion_control_is_the_same_in_the_kernel() {
    let Some(kernel) = kernel().filter(|_| clang()) else { return };
    for algorithm in weir_cc::list() {
        let parity = fuzzed(&kernel, algorithm.name(), 10_000, 2006).expect("both builds");
        assert_eq!(parity.differences, [], "{}", algorithm.name());
        assert_eq!((parity.calls, parity.flows), (10_000, 5));
        let growth: &[&str] =
            if algorithm.has_cong_control() { &["cong_control"] } else { &["cong_avoid", "pkts_acked"] };
        for operation in ["init", "ssthresh", "undo_cwnd", "set_state"].iter().chain(growth) {
            let calls = parity.operations.get(*operation).copied().unwrap_or(0);
            assert!(calls > 100, "{}: {calls} calls of {operation}", algorithm.name());
        }
    }
}

#[test]
fn a_users_own_is_compared_too_and_a_difference_is_found() {
    let Some(kernel) = kernel().filter(|_| clang()) else { return };
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/my_cc/my_cc.c");
    assert_eq!(fuzzed(&kernel, example, 4000, 1).expect("both builds").differences, []);

    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("unlike.c");
    let text = fs::read_to_string(example).expect("readable");
    let unlike = text.replacen(
        "state->losses++;",
        "state->losses++;\n#ifdef __bpf__\n\tif (OPT(sk, keep) == 99)\n\t\tstate->losses++;\n#endif\n",
        1,
    );
    fs::write(&source, unlike).expect("writable");
    let parity = fuzzed(&kernel, &source.display().to_string(), 40_000, 1).expect("both builds");
    assert!(!parity.differences.is_empty(), "no flow with keep = 99 among {}", parity.flows);
    for difference in parity.differences {
        assert_eq!((difference.operation, difference.options["keep"]), ("ssthresh", 99));
        assert_eq!(difference.what, "private state, bytes 0 to 7: native 1, BPF 2");
    }
}
