//! Storage of the SACK blocks of acknowledgements in flight: few packets carry any.

use weir_tcp::SackBlocks;

use crate::packet::{NO_SACK, NO_SACKS_FROM};
use crate::slab::Slab;

/// SACK blocks of all acknowledgements in flight.
#[derive(Default)]
pub(crate) struct Sacks(Slab<SackBlocks>);

impl Sacks {
    /// Stores the blocks; returns their place, [`NO_SACK`] if there are none.
    #[inline]
    pub fn put(&mut self, blocks: SackBlocks) -> u32 {
        if blocks.is_empty() { NO_SACK } else { self.0.put(blocks) }
    }

    /// The blocks at a place.
    pub fn get(&self, place: u32) -> SackBlocks {
        if place >= NO_SACKS_FROM { SackBlocks::default() } else { self.0.get(place) }
    }

    /// Removes the blocks.
    #[inline]
    pub fn take(&mut self, place: u32) -> SackBlocks {
        if place >= NO_SACKS_FROM { SackBlocks::default() } else { self.0.take(place) }
    }
}
