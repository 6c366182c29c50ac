//! The command line.

use std::process::{Command, Output};

fn agent(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir-agent")).args(arguments).output().expect("the agent starts")
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
