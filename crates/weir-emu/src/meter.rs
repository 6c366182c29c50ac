//! The emulator's own error: how exact the emulation was.

use std::collections::BTreeMap;

use weir_emu::Statistics;
use weir_run::{ProcessPart, ProcessorRow};
use weir_sys::clock::{cpu_ns, monotonic_ns, thread_cpu_ns};
use weir_units::{Dur, Histogram, Time};

/// Lateness at the 99th percentile above which the run carries a warning: 5 % of 10 ms, the shortest usual RTT.
const MAX_LATENESS_NS: u64 = 500_000;
/// Share of processor time, without spinning, above which packets wait for the emulator rather than for their link.
const MAX_BUSY: f64 = 0.85;

/// Counters of errors and their sizes.
pub struct Meter {
    begin_ns: u64,
    cpu_begin_ns: u64,
    spun_ns: u64,
    lateness: Histogram,
    /// Time from a frame's entry into its device until the emulator read it.
    read_lag: Histogram,
    unstamped_frames: u64,
    held: Histogram,
    bin_ns: u64,
    /// Bins during which the emulator never ran.
    bins_missed: u64,
    /// Malformed frames.
    pub malformed_frames: u64,
    /// At the last row of processor time: user mode, system calls, and spinning; none where the clock stands still while a
    /// process computes.
    processor: Option<(u64, u64, u64)>,
    /// Frames that a device refused.
    pub write_failures: u64,
    /// Frames written.
    pub writes: u64,
    /// Rounds of the loop.
    pub rounds: u64,
}

impl Meter {
    /// Starts counting; bins have `bin_ns`, 0 without bins. `real`: whether the clock goes on while a process computes.
    pub fn new(bin_ns: u64, real: bool) -> Meter {
        Meter {
            begin_ns: monotonic_ns(),
            cpu_begin_ns: thread_cpu_ns(),
            spun_ns: 0,
            lateness: Histogram::new(),
            read_lag: Histogram::new(),
            unstamped_frames: 0,
            held: Histogram::new(),
            bin_ns,
            bins_missed: 0,
            malformed_frames: 0,
            processor: real.then(cpu_ns).map(|(user, system)| (user, system, 0)),
            write_failures: 0,
            writes: 0,
            rounds: 0,
        }
    }

    /// Counts a frame that was read at `now` and entered its device at `at`, if known.
    pub fn read(&mut self, now: Time, at: Option<Time>) {
        match at {
            Some(at) => self.read_lag.add(now.since(at).0, 1),
            None => self.unstamped_frames += 1,
        }
    }

    /// Counts packets that were written `late` after they were due, and `held` after the first of them arrived.
    pub fn delivered(&mut self, late: Dur, held: Dur, packets: u32) {
        self.lateness.add(late.0, u64::from(packets));
        self.held.add(held.0, u64::from(packets));
    }

    /// Counts an event that the emulator processed `late`.
    pub fn came_late(&mut self, late: Dur) {
        self.bins_missed += late.0.checked_div(self.bin_ns).unwrap_or(0);
    }

    /// Counts time spent spinning.
    pub fn spun(&mut self, ns: u64) {
        self.spun_ns += ns;
    }

    /// The processor time since the last row, without spinning.
    pub fn processor(&mut self, at: Time) -> Option<ProcessorRow> {
        let (user, system, spun) = self.processor?;
        let now = cpu_ns();
        self.processor = Some((now.0, now.1, self.spun_ns));
        let user_ns = (now.0 - user).saturating_sub(self.spun_ns - spun);
        Some(ProcessorRow { time_ns: at.0, part: ProcessPart::Network as u8, user_ns, system_ns: now.1 - system })
    }

    /// All figures by name. The name gives the unit; shares are fractions of 1.
    pub fn stats(&self, network: &Statistics) -> BTreeMap<String, f64> {
        let (cpu, busy) = self.cpu_shares();
        let counts = [
            ("packets", network.packets),
            ("frames", network.frames),
            ("events", network.events),
            ("delivered_packets", network.delivered_packets),
            ("dropped_packets", network.dropped_packets),
            ("marked_packets", network.marked_packets),
            ("unrouted_packets", network.unrouted_packets),
            ("flooded_packets", network.flooded_packets),
            ("memory_drops", network.memory_frames),
            ("malformed_frames", self.malformed_frames),
            ("write_failures", self.write_failures),
            ("writes", self.writes),
            ("rounds", self.rounds),
            ("bins_missed", self.bins_missed),
            ("lateness_p50_ns", self.lateness.quantile(0.5)),
            ("lateness_p99_ns", self.lateness.quantile(0.99)),
            ("lateness_max_ns", self.lateness.max()),
            ("read_lag_p50_ns", self.read_lag.quantile(0.5)),
            ("read_lag_p99_ns", self.read_lag.quantile(0.99)),
            ("read_lag_max_ns", self.read_lag.max()),
            ("unstamped_frames", self.unstamped_frames),
            ("held_p50_ns", self.held.quantile(0.5)),
            ("held_max_ns", self.held.max()),
        ];
        let mut stats: BTreeMap<String, f64> = counts.map(|(name, count)| (name.to_owned(), count as f64)).into();
        stats.insert("cpu_share".to_owned(), cpu);
        stats.insert("busy_share".to_owned(), busy);
        stats
    }

    /// Processor time divided by wall time, with and without spinning.
    fn cpu_shares(&self) -> (f64, f64) {
        let wall = (monotonic_ns() - self.begin_ns).max(1) as f64;
        let cpu = (thread_cpu_ns() - self.cpu_begin_ns) as f64;
        (cpu / wall, (cpu - self.spun_ns as f64).max(0.0) / wall)
    }

    /// Reasons not to trust the figures of this run.
    pub fn warnings(&self, network: &Statistics, refused: u64) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut warn = |condition: bool, text: &dyn Fn() -> String| {
            if condition {
                warnings.push(text());
            }
        };
        let (late, (_, busy)) = (self.lateness.quantile(0.99), self.cpu_shares());
        warn(late > MAX_LATENESS_NS, &|| {
            format!("one packet in a hundred was delivered {:.2} ms late or more: {REMEDY}", late as f64 / 1e6)
        });
        warn(busy > MAX_BUSY, &|| format!("the emulator needed {:.0} % of a processor: {REMEDY}", 100.0 * busy));
        let shortages = [
            (self.bins_missed, "bins of the links passed while the emulator did not run"),
            (network.memory_frames, "frames found no memory; give the emulator more, or let less be under way"),
            (self.write_failures, "frames were not taken by their device"),
            (self.malformed_frames, "frames were malformed and dropped"),
            (
                refused,
                "frames were lost because their host's device was full; a longer queue there (txqueuelen) holds them",
            ),
        ];
        for (count, what) in shortages {
            warn(count > 0, &|| format!("{count} {what}"));
        }
        warnings
    }
}

const REMEDY: &str = "the machine is too slow or too busy for this plan; lower the rate or run fewer other programs";
