//! A capture of the headers of all packets at the sending hosts. `weir emulate` writes it, where foreign programs make
//! the traffic. The packets of a train appear one by one, as on the wire.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use weir_emu::Directory;
use weir_emu::frame::{Frame, VNET_BYTES};
use weir_emu::gather::Delivery;
use weir_emu::piece::{self, Run};
use weir_protocol::Job;
use weir_trace::PcapFile;
use weir_units::Time;

/// A capture file.
pub struct Capture {
    file: PcapFile<BufWriter<File>>,
    directory: Directory,
    /// By host: whether it sends data of a flow. Packets that belong to no flow are captured there.
    sends: Vec<bool>,
    failure: Option<io::Error>,
}

impl Capture {
    /// Creates the file.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path, job: &Job) -> io::Result<Capture> {
        let sends = |node: u32| job.plan.flows.iter().any(|flow| flow.from == node);
        Ok(Capture {
            file: PcapFile::new(BufWriter::new(File::create(path)?))?,
            directory: Directory::new(job),
            sends: job.hosts.iter().map(|host| sends(host.node)).collect(),
            failure: None,
        })
    }

    /// Captures a frame from `host`, which begins with a virtio header.
    pub fn sent(&mut self, at: Time, host: u32, frame: &Frame, bytes: &[u8]) {
        let way = self.directory.way(host, frame);
        let is_shown = match way.and_then(|way| way.flow.map(|flow| (flow, way.route))) {
            Some((flow, route)) => route == 2 * flow,
            None => self.sends[host as usize],
        };
        if is_shown {
            self.write(at, frame, bytes, &Run { first: 0, packets: frame.packets(), marked: false });
        }
    }

    /// Captures a delivery.
    pub fn received(&mut self, flow: u32, delivery: &Delivery, frame: &Frame, bytes: &[u8]) {
        let is_shown = match self.directory.sender(flow) {
            Some(sender) => sender == delivery.host,
            None => self.sends[delivery.host as usize],
        };
        if is_shown {
            self.write(delivery.due, frame, bytes, &delivery.run);
        }
    }

    fn write(&mut self, at: Time, frame: &Frame, bytes: &[u8], run: &Run) {
        for first in run.first..run.first + run.packets {
            let packet = Run { first, packets: 1, marked: run.marked };
            let Some(headers) = piece::headers(frame, bytes, &packet) else { continue };
            let shown = &headers.bytes()[VNET_BYTES + usize::from(frame.ip_start)..];
            if self.failure.is_none() {
                self.failure = self.file.packet(at.0, shown, frame.packet_bytes(first)).err();
            }
        }
    }

    /// Writes the buffered packets.
    ///
    /// # Errors
    /// This or an earlier write failed.
    pub fn flush(&mut self) -> io::Result<()> {
        self.failure.take().map_or(Ok(()), Err)?;
        self.file.out().flush()
    }
}
