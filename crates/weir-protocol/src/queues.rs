//! The input of a process that reads the counters of queueing disciplines.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::JobError;

/// The first line on standard input of `weir-agent queues`: where the links are, and when to look at them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueuesJob {
    /// Version of this format; 1.
    pub version: u32,
    /// The end of the plan, nanoseconds.
    pub end_ns: u64,
    /// Interval of table `links`, nanoseconds; 0: no table.
    pub interval_ns: u64,
    /// The links.
    pub queues: Vec<LinkQueue>,
}

/// A link made of the kernel's queueing disciplines (`python/weir/hosts/netem.py`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkQueue {
    /// Index of the link in the plan.
    pub link: u32,
    /// The network namespace of its device, such as `/run/netns/weir-1f-h0`.
    pub netns: PathBuf,
    /// Name of its device in that namespace.
    pub device: String,
    /// Bytes that a packet has on the wire beyond its IP bytes.
    pub overhead_bytes: u32,
    /// Size of the link's largest packet, IP bytes.
    pub mtu_bytes: u32,
    /// Rate, bits per second; not 0.
    pub rate_bps: u64,
    /// The only flow whose data packets use the link; none: several flows use it.
    pub flow: Option<u32>,
    /// Index of the 32-bit word with the number of marked packets in the discipline's own statistics; none: it marks
    /// no packets.
    pub marks_word: Option<u32>,
    /// The queues of its classes, in the order of table `classes`; empty: its queue has no classes.
    #[serde(default)]
    pub classes: Vec<ClassQueue>,
}

/// The discipline that is the queue of a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassQueue {
    /// Its handle: `10:` is `0x10_0000`.
    pub handle: u32,
    /// As that of the link.
    pub marks_word: Option<u32>,
}

impl QueuesJob {
    /// Reads a job and validates it.
    ///
    /// # Errors
    /// When it is not JSON of this form, or a link has no rate.
    pub fn from_json(text: &str) -> Result<QueuesJob, JobError> {
        let job: QueuesJob = serde_json::from_str(text).map_err(|e| JobError::new(format!("job: {e}")))?;
        if job.version != 1 {
            return Err(JobError::new(format!("job.version: {} is not known here; expected 1", job.version)));
        }
        match job.queues.iter().position(|queue| queue.rate_bps == 0) {
            Some(index) => Err(JobError::new(format!("job.queues[{index}].rate_bps: 0; expected a positive rate"))),
            None => Ok(job),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job() -> Value {
        json!({
            "version": 1, "end_ns": 10, "interval_ns": 5,
            "queues": [{
                "link": 0, "netns": "/run/netns/weir-a", "device": "weir0", "overhead_bytes": 38, "mtu_bytes": 1500,
                "rate_bps": 10_000_000, "flow": null, "marks_word": 3,
                "classes": [{"handle": 0x10_0000, "marks_word": null}]
            }]
        })
    }

    fn refusal(pointer: &str, value: Value) -> String {
        let mut job = job();
        *job.pointer_mut(pointer).expect("it is there") = value;
        QueuesJob::from_json(&job.to_string()).expect_err("it is refused").to_string()
    }

    #[test]
    fn a_job_is_read_and_a_refusal_says_where() {
        let read = QueuesJob::from_json(&job().to_string()).expect("a good job");
        assert_eq!((read.queues[0].flow, read.queues[0].marks_word), (None, Some(3)));
        assert_eq!(read.queues[0].classes, [ClassQueue { handle: 16 << 16, marks_word: None }]);
        assert_eq!(refusal("/version", json!(2)), "job.version: 2 is not known here; expected 1");
        assert_eq!(refusal("/queues/0/rate_bps", json!(0)), "job.queues[0].rate_bps: 0; expected a positive rate");
        assert!(refusal("/queues/0/overhead_bytes", json!(-1)).starts_with("job: "));
    }
}
