//! Dependencies of transfers over several connections of one user: objects of a page wait for its document, the next
//! page waits for all of them.

use weir_plan::{After, Plan};
use weir_units::Time;

/// Whether the dependencies of a transfer permit it to begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Release {
    /// All its dependencies have ended, the last at this instant.
    At(Time),
    /// Not yet.
    Later,
    /// A connection ended without a transfer that it waits for.
    Never,
}

/// The progress of all users' connections.
///
/// The driver reports when a transfer [ended](Waits::ended) and when a flow [is over](Waits::over), and then asks again
/// for each of the user's waiting [others](Waits::others).
#[derive(Clone, Debug, Default)]
pub struct Waits {
    users: Vec<Vec<Connection>>,
    /// Per flow its user and its index there; none for a flow without dependencies in either direction.
    places: Vec<Option<(u32, u32)>>,
}

#[derive(Clone, Debug)]
struct Connection {
    flow: u32,
    stream: u32,
    /// Time at which each of its transfers ended.
    ends: Vec<Time>,
    over: bool,
}

impl Waits {
    /// The dependencies of the transfers of a plan.
    pub fn new(plan: &Plan) -> Waits {
        let users = plan.users();
        let mut places = vec![None; if users.is_empty() { 0 } else { plan.flows.len() }];
        for (user, flows) in users.iter().enumerate() {
            for (place, &flow) in flows.iter().enumerate() {
                places[flow] = Some((user as u32, place as u32));
            }
        }
        let connection = |&flow: &usize| Connection {
            flow: flow as u32,
            stream: plan.flows[flow].stream,
            ends: Vec::new(),
            over: false,
        };
        Waits { users: users.iter().map(|flows| flows.iter().map(connection).collect()).collect(), places }
    }

    /// The next transfer of a flow has ended.
    pub fn ended(&mut self, flow: u32, at: Time) {
        if let Some(connection) = self.connection(flow) {
            connection.ends.push(at);
        }
    }

    /// No further transfer of a flow will end.
    pub fn over(&mut self, flow: u32) {
        if let Some(connection) = self.connection(flow) {
            connection.over = true;
        }
    }

    /// Time at which a transfer of `flow` with dependencies `after` may begin.
    pub fn release(&self, flow: u32, after: &[After]) -> Release {
        let Some((user, _)) = self.place(flow) else { return Release::At(Time::ZERO) };
        let mut last = Time::ZERO;
        for After { stream, transfer } in after {
            let Some(other) = self.users[user].iter().find(|other| other.stream == *stream) else {
                return Release::Never;
            };
            match other.ends.get(*transfer as usize) {
                Some(&end) => last = last.max(end),
                None if other.over => return Release::Never,
                None => return Release::Later,
            }
        }
        Release::At(last)
    }

    /// The other connections of the user of `flow`, in the order of the plan.
    pub fn others(&self, flow: u32) -> Vec<u32> {
        let connections = self.place(flow).map_or(&[] as &[Connection], |(user, _)| &self.users[user]);
        connections.iter().map(|other| other.flow).filter(|&other| other != flow).collect()
    }

    fn place(&self, flow: u32) -> Option<(usize, usize)> {
        let (user, place) = (*self.places.get(flow as usize)?)?;
        Some((user as usize, place as usize))
    }

    fn connection(&mut self, flow: u32) -> Option<&mut Connection> {
        let (user, place) = self.place(flow)?;
        Some(&mut self.users[user][place])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weir_plan::Flow;

    use super::*;

    /// Two connections of one user, and a single flow.
    fn plan() -> Plan {
        let flow = |name: &str, stream: u32, after: serde_json::Value| -> Flow {
            serde_json::from_value(json!({
                "name": name, "group": name, "index": 0, "stream": stream, "role": "test", "from": 0, "to": 1,
                "path": [0], "reverse_path": [1], "start_ns": 0, "stop_ns": null,
                "source": {"kind": "transfers", "keep_connection": true, "transfers": [
                    {"wait_ns": 0, "bytes": 1}, {"wait_ns": 5, "bytes": 1, "after": after}
                ]},
                "transport": {"protocol": "udp", "payload_bytes": 1}
            }))
            .expect("a flow")
        };
        let flows = [
            flow("web", 0, json!([{"stream": 1, "transfer": 1}])),
            flow("alone", 0, json!([])),
            flow("web", 1, json!([{"stream": 0, "transfer": 0}])),
        ];
        serde_json::from_value(json!({
            "version": 1, "title": "", "seed": 1, "end_ns": 1, "nodes": [], "links": [], "flows": flows,
            "measure": {"goodput_ns": 0, "tcp_ns": 0, "links_ns": 0}
        }))
        .expect("a plan")
    }

    #[test]
    fn a_transfer_waits_until_all_others_have_ended() {
        let mut waits = Waits::new(&plan());
        let after = [After { stream: 0, transfer: 0 }, After { stream: 1, transfer: 1 }];
        assert_eq!(waits.release(2, &after), Release::Later);
        waits.ended(0, Time(9));
        waits.ended(2, Time(4));
        assert_eq!(waits.release(2, &after), Release::Later);
        assert_eq!(waits.release(2, &after[..1]), Release::At(Time(9)));
        waits.ended(2, Time(7));
        assert_eq!(waits.release(2, &after), Release::At(Time(9)), "the last of them");
        assert_eq!(waits.others(0), [2]);
    }

    #[test]
    fn what_will_never_end_is_waited_for_no_longer() {
        let mut waits = Waits::new(&plan());
        let after = [After { stream: 0, transfer: 1 }];
        waits.ended(0, Time(1));
        assert_eq!(waits.release(2, &after), Release::Later);
        waits.over(0);
        assert_eq!(waits.release(2, &after), Release::Never);
        assert_eq!(
            waits.release(2, &[After { stream: 0, transfer: 0 }]),
            Release::At(Time(1)),
            "that has ended before"
        );
    }

    #[test]
    fn a_flow_alone_waits_for_nobody() {
        let mut waits = Waits::new(&plan());
        waits.ended(1, Time(3));
        assert_eq!(waits.release(1, &[]), Release::At(Time::ZERO));
        assert!(waits.others(1).is_empty());
        assert_eq!(Waits::default().release(7, &[]), Release::At(Time::ZERO));
    }
}
