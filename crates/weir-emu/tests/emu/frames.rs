//! What devices hand over may be anything: it is refused or understood, never trusted.

use proptest::prelude::*;
use weir_emu::frame::{Frame, GSO_TCPV6, GSO_UDP_L4, Link as Layer, Malformed, NEEDS_CSUM, VNET_BYTES};
use weir_emu::piece::{self, Run};

use crate::common::*;

fn parse(bytes: &[u8]) -> Result<Frame, Malformed> {
    Frame::parse(bytes, Layer::Ip)
}

#[test]
fn lengths_and_ports_are_found() {
    let frame = parse(&Packet::tcp(10_000).build()).expect("sound");
    assert_eq!((frame.packets(), frame.packet_bytes(0), frame.packet_bytes(6)), (7, 1500, 52 + 10_000 - 6 * 1448));
    assert_eq!(frame.ports, Some((40_000, FIRST_PORT)));
    assert!(frame.is_data() && !parse(&Packet::tcp(0).build()).expect("sound").is_data());
    let frame = parse(&Packet::tcp(10_000).ipv6().build()).expect("sound");
    assert_eq!((frame.packets(), frame.packet_bytes(0), frame.version), (7, 1520, 6));
}

/// RFC 4340, section 5.1: ports where those of TCP are, and the words of the header in the fifth byte.
#[test]
fn a_packet_of_dccp_is_data_if_it_has_payload() {
    let with_header = |words: u8| {
        let mut bytes = Packet::datagram().build();
        (bytes[0], bytes[VNET_BYTES + 9], bytes[VNET_BYTES + 24]) = (0, 33, words);
        parse(&bytes)
    };
    let data = with_header(4).expect("a header of 16 bytes");
    assert_eq!((data.ports, data.header_bytes(), data.payload_bytes()), (Some((40_000, FIRST_PORT)), 36, 1464));
    assert!(data.is_data());
    let mut alone = Packet { payload: 8, ..Packet::datagram() }.build();
    (alone[0], alone[VNET_BYTES + 9], alone[VNET_BYTES + 24]) = (0, 33, 4);
    assert!(!parse(&alone).expect("a header alone").is_data());
    assert_eq!(with_header(2), Err(Malformed::Length), "a header of 8 bytes");
    alone[VNET_BYTES + 24] = 5;
    assert_eq!(parse(&alone), Err(Malformed::Length), "a header beyond the packet");
}

#[test]
fn padding_behind_a_packet_does_not_count() {
    let mut bytes = Packet::tcp(0).build();
    bytes.extend([0; 20]);
    assert_eq!(parse(&bytes).map(|frame| frame.packet_bytes(0)), Ok(52));
}

#[test]
fn an_ethernet_frame_is_found_behind_its_header() {
    let packet = Packet::tcp(5000).build();
    let ethernet = [&packet[..VNET_BYTES], &[2; 12], &[8, 0], &packet[VNET_BYTES..]].concat();
    let frame = Frame::parse(&ethernet, Layer::Ethernet).map(|frame| (frame.packets(), frame.packet_bytes(0)));
    assert_eq!(frame, Ok((4, 1500)));
    let arp = [&[0; VNET_BYTES][..], &[2; 12], &[8, 6], &[0; 46]].concat();
    let frame = Frame::parse(&arp, Layer::Ethernet).expect("what is not IP passes");
    assert_eq!((frame.packet_bytes(0), frame.addresses, frame.is_data()), (46, None, false));
}

#[test]
fn later_fragments_have_no_ports() {
    let mut bytes = Packet::datagram().build();
    bytes[0] = 0;
    bytes[VNET_BYTES + 7] = 100;
    let frame = parse(&bytes).expect("a fragment is a packet");
    assert_eq!((frame.ports, frame.is_data()), (None, false));
}

#[test]
fn what_cannot_be_is_refused() {
    let sound = Packet::tcp(5000).build();
    let changed = |at: usize, byte: u8| {
        let mut bytes = sound.clone();
        bytes[at] = byte;
        parse(&bytes)
    };
    assert_eq!(parse(&sound[..9]), Err(Malformed::Short));
    assert_eq!(parse(&sound[..10]), Err(Malformed::Short));
    assert_eq!(parse(&sound[..25]), Err(Malformed::Short));
    assert_eq!(parse(&sound[..sound.len() - 1]), Err(Malformed::Length));
    assert_eq!(changed(VNET_BYTES, 0x55), Err(Malformed::Version));
    assert_eq!(changed(VNET_BYTES, 0x44), Err(Malformed::Length), "a header of 16 bytes");
    assert_eq!(changed(VNET_BYTES + 32, 0x10), Err(Malformed::Length), "a TCP header of 4 bytes");
    assert_eq!(changed(1, GSO_TCPV6), Err(Malformed::Offload));
    assert_eq!(changed(1, GSO_UDP_L4), Err(Malformed::Offload));
    assert_eq!(changed(1, 77), Err(Malformed::Offload));
    let mut no_size = sound.clone();
    no_size[4..6].fill(0);
    assert_eq!(parse(&no_size), Err(Malformed::Offload), "packets of no payload");
    let mut checksum = sound.clone();
    checksum[6..8].fill(0xff);
    assert_eq!(parse(&checksum), Err(Malformed::Offload), "a checksum behind the end");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    /// Sound frames with some bytes changed, and cut: parsing never panics, and what it accepts can be cut and sent.
    #[test]
    fn malformed_frames_do_no_harm(
        payload in 0usize..6000,
        v6: bool,
        datagram: bool,
        gso_size in 0u16..3000,
        changes in prop::collection::vec((0usize..100, any::<u8>()), 0..6),
        cut in 0usize..6200,
        ethernet: bool,
    ) {
        let packet = if datagram { Packet { payload, ..Packet::datagram() } } else { Packet::tcp(payload) };
        let packet = Packet { gso_size, ..packet };
        let mut bytes = if v6 { packet.ipv6() } else { packet }.build();
        for (at, byte) in changes {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        bytes.truncate(bytes.len().max(cut + 1) - cut);
        let layer = if ethernet { Layer::Ethernet } else { Layer::Ip };
        if let Ok(frame) = Frame::parse(&bytes, layer) {
            prop_assert!(frame.end as usize + VNET_BYTES <= bytes.len());
            let packets = frame.packets();
            let total: u64 = (0..packets).map(|i| u64::from(frame.packet_bytes(i) - frame.header_bytes())).sum();
            prop_assert_eq!(total, u64::from(frame.payload_bytes()));
            for run in [(0, 1), (packets - 1, 1), (packets / 2, packets - packets / 2)] {
                let run = Run { first: run.0, packets: run.1, marked: true };
                if let Some(headers) = piece::headers(&frame, &bytes, &run) {
                    prop_assert!(headers.payload.end <= bytes.len());
                }
            }
        }
    }

    /// Noise.
    #[test]
    fn noise_does_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), flags in 0u8..2, gso in 0u8..6) {
        let mut bytes = bytes;
        if bytes.len() > 10 {
            (bytes[0], bytes[1]) = (flags * NEEDS_CSUM, gso);
            bytes[10] = 0x45 + (gso % 2) * 0x20;
        }
        for layer in [Layer::Ip, Layer::Ethernet] {
            if let Ok(frame) = Frame::parse(&bytes, layer) {
                let run = Run { first: 0, packets: 1, marked: true };
                let _ = piece::headers(&frame, &bytes, &run);
            }
        }
    }
}
