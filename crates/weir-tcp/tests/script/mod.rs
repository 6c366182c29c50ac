//! Scripts in the manner of packetdrill: the input of one end of a connection, and its expected output and times.
//!
//! A script is a text file. `#` begins a comment. Three kinds of header lines come first:
//!
//!     cite RFC 6928, section 2                    a source of the script; at least one
//!     option stack=linux-2.6 sack=off iw=3        settings of the connection, see `settings`
//!     drive sender                                which end is under test: `sender`, `receiver`, or `both` over a path
//!
//! Every other line is `+SECONDS ACTION`: the time since the line before, then one of
//!
//!     open 0.1                                    connect, and be answered after a round trip (moves the time on)
//!     connect | < syn-ack                         the same in steps
//!     write 5000 | write 5 segments | write forever | stop
//!     < ack 3 sack 5..6 9 ece echo 0.1            an acknowledgement arrives; ranges name their first and last segment
//!     < ack 3 ace 6                               the same with the counter of AccECN
//!     > 3..5 9 resent | > syn | > nothing         the sender must have sent this now, and only now
//!     > anything                                  whatever it sent until now
//!     < 3..5 ce cwr push len 100 stamp 0.1        data arrive at the receiver
//!     > ack 3 sack 5..6 dsack 2 echo 0.1          the receiver must have answered this
//!     path 0.05 | lose 3..5 | lose 3 again | delay 7 0.03 | duplicate 4 | mark 9 | lose-ack 2
//!     expect cwnd 10                              see `Expectation` in `world`
//!
//! Timers due at or before a line's time run before the line. What was sent and is named by no line is an error.

mod parse;
mod world;

pub use parse::parse;

use weir_plan::Tcp;
use weir_units::{Dur, Time};

/// A script, parsed.
pub struct Script {
    pub name: String,
    pub cites: Vec<String>,
    pub tcp: Tcp,
    /// Pacing releases trains: `option offload=device`.
    pub trains: bool,
    pub drive: Drive,
    pub lines: Vec<Line>,
}

/// Which end is under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drive {
    Sender,
    Receiver,
    Both,
}

/// One line.
pub struct Line {
    pub number: usize,
    pub text: String,
    pub after: Dur,
    pub action: Action,
}

/// First and last segment.
pub type Span = (u64, u64);

/// What a line does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    Wait,
    Connect,
    SynAck,
    Open(Dur),
    Write(u64),
    Stop,
    Approve(u64),
    LocalCongestion,
    Ack(AckLine),
    Arrive(DataLine),
    SentSyn,
    Sent(Vec<Sent>),
    SentNothing,
    SentAnything,
    Acked(AckLine),
    ReceiverRtt(Dur),
    Path(Dur),
    Lose { span: Span, again: bool },
    Delay { segment: u64, by: Dur },
    Duplicate(u64),
    Mark(u64),
    LoseAck(u64),
    Expect { what: String, value: String },
}

/// An acknowledgement, told or expected.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AckLine {
    pub ack: u64,
    pub sack: Vec<Span>,
    pub dsack: Option<Span>,
    /// 1 for `ece`, or the counter `ace`.
    pub marks: u8,
    /// The echoed time; none: not told, or not looked at.
    pub echo: Option<Time>,
}

/// Segments that arrive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataLine {
    pub span: Span,
    pub ce: bool,
    pub cwr: bool,
    pub push: bool,
    pub len: Option<u32>,
    pub stamp: Option<Time>,
}

/// Segments that must have been sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    pub span: Span,
    pub resent: bool,
    pub cwr: bool,
}

/// Runs a script; a failure names the line, the expectation, and the events up to then.
pub fn run(script: &Script) -> Result<(), String> {
    let mut world = world::World::new(script);
    for line in &script.lines {
        let done = world.step(line).and_then(|()| world.check());
        done.map_err(|problem| world.explain(line, &problem))?;
    }
    world.finish().map_err(|problem| format!("{}: at the end: {problem}\n{}", script.name, world.trace()))
}
