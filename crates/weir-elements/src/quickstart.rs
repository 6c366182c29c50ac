//! Quick-Start: a router that approves the rate with which a connection begins (RFC 4782).
//!
//! A connection request carries the rate that its sender wants. Each router on the path lowers it to what it has to spare;
//! rates are powers of two times 40 kbit/s (section 3.1). What a router has to spare is its own matter (P. Sarolahti, M. Allman, S. Floyd, "Determining an appropriate sending rate over an underutilized network path", Computer
//! Networks 51(7), 2007, compares ways). Here it is a share of the capacity, less the arrivals in the busiest fifth of a recent
//! window, less what the router approved in that window, which may not have arrived yet (section 8.2). What later routers refuse counts as
//! approved all the same, because the report of the approved rate is left out.
//!
//! The queue is first in, first out. All packets count as arrivals, and only connection requests have a header.
//!
//! Train: taken apart on arrival.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Dur, Rate, Stream, Time};

use crate::declare::{ElementInfo, Fault, Form, Kind, Place, QueuePlan, check, key};
use crate::explicit::{Header, Scheme};
use crate::limit::size;
use crate::qdisc::AtDeparture;
use crate::router::{self, Router};
use crate::{Limit, Packet, Port};

/// The router of Quick-Start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuickstartQueue {
    /// Hard limit.
    pub limit: Limit,
    /// Share of the capacity that arrivals and approved rates may reach together; 0.9.
    pub share: f64,
    /// The past whose arrivals and approved rates count; 500 ms.
    pub window_ns: u64,
}

const FORM: Form = Form {
    name: "quickstart",
    title: "Router that approves the first rate of connections with `quick_start` (RFC 4782); in the simulator only.",
    keys: &[
        size("Hard limit; 1000 packets.").or("1000packets"),
        key(
            "share",
            "share",
            Kind::Number { min: 0.0, max: 1.0, positive: true },
            "Share of the capacity that arrivals and approved rates may reach together; 0.9.",
        )
        .or("0.9"),
        key(
            "window",
            "window_ns",
            Kind::Time { positive: true },
            "The past whose arrivals and approved rates count; 500 ms.",
        )
        .or("500ms"),
    ],
};

impl QueuePlan for QuickstartQueue {
    const INFO: ElementInfo = ElementInfo::new(
        "quickstart",
        Place::Queue,
        "First in, first out; approves or lowers the rate that a connection request asks for",
        "RFC 4782",
        &[FORM],
    );

    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn limit_mut(&mut self) -> &mut Limit {
        &mut self.limit
    }

    fn validate(&self, at: &str) -> Result<(), Fault> {
        check(self.window_ns >= PARTS as u64, || format!("{at}.window_ns"), "must be at least 5")?;
        check(self.share > 0.0 && self.share <= 1.0, || format!("{at}.share"), "must be a share, above 0 and at most 1")
    }
}

impl AtDeparture for QuickstartQueue {
    type Qdisc<P: Packet + Send> = Quickstart<P>;

    fn qdisc<P: Packet + Send>(&self, port: Port, _stream: Stream) -> Quickstart<P> {
        Router::new(&self.limit, port, Control::new(self, port.rate))
    }
}

/// The rate of the code point 1 is twice this, and that of 15 the greatest (section 3.1).
const UNIT_BPS: i64 = 40_000;
const GREATEST_CODE: u32 = 15;

/// The greatest rate of Quick-Start that is at most `bps`; 0 if there is none.
pub fn quick_start_rate(bps: i64) -> i64 {
    let code = (bps / UNIT_BPS).checked_ilog2().unwrap_or(0).min(GREATEST_CODE);
    if code == 0 { 0 } else { UNIT_BPS << code }
}

/// Parts of the window.
const PARTS: usize = 5;

/// A part of the window.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// Bytes that arrived.
    input: u64,
    /// Rates approved, bit/s.
    approved: i64,
}

/// What the router has to spare.
#[derive(Clone, Debug)]
pub struct Control {
    share: f64,
    capacity: Rate,
    /// Length of a part of the window.
    length: Dur,
    /// The parts by their number modulo [`PARTS`], and the number of the present one.
    parts: [Part; PARTS],
    present: u64,
}

impl Control {
    fn new(queue: &QuickstartQueue, capacity: Rate) -> Control {
        Control {
            share: queue.share,
            capacity,
            length: Dur(queue.window_ns / PARTS as u64),
            parts: [Part::default(); PARTS],
            present: 0,
        }
    }

    fn present(&mut self) -> &mut Part {
        &mut self.parts[(self.present % PARTS as u64) as usize]
    }

    /// The rate to spare, bit/s.
    fn spare(&self) -> i64 {
        let busiest = self.parts.iter().map(|part| part.input).max().unwrap_or(0);
        let arrivals = (busiest * 8) as f64 / self.length.as_secs_f64();
        let approved: i64 = self.parts.iter().map(|part| part.approved).sum();
        (self.share * self.capacity.0 as f64 - arrivals) as i64 - approved
    }
}

impl router::Control for Control {
    const SCHEME: Scheme = Scheme::QuickStart;

    fn catch_up(&mut self, now: Time, _waiting: u64) {
        let present = now.0 / self.length.0;
        let passed = present.saturating_sub(self.present).min(PARTS as u64);
        for number in (present + 1 - passed)..=present {
            self.parts[(number % PARTS as u64) as usize] = Part::default();
        }
        self.present = self.present.max(present);
    }

    fn input(&mut self, bytes: u32) {
        self.present().input += u64::from(bytes);
    }

    fn set_capacity(&mut self, rate: Rate) {
        self.capacity = rate;
    }

    fn departs(&mut self, _wire_bytes: u32, header: &mut Header) {
        header.routers = header.routers.saturating_add(1);
        header.feedback_bps = quick_start_rate(self.spare()).min(header.feedback_bps);
        self.present().approved += header.feedback_bps;
    }
}

/// A first-in, first-out queue that approves the first rate of connections, with a hard limit.
pub type Quickstart<P> = Router<P, Control>;

#[cfg(test)]
mod tests;
