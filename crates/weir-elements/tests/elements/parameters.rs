//! What no element could be built from is refused, and its place in the plan named.

use weir_elements::plan::{CodelQueue, DroptailQueue, FqCodelQueue, PieQueue, RedQueue, SfqQueue};
use weir_elements::{CodelParams, Delay, Limit, Loss, Mark, Queue, RedCurve};

const LIMIT: Limit = Limit { bytes: Some(1), packets: None };
const CURVE: RedCurve = RedCurve { dscp_from: 0, dscp_to: 63, min_bytes: 1, max_bytes: 2, max_p: 0.1 };
const CODEL: CodelParams = CodelParams { target_ns: 1, interval_ns: 1, mark: Mark::Drop, ce_threshold_ns: None };

fn red(curve: RedCurve, weight: f64) -> Queue {
    Queue::Red(RedQueue { limit: LIMIT, curves: vec![curve], weight, gentle: false, mark: Mark::Drop })
}

fn pie(update_ns: u64, alpha: f64) -> Queue {
    Queue::Pie(PieQueue { limit: LIMIT, target_ns: 1, update_ns, alpha, beta: 1.0, mark: Mark::Drop })
}

#[test]
fn sound_parameters_pass() {
    let fq_codel = Queue::FqCodel(FqCodelQueue { limit: LIMIT, buckets: 1, quantum_bytes: 1, codel: CODEL });
    for queue in [red(CURVE, 1.0), pie(1, 0.0), fq_codel, Queue::Codel(CodelQueue { limit: LIMIT, codel: CODEL })] {
        assert_eq!(queue.validate("queue"), Ok(()));
    }
    assert_eq!(Loss::GilbertElliott { p: 0.0, r: 1.0, good: 0.0, bad: 1.0 }.validate("loss"), Ok(()));
    assert_eq!(Delay::Jitter { delay_ns: 0, jitter_ns: 1, normal: true, reorder: false }.validate("delay"), Ok(()));
}

#[test]
fn the_place_of_a_bad_parameter_is_named() {
    let no_codel = CodelParams { interval_ns: 0, ..CODEL };
    let sfq = |buckets, quantum_bytes, depth_packets| {
        Queue::Sfq(SfqQueue { limit: LIMIT, buckets, quantum_bytes, depth_packets, flows: 1, perturb_ns: 0 })
    };
    let fq_codel =
        |buckets, quantum_bytes| Queue::FqCodel(FqCodelQueue { limit: LIMIT, buckets, quantum_bytes, codel: CODEL });
    for (queue, place) in [
        (Queue::Droptail(DroptailQueue { limit: Limit { bytes: None, packets: None } }), "queue.limit"),
        (Queue::Droptail(DroptailQueue { limit: Limit { bytes: Some(0), packets: None } }), "queue.limit"),
        (Queue::Droptail(DroptailQueue { limit: Limit { bytes: Some(1), packets: Some(0) } }), "queue.limit"),
        (red(CURVE, 0.0), "queue.weight"),
        (red(CURVE, f64::NAN), "queue.weight"),
        (red(RedCurve { min_bytes: 2, ..CURVE }, 0.1), "queue.curves[0].max_bytes"),
        (red(RedCurve { max_p: 1.5, ..CURVE }, 0.1), "queue.curves[0].max_p"),
        (red(RedCurve { dscp_to: 64, ..CURVE }, 0.1), "queue.curves[0].dscp_to"),
        (Queue::Codel(CodelQueue { limit: LIMIT, codel: no_codel }), "queue.codel.interval_ns"),
        (fq_codel(0, 1), "queue.buckets"),
        (fq_codel(1, 0), "queue.quantum_bytes"),
        (sfq(0, 1, 1), "queue.buckets"),
        (sfq(1, 0, 1), "queue.quantum_bytes"),
        (sfq(1, 1, 0), "queue.depth_packets"),
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
