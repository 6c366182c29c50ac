//! Statistics of the ports of a switch, in the intervals of `measure.links`: table `ports`.

use weir_run::PortRow;
use weir_units::Time;

/// Statistics of each pair of output and input port.
pub(crate) struct Meter {
    node: u32,
    interval_ns: u64,
    /// End of the present interval.
    end: u64,
    /// Links of the input ports, and of the output ports with whether they are recorded.
    inputs: Vec<u32>,
    outputs: Vec<(u32, bool)>,
    pairs: Vec<Pair>,
    /// By output: the input that it served last.
    last: Vec<Option<usize>>,
    rows: Vec<PortRow>,
}

#[derive(Clone, Copy, Default)]
struct Pair {
    in_packets: u64,
    in_bytes: u64,
    out_packets: u64,
    out_bytes: u64,
    drop_packets: u64,
    drop_bytes: u64,
    queue_packets: u64,
    queue_bytes: u64,
    queue_max_bytes: u64,
    loss_runs: u64,
    loss_run_max: u64,
    service_runs: u64,
    service_run_max: u64,
    starved_max_ns: u64,
    /// Packets lost, and served, one after another up to now.
    losing: u64,
    serving: u64,
    /// Since when packets have come or waited of which none was served.
    waiting_since: Option<Time>,
}

impl Pair {
    /// The same queue and runs at the beginning of an interval.
    fn next_interval(self) -> Pair {
        Pair {
            queue_packets: self.queue_packets,
            queue_bytes: self.queue_bytes,
            queue_max_bytes: self.queue_bytes,
            losing: self.losing,
            serving: self.serving,
            // An input that has nothing and gets nothing does not wait.
            waiting_since: self.waiting_since.filter(|_| self.queue_packets + self.in_packets > 0),
            ..Pair::default()
        }
    }

    fn starved(&mut self, now: Time) {
        if let Some(since) = self.waiting_since {
            self.starved_max_ns = self.starved_max_ns.max(now.since(since).0);
        }
    }
}

impl Meter {
    /// Statistics of node `node`; `outputs` has the links of the output ports and whether they are recorded.
    pub fn new(node: u32, interval_ns: u64, inputs: Vec<u32>, outputs: Vec<(u32, bool)>) -> Meter {
        Meter {
            node,
            interval_ns,
            end: interval_ns,
            pairs: vec![Pair::default(); inputs.len() * outputs.len()],
            last: vec![None; outputs.len()],
            inputs,
            outputs,
            rows: Vec::new(),
        }
    }

    fn pair(&mut self, output: usize, input: usize) -> &mut Pair {
        &mut self.pairs[output * self.inputs.len() + input]
    }

    /// A packet has come into the queue of an output port.
    pub fn admitted(&mut self, now: Time, output: usize, input: usize, ip_bytes: u32) {
        let bytes = u64::from(ip_bytes);
        let pair = self.arrived(now, output, input, bytes);
        pair.losing = 0;
        pair.queue_packets += 1;
        pair.queue_bytes += bytes;
        pair.queue_max_bytes = pair.queue_max_bytes.max(pair.queue_bytes);
    }

    /// A packet was dropped.
    pub fn dropped(&mut self, now: Time, output: usize, input: usize, ip_bytes: u32) {
        let bytes = u64::from(ip_bytes);
        let pair = self.arrived(now, output, input, bytes);
        pair.drop_packets += 1;
        pair.drop_bytes += bytes;
        pair.loss_runs += u64::from(pair.losing == 0);
        pair.losing += 1;
        pair.loss_run_max = pair.loss_run_max.max(pair.losing);
    }

    fn arrived(&mut self, now: Time, output: usize, input: usize, bytes: u64) -> &mut Pair {
        let pair = self.pair(output, input);
        pair.in_packets += 1;
        pair.in_bytes += bytes;
        pair.waiting_since.get_or_insert(now);
        pair
    }

    /// A packet begins its transmission.
    pub fn served(&mut self, now: Time, output: usize, input: usize, ip_bytes: u32) {
        let again = self.last[output].replace(input) == Some(input);
        let bytes = u64::from(ip_bytes);
        let pair = self.pair(output, input);
        pair.out_packets += 1;
        pair.out_bytes += bytes;
        pair.queue_packets -= 1;
        pair.queue_bytes -= bytes;
        pair.service_runs += u64::from(!again);
        pair.serving = if again { pair.serving + 1 } else { 1 };
        pair.service_run_max = pair.service_run_max.max(pair.serving);
        pair.starved(now);
        pair.waiting_since = (pair.queue_packets > 0).then_some(now);
    }

    /// Closes the intervals that end by `now`; to be called before anything else happens then.
    #[inline]
    pub fn roll(&mut self, now: Time) {
        while now.0 >= self.end {
            self.close();
        }
    }

    #[cold]
    fn close(&mut self) {
        let end = Time(self.end);
        self.end += self.interval_ns;
        for (index, pair) in self.pairs.iter_mut().enumerate() {
            let (output, input) = (index / self.inputs.len(), index % self.inputs.len());
            pair.starved(end);
            let closed = std::mem::replace(pair, pair.next_interval());
            let (link, recorded) = self.outputs[output];
            if recorded && closed.in_packets + closed.out_packets + closed.queue_packets > 0 {
                self.rows.push(closed.row(end, self.node, link, self.inputs[input]));
            }
        }
    }

    /// Moves the rows of the closed intervals to `rows`.
    pub fn drain(&mut self, now: Time, rows: &mut Vec<PortRow>) {
        self.roll(now);
        rows.append(&mut self.rows);
    }
}

impl Pair {
    fn row(&self, end: Time, node: u32, output: u32, input: u32) -> PortRow {
        PortRow {
            time_ns: end.0,
            node,
            output,
            input,
            in_packets: self.in_packets,
            in_bytes: self.in_bytes,
            out_packets: self.out_packets,
            out_bytes: self.out_bytes,
            drop_packets: self.drop_packets,
            drop_bytes: self.drop_bytes,
            queue_bytes: self.queue_bytes,
            queue_packets: self.queue_packets,
            queue_max_bytes: self.queue_max_bytes,
            loss_runs: self.loss_runs,
            loss_run_max: self.loss_run_max,
            service_runs: self.service_runs,
            service_run_max: self.service_run_max,
            starved_max_ns: self.starved_max_ns,
        }
    }
}
