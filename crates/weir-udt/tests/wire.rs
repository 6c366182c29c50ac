//! Any bytes may come: they are a packet or none, and no packet harms an end.

use proptest::collection::vec;
use proptest::prelude::*;
use weir_udt::wire::{self, Numbering, Packet};
use weir_udt::{Control, Receiver, Sender, Settings};
use weir_units::{Dur, Time};

fn settings() -> Settings {
    Settings {
        payload_bytes: 1456,
        packet_bytes: 1500,
        send_buffer: 100,
        receive_buffer: 100,
        timer: Dur::ZERO,
        profile: Vec::new(),
        seed: 7,
    }
}

/// A datagram whose kind is often one of UDT, with words that are often small.
fn datagram() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![any::<u32>(), (0u32..8).prop_map(|kind| 1 << 31 | kind << 16)];
    let word = || prop_oneof![any::<u32>(), 0u32..200, (0u32..200).prop_map(|number| 1 << 31 | number)];
    (kind, vec(word(), 0..20), 0usize..4).prop_map(|(kind, words, cut)| {
        let bytes = std::iter::once(kind).chain(words).flat_map(u32::to_be_bytes);
        let mut bytes: Vec<u8> = bytes.collect();
        bytes.truncate(bytes.len() - cut);
        bytes
    })
}

proptest! {
    #[test]
    fn what_is_read_is_written_alike(bytes in datagram(), first in any::<u32>(), near in 0u64..1 << 40) {
        let numbering = Numbering::new(first);
        match wire::read(&bytes, numbering, near) {
            Some((head, Packet::Control(control))) => {
                let written = wire::write_control(head, numbering, &control);
                prop_assert_eq!(wire::read(&written, numbering, near), Some((head, Packet::Control(control))));
            }
            Some((head, Packet::Handshake(it))) => {
                let written = wire::write_handshake(head, &it);
                prop_assert_eq!(wire::read(&written, numbering, near), Some((head, Packet::Handshake(it))));
            }
            Some((head, Packet::Data(number))) => {
                let mut written = [0; 16];
                wire::write_data(head, numbering, number, &mut written);
                prop_assert_eq!(&written[..4], &bytes[..4]);
            }
            None => {}
        }
    }

    #[test]
    fn no_packet_harms_an_end(datagrams in vec(datagram(), 1..60)) {
        let (mut sender, mut receiver) = (Sender::new(settings()), Receiver::new(100));
        let (numbering, mut now) = (Numbering::new(0), Time::ZERO);
        sender.write(1456 * 200 + 7);
        sender.connect(now);
        for step in [1, 2] {
            sender.on_control(now, Control::Handshake(step));
        }
        prop_assert!(sender.is_established());
        for bytes in datagrams {
            now += Dur(20_000_000);
            if let Some((_, Packet::Control(control))) = wire::read(&bytes, numbering, sender.una()) {
                receiver.on_control(now, &control);
                sender.on_control(now, control);
            }
            if let Some((_, Packet::Data(number))) = wire::read(&bytes, numbering, receiver.next())
                && receiver.has_room(number)
            {
                receiver.on_data(now, number);
            }
            sender.on_timer(now);
            receiver.on_timer(now);
            for _ in 0..1000 {
                if sender.poll(now).is_none() {
                    break;
                }
            }
            while receiver.poll().is_some() {}
            prop_assert!(receiver.next() <= 20_000 && sender.acked_bytes() <= 1456 * 200 + 7);
        }
    }
}
