//! The simulator.

use std::collections::BTreeMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir_sim::{EVENT_KINDS, Simulation};
use weir_units::Time;

use crate::column::Column;
use crate::plan::parse;

/// A simulation of one plan.
#[pyclass(module = "weir._weir")]
pub(crate) struct Simulator {
    simulation: Simulation,
}

#[pymethods]
impl Simulator {
    #[new]
    fn new(py: Python<'_>, plan: &str) -> PyResult<Simulator> {
        let simulation =
            py.detach(|| Simulation::new(&parse(plan)?).map_err(|error| PyValueError::new_err(error.to_string())))?;
        Ok(Simulator { simulation })
    }

    /// Simulates until an instant; whether the plan has ended.
    fn advance(&mut self, py: Python<'_>, until_ns: u64) -> bool {
        py.detach(|| self.simulation.advance(Time(until_ns)))
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
        for (name, columns) in [
            ("flows", tables.flows.into_columns()),
            ("goodput", tables.goodput.into_columns()),
            ("samples", tables.samples.into_columns()),
            ("links", tables.links.into_columns()),
            ("events", tables.events.into_columns()),
        ] {
            let table = PyDict::new(py);
            for (column, values) in columns {
                table.set_item(column, Column::new(values).into_pyobject(py)?)?;
            }
            result.set_item(name, table)?;
        }
        Ok(result)
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

/// Names of the values of column `kind` of table `events`.
#[pyfunction]
pub(crate) fn event_kinds() -> Vec<&'static str> {
    EVENT_KINDS.to_vec()
}
