//! What goes wrong is said: where, what, and what to do; and nothing is left.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};
use weir_protocol::Message;

use crate::harness::*;

type Edit = fn(&mut Value);

fn one_bulk_flow(end_ms: u64) -> Value {
    job(end_ms, &[flow(0, tcp(), bulk())])
}

/// The error of a job that is refused.
fn refused(job: &Value, code: i32) -> String {
    let (agent, first) = Agent::with(job);
    let Message::Error { text } = first else { panic!("{first:?}") };
    assert_eq!(agent.wait().code, Some(code));
    text
}

/// Where the kernel has DCCP, the agent is ready instead.
#[test]
fn a_kernel_without_dccp_is_named() {
    let dccp = json!({"protocol": "dccp", "ccid": 3, "payload_bytes": 1424});
    let (agent, first) = Agent::with(&ends(&job(500, &[flow(0, dccp, bulk())]), &["to"]));
    match first {
        Message::Error { text } => {
            assert!(text.ends_with("socket cannot be opened: the kernel of this host has no DCCP"), "{text}");
            assert_eq!(agent.wait().code, Some(1));
        }
        first => assert!(matches!(first, Message::Ready), "{first:?}"),
    }
}

#[test]
fn stop_ends_the_run_with_the_results_so_far() {
    let job = one_bulk_flow(60_000);
    let (mut agent, _) = Agent::with(&ends(&job, &["to", "from"]));
    agent.start_at(soon());
    std::thread::sleep(Duration::from_millis(700));
    agent.say(r#"{"command":"stop"}"#);
    let report = agent.wait();
    assert_eq!(report.code, Some(0));
    assert_eq!(report.column("flows", "end_ns"), [NULL]);
    assert!(report.stat("acked_bytes") > 0.0);
}

#[test]
fn the_end_of_input_ends_it_at_once_and_leaves_no_port_open() {
    let job = one_bulk_flow(60_000);
    let (mut agent, _) = Agent::with(&ends(&job, &["to", "from"]));
    agent.start_at(soon());
    std::thread::sleep(Duration::from_millis(500));
    let begun = Instant::now();
    agent.hang_up();
    let report = agent.wait();
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(report.code, Some(0));
    assert!(!report.messages.iter().any(|message| matches!(message, Message::End { .. })));
    let address = job["hosts"][1]["address"].as_str().expect("an address");
    assert!(TcpStream::connect((address, 7000)).is_err());
}

#[test]
fn a_reader_that_is_gone_ends_it() {
    let job = one_bulk_flow(60_000);
    let mut agent = Agent::spawn(&[]);
    agent.say(&ends(&job, &["to", "from"]).to_string());
    drop(agent.child.stdout.take());
    agent.start_at(soon());
    assert_eq!(agent.wait().code, Some(1));
}

#[test]
fn a_slow_reader_misses_nothing() {
    let mut job = one_bulk_flow(600);
    job["plan"]["measure"]["tcp_ns"] = json!(MS);
    let mut agent = Agent::spawn(&[]);
    agent.say(&ends(&job, &["to", "from"]).to_string());
    agent.start_at(soon());
    std::thread::sleep(Duration::from_millis(1500));
    agent.first_line();
    let report = agent.wait();
    assert_eq!(report.code, Some(0));
    assert!(report.column("samples", "time_ns").len() > 100);
    assert!(report.stat("acked_bytes") > 0.0);
}

#[test]
fn jobs_that_make_no_sense_are_refused_with_the_place() {
    let good = ends(&one_bulk_flow(100), &["from"]);
    let edits: [(&str, Edit); 6] = [
        ("job: ", |job| job["plan"]["flows"][0]["transport"]["cc"] = json!(5)),
        ("job.version", |job| job["version"] = json!(2)),
        ("job.plan", |job| job["plan"]["flows"][0]["path"] = json!([1])),
        ("job.hosts", |job| drop(job["hosts"].as_array_mut().expect("hosts").pop())),
        ("job.ends[0]", |job| job["ends"] = json!([{"to": 1}])),
        ("job.hosts[0].node", |job| job["hosts"][0]["node"] = json!(9)),
    ];
    for (place, edit) in edits {
        let mut bad = good.clone();
        edit(&mut bad);
        let text = refused(&bad, 2);
        assert!(text.starts_with(place), "{place}: {text}");
    }
}

#[test]
fn no_job_at_all_is_refused() {
    let mut agent = Agent::spawn(&[]);
    agent.hang_up();
    let first = agent.first_line();
    assert!(first.contains("expected a job"), "{first}");
    assert_eq!(agent.wait().code, Some(2));
}

#[test]
fn settings_that_cannot_be_had_here_name_the_flow_the_host_and_the_remedy() {
    let good = ends(&one_bulk_flow(100), &["from"]);
    let edits: [(&[&str], Edit); 5] = [
        (&["no_such_cc", "load it"], |job| job["plan"]["flows"][0]["transport"]["cc"] = json!("linux:no_such_cc")),
        (&["job.kernel_cc", "\"cubic\""], |job| job["plan"]["flows"][0]["transport"]["cc"] = json!("cubic")),
        (&["/nowhere/ns", "must exist"], |job| job["hosts"][0]["netns"] = json!("/nowhere/ns")),
        (&["192.0.2.1", "cannot use"], |job| job["hosts"][0]["address"] = json!("192.0.2.1")),
        (&["segment size of 52 bytes"], |job| job["plan"]["flows"][0]["transport"]["mss_bytes"] = json!(40)),
    ];
    for (wanted, edit) in edits {
        let mut bad = good.clone();
        edit(&mut bad);
        let text = refused(&bad, 1);
        for part in [&["flow f[0]", "src"], wanted].concat() {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

#[test]
fn a_port_that_is_taken_is_refused() {
    let job = ends(&one_bulk_flow(100), &["to"]);
    let address = job["hosts"][1]["address"].as_str().expect("an address");
    let _taken = std::net::TcpListener::bind((address, 7000)).expect("a free address");
    let text = refused(&job, 1);
    assert!(text.contains("cannot listen on") && text.contains("f[0]"), "{text}");
}

#[test]
fn a_receiver_that_is_not_there_is_a_failure_that_names_it() {
    for transport in [tcp(), udp(100)] {
        let source = if transport["protocol"] == "tcp" { bulk() } else { json!({"kind": "cbr", "rate_bps": 800_000}) };
        let job = ends(&job(60_000, &[flow(0, transport, source)]), &["from"]);
        let (mut agent, _) = Agent::with(&job);
        agent.start_at(soon());
        let report = agent.wait();
        assert_eq!(report.code, Some(1));
        let text = report.error();
        assert!(text.contains("flow f[0]") && text.contains("dst") && text.contains("7000"), "{text}");
    }
}

#[test]
fn a_receiver_that_leaves_during_the_run_is_a_failure() {
    let job = one_bulk_flow(60_000);
    let (mut receiver, _) = Agent::with(&ends(&job, &["to"]));
    let (mut sender, _) = Agent::with(&ends(&job, &["from"]));
    let epoch = soon();
    receiver.start_at(epoch);
    sender.start_at(epoch);
    std::thread::sleep(Duration::from_millis(800));
    receiver.hang_up();
    assert_eq!(receiver.wait().code, Some(0));
    let report = sender.wait();
    assert_eq!(report.code, Some(1));
    assert!(report.error().contains("receiving agent"), "{}", report.error());
}

#[test]
fn a_start_that_is_past_or_a_line_that_is_no_command_is_refused() {
    let epoch_now = r#"{"command":"start","clock":"monotonic","reading_ns":0,"after_ns":1}"#;
    for (line, wanted) in [(epoch_now, "ahead"), ("{\"command\":\"dance\"}", "not a command"), ("?", "not a command")] {
        let (mut agent, _) = Agent::with(&ends(&one_bulk_flow(100), &["from"]));
        agent.say(line);
        let report = agent.wait();
        assert_eq!(report.code, Some(1));
        assert!(report.error().contains(wanted), "{}", report.error());
    }
}

#[test]
fn a_probe_before_the_start_is_not_counted() {
    let job = job(400, &[flow(0, tcp(), transfers(&[(0, 5000)], false))]);
    let (mut receiver, _) = Agent::with(&ends(&job, &["to"]));
    let (mut sender, _) = Agent::with(&ends(&job, &["from"]));
    let address = job["hosts"][1]["address"].as_str().expect("an address");
    let probe = TcpStream::connect((address, 7000)).expect("it listens");
    std::io::Write::write_all(&mut &probe, b"probe").expect("room");
    drop(probe);
    let epoch = soon();
    receiver.start_at(epoch);
    sender.start_at(epoch);
    assert_eq!(sender.wait().code, Some(0));
    assert_eq!(receiver.wait().delivered(0, 0), 5000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the text: an answer in the protocol and an exit code of it, never a panic (101) or a signal.
    #[test]
    fn mangled_jobs_are_answered(cut in 0.0_f64..1.0, bytes in proptest::collection::vec((0.0_f64..1.0, any::<u8>()), 0..4)) {
        let mut text = ends(&one_bulk_flow(50), &["to", "from"]).to_string().into_bytes();
        for (place, byte) in bytes {
            let place = (place * text.len() as f64) as usize;
            text[place] = if byte == b'\n' { b' ' } else { byte };
        }
        if cut < 0.3 {
            text.truncate((cut / 0.3 * text.len() as f64) as usize);
        }
        let mut agent = Agent::spawn(&[]);
        agent.say(&String::from_utf8_lossy(&text));
        agent.hang_up();
        let line = agent.first_line();
        let code = agent.wait().code;
        let message: Message = serde_json::from_str(&line).expect("a message");
        match message {
            Message::Ready => prop_assert_eq!(code, Some(0)),
            Message::Error { .. } => prop_assert!(matches!(code, Some(1 | 2)), "{:?}", code),
            other => prop_assert!(false, "{:?}", other),
        }
    }
}
