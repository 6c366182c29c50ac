//! Pages: a document, then its objects over parallel connections, then a pause until the next one.

use weir_plan::{After, Flow, Plan, Source, Transfer, Transport};

use crate::common::{MS, S, add_wire_flow, droptail, events, run, run_with, tcp, wire};
use weir_sim::Options;

/// Ethernet's overhead, and the headers of a data packet and of an acknowledgement, with timestamps.
const WIRE: u64 = 38;
const HEADERS: u64 = 52;
/// A byte at 100 Mb/s.
const BYTE_NS: u64 = 80;
const DELAY: u64 = 10 * MS;
/// SYN and SYN-ACK of 60 bytes.
const HANDSHAKE: u64 = 2 * (DELAY + (60 + WIRE) * BYTE_NS);

/// The third packet of a handshake, ahead of the first data of its connection.
const CONFIRMATION: u64 = (HEADERS + WIRE) * BYTE_NS;

/// From the sending of an object of one segment to its acknowledgement.
fn object(bytes: u64) -> u64 {
    2 * DELAY + serial(bytes) + serial(0)
}

fn serial(bytes: u64) -> u64 {
    (bytes + HEADERS + WIRE) * BYTE_NS
}

fn transfer(page: u32, wait_ns: u64, bytes: u64, after: &[(u32, u32)]) -> Transfer {
    let after = after.iter().map(|&(stream, transfer)| After { stream, transfer }).collect();
    Transfer { wait_ns, bytes, page: Some(page), after }
}

/// A user whose connections have these transfers.
fn user(connections: Vec<Vec<Transfer>>, keep_connection: bool, stop_ns: Option<u64>) -> Plan {
    let mut plan = wire(100_000_000, DELAY, droptail(None, Some(100)), 10 * S);
    for (stream, transfers) in connections.into_iter().enumerate() {
        let source = Source::Transfers { transfers, keep_connection };
        let index = add_wire_flow(&mut plan, 50 * MS, Transport::Tcp(tcp("reno")), source);
        let name = format!("web[0].{stream}");
        let flow = &mut plan.flows[index];
        *flow = Flow { name, group: "web".into(), index: 0, stream: stream as u32, stop_ns, ..flow.clone() };
    }
    plan
}

/// Two pages over two connections: a document and two objects, a second later a document and one object.
fn two_pages() -> Vec<Vec<Transfer>> {
    vec![
        vec![transfer(0, 0, 1000, &[]), transfer(0, 0, 600, &[]), transfer(1, S, 200, &[(1, 0)])],
        vec![transfer(0, 0, 800, &[(0, 0)]), transfer(1, 5 * MS, 300, &[(0, 2)])],
    ]
}

/// Start and end of each transfer of a flow.
fn times(tables: &weir_sim::Tables, flow: u32) -> Vec<(u64, u64)> {
    let flows = &tables.flows;
    (0..flows.rows()).filter(|&i| flows.flow[i] == flow).map(|i| (flows.start_ns[i], flows.end_ns[i])).collect()
}

/// On an empty path a page takes what its packets do. The document: a handshake and a round trip. The objects begin when its
/// last byte is acknowledged; the one over a new connection takes a handshake more, whose SYN goes behind the other object.
#[test]
fn a_page_on_an_empty_path_takes_what_its_packets_do() {
    let tables = run(&user(two_pages(), true, None));
    let document = 50 * MS;
    let objects = document + HANDSHAKE + CONFIRMATION + object(1000);
    let first = objects + object(600);
    let second = objects + serial(600) + HANDSHAKE + CONFIRMATION + object(800);
    // The next page: after the last object and a second; its object after 5 ms of parsing, over a connection that is open.
    let next = second + S;
    let last = next + object(200) + 5 * MS;
    assert_eq!(
        times(&tables, 0),
        [(document, objects), (objects, first), (next, next + object(200))],
        "document, object, document"
    );
    assert_eq!(times(&tables, 1), [(objects, second), (last, last + object(300))], "object, object");
    assert_eq!(tables.flows.delivered_bytes, tables.flows.bytes);
    assert_eq!(events(&tables, "established", 0).len() + events(&tables, "established", 1).len(), 2);
    assert_eq!(events(&tables, "flow_end", 0), [(next + object(200), 0)]);
    assert_eq!(events(&tables, "flow_end", 1), [(last + object(300), 0)]);
}

#[test]
fn a_connection_for_each_object_takes_a_handshake_each() {
    let tables = run(&user(two_pages(), false, None));
    let objects = 50 * MS + HANDSHAKE + CONFIRMATION + object(1000);
    // Both begin with a handshake, and the data of the second wait behind those of the first.
    let begin = objects + HANDSHAKE + CONFIRMATION;
    let ends = [begin + object(600), begin + serial(600) + CONFIRMATION + object(800)];
    assert_eq!([times(&tables, 0)[1], times(&tables, 1)[0]], [(objects, ends[0]), (objects, ends[1])]);
    assert_eq!(times(&tables, 0)[2].0, ends[0].max(ends[1]) + S, "the next page waits for the last of them");
    assert_eq!(events(&tables, "established", 0).len() + events(&tables, "established", 1).len(), 5);
}

/// When no page comes any more, connections that wait for one are over too, and silent.
#[test]
fn connections_of_a_user_end_with_its_last_page() {
    let tables = run(&user(two_pages(), true, Some(900 * MS)));
    assert_eq!(tables.flows.rows(), 3, "the second page is not begun");
    let ends = [events(&tables, "flow_end", 0), events(&tables, "flow_end", 1)];
    let page = tables.flows.end_ns.iter().copied().max().expect("objects");
    assert_eq!(ends, [vec![(page, 0)], vec![(page, 0)]]);
    assert!(tables.goodput.time_ns.iter().all(|&at| at < page + S), "no rows after the end");
}

#[test]
fn the_slow_mode_finds_the_same_pages() {
    let plan = user(two_pages(), true, None);
    assert_eq!(run(&plan), run_with(&plan, Options { reference: true, ..Options::default() }));
}
