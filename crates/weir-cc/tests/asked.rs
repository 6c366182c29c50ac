//! A congestion control that is asked from time to time.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use weir_cc::{ASKED, CaState, DECIDER, Decider, Decision, Instance, RateSample, Registration, Report, caught, find};

/// Answers with the given decisions in turn, then with the last; keeps the reports.
struct Script {
    decisions: Vec<Result<Decision, String>>,
    reports: Mutex<Vec<Report>>,
}

impl Decider for Script {
    fn decide(&self, report: &Report) -> Result<Decision, String> {
        let mut reports = self.reports.lock().unwrap();
        reports.push(*report);
        self.decisions[(reports.len() - 1).min(self.decisions.len() - 1)].clone()
    }
}

/// A connection with a packet size of 1000 bytes, whose clock is at one second.
struct Connection {
    cc: Instance,
    script: Arc<Script>,
    _registration: Registration,
}

fn window(packets: u32) -> Decision {
    Decision { window_packets: Some(packets), ..Decision::default() }
}

impl Connection {
    fn new(decisions: Vec<Result<Decision, String>>) -> Connection {
        let script = Arc::new(Script { decisions, reports: Mutex::default() });
        let registration = Registration::new("a script", Arc::clone(&script) as Arc<dyn Decider>);
        let options = BTreeMap::from([(DECIDER.to_owned(), i64::from(registration.number()))]);
        let mut cc = Instance::new(&find(ASKED).unwrap(), &options).unwrap();
        cc.sock.mss_cache = 1000;
        cc.sock.tcp_mstamp_us = 1_000_000;
        cc.sock.srtt_us = 100_000 << 3;
        cc.sock.rtt_min_us = 100_000;
        Connection { cc, script, _registration: registration }
    }

    fn open(decisions: Vec<Result<Decision, String>>) -> Connection {
        let mut connection = Connection::new(decisions);
        connection.cc.init();
        connection
    }

    fn send(&mut self, packets: u32) {
        self.cc.sock.packets_out += packets;
        self.cc.sock.snd_nxt += 1000 * packets;
    }

    /// An acknowledgement of so many packets after a round-trip time.
    fn ack(&mut self, packets: u32, after_us: u64) {
        let sock = &mut self.cc.sock;
        sock.tcp_mstamp_us += after_us;
        sock.packets_out -= packets;
        sock.snd_una += 1000 * packets;
        sock.delivered += packets;
        let sample = RateSample { rtt_us: 100_000, acked_sacked: packets, ..RateSample::default() };
        self.cc.cong_control(0, 0, &sample);
    }

    fn reports(&self) -> Vec<Report> {
        self.script.reports.lock().unwrap().clone()
    }

    fn last(&self) -> Report {
        *self.reports().last().unwrap()
    }
}

#[test]
fn it_is_asked_at_first_and_at_the_end_of_each_round_trip() {
    let mut flow = Connection::open(vec![Ok(window(4)), Ok(window(8))]);
    assert!(flow.last().first && flow.last().acked_packets == 0);
    assert_eq!(flow.cc.sock.snd_cwnd, 4);
    flow.send(4);
    flow.ack(1, 100_000);
    assert_eq!(flow.reports().len(), 2, "the first packet of the round is acknowledged");
    assert_eq!(flow.cc.sock.snd_cwnd, 8);
    flow.send(5);
    for _ in 0..3 {
        flow.ack(1, 10_000);
    }
    assert_eq!(flow.reports().len(), 2, "these were sent before the last decision");
    flow.ack(1, 70_000);
    let report = flow.last();
    assert_eq!(flow.reports().len(), 3);
    assert_eq!((report.acked_packets, report.sent_packets, report.interval_us), (4, 5, 100_000));
    assert_eq!((report.rtt_us, report.rtt_mean_us, report.srtt_us), (Some(100_000), Some(100_000), Some(100_000)));
    assert_eq!(report.delivery_bps(), 4 * 8000 * 10);
    assert_eq!(report.send_bps(), 5 * 8000 * 10);
    assert_eq!((report.in_flight_packets, report.window_packets), (4, 8));
}

#[test]
fn an_interval_takes_the_place_of_the_round_trip() {
    let mut flow = Connection::open(vec![Ok(Decision { after_us: Some(25_000), ..window(9) })]);
    flow.send(9);
    flow.ack(1, 24_999);
    assert_eq!(flow.reports().len(), 1);
    flow.ack(1, 1);
    assert_eq!(flow.reports().len(), 2);
    flow.ack(1, 30_000);
    assert_eq!(flow.reports().len(), 3);
    assert_eq!(flow.last().interval_us, 30_000);
}

#[test]
fn the_window_stays_between_decisions_whatever_is_lost_or_marked() {
    let mut flow = Connection::open(vec![Ok(window(10)), Ok(Decision::default())]);
    flow.send(10);
    flow.ack(1, 100_000);
    flow.send(1);
    flow.cc.sock.lost += 2;
    flow.cc.sock.lost_out += 2;
    flow.cc.sock.delivered_ce += 1;
    assert_eq!(flow.cc.ssthresh(), 10);
    flow.cc.set_state(CaState::Recovery);
    flow.ack(1, 10_000);
    assert_eq!((flow.cc.sock.snd_cwnd, flow.cc.sock.snd_ssthresh, flow.cc.undo_cwnd()), (10, 10, 10));
    flow.cc.sock.lost_out = 0;
    flow.ack(8, 10_000);
    flow.ack(1, 90_000);
    let report = flow.last();
    assert_eq!((report.lost_packets, report.marked_packets, report.timeouts), (2, 1, 0));
    // Ten were acknowledged, two lost, none is in flight, nine were at the beginning.
    assert_eq!((report.acked_packets, report.sent_packets), (10, 3));
    assert_eq!(flow.cc.sock.snd_cwnd, 10);
}

#[test]
fn after_a_timeout_it_is_asked_at_once_and_the_window_grows_back_without_an_answer() {
    let mut flow = Connection::open(vec![Ok(window(10)), Ok(Decision::default())]);
    flow.send(10);
    flow.cc.set_state(CaState::Loss);
    flow.cc.sock.snd_cwnd = 1;
    flow.ack(1, 300_000);
    assert_eq!((flow.last().timeouts, flow.cc.sock.snd_cwnd), (1, 2));
    flow.ack(4, 10_000);
    assert_eq!(flow.cc.sock.snd_cwnd, 6);
    flow.ack(5, 10_000);
    assert_eq!(flow.cc.sock.snd_cwnd, 10);
    let mut flow = Connection::open(vec![Ok(window(10)), Ok(window(7))]);
    flow.send(10);
    flow.cc.set_state(CaState::Loss);
    flow.cc.sock.snd_cwnd = 1;
    flow.ack(1, 300_000);
    assert_eq!(flow.cc.sock.snd_cwnd, 7, "an answer holds at once");
}

#[test]
fn a_rate_paces_and_gets_a_window_that_leaves_it_room() {
    let rate = |bytes| Decision { pacing_bytes_per_s: Some(bytes), ..Decision::default() };
    let flow = Connection::open(vec![Ok(rate(1_000_000))]);
    assert_eq!((flow.cc.sock.pacing_rate, flow.cc.sock.pacing_status), (1_000_000, 1));
    assert_eq!(flow.cc.sock.snd_cwnd, 200, "twice 1 MB/s times 100 ms, in packets of 1000 bytes");
    let flow = Connection::open(vec![Ok(Decision { window_packets: Some(30), ..rate(1_000_000) })]);
    assert_eq!(flow.cc.sock.snd_cwnd, 30);
    let flow = Connection::open(vec![Ok(rate(1))]);
    assert_eq!(flow.cc.sock.snd_cwnd, 4);
    let flow = Connection::open(vec![Ok(window(10))]);
    assert_eq!((flow.cc.sock.pacing_rate, flow.cc.sock.pacing_status), (120_000, 0), "Linux' 120 % of a window");
}

#[test]
fn a_failure_ends_the_work_with_its_reason() {
    let mut flow = Connection::open(vec![Ok(window(10)), Err("went away".to_owned())]);
    flow.send(10);
    let fault = caught(|| flow.ack(1, 100_000)).unwrap_err();
    assert_eq!(fault.what, "went away");
    let again = caught(|| flow.cc.undo_cwnd());
    assert_eq!(again, Ok(10), "the reason is told once");
    let mut lost = Connection::new(vec![Ok(window(10))]);
    lost._registration = Registration::new("another", Arc::clone(&lost.script) as Arc<dyn Decider>);
    assert!(caught(|| lost.cc.init()).unwrap_err().what.contains("no decider"));
}

#[test]
fn no_list_has_it() {
    assert!(weir_cc::list().iter().all(|one| one.name() != ASKED));
}
