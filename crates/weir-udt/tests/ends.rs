//! Both ends over a path that delays packets, and loses some of them.

use std::collections::BTreeMap;

use weir_udt::{Control, Outgoing, Receiver, Sender, Settings, Step};
use weir_units::{Dur, Time};

const DELAY: Dur = Dur(6_000_000);
/// Time that a data packet takes on the wire, 240 Mb/s.
const PASSAGE: Dur = Dur(50_000);

enum Packet {
    Onward(Control),
    Back(Control),
    Data(u64, u32),
}

/// The ends, the packets between them, and what happened.
struct Path {
    sender: Sender,
    receiver: Receiver,
    under_way: BTreeMap<(Time, u64), Packet>,
    count: u64,
    wire_free: Time,
    /// Every so many packets of either direction, one is lost; 0: none.
    loses_every: u64,
    /// Payload that arrived for the first time, by number; when each packet was sent, and whether again.
    arrived: BTreeMap<u64, u32>,
    sent: Vec<(Time, bool)>,
    controls: Vec<(Time, Control)>,
}

impl Path {
    fn new(settings: Settings, loses_every: u64) -> Path {
        let receiver = Receiver::new(settings.receive_buffer);
        Path {
            sender: Sender::new(settings),
            receiver,
            under_way: BTreeMap::new(),
            count: 0,
            wire_free: Time::ZERO,
            loses_every,
            arrived: BTreeMap::new(),
            sent: Vec::new(),
            controls: Vec::new(),
        }
    }

    fn put(&mut self, now: Time, packet: Packet) {
        self.count += 1;
        let mut now = now;
        if let Packet::Data(..) = packet {
            self.wire_free = self.wire_free.max(now) + PASSAGE;
            now = self.wire_free;
        }
        if self.loses_every == 0 || self.count % self.loses_every != 0 {
            self.under_way.insert((now + DELAY, self.count), packet);
        }
    }

    /// Runs until all data are acknowledged; returns when.
    fn run(&mut self, most: Time) -> Time {
        let mut now = Time::ZERO;
        self.sender.connect(now);
        while now <= most {
            self.sender.on_timer(now);
            self.receiver.on_timer(now);
            while let Some(out) = self.sender.poll(now) {
                match out {
                    Outgoing::Control(control) => self.put(now, Packet::Onward(control)),
                    Outgoing::Data { number, bytes, resent } => {
                        self.sent.push((now, resent));
                        self.put(now, Packet::Data(number, bytes));
                    }
                }
            }
            while let Some(control) = self.receiver.poll() {
                self.controls.push((now, control.clone()));
                self.put(now, Packet::Back(control));
            }
            if self.sender.is_established() && self.sender.is_idle() {
                return now;
            }
            let next = self.under_way.keys().next().map_or(Time::MAX, |(at, _)| *at);
            now = next.min(self.sender.due()).min(self.receiver.deadline()).max(now);
            while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= now) {
                match entry.remove() {
                    Packet::Onward(control) => self.receiver.on_control(now, &control),
                    Packet::Back(control) => drop(self.sender.on_control(now, control)),
                    Packet::Data(number, bytes) => {
                        let fresh = self.receiver.on_data(now, number);
                        let before = self.arrived.insert(number, bytes);
                        assert_eq!(fresh, before.is_none(), "packet {number}");
                    }
                }
            }
        }
        panic!("not over at {most:?}: {} packets arrived, {} were sent", self.arrived.len(), self.sent.len());
    }
}

fn settings(profile: Vec<Step>) -> Settings {
    Settings {
        payload_bytes: 1456,
        packet_bytes: 1500,
        send_buffer: 8192,
        receive_buffer: 8192,
        timer: Dur::ZERO,
        profile,
        seed: 7,
    }
}

fn at(rate_bps: u64) -> Vec<Step> {
    vec![Step { at: Time::ZERO, rate_bps }]
}

#[test]
fn a_transfer_without_losses_takes_the_time_of_its_profile() {
    let mut path = Path::new(settings(at(12_000_000)), 0);
    path.sender.write(1456 * 1000 + 100);
    let end = path.run(Time(3_000_000_000));
    // Two round-trip times for the handshake, 1001 packets of 1 ms, and one round-trip time and up to a SYN for the
    // acknowledgement.
    let ms = end.0 as f64 / 1e6;
    assert!((1035.0..1050.0).contains(&ms), "{ms} ms");
    assert_eq!(path.arrived.values().map(|bytes| u64::from(*bytes)).sum::<u64>(), 1456 * 1000 + 100);
    assert_eq!(path.sent.len(), 1001);
}

#[test]
fn nothing_is_lost_for_good() {
    for loses_every in [3, 7, 50] {
        for profile in [at(12_000_000), Vec::new()] {
            let mut path = Path::new(settings(profile), loses_every);
            path.sender.write(1456 * 2000);
            path.run(Time(120_000_000_000));
            assert_eq!(path.arrived.len(), 2000, "of every {loses_every} one is lost");
        }
    }
}

#[test]
fn a_loss_is_reported_at_once_and_sent_again_first() {
    let mut path = Path::new(settings(at(12_000_000)), 100);
    path.sender.write(1456 * 150);
    path.run(Time(5_000_000_000));
    let (reported, _) = path.controls.iter().find(|(_, it)| matches!(it, Control::Nak(_))).expect("a report of a loss");
    let again = path.sent.iter().find(|(_, resent)| *resent).expect("a retransmission").0;
    let wait = again.since(*reported);
    assert!(wait >= DELAY && wait.0 < DELAY.0 + 2_200_000, "{wait:?}: an interval after the report arrives");
}

#[test]
fn acknowledgements_come_once_in_a_syn_and_light_ones_every_64_packets() {
    let mut path = Path::new(settings(at(230_000_000)), 0);
    path.sender.write(1456 * 20_000);
    path.run(Time(3_000_000_000));
    let full: Vec<Time> = path
        .controls
        .iter()
        .filter(|(_, it)| matches!(it, Control::Ack { report: Some(_), .. }))
        .map(|(time, _)| *time)
        .collect();
    let light = path.controls.iter().filter(|(_, it)| matches!(it, Control::Ack { report: None, .. })).count();
    // 192 packets pass in a SYN.
    assert!((103..=109).contains(&full.len()), "{} in a second", full.len());
    assert!((full.len() * 2..=full.len() * 3 + 3).contains(&light), "{light} light ones");
    assert!(full.windows(2).all(|pair| pair[1].since(pair[0]).0 % 10_000_000 == 0));
}

#[test]
fn a_coarse_timer_makes_bursts_and_keeps_the_mean_rate() {
    let ticking = Settings { timer: Dur(4_000_000), ..settings(at(120_000_000)) };
    let mut path = Path::new(ticking, 0);
    path.sender.write(1456 * 10_000);
    path.run(Time(3_000_000_000));
    let mut instants: Vec<Time> = path.sent.iter().map(|(time, _)| *time).collect();
    let took = instants[9_999].since(instants[0]).0 as f64 / 1e9;
    instants.dedup();
    assert!((took - 1.0).abs() < 0.01, "{took} s");
    assert!((245..=255).contains(&instants.len()), "{} bursts", instants.len());
}
