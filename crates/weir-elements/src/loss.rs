//! Losses before a queue: Bernoulli, Gilbert-Elliott, and a list of packet numbers.
//!
//! - Bernoulli: each packet is lost with probability `p`, independently.
//! - Gilbert-Elliott (E. N. Gilbert, "Capacity of a burst-noise channel", Bell System Technical Journal 39, 1960; E. O.
//!   Elliott, "Estimates of error rates for codes on burst-noise channels", ibid. 42, 1963): a Markov chain of a good and
//!   a bad state, stepped before each packet, from good to bad with probability `p` and back with `r`; the packet is
//!   lost with the probability of its state. The chain is in the bad state a share `p / (p + r)` of the time, for
//!   `1 / r` packets in a row on average. It begins in the good state.
//! - List: the packets with these numbers, counted from 1 over packets with payload.
//!
//! Train: ask for each packet, or for all with [`LossModel::drops_train`].

use weir_plan::Loss;
use weir_units::Stream;

/// Probabilities are compared as integers of 63 bits, so that 0 and 1 are exact.
const CERTAIN: u64 = 1 << 63;

/// A probability that costs a random number and an integer comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chance(u64);

impl Chance {
    fn new(p: f64) -> Chance {
        Chance((p.clamp(0.0, 1.0) * CERTAIN as f64) as u64)
    }

    #[inline]
    fn happens(self, stream: &mut Stream) -> bool {
        (stream.bits() >> 1) < self.0
    }
}

/// Decides which packets are lost.
#[derive(Clone, Debug)]
pub struct LossModel {
    kind: Kind,
    stream: Stream,
}

#[derive(Clone, Debug)]
enum Kind {
    Bernoulli(Chance),
    GilbertElliott {
        is_bad: bool,
        /// Probability of leaving the state, good first.
        leave: [Chance; 2],
        /// Probability of a loss in the state, good first.
        lose: [Chance; 2],
    },
    List {
        packets: Box<[u64]>,
        next: usize,
        seen: u64,
    },
}

impl LossModel {
    /// The model of the plan, which draws from `stream`. A list need not be in order.
    pub fn from_plan(loss: &Loss, stream: Stream) -> LossModel {
        let kind = match loss {
            Loss::Bernoulli { p } => Kind::Bernoulli(Chance::new(*p)),
            Loss::GilbertElliott { p, r, good, bad } => Kind::GilbertElliott {
                is_bad: false,
                leave: [Chance::new(*p), Chance::new(*r)],
                lose: [Chance::new(*good), Chance::new(*bad)],
            },
            Loss::List { packets } => {
                let mut packets = packets.clone();
                packets.sort_unstable();
                packets.dedup();
                Kind::List { packets: packets.into_boxed_slice(), next: 0, seen: 0 }
            }
        };
        LossModel { kind, stream }
    }

    /// Whether the next packet is lost; `is_data` when it carries payload.
    #[inline]
    pub fn drops(&mut self, is_data: bool) -> bool {
        match &mut self.kind {
            Kind::Bernoulli(p) => p.happens(&mut self.stream),
            Kind::GilbertElliott { is_bad, leave, lose } => {
                *is_bad ^= leave[usize::from(*is_bad)].happens(&mut self.stream);
                lose[usize::from(*is_bad)].happens(&mut self.stream)
            }
            Kind::List { packets, next, seen } => {
                *seen += u64::from(is_data);
                let lost = is_data && packets.get(*next) == Some(seen);
                *next += usize::from(lost);
                lost
            }
        }
    }

    /// Which of the next `segments` packets of a train are lost: bit `i` for the i-th one.
    ///
    /// # Panics
    /// When the train has more than 64 packets.
    #[inline]
    pub fn drops_train(&mut self, is_data: bool, segments: u32) -> u64 {
        assert!(segments <= u64::BITS, "a train has at most 64 packets");
        (0..segments).fold(0, |lost, i| lost | (u64::from(self.drops(is_data)) << i))
    }
}
