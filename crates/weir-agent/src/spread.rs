//! Redistributes bytes from intervals of one clock to those of another.

use crate::iperf3::IntervalRow;

/// Redistributes the bytes of consecutive intervals, from `begin_ns` on, to a grid of `step_ns`. Returns instants of
/// the grid with the bytes since the instant before, without those of 0 bytes. Assumes that bytes come evenly within an
/// interval, and that the bytes missing to `total` come at the end. No instant is later than `end_ns`. Without a step,
/// there are no rows.
pub fn spread(rows: &[IntervalRow], begin_ns: u64, total: u64, step_ns: u64, end_ns: u64) -> Vec<(u64, u64)> {
    let mut spread = Vec::new();
    if step_ns == 0 {
        return spread;
    }
    let counted: u64 = rows.iter().map(|row| row.bytes).sum();
    let last = rows.last().map_or(begin_ns, |row| row.time_ns);
    let rest = IntervalRow { time_ns: last, flow: 0, bytes: total.saturating_sub(counted) };
    let mut from = begin_ns;
    for row in rows.iter().chain([&rest]) {
        add_evenly(&mut spread, (from, row.time_ns.max(from)), row.bytes, (step_ns, end_ns));
        from = row.time_ns.max(from);
    }
    spread
}

/// Adds bytes that come evenly between two instants.
fn add_evenly(spread: &mut Vec<(u64, u64)>, (from, to): (u64, u64), bytes: u64, (step, end): (u64, u64)) {
    let (mut here, mut told) = (from, 0);
    loop {
        let edge = (here / step + 1) * step;
        let upto = edge.min(to);
        let share =
            if to > from { u128::from(bytes) * u128::from(upto - from) / u128::from(to - from) } else { bytes.into() };
        // Bytes at an edge belong to the interval that ends there.
        let at = if to > from || here % step > 0 { edge } else { here.max(step) };
        add(spread, at.min(end), share as u64 - told);
        told = share as u64;
        if upto >= to {
            return;
        }
        here = upto;
    }
}

fn add(spread: &mut Vec<(u64, u64)>, at: u64, bytes: u64) {
    match spread.last_mut() {
        _ if bytes == 0 => {}
        Some((last, sum)) if *last >= at => *sum += bytes,
        _ => spread.push((at, bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(list: &[(u64, u64)]) -> Vec<IntervalRow> {
        list.iter().map(|&(time_ns, bytes)| IntervalRow { time_ns, flow: 0, bytes }).collect()
    }

    #[test]
    fn bytes_are_shared_by_time() {
        // From 5 to 15, and from 15 to 25, on a grid of 10.
        let spread = spread(&rows(&[(15, 100), (25, 200)]), 5, 300, 10, 1000);
        assert_eq!(spread, [(10, 50), (20, 150), (30, 100)]);
    }

    #[test]
    fn intervals_on_the_grid_stay_as_they_are() {
        assert_eq!(spread(&rows(&[(10, 7), (20, 0), (30, 9)]), 0, 16, 10, 1000), [(10, 7), (30, 9)]);
    }

    #[test]
    fn one_interval_covers_several_of_the_grid() {
        assert_eq!(spread(&rows(&[(30, 10)]), 0, 10, 10, 1000), [(10, 3), (20, 3), (30, 4)]);
    }

    #[test]
    fn what_is_missing_came_last_and_nothing_after_the_end() {
        assert_eq!(spread(&rows(&[(10, 5)]), 0, 8, 10, 1000), [(10, 8)]);
        assert_eq!(spread(&rows(&[(12, 5)]), 0, 8, 10, 1000), [(10, 4), (20, 4)]);
        assert_eq!(spread(&rows(&[(40, 8)]), 0, 8, 10, 20), [(10, 2), (20, 6)]);
        assert_eq!(spread(&[], 5, 8, 10, 100), [(10, 8)]);
        assert_eq!(spread(&rows(&[(10, 5)]), 0, 5, 0, 100), []);
    }
}
