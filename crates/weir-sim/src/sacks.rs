//! Where SACK blocks are kept while their acknowledgement is under way: few packets carry any.

use weir_tcp::SackBlocks;

use crate::packet::{NO_SACK, NO_SACKS_FROM};

/// A slab of SACK blocks.
#[derive(Default)]
pub(crate) struct Sacks {
    blocks: Vec<SackBlocks>,
    free: Vec<u32>,
}

impl Sacks {
    /// Keeps the blocks; returns their place, [`NO_SACK`] if there are none.
    #[inline]
    pub fn put(&mut self, blocks: SackBlocks) -> u32 {
        if blocks.is_empty() {
            return NO_SACK;
        }
        match self.free.pop() {
            Some(place) => {
                self.blocks[place as usize] = blocks;
                place
            }
            None => {
                self.blocks.push(blocks);
                (self.blocks.len() - 1) as u32
            }
        }
    }

    /// Looks at the blocks.
    pub fn get(&self, place: u32) -> SackBlocks {
        if place >= NO_SACKS_FROM { SackBlocks::default() } else { self.blocks[place as usize] }
    }

    /// Takes the blocks back.
    #[inline]
    pub fn take(&mut self, place: u32) -> SackBlocks {
        if place >= NO_SACKS_FROM {
            return SackBlocks::default();
        }
        self.free.push(place);
        self.blocks[place as usize]
    }
}
