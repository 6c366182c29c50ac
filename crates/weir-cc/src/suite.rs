//! What every congestion control should do, whatever its algorithm. A judgement asks a user's control, `tests/suite.rs`
//! asks the registered ones, each with what it does otherwise by its definition. The calls are those of the trial.

use crate::{
    Algorithm, CcOption, Instance,
    guard::{self, Fault},
    trial::Flow,
    watch,
};
use std::collections::BTreeMap;

const RTT_US: u32 = 100_000;
const DAY_US: u64 = 24 * 3600 * 1_000_000;

/// What the suite demands of a control, and how it makes its flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demands<'a> {
    /// Options with which slow start doubles the window each round trip, in addition to HyStart, which is off.
    pub standard: &'a [(&'a str, i64)],
    /// Options without what the control does regularly on its own, whatever is acknowledged and lost.
    pub steady: &'a [(&'a str, i64)],
    /// Bounds of the share of the window that a loss keeps, where there is no queue.
    pub kept: (f64, f64),
    /// Whether acknowledged and lost packets do not set the window: it is asked for the last requirement only.
    pub apart: bool,
}

impl Demands<'static> {
    /// For a control of which nothing is known; one with `cong_control` is apart.
    pub fn unknown(algorithm: &Algorithm) -> Demands<'static> {
        Demands { standard: &[], steady: &[], kept: (0.45, 0.92), apart: algorithm.has_cong_control() }
    }
}

/// One requirement, and what a control does instead, if it does not meet it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// What every control should do.
    pub name: &'static str,
    /// The RFC that demands it; empty where none does.
    pub source: &'static str,
    /// What this one does.
    pub instead: Option<String>,
}

type Verdict = Result<(), String>;
type Check = fn(&Subject<'_>) -> Verdict;

const ALL: [(&str, &str, Check); 10] = [
    ("slow start doubles the window in a round trip, up to the threshold", "RFC 5681, section 3.1", slow_start),
    ("the window stays where the application limits it", "RFC 7661", application),
    ("a loss takes a share of the window, which grows again", "RFC 5681, section 3.1", loss),
    ("a window of two packets survives losses", "RFC 5681, equation 4", small),
    ("a timeout restarts from one packet, by slow start", "RFC 5681, section 3.1", timeout),
    ("undo restores the window before a spurious loss", "RFC 4015", undo),
    ("windows of a million packets and of 2^32 do not overflow", "", overflow),
    ("a year of idling earns no burst", "RFC 5681, section 4.1", idling),
    ("a pause earns no burst", "RFC 9438, section 5.8", pause),
    ("a clock that steps back and a socket of zeros are survived", "", nonsense),
];

/// Requirement `index` as the end of a sentence about a violation; empty if there is none.
pub(crate) fn clause(index: usize) -> String {
    match ALL.get(index) {
        None => String::new(),
        Some((name, "", _)) => format!(", where the suite asks: {name}"),
        Some((name, source, _)) => format!(", where the suite asks: {name} ({source})"),
    }
}

/// Asks a control what every control should do, within `demands`.
///
/// # Errors
/// The [`Fault`] of a violation, which names the requirement; a violation that raises a signal does not return.
pub fn suite(algorithm: &Algorithm, demands: &Demands<'_>) -> Result<Vec<Requirement>, Fault> {
    let subject = Subject { algorithm, demands };
    let verdict = |index: usize| {
        let (name, source, check) = ALL[index];
        watch::asking(index);
        let instead = guard::caught(|| check(&subject))
            .map_err(|fault| Fault { what: format!("{}{}", fault.what, clause(index)), ..fault })?
            .err();
        Ok(Requirement { name, source, instead })
    };
    let first = if demands.apart { ALL.len() - 1 } else { 0 };
    let found = (first..ALL.len()).map(verdict).collect();
    watch::trying(watch::Options::Default);
    found
}

/// A control and how it is asked.
struct Subject<'a> {
    algorithm: &'a Algorithm,
    demands: &'a Demands<'a>,
}

impl Subject<'_> {
    /// A flow in standard slow start.
    fn fresh(&self) -> Flow {
        self.flow(self.demands.standard)
    }

    /// The same in congestion avoidance at `cwnd`.
    fn avoiding(&self, cwnd: u32) -> Flow {
        at(self.fresh(), cwnd)
    }

    /// A flow in congestion avoidance at `cwnd` that does nothing on its own.
    fn steady(&self, cwnd: u32) -> Flow {
        at(self.flow(self.demands.steady), cwnd)
    }

    /// With the options at their defaults, but for HyStart and `pairs`.
    fn flow(&self, pairs: &[(&str, i64)]) -> Flow {
        let off = |option: &CcOption| option.name == "hystart" && option.min == 0;
        let mut options: BTreeMap<String, i64> = self
            .algorithm
            .options()
            .iter()
            .filter(|option| off(option))
            .map(|option| (option.name.clone(), 0))
            .collect();
        options.extend(pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)));
        let cc = Instance::new(self.algorithm, &options).expect("values within the bounds that it declares");
        Flow::steady(cc, RTT_US)
    }
}

/// `flow` in congestion avoidance at `cwnd`.
fn at(mut flow: Flow, cwnd: u32) -> Flow {
    (flow.cc.sock.snd_cwnd, flow.cc.sock.snd_ssthresh) = (cwnd, cwnd.min(2));
    flow
}

fn hold(condition: bool, instead: impl FnOnce() -> String) -> Verdict {
    if condition { Ok(()) } else { Err(instead()) }
}

fn slow_start(subject: &Subject<'_>) -> Verdict {
    let mut flow = subject.fresh();
    flow.cc.sock.snd_ssthresh = 640;
    for expected in [20, 40, 80, 160, 320, 640] {
        let before = flow.cwnd();
        flow.round();
        hold(flow.cwnd() == expected, || format!("{before} packets become {}, not {expected}", flow.cwnd()))?;
    }
    Ok(())
}

fn application(subject: &Subject<'_>) -> Verdict {
    let mut flow = subject.steady(100);
    flow.cc.sock.is_cwnd_limited = 0;
    flow.cc.sock.max_packets_out = 10;
    (0..1000).for_each(|_| flow.ack(10, RTT_US as i32));
    hold(flow.cwnd() == 100, || format!("100 packets, of which 10 are used, become {}", flow.cwnd()))
}

fn loss(subject: &Subject<'_>) -> Verdict {
    let (least, most) = subject.demands.kept;
    for cwnd in [40, 100, 1000, 10_000, 50_000] {
        let mut flow = subject.steady(cwnd);
        flow.round();
        let before = flow.cwnd();
        let threshold = flow.lose();
        let kept = f64::from(threshold) / f64::from(before);
        hold((least..=most).contains(&kept), || {
            let usual = format!("usual are {:.0} % to {:.0} %", 100.0 * least, 100.0 * most);
            format!("a loss at {before} packets keeps {threshold}, {:.0} %; {usual}", 100.0 * kept)
        })?;
        let after = flow.cwnd();
        (0..40).for_each(|_| flow.round());
        hold(flow.cwnd() > after, || format!("{after} packets do not grow in 40 round trips"))?;
    }
    Ok(())
}

fn small(subject: &Subject<'_>) -> Verdict {
    for cwnd in 1..=4 {
        let mut flow = subject.steady(cwnd);
        for _ in 0..5 {
            let threshold = flow.lose();
            hold(threshold >= 2, || format!("a loss at {cwnd} packets gives a threshold of {threshold}"))?;
        }
        (0..5).for_each(|_| flow.round());
        hold(flow.cwnd() >= 3, || format!("after losses at {cwnd} packets it is stuck at {}", flow.cwnd()))?;
    }
    Ok(())
}

fn timeout(subject: &Subject<'_>) -> Verdict {
    let mut flow = subject.avoiding(1000);
    flow.round();
    flow.time_out();
    let threshold = flow.cc.sock.snd_ssthresh;
    let (least, most) = subject.demands.kept;
    hold((1000.0 * least..=1001.0 * most).contains(&f64::from(threshold)), || {
        format!("a timeout at 1000 packets gives a threshold of {threshold}")
    })?;
    (0..9).for_each(|_| flow.round());
    let least = 450.min(threshold);
    hold(flow.cwnd() >= least, || format!("nine round trips later the window has {} packets", flow.cwnd()))
}

fn undo(subject: &Subject<'_>) -> Verdict {
    for timed_out in [false, true] {
        let mut flow = subject.steady(1000);
        (0..20).for_each(|_| flow.round());
        let before = flow.cwnd();
        if timed_out {
            flow.time_out();
        } else {
            flow.lose();
        }
        flow.undo_last();
        hold(flow.cwnd() == before, || format!("{before} packets become {}", flow.cwnd()))?;
        flow.cc.sock.snd_ssthresh = 2;
        flow.round();
        hold(flow.cwnd() >= before, || format!("a round trip after undo, {before} packets are {}", flow.cwnd()))?;
    }
    Ok(())
}

fn overflow(subject: &Subject<'_>) -> Verdict {
    let mut flow = subject.steady(1_000_000);
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

fn idling(subject: &Subject<'_>) -> Verdict {
    for days in [1, 30, 50, 400] {
        let mut flow = subject.avoiding(1000);
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

fn pause(subject: &Subject<'_>) -> Verdict {
    let mut flow = subject.avoiding(1000);
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

fn nonsense(subject: &Subject<'_>) -> Verdict {
    let mut flow = subject.steady(100);
    flow.round();
    flow.cc.sock.tcp_mstamp_us -= 90_000;
    (0..100).for_each(|_| flow.ack(10, -1));
    flow.cc.sock.tcp_mstamp_us -= 900_000;
    (0..100).for_each(|_| flow.ack(10, 0));
    flow.ack(1, i32::MAX);
    for zero in [
        |flow: &mut Flow| flow.cc.sock.srtt_us = 0,
        |flow: &mut Flow| (flow.cc.sock.hz, flow.cc.sock.lsndtime) = (0, u32::MAX),
        |flow: &mut Flow| flow.cc.sock.mss_cache = 0,
        |flow: &mut Flow| flow.cc.sock.pacing_rate = 0,
        |flow: &mut Flow| flow.cc.sock.prior_cwnd = 0,
    ] {
        zero(&mut flow);
        flow.cc.sock.snd_ssthresh = 2;
        flow.cc.sock.pacing_status = 1;
        flow.ack(100, 0);
        flow.ack(1, 1000);
        flow.pause(0);
        flow.lose();
    }
    hold(flow.cwnd() >= 1, || "a window of zero".to_owned())
}
