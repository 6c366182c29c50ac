//! Hosts in network namespaces of their own; needs root.

use std::process::{Command, Stdio};

use serde_json::json;

use crate::harness::*;

/// A network namespace, removed when dropped.
struct Namespace(String);

impl Namespace {
    fn new(name: &str) -> Option<Namespace> {
        let namespace = Namespace(format!("weir-agent-test-{}-{name}", std::process::id()));
        let made = ip(&["netns", "add", &namespace.0]) && ip(&["-n", &namespace.0, "link", "set", "lo", "up"]);
        made.then_some(namespace)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.0]);
    }
}

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Two namespaces with a veth pair between them.
fn two_hosts() -> Option<(Namespace, Namespace)> {
    let (a, b) = (Namespace::new("a")?, Namespace::new("b")?);
    let pair = ["link", "add", "veth0", "netns", &a.0, "type", "veth", "peer", "name", "veth0", "netns", &b.0];
    if !ip(&pair) {
        return None;
    }
    let addressed = [(&a, "10.213.9.1/24"), (&b, "10.213.9.2/24")].into_iter().all(|(host, address)| {
        ip(&["-n", &host.0, "addr", "add", address, "dev", "veth0"])
            && ip(&["-n", &host.0, "link", "set", "veth0", "up"])
    });
    addressed.then_some((a, b))
}

#[test]
fn each_socket_is_opened_in_the_namespace_of_its_host() {
    let Some((a, b)) = two_hosts() else {
        eprintln!("skipped: making network namespaces needs root and iproute2");
        return;
    };
    let cbr = json!({"kind": "cbr", "rate_bps": 1_000_000});
    let mut back = flow(1, tcp(), transfers(&[(0, 200_000), (0, 300_000)], false));
    (back["from"], back["to"], back["path"], back["reverse_path"]) = (json!(1), json!(0), json!([1]), json!([0]));
    let mut job = job(900, &[flow(0, tcp(), transfers(&[(0, 400_000)], false)), back, flow(2, udp(500), cbr)]);
    job["hosts"] = json!([
        {"node": 0, "address": "10.213.9.1", "netns": format!("/run/netns/{}", a.0)},
        {"node": 1, "address": "10.213.9.2", "netns": format!("/run/netns/{}", b.0)},
    ]);
    let report = run_in_one(&job);
    assert_eq!(report.delivered(0, 0), 400_000);
    assert_eq!((report.delivered(1, 0), report.delivered(1, 1)), (200_000, 300_000));
    assert!(report.delivered(2, 0) > 0);
}
