//! The command line.

use std::process::{Command, Output, Stdio};

use crate::harness::*;

fn agent(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir-agent"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the agent starts")
}

#[test]
fn version_and_help_are_printed() {
    let version = agent(&["--version"]);
    assert!(version.status.success());
    assert_eq!(String::from_utf8_lossy(&version.stdout), format!("weir-agent {}\n", env!("CARGO_PKG_VERSION")));
    let help = String::from_utf8(agent(&["--help"]).stdout).expect("text");
    for word in ["echo", "sink", "source", "--address", "--port", "Examples:"] {
        assert!(help.contains(word), "{word}");
    }
}

#[test]
fn misuse_is_exit_2_and_says_what_was_expected() {
    for (arguments, wanted) in [
        (&["dance"][..], "expected echo, sink"),
        (&["--bogus"], "--bogus"),
        (&["echo", "--port", "70000"], "70000"),
        (&["echo", "--address", "nowhere"], "nowhere"),
        (&["echo", "sink", "--port", "7000"], "one service only"),
        (&["--port", "7000"], "belong to a service"),
    ] {
        let output = agent(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(wanted), "{arguments:?}: {text}");
    }
}

#[test]
fn a_job_in_a_file_is_checked_and_left() {
    let path = std::env::temp_dir().join(format!("weir-agent-job-{}", std::process::id()));
    std::fs::write(&path, "not a job\n").expect("a file");
    let file = std::fs::File::open(&path).expect("a file");
    let status = Command::new(env!("CARGO_BIN_EXE_weir-agent")).stdin(file).output().expect("the agent starts").status;
    assert_eq!(status.code(), Some(2));
    let good = ends(&job(100, &[flow(0, tcp(), bulk())]), &["to"]);
    std::fs::write(&path, format!("{good}\n")).expect("a file");
    let file = std::fs::File::open(&path).expect("a file");
    let status = Command::new(env!("CARGO_BIN_EXE_weir-agent")).stdin(file).output().expect("the agent starts").status;
    assert_eq!(status.code(), Some(0));
    std::fs::remove_file(path).expect("it is there");
}
