//! Both ends of a flow over a path in virtual time.

#![allow(clippy::disallowed_methods, reason = "the first instant of a virtual clock; none can be made up")]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use weir_quic::{Client, Control, Delivered, Event, HEADER_BYTES, Server, Settings, State, Turn};

const RATE_BPS: u64 = 20_000_000;
const DELAY: Duration = Duration::from_millis(10);
const QUEUE_PACKETS: usize = 40;
const PAYLOAD_BYTES: u16 = 1472;

fn settings(control: Control) -> Settings {
    Settings {
        control,
        payload_bytes: PAYLOAD_BYTES,
        initial_window: 10 * u64::from(PAYLOAD_BYTES),
        send_buffer_bytes: 1 << 20,
        receive_buffer_bytes: 1 << 20,
        secret: b"shared".to_vec(),
        seed: [7; 32],
    }
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Datagrams under way, with the instants of their arrival.
#[derive(Default)]
struct Pipe(VecDeque<(Instant, Vec<u8>)>);

impl Pipe {
    fn take(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.0.front().filter(|(at, _)| *at <= now)?;
        self.0.pop_front().map(|(_, datagram)| datagram)
    }
}

struct Path {
    begun: Instant,
    now: Instant,
    client: Client,
    server: Server,
    forward: Pipe,
    back: Pipe,
    /// When the bottleneck is free.
    free: Instant,
    dropped: u64,
    /// Drops every datagram while true.
    broken: bool,
    events: Vec<(Instant, Event)>,
    delivered: Vec<Delivered>,
}

impl Path {
    fn new(client: &Settings, server: &Settings) -> Path {
        let now = Instant::now();
        Path {
            begun: now,
            now,
            client: Client::new(client, now, address(1)).expect("settings"),
            server: Server::new(server).expect("settings"),
            forward: Pipe::default(),
            back: Pipe::default(),
            free: now,
            dropped: 0,
            broken: false,
            events: Vec::new(),
            delivered: Vec::new(),
        }
    }

    /// Continues until `end`, or until `done`; `work` is the application's at each instant.
    fn run(&mut self, length: Duration, mut work: impl FnMut(&mut Client), done: impl Fn(&Event) -> bool) -> bool {
        let end = self.now + length;
        loop {
            while let Some(datagram) = self.forward.take(self.now) {
                self.server.receive(self.now, address(2), &datagram);
            }
            while let Some(datagram) = self.back.take(self.now) {
                self.client.receive(self.now, &datagram);
            }
            self.server.on_time(self.now);
            self.client.on_time(self.now);
            while let Some(event) = self.client.event() {
                let ends = done(&event);
                self.events.push((self.now, event));
                if ends {
                    return true;
                }
            }
            work(&mut self.client);
            self.transmit();
            self.delivered.extend(self.server.delivered());
            let deadlines = [self.client.deadline(), self.server.deadline()];
            let arrivals = [&self.forward, &self.back].map(|pipe| pipe.0.front().map(|(at, _)| *at));
            let next = deadlines.into_iter().chain(arrivals).flatten().min().unwrap_or(end);
            self.now = next.max(self.now + Duration::from_nanos(1));
            if self.now >= end {
                self.now = end;
                return false;
            }
        }
    }

    fn transmit(&mut self) {
        let mut buffer = Vec::new();
        while self.client.transmit(self.now, &mut buffer) {
            assert!(buffer.len() <= PAYLOAD_BYTES.into());
            let bits = 8 * (buffer.len() as u64 + 28);
            let serialisation = Duration::from_nanos(bits * 1_000_000_000 / RATE_BPS);
            let start = self.free.max(self.now);
            if self.broken || start - self.now > serialisation * QUEUE_PACKETS as u32 {
                self.dropped += 1;
                continue;
            }
            self.free = start + serialisation;
            self.forward.0.push_back((self.free + DELAY, buffer.clone()));
        }
        while let Some(destination) = self.server.transmit(self.now, &mut buffer) {
            assert_eq!(destination, address(2));
            if !self.broken {
                self.back.0.push_back((self.now + DELAY, buffer.clone()));
            }
        }
    }

    fn bulk(&mut self, seconds: u64) -> State {
        let write = |client: &mut Client| {
            client.write(1 << 30);
        };
        self.run(Duration::from_secs(seconds), write, |_| false);
        self.client.state()
    }

    fn bytes(&self) -> u64 {
        self.delivered.iter().map(|part| part.bytes).sum()
    }
}

fn both(control: Control) -> Path {
    Path::new(&settings(control), &settings(control))
}

#[test]
fn a_bulk_flow_fills_the_path_with_each_control() {
    for control in [Control::Reno, Control::Cubic, Control::Bbr] {
        let mut path = both(control);
        let state = path.bulk(10);
        let goodput_bps = path.bytes() * 8 / 10;
        assert!((17_000_000..=20_000_000).contains(&goodput_bps), "{control:?}: {goodput_bps}");
        // Packets under way at the end are sent, and their acknowledgements have not come.
        let acked = path.bytes() as f64 - state.acked_bytes as f64;
        assert!(acked.abs() < 0.01 * path.bytes() as f64 + 200_000.0, "{control:?}: {state:?}, {}", path.bytes());
        assert!(state.sent_bytes >= state.acked_bytes && state.datagrams > 10_000);
        assert!(state.cwnd > 10_000 && state.in_flight <= 2 * state.cwnd, "{state:?}");
        assert!(state.min_rtt.expect("a sample") >= 2 * DELAY && state.srtt.expect("a sample") < 5 * DELAY);
        if control != Control::Bbr {
            assert!(path.dropped > 0 && state.lost_packets > 0 && state.lost_packets <= path.dropped, "{state:?}");
            assert!(path.client.moments().iter().any(|moment| moment.turn == Turn::Recovery));
            assert!(state.ssthresh.is_some());
        }
    }
}

#[test]
fn headers_of_full_packets_are_as_documented() {
    let mut path = both(Control::Cubic);
    let state = path.bulk(5);
    let payload = path.bytes() as f64 / state.datagrams as f64;
    let documented = f64::from(u32::from(PAYLOAD_BYTES) - HEADER_BYTES);
    // Lost packets and those that carry only acknowledgements lower the mean.
    assert!(payload <= documented + 4.0 && payload > 0.98 * documented, "{payload}");
}

#[test]
fn transfers_are_streams_of_one_connection() {
    let mut path = both(Control::Reno);
    for (number, size) in [300_000_u64, 1, 50_000].into_iter().enumerate() {
        let mut left = size;
        let work = |client: &mut Client| {
            if left > 0 {
                left -= client.write(left);
                if left == 0 {
                    client.finish();
                }
            }
        };
        assert!(path.run(Duration::from_secs(5), work, |event| *event == Event::Acknowledged), "{number}");
        let mine = path.delivered.iter().filter(|part| part.stream == number as u32);
        assert_eq!(mine.map(|part| part.bytes).sum::<u64>(), size);
    }
    assert!(path.delivered.iter().all(|part| part.connection == 0));
    assert_eq!(path.client.state().acked_bytes, 350_001);
    assert_eq!(path.events[0].1, Event::Established);
    // A round trip, and the client's hello, which is padded.
    let handshake = path.events[0].0 - path.begun;
    assert!((2 * DELAY..3 * DELAY).contains(&handshake), "{handshake:?}");
}

#[test]
fn a_path_that_breaks_collapses_the_window_and_heals() {
    let mut path = both(Control::Reno);
    path.bulk(2);
    path.broken = true;
    path.bulk(3);
    path.broken = false;
    let state = path.bulk(4);
    assert!(state.collapses > 0 && state.lost_packets > 0, "{state:?}");
    assert!(path.client.moments().iter().any(|moment| moment.turn == Turn::Collapse));
    let before = path.bytes();
    path.bulk(2);
    assert!(path.bytes() - before > 2_000_000);
}

#[test]
fn runs_with_the_same_seed_repeat() {
    let run = || {
        let mut path = both(Control::Cubic);
        let state = path.bulk(2);
        (state.datagrams, state.udp_bytes, state.lost_packets, path.bytes())
    };
    assert_eq!(run(), run());
}

#[test]
fn a_client_without_the_secret_is_refused() {
    let own = settings(Control::Reno);
    let mut path = Path::new(&Settings { secret: b"another".to_vec(), ..own.clone() }, &own);
    assert!(path.run(Duration::from_secs(5), |_| (), |event| matches!(event, Event::Lost(_))));
    path.run(Duration::from_secs(5), |_| (), |_| false);
    assert_eq!((path.server.strangers(), path.bytes()), (1, 0));
    assert_eq!(path.server.strangers(), 0);
}

#[test]
fn garbage_is_ignored() {
    let mut server = Server::new(&settings(Control::Reno)).expect("settings");
    let (now, mut buffer) = (Instant::now(), Vec::new());
    for datagram in [&b""[..], b"x", &[0xff; 1200], &[0; 1472], &[0x40; 30]] {
        server.receive(now, address(3), datagram);
    }
    while server.transmit(now, &mut buffer).is_some() {}
    assert_eq!((server.delivered(), server.strangers()), (Vec::new(), 0));
}

#[test]
fn settings_that_quic_cannot_have_are_refused() {
    let small = Settings { payload_bytes: 1199, ..settings(Control::Reno) };
    assert!(Client::new(&small, Instant::now(), address(1)).is_err() && Server::new(&small).is_err());
    assert_eq!(Control::of("newreno"), None);
}
