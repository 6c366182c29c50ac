//! Beginnings without slow start: Jump Start and Quick-Start.

use weir_plan::{Limit, Plan, Queue, QuickstartQueue, Source, Tcp};
use weir_sim::{Options, Simulation, Tables};

use crate::common::{MS, S, add_flow, cbr, droptail, dumbbell, events, run, run_with, tcp, transfers};
use crate::determinism::assert_same;

const MBIT: u64 = 1_000_000;
const MEGABYTE: u64 = 1_000_000;

fn quickstart() -> Queue {
    let limit = Limit { bytes: None, packets: Some(1000) };
    Queue::Quickstart(QuickstartQueue { limit, share: 0.9, window_ns: 500 * MS })
}

fn jump() -> Tcp {
    Tcp { jump_start: true, ..tcp("cubic") }
}

/// Asks for 81.92 Mb/s, the greatest rate of Quick-Start below 90 Mb/s.
fn quick() -> Tcp {
    Tcp { quick_start_bps: 90 * MBIT, ..tcp("cubic") }
}

/// One transfer of a megabyte over 100 Mb/s and 100 ms, whose links, that of the host too, have this queue.
fn transfer(tcp: Tcp, queue: &Queue) -> Plan {
    let mut plan = dumbbell(1, 1000 * MBIT, 100 * MBIT, 100 * MS, queue.clone(), 20 * S);
    plan.links[2].queue = queue.clone();
    plan.links[3].queue = queue.clone();
    add_flow(&mut plan, 0, 0, tcp, transfers(&[(0, MEGABYTE)], false));
    plan
}

/// Duration of the first transfer of a flow, seconds.
fn duration(tables: &Tables, flow: u32) -> f64 {
    let (begun, ended) = (events(tables, "transfer_start", flow), events(tables, "transfer_end", flow));
    (ended.first().expect("the transfer ends").0 - begun[0].0) as f64 / 1e9
}

fn retransmitted(tables: &Tables) -> u64 {
    tables.flows.retransmitted_packets.iter().copied().sum()
}

/// Slow start from ten segments takes six round trips and more for 691 segments; Jump Start takes one for the handshake, one
/// for the data and one until the last acknowledgement.
#[test]
fn jump_start_takes_three_round_trips_where_slow_start_takes_seven() {
    let slow = run(&transfer(tcp("cubic"), &droptail(None, Some(1000))));
    let jumped = run(&transfer(jump(), &droptail(None, Some(1000))));
    assert!(duration(&slow, 0) > 0.65, "{}", duration(&slow, 0));
    assert!((0.29..0.31).contains(&duration(&jumped, 0)), "{}", duration(&jumped, 0));
    assert_eq!(retransmitted(&jumped), 0);
}

/// Quick-Start sends 988 kB in the first round trip, nearly all of the megabyte.
#[test]
fn quick_start_takes_about_as_long_as_jump_start_if_the_routers_approve() {
    let quick = run(&transfer(quick(), &quickstart()));
    assert!((0.29..0.33).contains(&duration(&quick, 0)), "{}", duration(&quick, 0));
    assert_eq!(retransmitted(&quick), 0);
}

/// A queue of 20 packets at a tenth of the rate: most of what Jump Start sends is lost, and arrives later.
#[test]
fn jump_start_ends_where_it_loses_most_of_its_first_window() {
    for cc in ["reno", "cubic"] {
        let mut plan = dumbbell(1, 1000 * MBIT, 10 * MBIT, 100 * MS, droptail(None, Some(20)), 60 * S);
        add_flow(&mut plan, 0, 0, Tcp { jump_start: true, ..tcp(cc) }, transfers(&[(0, MEGABYTE)], false));
        let tables = run(&plan);
        assert!(retransmitted(&tables) > 300, "{cc}: {}", retransmitted(&tables));
        assert!(duration(&tables, 0) < 10.0, "{cc}: {}", duration(&tables, 0));
    }
}

/// The bottleneck does not know Quick-Start, or is busy: what follows is slow start, packet by packet.
#[test]
fn without_an_approval_quick_start_is_slow_start() {
    let with_bottleneck = |tcp: Tcp, queue: Queue| {
        let mut plan = transfer(tcp, &quickstart());
        plan.links[0].queue = queue;
        run(&plan)
    };
    let ignorant = || droptail(None, Some(1000));
    assert_same(&with_bottleneck(quick(), ignorant()), &with_bottleneck(tcp("cubic"), ignorant()), &[]).unwrap();
    let full = || {
        let limit = Limit { bytes: None, packets: Some(1000) };
        Queue::Quickstart(QuickstartQueue { limit, share: 0.0005, window_ns: 500 * MS })
    };
    assert_same(&with_bottleneck(quick(), full()), &with_bottleneck(tcp("cubic"), full()), &[]).unwrap();
}

/// Links that are faster than the router need none, but links as slow as it do.
#[test]
fn only_faster_links_need_no_router() {
    let with_access = |access: u64| {
        let mut plan = dumbbell(1, access, 100 * MBIT, 100 * MS, quickstart(), 20 * S);
        add_flow(&mut plan, 0, 0, quick(), transfers(&[(0, MEGABYTE)], false));
        duration(&run(&plan), 0)
    };
    assert!(with_access(1000 * MBIT) < 0.33 && with_access(100 * MBIT) > 0.65);
}

/// 60 Mb/s of datagrams leave 30 Mb/s of 90: the routers approve 20.48 Mb/s, and the transfer takes longer.
#[test]
fn a_busy_router_approves_less() {
    let mut plan = dumbbell(2, 1000 * MBIT, 100 * MBIT, 100 * MS, quickstart(), 20 * S);
    for link in [2, 3] {
        plan.links[link].queue = quickstart();
    }
    add_flow(&mut plan, 0, 2 * S, quick(), transfers(&[(0, MEGABYTE)], false));
    let datagrams = add_flow(&mut plan, 1, 0, tcp("cubic"), cbr(60 * MBIT));
    plan.flows[datagrams].transport = crate::common::udp(1500);
    let busy = duration(&run(&plan), 0);
    let idle = duration(&run(&transfer(quick(), &quickstart())), 0);
    let slow = duration(&run(&transfer(tcp("cubic"), &quickstart())), 0);
    assert!(idle + 0.05 < busy && busy + 0.05 < slow, "idle {idle} s, busy {busy} s, slow start {slow} s");
}

/// The last connections of a host begin as the first one, and the order of events does not matter.
#[test]
fn every_connection_begins_so_and_the_reference_agrees() {
    let list = [(0, MEGABYTE), (S, MEGABYTE), (S, MEGABYTE)];
    for (tcp, queue) in [(jump(), droptail(None, Some(1000))), (quick(), quickstart())] {
        let mut plan = transfer(tcp, &queue);
        plan.flows[0].source = transfers(&list, false);
        let tables = run(&plan);
        let (begun, ended) = (events(&tables, "transfer_start", 0), events(&tables, "transfer_end", 0));
        assert_eq!(ended.len(), 3);
        for (begun, ended) in begun.iter().zip(&ended) {
            assert!((ended.0 - begun.0) < 330 * MS, "{} ns", ended.0 - begun.0);
        }
        assert_same(&tables, &run_with(&plan, Options { reference: true, ..Options::default() }), &[]).unwrap();
    }
}

#[test]
fn controls_that_set_the_window_by_themselves_are_refused() {
    for (tcp, key) in [(jump(), "jump_start"), (quick(), "quick_start")] {
        let mut plan = dumbbell(1, 1000 * MBIT, 100 * MBIT, 100 * MS, quickstart(), S);
        add_flow(&mut plan, 0, 0, Tcp { cc: "bbr".into(), ..tcp }, Source::Bulk);
        let problem = Simulation::new(&plan).err().expect("refused").to_string();
        assert!(problem.contains(key) && problem.contains("cc: bbr"), "{problem}");
    }
}
