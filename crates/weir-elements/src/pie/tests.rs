//! PIE against values computed by hand from RFC 8033 and from the constants of Linux.

use super::*;
use crate::testing::TestPacket;
use proptest::prelude::*;

const PORT: Port = Port { rate: Rate::from_mbps(12), overhead_bytes: 0, mtu_bytes: 1500 };
const UPDATE: u64 = 15_000_000;

fn pie(mark: Mark) -> Pie<TestPacket> {
    let queue = PieQueue {
        limit: Limit { bytes: None, packets: Some(1000) },
        target_ns: 15_000_000,
        update_ns: UPDATE,
        alpha: 0.125,
        beta: 1.25,
        mark,
    };
    Pie::from_plan(&queue, PORT, Stream::new(3, "pie"))
}

/// Congested for a while: this probability, and a delay of 20 ms that lasts.
fn congested(probability: f64) -> Control {
    let delay = Dur::from_millis(20);
    Control { probability, delay, last_delay: delay, burst_allowance: Dur::ZERO, ..Control::START }
}

/// A PIE with a standing queue of 20 packets whose probability stays as it is.
fn pinned(probability: f64, mark: Mark) -> Pie<TestPacket> {
    let mut queue = pie(mark);
    for id in 0..20 {
        queue.enqueue(Time::ZERO, TestPacket::new(id, 1500), &mut |_, _| panic!());
    }
    queue.control = congested(probability);
    queue.next_update = Time::MAX;
    queue
}

/// Offers a packet and takes one, so that the queue stays as long, and its delay 20 ms.
fn offer(queue: &mut Pie<TestPacket>, packet: TestPacket) -> Enqueued {
    let outcome = queue.enqueue(Time::ZERO, packet, &mut |_, reason| assert_eq!(reason, DropReason::Early));
    if outcome != Enqueued::Dropped {
        let delay = queue.control.delay;
        queue.dequeue(Time::ZERO, &mut |_, _| panic!());
        queue.control.delay = delay;
    }
    outcome
}

/// After an update with this delay in seconds, packets waiting.
fn updated(control: Control, delay: f64) -> Control {
    let mut control = Control { delay: Dur((delay * 1e9).round() as u64), ..control };
    control.update(&pie(Mark::Drop).params, false);
    control
}

fn assert_close(got: f64, expected: f64) {
    assert!((got - expected).abs() <= 1e-12 * expected.abs(), "{got}, expected {expected}");
}

/// From rest with 30 ms of delay: (0.125 * 0.015 + 1.25 * 0.030) / 2048; then, the delay unchanged and the probability
/// under 10^-4, + 0.125 * 0.015 / 128; by hand.
#[test]
fn the_probability_follows_the_delay_and_its_change() {
    let first = updated(Control::START, 0.030);
    assert_close(first.probability, 0.039375 / 2048.0);
    let second = updated(first, 0.030);
    assert_close(second.probability, 0.039375 / 2048.0 + 0.001875 / 128.0);
}

#[test]
fn the_change_is_scaled_to_the_probability() {
    // The delay is 8 ms over its target and unchanged: alpha * 0.008 = 0.001.
    for (probability, divisor) in [
        (0.0, 2048.0),
        (0.99e-6, 2048.0),
        (1e-6, 512.0),
        (0.99e-5, 512.0),
        (1e-5, 128.0),
        (0.99e-4, 128.0),
        (1e-4, 32.0),
        (0.99e-3, 32.0),
        (1e-3, 8.0),
        (0.99e-2, 8.0),
        (1e-2, 2.0),
        (0.99e-1, 2.0),
        (1e-1, 1.0),
        (0.5, 1.0),
    ] {
        let control = Control { last_delay: Dur::from_millis(23), ..congested(probability) };
        let grown = updated(control, 0.023).probability - probability;
        assert!((grown * divisor / 0.001 - 1.0).abs() < 1e-9, "{probability}: grew by {grown}");
    }
}

#[test]
fn growth_is_capped_from_ten_per_cent_on() {
    // beta * 0.1 = 0.125, far more than 2 %.
    let grown = |probability| {
        let control = Control { last_delay: Dur::ZERO, ..congested(probability) };
        updated(control, 0.1).probability - probability
    };
    assert_close(grown(0.5), 0.02);
    assert!(grown(0.09) > 0.02, "not under ten per cent");
}

/// alpha (0.251 - 0.015) = 0.0295 at most 2 %, and 2 % more; just at 250 ms none. Scaled by 2048 from rest, the
/// addition not.
#[test]
fn a_delay_above_250_ms_adds_two_per_cent() {
    let grown = |probability, ms| {
        let control = Control { last_delay: Dur::from_millis(ms), ..congested(probability) };
        updated(control, ms as f64 / 1e3).probability - probability
    };
    assert_close(grown(0.5, 250), 0.02);
    assert_close(grown(0.5, 251), 0.04);
    assert_close(grown(0.0, 250), 0.125 * 0.235 / 2048.0);
    assert_close(grown(0.0, 251), 0.125 * 0.236 / 2048.0 + 0.02);
}

#[test]
fn without_delay_the_probability_decays_unless_packets_wait() {
    let idle = |probability, is_empty| {
        let mut control = Control { delay: Dur::ZERO, last_delay: Dur::ZERO, ..congested(probability) };
        control.update(&pie(Mark::Drop).params, is_empty);
        control.probability
    };
    // (0.5 - alpha * 0.015) * 63 / 64.
    assert_close(idle(0.5, true), 0.498125 * 63.0 / 64.0);
    assert_close(idle(0.5, false), 0.498125);
    assert_eq!(idle(1e-9, true), 0.0);
}

/// Linux keeps the probability in 64 bits of which 56 are the fraction.
#[test]
fn an_overload_that_lasts_is_not_forgotten_at_once() {
    let control = Control { last_delay: Dur::from_secs(2), ..congested(0.99) };
    let raised = updated(control, 2.0);
    assert_close(raised.probability, 0.99 + 0.04);
    assert_eq!(updated(Control { probability: 255.99, ..raised }, 2.0).probability, 256.0);
    assert!(updated(raised, 1.98).probability > 1.0, "the delay falls, the probability does not fall below 1");
}

/// The delay is that of the packet that left last, and none when it left nothing behind.
#[test]
fn the_delay_is_the_last_packets_wait() {
    let mut queue = pie(Mark::Drop);
    for ms in [0, 3, 5] {
        queue.enqueue(Time(ms * 1_000_000), TestPacket::new(0, 1500), &mut |_, _| panic!());
    }
    let delays = [7, 9, 11].map(|ms| {
        queue.dequeue(Time(ms * 1_000_000), &mut |_, _| panic!()).unwrap();
        queue.control.delay
    });
    assert_eq!(delays, [7, 6, 0].map(Dur::from_millis));
}

/// The allowance is used up by the time between departures; updates and arrivals leave it alone.
#[test]
fn a_burst_of_150_ms_passes_whatever_the_probability() {
    let mut queue = pie(Mark::Drop);
    for id in 0..100 {
        queue.enqueue(Time::ZERO, TestPacket::new(id, 1500), &mut |_, _| panic!());
    }
    queue.control.probability = 0.5;
    queue.catch_up(Time(60_000_000));
    assert_eq!(queue.control.burst_allowance, MAX_BURST, "nothing left yet");
    // A packet leaves each millisecond from 60 ms on, so that 210 ms are 150 ms after the first departure.
    let mut first_drop = None;
    for ms in 60..400u64 {
        queue.control.probability = 1.0;
        if queue.enqueue(Time(ms * 1_000_000), TestPacket::new(0, 1500), &mut |_, _| {}) == Enqueued::Dropped {
            first_drop = Some(ms);
            break;
        }
        queue.dequeue(Time(ms * 1_000_000), &mut |_, _| panic!());
    }
    assert_eq!(first_drop, Some(211), "the dequeue at 210 ms ends the allowance");
}

#[test]
fn the_allowance_returns_at_an_update_when_nothing_is_congested() {
    let rested = |control: Control| {
        let mut queue = pie(Mark::Drop);
        queue.control = control;
        queue.catch_up(Time(UPDATE));
        queue.control
    };
    let idle = Control { delay: Dur::ZERO, last_delay: Dur::ZERO, ..congested(0.0) };
    let departed = Control { last_departure: Some(Time(5)), accumulated: 0.4, ..idle };
    assert_eq!(rested(departed), Control::START);
    let low = Dur::from_micros(7_499);
    assert_eq!(rested(Control { delay: low, last_delay: low, ..idle }).burst_allowance, MAX_BURST);
    let half = Dur::from_micros(7_500);
    for spoiled in [
        Control { probability: 0.01, ..idle },
        Control { last_delay: half, ..idle },
        Control { delay: half, last_delay: half, ..idle },
    ] {
        assert_eq!(rested(spoiled).burst_allowance, Dur::ZERO, "{spoiled:?}");
    }
}

#[test]
fn a_short_queue_is_spared() {
    let mut queue = pie(Mark::Drop);
    queue.next_update = Time::MAX;
    queue.control = congested(1.0);
    let offered: Vec<_> = (0..4).map(|id| queue.enqueue(Time(1), TestPacket::new(id, 1500), &mut |_, _| {})).collect();
    // The second finds less than two full packets, the third finds two.
    assert_eq!(offered, [Enqueued::Queued, Enqueued::Queued, Enqueued::Dropped, Enqueued::Dropped]);
}

#[test]
fn a_low_delay_is_spared_below_a_probability_of_a_fifth() {
    let drops = |probability, delay| {
        let mut queue = pinned(probability, Mark::Drop);
        queue.control.delay = Dur::from_micros(delay);
        (0..1000).filter(|_| offer(&mut queue, TestPacket::new(0, 1500)) == Enqueued::Dropped).count()
    };
    assert_eq!(drops(0.19, 7_499), 0);
    assert!(drops(0.19, 7_500) > 0);
    assert!(drops(0.2, 7_499) > 0);
}

/// With a probability of 0.05: no drop before 0.85 / 0.05 = 17 packets, a certain one at 8.5 / 0.05 = 170, and in
/// between each with 0.05, so that the mean is near 16 + 1 / 0.05 = 36.
#[test]
fn drops_are_neither_too_close_nor_too_far_apart() {
    let mut queue = pinned(0.05, Mark::Drop);
    let mut gaps = Vec::new();
    let mut gap = 0u32;
    while gaps.len() < 20_000 {
        gap += 1;
        if offer(&mut queue, TestPacket::new(0, 1500)) == Enqueued::Dropped {
            gaps.push(gap);
            gap = 0;
            offer(&mut queue, TestPacket::new(0, 1500));
            gap += 1;
        }
    }
    // The accumulated sum of a twentieth is below 0.85 by rounding at the 17th packet or not.
    assert!((17..=18).contains(gaps.iter().min().unwrap()));
    assert!((169..=171).contains(gaps.iter().max().unwrap()), "{:?}", gaps.iter().max());
    let mean = f64::from(gaps.iter().sum::<u32>()) / gaps.len() as f64;
    assert!((35.0..38.0).contains(&mean), "{mean}");
}

#[test]
fn capable_packets_are_marked_up_to_ten_per_cent_and_dropped_above() {
    let outcomes = |probability| {
        let mut queue = pinned(probability, Mark::Ecn);
        let outcomes: Vec<_> = (0..2000).map(|_| offer(&mut queue, TestPacket::new(0, 1500).with_ecn())).collect();
        let count = |o| outcomes.iter().filter(|&&x| x == o).count();
        (count(Enqueued::Marked) > 0, count(Enqueued::Dropped) > 0)
    };
    assert_eq!(outcomes(0.1), (true, false));
    assert_eq!(outcomes(0.101), (false, true));
    let mut queue = pinned(0.05, Mark::Ecn);
    let plain = (0..2000).map(|_| offer(&mut queue, TestPacket::new(0, 1500)));
    assert!(plain.into_iter().any(|o| o == Enqueued::Dropped), "a packet that is not capable is dropped");
}

#[test]
fn a_drop_at_the_limit_restarts_the_spacing() {
    // Too improbable to drop one of a thousand packets.
    let mut queue = pinned(1e-4, Mark::Drop);
    let mut reason = None;
    while reason.is_none() {
        assert!(queue.packets() == 20 || queue.control.accumulated > 0.0);
        queue.enqueue(Time::ZERO, TestPacket::new(0, 1500), &mut |_, r| reason = Some(r));
    }
    assert_eq!((reason, queue.packets()), (Some(DropReason::Overflow), 1000));
    assert_eq!(queue.control.accumulated, 0.0);
}

/// Linux restarts the spacing with a drop, or with a mark that chance made; not with one that was overdue.
#[test]
fn an_overdue_mark_is_followed_by_others() {
    let mut queue = pinned(0.05, Mark::Ecn);
    queue.control.accumulated = ACCUMULATED_MAX;
    for _ in 0..50 {
        assert_eq!(offer(&mut queue, TestPacket::new(0, 1500).with_ecn()), Enqueued::Marked);
    }
    assert_eq!(offer(&mut queue, TestPacket::new(0, 1500)), Enqueued::Dropped);
    assert_eq!(queue.control.accumulated, 0.0);
}

#[test]
fn a_probability_of_zero_forgets_what_had_accumulated() {
    let mut queue = pinned(0.5, Mark::Drop);
    offer(&mut queue, TestPacket::new(0, 1500));
    assert_eq!(queue.control.accumulated, 0.5);
    queue.control.probability = 0.0;
    offer(&mut queue, TestPacket::new(0, 1500));
    assert_eq!(queue.control.accumulated, 0.0);
}

/// A load of twice the rate that does not react: half of it must go, and the queue settles at the target.
#[test]
fn the_delay_settles_at_the_target() {
    let mut queue = pie(Mark::Drop);
    let (mut sum, mut n, mut dropped) = (0.0, 0, 0);
    // A packet takes 1 ms and one arrives every half.
    for step in 0..400_000u64 {
        let now = Time(step * 500_000);
        if step % 2 == 0 {
            queue.dequeue(now, &mut |_, _| panic!());
        }
        queue.enqueue(now, TestPacket::new(0, 1500), &mut |_, _| dropped += u32::from(step >= 200_000));
        if step >= 200_000 {
            sum += queue.control.delay.as_secs_f64();
            n += 1;
        }
    }
    let (mean, share) = (sum / f64::from(n), f64::from(dropped) / f64::from(n));
    assert!((share - 0.5).abs() < 0.005, "dropped {share}");
    assert!((0.012..0.018).contains(&mean), "mean delay {mean} s");
}

#[test]
fn a_long_idle_time_costs_no_time() {
    let mut queue = pinned(0.7, Mark::Drop);
    while queue.dequeue(Time::ZERO, &mut |_, _| panic!()).is_some() {}
    queue.next_update = Time(UPDATE);
    // Centuries of updates.
    let now = Time(UPDATE * 1_000_000_000_000 + 1);
    queue.catch_up(now);
    assert_eq!(queue.probability(), 0.0);
    assert!(queue.next_update > now && queue.next_update <= now + Dur(UPDATE));
    assert_eq!(queue.next_update.0 % UPDATE, 0);
}

proptest! {
    /// Updates made late are the updates that a timer would have made.
    #[test]
    fn late_updates_equal_a_timer(ops in prop::collection::vec((0u64..40_000_000, 0u8..4), 1..600)) {
        let (mut lazy, mut timed) = (pie(Mark::Drop), pie(Mark::Drop));
        let (mut now, mut tick) = (0, UPDATE);
        for (gap, op) in ops {
            now += gap / 8;
            while tick <= now {
                timed.catch_up(Time(tick));
                tick += UPDATE;
            }
            for _ in 0..op {
                let outcomes = [&mut lazy, &mut timed].map(|q| q.enqueue(Time(now), TestPacket::new(0, 1500), &mut |_, _| {}));
                prop_assert_eq!(outcomes[0], outcomes[1]);
            }
            if op < 2 {
                lazy.dequeue(Time(now), &mut |_, _| {});
                timed.dequeue(Time(now), &mut |_, _| {});
            }
            prop_assert_eq!(lazy.packets(), timed.packets());
        }
        lazy.catch_up(Time(now));
        prop_assert_eq!(lazy.control, timed.control);
    }
}
