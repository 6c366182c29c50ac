//! The per-packet trace, its limits, and its files in other programs.

use std::path::PathBuf;
use std::process::Command;

use weir_plan::{Loss, Plan, Trace, Transport};
use weir_sim::Simulation;
use weir_sim::trace::{Capture, Event, PacketKind, PcapWriter, TraceRecord, write_log, write_pcap};
use weir_units::Time;

use crate::common::{
    MS, add_flow, add_wire_flow, cbr, droptail, dumbbell, run, tcp, trace_of, traced, transfers, udp, wire,
};

/// A transfer that loses three data packets, beside datagrams.
fn lossy_plan(adapt: impl FnOnce(&mut weir_plan::Tcp)) -> Plan {
    let mut plan = wire(10_000_000, 10 * MS, droptail(None, Some(100)), 3000 * MS);
    plan.links[0].loss = Some(Loss::List { packets: vec![5, 6, 60] });
    let mut settings = tcp("reno");
    adapt(&mut settings);
    add_wire_flow(&mut plan, 0, Transport::Tcp(settings), transfers(&[(0, 100_000), (50 * MS, 30_001)], false));
    plan
}

fn pcap(plan: &Plan, capture: Capture) -> Vec<u8> {
    let mut writer = PcapWriter::new(capture, Vec::new()).unwrap();
    writer.write(&trace_of(plan), plan).unwrap();
    writer.finish().unwrap()
}

/// Runs tshark over a capture and returns its output, a line for each packet; none if there is no tshark.
fn tshark(name: &str, capture: &[u8], arguments: &[&str]) -> Option<Vec<String>> {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, capture).unwrap();
    let output = Command::new("tshark").arg("-r").arg(&path).args(arguments).output();
    let Ok(output) = output else {
        eprintln!("skipped: tshark is not installed");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

fn fields(name: &str, capture: &[u8], filter: &str, names: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut arguments = vec!["-Y", filter, "-T", "fields", "-E", "separator=|"];
    for field in names {
        arguments.extend(["-e", field]);
    }
    let lines = tshark(name, capture, &arguments)?;
    Some(lines.iter().map(|line| line.split('|').map(str::to_owned).collect()).collect())
}

#[test]
fn wireshark_finds_every_packet_sound() {
    for (name, sack, timestamps, ecn) in
        [("all", true, true, true), ("nosack", false, true, false), ("nots", true, false, false)]
    {
        let mut plan = lossy_plan(|settings| {
            (settings.sack, settings.timestamps, settings.ecn) = (sack, timestamps, ecn);
        });
        add_wire_flow(&mut plan, 0, udp(300), cbr(100_000));
        for capture in [Capture::Senders, Capture::Receivers] {
            let file = pcap(&plan, capture);
            let flaws = "_ws.malformed || ip.checksum.status == 0 || _ws.expert.severity == error";
            let checks = ["-o", "ip.check_checksum:TRUE", "-Y", flaws];
            let Some(bad) = tshark(&format!("sound-{name}.pcap"), &file, &checks) else { return };
            assert_eq!(bad, Vec::<String>::new(), "{name}");
            let all = tshark(&format!("sound-{name}.pcap"), &file, &[]).unwrap();
            assert!(all.len() > 200, "{} packets", all.len());
        }
    }
}

#[test]
fn wireshark_sees_the_handshake_options_and_each_retransmission() {
    let plan = lossy_plan(|settings| settings.receive_buffer_bytes = 1 << 20);
    let file = pcap(&plan, Capture::Senders);
    let tables = run(&plan);
    let Some(resent) = fields("resent.pcap", &file, "tcp.analysis.retransmission", &["tcp.stream", "tcp.seq"]) else {
        return;
    };
    // Packets 5, 6 and 60 of the link: the segments at bytes 4, 5 and 57 (two were sent again) times 1448.
    assert_eq!(resent.len() as u64, tables.flows.retransmitted_packets.iter().sum::<u64>());
    let mut numbers: Vec<&str> = resent.iter().map(|row| row[1].as_str()).collect();
    numbers.sort_unstable();
    assert_eq!(&numbers[..2], ["5793", "7241"]);
    assert_eq!(numbers.len(), 3);

    let syn = fields(
        "resent.pcap",
        &file,
        "tcp.flags.syn == 1 && tcp.flags.ack == 0",
        &[
            "ip.src",
            "ip.dst",
            "tcp.srcport",
            "tcp.dstport",
            "ip.len",
            "tcp.options.mss_val",
            "tcp.options.wscale.shift",
        ],
    )
    .unwrap();
    // One connection for each transfer; 2^20 needs a shift of 5 to fit 16 bits.
    assert_eq!(syn[0], ["10.0.0.1", "10.0.0.2", "32768", "5001", "60", "1460", "5"]);
    assert_eq!(syn[1][2], "32769");
    assert_eq!(syn.len(), 2);

    let first_ack = fields("resent.pcap", &file, "tcp.flags.syn == 0 && tcp.srcport == 5001", &["tcp.window_size"]);
    assert_eq!(first_ack.unwrap()[0], ["1048576"]);
    let sacks = fields("resent.pcap", &file, "tcp.options.sack_le", &["tcp.options.sack_le", "tcp.ack"]).unwrap();
    assert!(sacks.iter().all(|row| row[0].split(',').all(|le| le.parse::<u64>().unwrap() > row[1].parse().unwrap())));
    assert!(!sacks.is_empty());
}

/// The round-trip times that Wireshark computes are those of the path: 2 x 10 ms and the transmission of the packets.
#[test]
fn wireshark_measures_the_round_trip_of_the_plan() {
    let mut plan = wire(100_000_000, 10 * MS, droptail(None, Some(100)), 1000 * MS);
    add_wire_flow(&mut plan, 0, Transport::Tcp(tcp("reno")), transfers(&[(0, 1448)], false));
    let Some(rtts) =
        fields("rtt.pcap", &pcap(&plan, Capture::Senders), "tcp.analysis.ack_rtt", &["tcp.analysis.ack_rtt"])
    else {
        return;
    };
    // 98 bytes on the wire each way at 100 Mb/s; then 1538 and 90 bytes.
    assert_eq!(rtts, [["0.020015680"], ["0.020130240"]]);
}

#[test]
fn ecn_marks_and_echoes_are_in_the_headers() {
    let queue = weir_plan::Queue::Codel(weir_plan::CodelQueue {
        limit: weir_plan::Limit { bytes: None, packets: Some(1000) },
        codel: weir_plan::CodelParams {
            target_ns: 5 * MS,
            interval_ns: 100 * MS,
            mark: weir_plan::Mark::Ecn,
            ce_threshold_ns: None,
        },
    });
    let mut plan = dumbbell(1, 100_000_000, 10_000_000, 20 * MS, queue, 3000 * MS);
    add_flow(&mut plan, 0, 0, weir_plan::Tcp { ecn: true, ..tcp("reno") }, weir_plan::Source::Bulk);
    let file = pcap(&plan, Capture::Receivers);
    let Some(marked) = fields("ecn.pcap", &file, "ip.dsfield.ecn == 3", &["frame.number"]) else { return };
    assert_eq!(marked.len() as u64, run(&plan).flows.marked_packets.iter().sum::<u64>());
    let echoes = fields("ecn.pcap", &file, "tcp.flags.ece == 1 && tcp.flags.syn == 0", &["frame.number"]).unwrap();
    let reduced = fields("ecn.pcap", &file, "tcp.flags.cwr == 1 && tcp.flags.syn == 0", &["frame.number"]).unwrap();
    let (marks, echoes, reductions) = (marked.len(), echoes.len(), reduced.len());
    assert!(marks > 0 && echoes >= marks && reductions > 0, "{marks} marks, {echoes} echoes, {reductions} reductions");
    let wrong = fields(
        "ecn.pcap",
        &file,
        "tcp.len > 0 && ip.dsfield.ecn == 0 && !tcp.analysis.retransmission",
        &["frame.number"],
    );
    assert_eq!(wrong.unwrap(), Vec::<Vec<String>>::new());
}

#[test]
fn a_trace_keeps_to_its_flows_window_and_size() {
    let mut plan = dumbbell(2, 100_000_000, 10_000_000, 20 * MS, droptail(None, Some(50)), 1000 * MS);
    add_flow(&mut plan, 0, 0, tcp("reno"), weir_plan::Source::Bulk);
    add_flow(&mut plan, 1, 0, tcp("reno"), weir_plan::Source::Bulk);
    plan.measure.trace = Some(Trace { flows: vec![1], from_ns: 300 * MS, to_ns: 400 * MS, max_packets: u64::MAX });
    let drain = |plan: &Plan| {
        let mut simulation = Simulation::new(plan).unwrap();
        simulation.advance(Time::MAX);
        simulation.drain_trace()
    };
    let part = drain(&plan);
    let whole = drain(&traced(&plan));
    let inside = |record: &&TraceRecord| record.flow == 1 && (300 * MS..400 * MS).contains(&record.time_ns);
    assert_eq!(part, whole.iter().filter(inside).cloned().collect::<Vec<_>>());
    assert!(part.len() > 100);

    plan.measure.trace = Some(Trace { flows: vec![], from_ns: 0, to_ns: u64::MAX, max_packets: 25 });
    let few = drain(&plan);
    assert_eq!(few.iter().filter(|record| record.event == Event::Sent).count(), 25);
    assert_eq!(few.iter().filter(|record| record.event != Event::Sent).count(), 25);
    let first: Vec<_> = whole.iter().filter(|record| record.event == Event::Sent).take(25).cloned().collect();
    assert_eq!(few.iter().filter(|record| record.event == Event::Sent).cloned().collect::<Vec<_>>(), first);
}

#[test]
fn the_log_says_what_happened_to_each_packet() {
    let plan = lossy_plan(|_| {});
    let mut text = Vec::new();
    write_log(&trace_of(&plan), &plan, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..4],
        [
            "time_ns,event,link,flow,from,connection,kind,number,id,ip_bytes,payload_bytes,seq,ack,sack,tsval,tsecr,flags",
            "0,sent,,0,sender,1,syn,1,1,60,0,0,0,,1,0,",
            "10078400,received,,0,sender,1,syn,1,1,60,0,0,0,,1,0,",
            "10078400,sent,,0,receiver,1,syn_ack,1,1,60,0,0,0,,11,1,",
        ]
    );
    // The fifth and sixth data segments are lost on link 0, which lets the host send the one right after the other: three
    // transmissions after the handshake's third packet, when the small-queue limit of two packets allows.
    let dropped: Vec<&&str> = lines.iter().filter(|line| line.contains(",dropped,")).collect();
    assert_eq!(
        dropped[..2],
        [
            &"23920000,dropped,0,0,sender,1,data,7,7,1500,1448,5792,0,,24,11,",
            &"23920000,dropped,0,0,sender,1,data,8,8,1500,1448,7240,0,,24,11,"
        ]
    );
    assert_eq!(dropped.len(), 3);
    assert!(lines.iter().any(|line| line.contains(",ack,") && line.contains(",5792,8688-10136,")));
    assert!(lines.iter().any(|line| line.contains(",sent,,0,sender,1,data,") && line.ends_with(",R")));
}

#[test]
fn a_capture_of_a_node_and_one_of_the_senders_agree() {
    let plan = lossy_plan(|_| {});
    let records = trace_of(&plan);
    let mut file = Vec::new();
    write_pcap(&records, &plan, &mut file).unwrap();
    assert_eq!(file, pcap(&plan, Capture::Node(0)));
    assert_ne!(file, pcap(&plan, Capture::Node(1)));
    // File header, then 16 bytes and the headers of each packet that host 0 sees.
    let seen = records.iter().filter(|record| record.host(&plan) == Some(0));
    let bytes: usize = seen.map(|record| 16 + (record.ip_bytes - record.payload_bytes) as usize).sum();
    assert_eq!(file.len(), 24 + bytes);
    assert!(records.iter().any(|record| record.kind == PacketKind::Ack && !record.sack.is_empty()));
}
