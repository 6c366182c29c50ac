//! What applications ask of connections: one after another or one for all, with pauses, limited by buffers, cut off.

use weir_plan::{Loss, Source, Tcp, Transport};
use weir_sim::trace::Event;

use crate::common::{MS, S, add_wire_flow, close, droptail, events, goodput, run, tcp, trace_of, transfers, wire};

const MBIT: u64 = 1_000_000;

/// A flow that may have `buffer` bytes outstanding moves that much a round trip (RFC 9293, section 3.8.6; claim E4): whole
/// segments of it, and the round trip is that of the path and the transmission of a segment and an acknowledgement.
#[test]
fn a_buffer_limits_goodput_to_itself_a_round_trip() {
    let buffer = 1_000_000;
    for (send, receive) in [(buffer, 1 << 30), (1 << 30, buffer)] {
        let mut plan = wire(1000 * MBIT, 50 * MS, droptail(None, Some(10_000)), 10 * S);
        let settings = Tcp { send_buffer_bytes: send, receive_buffer_bytes: receive, ..tcp("cubic") };
        add_wire_flow(&mut plan, 0, Transport::Tcp(settings), Source::Bulk);
        let tables = run(&plan);
        let window = (buffer / 1448 * 1448) as f64;
        let round_trip = 0.1 + (1538.0 + 90.0) * 8.0 / 1e9;
        close("goodput", goodput(&tables, 0, 4 * S, 10 * S), window * 8.0 / round_trip, 0.005);
    }
}

#[test]
fn each_transfer_waits_after_the_end_of_the_one_before() {
    let list = [(30 * MS, 10_000), (200 * MS, 500_000), (0, 1), (1000 * MS, 3000)];
    for keep in [false, true] {
        let mut plan = wire(100 * MBIT, 10 * MS, droptail(None, Some(100)), 10 * S);
        add_wire_flow(&mut plan, 100 * MS, Transport::Tcp(tcp("cubic")), transfers(&list, keep));
        let tables = run(&plan);
        let flows = &tables.flows;
        assert_eq!(flows.transfer, [0, 1, 2, 3]);
        assert_eq!(flows.bytes, [10_000, 500_000, 1, 3000]);
        assert_eq!(flows.delivered_bytes, flows.bytes);
        let mut before = 100 * MS;
        for (i, (wait, _)) in list.into_iter().enumerate() {
            assert_eq!(flows.start_ns[i], before + wait, "transfer {i}, connection kept: {keep}");
            before = flows.end_ns[i];
        }
        // A kept connection is established once; others take a handshake of 2 x (10 ms + 98 bytes at 100 Mb/s) each.
        let handshake = 20 * MS + 2 * 98 * 80;
        let took: Vec<u64> = (0..4).map(|i| flows.established_ns[i] - flows.start_ns[i]).collect();
        assert_eq!(took, if keep { [handshake, 0, 0, 0] } else { [handshake; 4] });
        assert_eq!(events(&tables, "established", 0).len(), if keep { 1 } else { 4 });
        assert_eq!(events(&tables, "transfer_start", 0).len(), 4);
        let end = events(&tables, "flow_end", 0);
        assert_eq!(end, [(flows.end_ns[3], 0)]);
    }
}

/// A kept connection remembers its window, so that a second transfer of 200 KB takes fewer round trips; after a pause of
/// more than an RTO the window has shrunk to the initial one (RFC 2861, Linux' slow start after idle).
#[test]
fn a_kept_connection_is_faster_until_it_has_been_idle() {
    let durations = |wait: u64, keep: bool| {
        let mut plan = wire(100 * MBIT, 25 * MS, droptail(None, Some(1000)), 30 * S);
        let list = [(0, 200_000), (wait, 200_000)];
        add_wire_flow(&mut plan, 0, Transport::Tcp(tcp("reno")), transfers(&list, keep));
        let flows = run(&plan).flows;
        [0, 1].map(|i| flows.end_ns[i] - flows.start_ns[i])
    };
    let [first, fresh] = durations(100 * MS, false);
    assert_eq!(first, fresh, "a new connection starts like the first one");
    let [_, kept] = durations(100 * MS, true);
    // 139 segments: 10, 20, 40, 69 in four round trips and a handshake, against one round trip and the transmission.
    assert!(kept < first - 3 * 50 * MS, "{kept} and {first}");
    let [_, idle] = durations(10 * S, true);
    assert!(idle > kept + 2 * 50 * MS, "{idle} and {kept}");
    assert!(idle <= first - 50 * MS, "but without a handshake");
}

#[test]
fn a_bulk_flow_offers_nothing_after_its_stop_and_delivers_what_it_offered() {
    let mut plan = wire(10 * MBIT, 10 * MS, droptail(None, Some(100)), 5 * S);
    let settings = Tcp { send_buffer_bytes: 100_000, ..tcp("reno") };
    add_wire_flow(&mut plan, 0, Transport::Tcp(settings), Source::Bulk);
    plan.flows[0].stop_ns = Some(2 * S);
    let tables = run(&plan);
    let end = tables.flows.end_ns[0];
    // The buffer held 100 KB at most: 82 ms at 10 Mb/s, and a round trip.
    assert!(end > 2 * S && end < 2 * S + 110 * MS, "{end}");
    assert_eq!(tables.flows.delivered_bytes[0], tables.flows.sent_bytes[0]);
    assert_eq!(events(&tables, "flow_end", 0), [(end, 0)]);
    assert_eq!(goodput(&tables, 0, 2500 * MS, 5 * S), 0.0);
}

/// Linux since 6.5: four retries a second apart, then six with doubling pauses, the last after 67 s (ip-sysctl,
/// `tcp_syn_linear_timeouts` and `tcp_syn_retries`). Each pause is up to an eighth longer: the timer wheel's slots.
#[test]
fn a_connection_to_a_dead_end_is_tried_as_linux_does_and_given_up() {
    let mut plan = wire(10 * MBIT, 10 * MS, droptail(None, Some(100)), 300 * S);
    plan.links[0].loss = Some(Loss::Bernoulli { p: 1.0 });
    add_wire_flow(&mut plan, 0, Transport::Tcp(tcp("reno")), transfers(&[(0, 1000)], false));
    let trace = trace_of(&plan);
    let tries = trace.iter().filter(|record| record.event == Event::Sent);
    assert_eq!(tries.map(|record| record.time_ns / S).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 7, 11, 19, 35, 68]);
    let flows = run(&plan).flows;
    assert_eq!((flows.established_ns[0], flows.end_ns[0], flows.delivered_bytes[0]), (u64::MAX, u64::MAX, 0));
}

/// A transfer of no bytes sends nothing that an acknowledgement could end.
#[test]
fn a_plan_with_an_empty_transfer_is_refused() {
    let mut plan = wire(10 * MBIT, 10 * MS, droptail(None, Some(100)), S);
    add_wire_flow(&mut plan, 0, Transport::Tcp(tcp("reno")), transfers(&[(0, 1000), (0, 0)], true));
    let error = plan.validate().unwrap_err();
    assert_eq!(error.to_string(), "flows[0] (f[0]).source.transfers[1].bytes: must not be zero");
}
