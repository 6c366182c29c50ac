//! Sorting by time: the packets of many pipes within a window.
//!
//! A window has thousands of packets, and their times span few bits. A radix sort from the least digit on then needs two
//! or three passes (D. E. Knuth, "The Art of Computer Programming", volume 3, section 5.2.5, algorithm R).

/// Fewer keys are compared.
const FEW: usize = 1 << 7;
/// So many keys are worth a larger table of the values of a digit.
const MANY: usize = 1 << 12;

/// Sorts keys, of which only the bits from `low` on count; those that are equal there keep their order, which must be that
/// of the lower bits. `spare` is memory.
pub(super) fn sort_keys(keys: &mut Vec<u64>, low: u32, spare: &mut Vec<u64>) {
    match keys.len() {
        0..FEW => keys.sort_unstable(),
        FEW..MANY => sort_by_digits::<{ 1 << 9 }>(keys, low, spare),
        _ => sort_by_digits::<{ 1 << 12 }>(keys, low, spare),
    }
}

/// As [`sort_keys`], by digits of at most so many `VALUES`: a table of them stays in the nearest cache.
fn sort_by_digits<const VALUES: usize>(keys: &mut Vec<u64>, low: u32, spare: &mut Vec<u64>) {
    let used = keys.iter().fold(0, |all, key| all | key) >> low;
    let bits = u64::BITS - used.leading_zeros();
    let passes = bits.div_ceil(VALUES.trailing_zeros());
    if passes == 0 {
        return;
    }
    let digit_bits = bits.div_ceil(passes);
    let mask = (1_u64 << digit_bits) - 1;
    spare.resize(keys.len(), 0);
    for pass in 0..passes {
        let shift = low + pass * digit_bits;
        let digit = |key: u64| (key >> shift & mask) as usize & (VALUES - 1);
        let mut places = [0_u32; VALUES];
        keys.iter().for_each(|key| places[digit(*key)] += 1);
        let mut before = 0;
        for place in &mut places {
            before += std::mem::replace(place, before);
        }
        for key in keys.iter() {
            let place = &mut places[digit(*key)];
            spare[*place as usize] = *key;
            *place += 1;
        }
        std::mem::swap(keys, spare);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Times of few or many bits, some of them equal, with the number of each below.
        #[test]
        fn keys_are_sorted_by_time_and_then_by_number(
            span in proptest::sample::select(vec![1u64, 2, 50, 4096, 10_000_000, 1 << 33]),
            times in proptest::collection::vec(any::<u64>(), 0..4000),
        ) {
            let mut keys: Vec<u64> =
                times.iter().enumerate().map(|(number, at)| (at % span) << 31 | number as u64).collect();
            let mut expected = keys.clone();
            expected.sort_unstable();
            sort_keys(&mut keys, 31, &mut Vec::new());
            prop_assert_eq!(keys, expected);
        }
    }
}
