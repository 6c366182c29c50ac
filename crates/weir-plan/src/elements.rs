//! The parameters of elements: what no element could be built from.

use crate::validate::check;
use crate::{CodelParams, Delay, Limit, Loss, PlanError, Queue, RedCurve};

/// Whether `p` is a probability.
fn probability(p: f64, at: &str) -> Result<(), PlanError> {
    check((0.0..=1.0).contains(&p), || at.into(), format!("{p} is not a probability; expected 0 to 1"))
}

impl Queue {
    /// Checks the parameters; `at` is the place of the queue in the plan.
    pub(crate) fn validate(&self, at: &str) -> Result<(), PlanError> {
        match self {
            Queue::Droptail { limit } => limit.validate(at),
            Queue::Red { limit, curves, weight, .. } => {
                limit.validate(at)?;
                let place = || format!("{at}.weight");
                check(*weight > 0.0 && *weight <= 1.0, place, format!("{weight} is out of range; expected 0 to 1"))?;
                check(!curves.is_empty(), || format!("{at}.curves"), "RED needs a curve")?;
                (0..).zip(curves).try_for_each(|(i, curve): (usize, _)| curve.validate(&format!("{at}.curves[{i}]")))
            }
            Queue::Codel { limit, codel } => limit.validate(at).and_then(|()| codel.validate(at)),
            Queue::FqCodel { limit, buckets, quantum_bytes, codel } => {
                limit.validate(at)?;
                check(*buckets > 0, || format!("{at}.buckets"), "must not be zero")?;
                check(*quantum_bytes > 0, || format!("{at}.quantum_bytes"), "a quantum of 0 bytes never sends")?;
                codel.validate(at)
            }
            Queue::Pie { limit, update_ns, alpha, beta, .. } => {
                limit.validate(at)?;
                check(*update_ns > 0, || format!("{at}.update_ns"), "must not be zero")?;
                for (name, weight) in [("alpha", alpha), ("beta", beta)] {
                    let place = || format!("{at}.{name}");
                    check(weight.is_finite() && *weight >= 0.0, place, "must be finite and not negative")?;
                }
                Ok(())
            }
        }
    }
}

impl Limit {
    fn validate(&self, at: &str) -> Result<(), PlanError> {
        let place = || format!("{at}.limit");
        check(self.bytes.or(self.packets).is_some(), place, "expected bytes, packets or both")?;
        check(self.bytes != Some(0) && self.packets != Some(0), place, "a queue of size 0 passes nothing")
    }
}

impl RedCurve {
    fn validate(&self, at: &str) -> Result<(), PlanError> {
        let ordered = self.min_bytes < self.max_bytes;
        check(ordered, || format!("{at}.max_bytes"), "must be above `min_bytes`")?;
        check(self.dscp_to < 64, || format!("{at}.dscp_to"), "code points end at 63")?;
        probability(self.max_p, &format!("{at}.max_p"))
    }
}

impl CodelParams {
    fn validate(&self, at: &str) -> Result<(), PlanError> {
        check(self.interval_ns > 0, || format!("{at}.codel.interval_ns"), "must not be zero")
    }
}

impl Loss {
    /// Checks the parameters; `at` is the place of the losses in the plan.
    pub(crate) fn validate(&self, at: &str) -> Result<(), PlanError> {
        match self {
            Loss::Bernoulli { p } => probability(*p, &format!("{at}.p")),
            Loss::GilbertElliott { p, r, good, bad } => [("p", p), ("r", r), ("good", good), ("bad", bad)]
                .into_iter()
                .try_for_each(|(name, value)| probability(*value, &format!("{at}.{name}"))),
            Loss::List { packets } => {
                check(packets.iter().all(|&n| n > 0), || format!("{at}.packets"), "packets are counted from 1")
            }
        }
    }
}

impl Delay {
    /// Checks the parameters; `at` is the place of the delay line in the plan.
    pub(crate) fn validate(&self, at: &str) -> Result<(), PlanError> {
        // Four years: sums with an instant of the run stay far from the end of 64 bits.
        let most = i64::MAX as u64 / 64;
        let (delay_ns, more_ns) = match *self {
            Delay::Fixed { delay_ns } => (delay_ns, 0),
            Delay::Jitter { delay_ns, jitter_ns, .. } => (delay_ns, jitter_ns),
            Delay::Reorder { delay_ns, extra_ns, probability: p } => {
                probability(p, &format!("{at}.probability"))?;
                (delay_ns, extra_ns)
            }
        };
        check(delay_ns.max(more_ns) <= most, || at.into(), format!("a delay has at most {most} ns"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mark;

    const LIMIT: Limit = Limit { bytes: Some(1), packets: None };
    const CURVE: RedCurve = RedCurve { dscp_from: 0, dscp_to: 63, min_bytes: 1, max_bytes: 2, max_p: 0.1 };
    const CODEL: CodelParams = CodelParams { target_ns: 1, interval_ns: 1, mark: Mark::Drop };

    fn red(curve: RedCurve, weight: f64) -> Queue {
        Queue::Red { limit: LIMIT, curves: vec![curve], weight, gentle: false, mark: Mark::Drop }
    }

    fn pie(update_ns: u64, alpha: f64) -> Queue {
        Queue::Pie { limit: LIMIT, target_ns: 1, update_ns, alpha, beta: 1.0, mark: Mark::Drop }
    }

    #[test]
    fn sound_parameters_pass() {
        let fq_codel = Queue::FqCodel { limit: LIMIT, buckets: 1, quantum_bytes: 1, codel: CODEL };
        for queue in [red(CURVE, 1.0), pie(1, 0.0), fq_codel, Queue::Codel { limit: LIMIT, codel: CODEL }] {
            assert_eq!(queue.validate("queue"), Ok(()));
        }
        assert_eq!(Loss::GilbertElliott { p: 0.0, r: 1.0, good: 0.0, bad: 1.0 }.validate("loss"), Ok(()));
        assert_eq!(Delay::Jitter { delay_ns: 0, jitter_ns: 1, normal: true, reorder: false }.validate("delay"), Ok(()));
    }

    #[test]
    fn the_place_of_a_bad_parameter_is_named() {
        let no_codel = CodelParams { interval_ns: 0, ..CODEL };
        let fq_codel = |buckets, quantum_bytes| Queue::FqCodel { limit: LIMIT, buckets, quantum_bytes, codel: CODEL };
        for (queue, place) in [
            (Queue::Droptail { limit: Limit { bytes: None, packets: None } }, "queue.limit"),
            (Queue::Droptail { limit: Limit { bytes: Some(0), packets: None } }, "queue.limit"),
            (Queue::Droptail { limit: Limit { bytes: Some(1), packets: Some(0) } }, "queue.limit"),
            (red(CURVE, 0.0), "queue.weight"),
            (red(CURVE, f64::NAN), "queue.weight"),
            (red(RedCurve { min_bytes: 2, ..CURVE }, 0.1), "queue.curves[0].max_bytes"),
            (red(RedCurve { max_p: 1.5, ..CURVE }, 0.1), "queue.curves[0].max_p"),
            (red(RedCurve { dscp_to: 64, ..CURVE }, 0.1), "queue.curves[0].dscp_to"),
            (Queue::Codel { limit: LIMIT, codel: no_codel }, "queue.codel.interval_ns"),
            (fq_codel(0, 1), "queue.buckets"),
            (fq_codel(1, 0), "queue.quantum_bytes"),
            (pie(0, 1.0), "queue.update_ns"),
            (pie(1, f64::INFINITY), "queue.alpha"),
        ] {
            assert_eq!(queue.validate("queue").map_err(|e| e.place), Err(place.to_owned()), "{queue:?}");
        }
        let losses = [
            (Loss::Bernoulli { p: -0.1 }, "loss.p"),
            (Loss::GilbertElliott { p: 0.1, r: 0.1, good: 0.0, bad: f64::NAN }, "loss.bad"),
            (Loss::List { packets: vec![1, 0] }, "loss.packets"),
        ];
        for (loss, place) in losses {
            assert_eq!(loss.validate("loss").map_err(|e| e.place), Err(place.to_owned()), "{loss:?}");
        }
        let late = Delay::Reorder { delay_ns: 1, extra_ns: 1, probability: 2.0 };
        assert_eq!(late.validate("delay").map_err(|e| e.place), Err("delay.probability".to_owned()));
        assert!(Delay::Fixed { delay_ns: u64::MAX }.validate("delay").is_err());
    }
}
