//! The per-packet trace: records of what the simulator's packets stand for.
//!
//! [`Simulation::drain_trace`](crate::Simulation::drain_trace) takes the records out; `weir-trace` says what they mean, and
//! turns them into files.
//!
//! The simulator numbers segments and packs a packet into three words; here it gets back what a real one carries: its
//! place in the byte stream, both timestamps, SACK blocks in bytes. That is kept while the packet is under way, which
//! costs about 200 bytes each, but only while something is traced.

mod stream;
mod tracer;

pub(crate) use tracer::Tracer;
pub use weir_trace::{
    Capture, Direction, Ecn, Event, FILES, Files, LogWriter, PacketKind, PcapWriter, TraceRecord, write_log, write_pcap,
};
