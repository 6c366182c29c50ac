//! The simulator.

use std::collections::BTreeMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir_plan::Plan;
use weir_sim::{EVENT_KINDS, Simulation};
use weir_units::Time;

use crate::column::Column;
use crate::plan::parse;
use crate::trace::{Parts, Pending};

/// A simulation of one plan.
#[pyclass(module = "weir._weir")]
pub(crate) struct Simulator {
    simulation: Simulation,
    plan: Plan,
    trace: Option<Pending>,
}

#[pymethods]
impl Simulator {
    #[new]
    fn new(py: Python<'_>, plan: &str) -> PyResult<Simulator> {
        py.detach(|| {
            let plan = parse(plan)?;
            let simulation = Simulation::new(&plan).map_err(|error| PyValueError::new_err(error.to_string()))?;
            let trace = plan.measure.trace.as_ref().map(|_| Pending::new()).transpose()?;
            Ok(Simulator { simulation, plan, trace })
        })
    }

    /// Simulates until an instant; returns whether the plan has ended. After an error the simulation is unusable.
    fn advance(&mut self, py: Python<'_>, until_ns: u64) -> PyResult<bool> {
        py.detach(|| weir_cc::caught(|| self.simulation.advance(Time(until_ns))))
            .map_err(|fault| PyValueError::new_err(fault.to_string()))
    }

    /// The current simulated time.
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
        let classes = Some(("classes", tables.classes.into_columns())).filter(|_| self.simulation.has_classes());
        let ports = Some(("ports", tables.ports.into_columns())).filter(|_| self.simulation.has_ports());
        let probes = Some(tables.probes).filter(|probes| probes.rows() > 0);
        let probes = probes.map(|probes| ("probes", probes.into_columns()));
        let acks = self.plan.measure.acks.as_ref().map(|_| ("acks", tables.acks.into_columns()));
        for (name, columns) in always.into_iter().chain(delays).chain(classes).chain(probes).chain(acks).chain(ports) {
            let table = PyDict::new(py);
            for (column, values) in columns {
                table.set_item(column, Column::new(values).into_pyobject(py)?)?;
            }
            result.set_item(name, table)?;
        }
        Ok(result)
    }

    /// The files of the per-packet trace, as far as recorded since the last call; empty unless the plan asks for one.
    fn drain_trace<'py>(&mut self, py: Python<'py>) -> PyResult<Parts<'py>> {
        match &mut self.trace {
            Some(files) => files.hand_over(py, &self.plan, || self.simulation.drain_trace()),
            None => Ok(BTreeMap::new()),
        }
    }

    /// Counters of the simulation's work.
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

/// The process keeps the memory that it frees, up to 256 MB.
#[pyfunction]
pub(crate) fn keep_freed_memory() {
    weir_sys::memory::keep_freed();
}

/// Names of the values of column `kind` of table `events`.
#[pyfunction]
pub(crate) fn event_kinds() -> Vec<&'static str> {
    EVENT_KINDS.to_vec()
}
