//! A capture of the headers that the sending hosts see: classic pcap with nanoseconds, IP packets without a link layer.
//!
//! Each flow is shown at the host that sends its data, as a capture on that host would, and there also what is of no flow
//! unless the plan says what to trace; packets of a train are shown one
//! by one, as they are on the wire. The pcap file format: draft-ietf-opsawg-pcap.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use weir_emu::Directory;
use weir_emu::frame::{Frame, VNET_BYTES};
use weir_emu::gather::Delivery;
use weir_emu::piece::{self, Run};
use weir_run::Job;
use weir_units::Time;

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const LINKTYPE_RAW: u32 = 101;
const SNAPLEN: u32 = 256;

/// A capture file.
pub struct Trace {
    out: BufWriter<File>,
    directory: Directory,
    wanted: Vec<bool>,
    /// By host: whether also what is of no flow is shown there.
    foreign: Vec<bool>,
    from: Time,
    to: Time,
    left: u64,
    failure: Option<io::Error>,
}

impl Trace {
    /// Begins the file; `measure.trace` of the plan says what goes there, without one everything.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create(path: &Path, job: &Job) -> io::Result<Trace> {
        let mut out = BufWriter::new(File::create(path)?);
        out.write_all(&MAGIC_NANOSECONDS.to_le_bytes())?;
        out.write_all(&[2, 0, 4, 0])?;
        out.write_all(&[0; 8])?;
        out.write_all(&SNAPLEN.to_le_bytes())?;
        out.write_all(&LINKTYPE_RAW.to_le_bytes())?;
        let measure = job.plan.measure.trace.clone();
        let wanted = |flow: usize| {
            measure.as_ref().is_none_or(|trace| trace.flows.is_empty() || trace.flows.contains(&(flow as u32)))
        };
        let sends = |node: u32| job.plan.flows.iter().any(|flow| flow.from == node);
        Ok(Trace {
            out,
            directory: Directory::new(job),
            wanted: (0..job.plan.flows.len()).map(wanted).collect(),
            foreign: job.hosts.iter().map(|host| measure.is_none() && sends(host.node)).collect(),
            from: Time(measure.as_ref().map_or(0, |trace| trace.from_ns)),
            to: Time(measure.as_ref().map_or(u64::MAX, |trace| trace.to_ns)),
            left: measure.as_ref().map_or(u64::MAX, |trace| trace.max_packets),
            failure: None,
        })
    }

    /// `host` sent a frame, virtio header included.
    pub fn sent(&mut self, at: Time, host: u32, frame: &Frame, bytes: &[u8]) {
        let way = self.directory.way(host, frame);
        let is_shown = match way.and_then(|way| way.flow.map(|flow| (flow, way.route))) {
            Some((flow, route)) => route == 2 * flow && self.wanted[flow as usize],
            None => self.foreign[host as usize],
        };
        if is_shown {
            let run = Run { first: 0, packets: frame.packets(), marked: false };
            self.write(at, frame, bytes, &run);
        }
    }

    /// A delivery is made.
    pub fn received(&mut self, flow: u32, delivery: &Delivery, frame: &Frame, bytes: &[u8]) {
        let is_shown = match self.wanted.get(flow as usize) {
            Some(wanted) => *wanted && self.directory.end(2 * flow + 1) == delivery.host,
            None => self.foreign[delivery.host as usize],
        };
        if is_shown {
            self.write(delivery.due, frame, bytes, &delivery.run);
        }
    }

    fn write(&mut self, at: Time, frame: &Frame, bytes: &[u8], run: &Run) {
        if at < self.from || at >= self.to || self.failure.is_some() {
            return;
        }
        for index in run.first..run.first + run.packets {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            let packet = Run { first: index, packets: 1, marked: run.marked };
            if let Err(error) = self.write_packet(at, frame, bytes, &packet) {
                self.failure = Some(error);
                return;
            }
        }
    }

    fn write_packet(&mut self, at: Time, frame: &Frame, bytes: &[u8], run: &Run) -> io::Result<()> {
        let Some(headers) = piece::headers(frame, bytes, run) else { return Ok(()) };
        let shown = &headers.bytes()[VNET_BYTES + usize::from(frame.ip_start)..];
        let shown = &shown[..shown.len().min(SNAPLEN as usize)];
        let words = [
            (at.0 / 1_000_000_000) as u32,
            (at.0 % 1_000_000_000) as u32,
            shown.len() as u32,
            frame.packet_bytes(run.first),
        ];
        for word in words {
            self.out.write_all(&word.to_le_bytes())?;
        }
        self.out.write_all(shown)
    }

    /// Writes what is in memory.
    ///
    /// # Errors
    /// When this or an earlier write fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.failure.take().map_or(Ok(()), Err)?;
        self.out.flush()
    }
}
