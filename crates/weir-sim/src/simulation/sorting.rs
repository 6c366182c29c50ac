//! Sorting by time: the packets of many pipes within a window.
//!
//! The times of the packets of a window are spread over it: few of them share their upper bits. Distribution counting (D. E.
//! Knuth, "The Art of Computer Programming", volume 3, section 5.2, algorithm D) puts them in order by as many of these as
//! make about one value for each key, and straight insertion (section 5.2.1, algorithm S) what is left.

/// Fewer keys are compared.
const FEW: usize = 1 << 7;
/// The most bits of a digit: a table of its values stays in the nearest cache.
const DIGIT_BITS: u32 = 13;
/// Insertion may move so many keys for each one; more are compared.
const MOST_MOVED: usize = 4;

/// Memory of a sort.
#[derive(Default)]
pub(super) struct Memory {
    /// By value of the digit: the place of the next key with it.
    places: Vec<u32>,
    sorted: Vec<u64>,
}

/// Sorts keys, of which the bits from `low` on tell most.
pub(super) fn sort_keys(keys: &mut Vec<u64>, low: u32, memory: &mut Memory) {
    if keys.len() < FEW {
        return keys.sort_unstable();
    }
    let used = keys.iter().fold(0, |all, key| all | key);
    let digit_bits = (usize::BITS - keys.len().leading_zeros()).min(DIGIT_BITS);
    let shift = (u64::BITS - used.leading_zeros()).max(low + digit_bits) - digit_bits;
    let Memory { places, sorted } = memory;
    places.clear();
    places.resize(1 << digit_bits, 0);
    let places = &mut places[..];
    let mask = places.len() - 1;
    for key in keys.iter() {
        places[(key >> shift) as usize & mask] += 1;
    }
    let mut before = 0;
    for place in places.iter_mut() {
        before += std::mem::replace(place, before);
    }
    sorted.resize(keys.len(), 0);
    for key in keys.iter() {
        let place = &mut places[(key >> shift) as usize & mask];
        sorted[*place as usize] = *key;
        *place += 1;
    }
    std::mem::swap(keys, sorted);
    insert(keys);
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
            sort_keys(&mut keys, 31, &mut Memory::default());
            prop_assert_eq!(keys, expected);
        }
    }
}
