//! What links do to packets: instants and counts that can be computed by hand.

use weir_emu::frame::{GSO_NONE, VNET_BYTES};
use weir_plan::{
    Change, ChangeKind, CodelParams, CodelQueue, Delay, Limit, Loss, Mark, Programs, Queue, Ready, RedCurve, RedQueue,
    Sender, Source,
};
use weir_run::Column;
use weir_units::{Dur, Time};

use crate::common::*;

/// A full packet takes 1538 bytes on the wire: 12.304 us at 1 Gb/s.
const FULL_NS: u64 = 12_304;

#[test]
fn packets_leave_at_the_rate_and_arrive_after_the_delay() {
    let mut driver = Driver::new(&wire(S, 50 * MS));
    (0..10).for_each(|id| driver.send(1000, &Packet::datagram().numbered(id)));
    driver.run(S);
    let dues: Vec<u64> = driver.delivered.iter().map(|d| d.due.0).collect();
    let expected: Vec<u64> = (1..=10).map(|n| 1000 + n * FULL_NS + 50 * MS).collect();
    assert_eq!(dues, expected);
    assert_eq!(driver.delivered.iter().map(|d| d.id()).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_packet_arrives_byte_for_byte_as_it_was_sent() {
    for packet in [Packet::datagram(), Packet::tcp(1448), Packet::tcp(20_000)] {
        let mut driver = Driver::with(&wire(100 * S, MS), false, Dur::from_millis(1));
        driver.send(0, &packet);
        driver.run(S);
        assert_eq!(driver.delivered.len(), 1);
        assert_eq!(driver.delivered[0].frame, packet.build());
    }
}

#[test]
fn a_queue_of_ten_packets_holds_ten_beside_the_one_in_transmission() {
    let mut plan = wire(S, MS);
    plan.links[0].queue = droptail(None, Some(10));
    let mut driver = Driver::new(&plan);
    (0..30).for_each(|id| driver.send(0, &Packet::datagram().numbered(id)));
    driver.run(S);
    assert_eq!(driver.delivered.iter().map(|d| d.id()).collect::<Vec<_>>(), (0..11).collect::<Vec<_>>());
    assert_eq!(driver.network.statistics().dropped_packets, 19);
}

#[test]
fn a_limit_in_bytes_counts_those_on_the_wire() {
    let mut plan = wire(S, MS);
    plan.links[0].queue = droptail(Some(3 * 1538), None);
    let mut driver = Driver::new(&plan);
    (0..30).for_each(|id| driver.send(0, &Packet::datagram().numbered(id)));
    driver.run(S);
    assert_eq!(driver.delivered.len(), 4);
}

#[test]
fn the_packets_of_a_list_are_lost_and_no_others() {
    let mut plan = wire(S, MS);
    plan.links[0].loss = Some(Loss::List { packets: vec![1, 5, 6, 44] });
    let mut driver = Driver::new(&plan);
    // Pure acknowledgements do not count; the packets of a train count one by one.
    driver.send(0, &Packet::tcp(0).numbered(900));
    driver.send(0, &Packet::tcp(1448 * 10).numbered(1));
    driver.send(0, &Packet::tcp(0).numbered(901));
    (11..=50).for_each(|id| driver.send(0, &Packet::tcp(1448).numbered(id)));
    driver.run(S);
    let mut ids: Vec<u16> = driver.delivered.iter().flat_map(|d| d.id()..d.id() + d.packets as u16).collect();
    ids.sort_unstable();
    let expected: Vec<u16> = (1..=50).filter(|id| ![1, 5, 6, 44].contains(id)).chain([900, 901]).collect();
    assert_eq!(ids, expected);
}

#[test]
fn a_marked_packet_says_so_in_its_header_and_its_checksum_holds() {
    for v6 in [false, true] {
        let mut plan = wire(S, MS);
        plan.links[0].queue = Queue::Red(RedQueue {
            limit: Limit { bytes: None, packets: Some(100) },
            curves: vec![RedCurve { dscp_from: 0, dscp_to: 63, min_bytes: 1000, max_bytes: 6000, max_p: 1.0 }],
            weight: 1.0,
            gentle: true,
            mark: Mark::Ecn,
        });
        plan.links[0].mtu_bytes = 1520;
        let mut driver = Driver::with(&plan, v6, Dur::from_micros(50));
        let packet = Packet { ecn: 2, ..Packet::tcp(1448 * 8) };
        driver.send(0, &if v6 { packet.ipv6() } else { packet });
        driver.run(S);
        let marks = |d: &Delivered| match v6 {
            false => d.ip()[1] & 3,
            true => d.ip()[1] >> 4 & 3,
        };
        // The queue grows with every packet, and with it the chance of a mark, up to certainty.
        let packets = |mark| driver.delivered.iter().filter(|d| marks(d) == mark).map(|d| d.packets).sum::<u32>();
        let (plain, marked) = (packets(2), packets(3));
        assert!(plain >= 2 && marked >= 2 && plain + marked == 8, "{plain} {marked}");
        assert_eq!(driver.network.statistics().marked_packets, u64::from(marked));
        if !v6 {
            driver.delivered.iter().for_each(|d| assert_eq!(fold(&d.ip()[..20], 0), 0xffff, "a sound header checksum"));
        }
    }
}

#[test]
fn codel_marks_at_departure_and_the_mark_is_counted_once() {
    let mut plan = wire(10 * MS, MS);
    let codel = CodelParams { target_ns: 5 * MS, interval_ns: 20 * MS, mark: Mark::Ecn, ce_threshold_ns: None };
    plan.links[0].queue = Queue::Codel(CodelQueue { limit: Limit { bytes: None, packets: Some(1000) }, codel });
    let mut driver = Driver::new(&plan);
    (0..100).for_each(|id| driver.send(0, &Packet { ecn: 1, ..Packet::datagram() }.numbered(id)));
    driver.run(10 * S);
    let marked = driver.delivered.iter().filter(|d| d.ip()[1] & 3 == 3).count() as u64;
    assert!(marked > 0);
    assert_eq!(driver.network.statistics().marked_packets, marked);
    assert_eq!(total(&mut driver, "marks"), marked);
}

/// Packets in a table of the network.
fn total(driver: &mut Driver, table: &str) -> u64 {
    let records = driver.network.drain();
    let (_, columns) = records.ledgers.into_iter().find(|(name, _)| *name == table).expect("a table");
    let Some((_, Column::U64(packets))) = columns.into_iter().find(|(name, _)| *name == "packets") else {
        panic!("a column")
    };
    packets.iter().sum()
}

#[test]
fn links_change_when_the_plan_says() {
    let mut plan = wire(S, 10 * MS);
    let change = |at_ns, change| Change { at_ns, link: 0, change };
    plan.changes = vec![
        change(100 * MS, ChangeKind::Rate { rate_bps: S / 2 }),
        change(200 * MS, ChangeKind::Delay { delay: Delay::Fixed { delay_ns: 20 * MS } }),
        change(300 * MS, ChangeKind::Loss { loss: Some(Loss::Bernoulli { p: 1.0 }) }),
        change(400 * MS, ChangeKind::Loss { loss: None }),
        change(500 * MS, ChangeKind::Rate { rate_bps: 0 }),
        change(600 * MS, ChangeKind::Rate { rate_bps: S }),
    ];
    let mut driver = Driver::new(&plan);
    let sent: Vec<u64> = (0..7).map(|n| n * 100 * MS + 50 * MS).collect();
    sent.iter().for_each(|&at| driver.send(at, &Packet::datagram()));
    driver.run(S);
    let dues: Vec<u64> = driver.delivered.iter().map(|d| d.due.0).collect();
    let expected = [
        50 * MS + FULL_NS + 10 * MS,
        150 * MS + 2 * FULL_NS + 10 * MS,
        250 * MS + 2 * FULL_NS + 20 * MS,
        // Lost at 350 ms; the stop at 500 ms keeps the packet of 550 ms until 600 ms.
        450 * MS + 2 * FULL_NS + 20 * MS,
        600 * MS + FULL_NS + 20 * MS,
        650 * MS + FULL_NS + 20 * MS,
    ];
    assert_eq!(dues, expected);
    assert_eq!(driver.network.drain().events.rows(), 6);
}

#[test]
fn a_network_card_never_drops_and_says_when_it_has_room() {
    let mut plan = wire(S / 10, 0);
    plan.links[0].host_nic = true;
    plan.links[0].queue = droptail(None, Some(2));
    let mut driver = Driver::new(&plan);
    let horizon = Dur::from_millis(1);
    assert_eq!(driver.network.ready_for(0, horizon), Time(0));
    driver.send(0, &Packet::tcp(1448 * 40));
    // 40 packets take 4.92 ms at 100 Mb/s.
    assert_eq!(driver.network.ready_for(0, horizon), Time(40 * 10 * FULL_NS - MS));
    assert_eq!(driver.network.ready_for(1, horizon), Time(0), "the other host has a card of its own");
    driver.run(S);
    assert_eq!((driver.packets(), driver.network.statistics().dropped_packets), (40, 0));
}

#[test]
fn what_belongs_to_no_flow_takes_the_path_between_its_hosts() {
    let mut driver = Driver::new(&wire(S, MS));
    let foreign = Packet { ports: (9, 9), ..Packet::datagram() };
    let ping = Packet { protocol: 1, ..Packet::datagram() };
    let back = Packet { from: 1, to: 0, ..foreign };
    [foreign, ping, back].iter().for_each(|packet| driver.send(0, packet));
    driver.send(0, &Packet { to: 77, ..foreign });
    driver.run(S);
    assert_eq!(driver.delivered.iter().map(|d| d.host).collect::<Vec<_>>(), [1, 0, 1].map(|host| host));
    assert_eq!(driver.network.statistics().unrouted_packets, 1);
    assert_eq!(total(&mut driver, "bins"), 0, "they count for no flow");
}

#[test]
fn the_tables_count_what_happened() {
    let mut plan = wire(S, MS);
    plan.links[0].queue = droptail(None, Some(3));
    let mut driver = Driver::new(&plan);
    (0..10).for_each(|id| driver.send(15 * MS, &Packet::datagram().numbered(id)));
    driver.run(S);
    let records = driver.network.drain();
    let links = &records.links;
    assert_eq!((&links.time_ns, &links.link), (&vec![20 * MS], &vec![0]));
    assert_eq!((links.in_packets[0], links.out_packets[0], links.drop_packets[0]), (10, 4, 6));
    assert_eq!((links.in_bytes[0], links.queue_max_bytes[0], links.queue_bytes[0]), (15_000, 4500, 0));
    assert_eq!(links.queue_delay_max_ns[0], 3 * FULL_NS);
    let drops = &records.ledgers[0];
    assert_eq!(drops.0, "drops");
    let row = |name: &str| drops.1.iter().find(|(column, _)| *column == name).map(|(_, column)| column.clone());
    assert_eq!(row("time_ns"), Some(Column::U64(vec![20 * MS])));
    assert_eq!(row("packets"), Some(Column::U64(vec![6])));
    assert_eq!((row("flow"), row("link")), (Some(Column::U32(vec![0])), Some(Column::U32(vec![0]))));
}

#[test]
fn a_run_that_is_stopped_keeps_its_last_bin() {
    let mut driver = Driver::new(&wire(S, MS));
    driver.send(25 * MS, &Packet::datagram());
    driver.run(26 * MS);
    assert_eq!(driver.network.drain().links.rows(), 0, "its bin is not over");
    driver.network.close_bins();
    let records = driver.network.drain();
    assert_eq!((records.links.time_ns, records.links.out_packets), (vec![30 * MS], vec![1]));
}

#[test]
fn a_restart_forgets_everything_and_draws_the_same_losses_again() {
    let mut plan = wire(S, MS);
    plan.links[0].loss = Some(Loss::Bernoulli { p: 0.3 });
    let mut driver = Driver::new(&plan);
    let mut ids = Vec::new();
    for _ in 0..2 {
        (0..200).for_each(|id| driver.send(u64::from(id) * MS, &Packet::datagram().numbered(id)));
        driver.run(S);
        ids.push(std::mem::take(&mut driver.delivered).iter().map(Delivered::id).collect::<Vec<_>>());
        // This one is under way when the run begins anew.
        driver.send(S, &Packet::datagram().numbered(999));
        let job = driver.job.clone();
        driver.network.restart(&job);
        assert!(driver.network.trains.is_empty() && driver.network.trains.pool.bytes() == 0);
    }
    assert!(ids[0].len() > 100 && ids[0].len() < 180);
    assert_eq!(ids[0], ids[1]);
}

#[test]
fn what_finds_no_memory_is_counted() {
    let plan = wire(S, S);
    let job = job(&plan, false);
    let options = weir_emu::Options { memory: 10 * 2048, ..Default::default() };
    let network = weir_emu::Network::new(&job, weir_emu::Directory::new(&job), options);
    let mut driver = Driver { network, job, delivered: vec![] };
    (0..15).for_each(|id| driver.send(0, &Packet::datagram().numbered(id)));
    assert_eq!(driver.network.statistics().memory_frames, 5);
    driver.run(10 * S);
    assert_eq!((driver.delivered.len(), driver.network.trains.pool.bytes()), (10, 0));
}

#[test]
fn jitter_that_reorders_reorders_packets_of_one_train() {
    let mut plan = wire(S, 0);
    plan.links[0].delay = Delay::Jitter { delay_ns: 10 * MS, jitter_ns: 5 * MS, normal: false, reorder: true };
    let mut driver = Driver::new(&plan);
    driver.send(0, &Packet::tcp(1448 * 30).numbered(0));
    driver.run(S);
    let ids: Vec<u16> = driver.delivered.iter().map(Delivered::id).collect();
    assert!(!ids.is_sorted());
    assert_eq!(driver.packets(), 30);
    let single = |d: &&Delivered| d.packets == 1;
    driver.delivered.iter().filter(single).for_each(|d| assert_eq!(d.frame[1], GSO_NONE));
    assert!(driver.delivered.iter().all(|d| d.frame.len() > VNET_BYTES));
}

/// How much longer than its transmission the last of some packets takes to pass a network card that is in use to 99.9 %,
/// when the emulator does not run for 20 ms early on.
fn backlog_after_a_stall(enters: impl Fn(u64, u64) -> u64) -> u64 {
    const STALL_END: u64 = 40 * MS;
    let mut plan = wire(100_000_000, 0);
    plan.links[0].host_nic = true;
    let (mut driver, transmission) = (Driver::new(&plan), 1538 * 80);
    let interval = transmission * 1001 / 1000;
    let sent: Vec<u64> = (0..8000).map(|n| n * interval).collect();
    for &at in &sent {
        let read_at = if (20 * MS..STALL_END).contains(&at) { STALL_END } else { at };
        driver.send(enters(at, read_at), &Packet::datagram());
    }
    driver.run(2 * S);
    assert_eq!(driver.packets(), 8000);
    driver.delivered[7999].due.0 - sent[7999] - transmission
}

#[test]
fn a_stall_leaves_no_backlog_where_frames_enter_when_they_were_sent() {
    assert_eq!(backlog_after_a_stall(|sent_at, _| sent_at), 0);
    // A token bucket fills the card to 99.9 %: what has come late drains at the rest, a second later most is there.
    assert!(backlog_after_a_stall(|_, read_at| read_at) > 15 * MS);
}

#[test]
fn losses_of_a_download_are_its_own() {
    let lost_of = |source: Source, ports: (u16, u16)| {
        let mut plan = wire(S, MS);
        plan.links[0].queue = droptail(None, Some(5));
        plan.flows[0].source = source;
        let mut driver = Driver::new(&plan);
        (0..20).for_each(|id| driver.send(0, &Packet { ports, ..Packet::tcp(1448).numbered(id) }));
        driver.run(S);
        assert_eq!(driver.network.statistics().dropped_packets, 14);
        let ledgers = driver.network.drain().ledgers;
        let (_, columns) = ledgers.into_iter().find(|(name, _)| *name == "drops").expect("a table");
        let packets = columns.into_iter().find(|(name, _)| *name == "packets").map(|(_, column)| column);
        let Some(Column::U64(packets)) = packets else { panic!("a column of counts") };
        packets.iter().sum::<u64>()
    };
    let program = |sender| {
        let (command, peer) = (vec!["get".to_owned()], Some(vec!["serve".to_owned()]));
        Source::Command(Programs { command, peer, ready: Ready::Started, sender, report: None, rate_bps: None })
    };
    // The port of the flow is where the peer serves: at the receiver of an upload, at the sender of a download.
    let (to_port, from_port) = ((40_000, FIRST_PORT), (FIRST_PORT, 40_000));
    assert_eq!([to_port, from_port].map(|ports| lost_of(program(Sender::Command), ports)), [14, 0]);
    assert_eq!([to_port, from_port].map(|ports| lost_of(program(Sender::Peer), ports)), [0, 14]);
}
