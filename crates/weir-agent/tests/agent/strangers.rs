//! In a run with a token, only those that carry it count: strangers change no figure.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_sys::clock;
use weir_sys::socket::Socket;

use crate::harness::*;

const TOKEN: &str = "00112233445566778899aabbccddeeff";
const SECRET: u128 = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff;
const TCP_PORT: u16 = 7000;
const TRANSFERS: [(u64, u64); 4] = [(0, 1), (10 * MS, 70_000), (5 * MS, 3_000_000), (0, 1448)];

fn guarded(mut job: Value) -> Value {
    job["token"] = json!(TOKEN);
    job
}

fn address(job: &Value, host: usize) -> IpAddr {
    job["hosts"][host]["address"].as_str().and_then(|text| text.parse().ok()).expect("an address")
}

/// Transfers in one connection and in several, and datagrams with a header, without one, and of one byte. They begin
/// after `start_ns`.
fn mixed(end_ms: u64, start_ns: u64) -> Value {
    let cbr = |payload: u32| json!({"kind": "cbr", "rate_bps": 100 * 8 * (payload + 28)});
    let mut flows = vec![
        flow(0, tcp(), transfers(&TRANSFERS, false)),
        flow(1, tcp(), transfers(&TRANSFERS, true)),
        flow(2, udp(972), cbr(972)),
        flow(3, udp(16), cbr(16)),
        flow(4, udp(1), cbr(1)),
    ];
    for (number, flow) in flows.iter_mut().enumerate() {
        flow["start_ns"] = json!(start_ns);
        if number >= 2 {
            flow["stop_ns"] = json!(start_ns + 400 * MS);
        }
    }
    job(end_ms, &flows)
}

/// What must not depend on a token, nor on strangers.
fn figures(sender: &Report, receiver: &Report) -> Vec<Vec<u64>> {
    let mut figures = Vec::new();
    for flow in 0..5 {
        let of_flow = |column| sender.select("flows", column, &[("flow", flow)]);
        figures.push(of_flow("transfer"));
        figures.push(of_flow("bytes"));
        figures.push((0..4).map(|transfer| receiver.delivered(flow, transfer)).collect());
        // A busy machine may send a segment twice.
        let retransmitted = of_flow("retransmitted_packets");
        let once = of_flow("sent_bytes").into_iter().zip(TRANSFERS).zip(retransmitted);
        figures
            .push(once.map(|((sent, (_, bytes)), again)| if again > 0 && flow < 2 { bytes } else { sent }).collect());
    }
    figures.push(sender.select("flows", "sent_packets", &[("flow", 2)]));
    figures
        .push(["acked_bytes", "delivered_bytes"].map(|name| (sender.stat(name) + receiver.stat(name)) as u64).to_vec());
    figures.push((2..5).map(|flow| receiver.stat(&format!("cbr.{flow}.received")) as u64).collect());
    figures.push(vec![receiver.stat("cbr.2.lost") as u64, receiver.stat("cbr.2.reordered") as u64]);
    figures
}

#[test]
fn a_token_changes_no_figure() {
    let job = mixed(1500, 50 * MS);
    let (sender, receiver) = run(&job);
    let open = figures(&sender, &receiver);
    assert_eq!(open[2], TRANSFERS.map(|(_, bytes)| bytes));
    assert_eq!(open[3], open[2]);
    let (sender, receiver) = run(&guarded(job));
    assert_eq!(figures(&sender, &receiver), open);
    assert_eq!((sender.stat("strangers"), receiver.stat("strangers")), (0.0, 0.0));
    assert!(receiver.warnings().is_empty(), "{:?}", receiver.warnings());
}

#[test]
fn a_bulk_flow_with_a_token_delivers_what_is_acknowledged() {
    let mut flow = flow(0, tcp(), bulk());
    flow["stop_ns"] = json!(300 * MS);
    let (sender, receiver) = run(&guarded(job(900, &[flow])));
    let delivered = receiver.delivered(0, 0);
    assert!(delivered > 1 << 20, "{delivered}");
    assert_eq!(sender.stat("acked_bytes"), delivered as f64);
    assert!(sender.column("flows", "end_ns")[0] < 900 * MS);
    // The last sample may be older than the end, and none is ahead of it.
    assert!(sender.column("samples", "acked_bytes").iter().all(|&acked| acked <= delivered));
}

/// Without a fragment: a small transfer and the token are one packet.
#[test]
fn the_token_costs_no_packet() {
    let (sender, _) = run(&guarded(job(400, &[flow(0, tcp(), transfers(&[(0, 1000)], false))])));
    let sent = sender.column("flows", "sent_packets")[0] - sender.column("flows", "retransmitted_packets")[0];
    assert_eq!(sent, 1);
    assert_eq!(sender.column("sent", "sent_ip_bytes").iter().sum::<u64>() % (1000 + 52), 0);
}

fn sleep_until(instant_ns: u64) {
    std::thread::sleep(Duration::from_nanos(instant_ns.saturating_sub(clock::monotonic_ns())));
}

/// Waits until a connection is closed from the other side; says how long that took.
fn outlast(mut stream: TcpStream) -> Duration {
    let begun = Instant::now();
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    let heard = stream.read(&mut [0; 16]).map_err(|error| error.kind());
    assert!(matches!(heard, Ok(0) | Err(std::io::ErrorKind::ConnectionReset)), "{heard:?}");
    begun.elapsed()
}

#[test]
fn strangers_are_refused_and_disturb_nothing() {
    let plain = mixed(4500, 1000 * MS);
    let (sender, receiver) = run(&plain);
    let alone = figures(&sender, &receiver);

    let job = guarded(plain);
    let to = address(&job, 1);
    let (mut receiver, _) = Agent::with(&ends(&job, &["to"]));
    let (mut sender, _) = Agent::with(&ends(&job, &["from"]));
    let epoch = soon();
    receiver.start_at(epoch);
    sender.start_at(epoch);
    sleep_until(epoch + 50 * MS);
    let connect = |port: u16| TcpStream::connect((to, port)).expect("it listens");
    let says = |port: u16, what: &[u8]| {
        let mut stream = connect(port);
        stream.write_all(what).expect("room");
        stream
    };
    // The first eight say nothing and take every place of newcomers, until two more push two of them out.
    let silent: Vec<TcpStream> = (0..10).map(|_| connect(TCP_PORT)).collect();
    let almost = (SECRET ^ 1).to_be_bytes();
    let wrong =
        [says(TCP_PORT + 1, &almost), says(TCP_PORT + 1, &[0; 1000]), says(TCP_PORT + 1, b"GET / HTTP/1.1\r\n\r\n")];
    let slow = says(TCP_PORT + 1, &almost[..15]);
    drop(says(TCP_PORT + 1, &almost[..5]));
    wrong.into_iter().for_each(|stream| assert!(outlast(stream) < Duration::from_millis(1500)));
    let datagrams = UdpSocket::bind((IpAddr::from([127, 0, 0, 1]), 0)).expect("a port");
    let forged = [(2, 972), (2, 5), (3, 16), (3, 972), (4, 1), (4, 20)];
    for (port, size) in forged {
        let mut payload = vec![0xff; size];
        datagrams.send_to(&payload, (to, TCP_PORT + port)).expect("room");
        // With the token's first bytes, but of another length.
        payload.iter_mut().zip(SECRET.to_be_bytes()).for_each(|(place, byte)| *place = byte);
        payload.push(0);
        datagrams.send_to(&payload, (to, TCP_PORT + port)).expect("room");
    }
    outlast(slow);
    for stream in silent {
        outlast(stream);
    }
    let (sender, receiver) = (sender.wait(), receiver.wait());
    assert_eq!((sender.code, receiver.code), (Some(0), Some(0)), "{sender:?} {receiver:?}");
    assert_eq!(figures(&sender, &receiver), alone);
    assert_eq!(receiver.stat("strangers"), (10 + 3 + 1 + 1 + 2 * forged.len()) as f64);
    let warnings = receiver.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("did not carry the token") && warnings[0].contains("127.0.0.1"), "{warnings:?}");
    assert!(!warnings[0].contains(TOKEN));
}

#[test]
fn an_agent_of_another_run_is_a_stranger() {
    let job = guarded(job(3000, &[flow(0, tcp(), bulk())]));
    let mut other = job.clone();
    other["token"] = json!(TOKEN.replace('0', "1"));
    let mut without = job.clone();
    without.as_object_mut().expect("a job").remove("token");
    for sent in [other, without] {
        let (mut receiver, _) = Agent::with(&ends(&job, &["to"]));
        let (mut sender, _) = Agent::with(&ends(&sent, &["from"]));
        let epoch = soon();
        receiver.start_at(epoch);
        sender.start_at(epoch);
        let (sender, receiver) = (sender.wait(), receiver.wait());
        assert_eq!((sender.code, receiver.code), (Some(1), Some(0)));
        assert!(sender.error().contains("port 7000"), "{}", sender.error());
        assert_eq!((receiver.stat("delivered_bytes"), receiver.stat("strangers")), (0.0, 1.0));
    }
}

/// A path may lose the first segment for seconds: the sender's host has no two seconds' limit.
#[test]
fn a_token_that_comes_late_from_the_sender_is_heard() {
    let job = guarded(job(4000, &[flow(0, tcp(), transfers(&[(0, 5000)], false))]));
    let (mut receiver, _) = Agent::with(&ends(&job, &["to"]));
    let epoch = soon();
    receiver.start_at(epoch);
    sleep_until(epoch + 50 * MS);
    let (from, to) = (address(&job, 0), address(&job, 1));
    let socket = Socket::tcp(&from).expect("a socket");
    socket.bind(SocketAddr::new(from, 0)).expect("a port");
    socket.connect(SocketAddr::new(to, TCP_PORT)).expect("it listens");
    let token = SECRET.to_be_bytes();
    assert_eq!(socket.send(&token[..9]).expect("it is open"), Some(9));
    sleep_until(epoch + 2500 * MS);
    assert_eq!(socket.send(&[&token[9..], &[0; 5000]].concat()).expect("it is open"), Some(7 + 5000));
    let report = receiver.wait();
    assert_eq!((report.delivered(0, 0), report.stat("strangers")), (5000, 0.0));
}
