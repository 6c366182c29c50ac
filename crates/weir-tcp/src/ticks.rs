//! The clock of Linux' timers. It ticks each millisecond (HZ = 1000, as in the lab), a timeout counts whole ticks, and a timer
//! expires with its slot of the timer wheel: the later it is due, the wider the slot (`kernel/time/timer.c`). A timer is thus
//! never early; one of 40 ms is up to 1 ms late, one of 200 ms up to 8 ms, one of a second up to 64 ms.
//!
//! Time 0 is where slots of all widths begin. The timers of pacing and of compressed SACKs have a finer clock in Linux, and
//! are exact here.

use weir_units::{Dur, Time};

const TICK_NS: u64 = 1_000_000;
/// Timeouts below this number of ticks have slots of one tick; each further level reaches eight times as far, with slots eight
/// times as wide.
const FIRST_LEVEL: u64 = 63;
const LEVELS: u32 = 9;

/// Time between two instants, as the number of ticks between those that they are in.
#[inline]
pub(crate) fn between(from: Time, to: Time) -> Dur {
    Dur((to.0 / TICK_NS).saturating_sub(from.0 / TICK_NS) * TICK_NS)
}

/// `span` in whole ticks, rounded down.
#[inline]
pub(crate) fn floor(span: Dur) -> Dur {
    Dur(span.0 / TICK_NS * TICK_NS)
}

/// `span` in whole ticks, rounded up.
#[inline]
pub(crate) fn ceil(span: Dur) -> Dur {
    Dur(span.0.div_ceil(TICK_NS) * TICK_NS)
}

/// The instant at which a timer expires that is set at `now` for `timeout`.
#[inline]
pub(crate) fn expiry(now: Time, timeout: Dur) -> Time {
    let ticks = timeout.0.div_ceil(TICK_NS);
    let due = now.0 / TICK_NS + ticks;
    let shift = if ticks < FIRST_LEVEL { 0 } else { slot_shift(ticks) };
    Time((((due >> shift) + 1) << shift) * TICK_NS)
}

/// Three for each level: the first one, by its number `n`, with fewer than `FIRST_LEVEL * 8^n` ticks, or the last one.
#[inline]
fn slot_shift(ticks: u64) -> u32 {
    let bits = u64::BITS - (ticks / FIRST_LEVEL).leading_zeros();
    3 * bits.div_ceil(3).min(LEVELS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expires_us(now_us: u64, timeout_us: u64) -> u64 {
        expiry(Time(now_us * 1000), Dur::from_micros(timeout_us)).0 / 1000
    }

    #[test]
    fn levels_end_at_powers_of_eight() {
        for ticks in (0..200_000).chain([63 << 18, (63 << 18) - 1, 63 << 21, (63 << 21) - 1, 63 << 24, u64::MAX]) {
            let level = (0..LEVELS - 1).find(|level| ticks < FIRST_LEVEL << (3 * level));
            assert_eq!(slot_shift(ticks), 3 * level.unwrap_or(LEVELS - 1), "{ticks} ticks");
        }
    }

    #[test]
    fn a_short_timer_expires_at_the_tick_after_it_is_due() {
        assert_eq!(expires_us(0, 40_000), 41_000);
        assert_eq!(expires_us(999, 40_000), 41_000);
        assert_eq!(expires_us(1_000, 40_000), 42_000);
        assert_eq!(expires_us(1_500, 2_001), 5_000, "the timeout is rounded up to ticks");
        assert_eq!(expires_us(0, 62_000), 63_000);
    }

    #[test]
    fn slots_widen_with_the_timeout() {
        assert_eq!(expires_us(0, 63_000), 64_000);
        assert_eq!(expires_us(1_000, 63_000), 72_000);
        assert_eq!(expires_us(0, 200_000), 208_000);
        assert_eq!(expires_us(7_000, 200_000), 208_000);
        assert_eq!(expires_us(8_000, 200_000), 216_000);
        assert_eq!(expires_us(0, 504_000), 512_000, "the third level begins: slots of 64 ticks");
        assert_eq!(expires_us(10_000, 504_000), 576_000);
        assert_eq!(expires_us(0, 1_000_000), 1_024_000);
    }

    #[test]
    fn a_timer_is_never_early_and_at_most_an_eighth_late() {
        for now in (0..2_000_000).step_by(123_457) {
            for timeout in
                [1_u64, 999, 1_000, 62_999, 63_001, 201_000, 503_999, 777_777, 5_000_000, 120_000_000, 4_000_000_000]
            {
                let late = expires_us(now, timeout) - now - timeout;
                assert!(late <= timeout / 7 + 2_000, "{now} {timeout}: {late}");
            }
        }
    }
}
