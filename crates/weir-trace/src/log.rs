//! The event log: one line of comma-separated values per record.

use std::io::{self, Write};

use weir_plan::Plan;

use crate::{Direction, Ecn, Event, PacketKind, TraceRecord};

/// Names of the columns.
const HEADER: &str = "time_ns,event,link,flow,from,connection,kind,number,id,ip_bytes,payload_bytes,seq,ack,sack,\
                      tsval,tsecr,flags";

/// Writes an event log.
///
/// Columns: `time_ns`; `event` (`sent`, `received`, `dropped`); `link`, the index of the link that dropped it, else
/// empty; `flow`; `from`, the end of the flow that sent it (`sender`, `receiver`); `connection`, `kind`, `number`,
/// `id`, `ip_bytes`, `payload_bytes`, `seq`, `ack`, `tsval`, `tsecr` as in [`TraceRecord`]; `sack`, blocks `start-end`
/// separated by `;`; `flags`: `R` retransmission, `E` ECN echo, `W` window reduced, `T` ECT(0), `L` ECT(1) and `C`
/// congestion experienced; with AccECN `A`, `W` and `E` are the counter of marks.
#[derive(Debug)]
pub struct LogWriter<W: Write> {
    out: W,
}

impl<W: Write> LogWriter<W> {
    /// Writes the header line.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn new(mut out: W) -> io::Result<LogWriter<W>> {
        writeln!(out, "{HEADER}")?;
        Ok(LogWriter { out })
    }

    /// Writes records.
    ///
    /// # Errors
    /// When the output fails.
    pub fn write(&mut self, records: &[TraceRecord]) -> io::Result<()> {
        records.iter().try_for_each(|record| write_line(&mut self.out, record))
    }

    /// The output.
    pub fn out(&mut self) -> &mut W {
        &mut self.out
    }

    /// Flushes and returns the output.
    ///
    /// # Errors
    /// When the output fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Writes all of a trace as an event log.
///
/// # Errors
/// When `out` fails.
pub fn write_log(records: &[TraceRecord], _plan: &Plan, out: impl Write) -> io::Result<()> {
    let mut writer = LogWriter::new(out)?;
    writer.write(records)?;
    writer.finish().map(drop)
}

fn write_line(out: &mut impl Write, record: &TraceRecord) -> io::Result<()> {
    let (event, link) = match record.event {
        Event::Sent => ("sent", None),
        Event::Received => ("received", None),
        Event::Dropped { link } => ("dropped", link),
    };
    let from = match record.direction {
        Direction::Forward => "sender",
        Direction::Reverse => "receiver",
    };
    let kind = match record.kind {
        PacketKind::Syn => "syn",
        PacketKind::SynAck => "syn_ack",
        PacketKind::Data => "data",
        PacketKind::Ack => "ack",
        PacketKind::Datagram => "datagram",
    };
    write!(out, "{},{event},", record.time_ns)?;
    if let Some(link) = link {
        write!(out, "{link}")?;
    }
    let TraceRecord { flow, connection, number, id, ip_bytes, payload_bytes, seq, ack, .. } = record;
    write!(out, ",{flow},{from},{connection},{kind},{number},{id},{ip_bytes},{payload_bytes},{seq},{ack},")?;
    for (i, (start, end)) in record.sack.iter().enumerate() {
        write!(out, "{}{start}-{end}", if i > 0 { ";" } else { "" })?;
    }
    write!(out, ",{},{},", record.tsval, record.tsecr)?;
    for (flag, on) in [
        ('R', record.retransmission),
        ('E', record.ece),
        ('W', record.cwr),
        ('A', record.ae),
        ('T', record.ecn == Ecn::Capable),
        ('L', record.ecn == Ecn::L4s),
        ('C', record.ecn == Ecn::Experienced),
    ] {
        if on {
            write!(out, "{flag}")?;
        }
    }
    writeln!(out)
}
