//! The memory of a switch: whether a queue may take one more packet.

use weir_plan::Memory as Plan;

/// A memory with a part for each queue alone and a pool for all of them; either may be empty.
pub(crate) struct Memory {
    /// Bytes of each queue alone.
    own: u64,
    /// Bytes of the pool, and those taken.
    pool: u64,
    taken: u64,
    /// A queue may hold this times the free pool.
    alpha: Option<f64>,
}

impl Memory {
    pub fn new(plan: &Plan) -> Memory {
        let (own, pool, alpha) = match *plan {
            Plan::Shared { bytes, alpha } => (0, bytes, alpha),
            Plan::Partitioned { bytes } => (bytes, 0, None),
            Plan::Mixed { reserved_bytes, shared_bytes, alpha } => (reserved_bytes, shared_bytes, alpha),
        };
        Memory { own, pool, taken: 0, alpha }
    }

    /// Bytes of the pool that a queue of `bytes` takes.
    fn pooled(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.own)
    }

    /// Whether a queue that holds `held` has room for `wire` more, and for `spare` besides.
    pub fn has_room(&self, held: u64, wire: u64, spare: u64) -> bool {
        let more = self.pooled(held + wire + spare) - self.pooled(held);
        let (free, before) = (self.pool - self.taken, self.pooled(held + spare));
        more == 0 || (more <= free && self.alpha.is_none_or(|alpha| (before as f64) < alpha * free as f64))
    }

    /// Takes `wire` bytes for a queue that holds `held` and has room.
    pub fn take(&mut self, held: u64, wire: u64) {
        self.taken += self.pooled(held + wire) - self.pooled(held);
    }

    /// Gives back `wire` bytes of a queue that held `held`.
    pub fn give(&mut self, held: u64, wire: u64) {
        self.taken -= self.pooled(held) - self.pooled(held - wire);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that queues get that each ask for a byte in turn until none gets any.
    fn filled(memory: &mut Memory, queues: usize) -> Vec<u64> {
        let mut held = vec![0; queues];
        loop {
            let before = held.clone();
            for bytes in &mut held {
                if memory.has_room(*bytes, 1, 0) {
                    memory.take(*bytes, 1);
                    *bytes += 1;
                }
            }
            if held == before {
                return held;
            }
        }
    }

    #[test]
    fn dynamic_thresholds_leave_free_what_choudhury_and_hahne_say() {
        // Their equation 2: n queues hold alpha M / (1 + alpha n) each.
        for (alpha, queues, each) in [(1.0, 1, 600), (1.0, 2, 400), (2.0, 1, 800), (2.0, 3, 343), (0.5, 2, 300)] {
            let mut memory = Memory::new(&Plan::Shared { bytes: 1200, alpha: Some(alpha) });
            for got in filled(&mut memory, queues) {
                assert!(got.abs_diff(each) <= 1, "{got} instead of {each} with {alpha} and {queues}");
            }
        }
    }

    #[test]
    fn one_queue_takes_a_shared_memory_and_only_its_part_of_a_partitioned_one() {
        let mut shared = Memory::new(&Plan::Shared { bytes: 100, alpha: None });
        assert_eq!(filled(&mut shared, 1), [100]);
        assert!(!shared.has_room(0, 1, 0), "nothing is left for another queue");
        let mut parts = Memory::new(&Plan::Partitioned { bytes: 100 });
        assert_eq!(filled(&mut parts, 3), [100; 3]);
    }

    #[test]
    fn a_mixed_memory_keeps_the_part_of_an_empty_queue() {
        let mut memory = Memory::new(&Plan::Mixed { reserved_bytes: 20, shared_bytes: 60, alpha: None });
        assert_eq!(filled(&mut memory, 1), [80]);
        assert_eq!(filled(&mut memory, 1), [20], "a second queue has its own part");
        memory.give(80, 10);
        assert!(memory.has_room(20, 10, 0));
        memory.take(20, 10);
        assert!(!memory.has_room(30, 1, 0));
    }
}
