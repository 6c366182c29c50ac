//! Prints how fast a dumbbell is simulated: `speed [flows] [access Gb/s] [bottleneck Gb/s] [RTT ms] [s] [cc] [mss]`.

#![allow(clippy::disallowed_methods, reason = "it measures wall time")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;

use common::{MS, S, add_flow, droptail, dumbbell, tcp};
use weir_plan::Source;
use weir_sim::Simulation;
use weir_units::Time;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let get = |i: usize, default: u64| args.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    let (flows, access, bottleneck) = (get(1, 12), get(2, 1) * S, get(3, 10) * S);
    let (rtt, seconds, mss) = (get(4, 20) * MS, get(5, 20), get(7, 1448) as u32);
    let cc = args.get(6).map_or("reno", String::as_str);
    let queue = droptail(Some(bottleneck / 8 * rtt / S), None);
    let mut plan = dumbbell(flows as u32, access, bottleneck, rtt, queue, seconds * S);
    for i in 0..flows {
        let mut settings = tcp(cc);
        settings.mss_bytes = mss;
        add_flow(&mut plan, i as u32, i * 10 * MS, settings, Source::Bulk);
    }
    let mut simulation = Simulation::new(&plan).expect("the plan is sound");
    let begin = Instant::now();
    let (mut at, mut rows) = (0, 0);
    while !simulation.advance(Time(at)) {
        at += S;
        let tables = simulation.drain();
        rows += tables.samples.rows() + tables.links.rows();
        if std::env::var_os("SHOW").is_some() {
            let last = tables.samples.rows().saturating_sub(1);
            if last > 0 {
                println!(
                    "{at} cwnd {} srtt {} inflight {} retrans {} to {} link out {} drop {} q {}",
                    tables.samples.cwnd[last],
                    tables.samples.srtt_ns[last],
                    tables.samples.in_flight[last],
                    tables.samples.retransmitted_packets[last],
                    tables.samples.timeouts[last],
                    tables.links.out_bytes.iter().sum::<u64>() * 8 / 1_000_000,
                    tables.links.drop_packets.iter().sum::<u64>(),
                    tables.links.queue_bytes.last().unwrap()
                );
            }
        }
    }
    let wall = begin.elapsed().as_secs_f64();
    let statistics = simulation.statistics();
    let gbit = statistics.delivered_bytes as f64 * 8.0 / 1e9;
    println!(
        "{gbit:.1} Gbit in {wall:.2} s: {:.1} Gbit/s wall, real-time factor {:.2}, {:.2} M packets/s, {:.2} M events/s, {rows} rows",
        gbit / wall,
        seconds as f64 / wall,
        statistics.packets as f64 / wall / 1e6,
        statistics.events as f64 / wall / 1e6,
    );
}
