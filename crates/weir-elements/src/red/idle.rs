//! Decay of RED's average on an idle link, as `tc` configures Linux.
//!
//! The ideal factor is `(1 - w)^m`, with `m` the packets that could have been sent. Linux has a table of shifts, one
//! for each cell of time: `tc` computes the exponent of e in units of 64 ns, and the kernel uses it as an exponent of 2
//! in microseconds. As a result the average falls linearly to a half within `1 / w` packets, and stays there until the
//! first shift of two, more than `31 / w` packets after the link became idle; the ideal average is practically zero by
//! then. weir reproduces the kernel.

use weir_units::{Bytes, Dur, Rate};

/// Units of time in which `tc` computes.
const TICK_NS: f64 = 64.0;
/// Number of the last cell of the table, which serves all longer times.
const LAST_CELL: u64 = 255;
const MAX_SHIFT: f64 = 31.0;

/// The decay on a link of one rate.
#[derive(Clone, Debug)]
pub(super) struct IdleDecay {
    /// A cell is this power of two, in microseconds.
    cell_log: u32,
    /// Shifts a cell.
    step: f64,
}

impl IdleDecay {
    /// The decay for a filter of `weight` and packets of `bytes`; none for a stopped link, whose average is constant.
    pub(super) fn new(weight: f64, bytes: u32, rate: Rate) -> Option<IdleDecay> {
        if rate.0 == 0 || weight <= 0.0 {
            return None;
        }
        let ticks = (rate.time_for(Bytes(bytes.into())).0 as f64 / TICK_NS).floor().max(1.0);
        let exponent = -ln_complement(weight) / ticks;
        let longest = MAX_SHIFT / exponent;
        let cell_log = (0..32).find(|log| longest / ((1u64 << log) as f64) < 512.0).unwrap_or(31);
        Some(IdleDecay { cell_log, step: (1u64 << cell_log) as f64 * exponent })
    }

    /// The average after `idle`.
    pub(super) fn apply(&self, average: f64, idle: Dur) -> f64 {
        let us = (idle.0 / 1000).min(LAST_CELL << self.cell_log);
        let cell = us >> self.cell_log;
        let shift = if cell == LAST_CELL { MAX_SHIFT } else { (cell as f64 * self.step).floor().min(MAX_SHIFT) };
        if shift >= 1.0 {
            return average / (1u64 << shift as u32) as f64;
        }
        let passed = us as f64 / (1u64 << self.cell_log) as f64;
        average * (1.0 - passed).max(0.5)
    }
}

/// `ln(1 - w)` by the series of the inverse hyperbolic tangent: identical on every machine, unlike `ln` of libraries.
fn ln_complement(w: f64) -> f64 {
    let z = w / (2.0 - w);
    let (mut power, mut sum) = (z, 0.0);
    for k in 0..20_000 {
        if power < f64::EPSILON * sum {
            break;
        }
        sum += power / f64::from(2 * k + 1);
        power *= z * z;
    }
    -2.0 * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halvings(decay: &IdleDecay, us: u64) -> f64 {
        1.0 / decay.apply(1.0, Dur(us * 1000))
    }

    /// What `tc` 6.1 sends for `avpkt 1500 bandwidth 10mbit` and a weight of 2^-6: cells of 2^17 us, the first shift in
    /// the ninth or tenth of them, 27 in the last but one, 31 in the last.
    #[test]
    fn it_is_the_table_of_tc() {
        let decay = IdleDecay::new(1.0 / 64.0, 1500, Rate::from_mbps(10)).unwrap();
        assert_eq!(decay.cell_log, 17);
        let of_cell = |cell: u64| halvings(&decay, cell << 17);
        assert_eq!((of_cell(9), of_cell(10)), (2.0, 2.0));
        assert_eq!((of_cell(18), of_cell(19)), (2.0, 4.0));
        assert_eq!((of_cell(254), of_cell(255)), (f64::from(1u32 << 27), f64::from(1u32 << 31)));
        assert_eq!(of_cell(10_000), f64::from(1u32 << 31));
    }

    #[test]
    fn it_falls_linearly_to_a_half_first() {
        let decay = IdleDecay::new(1.0 / 64.0, 1500, Rate::from_mbps(10)).unwrap();
        let after = |us: u64| decay.apply(1024.0, Dur(us * 1000));
        assert_eq!(after(0), 1024.0);
        assert_eq!(after(1 << 15), 768.0);
        assert_eq!(after(1 << 16), 512.0);
        assert_eq!(after(8 << 17), 512.0);
    }

    #[test]
    fn a_stopped_link_or_a_filter_without_weight_keeps_its_average() {
        assert!(IdleDecay::new(0.002, 1500, Rate(0)).is_none());
        assert!(IdleDecay::new(0.0, 1500, Rate::from_mbps(10)).is_none());
    }

    #[test]
    fn the_logarithm_is_one() {
        for w in [1e-9, 0.002, 1.0 / 64.0, 0.5, 0.9, 0.999] {
            assert!((ln_complement(w) / (-w).ln_1p() - 1.0).abs() < 1e-9, "{w}");
        }
    }
}
