//! The tables that a method writes, column by column; `python/weir/run/tables.py` documents each column.
//!
//! In a nullable column, the largest value of the type means null.

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// 8-bit unsigned.
    U8(Vec<u8>),
    /// 32-bit unsigned; `u32::MAX` where nullable and null.
    U32(Vec<u32>),
    /// 64-bit unsigned; `u64::MAX` where nullable and null.
    U64(Vec<u64>),
    /// 64-bit signed.
    I64(Vec<i64>),
    /// A name of at most 16 bytes, padded with zeros.
    Name(Vec<[u8; 16]>),
}

impl Column {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Column::U8(values) => values.len(),
            Column::U32(values) => values.len(),
            Column::U64(values) => values.len(),
            Column::I64(values) => values.len(),
            Column::Name(values) => values.len(),
        }
    }
}

macro_rules! table {
    ($(#[$doc:meta])* $name:ident / $row:ident { $($column:ident: $type:ident as $variant:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        #[allow(missing_docs)]
        pub struct $name { $(pub $column: Vec<$type>),* }

        /// One row of the table of the same name.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub struct $row { $(pub $column: $type),* }

        impl $name {
            /// Appends a row.
            #[inline]
            pub fn push(&mut self, row: $row) {
                $(self.$column.push(row.$column);)*
            }

            /// Appends rows, column by column: faster than row by row.
            pub fn extend_rows(&mut self, rows: &[$row]) {
                $(self.$column.extend(rows.iter().map(|row| row.$column));)*
            }

            /// Appends all rows of another table.
            pub fn extend(&mut self, rows: $name) {
                $(self.$column.extend(rows.$column);)*
            }

            /// Number of rows.
            pub fn rows(&self) -> usize {
                [$(self.$column.len()),*][0]
            }

            /// The columns by name.
            pub fn into_columns(self) -> Vec<(&'static str, Column)> {
                vec![$((stringify!($column), Column::$variant(self.$column))),*]
            }

            /// An empty table in the memory of these columns, which came from [`into_columns`]($name::into_columns).
            pub fn recycled(columns: impl IntoIterator<Item = (&'static str, Column)>) -> $name {
                let mut columns = columns.into_iter();
                $(let $column = match columns.next() {
                    Some((_, Column::$variant(mut values))) => {
                        values.clear();
                        values
                    }
                    _ => Vec::new(),
                };)*
                $name { $($column),* }
            }
        }
    };
}

table! {
    /// Table `flows`.
    Flows / FlowRow {
        flow: u32 as U32, transfer: u32 as U32, start_ns: u64 as U64, established_ns: u64 as U64, end_ns: u64 as U64,
        bytes: u64 as U64, delivered_bytes: u64 as U64, sent_bytes: u64 as U64, sent_packets: u64 as U64,
        retransmitted_packets: u64 as U64, lost_packets: u64 as U64, marked_packets: u64 as U64, timeouts: u64 as U64,
    }
}

table! {
    /// Table `goodput`.
    Goodput / GoodputRow {
        time_ns: u64 as U64, flow: u32 as U32, delivered_bytes: u64 as U64, sent_ip_bytes: u64 as U64,
    }
}

table! {
    /// Table `samples`.
    Samples / SampleRow {
        time_ns: u64 as U64, flow: u32 as U32, cwnd: u32 as U32, ssthresh: u32 as U32, in_flight: u32 as U32,
        srtt_ns: u64 as U64, min_rtt_ns: u64 as U64, pacing_rate_bps: u64 as U64, acked_bytes: u64 as U64,
        sent_bytes: u64 as U64, retransmitted_packets: u64 as U64, timeouts: u32 as U32, ca_state: u8 as U8,
    }
}

table! {
    /// Columns of table `samples` available from kernels only.
    Limits / LimitsRow { busy_ns: u64 as U64, rwnd_limited_ns: u64 as U64, sndbuf_limited_ns: u64 as U64 }
}

table! {
    /// Table `links`.
    Links / LinkRow {
        time_ns: u64 as U64, link: u32 as U32, in_packets: u64 as U64, in_bytes: u64 as U64, out_packets: u64 as U64,
        out_bytes: u64 as U64, drop_packets: u64 as U64, drop_bytes: u64 as U64, mark_packets: u64 as U64,
        queue_bytes: u64 as U64, queue_packets: u64 as U64, queue_max_bytes: u64 as U64, queue_delay_ns: u64 as U64,
        queue_delay_max_ns: u64 as U64,
    }
}

table! {
    /// Table `classes`.
    Classes / ClassRow {
        time_ns: u64 as U64, link: u32 as U32, class: u32 as U32, in_packets: u64 as U64, in_bytes: u64 as U64,
        out_packets: u64 as U64, out_bytes: u64 as U64, drop_packets: u64 as U64, drop_bytes: u64 as U64,
        mark_packets: u64 as U64, queue_bytes: u64 as U64, queue_packets: u64 as U64, queue_max_bytes: u64 as U64,
        queue_delay_ns: u64 as U64, queue_delay_max_ns: u64 as U64,
    }
}

impl ClassRow {
    /// The row of a class whose packets alone are counted in `row`.
    pub fn of(class: u32, row: LinkRow) -> ClassRow {
        ClassRow {
            time_ns: row.time_ns,
            link: row.link,
            class,
            in_packets: row.in_packets,
            in_bytes: row.in_bytes,
            out_packets: row.out_packets,
            out_bytes: row.out_bytes,
            drop_packets: row.drop_packets,
            drop_bytes: row.drop_bytes,
            mark_packets: row.mark_packets,
            queue_bytes: row.queue_bytes,
            queue_packets: row.queue_packets,
            queue_max_bytes: row.queue_max_bytes,
            queue_delay_ns: row.queue_delay_ns,
            queue_delay_max_ns: row.queue_delay_max_ns,
        }
    }
}

/// The name of a probe, padded with zeros.
type Name = [u8; 16];

table! {
    /// Table `probes`.
    Probes / ProbeRow { time_ns: u64 as U64, flow: u32 as U32, probe: Name as Name, value: i64 as I64 }
}

table! {
    /// Table `processor`.
    Processor / ProcessorRow { time_ns: u64 as U64, part: u8 as U8, user_ns: u64 as U64, system_ns: u64 as U64 }
}

/// Values of `part` in table `processor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ProcessPart {
    /// A process with sending ends.
    Senders,
    /// A process with receiving ends.
    Receivers,
    /// A process with both.
    Both,
    /// The emulator.
    Network,
}

table! {
    /// Table `acks`.
    Acks / AckRow {
        time_ns: u64 as U64, flow: u32 as U32, kind: u8 as U8, packet: u64 as U64, delivered_packets: u32 as U32,
        cwnd: u32 as U32, ssthresh: u32 as U32, in_flight: u32 as U32, rtt_ns: u64 as U64,
        delivery_rate_bps: u64 as U64, pacing_rate_bps: u64 as U64, ca_state: u8 as U8,
    }
}

table! {
    /// Table `ports`.
    Ports / PortRow {
        time_ns: u64 as U64, node: u32 as U32, output: u32 as U32, input: u32 as U32, in_packets: u64 as U64,
        in_bytes: u64 as U64, out_packets: u64 as U64, out_bytes: u64 as U64, drop_packets: u64 as U64,
        drop_bytes: u64 as U64, queue_bytes: u64 as U64, queue_packets: u64 as U64, queue_max_bytes: u64 as U64,
        loss_runs: u64 as U64, loss_run_max: u64 as U64, service_runs: u64 as U64, service_run_max: u64 as U64,
        starved_max_ns: u64 as U64,
    }
}

table! {
    /// Table `delays`.
    Delays / DelayRow {
        time_ns: u64 as U64, flow: u32 as U32, packets: u64 as U64, delay_ns: u64 as U64, delay_min_ns: u64 as U64,
        delay_max_ns: u64 as U64, jitter_packets: u64 as U64, jitter_ns: u64 as U64, jitter_max_ns: u64 as U64,
    }
}

table! {
    /// Table `delay_bins`.
    DelayBins / DelayBinRow {
        time_ns: u64 as U64, flow: u32 as U32, low_ns: u64 as U64, high_ns: u64 as U64, delay_packets: u64 as U64,
        jitter_packets: u64 as U64,
    }
}

table! {
    /// Table `events`; `kind` is an index into [`EVENT_KINDS`].
    Events / EventRow {
        time_ns: u64 as U64, kind: u8 as U8, flow: u32 as U32, link: u32 as U32, value: i64 as I64,
    }
}

/// The tables of a run or of a part of it.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Tables {
    pub flows: Flows,
    pub goodput: Goodput,
    pub samples: Samples,
    pub links: Links,
    pub classes: Classes,
    pub probes: Probes,
    pub acks: Acks,
    pub ports: Ports,
    pub delays: Delays,
    pub delay_bins: DelayBins,
    pub events: Events,
}

/// Names of the kinds of events.
pub const EVENT_KINDS: [&str; 15] = [
    "flow_start",
    "established",
    "transfer_start",
    "transfer_end",
    "flow_end",
    "recovery",
    "recovery_end",
    "rto",
    "tlp",
    "undo",
    "cwr",
    "local_congestion",
    "link_change",
    "pause",
    "resume",
];

/// An index into [`EVENT_KINDS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum EventKind {
    FlowStart,
    Established,
    TransferStart,
    TransferEnd,
    FlowEnd,
    Recovery,
    RecoveryEnd,
    Rto,
    Tlp,
    Undo,
    Cwr,
    LocalCongestion,
    LinkChange,
    Pause,
    Resume,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_columns_is_used_again() {
        let mut goodput = Goodput::default();
        goodput.push(GoodputRow { time_ns: 1, flow: 2, delivered_bytes: 3, sent_ip_bytes: 4 });
        let memory = (goodput.time_ns.as_ptr(), goodput.flow.as_ptr());
        let again = Goodput::recycled(goodput.into_columns());
        assert_eq!((again.rows(), (again.time_ns.as_ptr(), again.flow.as_ptr())), (0, memory));
    }
}
