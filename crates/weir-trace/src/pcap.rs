//! Capture files: classic pcap with nanoseconds, raw IP packets, headers only.
//!
//! A file shows each flow at one place, as a capture on that host would. A file of both ends would show every packet
//! twice, which analysers take for retransmissions. Lengths are those of the whole packet. There is no link layer,
//! because the methods' hosts have none in common. The file format: draft-ietf-opsawg-pcap.

use std::io::{self, Write};

use weir_plan::Plan;

use crate::{Ecn, TraceRecord, headers, real};

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
/// `LINKTYPE_RAW`: a packet begins with its IP header, version 4 or 6.
const LINKTYPE_RAW: u32 = 101;
/// More than all headers of a packet.
const SNAPLEN: u32 = 256;

/// A capture file of any packets.
#[derive(Debug)]
pub struct PcapFile<W: Write> {
    out: W,
}

impl<W: Write> PcapFile<W> {
    /// Writes the file header.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn new(mut out: W) -> io::Result<PcapFile<W>> {
        out.write_all(&MAGIC_NANOSECONDS.to_le_bytes())?;
        out.write_all(&[2, 0, 4, 0])?;
        out.write_all(&[0; 8])?;
        out.write_all(&SNAPLEN.to_le_bytes())?;
        out.write_all(&LINKTYPE_RAW.to_le_bytes())?;
        Ok(PcapFile { out })
    }

    /// Writes a packet of `ip_bytes`; `shown` are its first bytes, from its IP header on.
    ///
    /// # Errors
    /// When the output fails.
    pub fn packet(&mut self, time_ns: u64, shown: &[u8], ip_bytes: u32) -> io::Result<()> {
        let shown = &shown[..shown.len().min(SNAPLEN as usize)];
        let (seconds, nanos) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        for word in [seconds as u32, nanos as u32, shown.len() as u32, ip_bytes] {
            self.out.write_all(&word.to_le_bytes())?;
        }
        self.out.write_all(shown)
    }

    /// The output.
    pub fn out(&mut self) -> &mut W {
        &mut self.out
    }
}

/// The place of a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capture {
    /// Each flow at the host that sends its data.
    Senders,
    /// Each flow at the host that receives its data.
    Receivers,
    /// One node, with the flows that start or end there.
    Node(u32),
}

impl Capture {
    fn sees(self, record: &TraceRecord, plan: &Plan) -> bool {
        let flow = &plan.flows[record.flow as usize];
        let place = match self {
            Capture::Senders => flow.from,
            Capture::Receivers => flow.to,
            Capture::Node(node) => node,
        };
        record.host(plan) == Some(place)
    }
}

/// Writes the capture of one place.
///
/// Real packets have their own headers; simulated packets get headers. Node `n` has the address `10.0.x.y` with `256 x
/// + y = n + 1`. Flow `f` goes to port `5001 + f` (modulo 20000), its connection `c` comes from port `32767 + c`
/// (modulo 32768). Both initial sequence numbers are 0, so byte `b` of a stream has the number `b + 1`.
#[derive(Debug)]
pub struct PcapWriter<W: Write> {
    file: PcapFile<W>,
    capture: Capture,
    frame: Vec<u8>,
}

impl<W: Write> PcapWriter<W> {
    /// Writes the file header.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn new(capture: Capture, out: W) -> io::Result<PcapWriter<W>> {
        Ok(PcapWriter { file: PcapFile::new(out)?, capture, frame: Vec::new() })
    }

    /// Writes the records of `plan` that are visible at the capture's place.
    ///
    /// # Errors
    /// When the output fails.
    pub fn write(&mut self, records: &[TraceRecord], plan: &Plan) -> io::Result<()> {
        for record in records.iter().filter(|record| self.capture.sees(record, plan)) {
            self.frame.clear();
            match &record.headers {
                None => headers::build(&mut self.frame, record, plan)?,
                Some(headers) => {
                    self.frame.extend_from_slice(headers);
                    if record.ecn == Ecn::Experienced {
                        real::mark(&mut self.frame);
                    }
                }
            }
            self.file.packet(record.time_ns, &self.frame, record.ip_bytes)?;
        }
        Ok(())
    }

    /// The output.
    pub fn out(&mut self) -> &mut W {
        self.file.out()
    }

    /// Flushes and returns the output.
    ///
    /// # Errors
    /// When the output fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.file.out.flush()?;
        Ok(self.file.out)
    }
}

/// Writes all of a trace as a capture at the senders.
///
/// # Errors
/// When `out` fails.
pub fn write_pcap(records: &[TraceRecord], plan: &Plan, out: impl Write) -> io::Result<()> {
    let mut writer = PcapWriter::new(Capture::Senders, out)?;
    writer.write(records, plan)?;
    writer.finish().map(drop)
}
