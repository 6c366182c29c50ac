//! Counts per flow and link, in bins: drops, marks and departures.

use std::collections::BTreeMap;

use weir_run::Column;
use weir_units::Time;

/// End of the bin, flow, link.
type Key = (u64, u32, u32);

/// Bins of one kind of count.
#[derive(Debug)]
pub struct Ledger {
    interval_ns: u64,
    rows: BTreeMap<Key, (u64, u64)>,
}

impl Ledger {
    /// Creates bins of `interval_ns`.
    pub fn new(interval_ns: u64) -> Ledger {
        Ledger { interval_ns, rows: BTreeMap::new() }
    }

    /// Counts a packet of `flow` on `link` at `at`.
    pub fn count(&mut self, at: Time, flow: u32, link: u32, bytes: u32) {
        let end = (at.0 / self.interval_ns + 1) * self.interval_ns;
        let row = self.rows.entry((end, flow, link)).or_default();
        row.0 += 1;
        row.1 += u64::from(bytes);
    }

    /// Removes and returns the bins that end by `until`: columns `time_ns`, `flow`, `link`, `packets`, `bytes`.
    pub fn drain(&mut self, until: Time) -> Vec<(&'static str, Column)> {
        let rest = self.rows.split_off(&(until.0.saturating_add(1), 0, 0));
        let rows = std::mem::replace(&mut self.rows, rest);
        vec![
            ("time_ns", Column::U64(rows.keys().map(|key| key.0).collect())),
            ("flow", Column::U32(rows.keys().map(|key| key.1).collect())),
            ("link", Column::U32(rows.keys().map(|key| key.2).collect())),
            ("packets", Column::U64(rows.values().map(|count| count.0).collect())),
            ("bytes", Column::U64(rows.values().map(|count| count.1).collect())),
        ]
    }
}
