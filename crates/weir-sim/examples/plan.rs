//! Runs a plan, prints how fast it was and the checksum of its tables: `plan FILE [reference|ahead|in-order|time|NUMBER]`,
//! the number that of the events of a window; with `time`, there is no checksum. The time is that of the simulation, without
//! the checksum, and the tables are not written.

#![allow(clippy::disallowed_methods, reason = "it measures wall time")]

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::{Duration, Instant};

use weir_plan::Plan;
use weir_sim::{Options, Simulation};
use weir_units::Time;

fn main() {
    weir_sys::memory::keep_freed();
    let args: Vec<String> = std::env::args().collect();
    let text = std::fs::read_to_string(&args[1]).expect("a file with a plan");
    let plan: Plan = serde_json::from_str(&text).expect("a plan");
    let mode = args.get(2).map_or("", String::as_str);
    let window_events = mode.parse().ok();
    let lookahead = match mode {
        "ahead" => Some(true),
        "in-order" | "reference" => Some(false),
        _ => None,
    };
    let options = Options { reference: mode == "reference", lookahead, window_events };
    let begin = Instant::now();
    let mut simulation = Simulation::with_options(&plan, options).expect("the plan can be simulated");
    let built = begin.elapsed().as_secs_f64();
    let (mut hasher, mut at, mut wall) = (DefaultHasher::new(), 0, Duration::ZERO);
    loop {
        at += plan.end_ns.div_ceil(400);
        let begin = Instant::now();
        let ended = simulation.advance(Time(at));
        let tables = simulation.drain();
        wall += begin.elapsed();
        if mode != "time" {
            format!("{tables:?}").hash(&mut hasher);
        }
        if ended {
            break;
        }
    }
    let (wall, done) = (built + wall.as_secs_f64(), simulation.statistics());
    let gbit = done.delivered_bytes as f64 * 8.0 / 1e9;
    println!(
        "{gbit:.1} Gbit in {wall:.2} s ({:.1} ms to build): {:.1} Gbit/s, {} packets, {} events; tables {:016x}",
        built * 1e3,
        gbit / wall,
        done.packets,
        done.events,
        hasher.finish(),
    );
}
