//! The per-packet trace.
//!
//! [`Simulation::drain_trace`](crate::Simulation::drain_trace) returns the records; `weir-trace` defines them and
//! writes the files.
//!
//! A packet of the simulator is three words with the number of a segment. Its record has the fields of a real one: its
//! position in the byte stream, both timestamps, SACK blocks in bytes. The tracer keeps about 200 bytes for each packet
//! in flight of a traced flow.

mod stream;
mod tracer;

pub(crate) use tracer::Tracer;
pub use weir_trace::{
    Capture, Direction, Ecn, Event, FILES, Files, LogWriter, PacketKind, PcapWriter, TraceRecord, write_log, write_pcap,
};
