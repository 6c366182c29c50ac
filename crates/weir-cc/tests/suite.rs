//! The shared suite: requirements on every congestion control, whatever its algorithm.

mod common;

use common::{Flow, Nature, nature, options};
use std::collections::{BTreeMap, BTreeSet};
use weir_cc::{Algorithm, Demands, Instance, PRIVATE_WORDS, find, list, suite};

const MS: u32 = 1000;

/// Runs `check` for every registered congestion control, naming the one that fails.
fn for_each(mut check: impl FnMut(&Algorithm)) {
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

/// A judgement asks a user's control the same ([`weir_cc::suite`]).
#[test]
fn every_requirement_is_met() {
    let mut unmet = Vec::new();
    for_each(|algorithm| {
        let Nature { standard, steady, kept, apart, otherwise, .. } = nature(algorithm.name());
        let demands = Demands { standard, steady, kept, apart };
        let found = suite(algorithm, &demands).expect("no violation");
        assert_eq!(found.len(), if apart { 1 } else { 10 });
        assert!(found.iter().all(|one| one.source.is_empty() || one.source.starts_with("RFC ")));
        for one in found {
            let known = otherwise.iter().any(|begin| one.name.starts_with(begin));
            match one.instead {
                Some(instead) if !known => unmet.push(format!("{}: {}: {instead}", algorithm.name(), one.name)),
                None if known => unmet.push(format!("{}: {}: met, against what is known", algorithm.name(), one.name)),
                _ => (),
            }
        }
    });
    assert!(unmet.is_empty(), "{unmet:#?}");
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
