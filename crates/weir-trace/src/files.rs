//! The files of a cell.

use std::io::{self, Write};

use weir_plan::Plan;

use crate::{Capture, LogWriter, PcapWriter, TraceRecord};

/// Names of the files, in the order of the outputs of [`Files::new`].
pub const FILES: [&str; 3] = ["senders.pcap", "receivers.pcap", "packets.csv"];

/// The files of a trace, written side by side.
#[derive(Debug)]
pub struct Files<W: Write> {
    senders: PcapWriter<W>,
    receivers: PcapWriter<W>,
    packets: LogWriter<W>,
}

impl<W: Write> Files<W> {
    /// Begins the files named by [`FILES`].
    ///
    /// # Errors
    /// When an output fails.
    pub fn new([senders, receivers, packets]: [W; 3]) -> io::Result<Files<W>> {
        Ok(Files {
            senders: PcapWriter::new(Capture::Senders, senders)?,
            receivers: PcapWriter::new(Capture::Receivers, receivers)?,
            packets: LogWriter::new(packets)?,
        })
    }

    /// Writes records of `plan`, which must be in the order of time and follow the earlier ones.
    ///
    /// # Errors
    /// When an output fails.
    pub fn write(&mut self, records: &[TraceRecord], plan: &Plan) -> io::Result<()> {
        self.senders.write(records, plan)?;
        self.receivers.write(records, plan)?;
        self.packets.write(records)
    }

    /// The outputs.
    pub fn outputs(&mut self) -> [&mut W; 3] {
        [self.senders.out(), self.receivers.out(), self.packets.out()]
    }

    /// Flushes the outputs.
    ///
    /// # Errors
    /// When an output fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.outputs().into_iter().try_for_each(Write::flush)
    }
}
