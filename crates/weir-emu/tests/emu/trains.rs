//! Trains: each packet is treated as if it had been sent alone, and what arrives is what the kernel would have cut.

use etherparse::{Ipv4HeaderSlice, TcpHeaderSlice};
use proptest::prelude::*;
use weir_emu::frame::{Frame, GSO_TCPV4, Link as Layer, NEEDS_CSUM, TCP, VNET_BYTES, Vnet};
use weir_plan::{Loss, Plan};
use weir_units::{Dur, Time};

use crate::common::*;

const MSS: usize = 1448;

fn lossy(rate_bps: u64) -> Plan {
    let mut plan = wire(rate_bps, 5 * MS);
    plan.links[0].loss = Some(Loss::Bernoulli { p: 0.05 });
    plan.links[0].queue = droptail(Some(60_000), None);
    plan
}

/// When each packet arrived, by its identification: one row a packet, whatever it came in.
fn arrivals(driver: &Driver) -> Vec<u16> {
    driver.delivered.iter().flat_map(|d| d.id()..d.id() + d.packets as u16).collect()
}

#[test]
fn a_train_and_its_packets_alone_meet_the_same_fate() {
    let (mut trains, mut singles) = (Driver::new(&lossy(S)), Driver::new(&lossy(S)));
    let mut id = 0;
    for burst in 0..40 {
        let (at, packets) = (burst * MS / 4, 1 + burst as usize * 7 % 44);
        trains.send(at, &Packet::tcp(packets * MSS).numbered(id));
        for _ in 0..packets {
            singles.send(at, &Packet::tcp(MSS).numbered(id));
            id += 1;
        }
    }
    trains.run(S);
    singles.run(S);
    assert_eq!(arrivals(&trains), arrivals(&singles));
    assert!(trains.network.statistics().dropped_packets > 50);
    let (trains, singles) = (trains.network.drain(), singles.network.drain());
    assert_eq!(trains.links, singles.links);
    assert_eq!(trains.ledgers, singles.ledgers);
}

#[test]
fn a_train_waits_for_its_own_packets_no_longer_than_the_hold() {
    let hold = Dur::from_micros(50);
    for rate in [S, 10 * S, S / 100] {
        let mut driver = Driver::with(&wire(rate, 5 * MS), false, hold);
        driver.send(0, &Packet::tcp(40 * MSS));
        driver.run(S);
        assert_eq!(driver.packets(), 40);
        for delivery in &driver.delivered {
            assert!(delivery.due.since(delivery.first_at) <= hold);
        }
        let largest = driver.delivered.iter().map(|d| d.packets).max();
        // 50 us are four packets of 12.3 us beside the first, the whole train at 10 Gb/s, none at 10 Mb/s.
        assert_eq!(largest, Some([5, 40, 1][[S, 10 * S, S / 100].iter().position(|&r| r == rate).unwrap()]));
    }
}

#[test]
fn a_packet_alone_is_never_held() {
    let mut driver = Driver::new(&wire(10 * S, MS));
    (0..5).for_each(|id| driver.send(0, &Packet::tcp(MSS).numbered(id)));
    driver.run(S);
    assert!(driver.delivered.iter().all(|d| d.packets == 1 && d.due == d.first_at));
}

#[test]
fn a_slow_link_hands_packets_over_as_they_come() {
    let mut driver = Driver::new(&wire(S / 100, MS));
    driver.send(0, &Packet::tcp(3 * MSS));
    driver.run(S);
    let dues: Vec<Time> = driver.delivered.iter().map(|d| d.due).collect();
    assert_eq!(dues, [1, 2, 3].map(|n| Time(n * 1_230_400 + MS)));
}

/// Every packet of a delivery as the receiving stack sees it: flags, sequence number, payload.
fn unpack(delivered: &Delivered) -> (Ipv4HeaderSlice<'_>, TcpHeaderSlice<'_>, &[u8]) {
    let ip = Ipv4HeaderSlice::from_slice(delivered.ip()).expect("an IPv4 header");
    let tcp = TcpHeaderSlice::from_slice(&delivered.ip()[20..]).expect("a TCP header");
    let start = 20 + tcp.slice().len();
    assert_eq!(usize::from(ip.total_len()), delivered.ip().len());
    (ip, tcp, &delivered.ip()[start..])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// However a train is torn apart, its packets together are the train, each with sound headers.
    #[test]
    fn pieces_make_up_the_train(
        payload in 1449usize..60_000,
        lost in prop::collection::vec(1u64..44, 0..6),
        rate in prop::sample::select(vec![S / 10, S, 5 * S, 20 * S]),
        flags in any::<u8>(),
    ) {
        let mut plan = wire(rate, MS);
        let mut lost: Vec<u64> = lost;
        lost.sort_unstable();
        lost.dedup();
        plan.links[0].loss = Some(Loss::List { packets: lost.clone() });
        let mut driver = Driver::new(&plan);
        let sent = Packet { tcp_flags: flags | 0x10, id: 65_530, ..Packet::tcp(payload) };
        driver.send(0, &sent);
        driver.run(S);
        let whole = sent.build();
        let content = &whole[VNET_BYTES + 52..];
        let count = payload.div_ceil(MSS);
        let mut seen = vec![false; count];
        for delivered in &driver.delivered {
            let (ip, tcp, bytes) = unpack(delivered);
            let first = ip.identification().wrapping_sub(65_530) as usize;
            let last = first + delivered.packets as usize - 1;
            let start = first * MSS;
            prop_assert_eq!(tcp.sequence_number() as usize, 1_000_000 + start);
            prop_assert_eq!(bytes, &content[start..(start + delivered.packets as usize * MSS).min(payload)]);
            prop_assert_eq!(fold(&delivered.ip()[..20], 0), 0xffff);
            prop_assert_eq!(tcp.cwr(), flags & 0x80 != 0 && first == 0);
            prop_assert_eq!(tcp.fin(), flags & 1 != 0 && last + 1 == count);
            prop_assert_eq!(tcp.psh(), flags & 8 != 0 && last + 1 == count);
            let transport = delivered.ip().len() - 20;
            prop_assert_eq!(tcp.checksum(), fold(&delivered.ip()[12..20], u32::from(TCP) + transport as u32));
            let vnet = Vnet::read(delivered.frame[..VNET_BYTES].try_into().unwrap());
            prop_assert_eq!(vnet.flags, NEEDS_CSUM);
            prop_assert_eq!(vnet.gso_type, if delivered.packets > 1 { GSO_TCPV4 } else { 0 });
            // What leaves could come in again.
            let frame = Frame::parse(&delivered.frame, Layer::Ip).expect("a sound frame");
            prop_assert_eq!(frame.packets(), delivered.packets);
            seen[first..=last].fill(true);
        }
        let expected: Vec<bool> = (1..=count as u64).map(|n| !lost.contains(&n)).collect();
        prop_assert_eq!(seen, expected);
        prop_assert!(driver.network.trains.is_empty());
    }
}

#[test]
fn datagrams_of_a_train_have_their_own_lengths() {
    for v6 in [false, true] {
        let mut driver = Driver::with(&wire(S, MS), v6, Dur::ZERO);
        let packet = Packet { gso_size: 1200, payload: 3000, ..Packet::datagram() };
        driver.send(0, &if v6 { packet.ipv6() } else { packet });
        driver.run(S);
        let ip = if v6 { 40 } else { 20 };
        let lengths = driver.delivered.iter().map(|d| u16::from_be_bytes([d.ip()[ip + 4], d.ip()[ip + 5]]));
        assert_eq!(lengths.collect::<Vec<_>>(), [1208, 1208, 608]);
    }
}

#[test]
fn a_train_of_zeros_is_all_there_and_takes_no_memory() {
    let mut bytes = Packet::tcp(40 * MSS).build();
    let headers = bytes.len() - 40 * MSS;
    bytes[headers..].fill(0);
    let mut driver = Driver::new(&wire(S, MS));
    driver.send_bytes(0, 0, &bytes);
    assert!(driver.network.trains.pool.bytes() <= 256);
    driver.run(S);
    assert!(driver.delivered.len() > 1);
    let payloads: Vec<_> = driver.delivered.iter().flat_map(|piece| &piece.frame[headers..]).collect();
    assert_eq!(payloads.len(), 40 * MSS);
    assert!(payloads.iter().all(|&&byte| byte == 0));
}
