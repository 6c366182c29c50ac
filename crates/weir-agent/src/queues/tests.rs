use weir_protocol::ClassQueue;

use super::*;

fn link() -> LinkQueue {
    LinkQueue {
        link: 4,
        netns: "/run/netns/a".into(),
        device: "weir0".into(),
        overhead_bytes: 38,
        mtu_bytes: 1500,
        rate_bps: 10_000_000,
        flow: Some(2),
        marks_word: None,
        classes: Vec::new(),
    }
}

fn reading(out_packets: u32, drops: u32, queue_packets: u32) -> Reading {
    let out_bytes = 1538 * u64::from(out_packets);
    Reading { out_bytes, out_packets, drops, marks: 0, queue_bytes: 1538 * queue_packets, queue_packets }
}

#[test]
fn a_row_counts_ip_bytes_and_conserves_packets() {
    let now = Reading { marks: 2, ..reading(14, 3, 3) };
    let row = interval_row(&link(), 10_000_000, 50, reading(10, 1, 1), now).expect("there were packets");
    assert_eq!((row.time_ns, row.link), (50, 4));
    assert_eq!((row.out_packets, row.out_bytes), (4, 6000));
    assert_eq!((row.drop_packets, row.drop_bytes), (2, 3000));
    assert_eq!((row.in_packets, row.in_bytes), (4 + 2 + 2, 6000 + 3000 + 3000));
    assert_eq!((row.queue_packets, row.queue_bytes, row.queue_max_bytes), (3, 4500, 4500));
    assert_eq!(row.mark_packets, 2);
    let packet_ns = 1538 * 8 * 100; // at 10 Mb/s
    assert_eq!((row.queue_delay_ns, row.queue_delay_max_ns), (2 * packet_ns, 3 * packet_ns));
}

#[test]
fn an_interval_without_packets_has_no_row_and_one_without_departures_no_delay() {
    assert_eq!(interval_row(&link(), 10_000_000, 1, reading(1, 0, 0), reading(1, 0, 0)), None);
    let row = interval_row(&link(), 10_000_000, 1, reading(1, 0, 0), reading(1, 0, 2)).expect("two wait");
    assert_eq!((row.queue_delay_ns, row.queue_delay_max_ns), (NULL, NULL));
}

#[test]
fn counters_of_32_bits_wrap() {
    let before = Reading { out_bytes: 0, ..reading(u32::MAX, u32::MAX, 0) };
    let now = Reading { out_bytes: 3 * 1538, ..reading(2, 1, 0) };
    let row = interval_row(&link(), 10_000_000, 1, before, now).expect("there were packets");
    assert_eq!((row.out_packets, row.out_bytes, row.drop_packets), (3, 4500, 2));
}

#[test]
fn losses_are_told_from_drops_of_the_queue() {
    let mut parts = Parts::default();
    let counters = |bytes, packets, drops, length, backlog| Counters { bytes, packets, length, backlog, drops };
    let marks: Vec<u8> = [1_u32, 1, 1, 77].iter().flat_map(|word| word.to_ne_bytes()).collect();
    for (handle, counters, own) in [
        (LOSSES, counters(0, 0, 15, 0, 0), &[][..]),
        (RATE, counters(9000, 6, 5, 0, 0), &[]),
        (QUEUE, counters(0, 0, 5, 2, 3076), &marks),
        (0, counters(1, 1, 1, 1, 1), &[]),
    ] {
        parts.take(Discipline { device: 7, handle, counters, own }, &marking());
    }
    let found = parts.readings().link;
    let marked = Reading { out_bytes: 9000, out_packets: 6, drops: 15, marks: 77, queue_bytes: 3076, queue_packets: 2 };
    assert_eq!(found, marked);
    let short = Discipline { device: 7, handle: QUEUE, counters: Counters::default(), own: &marks[..12] };
    parts.take(short, &marking());
    assert_eq!(parts.readings().link.marks, 0, "an older kernel lacks the word");
}

fn marking() -> LinkQueue {
    LinkQueue { marks_word: Some(3), ..link() }
}

#[test]
fn each_class_has_its_counters_and_the_link_the_sum_of_their_marks() {
    let class = |handle: u32, marks_word| ClassQueue { handle: handle << 16, marks_word };
    let link = LinkQueue { classes: vec![class(0x11, Some(0)), class(0x10, Some(1))], ..link() };
    let counters =
        |packets: u32| Counters { bytes: 1538 * u64::from(packets), packets, length: 1, backlog: 1538, drops: packets };
    let own: Vec<u8> = [7_u32, 9].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let mut parts = Parts::default();
    for round in 1..=2_u32 {
        parts.forget(link.classes.len());
        for (handle, packets) in [(0x10_u32, 4 * round), (0x11, 6 * round), (3, 10 * round), (2, 10 * round)] {
            let found = Discipline { device: 7, handle: handle << 16, counters: counters(packets), own: &own };
            parts.take(found, &link);
        }
    }
    let found = parts.readings();
    assert_eq!(found.classes.iter().map(|class| class.out_packets).collect::<Vec<_>>(), [12, 8]);
    assert_eq!(found.link.marks, 7 + 9, "the second class counts its marks in the second word");
    let mut rows = Rows::default();
    let before = Readings { link: Reading::default(), classes: vec![Reading::default(); 2] };
    rows.add(&link, (1_000_000_000, 1_000_000_000), &before, &found);
    assert_eq!((&rows.classes.class[..], &rows.classes.out_bytes[..]), (&[0, 1][..], &[12 * 1500, 8 * 1500][..]));
    assert_eq!(rows.classes.drop_packets, [12, 8]);
    // A packet waits at the end; 12 and 8 leave a second.
    assert_eq!(rows.classes.queue_delay_max_ns, [1_000_000_000 / 12, 125_000_000]);
}

#[test]
fn drops_of_a_link_with_one_flow_are_that_flows() {
    let mut rows = Rows::default();
    let [before, now] = [reading(0, 0, 0), reading(1, 2, 0)].map(|link| Readings { link, classes: Vec::new() });
    rows.add(&link(), (50, 50), &before, &now);
    rows.add(&LinkQueue { flow: None, ..link() }, (50, 50), &before, &now);
    assert_eq!(rows.links.rows(), 2);
    assert_eq!((&rows.drops.flow[..], &rows.drops.packets[..]), (&[2][..], &[2][..]));
    assert!(rows.marks.flow.is_empty());
}

#[test]
fn input_that_is_no_command_is_refused() {
    assert_eq!(command(r#"{"command":"stop"}"#), Ok(Wake::Stop));
    let start = command(r#"{"command":"start","clock":"monotonic","reading_ns":5,"after_ns":2}"#);
    assert_eq!(start, Ok(Wake::Start(7)));
    let error = command("{}").expect_err("it says nothing").to_string();
    assert!(error.starts_with("standard input: \"{}\" is not a command: "), "{error}");
}
