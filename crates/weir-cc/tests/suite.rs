//! The shared suite: requirements on every congestion control, whatever its algorithm.

mod common;

use common::{Flow, nature, options};
use std::collections::{BTreeMap, BTreeSet};
use weir_cc::{Algorithm, CaEvent, Instance, PRIVATE_WORDS, find, list};

const MS: u32 = 1000;
const DAY_US: u64 = 24 * 3600 * 1_000_000;

/// Runs `check` for every registered congestion control, naming the one that fails.
fn for_each(check: impl Fn(&Algorithm)) {
    let all = list();
    assert!(all.len() >= 7, "the registry is incomplete");
    for algorithm in &all {
        eprintln!("{}", algorithm.name());
        check(algorithm);
    }
}

/// The same without those whose window acknowledged and lost packets do not set.
fn for_each_window(check: impl Fn(&Algorithm)) {
    for_each(|algorithm| {
        if !nature(algorithm.name()).apart {
            check(algorithm);
        }
    });
}

/// `pairs`, and the options with which slow start is the standard's.
fn standard(algorithm: &Algorithm, pairs: &[(&str, i64)]) -> BTreeMap<String, i64> {
    options(&[nature(algorithm.name()).standard, pairs].concat())
}

/// The default options, without what a control does regularly on its own.
fn steady(algorithm: &Algorithm) -> BTreeMap<String, i64> {
    options(nature(algorithm.name()).steady)
}

#[test]
fn names_are_unique_and_found() {
    let names: BTreeSet<&str> = list().iter().map(Algorithm::name).collect();
    assert_eq!(names.len(), list().len());
    for name in ["reno", "bic", "cubic", "cubic-2005", "highspeed", "htcp", "scalable"] {
        assert_eq!(find(name).expect(name).name(), name);
    }
}

#[test]
fn a_description_is_complete_and_becomes_json() {
    for_each(|algorithm| {
        let description = algorithm.describe();
        assert!(!description.title.is_empty() && !description.source.is_empty());
        assert!((1988..=2100).contains(&description.year));
        assert!(description.state_bytes as usize <= PRIVATE_WORDS * 8);
        let json = serde_json::to_value(&description).expect("plain data");
        assert_eq!(json["name"], algorithm.name());
        for option in &description.options {
            assert!(!option.doc.is_empty(), "{} has no documentation", option.name);
            assert!(option.min <= option.default && option.default <= option.max, "{}", option.name);
        }
        let names: BTreeSet<&String> = description.options.iter().map(|option| &option.name).collect();
        assert_eq!(names.len(), description.options.len(), "two options have one name");
        for name in ["max_ssthresh", "hystart"] {
            let apart = nature(algorithm.name()).apart;
            assert!(apart || names.contains(&name.to_owned()), "slow start has no option {name}");
        }
    });
}

#[test]
fn slow_start_doubles_the_window_up_to_the_threshold() {
    for_each_window(|algorithm| {
        let mut flow = Flow::new(algorithm, &standard(algorithm, &[("hystart", 0)]));
        flow.set_rtt(100 * MS);
        flow.cc.sock.snd_ssthresh = 640;
        for expected in [20, 40, 80, 160, 320, 640] {
            flow.round(1);
            assert_eq!(flow.cwnd(), expected);
        }
    });
}

#[test]
fn limited_slow_start_gains_half_of_max_ssthresh_a_round_trip() {
    for_each_window(|algorithm| {
        let mut flow = Flow::new(algorithm, &standard(algorithm, &[("hystart", 0), ("max_ssthresh", 100)]));
        flow.set_rtt(100 * MS);
        flow.cc.sock.snd_cwnd = 1000;
        for _ in 0..20 {
            let before = flow.cwnd();
            flow.round(1);
            let gained = flow.cwnd() - before;
            assert!((45..=51).contains(&gained), "gained {gained} at {before} (RFC 3742: max_ssthresh / 2)");
        }
    });
}

#[test]
fn limited_slow_start_does_not_depend_on_how_acknowledgements_are_batched() {
    for_each_window(|algorithm| {
        let grow = |batch: u32| {
            let mut flow = Flow::new(algorithm, &standard(algorithm, &[("hystart", 0), ("max_ssthresh", 64)]));
            (0..4096 / batch).for_each(|_| flow.ack(batch));
            flow.cwnd()
        };
        assert_eq!(grow(1), grow(64));
        assert_eq!(grow(1), grow(1024));
    });
}

#[test]
fn hystart_leaves_slow_start_when_the_delay_grows() {
    // HyStart stops when it detects queueing; HyStart++ grows by a quarter for five more round trips (1.25^5 = 3).
    for (mode, most) in [(1, 450), (2, 3 * 450)] {
        for_each_window(|algorithm| {
            let mut flow = Flow::new(algorithm, &standard(algorithm, &[("hystart", mode), ("hystart_detect", 2)]));
            // A path of 200 packets at 50 ms: packets beyond cause queueing delay.
            for _ in 0..20 {
                let queued = flow.cwnd().saturating_sub(200);
                flow.set_rtt(50 * MS + queued * 250);
                flow.round(1);
            }
            let threshold = flow.cc.sock.snd_ssthresh;
            assert!((200..=most).contains(&threshold), "mode {mode} left at {threshold}");
        });
    }
}

#[test]
fn the_window_stays_where_the_application_limits_it() {
    for_each_window(|algorithm| {
        let mut flow = Flow::avoiding(algorithm, &steady(algorithm), 100, 50 * MS);
        flow.cc.sock.is_cwnd_limited = 0;
        flow.cc.sock.max_packets_out = 10;
        (0..1000).for_each(|_| flow.ack(10));
        assert_eq!(flow.cwnd(), 100);
    });
}

#[test]
fn a_loss_takes_a_share_and_the_window_grows_again() {
    for_each_window(|algorithm| {
        for cwnd in [40, 100, 1000, 10_000, 100_000, 1_000_000] {
            let mut flow = Flow::avoiding(algorithm, &steady(algorithm), cwnd, 100 * MS);
            flow.round(64);
            let before = flow.cwnd();
            let kept = f64::from(flow.lose()) / f64::from(before);
            let (least, most) = nature(algorithm.name()).kept;
            assert!((least..=most).contains(&kept), "at {cwnd}: kept {kept}");
            let after = flow.cwnd();
            (0..40).for_each(|_| flow.round(64));
            assert!(flow.cwnd() > after, "at {cwnd}: no growth in 40 round trips");
        }
    });
}

#[test]
fn rate_halving_stops_at_the_threshold_or_at_half_of_it() {
    for_each(|algorithm| {
        for threshold in [2, 9, 1000, 1_000_000] {
            let mut flow = Flow::avoiding(algorithm, &steady(algorithm), 2 * threshold, 100 * MS);
            flow.cc.sock.snd_ssthresh = threshold;
            let floor = flow.checked(|cc| cc.min_cwnd());
            assert!(floor == threshold || floor == threshold / 2, "{floor} with a threshold of {threshold}");
        }
    });
}

#[test]
fn a_window_of_two_survives_losses() {
    for_each_window(|algorithm| {
        for cwnd in 1..=4 {
            let mut flow = Flow::avoiding(algorithm, &steady(algorithm), cwnd, 100 * MS);
            (0..5).for_each(|_| assert!(flow.lose() >= 2));
            (0..5).for_each(|_| flow.round(1));
            assert!(flow.cwnd() >= 3, "stuck at {}", flow.cwnd());
        }
    });
}

#[test]
fn a_timeout_restarts_from_one_packet() {
    for_each_window(|algorithm| {
        let mut flow = Flow::avoiding(algorithm, &standard(algorithm, &[("hystart", 0)]), 1000, 100 * MS);
        flow.round(1);
        let threshold = flow.time_out();
        let (least, most) = nature(algorithm.name()).kept;
        assert!((1000.0 * least..=1001.0 * most).contains(&f64::from(threshold)), "a threshold of {threshold}");
        assert_eq!(flow.cwnd(), 1);
        (0..9).for_each(|_| flow.round(1));
        // Slow start: 2^9 = 512 packets, unless the threshold is met before.
        assert!(flow.cwnd() >= 450.min(threshold), "only {} nine round trips after a timeout", flow.cwnd());
    });
}

#[test]
fn undo_restores_the_window_and_the_growth() {
    for_each_window(|algorithm| {
        for timeout in [false, true] {
            let mut flow = Flow::avoiding(algorithm, &steady(algorithm), 1000, 100 * MS);
            (0..20).for_each(|_| flow.round(1));
            let before = flow.cwnd();
            if timeout {
                flow.time_out()
            } else {
                flow.lose()
            };
            flow.undo();
            assert_eq!(flow.cwnd(), before);
            flow.cc.sock.snd_ssthresh = 2;
            flow.round(1);
            assert!(flow.cwnd() >= before);
        }
    });
}

#[test]
fn a_million_packets_do_not_overflow() {
    for_each_window(|algorithm| {
        for clamp in [u32::MAX, 1_200_000] {
            let mut flow = Flow::avoiding(algorithm, &steady(algorithm), 1_000_000, 100 * MS);
            flow.cc.sock.snd_cwnd_clamp = clamp;
            flow.lose();
            flow.cc.sock.snd_cwnd = 1_000_000;
            for _ in 0..100 {
                flow.round(65_536);
            }
            let grown = flow.cwnd();
            assert!(grown > 1_000_000, "no growth in 100 round trips");
            assert!(grown <= 4_000_000, "a window of {grown}");
            let threshold = flow.lose();
            assert!(threshold < grown && threshold >= grown / 100 * 45);
        }
    });
}

#[test]
fn the_largest_window_does_not_overflow() {
    for_each_window(|algorithm| {
        for cwnd in [1 << 24, 1 << 30, u32::MAX - 1, u32::MAX] {
            let mut flow = Flow::avoiding(algorithm, &steady(algorithm), cwnd, 100 * MS);
            for acked in [1, 1000, u32::MAX] {
                flow.advance(1_000_000);
                let before = flow.cwnd();
                flow.ack(acked);
                assert!(flow.cwnd() >= before, "{acked} acknowledged packets shrank {before} to {}", flow.cwnd());
            }
            flow.lose();
            flow.time_out();
            flow.undo();
        }
    });
}

#[test]
fn days_of_idling_do_not_overflow() {
    for_each_window(|algorithm| {
        for days in [1, 30, 50, 400] {
            let mut flow = Flow::avoiding(algorithm, &standard(algorithm, &[]), 1000, 100 * MS);
            flow.round(1);
            flow.lose();
            flow.round(1);
            flow.idle(days * DAY_US);
            let before = flow.cwnd();
            assert!(before <= 10, "the transport restarts after idling");
            for round in 1..=5 {
                flow.round(1);
                assert!(flow.cwnd() <= before << round, "faster than slow start after {days} days");
            }
            assert!(flow.cwnd() > before);
        }
    });
}

#[test]
fn a_short_pause_earns_no_burst() {
    for_each_window(|algorithm| {
        let mut flow = Flow::avoiding(algorithm, &standard(algorithm, &[("hystart", 0)]), 1000, 100 * MS);
        flow.lose();
        (0..20).for_each(|_| flow.round(1));
        let mut twin = flow.clone();
        twin.round(1);
        let unpaused = twin.cwnd() - flow.cwnd();
        let before = flow.cwnd();
        flow.idle(900_000);
        flow.round(1);
        let paused = flow.cwnd() - before;
        // H-TCP counts time since the last loss, with or without a pause; no control may gain more than its own second
        // of growth.
        assert!(paused <= unpaused + 20, "{paused} packets after a pause, {unpaused} without");
    });
}

#[test]
fn a_clock_that_stands_still_or_steps_back_is_survived() {
    for_each(|algorithm| {
        let mut flow = Flow::avoiding(algorithm, &steady(algorithm), 100, 100 * MS);
        flow.round(1);
        flow.lose();
        flow.ack(10);
        flow.cc.sock.tcp_mstamp_us -= 900_000;
        (0..100).for_each(|_| flow.ack(10));
        flow.sample(0, 1);
        flow.sample(-1, 1);
        flow.sample(i32::MAX, u32::MAX);
        flow.lose();
    });
}

#[test]
fn a_socket_of_zeros_is_survived() {
    for_each(|algorithm| {
        let mut flow = Flow::new(algorithm, &steady(algorithm));
        for field in [
            |flow: &mut Flow| flow.cc.sock.srtt_us = 0,
            |flow: &mut Flow| {
                flow.cc.sock.hz = 0;
                flow.cc.sock.lsndtime = u32::MAX;
            },
            |flow: &mut Flow| flow.cc.sock.mss_cache = 0,
            |flow: &mut Flow| flow.cc.sock.pacing_rate = 0,
            |flow: &mut Flow| flow.cc.sock.prior_cwnd = 0,
        ] {
            field(&mut flow);
            flow.cc.sock.snd_ssthresh = 2;
            flow.cc.sock.pacing_status = 1;
            flow.ack(100);
            flow.sample(1000, 1);
            flow.event(CaEvent::TxStart);
            flow.lose();
        }
    });
}

#[test]
fn flows_with_different_options_do_not_share_them() {
    let cubic = find("cubic").expect("registered");
    let mut gentle = Flow::avoiding(&cubic, &options(&[("beta", 900)]), 1000, 100 * MS);
    let mut harsh = Flow::avoiding(&cubic, &options(&[("beta", 300)]), 1000, 100 * MS);
    assert_eq!(gentle.lose(), 1000 * 900 / 1024);
    assert_eq!(harsh.lose(), 1000 * 300 / 1024);
}

#[allow(clippy::disallowed_methods, reason = "flows of a driver may be on threads of its own")]
#[test]
fn an_instance_may_be_moved_cloned_and_sent() {
    for_each(|algorithm| {
        let mut flow = Flow::avoiding(algorithm, &steady(algorithm), 500, 100 * MS);
        flow.lose();
        (0..10).for_each(|_| flow.round(1));
        let mut twin = Box::new(flow.clone());
        let elsewhere = std::thread::spawn(move || {
            (0..10).for_each(|_| twin.round(1));
            twin.cc.sock
        });
        (0..10).for_each(|_| flow.round(1));
        assert_eq!(flow.cc.sock, elsewhere.join().expect("no panic"));
    });
}

#[test]
fn options_are_checked() {
    let cubic = find("cubic").expect("registered");
    let unknown = Instance::new(&cubic, &options(&[("betta", 700)])).expect_err("no such option").to_string();
    assert!(unknown.contains("did you mean beta?"), "{unknown}");
    for value in [-1, 0, 1024, i64::MAX, i64::MIN] {
        let error = Instance::new(&cubic, &options(&[("beta", value)])).expect_err("out of range").to_string();
        assert!(error.contains("expected 1 to 1023"), "{error}");
    }
}

#[test]
fn an_unknown_name_comes_with_the_nearest() {
    let error = find("cubix").expect_err("no such name").to_string();
    assert!(error.contains("did you mean cubic?"), "{error}");
    assert!(error.contains("highspeed"), "{error}");
}
