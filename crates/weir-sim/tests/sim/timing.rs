//! Instants that can be computed by hand: transmission, propagation, waiting, spacing, jitter and changes of links.

use std::collections::VecDeque;

use weir_plan::{Cbr, Change, ChangeKind, Delay, Loss, Plan, Source, Transport};
use weir_sim::trace::{Event, PacketKind, TraceRecord};

use crate::common::{
    MS, S, add_flow, add_wire_flow, cbr, droptail, dumbbell, run, tcp, trace_of, transfers, udp, wire,
};

const MBIT: u64 = 1_000_000;
const ACCESS_OVERHEAD: u64 = 38;

/// When `bits` have been sent at `rate`, rounded up to a nanosecond.
fn time_for(bytes: u64, rate: u64) -> u64 {
    (u128::from(bytes) * 8 * u128::from(S)).div_ceil(u128::from(rate)) as u64
}

/// Numbers and instants of the datagrams that were received, in the order of arrival.
fn received(trace: &[TraceRecord]) -> Vec<(u64, u64)> {
    let received = |record: &&TraceRecord| record.event == Event::Received && record.kind == PacketKind::Datagram;
    trace.iter().filter(received).map(|record| (record.seq, record.time_ns)).collect()
}

/// Instants at which the datagrams were sent; datagram `n` is at `n - 1`.
fn sent(trace: &[TraceRecord]) -> Vec<u64> {
    let sent = |record: &&TraceRecord| record.event == Event::Sent && record.kind == PacketKind::Datagram;
    trace.iter().filter(sent).map(|record| record.time_ns).collect()
}

/// Datagrams of 1500 B at `cbr_bps` over a wire of 10 Mb/s and 10 ms with a queue of `packets`.
fn stream(cbr_bps: u64, packets: u64, end_ns: u64) -> Plan {
    let mut plan = wire(10 * MBIT, 10 * MS, droptail(None, Some(packets)), end_ns);
    add_wire_flow(&mut plan, 0, udp(1500), cbr(cbr_bps));
    plan
}

/// A handshake, one segment and its acknowledgement, which a receiver in quick-ACK mode sends at once: four crossings of
/// 10 ms and the transmission of 60 + 38, 60 + 38, 52 + 38 (the third packet of the handshake), 1500 + 38 and 52 + 38 bytes at
/// 10 Mb/s.
#[test]
fn a_transfer_of_one_segment_takes_two_round_trips_and_four_transmissions() {
    let mut plan = wire(10 * MBIT, 10 * MS, droptail(None, Some(100)), S);
    add_wire_flow(&mut plan, 5 * MS, Transport::Tcp(tcp("reno")), transfers(&[(0, 1448)], false));
    let flows = run(&plan).flows;
    let byte_ns = 800;
    assert_eq!(flows.start_ns, [5 * MS]);
    assert_eq!(flows.established_ns, [5 * MS + 20 * MS + 2 * 98 * byte_ns]);
    assert_eq!(flows.end_ns, [5 * MS + 40 * MS + (2 * 98 + 90 + 1538 + 90) * byte_ns]);
}

/// Older stacks have no third packet of the handshake here.
#[test]
fn a_transfer_of_an_older_stack_begins_with_its_data() {
    let mut plan = wire(10 * MBIT, 10 * MS, droptail(None, Some(100)), S);
    let old = weir_plan::Tcp { stack: weir_plan::Stack::Linux26, ..tcp("reno") };
    add_wire_flow(&mut plan, 5 * MS, Transport::Tcp(old), transfers(&[(0, 1448)], false));
    assert_eq!(run(&plan).flows.end_ns, [5 * MS + 40 * MS + (2 * 98 + 1538 + 90) * 800]);
}

/// Ten segments, the initial window, keep the link busy: the last arrives after ten transmissions. Thirty need three
/// windows: 10, and for each of these acknowledged two more, as each of the first 16 segments is (quick-ACK mode).
#[test]
fn slow_start_takes_the_round_trips_it_must() {
    // The third packet of the handshake goes ahead of the data.
    let at_established = 20 * MS + (2 * 98 + 90) * 800;
    for (segments, expected) in [
        // The last acknowledgement starts when the last segment is there.
        (10, at_established + 20 * MS + (10 * 1538 + 90) * 800),
        // The 11th segment starts when the first acknowledgement is there. The link is then busy with two segments for
        // each acknowledgement: 10 of 12 round trips' worth of the second window.
        (30, at_established + 40 * MS + (1538 + 90) * 800 + (20 * 1538 + 90) * 800),
    ] {
        let mut plan = wire(10 * MBIT, 10 * MS, droptail(None, Some(100)), S);
        let settings = weir_plan::Tcp { ack: weir_plan::Ack::Every, ..tcp("reno") };
        add_wire_flow(&mut plan, 0, Transport::Tcp(settings), transfers(&[(0, segments * 1448)], false));
        assert_eq!(run(&plan).flows.end_ns, [expected], "{segments} segments");
    }
}

/// Datagram `n` of a source twice as fast as the link leaves after `n` transmissions; at a rate that no whole number of
/// nanoseconds fits, too.
#[test]
fn a_saturated_link_sends_back_to_back_for_ever() {
    for rate in [10 * MBIT, 9_999_973, 6_666_667] {
        let mut plan = stream(2 * rate, 1 << 20, 10 * S);
        plan.links[0].rate_bps = rate;
        let arrivals = received(&trace_of(&plan));
        assert!(arrivals.len() > 5000);
        for (n, at) in arrivals {
            assert_eq!(at, 10 * MS + time_for(n * (1500 + ACCESS_OVERHEAD), rate), "datagram {n} at {rate} bit/s");
        }
    }
}

/// A drop-tail queue of `K` packets against ten lines that know nothing of events: a packet is admitted if fewer than K
/// wait, the one in transmission not counted.
#[test]
fn a_full_queue_drops_and_delays_what_arithmetic_says() {
    let (limit, end) = (7, 2 * S);
    let plan = stream(13 * MBIT, limit, end);
    let transmission = time_for(1538, 10 * MBIT);
    let (mut starts, mut free, mut expected) = (VecDeque::new(), 0, Vec::new());
    for n in 0.. {
        let at = (u128::from(n as u64) * 12_000 * u128::from(S) / (13 * u128::from(MBIT))) as u64;
        if at > end {
            break;
        }
        starts.retain(|&start| start > at);
        if (starts.len() as u64) < limit {
            let start: u64 = free.max(at);
            free = start + transmission;
            if start > at {
                starts.push_back(start);
            }
            expected.push((n as u64 + 1, free + 10 * MS));
        }
    }
    expected.retain(|(_, at)| *at <= end);
    let arrivals = received(&trace_of(&plan));
    assert_eq!(arrivals, expected);

    let links = run(&plan).links;
    let waited: Vec<u64> = links.queue_delay_max_ns.iter().copied().filter(|d| *d < u64::MAX).collect();
    // The last packet admitted waits for K packets and the rest of the one in transmission.
    assert!(waited.iter().all(|&d| d <= (limit + 1) * transmission));
    assert!(*waited.last().unwrap() > limit * transmission - transmission / 2);
    let full = (0..links.rows()).filter(|&i| links.link[i] == 0 && links.time_ns[i] > S);
    assert!(full.clone().all(|i| links.queue_max_bytes[i] == limit * 1500));
    let share = |column: &[u64]| full.clone().map(|i| column[i]).sum::<u64>() as f64;
    let lost = share(&links.drop_packets) / share(&links.in_packets);
    let wanted = 1.0 - 10.0 / 13.0 * 1500.0 / 1538.0;
    assert!((lost - wanted).abs() < 0.002, "{lost} lost, {wanted} expected");
}

/// Datagram `n` leaves at `n` times its size over the rate, rounded down; none leaves in an OFF period.
#[test]
fn a_constant_bit_rate_is_exactly_constant() {
    let plan = stream(7 * MBIT, 100, 3 * S);
    for (n, at) in sent(&trace_of(&plan)).into_iter().enumerate() {
        assert_eq!(at, (n as u128 * 12_000 * u128::from(S) / (7 * u128::from(MBIT))) as u64, "datagram {n}");
    }
    // A link that is never full delays each by the same.
    for (n, at) in received(&trace_of(&plan)) {
        let sent = ((n - 1) as u128 * 12_000 * u128::from(S) / (7 * u128::from(MBIT))) as u64;
        assert_eq!(at, sent + 10 * MS + time_for(1538, 10 * MBIT));
    }
    let mut plan = stream(MBIT, 100, S);
    plan.flows[0].source = Source::Cbr(Cbr { rate_bps: 12 * MBIT, periods_ns: vec![5 * MS, 20 * MS, 3 * MS] });
    plan.flows[0].start_ns = 2 * MS;
    let on: Vec<u64> = (2..7).chain(27..30).map(|ms| ms * MS).collect();
    assert_eq!(sent(&trace_of(&plan)), on);
}

#[test]
fn listed_losses_are_exactly_those() {
    let mut plan = stream(5 * MBIT, 100, S);
    plan.links[0].loss = Some(Loss::List { packets: vec![1, 7, 8, 100] });
    let trace = trace_of(&plan);
    let arrived: Vec<u64> = received(&trace).into_iter().map(|(n, _)| n).collect();
    let expected: Vec<u64> = (1..=*arrived.last().unwrap()).filter(|n| ![1, 7, 8, 100].contains(n)).collect();
    assert_eq!(arrived, expected);
    let flows = run(&plan).flows;
    assert_eq!(flows.lost_packets, [4]);
    let sent = sent(&trace).len() as u64;
    assert_eq!(flows.sent_packets, [sent]);
}

/// Within five standard errors: a fair model fails once in two million seeds, and the seed is fixed.
#[test]
fn random_losses_take_their_share_of_datagrams() {
    let mut plan = stream(9 * MBIT, 100, 40 * S);
    for p in [0.001, 0.02, 0.2] {
        plan.links[0].loss = Some(Loss::Bernoulli { p });
        let flows = run(&plan).flows;
        let (lost, sent) = (flows.lost_packets[0] as f64, flows.sent_packets[0] as f64);
        assert!((lost / sent - p).abs() < 5.0 * (p * (1.0 - p) / sent).sqrt(), "{lost} of {sent} lost at p = {p}");
    }
}

/// Delays of the datagrams in the order of arrival, transmission aside.
fn delays(plan: &Plan) -> Vec<(u64, u64)> {
    let trace = trace_of(plan);
    let sent = sent(&trace);
    let transmission = time_for(1538, plan.links[0].rate_bps);
    received(&trace).into_iter().map(|(n, at)| (n, at - sent[n as usize - 1] - transmission)).collect()
}

fn mean_and_deviation(delays: &[(u64, u64)]) -> (f64, f64) {
    let n = delays.len() as f64;
    let mean = delays.iter().map(|(_, d)| *d as f64).sum::<f64>() / n;
    let variance = delays.iter().map(|(_, d)| (*d as f64 - mean).powi(2)).sum::<f64>() / n;
    (mean, variance.sqrt())
}

#[test]
fn jitter_spreads_delays_as_its_distribution_says() {
    let mut plan = stream(MBIT, 100, 200 * S);
    let (delay_ns, jitter_ns) = (20 * MS, 3 * MS);
    for (normal, deviation) in [(false, 3e6 / 3f64.sqrt()), (true, 3e6)] {
        // Datagrams are 12 ms apart: none catches up with another, so that keeping the order changes nothing.
        plan.links[0].delay = Delay::Jitter { delay_ns, jitter_ns, normal, reorder: false };
        let delays = delays(&plan);
        let (mean, sd) = mean_and_deviation(&delays);
        let error = deviation / (delays.len() as f64).sqrt();
        assert!((mean - 20e6).abs() < 5.0 * error, "mean {mean}");
        // The standard error of a deviation is under that of the mean for both distributions.
        assert!((sd - deviation).abs() < 5.0 * error, "deviation {sd}, expected {deviation}");
        assert!(normal || delays.iter().all(|&(_, d)| (17 * MS..=23 * MS).contains(&d)));
    }
}

#[test]
fn jitter_reorders_only_where_it_may() {
    let mut plan = stream(9 * MBIT, 100, 2 * S);
    for reorder in [false, true] {
        plan.links[0].delay = Delay::Jitter { delay_ns: 20 * MS, jitter_ns: 3 * MS, normal: false, reorder };
        let delays = delays(&plan);
        assert_eq!(delays.is_sorted_by_key(|(n, _)| *n), !reorder);
        let (mean, _) = mean_and_deviation(&delays);
        // Held until its predecessor left, a packet is later than drawn, but never later than the latest draw.
        assert!(if reorder { (mean - 20e6).abs() < 0.3e6 } else { mean > 20.5e6 }, "mean {mean}");
        assert!(delays.iter().all(|&(_, d)| (17 * MS..=23 * MS).contains(&d)));
    }
    plan.links[0].delay = Delay::Reorder { delay_ns: 20 * MS, extra_ns: 5 * MS, probability: 0.1 };
    let delays = delays(&plan);
    let late = delays.iter().filter(|(_, d)| *d == 25 * MS).count();
    assert_eq!(late + delays.iter().filter(|(_, d)| *d == 20 * MS).count(), delays.len());
    let (n, p) = (delays.len() as f64, 0.1);
    assert!((late as f64 / n - p).abs() < 5.0 * (p * (1.0 - p) / n).sqrt(), "{late} of {n} late");
}

/// TCP over a path that reorders by less than a quarter of the round trip, RACK's first reordering window: no recovery is
/// entered after the first spurious one. Without overtaking nothing unusual is seen at all.
#[test]
fn jitter_that_keeps_the_order_disturbs_no_connection() {
    let mut plan = wire(50 * MBIT, 20 * MS, droptail(None, Some(1000)), 5 * S);
    let settings = weir_plan::Tcp { receive_buffer_bytes: 100_000, ..tcp("cubic") };
    add_wire_flow(&mut plan, 0, Transport::Tcp(settings), Source::Bulk);
    let mut resent = |reorder, stack| {
        plan.links[0].delay = Delay::Jitter { delay_ns: 20 * MS, jitter_ns: 3 * MS, normal: false, reorder };
        let Transport::Tcp(settings) = &mut plan.flows[0].transport else { unreachable!() };
        settings.stack = stack;
        let tables = run(&plan);
        assert!(tables.flows.sent_packets[0] > 5000);
        (tables.flows.retransmitted_packets[0], tables.samples.ca_state.iter().any(|state| *state != 0))
    };
    assert_eq!(resent(false, weir_plan::Stack::Linux), (0, false));
    assert_eq!(resent(false, weir_plan::Stack::Linux26), (0, false));
    let (count, disorder) = resent(true, weir_plan::Stack::Linux);
    assert!(disorder, "reordering is seen");
    assert!(count < 100, "{count} retransmissions of what was only late");
}

fn change(at_ns: u64, change: ChangeKind) -> Change {
    Change { at_ns, link: 0, change }
}

/// A saturated link whose rate changes: each packet is sent at the rate that held when it began, one after the other.
#[test]
fn a_rate_changes_from_the_next_packet_on() {
    let mut plan = stream(30 * MBIT, 1 << 20, 2 * S);
    let rates = [(0, 10 * MBIT), (333 * MS + 7, 4 * MBIT), (777 * MS, 25 * MBIT)];
    for (at, rate_bps) in &rates[1..] {
        plan.changes.push(change(*at, ChangeKind::Rate { rate_bps: *rate_bps }));
    }
    let mut free = 0;
    for (n, at) in received(&trace_of(&plan)) {
        let rate = rates.iter().rev().find(|(from, _)| *from <= free).unwrap().1;
        free += time_for(1538, rate);
        assert_eq!(at, free + 10 * MS, "datagram {n}");
    }
}

#[test]
fn a_stopped_link_keeps_its_queue_and_goes_on_where_it_stopped() {
    let mut plan = stream(5 * MBIT, 50, 2 * S);
    plan.changes.push(change(500 * MS, ChangeKind::Rate { rate_bps: 0 }));
    plan.changes.push(change(900 * MS, ChangeKind::Rate { rate_bps: 10 * MBIT }));
    let trace = trace_of(&plan);
    let arrivals = received(&trace);
    let transmission = time_for(1538, 10 * MBIT);
    // What began before the stop arrives; then nothing until the first packet after it.
    let last = arrivals.iter().rfind(|(_, at)| *at <= 510 * MS + transmission).unwrap();
    let next = arrivals.iter().position(|(n, _)| *n == last.0 + 1).expect("no packet is lost by stopping");
    for k in 0..50 {
        assert_eq!(arrivals[next + k], (last.0 + 1 + k as u64, 910 * MS + (k as u64 + 1) * transmission));
    }
    // The queue holds 50 packets and 400 ms bring 166: the others are lost.
    let lost = run(&plan).flows.lost_packets[0];
    let offered = (900 * MS).div_ceil(2_400_000) - (500 * MS).div_ceil(2_400_000);
    assert!(lost.abs_diff(offered - 50) <= 1, "{lost} lost of {offered} offered");
}

#[test]
fn a_delay_changes_for_packets_that_begin_after_it() {
    let mut plan = stream(5 * MBIT, 50, S);
    for (at, delay_ns) in [(300 * MS, 50 * MS), (600 * MS, 2 * MS)] {
        plan.changes.push(change(at, ChangeKind::Delay { delay: Delay::Fixed { delay_ns } }));
    }
    let trace = trace_of(&plan);
    let sent = sent(&trace);
    let mut arrivals = received(&trace);
    assert!(!arrivals.is_sorted_by_key(|(n, _)| *n), "after the second change packets overtake");
    arrivals.sort_unstable();
    for (n, at) in arrivals {
        let begin = sent[n as usize - 1];
        let delay = if begin < 300 * MS {
            10 * MS
        } else if begin < 600 * MS {
            50 * MS
        } else {
            2 * MS
        };
        assert_eq!(at, begin + time_for(1538, 10 * MBIT) + delay, "datagram {n}");
    }
}

#[test]
fn losses_begin_and_end_when_the_plan_says() {
    let mut plan = stream(5 * MBIT, 50, S);
    plan.changes.push(change(300 * MS, ChangeKind::Loss { loss: Some(Loss::Bernoulli { p: 1.0 }) }));
    plan.changes.push(change(600 * MS, ChangeKind::Loss { loss: None }));
    let trace = trace_of(&plan);
    let arrived: Vec<u64> = received(&trace).into_iter().map(|(n, _)| n).collect();
    let in_outage = |at: &u64| (300 * MS..600 * MS).contains(at);
    for (n, at) in sent(&trace).iter().enumerate().filter(|(_, at)| **at < 980 * MS) {
        assert_eq!(arrived.contains(&(n as u64 + 1)), !in_outage(at), "datagram {n} at {at}");
    }
}

/// The same at the far end of a path: packets that are on their way when the losses begin meet them there.
#[test]
fn losses_of_a_later_link_begin_for_what_is_on_its_way() {
    let mut plan = dumbbell(1, 100 * MBIT, 10 * MBIT, 100 * MS, droptail(None, Some(50)), S);
    let flow = add_flow(&mut plan, 0, 0, tcp("reno"), cbr(5 * MBIT));
    plan.flows[flow].transport = udp(1500);
    let last = plan.flows[flow].path[2];
    for (at_ns, loss) in [(300 * MS, Some(Loss::Bernoulli { p: 1.0 })), (600 * MS, None)] {
        plan.changes.push(Change { at_ns, link: last, change: ChangeKind::Loss { loss } });
    }
    let trace = trace_of(&plan);
    let (sent, arrived) = (sent(&trace), received(&trace));
    for (n, at) in sent.iter().enumerate().filter(|(_, at)| **at < 900 * MS) {
        let there = at + 50 * MS + time_for(1538, 100 * MBIT) + time_for(1538, 10 * MBIT);
        let arrives = arrived.iter().any(|(number, _)| *number == n as u64 + 1);
        assert_eq!(arrives, !(300 * MS..600 * MS).contains(&there), "datagram {n}, at the last link at {there}");
    }
}

/// A connection survives an outage of two seconds: nothing is delivered meanwhile, and after it the rest is. Timeouts
/// double from 0.2 s at least, so that one of them falls within as much time after the outage as it lasted (RFC 6298, 5.5).
#[test]
fn tcp_recovers_from_an_outage_within_its_length() {
    for stack in [weir_plan::Stack::Linux, weir_plan::Stack::Linux26] {
        let mut plan = wire(10 * MBIT, 10 * MS, droptail(None, Some(50)), 20 * S);
        plan.changes.push(change(S, ChangeKind::Rate { rate_bps: 0 }));
        plan.changes.push(change(3 * S, ChangeKind::Rate { rate_bps: 10 * MBIT }));
        plan.measure.goodput_ns = 100 * MS;
        let settings = weir_plan::Tcp { stack, ..tcp("reno") };
        add_wire_flow(&mut plan, 0, Transport::Tcp(settings), transfers(&[(0, 5_000_000)], false));
        let tables = run(&plan);
        let goodput = |from, to| crate::common::goodput(&tables, 0, from, to);
        assert_eq!(goodput(1100 * MS, 3 * S), 0.0);
        assert!(goodput(100 * MS, S) > 9e6);
        assert!(goodput(5 * S, 5500 * MS) > 9e6, "{stack:?}: {}", goodput(5 * S, 5500 * MS));
        assert_eq!(tables.flows.delivered_bytes, [5_000_000]);
        assert!(tables.flows.end_ns[0] < 8 * S);
    }
}
