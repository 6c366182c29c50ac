//! Pages: transfers over several connections of one user that wait for each other.

use serde_json::{Value, json};
use weir_run::EventKind;

use crate::harness::*;

/// A transfer: its wait, its size, and what it waits for, as connection and number.
type Listed<'a> = (u64, u64, &'a [(u32, u32)]);

/// A connection of user `web[0]` with these transfers.
fn connection(stream: u32, keep: bool, list: &[Listed]) -> Value {
    let list: Vec<Value> = list
        .iter()
        .map(|(wait_ns, bytes, after)| {
            let after: Vec<Value> = after.iter().map(|(s, t)| json!({"stream": s, "transfer": t})).collect();
            json!({"wait_ns": wait_ns, "bytes": bytes, "page": 0, "after": after})
        })
        .collect();
    let mut flow = flow(0, tcp(), json!({"kind": "transfers", "transfers": list, "keep_connection": keep}));
    (flow["name"], flow["group"], flow["stream"]) = (json!(format!("web[0].{stream}")), json!("web"), json!(stream));
    flow
}

/// A page of a document and two objects, and after 100 ms one of a document and an object, on the other connection.
fn two_pages(keep: bool) -> [Value; 2] {
    [
        connection(0, keep, &[(0, 30_000, &[]), (0, 2_000_000, &[]), (100 * MS, 5_000, &[(1, 0)])]),
        connection(1, keep, &[(0, 70_000, &[(0, 0)]), (20 * MS, 1_448, &[(0, 2)])]),
    ]
}

fn times(report: &Report, flow: u64) -> Vec<(u64, u64)> {
    let column = |name| report.select("flows", name, &[("flow", flow)]);
    column("start_ns").into_iter().zip(column("end_ns")).collect()
}

#[test]
fn objects_follow_their_document_and_pages_each_other() {
    for keep in [true, false] {
        let (sender, receiver) = run(&job(1500, &two_pages(keep)));
        let (first, second) = (times(&sender, 0), times(&sender, 1));
        assert_eq!((first.len(), second.len()), (3, 2), "kept {keep}");
        let document = first[0].1;
        assert!(first[1].0 >= document && second[0].0 >= document, "{first:?} {second:?}");
        let page = first[1].1.max(second[0].1);
        assert!(first[2].0 >= page + 100 * MS, "{first:?} {second:?}");
        assert!(second[1].0 >= first[2].1 + 20 * MS, "{first:?} {second:?}");
        let sizes = [30_000, 2_000_000, 5_000];
        sizes.iter().enumerate().for_each(|(i, size)| assert_eq!(receiver.delivered(0, i as u64), *size));
        assert_eq!([receiver.delivered(1, 0), receiver.delivered(1, 1)], [70_000, 1_448]);
        let connections = [0, 1].map(|flow| sender.events(flow, EventKind::Established).len());
        assert_eq!(connections, if keep { [1, 1] } else { [3, 2] });
        assert_eq!(sender.events(0, EventKind::FlowEnd), [first[2].1]);
        assert_eq!(sender.events(1, EventKind::FlowEnd), [second[1].1]);
        assert!(sender.warnings().is_empty(), "{:?}", sender.warnings());
    }
}

#[test]
fn connections_of_a_user_end_with_its_last_page() {
    let mut flows = two_pages(true);
    flows.iter_mut().for_each(|flow| flow["stop_ns"] = json!(500 * MS));
    flows[0]["source"]["transfers"][1]["bytes"] = json!(1000);
    flows[0]["source"]["transfers"][2]["wait_ns"] = json!(1000 * MS);
    let (sender, receiver) = run(&job(1000, &flows));
    assert_eq!(times(&sender, 0).len() + times(&sender, 1).len(), 3);
    assert_eq!(receiver.stat("delivered_bytes"), 101_000.0);
    let page = times(&sender, 0)[1].1.max(times(&sender, 1)[0].1);
    for flow in [0, 1] {
        let end = sender.events(flow, EventKind::FlowEnd);
        assert!(end.len() == 1 && (page..800 * MS).contains(&end[0]), "flow {flow}: {end:?} {page}");
    }
}

/// As in the lab, where one process has both ends.
#[test]
fn one_process_serves_a_user() {
    let job = job(1500, &two_pages(true));
    let report = run_in_one(&job);
    assert_eq!((times(&report, 0).len(), times(&report, 1).len()), (3, 2));
    assert_eq!(report.stat("acked_bytes"), report.stat("delivered_bytes"));
}
