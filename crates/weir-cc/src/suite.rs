//! What every congestion control should do, whatever its algorithm: the part of the shared suite (`tests/suite.rs`) that
//! a user's control can be asked. Its calls are those of the trial.

use crate::{
    Algorithm, CcOption, Instance,
    guard::{self, Fault},
    trial::Flow,
};
use std::collections::BTreeMap;

const RTT_US: u32 = 100_000;
const DAY_US: u64 = 24 * 3600 * 1_000_000;
/// Shares of the window that a loss keeps.
const KEPT: (f64, f64) = (0.45, 0.92);

/// One requirement, and what a control does instead, if it does not meet it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// What every control should do.
    pub name: &'static str,
    /// What this one does.
    pub instead: Option<String>,
}

type Verdict = Result<(), String>;
type Check = fn(&Algorithm) -> Verdict;

const ALL: [(&str, Check); 10] = [
    ("slow start doubles the window in a round trip, up to the threshold", slow_start),
    ("the window stays where the application limits it", application),
    ("a loss takes a share of the window, which grows again", loss),
    ("a window of two packets survives losses", small),
    ("a timeout restarts from one packet, by slow start", timeout),
    ("undo restores the window before a spurious loss", undo),
    ("windows of a million packets and of 2^32 do not overflow", overflow),
    ("a year of idling earns no burst", idling),
    ("a pause earns no burst", pause),
    ("a clock that steps back and a socket of zeros are survived", nonsense),
];

/// Asks a control what every control should do. One whose `cong_control` sets the window is asked for the last one only:
/// acknowledged and lost packets alone say nothing about its window.
///
/// # Errors
/// The [`Fault`] of a violation; a violation that raises a signal does not return.
pub fn suite(algorithm: &Algorithm) -> Result<Vec<Requirement>, Fault> {
    let asked = if algorithm.has_cong_control() { &ALL[ALL.len() - 1..] } else { &ALL[..] };
    let verdict = |&(name, check): &(&'static str, Check)| {
        let instead = guard::caught(|| check(algorithm))?.err();
        Ok(Requirement { name, instead })
    };
    asked.iter().map(verdict).collect()
}

/// A flow with the options at their defaults, but for HyStart.
fn fresh(algorithm: &Algorithm) -> Flow {
    let off = |option: &CcOption| option.name == "hystart" && option.min == 0;
    let options: BTreeMap<String, i64> =
        algorithm.options().iter().filter(|option| off(option)).map(|option| (option.name.clone(), 0)).collect();
    let cc = Instance::new(algorithm, &options).expect("a value within the bounds that it declares");
    Flow::steady(cc, RTT_US)
}

/// The same in congestion avoidance at `cwnd`.
fn avoiding(algorithm: &Algorithm, cwnd: u32) -> Flow {
    let mut flow = fresh(algorithm);
    (flow.cc.sock.snd_cwnd, flow.cc.sock.snd_ssthresh) = (cwnd, cwnd.min(2));
    flow
}

fn hold(condition: bool, instead: impl FnOnce() -> String) -> Verdict {
    if condition { Ok(()) } else { Err(instead()) }
}

fn slow_start(algorithm: &Algorithm) -> Verdict {
    let mut flow = fresh(algorithm);
    flow.cc.sock.snd_ssthresh = 640;
    for expected in [20, 40, 80, 160, 320, 640] {
        let before = flow.cwnd();
        flow.round();
        hold(flow.cwnd() == expected, || format!("{before} packets become {}, not {expected}", flow.cwnd()))?;
    }
    Ok(())
}

fn application(algorithm: &Algorithm) -> Verdict {
    let mut flow = avoiding(algorithm, 100);
    flow.cc.sock.is_cwnd_limited = 0;
    flow.cc.sock.max_packets_out = 10;
    (0..1000).for_each(|_| flow.ack(10, RTT_US as i32));
    hold(flow.cwnd() == 100, || format!("100 packets, of which 10 are used, become {}", flow.cwnd()))
}

fn loss(algorithm: &Algorithm) -> Verdict {
    for cwnd in [40, 100, 1000, 10_000] {
        let mut flow = avoiding(algorithm, cwnd);
        flow.round();
        let before = flow.cwnd();
        let threshold = flow.lose();
        let kept = f64::from(threshold) / f64::from(before);
        hold((KEPT.0..=KEPT.1).contains(&kept), || {
            format!("a loss at {before} packets keeps {threshold}, {:.0} %; usual are 45 % to 92 %", 100.0 * kept)
        })?;
        let after = flow.cwnd();
        (0..40).for_each(|_| flow.round());
        hold(flow.cwnd() > after, || format!("{after} packets do not grow in 40 round trips"))?;
    }
    Ok(())
}

fn small(algorithm: &Algorithm) -> Verdict {
    for cwnd in 1..=4 {
        let mut flow = avoiding(algorithm, cwnd);
        for _ in 0..5 {
            let threshold = flow.lose();
            hold(threshold >= 2, || format!("a loss at {cwnd} packets gives a threshold of {threshold}"))?;
        }
        (0..5).for_each(|_| flow.round());
        hold(flow.cwnd() >= 3, || format!("after losses at {cwnd} packets it is stuck at {}", flow.cwnd()))?;
    }
    Ok(())
}

fn timeout(algorithm: &Algorithm) -> Verdict {
    let mut flow = avoiding(algorithm, 1000);
    flow.round();
    flow.time_out();
    let threshold = flow.cc.sock.snd_ssthresh;
    hold((2..=1000).contains(&threshold), || format!("a timeout at 1000 packets gives a threshold of {threshold}"))?;
    (0..9).for_each(|_| flow.round());
    let least = 450.min(threshold);
    hold(flow.cwnd() >= least, || format!("nine round trips later the window has {} packets", flow.cwnd()))
}

fn undo(algorithm: &Algorithm) -> Verdict {
    let mut flow = avoiding(algorithm, 1000);
    (0..20).for_each(|_| flow.round());
    let before = flow.cwnd();
    flow.lose();
    flow.undo_last();
    hold(flow.cwnd() == before, || format!("{before} packets become {}", flow.cwnd()))
}

fn overflow(algorithm: &Algorithm) -> Verdict {
    let mut flow = avoiding(algorithm, 1_000_000);
    flow.most = u32::MAX;
    for acked in [1, 1000, u32::MAX] {
        for cwnd in [1_000_000, 1 << 24, 1 << 30, u32::MAX - 1, u32::MAX] {
            flow.cc.sock.snd_cwnd = cwnd;
            flow.cc.sock.tcp_mstamp_us += u64::from(RTT_US);
            flow.ack(acked, RTT_US as i32);
            hold(flow.cwnd() >= cwnd, || format!("{acked} acknowledged packets shrink {cwnd} to {}", flow.cwnd()))?;
        }
    }
    flow.cc.sock.snd_cwnd = 1_000_000;
    let threshold = flow.lose();
    hold(threshold > 100_000, || format!("a loss at a million packets gives a threshold of {threshold}"))
}

fn idling(algorithm: &Algorithm) -> Verdict {
    for days in [1, 50, 400] {
        let mut flow = avoiding(algorithm, 1000);
        flow.round();
        flow.lose();
        flow.round();
        flow.rest(days * DAY_US);
        let before = flow.cwnd();
        for round in 1..=5 {
            flow.round();
            hold(flow.cwnd() <= before << round, || {
                format!("after {days} days, {before} packets become {} in {round} round trips", flow.cwnd())
            })?;
        }
    }
    Ok(())
}

fn pause(algorithm: &Algorithm) -> Verdict {
    let mut flow = avoiding(algorithm, 1000);
    flow.lose();
    (0..20).for_each(|_| flow.round());
    let mut twin = flow.clone();
    let before = flow.cwnd();
    twin.round();
    flow.pause(900_000);
    flow.round();
    let (paused, unpaused) = (flow.cwnd().saturating_sub(before), twin.cwnd().saturating_sub(before));
    hold(paused <= unpaused + 20, || format!("a round trip gains {paused} packets after a pause, {unpaused} without"))
}

fn nonsense(algorithm: &Algorithm) -> Verdict {
    let mut flow = avoiding(algorithm, 100);
    flow.round();
    flow.cc.sock.tcp_mstamp_us -= 90_000;
    (0..100).for_each(|_| flow.ack(10, -1));
    flow.cc.sock.srtt_us = 0;
    flow.cc.sock.mss_cache = 0;
    flow.cc.sock.pacing_rate = 0;
    flow.cc.sock.prior_cwnd = 0;
    flow.ack(100, 0);
    flow.ack(1, i32::MAX);
    hold(flow.cwnd() >= 1, || "a window of zero".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What registered controls do otherwise, by their definition.
    fn otherwise(name: &str) -> &'static [&'static str] {
        match name {
            "vegas" => &["slow start", "a timeout"],
            // It uses the window that the flight needs, and LEDBAT++ reduces by its own estimate of the delay.
            "nv" => &["the window"],
            "ledbatpp" => &["slow start", "a window of two", "a timeout", "windows of"],
            "hybla" | "multcp" => &["slow start", "a year of idling", "a timeout"],
            "relentless" | "westwood" => &["a loss takes"],
            "constant" => {
                &["slow start", "a loss takes", "a window of two", "a timeout", "undo", "windows of", "the window"]
            }
            _ => &[],
        }
    }

    #[test]
    fn registered_controls_meet_the_requirements() {
        let mut unmet = Vec::new();
        for algorithm in crate::list() {
            for one in suite(&algorithm).expect("no violation") {
                let known = otherwise(algorithm.name()).iter().any(|begin| one.name.starts_with(begin));
                if let Some(instead) = one.instead.filter(|_| !known) {
                    unmet.push(format!("{}: {}: {instead}", algorithm.name(), one.name));
                }
            }
        }
        assert!(unmet.is_empty(), "{unmet:#?}");
    }
}
