//! Runs `cc/*/vectors.txt`: sequences of calls with their results, computed by hand from the paper or RFC.
//!
//! A line is a step; `#` begins a comment. `vector NAME [option=value ...]` begins a new flow, then:
//!
//! ```text
//! set FIELD VALUE        a field of the socket, before the next call
//! clock +TIME            time passes (us, ms or s)
//! rtt TIME [xN]          N round-trip time samples of one packet each; also the smoothed round-trip time
//! ack N                  an acknowledgement of N packets, in one call
//! sample N TIME [lost]   a delivery-rate sample: N packets were delivered in TIME, which passes; some of them lost
//! rounds N TIME          N round trips of one window each, packet by packet
//! loss | rto | undo      fast retransmission, timeout, undo of the last of them
//! init                   the connection begins anew, with the fields that are there
//! complete               a reduction is complete
//! FIELD = N              what must hold; `ssthresh = N` calls the operation
//! FIELD in A..B          bounds included
//! ```
#![allow(clippy::disallowed_methods, reason = "the tests read cc/")]

mod common;

use common::{Flow, options};
use std::{fs, path::PathBuf};
use weir_cc::{CaEvent, Sock, list};

#[test]
fn every_vector_of_every_congestion_control_holds() {
    for algorithm in list() {
        let path =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../cc").join(algorithm.name()).join("vectors.txt");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut flow: Option<Flow> = None;
        let mut checks = 0;
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            let place = format!("cc/{}/vectors.txt:{}: {line}", algorithm.name(), index + 1);
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [] => {}
                ["vector", _, pairs @ ..] => {
                    let pairs: Vec<(&str, i64)> = pairs.iter().map(|pair| option_pair(pair, &place)).collect();
                    flow = Some(Flow::new(&algorithm, &options(&pairs)));
                }
                step => {
                    let flow = flow.as_mut().unwrap_or_else(|| panic!("{place}: no vector yet"));
                    checks += run(flow, step, &place);
                }
            }
        }
        assert!(checks >= 8, "cc/{}: only {checks} checks in its vectors", algorithm.name());
    }
}

fn option_pair<'a>(pair: &'a str, place: &str) -> (&'a str, i64) {
    let (name, value) = pair.split_once('=').unwrap_or_else(|| panic!("{place}: expected option=value"));
    (name, number(value, place))
}

/// Makes one step; returns how many checks it made.
fn run(flow: &mut Flow, step: &[&str], place: &str) -> usize {
    match step {
        ["set", "pacing_rate", value] => flow.cc.sock.pacing_rate = number(value, place) as u64,
        ["set", "ecn_flags", value] => flow.cc.sock.ecn_flags = number(value, place) as u8,
        ["set", field, value] => *field_of(&mut flow.cc.sock, field, place) = number(value, place) as u32,
        ["clock", time] => flow.advance(time_us(time.trim_start_matches('+'), place)),
        ["rtt", time] => sample(flow, time, 1, place),
        ["rtt", time, times] => sample(flow, time, number(times.trim_start_matches('x'), place), place),
        ["ack", count] => flow.ack(number(count, place) as u32),
        ["rounds", count, time] => {
            flow.set_rtt(time_us(time, place) as u32);
            (0..number(count, place)).for_each(|_| flow.round(1));
        }
        ["loss"] => _ = flow.lose(),
        ["rto"] => _ = flow.time_out(),
        ["sample", count, time] => rate(flow, count, time, "0", place),
        ["sample", count, time, lost] => rate(flow, count, time, lost, place),
        ["init"] => flow.checked(|cc| cc.init()),
        ["complete"] => flow.event(CaEvent::CompleteCwr),
        ["undo"] => _ = flow.undo(),
        ["ssthresh", "=", expected] => {
            let threshold = flow.checked(|cc| cc.ssthresh());
            assert_eq!(i64::from(threshold), number(expected, place), "{place}");
            return 1;
        }
        ["pacing_rate", "in", bounds] => {
            let (low, high) = bounds.split_once("..").unwrap_or_else(|| panic!("{place}: expected A..B"));
            let rate = flow.cc.sock.pacing_rate as i64;
            assert!((number(low, place)..=number(high, place)).contains(&rate), "{place}: it is {rate}");
            return 1;
        }
        [field, "=", expected] => {
            let value = *field_of(&mut flow.cc.sock, field, place);
            assert_eq!(i64::from(value), number(expected, place), "{place}");
            return 1;
        }
        [field, "in", bounds] => {
            let value = i64::from(*field_of(&mut flow.cc.sock, field, place));
            let (low, high) = bounds.split_once("..").unwrap_or_else(|| panic!("{place}: expected A..B"));
            let range = number(low, place)..=number(high, place);
            assert!(range.contains(&value), "{place}: it is {value}");
            return 1;
        }
        _ => panic!("{place}: not a step"),
    }
    0
}

fn rate(flow: &mut Flow, count: &str, time: &str, lost: &str, place: &str) {
    let (count, us) = (number(count, place) as u32, time_us(time, place));
    flow.advance(us);
    flow.cc.sock.delivered += count;
    flow.control(count, us as u32, number(lost, place) as u32);
}

fn sample(flow: &mut Flow, time: &str, times: i64, place: &str) {
    let rtt = time_us(time, place) as u32;
    flow.set_rtt(rtt);
    (0..times).for_each(|_| flow.sample(rtt as i32, 1));
}

fn field_of<'a>(sock: &'a mut Sock, name: &str, place: &str) -> &'a mut u32 {
    match name {
        "snd_cwnd" => &mut sock.snd_cwnd,
        "snd_cwnd_cnt" => &mut sock.snd_cwnd_cnt,
        "snd_cwnd_clamp" => &mut sock.snd_cwnd_clamp,
        "snd_ssthresh" => &mut sock.snd_ssthresh,
        "snd_una" => &mut sock.snd_una,
        "snd_nxt" => &mut sock.snd_nxt,
        "delivered" => &mut sock.delivered,
        "delivered_ce" => &mut sock.delivered_ce,
        "lost" => &mut sock.lost,
        "packets_out" => &mut sock.packets_out,
        "prior_cwnd" => &mut sock.prior_cwnd,
        "pacing_status" => &mut sock.pacing_status,
        _ => panic!("{place}: no field {name}"),
    }
}

fn number(text: &str, place: &str) -> i64 {
    text.parse().unwrap_or_else(|_| panic!("{place}: {text} is not a number"))
}

fn time_us(text: &str, place: &str) -> u64 {
    let units = [("us", 1), ("ms", 1000), ("s", 1_000_000)];
    let (digits, unit) = units
        .iter()
        .find_map(|(suffix, unit)| text.strip_suffix(suffix).map(|digits| (digits, *unit)))
        .unwrap_or_else(|| panic!("{place}: {text} has no unit"));
    number(digits, place) as u64 * unit
}
