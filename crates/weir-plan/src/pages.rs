//! Verifies that transfers that wait for each other can begin.

use std::collections::BTreeMap;

use crate::validate::check;
use crate::{After, Flow, PlanError, Source, Transfer};

/// The users with transfers that wait for each other: for each, its connections as indices of flows.
pub(crate) fn users(flows: &[Flow]) -> Vec<Vec<usize>> {
    let waits = |flow: &&Flow| transfers(flow).iter().any(|transfer| !transfer.after.is_empty());
    let mut users: BTreeMap<(&str, u32), Vec<usize>> =
        flows.iter().filter(waits).map(|flow| ((flow.group.as_str(), flow.index), Vec::new())).collect();
    if users.is_empty() {
        return Vec::new();
    }
    for (number, flow) in flows.iter().enumerate() {
        if let Some(connections) = users.get_mut(&(flow.group.as_str(), flow.index)) {
            connections.push(number);
        }
    }
    users.into_values().collect()
}

/// Verifies that the transfers waited for exist, and that none waits for itself, directly or indirectly.
///
/// # Errors
/// The first contradiction found.
pub(crate) fn validate(flows: &[Flow]) -> Result<(), PlanError> {
    users(flows).into_iter().try_for_each(|connections| User { flows, connections }.validate())
}

fn transfers(flow: &Flow) -> &[Transfer] {
    match &flow.source {
        Source::Transfers { transfers, .. } => transfers,
        _ => &[],
    }
}

/// The connections of one user, as indices of flows.
struct User<'a> {
    flows: &'a [Flow],
    connections: Vec<usize>,
}

impl User<'_> {
    fn validate(&self) -> Result<(), PlanError> {
        let mut streams = BTreeMap::new();
        for (place, &number) in self.connections.iter().enumerate() {
            let Flow { name, stream, from, .. } = &self.flows[number];
            let at = |field: &str| format!("flows[{number}] ({name}).{field}");
            let first = &self.flows[self.connections[0]];
            check(*from == first.from, || at("from"), "connections of one user must begin at one node")?;
            let twice = streams.insert(*stream, place).is_some();
            check(!twice, || at("stream"), format!("a second connection {stream} of the same user"))?;
        }
        for (place, &number) in self.connections.iter().enumerate() {
            for (i, transfer) in transfers(&self.flows[number]).iter().enumerate() {
                for (j, after) in transfer.after.iter().enumerate() {
                    let name = &self.flows[number].name;
                    let at = || format!("flows[{number}] ({name}).source.transfers[{i}].after[{j}]");
                    self.validate_after(after, place, &streams).map_err(|problem| PlanError::new(at(), problem))?;
                }
            }
        }
        self.validate_order(&streams)
    }

    fn validate_after(&self, after: &After, place: usize, streams: &BTreeMap<u32, usize>) -> Result<(), String> {
        let After { stream, transfer } = after;
        let Some(&other) = streams.get(stream) else { return Err(format!("this user has no connection {stream}")) };
        if other == place {
            return Err("must be over another connection: transfers over one follow each other anyway".into());
        }
        let count = transfers(&self.flows[self.connections[other]]).len();
        if *transfer as usize >= count {
            return Err(format!("no transfer {transfer}: connection {stream} has {count}"));
        }
        Ok(())
    }

    /// Ends every transfer that may begin, until no more can: the remaining ones wait for themselves.
    fn validate_order(&self, streams: &BTreeMap<u32, usize>) -> Result<(), PlanError> {
        let lists: Vec<&[Transfer]> = self.connections.iter().map(|&number| transfers(&self.flows[number])).collect();
        let mut ended = vec![0; lists.len()];
        // The transfers that wait for a transfer of another connection; each is examined again only when that has
        // ended.
        let mut waiting: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        let mut ready: Vec<usize> = (0..lists.len()).collect();
        while let Some(place) = ready.pop() {
            while let Some(next) = lists[place].get(ended[place]) {
                let open = next.after.iter().map(|after| (streams[&after.stream], after.transfer as usize));
                if let Some(open) = open.into_iter().find(|&(other, transfer)| ended[other] <= transfer) {
                    waiting.entry(open).or_default().push(place);
                    break;
                }
                ready.extend(waiting.remove(&(place, ended[place])).unwrap_or_default());
                ended[place] += 1;
            }
        }
        let Some(stuck) = (0..lists.len()).find(|&place| ended[place] < lists[place].len()) else { return Ok(()) };
        let (number, transfer) = (self.connections[stuck], ended[stuck]);
        let place = format!("flows[{number}] ({}).source.transfers[{transfer}].after", self.flows[number].name);
        Err(PlanError::new(place, "waits for what waits for it: none of them can begin"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A connection of user `web[0]` with these transfers; each is its dependencies, as pairs of connection and number.
    fn connection(stream: u32, transfers: &[&[(u32, u32)]]) -> Flow {
        let list: Vec<Value> = transfers
            .iter()
            .map(|after| {
                let after: Vec<Value> = after.iter().map(|(s, t)| json!({"stream": s, "transfer": t})).collect();
                json!({"wait_ns": 0, "bytes": 1, "page": 0, "after": after})
            })
            .collect();
        let flow = json!({
            "name": format!("web[0].{stream}"), "group": "web", "index": 0, "stream": stream, "role": "test", "from": 0,
            "to": 1, "path": [0], "reverse_path": [1], "start_ns": 0, "stop_ns": null,
            "source": {"kind": "transfers", "keep_connection": true, "transfers": list},
            "transport": {"protocol": "udp", "payload_bytes": 1}
        });
        serde_json::from_value(flow).expect("a flow")
    }

    fn refusal(flows: &[Flow]) -> String {
        validate(flows).expect_err("it is refused").to_string()
    }

    #[test]
    fn a_page_after_the_other_is_sound() {
        // Document, two objects, and a second document after both.
        let flows = [connection(0, &[&[], &[], &[(1, 0)]]), connection(1, &[&[(0, 0)]])];
        assert_eq!(validate(&flows), Ok(()));
    }

    #[test]
    fn what_is_waited_for_exists_at_the_same_user() {
        let text = refusal(&[connection(0, &[&[]]), connection(1, &[&[(2, 0)]])]);
        assert_eq!(text, "flows[1] (web[0].1).source.transfers[0].after[0]: this user has no connection 2");
        let text = refusal(&[connection(0, &[&[]]), connection(1, &[&[(0, 1)]])]);
        assert_eq!(text, "flows[1] (web[0].1).source.transfers[0].after[0]: no transfer 1: connection 0 has 1");
        let text = refusal(&[connection(0, &[&[], &[(0, 0)]])]);
        assert!(text.contains("transfers[1].after[0]: must be over another connection"), "{text}");
        let other = Flow { index: 1, ..connection(0, &[&[]]) };
        let text = refusal(&[other, connection(1, &[&[(0, 0)]])]);
        assert!(text.ends_with("this user has no connection 0"), "{text}");
    }

    #[test]
    fn connections_of_a_user_are_told_apart_and_begin_at_one_node() {
        let text = refusal(&[connection(0, &[&[]]), connection(1, &[&[(0, 0)]]), connection(1, &[&[]])]);
        assert_eq!(text, "flows[2] (web[0].1).stream: a second connection 1 of the same user");
        let elsewhere = Flow { from: 5, ..connection(1, &[&[(0, 0)]]) };
        let text = refusal(&[connection(0, &[&[]]), elsewhere]);
        assert_eq!(text, "flows[1] (web[0].1).from: connections of one user must begin at one node");
    }

    #[test]
    fn nothing_waits_for_itself() {
        let text = refusal(&[connection(0, &[&[(1, 0)]]), connection(1, &[&[(0, 0)]])]);
        assert!(text.ends_with("after: waits for what waits for it: none of them can begin"), "{text}");
        // Through the order within a connection: 0/1 waits for 1/1, which follows 1/0, which waits for 0/2.
        let flows = [connection(0, &[&[], &[(1, 1)], &[]]), connection(1, &[&[(0, 2)], &[]])];
        assert_eq!(
            refusal(&flows),
            "flows[0] (web[0].0).source.transfers[1].after: waits for what waits for it: none of them can begin"
        );
    }

    #[test]
    fn flows_that_wait_for_nobody_are_of_no_user() {
        let flows = [connection(0, &[&[], &[]]), connection(0, &[&[]])];
        assert!(users(&flows).is_empty());
        assert_eq!(validate(&flows), Ok(()), "their streams are nobody's business");
    }

    #[test]
    fn a_transfer_without_page_is_written_as_before_there_were_any() {
        let old = Transfer { wait_ns: 3, bytes: 5, ..Transfer::default() };
        assert_eq!(serde_json::to_string(&old).expect("JSON"), r#"{"wait_ns":3,"bytes":5}"#);
        let new = Transfer { page: Some(1), after: vec![After { stream: 2, transfer: 4 }], ..old };
        let text = r#"{"wait_ns":3,"bytes":5,"page":1,"after":[{"stream":2,"transfer":4}]}"#;
        assert_eq!(serde_json::to_string(&new).expect("JSON"), text);
        assert_eq!(serde_json::from_str::<Transfer>(text).expect("a transfer"), new);
    }
}
