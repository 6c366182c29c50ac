//! A user's congestion control: built, refused with a clear message, loaded, used like a registered one.

#[path = "../../weir-cc/tests/common/mod.rs"]
mod common;

use common::{Flow, options};
use std::{
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;
use weir_cc::CcError;
use weir_cc_build::{Confinement, Native, Sources, write_headers};

/// Builds like a process that may load users' controls.
fn build(source: &Path, out: &Path) -> Result<PathBuf, CcError> {
    weir_cc_build::permit_loading();
    weir_cc_build::build(source, out, &Confinement::Off)
}

fn compile(source: &Path, object: &Path, native: &Native) -> Result<String, CcError> {
    weir_cc_build::compile(&Sources::read(source)?, object, native, &Confinement::Off)
}

fn find(name: &str) -> Result<weir_cc::Algorithm, CcError> {
    weir_cc_build::permit_loading();
    weir_cc::find(name)
}

fn example() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/my_cc/my_cc.c")
}

/// The example with one piece replaced, as a source of its own.
fn variant(folder: &TempDir, from: &str, to: &str) -> PathBuf {
    let text = fs::read_to_string(example()).expect("readable");
    assert!(text.contains(from), "the example no longer has {from}");
    let path = folder.path().join("variant.c");
    fs::write(&path, text.replacen(from, to, 1)).expect("writable");
    path
}

fn temporary() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn the_example_is_built_loaded_and_used() {
    let folder = temporary();
    let path = build(&example(), folder.path()).expect("the example builds");
    assert_eq!(path, folder.path().join("my_cc.so"));
    let algorithm = find(text(&path)).expect("it loads");
    assert_eq!(algorithm.name(), "my_cc");
    assert_eq!(algorithm.describe().title, "My AIMD");

    let mut flow = Flow::avoiding(&algorithm, &options(&[("increase", 5)]), 1000, 100_000);
    flow.ack(1000);
    assert_eq!(flow.cwnd(), 1005);
    assert_eq!(flow.lose(), 703); // 70 % of 1005
    let left: Vec<_> = fs::read_dir(folder.path()).expect("readable").collect();
    assert_eq!(left.len(), 1, "only the shared object is left: {left:?}");
}

#[test]
fn a_rebuilt_file_is_the_new_one_and_the_old_one_goes_on() {
    let folder = temporary();
    let out = folder.path().join("cc.so");
    build(&example(), &out).expect("builds");
    let old = find(text(&out)).expect("loads");
    build(&variant(&folder, "OPTION(keep, 70,", "OPTION(keep, 40,"), &out).expect("builds");
    let new = find(text(&out)).expect("loads");
    let kept = |algorithm| Flow::avoiding(algorithm, &options(&[]), 1000, 100_000).lose();
    assert_eq!((kept(&old), kept(&new)), (700, 400));
}

/// Mistakes that the compiler must refuse, and their messages.
#[test]
fn what_the_kernel_would_refuse_does_not_compile() {
    let body = "(void)ack;";
    let float = "variant.c:38: floating point, which the kernel and BPF do not have";
    let reads = "a congestion control only reads it; it writes snd_cwnd, snd_cwnd_cnt";
    let refused = [
        (body, "(void)ack; tp->prior_cwnd = 1;", reads),
        (body, "(void)ack; tp->snd_una++;", reads),
        (body, "(void)ack; *(u32 *)&tp->packets_out = 0;", "cast"),
        (body, "(void)ack; inet_csk(sk)->icsk_ca_state = 0;", reads),
        (body, "(void)ack; sk->sk_max_pacing_rate = 1;", reads),
        (body, "(void)ack; sk->snd_cwnd = 1;", "variant.c:38: snd_cwnd: not a field of struct sock"),
        (body, "(void)ack; sk->snd_cwnd = 1;", "struct tcp_sock has it: tcp_sk(sk)->snd_cwnd"),
        (body, "(void)ack; tp->snd_cwind = 1;", "did you mean snd_cwnd? There is: snd_cwnd, snd_cwnd_cnt"),
        (body, "(void)ack; volatile double share = 0.7; tp->snd_cwnd = tp->snd_cwnd * share;", float),
        (body, "(void)ack; tp->snd_cwnd = tp->snd_cwnd * 0.7;", float),
        (body, "(void)ack; printf(\"%u\", acked);", "variant.c:38: printf: there is no such function"),
        (
            body,
            "(void)ack; extern void *malloc(size_t); malloc(acked);",
            "variant.c:38: malloc: there is no such function",
        ),
        (body, "(void)ack; tp->snd_cwnd = acked / (acked - acked);", "division by zero"),
        (body, "(void)ack; static u32 calls; tp->snd_cwnd += ++calls;", "all flows would share its variables: calls"),
        (
            "struct my_state {",
            "u32 total = 7, other; struct my_state {",
            "all flows would share its variables: other, total",
        ),
        (
            "struct my_state {",
            "__attribute__((constructor)) static void begin(void) { __asm__ volatile(\"nop\"); } struct my_state {",
            "code that runs when it is loaded",
        ),
        ("u32 losses;", "u32 losses; u32 more[26];", "private state exceeds 104 bytes: it has 108"),
        (
            "OPTION(increase, 2, 1, 1000,",
            "OPTION(increase, 2, 3, 1000,",
            "variant.c:15: default of option increase is 2, outside of its range 3 to 1000",
        ),
        ("WEIR_CC_OPTIONS(MY_OPTIONS)", "", "write WEIR_CC_OPTIONS(MY_OPTIONS)"),
        ("WEIR_CC_REGISTER(my_cc,", "WEIR_CC_REGISTER(my_own_control,", "has more than 10 characters"),
        ("\"my_cc\"", "\"a_name_of_16_char\"", "a name has at most 15 characters"),
        ("tcp_reno_undo_cwnd)", "undeclared_function)", "undeclared"),
    ];
    let folder = temporary();
    for (from, to, expected) in refused {
        let source = variant(&folder, from, to);
        let error = build(&source, folder.path()).expect_err(to);
        assert!(matches!(error, CcError::Compile { .. }), "{to}: {error}");
        let message = error.to_string();
        assert!(message.contains(expected), "{to}: expected {expected:?} in\n{message}");
        assert!(!folder.path().join("variant.so").exists(), "{to}: left a file behind");
    }
}

/// The messages are the same when a source is compiled for BPF.
#[test]
fn what_bpf_does_not_have_is_said() {
    let body = "(void)ack;";
    let refused = [
        (body, "(void)ack; tp->snd_cwnd = tp->snd_cwnd * 0.7;", "variant.c:38: floating point"),
        (
            body,
            "(void)ack; s64 d = tp->tcp_mstamp; tp->snd_cwnd += d / (s64)acked;",
            "variant.c:38: division of signed",
        ),
        (body, "(void)ack; s64 d = tp->tcp_mstamp; tp->snd_cwnd += d % 1000;", "variant.c:38: division of signed"),
        (body, "(void)ack; tp->snd_foo = 1;", "variant.c:38: snd_foo: not a field of struct tcp_sock"),
    ];
    let folder = temporary();
    for (from, to, expected) in refused {
        let sources = Sources::read(&variant(&folder, from, to)).expect("readable");
        match weir_cc_build::check_bpf(&sources, &Confinement::Off).expect("a folder to work in") {
            weir_cc_build::BpfCheck::NoClang(_) => return,
            weir_cc_build::BpfCheck::Accepted => panic!("{to}: accepted"),
            weir_cc_build::BpfCheck::Refused(message) => {
                assert!(message.contains(expected), "{to}: expected {expected:?} in\n{message}");
                assert!(!message.contains("Cannot select"), "{message}");
            }
        }
    }
}

#[test]
fn compiling_loads_nothing_and_says_which_source_it_is() {
    let folder = temporary();
    let object = folder.path().join("cc.so");
    let native = Native { built_from: "sha256:0123".into(), ..Native::default() };
    let warnings = compile(&variant(&folder, "(void)ack;", "u32 unused;"), &object, &native).expect("compiles");
    assert!(warnings.contains("variant.c:38:") && warnings.contains("unused"), "{warnings}");
    let bytes = fs::read(&object).expect("readable");
    let mark = b"weir-cc-built-from:sha256:0123\0";
    assert!(bytes.windows(mark.len()).any(|window| window == mark));
}

#[test]
fn what_c_leaves_undefined_is_compiled_to_a_trap_where_that_is_asked_for() {
    let folder = temporary();
    let object = folder.path().join("cc.so");
    let native = Native { sanitize: true, ..Native::default() };
    compile(&example(), &object, &native).expect("the compiler has UBSan");
    weir_cc::trial(&find(text(&object)).expect("loads")).expect("the example does nothing undefined");
}

#[test]
fn what_linux_would_not_register_is_refused() {
    let refused = [
        ("OP(ssthresh, my_ssthresh)", "", "no ssthresh operation"),
        (
            "\tOP(cong_avoid, my_cong_avoid) \\\n\tOP(undo_cwnd, tcp_reno_undo_cwnd)",
            "\tOP(cong_avoid, my_cong_avoid)",
            "no undo_cwnd",
        ),
        ("OP(cong_avoid, my_cong_avoid)", "", "neither a cong_avoid nor a cong_control"),
        ("\"my_cc\"", "\"\"", "1 to 15 characters"),
        ("\"my_cc\"", "\"my cc\"", "1 to 15 characters"),
    ];
    let folder = temporary();
    for (from, to, expected) in refused {
        let source = variant(&folder, from, to);
        let error = build(&source, folder.path()).expect_err(expected).to_string();
        assert!(error.contains(expected), "expected {expected:?} in {error}");
        assert!(!folder.path().join("variant.so").exists(), "{expected}: left a file behind");
    }
}

#[test]
fn a_registered_name_cannot_be_taken() {
    let folder = temporary();
    let path = build(&variant(&folder, "\"my_cc\"", "\"cubic\""), folder.path()).expect("builds");
    let error = find(text(&path)).expect_err("cubic is taken").to_string();
    assert!(error.contains("registered already"), "{error}");
}

#[test]
fn both_signatures_of_cong_control_work() {
    let old = "static void my_control(struct sock *sk, const struct rate_sample *rs)\n\
               { tcp_sk(sk)->snd_cwnd = 10 + rs->acked_sacked; }\n";
    let new = "static void my_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)\n\
               { tcp_sk(sk)->snd_cwnd = 10 + rs->acked_sacked + ack + flag; }\n";
    for (function, operation, expected) in [(old, "cong_control_rs", 17), (new, "cong_control", 17 + 300)] {
        let folder = temporary();
        let source = fs::read_to_string(example()).expect("readable");
        let source = source
            .replace("#define MY_OPS", &format!("{function}\n#define MY_OPS"))
            .replace("OP(ssthresh", &format!("OP({operation}, my_control) OP(ssthresh"));
        let path = folder.path().join("control.c");
        fs::write(&path, source).expect("writable");
        let algorithm = find(text(&build(&path, folder.path()).expect("builds"))).expect("loads");
        assert!(algorithm.has_cong_control());
        let mut flow = Flow::new(&algorithm, &options(&[]));
        let sample = weir_cc::RateSample { acked_sacked: 7, ..Default::default() };
        flow.checked(|cc| cc.cong_control(100, 200, &sample));
        assert_eq!(flow.cwnd(), expected);
    }
}

#[test]
fn files_that_are_no_congestion_controls_are_refused() {
    let folder = temporary();
    let missing = find("./nowhere.so").expect_err("missing").to_string();
    assert!(missing.contains("nowhere.so") && missing.contains("No such file"), "{missing}");

    let garbage = folder.path().join("garbage.so");
    fs::write(&garbage, "not an object").expect("writable");
    let error = find(text(&garbage)).expect_err("garbage").to_string();
    assert!(error.contains("is not a congestion control weir can load"), "{error}");

    // Shared objects that are no control, or have another interface version.
    for (text_of_c, expected) in [
        ("int other;", "all flows would share its variables: other"),
        ("const int other = 1;", "was not built by `weir cc build`"),
        ("const unsigned weir_cc_abi = 4711;", "interface version 4711"),
        (&format!("const unsigned weir_cc_abi = {};", weir_cc::ABI), "registers no congestion control"),
    ] {
        let source = folder.path().join("other.c");
        fs::write(&source, text_of_c).expect("writable");
        let object = folder.path().join("other.so");
        let status = std::process::Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(&object)
            .arg(&source)
            .status()
            .expect("a C compiler");
        assert!(status.success());
        let error = find(text(&object)).expect_err(expected).to_string();
        assert!(error.contains(expected), "expected {expected:?} in {error}");
    }
}

#[test]
fn a_missing_source_and_a_missing_folder_are_named() {
    let folder = temporary();
    let error = build(Path::new("nowhere/my.c"), folder.path()).expect_err("missing").to_string();
    assert!(error.contains("nowhere/my.c"), "{error}");
    let error = build(&example(), Path::new("nowhere/else/my.so")).expect_err("no folder").to_string();
    assert!(error.contains("nowhere/else"), "{error}");
}

#[test]
fn headers_are_written_for_editors() {
    let folder = temporary();
    let include = write_headers(folder.path()).expect("writable");
    assert!(include.join("weir_cc.h").is_file());
    // All headers of the repository are embedded.
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../cc");
    for kind in ["include", "shim"] {
        for entry in fs::read_dir(root.join(kind)).expect("readable") {
            let entry = entry.expect("readable");
            let written = folder.path().join(kind).join(entry.file_name());
            assert_eq!(fs::read(entry.path()).expect("readable"), fs::read(&written).expect("embedded"));
        }
    }
}
