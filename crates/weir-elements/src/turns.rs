//! The order in which flow queues are served: the lists of new and old flows (RFC 8290, section 4.2).

use std::collections::VecDeque;

/// Flow queues in deficit round robin, by index. New flows go before old ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    new: VecDeque<u32>,
    old: VecDeque<u32>,
}

/// The flow whose turn it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub flow: u32,
    is_new: bool,
}

impl Turns {
    /// Adds a flow that was in no list.
    pub fn join_new(&mut self, flow: u32) {
        self.new.push_back(flow);
    }

    /// Adds a flow that was in no list to the end of the old ones.
    pub fn join_old(&mut self, flow: u32) {
        self.old.push_back(flow);
    }

    /// The flow at the head: a new one if there is one.
    pub fn current(&self) -> Option<Turn> {
        let is_new = !self.new.is_empty();
        let &flow = if is_new { self.new.front() } else { self.old.front() }?;
        Some(Turn { flow, is_new })
    }

    /// Ends the turn of a flow whose credits are spent: it goes to the end of the old list.
    pub fn pass_on(&mut self, turn: Turn) {
        self.leave(turn);
        self.old.push_back(turn.flow);
    }

    /// Removes the flow at the head.
    pub fn leave(&mut self, turn: Turn) {
        if turn.is_new {
            self.new.pop_front()
        } else {
            self.old.pop_front()
        };
    }

    /// Ends the turn of an empty flow. True if it left the lists: a new one passes through the old list first, if there
    /// is any, or it could starve the old flows.
    pub fn retire(&mut self, turn: Turn) -> bool {
        self.leave(turn);
        let passes = turn.is_new && !self.old.is_empty();
        if passes {
            self.old.push_back(turn.flow);
        }
        !passes
    }

    /// All flows in the lists, in no particular order.
    pub fn flows(&self) -> impl Iterator<Item = u32> {
        self.new.iter().chain(&self.old).copied()
    }
}

/// The queue of a flow among `queues`. The multiplication spreads the salt over all bits; the high bits choose.
pub(crate) fn bucket(flow_hash: u32, salt: u32, queues: usize) -> u32 {
    let salted = (flow_hash ^ salt).wrapping_mul(0x9e37_79b1);
    ((u64::from(salted) * queues as u64) >> 32) as u32
}
