//! Plans, processes, and what they say.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_protocol::{ColumnType, Message};
use weir_run::{EVENT_KINDS, EventKind};

pub const MS: u64 = 1_000_000;
pub const NULL: u64 = u64::MAX;
/// No agent needs as long for what a test asks of it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A flow of the tests: from the first host to the second.
pub fn flow(index: usize, transport: Value, source: Value) -> Value {
    json!({
        "name": format!("f[{index}]"), "group": "f", "index": index, "stream": 0, "role": "test", "from": 0, "to": 1,
        "path": [0], "reverse_path": [1], "start_ns": 50 * MS, "stop_ns": null, "transport": transport, "source": source,
    })
}

pub fn tcp() -> Value {
    json!({
        "protocol": "tcp", "cc": "linux:reno", "stack": "linux", "mss_bytes": 1448, "timestamps": true, "sack": true,
        "ecn": false, "initial_window": 10, "send_buffer_bytes": 1 << 20, "receive_buffer_bytes": 1 << 20,
        "pacing": false, "ack": "delayed",
    })
}

pub fn udp(payload_bytes: u32) -> Value {
    json!({"protocol": "udp", "payload_bytes": payload_bytes})
}

pub fn transfers(list: &[(u64, u64)], keep_connection: bool) -> Value {
    let list: Vec<Value> = list.iter().map(|&(wait_ns, bytes)| json!({"wait_ns": wait_ns, "bytes": bytes})).collect();
    json!({"kind": "transfers", "transfers": list, "keep_connection": keep_connection})
}

pub fn bulk() -> Value {
    json!({"kind": "bulk"})
}

/// The job of an experiment between two addresses of this test's own.
pub fn job(end_ms: u64, flows: &[Value]) -> Value {
    let link = |name: &str, from: u32, to: u32| {
        json!({
            "name": name, "from": from, "to": to, "rate_bps": 1_000_000_000, "mtu_bytes": 65535, "overhead_bytes": 38,
            "delay": {"kind": "fixed", "delay_ns": 0}, "queue": {"kind": "droptail", "limit": {"bytes": 1_000_000}},
        })
    };
    let plan = json!({
        "version": 1, "title": "test", "seed": 1, "end_ns": end_ms * MS,
        "nodes": [{"name": "src", "kind": "host"}, {"name": "dst", "kind": "host"}],
        "links": [link("there", 0, 1), link("back", 1, 0)], "flows": flows,
        "measure": {"goodput_ns": 50 * MS, "tcp_ns": 10 * MS, "links_ns": 0},
    });
    json!({
        "version": 1, "plan": plan, "first_port": 7000,
        "hosts": [{"node": 0, "address": own_address()}, {"node": 1, "address": own_address()}],
    })
}

/// An address of the loopback interface that no other test of this or another process uses.
pub fn own_address() -> IpAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let pid = std::process::id();
    let last = NEXT.fetch_add(1, Ordering::Relaxed);
    IpAddr::V4(Ipv4Addr::new(127, 1 + (pid >> 8) as u8 % 250, pid as u8, last))
}

/// Which ends of all flows of `job` a process serves.
pub fn ends(job: &Value, kinds: &[&str]) -> Value {
    let count = job["plan"]["flows"].as_array().expect("flows").len();
    let ends = kinds.iter().flat_map(|kind| (0..count).map(move |flow| json!({*kind: flow}))).collect::<Vec<_>>();
    let mut part = job.clone();
    part["ends"] = Value::Array(ends);
    part
}

/// An agent that is running; killed if it is dropped.
pub struct Agent {
    pub child: Child,
    stdin: Option<ChildStdin>,
    reader: Option<JoinHandle<Vec<u8>>>,
}

/// All that an agent said.
#[derive(Debug)]
pub struct Report {
    pub code: Option<i32>,
    pub messages: Vec<Message>,
    files: BTreeMap<String, Vec<u8>>,
    tables: BTreeMap<String, BTreeMap<String, Vec<u64>>>,
}

impl Agent {
    pub fn spawn(arguments: &[&str]) -> Agent {
        let mut child = Command::new(env!("CARGO_BIN_EXE_weir-agent"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the agent starts");
        let stdin = child.stdin.take();
        Agent { child, stdin, reader: None }
    }

    /// Starts an agent with a job and waits for its first word.
    pub fn with(job: &Value) -> (Agent, Message) {
        let mut agent = Agent::spawn(&[]);
        agent.say(&job.to_string());
        let first = agent.first_line();
        (agent, serde_json::from_str(&first).expect("a message"))
    }

    /// Writes a line; one that the agent no longer reads is no failure of the test.
    pub fn say(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(format!("{line}\n").as_bytes());
        }
    }

    pub fn start_at(&mut self, epoch_ns: u64) {
        self.start("monotonic", epoch_ns, 0);
    }

    /// Starts it `after_ns` after `clock` reads `reading_ns`.
    pub fn start(&mut self, clock: &str, reading_ns: u64, after_ns: u64) {
        let start = json!({"command": "start", "clock": clock, "reading_ns": reading_ns, "after_ns": after_ns});
        self.say(&start.to_string());
    }

    /// Ends its standard input.
    pub fn hang_up(&mut self) {
        self.stdin = None;
    }

    /// Its first line on standard output; what follows is collected.
    pub fn first_line(&mut self) -> String {
        let mut stdout = BufReader::new(self.child.stdout.take().expect("not taken before"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        self.reader = Some(std::thread::spawn(move || {
            let mut rest = Vec::new();
            stdout.read_to_end(&mut rest).expect("the rest");
            rest
        }));
        line
    }

    /// Waits for its end, whatever it says.
    pub fn wait_code(mut self) -> Option<i32> {
        self.wait_for_exit()
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Report {
        let code = self.wait_for_exit();
        let rest = self.reader.take().map_or_else(Vec::new, |reader| reader.join().expect("the reader"));
        Report::parse(code, &rest)
    }

    fn wait_for_exit(&mut self) -> Option<i32> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the agent has not ended after {PATIENCE:?}");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Report {
    fn parse(code: Option<i32>, mut rest: &[u8]) -> Report {
        let mut report = Report { code, messages: Vec::new(), files: BTreeMap::new(), tables: BTreeMap::new() };
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            let message: Message = serde_json::from_slice(&rest[..end]).expect("a message");
            rest = &rest[end + 1..];
            if let Message::Table { name, rows, columns, bytes } = &message {
                let (mut content, after) = rest.split_at(*bytes as usize);
                rest = after;
                let table = report.tables.entry(name.clone()).or_default();
                for (column, kind) in columns {
                    let size = match kind {
                        ColumnType::U8 => 1,
                        ColumnType::U32 => 4,
                        ColumnType::U64 | ColumnType::I64 => 8,
                        ColumnType::Name => 16,
                    };
                    let (part, after) = content.split_at(*rows as usize * size);
                    content = after;
                    table.entry(column.clone()).or_default().extend(part.chunks_exact(size).map(integer));
                }
                assert!(content.is_empty(), "a table has no more than its columns");
            } else if let Message::File { name, bytes } = message {
                let (content, after) = rest.split_at(bytes as usize);
                report.files.insert(name, content.to_vec());
                rest = after;
            } else {
                report.messages.push(message);
            }
        }
        assert!(rest.is_empty(), "every line ends");
        report
    }

    /// A column of a table; empty if there were no rows. Nulls of any width are [`NULL`].
    pub fn column(&self, table: &str, column: &str) -> Vec<u64> {
        let Some(table) = self.tables.get(table) else { return Vec::new() };
        table.get(column).unwrap_or_else(|| panic!("no column {column}")).clone()
    }

    /// The rows of a table where all these columns have these values, as the values of one more column.
    pub fn select(&self, table: &str, column: &str, conditions: &[(&str, u64)]) -> Vec<u64> {
        let conditions: Vec<(Vec<u64>, u64)> =
            conditions.iter().map(|(name, value)| (self.column(table, name), *value)).collect();
        let rows = self.column(table, column).into_iter().enumerate();
        rows.filter(|(row, _)| conditions.iter().all(|(values, wanted)| values[*row] == *wanted))
            .map(|(_, value)| value)
            .collect()
    }

    /// Payload that a flow's receiver got, of one transfer.
    pub fn delivered(&self, flow: u64, transfer: u64) -> u64 {
        self.select("delivered", "delivered_bytes", &[("flow", flow), ("transfer", transfer)]).iter().sum()
    }

    /// When events of a kind happened to a flow.
    pub fn events(&self, flow: u64, kind: EventKind) -> Vec<u64> {
        self.select("events", "time_ns", &[("flow", flow), ("kind", kind as u64)])
    }

    /// A file that it handed over.
    pub fn file(&self, name: &str) -> Vec<u8> {
        self.files.get(name).unwrap_or_else(|| panic!("no {name} among {:?}", self.files.keys())).clone()
    }

    pub fn stat(&self, name: &str) -> f64 {
        match self.messages.last() {
            Some(Message::End { stats }) => *stats.get(name).unwrap_or_else(|| panic!("no {name} in {stats:?}")),
            other => panic!("ended with {other:?}"),
        }
    }

    /// Without the warning that this host was busy, which a machine with other work earns.
    pub fn warnings(&self) -> Vec<&str> {
        let texts = self.messages.iter().filter_map(|message| match message {
            Message::Warning { text } => Some(text.as_str()),
            _ => None,
        });
        texts.filter(|text| !text.contains("this host was busy")).collect()
    }

    pub fn error(&self) -> &str {
        match self.messages.last() {
            Some(Message::Error { text }) => text,
            other => panic!("ended with {other:?}"),
        }
    }
}

/// A value; of a name, its first eight characters.
fn integer(bytes: &[u8]) -> u64 {
    if bytes.iter().all(|&byte| byte == 0xff) {
        return NULL;
    }
    let mut whole = [0; 8];
    let bytes = &bytes[..bytes.len().min(whole.len())];
    whole[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(whole)
}

/// An instant that is ahead by as much as a run's start is.
pub fn soon() -> u64 {
    weir_sys::clock::monotonic_ns() + 300 * MS
}

/// Runs a job: the receiving ends in one process, the sending ends in another.
pub fn run(job: &Value) -> (Report, Report) {
    let (mut receiver, first) = Agent::with(&ends(job, &["to"]));
    assert_eq!(first, Message::Ready);
    let (mut sender, first) = Agent::with(&ends(job, &["from"]));
    assert_eq!(first, Message::Ready);
    let epoch = soon();
    receiver.start_at(epoch);
    sender.start_at(epoch);
    let (sender, receiver) = (sender.wait(), receiver.wait());
    for report in [&sender, &receiver] {
        assert_eq!(report.code, Some(0), "{report:?}");
        assert!(report.column("events", "kind").iter().all(|&kind| kind < EVENT_KINDS.len() as u64));
    }
    (sender, receiver)
}

/// Runs a job in one process.
pub fn run_in_one(job: &Value) -> Report {
    let (mut agent, first) = Agent::with(&ends(job, &["to", "from"]));
    assert_eq!(first, Message::Ready);
    agent.start_at(soon());
    let report = agent.wait();
    assert_eq!(report.code, Some(0), "{report:?}");
    report
}
