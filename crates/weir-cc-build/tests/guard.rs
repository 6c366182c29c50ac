//! Violations of a user's congestion control are detected at the call, whatever the method.

use std::{collections::BTreeMap, fs, path::PathBuf};
use tempfile::TempDir;
use weir_cc::{Algorithm, Fault, Instance, caught, find, trial};
use weir_cc_build::{Confinement, build};

/// The example, with `statement` in its `cong_avoid`.
fn doing(folder: &TempDir, statement: &str) -> Algorithm {
    replaced(folder, "(void)ack;", &format!("(void)ack; {statement}"))
}

fn replaced(folder: &TempDir, from: &str, to: &str) -> Algorithm {
    weir_cc_build::permit_loading();
    let example = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/my_cc/my_cc.c");
    let text = fs::read_to_string(example).expect("readable");
    assert!(text.contains(from));
    let source = folder.path().join("mine.c");
    fs::write(&source, text.replacen(from, to, 1)).expect("writable");
    let built = build(&source, folder.path(), &Confinement::Off).unwrap_or_else(|error| panic!("{to}: {error}"));
    find(built.to_str().expect("UTF-8")).expect("loads")
}

fn fault(statement: &str) -> Fault {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut cc = Instance::new(&doing(&folder, statement), &BTreeMap::new()).expect("no options");
    cc.sock.is_cwnd_limited = 1;
    caught(|| cc.cong_avoid(1, 1)).expect_err(statement)
}

#[test]
fn a_field_that_is_only_read_is_guarded_against_any_trick() {
    let tricks = [
        ("__builtin_memset((void *)(uintptr_t)&tp->packets_out, 1, 4);", "wrote packets_out"),
        ("((u32 *)(uintptr_t)sk)[10] ^= 1;", "wrote snd_una"),
        ("u8 *s = inet_csk_ca(sk); s[-8] = 7;", "wrote icsk_ca_state"),
        ("u8 *s = inet_csk_ca(sk); s[-12] ^= 1;", "wrote its options"),
        ("((u32 *)(uintptr_t)sk)[-1] = 7;", "wrote before struct sock"),
        ("u8 *s = inet_csk_ca(sk); s[103] = 7;", "wrote beyond its state of 4 bytes"),
        ("tp->snd_cwnd = 0; return;", "set snd_cwnd to 0"),
    ];
    for (statement, expected) in tricks {
        let fault = fault(statement);
        assert_eq!(fault.operation, "cong_avoid", "{statement}");
        assert!(fault.what.starts_with(expected), "{statement}: {fault}");
        assert!(fault.control.ends_with("mine.so"), "{fault}");
    }
}

#[test]
fn a_threshold_of_zero_is_a_fault_of_ssthresh() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let zero = replaced(&folder, "return max(tcp_sk(sk)->snd_cwnd * OPT(sk, keep) / 100, 2U);", "return 0;");
    let mut cc = Instance::new(&zero, &BTreeMap::new()).expect("no options");
    let fault = caught(|| cc.ssthresh()).expect_err("zero");
    assert_eq!((fault.operation, fault.what.contains("returned 0")), ("ssthresh", true), "{fault}");
}

#[test]
fn what_it_may_write_arrives() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let statement = "tp->snd_cwnd = 77; tp->snd_ssthresh = 5; tp->snd_cwnd_cnt = 3; tp->snd_cwnd_stamp = 4; \
                     tp->app_limited = 9; tp->ecn_flags = 1; sk->sk_pacing_rate = 8; sk->sk_pacing_status = 1; \
                     ((struct my_state *)inet_csk_ca(sk))->losses = 6; return;";
    let mut cc = Instance::new(&doing(&folder, statement), &BTreeMap::new()).expect("no options");
    caught(|| cc.cong_avoid(1, 1)).expect("all of it is allowed");
    let sock = &cc.sock;
    assert_eq!((sock.snd_cwnd, sock.snd_ssthresh, sock.snd_cwnd_cnt, sock.snd_cwnd_stamp), (77, 5, 3, 4));
    assert_eq!((sock.app_limited, sock.ecn_flags, sock.pacing_rate, sock.pacing_status), (9, 1, 8, 1));
    assert_eq!(sock.private_state()[0], 6);
}

#[test]
fn a_trial_finds_what_shows_only_after_a_while() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    trial(&doing(&folder, "")).expect("the example is sound");
    let late = doing(&folder, "if (((struct my_state *)inet_csk_ca(sk))->losses > 4) { tp->snd_cwnd = 0; return; }");
    let fault = trial(&late).expect_err("the window becomes zero");
    assert!(fault.what.contains("snd_cwnd to 0"), "{fault}");
    let largest = doing(&folder, "if (OPT(sk, increase) == 1000) { tp->snd_cwnd = 0; return; }");
    let fault = trial(&largest).expect_err("with one value of an option");
    assert!(fault.what.ends_with("with each option at its largest value"), "{fault}");
}

#[test]
fn other_panics_go_on() {
    let panicked = std::panic::catch_unwind(|| caught(|| std::panic::resume_unwind(Box::new("mine"))));
    assert_eq!(panicked.expect_err("not caught").downcast_ref::<&str>(), Some(&"mine"));
}
