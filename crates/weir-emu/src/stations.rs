//! Which station is behind which port: what a switch learns from the Ethernet addresses of frames.
//!
//! IEEE 802.1D, section 7.8: the source address of a frame tells where a station is, for [`AGE`] without another frame.
//! A frame to an unknown or a group address goes to all other ports; one to a station at its own port goes nowhere.
//! Section 7.12.6: frames to reserved group addresses, among them PAUSE and the spanning-tree protocol, are not
//! forwarded. Tags of VLANs are not looked at.

use std::collections::BTreeMap;

use weir_protocol::Job;
use weir_units::{Dur, Time};

use crate::directory::Way;

/// An Ethernet address.
type Address = [u8; 6];

/// The time for which an address stays known: the default of the standard.
pub const AGE: Dur = Dur::from_millis(300_000);
/// Addresses in the table, as in small switches; frames to others are flooded.
const MOST: usize = 8192;
/// Reserved addresses differ in the last four bits.
const RESERVED: [u8; 5] = [0x01, 0x80, 0xc2, 0x00, 0x00];

/// The stations behind the ports of a switch.
#[derive(Debug, Default)]
pub struct Stations {
    /// By port and port: the route.
    routes: BTreeMap<(u32, u32), u32>,
    /// By port: a route from it, the one of flooded frames.
    any: BTreeMap<u32, u32>,
    known: BTreeMap<Address, (u32, Time)>,
}

impl Stations {
    /// Without a known station. Each host of the job is a port; its flows are the routes between them.
    pub fn new(job: &Job) -> Stations {
        let port = |node: u32| job.hosts.iter().position(|host| host.node == node).map(|port| port as u32);
        let mut stations = Stations::default();
        for (index, flow) in (0..).zip(&job.plan.flows) {
            let (Some(from), Some(to)) = (port(flow.from), port(flow.to)) else { continue };
            for (from, to, route) in [(from, to, 2 * index), (to, from, 2 * index + 1)] {
                stations.routes.entry((from, to)).or_insert(route);
                stations.any.entry(from).or_insert(route);
            }
        }
        stations
    }

    /// Forgets all stations.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    /// The way of a frame that comes to `port` at `at` and begins with its Ethernet addresses; `None` if it is not
    /// forwarded.
    pub fn way(&mut self, at: Time, port: u32, frame: &[u8]) -> Option<Way> {
        let (destination, rest) = frame.split_first_chunk::<6>()?;
        let source = rest.first_chunk::<6>()?;
        self.learn(at, port, *source);
        if destination[..5] == RESERVED && destination[5] < 16 {
            return None;
        }
        match self.port_of(at, destination) {
            Some(to) => self.routes.get(&(port, to)).map(|&route| Way { route, flow: None, flooded: false }),
            None => self.any.get(&port).map(|&route| Way { route, flow: None, flooded: true }),
        }
    }

    fn learn(&mut self, at: Time, port: u32, source: Address) {
        if is_group(&source) {
            return;
        }
        if self.known.len() >= MOST && !self.known.contains_key(&source) {
            self.known.retain(|_, (_, seen)| is_fresh(at, *seen));
            if self.known.len() >= MOST {
                return;
            }
        }
        self.known.insert(source, (port, at));
    }

    fn port_of(&self, at: Time, destination: &Address) -> Option<u32> {
        if is_group(destination) {
            return None;
        }
        self.known.get(destination).filter(|(_, seen)| is_fresh(at, *seen)).map(|&(port, _)| port)
    }
}

fn is_fresh(at: Time, seen: Time) -> bool {
    at < seen + AGE
}

/// Broadcast or multicast.
fn is_group(address: &Address) -> bool {
    address[0] & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Address = [2, 0, 0, 0, 0, 1];
    const B: Address = [2, 0, 0, 0, 0, 2];
    const ALL: Address = [0xff; 6];

    /// Three ports; the route from port `p` to `q` is `10 p + q`.
    fn three() -> Stations {
        let pairs = (0..3).flat_map(|from| (0..3).map(move |to| (from, to))).filter(|(from, to)| from != to);
        let routes = pairs.map(|(from, to)| ((from, to), 10 * from + to)).collect();
        Stations { routes, any: [(0, 1), (1, 10), (2, 20)].into(), known: BTreeMap::new() }
    }

    fn frame(to: Address, from: Address) -> Vec<u8> {
        [&to[..], &from[..], &[8, 0]].concat()
    }

    fn route(way: Option<Way>) -> Option<(u32, bool)> {
        way.map(|way| (way.route, way.flooded))
    }

    #[test]
    fn a_frame_goes_everywhere_until_its_station_has_sent() {
        let mut stations = three();
        assert_eq!(route(stations.way(Time(1), 0, &frame(B, A))), Some((1, true)));
        assert_eq!(route(stations.way(Time(2), 1, &frame(A, B))), Some((10, false)));
        assert_eq!(route(stations.way(Time(3), 0, &frame(B, A))), Some((1, false)));
        assert_eq!(route(stations.way(Time(4), 0, &frame(ALL, A))), Some((1, true)));
    }

    #[test]
    fn a_station_that_moves_is_found_and_one_at_the_same_port_needs_no_switch() {
        let mut stations = three();
        stations.way(Time(1), 1, &frame(ALL, B));
        stations.way(Time(2), 2, &frame(ALL, B));
        assert_eq!(route(stations.way(Time(3), 0, &frame(B, A))), Some((2, false)));
        stations.way(Time(4), 0, &frame(ALL, B));
        assert_eq!(stations.way(Time(5), 0, &frame(B, A)), None);
    }

    #[test]
    fn addresses_age_and_a_full_table_floods() {
        let mut stations = three();
        stations.way(Time(0), 1, &frame(ALL, B));
        assert_eq!(route(stations.way(Time(AGE.0), 0, &frame(B, A))), Some((1, true)));
        for number in 0..2 * MOST as u16 {
            let [high, low] = number.to_be_bytes();
            stations.way(Time(AGE.0), 2, &frame(ALL, [2, 1, 0, 0, high, low]));
        }
        assert_eq!(stations.known.len(), MOST);
        assert_eq!(route(stations.way(Time(AGE.0), 0, &frame([2, 1, 0, 0, 0x3f, 0xff], A))), Some((1, true)));
        stations.way(Time(2 * AGE.0), 2, &frame(ALL, B));
        assert_eq!(route(stations.way(Time(2 * AGE.0), 0, &frame(B, A))), Some((2, false)), "old ones make room");
    }

    #[test]
    fn reserved_addresses_and_torn_frames_are_not_forwarded() {
        let mut stations = three();
        for last in 0..16 {
            assert_eq!(stations.way(Time(1), 0, &frame([1, 0x80, 0xc2, 0, 0, last], A)), None);
        }
        assert!(stations.way(Time(1), 0, &frame([1, 0x80, 0xc2, 0, 0, 16], A)).is_some());
        assert_eq!(stations.way(Time(1), 0, &[0; 11]), None);
    }
}
