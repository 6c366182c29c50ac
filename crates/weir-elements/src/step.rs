//! Step marking: first in, first out; marks packets that find more than a threshold waiting.
//!
//! This is the queue of DCTCP (M. Alizadeh et al., "Data center TCP (DCTCP)", SIGCOMM 2010, section 3.1; RFC 8257,
//! section 3.1): a packet is marked if the queue holds more than K at its arrival. The queue is the instantaneous one,
//! in bytes on the wire, without the packet in transmission. At a constant rate this equals marking by the time that
//! the packet will wait, so a threshold in time is one in bytes; where the rate changes, `ce_threshold` of CoDel marks
//! by time.
//!
//! A packet that cannot carry ECN passes, as with Linux' `ce_threshold`. With `drop` it is dropped instead, as in
//! switches that mark by RED with both thresholds at K: there, flows without ECN starve beside DCTCP (G. Judd,
//! "Attaining the promise and avoiding the pitfalls of TCP in the datacenter", NSDI 2015, section 3.2).
//!
//! Train: each packet is offered on its own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Rate, Stream, Time};

use crate::admission::{Admits, AtArrival};
use crate::declare::{ElementInfo, Fault, Form, Kind, Place, QueuePlan, key};
use crate::limit::size;
use crate::{Arrival, Backlog, DropReason, DropTail, Limit, Port, Verdict};

/// First in, first out; marks packets that find more than a threshold waiting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepQueue {
    /// Hard limit.
    pub limit: Limit,
    /// Bytes on the wire above which arriving packets are marked.
    pub threshold_bytes: u64,
    /// Above the threshold, drop packets that cannot carry ECN.
    pub drop: bool,
}

const FORM: Form = Form {
    name: "step",
    title: "Step marking, as DCTCP wants it: marks each packet that can carry ECN and finds more than a threshold \
            waiting.",
    keys: &[
        size("Hard limit; 1000 packets.").or("1000packets"),
        key(
            "threshold",
            "threshold_bytes",
            Kind::Threshold,
            "Packets that find more waiting are marked: DCTCP's K. The packet in transmission is not counted.",
        ),
        key("drop", "drop", Kind::Flag, "Above the threshold, drop packets that cannot carry ECN.").or("false"),
    ],
};

impl QueuePlan for StepQueue {
    const INFO: ElementInfo = ElementInfo::new(
        "step",
        Place::Queue,
        "First in, first out; marks every packet that finds more than a threshold waiting",
        "RFC 8257, section 3.1; Alizadeh et al. 2010",
        &[FORM],
    );

    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn limit_mut(&mut self) -> &mut Limit {
        &mut self.limit
    }

    fn validate(&self, _at: &str) -> Result<(), Fault> {
        Ok(())
    }
}

impl AtArrival for StepQueue {
    type Admits = Step;

    fn admission(&self, _port: &Port, _stream: Stream) -> Step {
        Step { limit: DropTail::from_plan(&self.limit), threshold: self.threshold_bytes, drop: self.drop }
    }
}

/// A limit, and a threshold for marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    limit: DropTail,
    threshold: u64,
    drop: bool,
}

impl Admits for Step {
    #[inline]
    fn admit(&mut self, _now: Time, arrival: &Arrival, queue: &Backlog) -> Verdict {
        let above = queue.bytes > self.threshold;
        if !self.limit.fits(arrival.bytes, queue.bytes, queue.packets) {
            return Verdict::Drop(DropReason::Overflow);
        }
        match (above, arrival.ecn_capable) {
            (true, true) => Verdict::Mark,
            (true, false) if self.drop => Verdict::Drop(DropReason::Early),
            _ => Verdict::Pass,
        }
    }

    #[inline]
    fn has_room(&self, bytes: u32, queue_bytes: u64, queue_packets: u64) -> bool {
        queue_bytes <= self.threshold && self.limit.fits(bytes, queue_bytes, queue_packets)
    }

    fn room(&self) -> DropTail {
        self.limit.within(self.threshold)
    }

    /// The threshold is in bytes.
    fn set_rate(&mut self, _rate: Rate) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Admission, FifoLink, Offer};

    const PORT: Port = Port { rate: Rate::from_mbps(12), overhead_bytes: 0, mtu_bytes: 1500 };

    fn step(threshold_bytes: u64, drop: bool) -> Step {
        let limit = Limit { bytes: None, packets: Some(5) };
        StepQueue { limit, threshold_bytes, drop }.admission(&PORT, Stream::new(1, "unused"))
    }

    fn verdict(step: &mut Step, packets: u64, ecn_capable: bool) -> Verdict {
        let queue = Backlog { bytes: 1500 * packets, packets, idle_since: None };
        step.admit(Time::ZERO, &Arrival { bytes: 1500, ecn_capable, dscp: 0 }, &queue)
    }

    #[test]
    fn packets_that_find_more_than_the_threshold_are_marked() {
        let mut step = step(3000, false);
        let verdicts = [0, 1, 2, 3, 4, 5].map(|waiting| verdict(&mut step, waiting, true));
        let full = Verdict::Drop(DropReason::Overflow);
        assert_eq!(verdicts, [Verdict::Pass, Verdict::Pass, Verdict::Pass, Verdict::Mark, Verdict::Mark, full]);
    }

    #[test]
    fn packets_without_ecn_pass_or_are_dropped() {
        assert_eq!(verdict(&mut step(3000, false), 3, false), Verdict::Pass);
        assert_eq!(verdict(&mut step(3000, true), 3, false), Verdict::Drop(DropReason::Early));
        assert_eq!(verdict(&mut step(3000, true), 2, false), Verdict::Pass);
    }

    #[test]
    fn only_packets_that_are_not_marked_surely_have_room() {
        let step = step(3000, false);
        assert!(step.has_room(1500, 3000, 2));
        assert!(!step.has_room(1500, 3001, 3));
        assert!(!step.has_room(1500, 0, 5));
    }

    /// A link without a packet transmits the first one at once. The second to fourth find 0, 1 and 2 packets waiting.
    #[test]
    fn at_a_constant_rate_a_mark_says_how_long_the_packet_will_wait() {
        let queue = StepQueue { limit: Limit { bytes: None, packets: Some(100) }, threshold_bytes: 3000, drop: false };
        let admission = Admission::from_plan(&queue.into(), &PORT, Stream::new(1, "unused")).unwrap();
        let mut link = FifoLink::new(admission, PORT.rate);
        let arrival = Arrival { bytes: 1500, ecn_capable: true, dscp: 0 };
        let offers: Vec<_> = (0..6).map(|_| link.offer(Time::ZERO, &arrival)).collect();
        for (packet, offer) in offers.iter().enumerate() {
            let &Offer::Sent { start, mark, .. } = offer else { panic!("there is room") };
            // 3000 bytes take 2 ms, and the packet in transmission 1 ms.
            assert_eq!(mark, start.0 > 3_000_000, "packet {packet}");
        }
    }
}
