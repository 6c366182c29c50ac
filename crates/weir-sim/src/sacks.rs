//! Where SACK blocks are kept while their acknowledgement is under way: few packets carry any.

use weir_tcp::SackBlocks;

use crate::packet::{NO_SACK, NO_SACKS_FROM};
use crate::slab::Slab;

/// SACK blocks of all acknowledgements under way.
#[derive(Default)]
pub(crate) struct Sacks(Slab<SackBlocks>);

impl Sacks {
    /// Keeps the blocks; returns their place, [`NO_SACK`] if there are none.
    #[inline]
    pub fn put(&mut self, blocks: SackBlocks) -> u32 {
        if blocks.is_empty() { NO_SACK } else { self.0.put(blocks) }
    }

    /// Looks at the blocks.
    pub fn get(&self, place: u32) -> SackBlocks {
        if place >= NO_SACKS_FROM { SackBlocks::default() } else { self.0.get(place) }
    }

    /// Takes the blocks back.
    #[inline]
    pub fn take(&mut self, place: u32) -> SackBlocks {
        if place >= NO_SACKS_FROM { SackBlocks::default() } else { self.0.take(place) }
    }
}
