//! The capacity of a flow's path.

use weir_plan::{ChangeKind, Plan};

const NS_PER_S: u128 = 1_000_000_000;

/// Maximum bytes in the path of a flow: the bottleneck's bytes of one round trip, and its queues, at the highest rates
/// and longest delays of the plan. Excludes the host's own queue, which a sender keeps short, and queues that only a slower
/// link fills.
pub fn capacity_bytes(plan: &Plan, flow: u32) -> u64 {
    let round_trip_ns = round_trip_ns(plan, flow);
    let flow = &plan.flows[flow as usize];
    let rate_bps = flow.path.iter().map(|&link| highest_rate(plan, link)).min().unwrap_or(0);
    let in_flight = u128::from(rate_bps) * u128::from(round_trip_ns) / 8 / NS_PER_S;
    let links = flow.path.iter().filter(|&&link| !plan.links[link as usize].host_nic && !stays_empty(plan, link));
    let queued = links
        .map(|&link| &plan.links[link as usize])
        .map(|link| link.queue.limit().max_bytes(link.mtu_bytes.into()).unwrap_or(u64::MAX))
        .fold(0, u64::saturating_add);
    u64::try_from(in_flight).unwrap_or(u64::MAX).saturating_add(queued)
}

/// Whether all that enters a link comes from a single one that is never faster.
fn stays_empty(plan: &Plan, link: u32) -> bool {
    let mut feeders = plan.flows.iter().flat_map(|flow| [&flow.path, &flow.reverse_path]).filter_map(|path| {
        let place = path.iter().position(|&one| one == link)?;
        Some(place.checked_sub(1).map(|before| path[before]))
    });
    let Some(Some(feeder)) = feeders.next() else { return false };
    feeders.all(|other| other == Some(feeder)) && highest_rate(plan, feeder) <= lowest_rate(plan, link)
}

/// The round-trip time of a flow's path without queues, at the longest delays of the plan.
pub fn round_trip_ns(plan: &Plan, flow: u32) -> u64 {
    let flow = &plan.flows[flow as usize];
    flow.path.iter().chain(&flow.reverse_path).map(|&link| longest_delay(plan, link)).fold(0, u64::saturating_add)
}

fn highest_rate(plan: &Plan, link: u32) -> u64 {
    rates(plan, link).fold(0, u64::max)
}

fn lowest_rate(plan: &Plan, link: u32) -> u64 {
    rates(plan, link).fold(u64::MAX, u64::min)
}

/// The rates that a link has in the course of the plan.
fn rates(plan: &Plan, link: u32) -> impl Iterator<Item = u64> {
    let changed = plan.changes.iter().filter(move |change| change.link == link);
    let changed = changed.filter_map(|change| match change.change {
        ChangeKind::Rate { rate_bps } => Some(rate_bps),
        ChangeKind::Delay { .. }
        | ChangeKind::Loss { .. }
        | ChangeKind::Shares { .. }
        | ChangeKind::TokenRates { .. } => None,
    });
    changed.chain([plan.links[link as usize].rate_bps])
}

fn longest_delay(plan: &Plan, link: u32) -> u64 {
    let changed = plan.changes.iter().filter(|change| change.link == link).filter_map(|change| match &change.change {
        ChangeKind::Delay { delay } => Some(delay.max_ns()),
        ChangeKind::Rate { .. }
        | ChangeKind::Loss { .. }
        | ChangeKind::Shares { .. }
        | ChangeKind::TokenRates { .. } => None,
    });
    changed.fold(plan.links[link as usize].delay.max_ns(), u64::max)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn plan(edit: impl FnOnce(&mut Value)) -> Plan {
        let link = |name: &str, from: u32, to: u32, rate: u64| {
            json!({
                "name": name, "from": from, "to": to, "rate_bps": rate, "mtu_bytes": 1500, "overhead_bytes": 38,
                "delay": {"kind": "fixed", "delay_ns": 5_000_000},
                "queue": {"kind": "droptail", "limit": {"bytes": 100_000, "packets": 50}},
            })
        };
        let mut plan = json!({
            "version": 1, "title": "test", "seed": 1, "end_ns": 1,
            "nodes": [{"name": "a", "kind": "host"}, {"name": "r", "kind": "router"}, {"name": "b", "kind": "host"}],
            "links": [link("ar", 0, 1, 1_000_000_000), link("rb", 1, 2, 100_000_000), link("ba", 2, 0, 1_000)],
            "flows": [{
                "name": "f", "group": "f", "index": 0, "stream": 0, "role": "test", "from": 0, "to": 2, "path": [0, 1],
                "reverse_path": [2], "start_ns": 0, "stop_ns": null, "transport": {"protocol": "udp", "payload_bytes": 1},
                "source": {"kind": "cbr", "rate_bps": 1},
            }],
            "measure": {"goodput_ns": 0, "tcp_ns": 0, "links_ns": 0},
        });
        edit(&mut plan);
        Plan::from_json(&plan.to_string()).expect("a plan")
    }

    #[test]
    fn a_path_holds_a_round_trip_of_its_bottleneck_and_its_queues() {
        // 100 Mb/s for 15 ms, and twice fifty packets.
        assert_eq!(capacity_bytes(&plan(|_| ()), 0), 187_500 + 2 * 75_000);
        let host = plan(|plan| plan["links"][0]["host_nic"] = json!(true));
        assert_eq!(capacity_bytes(&host, 0), 187_500 + 75_000);
    }

    #[test]
    fn a_queue_that_only_a_slower_link_fills_stays_empty() {
        let longer = |rate: u64, both: bool| {
            plan(|plan| {
                plan["nodes"].as_array_mut().expect("nodes").push(json!({"name": "s", "kind": "router"}));
                plan["links"][1]["to"] = json!(3);
                let mut last = plan["links"][1].clone();
                (last["name"], last["from"], last["to"]) = (json!("sb"), json!(3), json!(2));
                last["rate_bps"] = json!(rate);
                plan["links"].as_array_mut().expect("links").push(last);
                plan["flows"][0]["path"] = json!([0, 1, 3]);
                if both {
                    let mut other = plan["flows"][0].clone();
                    (other["name"], other["path"], other["from"]) = (json!("g"), json!([3]), json!(3));
                    plan["nodes"][3]["kind"] = json!("host");
                    plan["flows"].as_array_mut().expect("flows").push(other);
                }
            })
        };
        let round_trip = 100_000_000 / 8 * 20 / 1000;
        assert_eq!(capacity_bytes(&longer(100_000_000, false), 0), round_trip + 2 * 75_000);
        assert_eq!(capacity_bytes(&longer(100_000_000, true), 0), round_trip + 3 * 75_000);
        assert_eq!(capacity_bytes(&longer(50_000_000, false), 0), round_trip / 2 + 3 * 75_000);
    }

    #[test]
    fn changes_count_at_their_most() {
        let changed = plan(|plan| {
            plan["changes"] = json!([
                {"at_ns": 1, "link": 1, "change": {"kind": "rate", "rate_bps": 200_000_000}},
                {"at_ns": 2, "link": 1, "change": {"kind": "rate", "rate_bps": 0}},
                {"at_ns": 3, "link": 2, "change": {"kind": "delay", "delay": {"kind": "fixed", "delay_ns": 30_000_000}}},
            ]);
        });
        assert_eq!(capacity_bytes(&changed, 0), 200_000_000 / 8 * 40 / 1000 + 150_000);
    }
}
