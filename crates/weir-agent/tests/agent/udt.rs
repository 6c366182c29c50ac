//! Flows over UDT: transfers in one connection and in several, without end, and beside strangers.

use std::net::{IpAddr, UdpSocket};

use serde_json::{Value, json};
use weir_run::EventKind;
use weir_sys::clock;

use crate::harness::*;

const PAYLOAD: u64 = 1456;
const TRANSFERS: [(u64, u64); 4] = [(0, 1), (5 * MS, 3 * PAYLOAD), (0, 300_001), (10 * MS, PAYLOAD)];

fn udt(timer_ns: u64) -> Value {
    let buffer = 256 * PAYLOAD;
    json!({"protocol": "udt", "payload_bytes": PAYLOAD, "send_buffer_bytes": buffer, "receive_buffer_bytes": buffer,
           "timer_ns": timer_ns})
}

#[test]
fn transfers_arrive_whole_in_one_connection_and_in_several() {
    for keep in [false, true] {
        let mut job = job(1200, &[flow(0, udt(0), transfers(&TRANSFERS, keep))]);
        job["token"] = json!("00112233445566778899aabbccddeeff");
        let (sender, receiver) = run(&job);
        let sizes = TRANSFERS.map(|(_, bytes)| bytes);
        let delivered: Vec<u64> = (0..4).map(|transfer| receiver.delivered(0, transfer)).collect();
        assert_eq!(delivered, sizes, "keep: {keep}");
        assert_eq!(sender.column("flows", "bytes"), sizes);
        assert!(sender.column("flows", "end_ns").iter().all(|&end| end < 1200 * MS));
        assert_eq!(sender.events(0, EventKind::Established).len(), if keep { 1 } else { 4 });
        assert_eq!(sender.stat("acked_bytes"), sizes.iter().sum::<u64>() as f64);
        let (packets, again) =
            (sender.column("flows", "sent_packets"), sender.column("flows", "retransmitted_packets"));
        let fresh: Vec<u64> = packets.iter().zip(&again).map(|(packets, again)| packets - again).collect();
        assert_eq!(fresh, sizes.map(|bytes| bytes.div_ceil(PAYLOAD)));
        assert_eq!(
            receiver.stat("udt.0.received") - receiver.stat("udt.0.duplicates"),
            fresh.iter().sum::<u64>() as f64
        );
        assert_eq!((sender.stat("strangers"), receiver.stat("strangers")), (0.0, 0.0));
    }
}

#[test]
fn a_bulk_flow_shows_its_rate_and_ends_when_it_is_stopped() {
    let mut flow = flow(0, udt(4 * MS), bulk());
    flow["stop_ns"] = json!(400 * MS);
    let (sender, receiver) = run(&job(1500, &[flow]));
    let delivered = receiver.delivered(0, 0);
    assert!(delivered > 100 * PAYLOAD, "{delivered}");
    assert_eq!(sender.stat("acked_bytes"), delivered as f64);
    assert!(sender.column("flows", "end_ns")[0] < 1500 * MS);
    let sent = sender.column("flows", "sent_packets")[0];
    assert_eq!(sender.column("flows", "sent_bytes"), [sent * PAYLOAD]);
    assert_eq!(sender.column("sent", "sent_ip_bytes").iter().sum::<u64>(), sent * (PAYLOAD + 44));
    // Processor time of each interval, all but that before the start and after the last interval.
    for (report, part) in [(&sender, 0), (&receiver, 1)] {
        let (parts, user) = (report.column("processor", "part"), report.column("processor", "user_ns"));
        assert!(parts.len() >= 20 && parts.iter().all(|it| *it == part), "{parts:?}");
        let spent = user.iter().chain(&report.column("processor", "system_ns")).sum::<u64>() as f64 / 1e9;
        assert!(spent > 0.0 && spent <= report.stat("cpu_user_s") + report.stat("cpu_system_s") + 1e-3, "{spent}");
    }
    let shown = sender.column("probes", "value");
    assert!(!shown.is_empty() && shown.len() % 3 == 0, "{} values", shown.len());
}

#[test]
fn strangers_are_refused_and_disturb_nothing() {
    let mut flow = flow(0, udt(0), transfers(&TRANSFERS, false));
    flow["start_ns"] = json!(400 * MS);
    let mut job = job(1500, &[flow]);
    job["token"] = json!("00112233445566778899aabbccddeeff");
    let (mut receiver, _) = Agent::with(&ends(&job, &["to"]));
    let (mut sender, _) = Agent::with(&ends(&job, &["from"]));
    let epoch = soon();
    receiver.start_at(epoch);
    sender.start_at(epoch);
    std::thread::sleep(std::time::Duration::from_nanos((epoch + 50 * MS).saturating_sub(clock::monotonic_ns())));
    let to: IpAddr = job["hosts"][1]["address"].as_str().and_then(|text| text.parse().ok()).expect("an address");
    let stranger = UdpSocket::bind((IpAddr::from([127, 0, 0, 1]), 0)).expect("a port");
    // A handshake of UDT with other names, its beginning, one that is too long; data; nothing.
    let words = [1u32 << 31, 0, 0, 0, 4, 1, 7, 1500, 256, 1, 99, 0, 0, 0, 0, 0];
    let handshake: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let longer = [&handshake[..], &[0; 4]].concat();
    for datagram in [&handshake[..], &handshake[..40], &longer, &[0; 1472], &[0xff; 20], &[]] {
        stranger.send_to(datagram, (to, 7000)).expect("room");
    }
    let (sender, receiver) = (sender.wait(), receiver.wait());
    assert_eq!((sender.code, receiver.code), (Some(0), Some(0)), "{sender:?} {receiver:?}");
    assert_eq!((0..4).map(|it| receiver.delivered(0, it)).collect::<Vec<_>>(), TRANSFERS.map(|(_, bytes)| bytes));
    assert_eq!((sender.stat("strangers"), receiver.stat("strangers")), (0.0, 6.0));
    assert_eq!(receiver.warnings().len(), 1, "{:?}", receiver.warnings());
}
