//! Parses scripts.

use weir_plan::{Ack, RateStep, Stack, Tcp};
use weir_units::{Dur, Time};

use super::{AckLine, Action, DataLine, Drive, Line, Script, Sent, Span};

/// Payload of a segment, so that byte counts are easy to read.
const MSS: u32 = 1000;

/// The settings that scripts change by `option`.
fn settings() -> Tcp {
    Tcp {
        cc: "reno".into(),
        cc_options: Default::default(),
        cc_source: None,
        stack: Stack::Linux,
        mss_bytes: MSS,
        timestamps: true,
        sack: true,
        ecn: false,
        accecn: false,
        initial_window: 10,
        initial_ssthresh: 0,
        jump_start: false,
        quick_start_bps: 0,
        profile: Vec::new(),
        send_buffer_bytes: 10_000_000,
        receive_buffer_bytes: 10_000_000,
        pacing: false,
        ack: Ack::Delayed,
        processing_ns: 0,
        sack_cost_ns: 0,
        backlog_packets: 0,
        unmoderated: false,
    }
}

/// Parses a script.
///
/// # Errors
/// The form of errors: `NAME:LINE: problem`.
pub fn parse(name: &str, text: &str) -> Result<Script, String> {
    let mut script = Script {
        name: name.into(),
        cites: Vec::new(),
        tcp: settings(),
        trains: false,
        drive: Drive::Sender,
        lines: Vec::new(),
    };
    for (index, raw) in text.lines().enumerate() {
        let text = raw.split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        let parsed = parse_line(&mut script, index + 1, text);
        parsed.map_err(|problem| format!("{name}:{}: {problem}\n    {text}", index + 1))?;
    }
    if script.cites.is_empty() {
        return Err(format!("{name}: cites nothing"));
    }
    Ok(script)
}

fn parse_line(script: &mut Script, number: usize, text: &str) -> Result<(), String> {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    match first {
        "cite" => script.cites.push(rest.trim().into()),
        "drive" => {
            script.drive = match rest.trim() {
                "sender" => Drive::Sender,
                "receiver" => Drive::Receiver,
                "both" => Drive::Both,
                other => return Err(format!("no end is called {other:?}")),
            }
        }
        "option" => {
            for word in rest.split_whitespace() {
                match word {
                    "offload=device" => script.trains = true,
                    _ => set_option(&mut script.tcp, word)?,
                }
            }
        }
        _ => {
            let after = first.strip_prefix('+').ok_or("a line begins with +SECONDS, `cite`, `option` or `drive`")?;
            let words: Vec<&str> = rest.split_whitespace().collect();
            let action = parse_action(script.drive, &words)?;
            script.lines.push(Line { number, text: text.into(), after: parse_seconds(after)?, action });
        }
    }
    Ok(())
}

fn set_option(tcp: &mut Tcp, word: &str) -> Result<(), String> {
    let (name, value) = word.split_once('=').ok_or_else(|| format!("{word:?} is not NAME=VALUE"))?;
    let on = || match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{value:?} is neither on nor off")),
    };
    match name {
        "stack" => {
            tcp.stack = match value {
                "linux" => Stack::Linux,
                "linux-2.6" => Stack::Linux26,
                "linux-2.4" => Stack::Linux24,
                _ => return Err(format!("no stack {value:?}")),
            }
        }
        "cc" => tcp.cc = value.into(),
        "sack" => tcp.sack = on()?,
        "timestamps" => tcp.timestamps = on()?,
        "ecn" => tcp.ecn = on()?,
        "accecn" => tcp.accecn = on()?,
        "moderation" => tcp.unmoderated = !on()?,
        "pacing" => tcp.pacing = on()?,
        "iw" => tcp.initial_window = parse_number(value)? as u32,
        "ssthresh" => tcp.initial_ssthresh = parse_number(value)? as u32,
        "jump-start" => tcp.jump_start = on()?,
        "quick-start" => tcp.quick_start_bps = parse_number(value)?,
        "profile" => tcp.profile = parse_profile(value)?,
        "mss" => tcp.mss_bytes = parse_number(value)? as u32,
        "send-buffer" => tcp.send_buffer_bytes = parse_number(value)?,
        "receive-buffer" => tcp.receive_buffer_bytes = parse_number(value)?,
        "ack" => tcp.ack = if value == "every" { Ack::Every } else { Ack::Delayed },
        _ => return Err(format!("no option {name:?}")),
    }
    Ok(())
}

/// Steps of a rate profile, `SECONDS:BPS`, with commas between.
fn parse_profile(text: &str) -> Result<Vec<RateStep>, String> {
    text.split(',')
        .map(|step| {
            let (at, rate) = step.split_once(':').ok_or("a step is SECONDS:BPS")?;
            Ok(RateStep { at_ns: parse_seconds(at)?.0, rate_bps: parse_number(rate)? })
        })
        .collect()
}

fn parse_action(drive: Drive, words: &[&str]) -> Result<Action, String> {
    Ok(match words {
        [] | ["wait"] => Action::Wait,
        ["connect"] => Action::Connect,
        ["open", rtt] => Action::Open(parse_seconds(rtt)?),
        ["write", "forever"] => Action::Write(u64::MAX),
        ["write", count, "segments"] => Action::Write(parse_number(count)? * u64::from(MSS)),
        ["write", bytes] => Action::Write(parse_number(bytes)?),
        ["approve", bps] => Action::Approve(parse_number(bps)?),
        ["stop"] => Action::Stop,
        ["local", "congestion"] => Action::LocalCongestion,
        ["rtt", rtt] => Action::ReceiverRtt(parse_seconds(rtt)?),
        ["path", delay] => Action::Path(parse_seconds(delay)?),
        ["lose", span] => Action::Lose { span: parse_span(span)?, again: false },
        ["lose", span, "again"] => Action::Lose { span: parse_span(span)?, again: true },
        ["delay", segment, by] => Action::Delay { segment: parse_number(segment)?, by: parse_seconds(by)? },
        ["duplicate", segment] => Action::Duplicate(parse_number(segment)?),
        ["mark", segment] => Action::Mark(parse_number(segment)?),
        ["lose-ack", number] => Action::LoseAck(parse_number(number)?),
        ["expect", what, value @ ..] => Action::Expect { what: (*what).into(), value: value.join(" ") },
        ["<", "syn-ack"] => Action::SynAck,
        ["<", "ack", rest @ ..] => Action::Ack(parse_ack(rest)?),
        ["<", rest @ ..] if drive == Drive::Receiver => Action::Arrive(parse_data(rest)?),
        [">", "syn"] => Action::SentSyn,
        [">", "nothing"] => Action::SentNothing,
        [">", "anything"] => Action::SentAnything,
        [">", "ack", rest @ ..] => Action::Acked(parse_ack(rest)?),
        [">", rest @ ..] if drive != Drive::Receiver => Action::Sent(parse_sent(rest)?),
        _ => return Err("not understood".into()),
    })
}

fn parse_ack(words: &[&str]) -> Result<AckLine, String> {
    let (first, mut rest) = words.split_first().ok_or("an acknowledgement of what?")?;
    let mut line = AckLine { ack: parse_number(first)?, ..AckLine::default() };
    while let Some((word, tail)) = rest.split_first() {
        rest = tail;
        match *word {
            "ece" => line.marks = 1,
            "ace" => {
                let (value, tail) = rest.split_first().ok_or("ace what?")?;
                (line.marks, rest) = (parse_number(value)? as u8, tail);
            }
            "sack" => {
                while let Some((span, tail)) = rest.split_first().filter(|(word, _)| starts_with_digit(word)) {
                    line.sack.push(parse_span(span)?);
                    rest = tail;
                }
            }
            "dsack" | "echo" => {
                let (value, tail) = rest.split_first().ok_or_else(|| format!("{word} what?"))?;
                rest = tail;
                if *word == "dsack" {
                    line.dsack = Some(parse_span(value)?);
                } else {
                    line.echo = Some(Time::ZERO + parse_seconds(value)?);
                }
            }
            _ => return Err(format!("{word:?} is no part of an acknowledgement")),
        }
    }
    Ok(line)
}

fn parse_data(words: &[&str]) -> Result<DataLine, String> {
    let (span, mut rest) = words.split_first().ok_or("which segments?")?;
    let mut line = DataLine { span: parse_span(span)?, ce: false, cwr: false, push: false, len: None, stamp: None };
    while let Some((word, tail)) = rest.split_first() {
        rest = tail;
        match (*word, tail.first()) {
            ("ce", _) => line.ce = true,
            ("cwr", _) => line.cwr = true,
            ("push", _) => line.push = true,
            ("len", Some(value)) => {
                line.len = Some(parse_number(value)? as u32);
                rest = &tail[1..];
            }
            ("stamp", Some(value)) => {
                line.stamp = Some(Time::ZERO + parse_seconds(value)?);
                rest = &tail[1..];
            }
            _ => return Err(format!("{word:?} is no property of a segment")),
        }
    }
    Ok(line)
}

fn parse_sent(words: &[&str]) -> Result<Vec<Sent>, String> {
    let mut sent: Vec<Sent> = Vec::new();
    for word in words {
        match (*word, sent.last_mut()) {
            ("resent", Some(last)) => last.resent = true,
            ("cwr", Some(last)) => last.cwr = true,
            _ => sent.push(Sent { span: parse_span(word)?, resent: false, cwr: false }),
        }
    }
    Ok(sent)
}

fn starts_with_digit(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
}

fn parse_span(word: &str) -> Result<Span, String> {
    let (first, last) = word.split_once("..").unwrap_or((word, word));
    let (first, last) = (parse_number(first)?, parse_number(last)?);
    if first <= last { Ok((first, last)) } else { Err(format!("{word:?} runs backwards")) }
}

fn parse_number(word: &str) -> Result<u64, String> {
    word.replace('_', "").parse().map_err(|_| format!("{word:?} is not a number"))
}

/// Seconds with up to nine decimals, exactly.
pub(super) fn parse_seconds(word: &str) -> Result<Dur, String> {
    let (whole, fraction) = word.split_once('.').unwrap_or((word, "0"));
    if fraction.len() > 9 {
        return Err(format!("{word:?} is finer than a nanosecond"));
    }
    Ok(Dur(parse_number(whole)? * 1_000_000_000 + parse_number(&format!("{fraction:0<9}"))?))
}
