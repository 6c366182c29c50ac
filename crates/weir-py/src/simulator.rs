//! The simulator.

use std::collections::BTreeMap;
use std::io;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use weir_plan::Plan;
use weir_sim::trace::{Capture, PcapWriter, TraceRecord, write_log};
use weir_sim::{EVENT_KINDS, Simulation};
use weir_units::Time;

use crate::column::Column;
use crate::plan::parse;

/// A simulation of one plan.
#[pyclass(module = "weir._weir")]
pub(crate) struct Simulator {
    simulation: Simulation,
    plan: Plan,
    /// The files' headers have been handed over.
    trace_begun: bool,
}

#[pymethods]
impl Simulator {
    #[new]
    fn new(py: Python<'_>, plan: &str) -> PyResult<Simulator> {
        py.detach(|| {
            let plan = parse(plan)?;
            let simulation = Simulation::new(&plan).map_err(|error| PyValueError::new_err(error.to_string()))?;
            Ok(Simulator { simulation, plan, trace_begun: false })
        })
    }

    /// Simulates until an instant; whether the plan has ended. After an error the simulation is of no use.
    fn advance(&mut self, py: Python<'_>, until_ns: u64) -> PyResult<bool> {
        py.detach(|| weir_cc::caught(|| self.simulation.advance(Time(until_ns))))
            .map_err(|fault| PyValueError::new_err(fault.to_string()))
    }

    /// The instant reached.
    #[getter]
    fn now_ns(&self) -> u64 {
        self.simulation.now().as_nanos()
    }

    /// The rows recorded since the last call.
    fn drain<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tables = self.simulation.drain();
        let result = PyDict::new(py);
        let delays = [("delays", tables.delays.into_columns()), ("delay_bins", tables.delay_bins.into_columns())];
        let delays = delays.into_iter().filter(|_| self.plan.measure.delay_ns > 0);
        let always = [
            ("flows", tables.flows.into_columns()),
            ("goodput", tables.goodput.into_columns()),
            ("samples", tables.samples.into_columns()),
            ("links", tables.links.into_columns()),
            ("events", tables.events.into_columns()),
        ];
        for (name, columns) in always.into_iter().chain(delays) {
            let table = PyDict::new(py);
            for (column, values) in columns {
                table.set_item(column, Column::new(values).into_pyobject(py)?)?;
            }
            result.set_item(name, table)?;
        }
        Ok(result)
    }

    /// The files of the per-packet trace, as far as recorded since the last call; empty unless the plan asks for one.
    fn drain_trace<'py>(&mut self, py: Python<'py>) -> PyResult<BTreeMap<&'static str, Bound<'py, PyBytes>>> {
        if self.plan.measure.trace.is_none() {
            return Ok(BTreeMap::new());
        }
        let records = self.simulation.drain_trace();
        let with_header = !std::mem::replace(&mut self.trace_begun, true);
        let files = py.detach(|| trace_files(&self.plan, &records, with_header))?;
        Ok(files.into_iter().map(|(name, content)| (name, PyBytes::new(py, &content))).collect())
    }

    /// How much work it was.
    fn stats(&self) -> BTreeMap<&'static str, u64> {
        let done = self.simulation.statistics();
        BTreeMap::from([
            ("packets", done.packets),
            ("events", done.events),
            ("delivered_bytes", done.delivered_bytes),
            ("max_in_flight", done.max_in_flight),
        ])
    }
}

/// The records as the parts of files that follow what was written before.
fn trace_files(plan: &Plan, records: &[TraceRecord], with_header: bool) -> io::Result<Vec<(&'static str, Vec<u8>)>> {
    type Encode = fn(&[TraceRecord], &Plan, &mut Vec<u8>) -> io::Result<()>;
    let files: [(&'static str, Encode); 3] = [
        ("senders.pcap", |records, plan, out| PcapWriter::new(plan, Capture::Senders, out)?.write(records)),
        ("receivers.pcap", |records, plan, out| PcapWriter::new(plan, Capture::Receivers, out)?.write(records)),
        ("packets.csv", |records, plan, out| write_log(records, plan, out)),
    ];
    let encode = |(name, encode): (&'static str, Encode)| {
        let (mut content, mut header) = (Vec::new(), Vec::new());
        encode(records, plan, &mut content)?;
        if !with_header {
            encode(&[], plan, &mut header)?;
        }
        Ok((name, content.split_off(header.len())))
    };
    files.into_iter().map(encode).collect()
}

/// Names of the values of column `kind` of table `events`.
#[pyfunction]
pub(crate) fn event_kinds() -> Vec<&'static str> {
    EVENT_KINDS.to_vec()
}
