//! Sorting by time: the packets of many pipes within a window.
//!
//! The times of the packets of a window are spread over it: few of them share their upper bits. Two passes of a radix sort
//! (D. E. Knuth, "The Art of Computer Programming", volume 3, section 5.2.5, algorithm R) put them in order by these, and
//! straight insertion (section 5.2.1, algorithm S) what is left.

/// Fewer keys are compared.
const FEW: usize = 1 << 7;
/// So many keys are worth a larger table of the values of a digit.
const MANY: usize = 1 << 12;
/// Insertion may move so many keys for each one; more are compared.
const MOST_MOVED: usize = 4;

/// Sorts keys, of which the bits from `low` on tell most. `spare` is memory.
pub(super) fn sort_keys(keys: &mut [u64], low: u32, spare: &mut Vec<u64>) {
    match keys.len() {
        0..FEW => keys.sort_unstable(),
        FEW..MANY => sort_by_digits::<{ 1 << 8 }>(keys, low, spare),
        _ => sort_by_digits::<{ 1 << 11 }>(keys, low, spare),
    }
}

/// As [`sort_keys`], by two digits of so many `VALUES` each: a table of them stays in the nearest cache.
fn sort_by_digits<const VALUES: usize>(keys: &mut [u64], low: u32, spare: &mut Vec<u64>) {
    let used = keys.iter().fold(0, |all, key| all | key) >> low;
    let digit_bits = VALUES.trailing_zeros();
    let bits = (u64::BITS - used.leading_zeros()).max(2 * digit_bits);
    let upper = low + bits - digit_bits;
    let lower = upper - digit_bits;
    let digit = |key: u64, shift: u32| (key >> shift) as usize & (VALUES - 1);
    let (mut lowers, mut uppers) = ([0_u32; VALUES], [0_u32; VALUES]);
    for key in keys.iter() {
        lowers[digit(*key, lower)] += 1;
        uppers[digit(*key, upper)] += 1;
    }
    let (mut before_lower, mut before_upper) = (0, 0);
    for (place_lower, place_upper) in lowers.iter_mut().zip(&mut uppers) {
        before_lower += std::mem::replace(place_lower, before_lower);
        before_upper += std::mem::replace(place_upper, before_upper);
    }
    spare.resize(keys.len(), 0);
    distribute(keys, spare, &mut lowers, |key| digit(key, lower));
    distribute(spare, keys, &mut uppers, |key| digit(key, upper));
    insert(keys);
}

/// Puts each key at the place of its digit, and counts that place up.
#[inline(always)]
fn distribute<const VALUES: usize>(
    keys: &[u64],
    sorted: &mut [u64],
    places: &mut [u32; VALUES],
    digit: impl Fn(u64) -> usize,
) {
    for key in keys {
        let place = &mut places[digit(*key)];
        sorted[*place as usize] = *key;
        *place += 1;
    }
}

/// Sorts keys that are nearly in order.
fn insert(keys: &mut [u64]) {
    let mut left = MOST_MOVED * keys.len();
    for place in 1..keys.len() {
        let key = keys[place];
        let mut to = place;
        while to > 0 && keys[to - 1] > key {
            keys[to] = keys[to - 1];
            to -= 1;
        }
        if to < place {
            keys[to] = key;
            match left.checked_sub(place - to) {
                Some(fewer) => left = fewer,
                None => return keys.sort_unstable(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Times of few or many bits, some of them equal, with the number of each below; some are all alike but one.
        #[test]
        fn keys_are_sorted_by_time_and_then_by_number(
            span in proptest::sample::select(vec![1u64, 2, 50, 4096, 10_000_000, 1 << 33]),
            late in proptest::sample::select(vec![0u64, 1 << 32]),
            times in proptest::collection::vec(any::<u64>(), 0..6000),
        ) {
            let mut keys: Vec<u64> =
                times.iter().enumerate().map(|(number, at)| (at % span) << 31 | number as u64).collect();
            if let Some(last) = keys.last_mut() {
                *last |= late << 31;
            }
            let mut expected = keys.clone();
            expected.sort_unstable();
            sort_keys(&mut keys, 31, &mut Vec::new());
            prop_assert_eq!(keys, expected);
        }
    }
}
