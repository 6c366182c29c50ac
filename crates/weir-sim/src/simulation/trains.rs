//! Trains: packets of one route that pass fused links together.
//!
//! Nothing else enters the links that are fused with the first one of a host. What the host sends at several events may
//! therefore wait, and pass each of these links in one loop, if none of it can be lost there.

use weir_links::{Link, Routes};

use super::Simulation;
use crate::packet::Packet;

/// Packets of a train: they stay in the near cache from link to link.
pub(super) const TRAIN: usize = 128;

/// Whether the links that are fused with the one at `place` of a route surely pass a train of packets of `ip_bytes` each;
/// false if there are none.
#[inline(never)]
pub(super) fn surely_pass(links: &[Link<Packet>], routes: &Routes, place: u32, ip_bytes: u32) -> bool {
    let fused = || (place + 1..).map_while(|place| routes.fused(place));
    fused().next().is_some() && fused().all(|link| links[link as usize].surely_passes(TRAIN as u64, ip_bytes))
}

impl Simulation {
    /// Moves the train on: over `first`, unless its packets have passed the first link, and over the links that are fused
    /// with it. They surely pass it.
    #[inline]
    pub(super) fn move_train(&mut self, first: Option<u32>) {
        if !self.train.is_empty() {
            self.move_full_train(first);
        }
    }

    #[inline(never)]
    fn move_full_train(&mut self, first: Option<u32>) {
        let Simulation { train, links, routes, calendar, slots, batches, .. } = self;
        batches.trains += train.len() as u64;
        let begin = train[0].1.place();
        if let Some(link) = first {
            links[link as usize].pass_surely(train);
        }
        let (mut last, mut hops) = (None, 0);
        while let Some(link) = routes.fused(begin + hops + 1) {
            links[link as usize].pass_surely(train);
            (last, hops) = (Some(link), hops + 1);
        }
        let Some(link) = last else { unreachable!("only a route with fused links has trains") };
        let pipe = &mut links[link as usize].pipe;
        let was_empty = pipe.is_empty();
        for &(arrival, packet) in train.iter() {
            pipe.push(arrival, packet.hopped_by(hops));
        }
        if was_empty {
            calendar.set(slots.pipes + link, pipe.next());
        }
        train.clear();
    }
}
