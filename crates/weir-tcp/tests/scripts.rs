//! Behaviour written down from the RFCs, one script a subject: see `scripts/` and `script/mod.rs`.

mod script;

use std::fs;
use std::path::Path;

fn run(name: &str, text: &str) -> Result<(), String> {
    script::run(&script::parse(name, text)?)
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the scripts are files")]
fn every_script_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 30, "only {} scripts found", paths.len());
    let failures: Vec<String> = paths
        .iter()
        .filter_map(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            let outcome = run(&name, &fs::read_to_string(path).unwrap());
            outcome.err().map(|problem| format!("{name}: {problem}"))
        })
        .collect();
    assert!(failures.is_empty(), "{} of {} scripts fail\n\n{}", failures.len(), paths.len(), failures.join("\n\n"));
}

/// A script, changed in one place at a time: each change must be noticed, and at its line.
#[test]
fn a_wrong_script_fails_at_its_line() {
    let right = "\
cite RFC 6928, section 2
+0 open 0.1
+0 write 20 segments
+0 > 0..9
+0 expect cwnd 10
+0.1 < ack 2
+0 > 10..13
+0 expect timer 0.208
";
    run("right", right).unwrap();
    for (from, to, line) in [
        ("> 0..9", "> 0..8", 4),
        ("> 0..9", "> 0..10", 4),
        ("cwnd 10", "cwnd 9", 5),
        ("+0.1 < ack 2", "+0.1 < ack 3", 7),
        ("> 10..13", "> 10..13 resent", 7),
        ("+0 > 10..13", "+0.001 > 10..13", 7),
        ("timer 0.208", "timer 0.207", 8),
    ] {
        let problem = run("wrong", &right.replace(from, to)).expect_err("the change must be noticed");
        assert!(problem.contains(&format!("line {line}:")), "{from:?} -> {to:?}: {problem}");
    }
    let silent = right.replace("+0 > 10..13\n", "");
    assert!(run("wrong", &silent).unwrap_err().contains("at the end: 10 was sent"), "a transmission went unnoticed");
}

#[test]
fn nonsense_is_refused_with_its_line() {
    for (line, problem) in [
        ("+0 fly", "not understood"),
        ("+x wait", "is not a number"),
        ("+0 < ack", "an acknowledgement of what?"),
        ("+0 > 5..3", "runs backwards"),
        ("option colour=red", "no option"),
        ("expect cwnd 3", "a line begins with"),
        ("+0.0000000001 wait", "finer than a nanosecond"),
    ] {
        let text = format!("cite nothing\n{line}\n");
        let error = script::parse("nonsense", &text).err().expect("must be refused");
        assert!(error.contains("nonsense:2:") && error.contains(problem), "{line:?} gave {error:?}");
    }
    assert!(script::parse("uncited", "+0 open 0.1\n").is_err());
}
