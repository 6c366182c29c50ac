//! Programs as the workload of flows: started, counted, ended, and what they printed handed over.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_protocol::{Message, Program};
use weir_run::EventKind;

use crate::harness::*;

/// Programs of others take their time to start, on a busy machine.
const LONG_MS: u64 = 6000;

/// A flow whose traffic programs make.
fn programs(command: &[&str], peer: Option<&[&str]>) -> Value {
    json!({"kind": "command", "command": command, "peer": peer})
}

fn is_there(program: &str) -> bool {
    let found = std::process::Command::new(program).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// What became of the command of a flow, or of its peer.
fn program(report: &Report, peer: bool) -> &Program {
    let found = report.messages.iter().find_map(|message| match message {
        Message::Program(program) if program.peer == peer => Some(program),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no program in {report:?}"))
}

/// A program of 20 lines that serves: what it gets is thrown away, or it sends so many bytes to whoever comes.
const SERVER: &str = "
import socket, sys
port, count = int(sys.argv[1]), int(sys.argv[2])
listener = socket.create_server((sys.argv[3], port))
print('listening', flush=True)
while True:
    connection, _ = listener.accept()
    connection.sendall(bytes(count))
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(65536):
        pass
    connection.close()
";

/// One that connects so many times, sends so many bytes each time, and reads what there is.
const CLIENT: &str = "
import socket, sys
for _ in range(int(sys.argv[4])):
    connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
    connection.sendall(bytes(int(sys.argv[3])))
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(65536):
        pass
    connection.close()
";

fn server(count: &'static str) -> [&'static str; 8] {
    ["python3", "-I", "-S", "-c", SERVER, "${WEIR_PORT}", count, "${WEIR_HOST}"]
}

fn client(count: &'static str, times: &'static str) -> [&'static str; 9] {
    ["python3", "-I", "-S", "-c", CLIENT, "${WEIR_PEER}", "${WEIR_PORT}", count, times]
}

/// What a flow's senders had acknowledged: on a busy machine they may have sent something twice.
fn sent_once(report: &Report) -> u64 {
    assert!(report.column("flows", "sent_bytes")[0] as f64 >= report.stat("acked_bytes"));
    report.stat("acked_bytes") as u64
}

#[test]
fn what_programs_send_is_counted_to_the_byte_however_short_their_connections() {
    if !is_there("python3") {
        return;
    }
    let mut source = programs(&client("30000", "7"), Some(&server("0")));
    source["ready"] = json!({"when": "port", "port": null});
    let report = run_in_one(&job(LONG_MS, &[flow(0, tcp(), source)]));
    assert_eq!(report.warnings(), [""; 0]);
    assert_eq!(sent_once(&report), 210_000);
    let end = report.column("flows", "end_ns")[0];
    assert!(end > 50 * MS && end < LONG_MS * MS, "{end}");
    assert_eq!(report.events(0, EventKind::FlowStart).len(), 1);
    assert_eq!(report.events(0, EventKind::FlowEnd), [end]);
    // The kernel counts the end of a connection as a byte.
    assert_eq!(report.delivered(0, 0), 210_000 + 7);
    let times = report.column("delivered", "time_ns");
    assert!(times.iter().all(|time| time % (50 * MS) == 0), "{times:?}");
    let command = program(&report, false);
    assert_eq!((command.exit_code, command.stopped, command.host.as_str()), (Some(0), false, "src"));
    assert_eq!(command.arguments[6], "7000", "the port stands for its name");
    let peer = program(&report, true);
    assert_eq!((peer.exit_code, peer.stopped, peer.start_ns), (Some(143), true, None));
    assert_eq!(report.file("commands/f[0].peer.out"), b"listening\n");
}

#[test]
fn the_peer_sends_in_a_download() {
    if !is_there("python3") {
        return;
    }
    let mut source = programs(&client("10", "1"), Some(&server("500000")));
    source["ready"] = json!({"when": "output", "text": "listening"});
    source["sender"] = json!("peer");
    let (sender, receiver) = run(&job(LONG_MS, &[flow(0, tcp(), source)]));
    assert_eq!(sent_once(&sender), 500_000);
    assert_eq!(sender.events(0, EventKind::FlowStart).len(), 1);
    assert!(sender.column("flows", "end_ns")[0] < LONG_MS * MS);
    assert_eq!(receiver.delivered(0, 0), 500_001);
    assert_eq!((program(&sender, true).host.as_str(), program(&receiver, false).host.as_str()), ("src", "dst"));
}

#[test]
fn programs_know_what_they_are_for() {
    let script = "echo $WEIR_FLOW $WEIR_PORT $WEIR_CC $WEIR_SECONDS; echo $WEIR_HOST $WEIR_PEER >&2";
    let mut one = flow(0, tcp(), programs(&["sh", "-c", script], None));
    one["stop_ns"] = json!(3950 * MS);
    let job = job(LONG_MS, &[one]);
    let report = run_in_one(&job);
    assert_eq!(report.file("commands/f[0].out"), b"f[0] 7000 reno 4\n");
    let address = |host: usize| job["hosts"][host]["address"].as_str().expect("an address");
    assert_eq!(report.file("commands/f[0].err"), format!("{} {}\n", address(0), address(1)).as_bytes());
}

#[test]
fn a_flow_that_stops_ends_its_programs_also_those_that_will_not() {
    let stubborn = "trap '' TERM; echo here; while :; do sleep 0.1; done";
    let mut one = flow(0, tcp(), programs(&["sh", "-c", stubborn], Some(&["sleep", "60"])));
    one["stop_ns"] = json!(1500 * MS);
    let report = run_in_one(&job(4500, &[one]));
    let command = program(&report, false);
    assert_eq!((command.exit_code, command.stopped), (Some(137), true));
    let ended = command.end_ns.expect("it was killed");
    assert!(ended >= 3500 * MS, "asked at 1500 ms, killed 2 s later: {ended}");
    let peer = program(&report, true);
    assert_eq!((peer.exit_code, peer.stopped), (Some(143), true));
    assert!(peer.end_ns.is_some_and(|at| at >= 2500 * MS), "a second after its command was asked: {peer:?}");
    assert_eq!(report.column("flows", "end_ns"), [NULL]);
    assert_eq!(report.warnings(), [""; 0]);
}

#[test]
fn a_command_that_fails_is_a_warning_with_its_last_words() {
    let source = programs(&["sh", "-c", "echo that went wrong >&2; exit 7"], None);
    let report = run_in_one(&job(400, &[flow(0, tcp(), source)]));
    let text = report.warnings().join("\n");
    assert!(text.contains("flow f[0]: sh at src ended with code 7: that went wrong"), "{text}");
    assert_eq!(program(&report, false).exit_code, Some(7));
}

#[test]
fn what_cannot_run_is_refused_before_the_start() {
    let refused = |source: Value| {
        let (agent, first) = Agent::with(&ends(&job(400, &[flow(0, tcp(), source)]), &["to", "from"]));
        let Message::Error { text } = first else { panic!("{first:?}") };
        assert_eq!(agent.wait_code(), Some(1));
        text
    };
    let text = refused(programs(&["no-such-program-of-weir"], None));
    assert!(text.contains("flow f[0]: no-such-program-of-weir at src: there is no such program in PATH"), "{text}");
    let mut source = programs(&["true"], Some(&["sh", "-c", "echo no such thing; exit 3"]));
    source["ready"] = json!({"when": "output", "text": "here"});
    let text = refused(source);
    assert!(text.contains("peer sh at dst: ended") && text.contains("no such thing"), "{text}");
}

#[test]
fn nothing_is_left_when_the_agent_is_abandoned_or_killed() {
    for kill in [false, true] {
        let sleeper = format!("{}", 3600 + u64::from(std::process::id() % 1000) * 10 + u64::from(kill));
        let source = programs(&["sleep", &sleeper], Some(&["sleep", &sleeper]));
        let (mut agent, _) = Agent::with(&ends(&job(60_000, &[flow(0, tcp(), source)]), &["to", "from"]));
        agent.start_at(soon());
        await_that("both run", || running(&sleeper) == 2);
        if kill {
            agent.child.kill().expect("it runs");
        } else {
            agent.hang_up();
        }
        await_that("none is left", || running(&sleeper) == 0);
    }
}

fn await_that(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "not so: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How many processes `sleep SECONDS` run.
fn running(seconds: &str) -> usize {
    let wanted = format!("sleep\0{seconds}\0");
    let processes = std::fs::read_dir("/proc").expect("a process file system").flatten();
    processes.filter(|entry| std::fs::read(entry.path().join("cmdline")).is_ok_and(|c| c == wanted.as_bytes())).count()
}

fn iperf3(options: &[&str]) -> Value {
    let client = ["iperf3", "-c", "${WEIR_PEER}", "-4", "-p", "${WEIR_PORT}", "-J", "-i", "0.1", "-t", "10"];
    let server = ["iperf3", "-s", "-1", "-4", "-B", "${WEIR_HOST}", "-p", "${WEIR_PORT}", "-J", "-i", "0.1"];
    let mut source = programs(&[&client, options].concat(), Some(&server));
    source["ready"] = json!({"when": "port", "port": null});
    source["report"] = json!("iperf3");
    source
}

#[test]
fn iperf3_over_tcp_is_counted_by_the_kernel_and_its_report_is_kept() {
    if !is_there("iperf3") {
        return;
    }
    let source = iperf3(&["-C", "${WEIR_CC}", "-b", "40M"]);
    let report = run_in_one(&job(LONG_MS, &[flow(0, tcp(), source)]));
    assert_eq!(report.warnings(), [""; 0]);
    let delivered = report.delivered(0, 0);
    // Offered are 40 Mb/s for 5.95 s, in blocks of 128 KiB, at most.
    assert!((500_000..32_000_000).contains(&delivered), "{delivered}");
    assert!(report.column("samples", "cwnd").iter().all(|&cwnd| cwnd > 0));
    let times = report.column("samples", "time_ns");
    assert!(times.len() > 5 && times.iter().all(|time| time % (10 * MS) == 0), "{times:?}");
    let command = program(&report, false);
    assert!(command.stopped && command.arguments.contains(&"reno".to_owned()), "{command:?}");
    let own = program(&report, true).report.as_ref().expect("a report of the server")["delivered_bytes"];
    assert!(own >= 0.9 * delivered as f64, "{own} {delivered}");
    let file: Value = serde_json::from_slice(&report.file("commands/f[0].json")).expect("JSON");
    assert_eq!(file["end"]["sender_tcp_congestion"], "reno");
}

#[test]
fn datagrams_of_iperf3_are_counted_by_its_reports() {
    if !is_there("iperf3") {
        return;
    }
    let source = iperf3(&["-u", "-l", "1000", "-b", "8M"]);
    let report = run_in_one(&job(1500, &[flow(0, udp(1000), source)]));
    assert_eq!(report.warnings(), [""; 0]);
    let delivered = report.delivered(0, 0);
    assert!((100_000..6_300_000).contains(&delivered), "a megabyte a second for 5.95 s, at most: {delivered}");
    let sent: u64 = report.column("sent", "sent_ip_bytes").iter().sum();
    let packets = report.column("flows", "sent_packets")[0];
    let payload = report.column("flows", "sent_bytes")[0];
    // iperf3 counts a datagram before it sends it: the interrupt may come between.
    assert!(matches!(packets * 1000 - payload, 0 | 1000), "{payload} {packets}");
    assert!(sent.abs_diff(packets * 1028) <= packets, "headers count: {sent} {packets}");
    // The client is interrupted: what it sends between its report and its end is in the server's only.
    assert!(delivered as f64 <= 1.2 * payload as f64, "{delivered} {payload}");
    assert!(report.column("samples", "flow").is_empty());
    assert!(report.column("delivered", "time_ns").iter().all(|time| time % (50 * MS) == 0));
}
