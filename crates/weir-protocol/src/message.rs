//! The output of a process that serves nodes of a plan.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use weir_run::Column;

/// A line on standard output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "message")]
pub enum Message {
    /// The process is ready: listening, attached. The answer to the job.
    Ready,
    /// Rows of a table; `bytes` bytes follow the line: the columns one after the other, little endian, no padding.
    Table {
        /// Name of the table.
        name: String,
        /// Number of rows.
        rows: u64,
        /// Name and type of each column, in order.
        columns: Vec<(String, ColumnType)>,
        /// Bytes that follow.
        bytes: u64,
    },
    /// A file for the run's folder; `bytes` bytes follow the line.
    File {
        /// Its name in the folder of the cell, `/` between folders.
        name: String,
        /// Bytes that follow.
        bytes: u64,
    },
    /// The end of a program of a plan.
    Program(Program),
    /// The present state, for displays.
    Progress {
        /// Instant of the plan.
        now_ns: u64,
    },
    /// A reason why a number of this run is untrustworthy.
    Warning {
        /// The reason, and the remedy.
        text: String,
    },
    /// The process cannot continue; the last message.
    Error {
        /// What failed, where, and the remedy.
        text: String,
    },
    /// All tables were handed over; the last message.
    End {
        /// Amounts of work, and accuracy.
        stats: BTreeMap<String, f64>,
    },
}

/// A program that ran as the workload of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Name of the flow.
    pub flow: String,
    /// Whether it is the peer of the command, at the other end.
    pub peer: bool,
    /// Name of the node where it ran.
    pub host: String,
    /// The executed command line.
    pub arguments: Vec<String>,
    /// Time of its start; none: before the plan began, or never.
    pub start_ns: Option<u64>,
    /// Time of its end.
    pub end_ns: Option<u64>,
    /// Its exit status as in shells: 128 plus the signal if killed; none: it never ran.
    pub exit_code: Option<i32>,
    /// Whether it was told to end, because the flow had ended.
    pub stopped: bool,
    /// Whether bytes of its standard output and standard error beyond the limit were discarded.
    pub truncated: bool,
    /// The content of its report, if weir reads it.
    pub report: Option<BTreeMap<String, f64>>,
}

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum ColumnType {
    U8,
    U32,
    U64,
    I64,
    Name,
}

fn column_type(column: &Column) -> ColumnType {
    match column {
        Column::U8(_) => ColumnType::U8,
        Column::U32(_) => ColumnType::U32,
        Column::U64(_) => ColumnType::U64,
        Column::I64(_) => ColumnType::I64,
        Column::Name(_) => ColumnType::Name,
    }
}

fn bytes(column: &Column) -> usize {
    match column {
        Column::U8(values) => size_of_val(values.as_slice()),
        Column::U32(values) => size_of_val(values.as_slice()),
        Column::U64(values) => size_of_val(values.as_slice()),
        Column::I64(values) => size_of_val(values.as_slice()),
        Column::Name(values) => size_of_val(values.as_slice()),
    }
}

fn append_column(out: &mut Vec<u8>, column: &Column) {
    match column {
        Column::U8(values) => out.extend_from_slice(values),
        Column::U32(values) => append(out, values, |v| v.to_le_bytes()),
        Column::U64(values) => append(out, values, |v| v.to_le_bytes()),
        Column::I64(values) => append(out, values, |v| v.to_le_bytes()),
        Column::Name(values) => append(out, values, |v| v),
    }
}

fn append<T: Copy, const N: usize>(out: &mut Vec<u8>, values: &[T], bytes_of: impl Fn(T) -> [u8; N]) {
    let begin = out.len();
    out.resize(begin + N * values.len(), 0);
    let places = out[begin..].chunks_exact_mut(N);
    places.zip(values).for_each(|(place, &value)| place.copy_from_slice(&bytes_of(value)));
}

/// Appends rows of a table to `out`, as [`Outbox::table`] writes them.
///
/// # Panics
/// When the columns differ in length.
pub fn append_table(out: &mut Vec<u8>, name: &str, columns: &[(&'static str, Column)]) {
    let rows = columns.first().map_or(0, |(_, column)| column.rows());
    if rows == 0 {
        return;
    }
    assert!(columns.iter().all(|(_, column)| column.rows() == rows), "table {name} has columns of one length");
    let message = Message::Table {
        name: name.to_owned(),
        rows: rows as u64,
        columns: columns.iter().map(|(name, column)| ((*name).to_owned(), column_type(column))).collect(),
        bytes: columns.iter().map(|(_, column)| bytes(column) as u64).sum(),
    };
    append_line(out, &message);
    columns.iter().for_each(|(_, column)| append_column(out, column));
}

fn append_line(out: &mut Vec<u8>, message: &Message) {
    serde_json::to_writer(&mut *out, message).expect("a message has string keys and memory has room");
    out.push(b'\n');
}

/// Writes messages.
pub struct Outbox<W: Write> {
    out: W,
    buffer: Vec<u8>,
}

impl<W: Write> Outbox<W> {
    /// An outbox that writes to `out`, with one call per message.
    pub fn new(out: W) -> Outbox<W> {
        Outbox { out, buffer: Vec::new() }
    }

    /// Writes a message; for tables, use [`table`](Outbox::table).
    ///
    /// # Errors
    /// From the stream.
    pub fn send(&mut self, message: &Message) -> io::Result<()> {
        self.buffer.clear();
        self.line(message);
        self.flush()
    }

    /// Writes rows of a table; nothing if there are none.
    ///
    /// # Errors
    /// From the stream.
    ///
    /// # Panics
    /// When the columns differ in length.
    pub fn table(&mut self, name: &str, columns: &[(&'static str, Column)]) -> io::Result<()> {
        self.buffer.clear();
        append_table(&mut self.buffer, name, columns);
        self.flush()
    }

    /// Writes a file.
    ///
    /// # Errors
    /// From the stream.
    pub fn file(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        self.buffer.clear();
        self.line(&Message::File { name: name.to_owned(), bytes: content.len() as u64 });
        self.buffer.extend_from_slice(content);
        self.flush()
    }

    fn line(&mut self, message: &Message) {
        append_line(&mut self.buffer, message);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_run::{Goodput, GoodputRow};

    #[test]
    fn a_table_is_a_line_and_its_columns() {
        let mut goodput = Goodput::default();
        goodput.push(GoodputRow { time_ns: 1, flow: 2, delivered_bytes: 3, sent_ip_bytes: 4 });
        goodput.push(GoodputRow { time_ns: 5, flow: 6, delivered_bytes: 7, sent_ip_bytes: 8 });
        let mut out = Vec::new();
        let mut outbox = Outbox::new(&mut out);
        outbox.table("goodput", &goodput.into_columns()).expect("memory takes it");
        outbox.table("goodput", &Goodput::default().into_columns()).expect("no rows are no table");
        let end = out.iter().position(|&b| b == b'\n').expect("a line");
        let line: Message = serde_json::from_slice(&out[..end]).expect("JSON");
        let Message::Table { name, rows, columns, bytes } = line else { panic!("a table") };
        assert_eq!((name.as_str(), rows, bytes), ("goodput", 2, 2 * (8 + 4 + 8 + 8)));
        assert_eq!(columns[1], ("flow".to_owned(), ColumnType::U32));
        let content = &out[end + 1..];
        assert_eq!(content.len() as u64, bytes);
        assert_eq!(content[8..16], 5_u64.to_le_bytes());
        assert_eq!(content[16..24], [2, 0, 0, 0, 6, 0, 0, 0]);
    }

    #[test]
    fn a_file_is_a_line_and_its_content() {
        let mut out = Vec::new();
        Outbox::new(&mut out).file("commands/a.out", b"one\ntwo").expect("memory takes it");
        assert_eq!(out, b"{\"message\":\"file\",\"name\":\"commands/a.out\",\"bytes\":7}\none\ntwo");
    }

    #[test]
    fn messages_are_json_lines() {
        let mut out = Vec::new();
        let mut outbox = Outbox::new(&mut out);
        outbox.send(&Message::Ready).expect("memory takes it");
        outbox.send(&Message::End { stats: BTreeMap::from([("packets".to_owned(), 3.0)]) }).expect("memory takes it");
        let text = String::from_utf8(out).expect("UTF-8");
        assert_eq!(text, "{\"message\":\"ready\"}\n{\"message\":\"end\",\"stats\":{\"packets\":3.0}}\n");
    }
}
