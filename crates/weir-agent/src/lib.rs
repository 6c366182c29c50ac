//! The agent: the program of a node.
//!
//! It reads a [`weir_protocol::Job`], opens the sockets of the ends that it serves, waits for the start, and then
//! sends, sinks and measures until the plan ends; its tables go to standard output while it runs. It has one
//! thread and one event loop. In the lab, where a wake-up is expensive, wake-ups are the cost of the whole run.
//!
//! - [`session`]: the event loop and the protocol; [`context`]: the state that endpoints share.
//! - [`tcp_sender`], [`tcp_receiver`], [`cbr_sender`], [`cbr_receiver`]: the ends of flows; [`open`]: their sockets;
//!   [`course`], [`deliveries`]: the transfers of senders and receivers; [`pursuit`]: rate profiles; [`window`]: the receive
//!   window; [`newcomers`]: connections that have not shown the run's token yet.
//! - [`quic_sender`], [`quic_receiver`]: the ends of QUIC flows over UDP sockets; [`quic`]: what both need. The
//!   protocol is `weir-quic`.
//! - [`tfrc_sender`], [`tfrc_receiver`]: the ends of TFRC flows over UDP sockets; [`tfrc`]: what both need. The control
//!   is `weir-tfrc`, as in the simulator. [`datagram`], [`datagram_flow`]: datagrams of these flows and of `cbr`.
//! - [`dccp_sender`], [`dccp_receiver`]: the ends of flows over DCCP of the kernel; [`dccp`]: what both need.
//! - [`native_sender`], [`native_receiver`]: the ends of flows over MPTCP and SCTP of the kernel; [`native`]: what
//!   both need.
//! - [`program_end`]: the ends of flows with traffic from other programs; [`program`]: their command lines;
//!   [`command`]:
//!   their execution; [`census`] and [`foreign`]: their connections and the sums over them; [`iperf3`]: its report;
//!   [`spread`]: the report's intervals on those of the plan.
//! - [`telemetry`]: the rows of the tables; [`sampler`]: the sampling of connections.
//! - [`queues`]: the counters of the kernel's queueing disciplines, for links that are made of them.
//! - [`services`]: echo, sink and source.
//! - [`tester`]: constant rates of frames through a switch, and the instants at which each came out.
//!
//! System calls are in `weir-sys`.
//!
//! Every table begins at instant 0 of the plan, on `CLOCK_MONOTONIC`. `end` of the protocol has these statistics:
//! processor time (`cpu_user_s`, `cpu_system_s`), `wakeups`, `dumps`, the lateness of timers (`timer_late_p50_ns` and
//! so on), the number of late instants of `measure` (`late_ticks`), and payload (`acked_bytes` of the transfers begun
//! here, `delivered_bytes`). For each constant-bit-rate flow `N` there are also the sender's lateness
//! (`cbr.N.send_late_*`) or the receiver's `cbr.N.received`, `lost`, `reordered`, the error of the spacing between
//! neighbours (`spacing_error_*`) and `delay_*`. For each TFRC flow `N` they are the sender's lateness
//! (`tfrc.N.send_late_*`) and the reports that came (`tfrc.N.reports`), or the receiver's `tfrc.N.received`, `lost`,
//! `reordered` and the reports that it sent (`reports_sent`). For each DCCP flow `N` they are the receiver's
//! `dccp.N.received`, `lost` and `reordered`. For each UDT flow `N` they are the sender's lateness (`udt.N.send_late_*`), or
//! the data packets that the receiver got (`udt.N.received`) and those of them that had come before (`duplicates`). In a run with a token, `strangers` are the connections and datagrams
//! that were refused because they did not carry it.
//!
//! The static binary (`scripts/binaries` builds it for a checkout):
//!
//! ```sh
//! cargo build --release -p weir-agent --target x86_64-unknown-linux-musl
//! RUSTFLAGS='-C target-feature=+crt-static' cargo build --release -p weir-agent --target x86_64-unknown-linux-gnu
//! ```
//!
//! the latter where the musl target is not installed.

#![forbid(unsafe_code)]
#![allow(rustdoc::private_intra_doc_links, reason = "the page is read by who reads the sources")]

mod cbr_receiver;
mod cbr_sender;
mod census;
pub mod cli;
mod command;
mod context;
mod course;
mod datagram;
mod datagram_flow;
mod dccp;
mod dccp_receiver;
mod dccp_sender;
mod deliveries;
mod error;
mod foreign;
mod iperf3;
mod native;
mod native_receiver;
mod native_sender;
mod newcomers;
mod open;
mod output;
mod path;
mod program;
mod program_end;
mod pursuit;
mod queues;
mod quic;
mod quic_receiver;
mod quic_sender;
mod sampler;
mod schedule;
mod services;
mod session;
mod spread;
mod tcp_receiver;
mod tcp_sender;
mod telemetry;
mod tester;
mod tfrc;
mod tfrc_receiver;
mod tfrc_sender;
mod udt;
mod udt_receiver;
mod udt_sender;
mod window;
