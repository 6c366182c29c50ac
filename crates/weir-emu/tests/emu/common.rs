//! Jobs, frames, and a driver that has no device and no clock.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_emu::frame::{Frame, GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, Link as Layer, NEEDS_CSUM, TCP, UDP, VNET_BYTES, Vnet};
use weir_emu::gather::Delivery;
use weir_emu::{Directory, Network, Options, piece};
use weir_plan::{
    Cbr, Delay, DroptailQueue, Flow, Limit, Link, Measure, Node, NodeKind, Plan, Queue, Role, Source, Transport, Udp,
};
use weir_protocol::{Host, Job};
use weir_units::{Dur, Time};

pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000_000_000;
pub const FIRST_PORT: u16 = 5001;

pub fn droptail(bytes: Option<u64>, packets: Option<u64>) -> Queue {
    Queue::Droptail(DroptailQueue { limit: Limit { bytes, packets } })
}

pub fn link(name: &str, from: u32, to: u32, rate_bps: u64, delay_ns: u64) -> Link {
    Link {
        name: name.into(),
        from,
        to,
        rate_bps,
        overhead_bytes: 38,
        mtu_bytes: 1500,
        delay: Delay::Fixed { delay_ns },
        queue: droptail(None, Some(1 << 20)),
        loss: None,
        host_nic: false,
    }
}

/// Two hosts, a link each way, one flow from the first to the second.
pub fn wire(rate_bps: u64, delay_ns: u64) -> Plan {
    Plan {
        version: 1,
        title: "wire".into(),
        seed: 7,
        end_ns: 1000 * S,
        nodes: ["a", "b"]
            .map(|name| Node { name: name.into(), kind: NodeKind::Host, switch: None, capacity: None })
            .into(),
        links: vec![link("forth", 0, 1, rate_bps, delay_ns), link("back", 1, 0, rate_bps, delay_ns)],
        flows: vec![Flow {
            name: "f".into(),
            group: "f".into(),
            index: 0,
            stream: 0,
            role: Role::Test,
            reverse: false,
            from: 0,
            to: 1,
            path: vec![0],
            reverse_path: vec![1],
            start_ns: 0,
            stop_ns: None,
            transport: Transport::Udp(Udp { payload_bytes: 1472 }),
            source: Source::Cbr(Cbr { rate_bps: 1_000_000, periods_ns: vec![] }),
            dscp: 0,
        }],
        changes: vec![],
        measure: Measure {
            goodput_ns: 0,
            tcp_ns: 0,
            links_ns: 10 * MS,
            delay_ns: 0,
            links: vec![],
            trace: None,
            acks: None,
        },
        phases: vec![],
        methods: weir_plan::Methods::default(),
    }
}

/// A job whose hosts are the ends of flows, with addresses of their node.
pub fn job(plan: &Plan, v6: bool) -> Job {
    let mut nodes: Vec<u32> = plan.flows.iter().flat_map(|flow| [flow.from, flow.to]).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let host = |&node: &u32| Host { node, netns: None, address: address(node, v6), device: None };
    Job {
        version: 1,
        plan: plan.clone(),
        hosts: nodes.iter().map(host).collect(),
        ends: vec![],
        kernel_cc: Default::default(),
        probes: Default::default(),
        first_port: FIRST_PORT,
        token: None,
    }
}

pub fn address(node: u32, v6: bool) -> IpAddr {
    if v6 {
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, node as u16 + 1))
    } else {
        IpAddr::V4(Ipv4Addr::new(10, 0, ((node + 1) >> 8) as u8, (node + 1) as u8))
    }
}

/// A packet to build.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    pub from: u32,
    pub to: u32,
    pub v6: bool,
    pub protocol: u8,
    pub ports: (u16, u16),
    /// Bytes of headers from the IP header on.
    pub headers: usize,
    pub payload: usize,
    pub id: u16,
    pub ecn: u8,
    pub tcp_flags: u8,
    /// Payload of each packet; 0 for a single one.
    pub gso_size: u16,
}

impl Packet {
    /// A datagram of the flow of a [`wire`], 1500 bytes.
    pub fn datagram() -> Packet {
        Packet {
            from: 0,
            to: 1,
            v6: false,
            protocol: UDP,
            ports: (40_000, FIRST_PORT),
            headers: 28,
            payload: 1472,
            id: 0,
            ecn: 0,
            tcp_flags: 0x18,
            gso_size: 0,
        }
    }

    /// A TCP packet of that flow with timestamps, or a train of them.
    pub fn tcp(payload: usize) -> Packet {
        let gso_size = if payload > 1448 { 1448 } else { 0 };
        Packet { protocol: TCP, headers: 52, payload, gso_size, ..Packet::datagram() }
    }

    pub fn ipv6(self) -> Packet {
        Packet { v6: true, headers: self.headers + 20, ..self }
    }

    pub fn numbered(self, id: u16) -> Packet {
        Packet { id, ..self }
    }

    fn ip_header(&self) -> usize {
        if self.v6 { 40 } else { 20 }
    }

    /// The frame, with a virtio header and a begun checksum; its payload counts bytes.
    pub fn build(&self) -> Vec<u8> {
        let (ip, mut packet) = (self.ip_header(), vec![0; self.headers + self.payload]);
        let total = packet.len();
        let (source, destination) = (address(self.from, self.v6), address(self.to, self.v6));
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                packet[0] = 0x45;
                packet[1] = self.ecn;
                packet[2..4].copy_from_slice(&(total as u16).to_be_bytes());
                packet[4..6].copy_from_slice(&self.id.to_be_bytes());
                (packet[6], packet[8], packet[9]) = (0x40, 64, self.protocol);
                packet[12..16].copy_from_slice(&source.octets());
                packet[16..20].copy_from_slice(&destination.octets());
                let sum = !fold(&packet[..20], 0);
                packet[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                (packet[0], packet[1]) = (0x60 | self.ecn >> 4, self.ecn << 4);
                packet[4..6].copy_from_slice(&((total - 40) as u16).to_be_bytes());
                (packet[6], packet[7]) = (self.protocol, 64);
                packet[8..24].copy_from_slice(&source.octets());
                packet[24..40].copy_from_slice(&destination.octets());
            }
            _ => unreachable!("both have one version"),
        }
        packet[ip..ip + 2].copy_from_slice(&self.ports.0.to_be_bytes());
        packet[ip + 2..ip + 4].copy_from_slice(&self.ports.1.to_be_bytes());
        let checksum = if self.protocol == TCP {
            packet[ip + 4..ip + 8].copy_from_slice(&1_000_000u32.to_be_bytes());
            packet[ip + 12] = (((self.headers - ip) / 4) << 4) as u8;
            packet[ip + 13] = self.tcp_flags;
            packet[ip + 20..self.headers].fill(1);
            16
        } else {
            packet[ip + 4..ip + 6].copy_from_slice(&((total - ip) as u16).to_be_bytes());
            6
        };
        for (index, byte) in packet[self.headers..].iter_mut().enumerate() {
            *byte = (index % 251) as u8;
        }
        let sum = fold(&packet[if self.v6 { 8..40 } else { 12..20 }], u32::from(self.protocol) + (total - ip) as u32);
        packet[ip + checksum..ip + checksum + 2].copy_from_slice(&sum.to_be_bytes());
        let vnet = Vnet {
            flags: NEEDS_CSUM,
            gso_type: self.gso_type(),
            header_bytes: self.headers as u16,
            gso_size: self.gso_size,
            csum_start: ip as u16,
            csum_offset: checksum as u16,
        };
        [&vnet.to_bytes()[..], &packet[..]].concat()
    }

    fn gso_type(&self) -> u8 {
        match (self.gso_size, self.protocol, self.v6) {
            (0, _, _) => 0,
            (_, TCP, false) => GSO_TCPV4,
            (_, TCP, true) => GSO_TCPV6,
            _ => GSO_UDP_L4,
        }
    }
}

/// The sum of 16-bit words, folded.
pub fn fold(bytes: &[u8], begin: u32) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum = begin + words.sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A frame that was delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    pub host: u32,
    pub first_at: Time,
    pub due: Time,
    pub packets: u32,
    pub frame: Vec<u8>,
}

impl Delivered {
    /// The IPv4 identification.
    pub fn id(&self) -> u16 {
        u16::from_be_bytes([self.frame[VNET_BYTES + 4], self.frame[VNET_BYTES + 5]])
    }

    pub fn ip(&self) -> &[u8] {
        &self.frame[VNET_BYTES..]
    }
}

/// A network and what it delivered.
pub struct Driver {
    pub network: Network,
    pub job: Job,
    pub delivered: Vec<Delivered>,
}

impl Driver {
    pub fn new(plan: &Plan) -> Driver {
        Driver::with(plan, false, Dur::from_micros(50))
    }

    pub fn with(plan: &Plan, v6: bool, hold: Dur) -> Driver {
        let job = job(plan, v6);
        let options = Options { hold, flow_bins: true, trace: true, ..Options::default() };
        let network = Network::new(&job, Directory::new(&job), options);
        Driver { network, job, delivered: Vec::new() }
    }

    /// Index of a node among the hosts of the job.
    pub fn host(&self, node: u32) -> u32 {
        self.job.hosts.iter().position(|host| host.node == node).expect("a host") as u32
    }

    pub fn send(&mut self, at: u64, packet: &Packet) {
        self.send_bytes(at, packet.from, &packet.build());
    }

    pub fn send_bytes(&mut self, at: u64, from: u32, bytes: &[u8]) {
        let frame = Frame::parse(bytes, Layer::Ip).expect("a sound frame");
        let mut scratch = self.network.trains.pool.scratch();
        scratch[..bytes.len()].copy_from_slice(bytes);
        self.network.inject(Time(at), Time(at), self.host(from), &frame, scratch, bytes.len());
        self.take();
    }

    pub fn run(&mut self, until: u64) {
        self.network.advance(Time(until));
        self.take();
    }

    fn take(&mut self) {
        while let Some(delivery) = self.network.next_delivery() {
            let frame = self.bytes(&delivery);
            let Delivery { host, first_at, due, run, .. } = delivery;
            self.delivered.push(Delivered { host, first_at, due, packets: run.packets, frame });
            self.network.delivered(&delivery);
        }
    }

    fn bytes(&self, delivery: &Delivery) -> Vec<u8> {
        let train = self.network.trains.get(delivery.train);
        let buffer = &train.buffer;
        if piece::is_whole(&train.frame, &delivery.run) {
            return [buffer.bytes(), buffer.zeros()].concat();
        }
        let headers = piece::headers(&train.frame, buffer.bytes(), &delivery.run).expect("short headers");
        [headers.bytes(), buffer.part(headers.payload.clone())].concat()
    }

    pub fn packets(&self) -> u32 {
        self.delivered.iter().map(|d| d.packets).sum()
    }
}
