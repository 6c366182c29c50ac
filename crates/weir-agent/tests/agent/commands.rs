//! The command line; commands as workloads; the connections of other programs.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};

use weir_run::Message;

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
        (&["run"], "needs a command"),
        (&["run", "--patience", "-1", "--", "true"], "is no time"),
        (&["watch"], "needs --ports"),
        (&["watch", "--ports", "9-3"], "FIRST-LAST"),
        (&["watch", "--ready-port", "5"], "--ready-port"),
    ] {
        let output = agent(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(wanted), "{arguments:?}: {text}");
    }
}

/// A running agent that has said `ready`.
fn ready(arguments: &[&str]) -> Agent {
    let mut agent = Agent::spawn(arguments);
    let first: Message = serde_json::from_str(&agent.first_line()).expect("a message");
    assert_eq!(first, Message::Ready);
    agent
}

#[test]
fn a_command_is_ready_when_it_says_so_and_its_output_is_kept() {
    let folder = std::env::temp_dir().join(format!("weir-agent-test-{}", std::process::id()));
    let path = folder.to_str().expect("UTF-8");
    let script = "echo up; echo no >&2; sleep 0.2; echo down";
    let report = ready(&["run", "--ready-line", "up", "--output", path, "--", "sh", "-c", script]).wait();
    assert_eq!((report.code, report.stat("exit_code")), (Some(0), 0.0));
    assert_eq!(std::fs::read_to_string(folder.join("stdout")).expect("kept"), "up\ndown\n");
    assert_eq!(std::fs::read_to_string(folder.join("stderr")).expect("kept"), "no\n");
    std::fs::remove_dir_all(folder).expect("it is there");
}

#[test]
fn a_command_that_fails_is_an_error_with_its_last_words() {
    let report = ready(&["run", "--", "sh", "-c", "sleep 0.2; echo that went wrong >&2; exit 7"]).wait();
    assert_eq!(report.code, Some(1));
    assert!(report.error().contains("code 7") && report.error().contains("that went wrong"), "{}", report.error());
    let mut early = Agent::spawn(&["run", "--ready-line", "up", "--", "sh", "-c", "exit 1"]);
    assert!(early.first_line().contains("before it was ready"));
    assert_eq!(early.wait_code(), Some(1));
}

#[test]
fn stop_and_the_end_of_input_end_a_command() {
    let mut told = ready(&["run", "--", "sleep", "60"]);
    told.say("{\"command\":\"stop\"}");
    let report = told.wait();
    assert_eq!((report.code, report.stat("exit_code")), (Some(0), 143.0));
    let mut left = ready(&["run", "--", "sleep", "60"]);
    left.hang_up();
    let report = left.wait();
    assert_eq!(report.code, Some(0));
    assert!(!report.messages.iter().any(|message| matches!(message, Message::End { .. })));
}

#[test]
fn a_command_runs_to_its_end_where_nobody_attends() {
    let output = agent(&["run", "--", "sh", "-c", "sleep 0.3"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"exit_code\":0.0"), "{output:?}");
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

#[test]
fn connections_of_other_programs_are_sampled_by_their_port() {
    let listener = TcpListener::bind((own_address(), 0)).expect("a port");
    let at = listener.local_addr().expect("an address");
    let mut writer = TcpStream::connect(at).expect("it listens");
    let (mut reader, _) = listener.accept().expect("a connection");
    writer.write_all(&[1; 100_000]).expect("room");
    reader.read_exact(&mut [0; 100_000]).expect("all of it");
    let range = format!("{0}-{0}", at.port());
    let mut agent = Agent::spawn(&["watch", "--ports", &range, "--interval", "20", "--until", "0.5"]);
    let first: Message = serde_json::from_str(&agent.first_line()).expect("a message");
    if let Message::Error { text } = first {
        eprintln!("skipped: {text}");
        return;
    }
    let report = agent.wait();
    let times = report.column("samples", "time_ns");
    assert!(times.len() >= 3 && times.is_sorted() && times.iter().all(|time| time % (20 * MS) == 0), "{times:?}");
    assert!(report.column("samples", "flow").iter().all(|&flow| flow == 0));
    assert!(report.column("samples", "acked_bytes").iter().all(|&acked| acked == 100_000));
    assert!(report.column("samples", "cwnd").iter().all(|&cwnd| cwnd > 0));
}

#[test]
fn iperf3_becomes_flows_and_samples() {
    if Command::new("iperf3").arg("--version").output().is_err() {
        eprintln!("skipped: iperf3 is not installed");
        return;
    }
    let address = own_address().to_string();
    let server = ["run", "--ready-port", "5399", "--", "iperf3", "-s", "-1", "-B", &address, "-p", "5399"];
    let server = ready(&server);
    let client =
        ["iperf3", "-c", &address, "-p", "5399", "-J", "-t", "1", "-i", "0.5", "-b", "80M", "--get-server-output"];
    let report = ready(&[&["run", "--first-flow", "4", "--"], &client[..]].concat()).wait();
    assert_eq!(report.code, Some(0), "{report:?}");
    assert_eq!((report.column("flows", "flow"), report.column("flows", "bytes")), (vec![4], vec![NULL]));
    let delivered = report.column("flows", "delivered_bytes")[0];
    assert!(delivered > 1_000_000, "{delivered}");
    assert_eq!(report.column("sent", "sent_bytes").iter().sum::<u64>(), report.column("flows", "sent_bytes")[0]);
    assert!(report.column("samples", "cwnd").iter().all(|&cwnd| cwnd > 0));
    assert!(report.column("samples", "busy_ns").iter().all(|&busy| busy == NULL));
    assert_eq!(server.wait_code(), Some(0));
}

#[test]
fn iperf3_without_its_server_says_why() {
    if Command::new("iperf3").arg("--version").output().is_err() {
        eprintln!("skipped: iperf3 is not installed");
        return;
    }
    let address = own_address().to_string();
    let report = ready(&["run", "--", "iperf3", "-c", &address, "-p", "5398", "-J"]).wait();
    assert_eq!(report.code, Some(1));
    assert!(report.error().contains("iperf3: ") && report.error().contains("unable to connect"), "{}", report.error());
}
