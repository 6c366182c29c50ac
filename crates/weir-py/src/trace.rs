//! The files of a trace.

use std::collections::BTreeMap;
use std::io;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use weir_plan::Plan;
use weir_trace::{FILES, Files, Rows, TraceRecord};

use crate::plan::parse;

/// Parts of the files, by name.
pub(crate) type Parts<'py> = BTreeMap<&'static str, Bound<'py, PyBytes>>;

/// The files of a cell, with the parts not handed over yet.
pub(crate) struct Pending(Files<Vec<u8>>);

impl Pending {
    /// Begins the files.
    pub fn new() -> io::Result<Pending> {
        Files::new(Default::default()).map(Pending)
    }

    /// Adds the records of `records`, and hands over the new part of each file.
    pub fn hand_over<'py>(
        &mut self,
        py: Python<'py>,
        plan: &Plan,
        records: impl FnOnce() -> Vec<TraceRecord> + Send,
    ) -> PyResult<Parts<'py>> {
        let contents = py.detach(|| {
            self.0.write(&records(), plan)?;
            Ok::<_, io::Error>(self.0.outputs().map(std::mem::take))
        })?;
        Ok(FILES.into_iter().zip(contents).map(|(name, content)| (name, PyBytes::new(py, &content))).collect())
    }
}

/// Makes the files of a trace from the lab kernel's rows about single packets.
#[pyclass(module = "weir._weir")]
pub(crate) struct RowTrace {
    plan: Plan,
    rows: Rows,
    files: Pending,
}

#[pymethods]
impl RowTrace {
    #[new]
    fn new(plan: &str) -> PyResult<RowTrace> {
        let plan = parse(plan)?;
        let rows = Rows::from_plan(&plan).ok_or_else(|| PyValueError::new_err("the plan asks for no trace"))?;
        Ok(RowTrace { plan, rows, files: Pending::new()? })
    }

    /// Takes whole rows in the order of time, and returns the next part of each file.
    fn take<'py>(&mut self, py: Python<'py>, rows: &[u8]) -> PyResult<Parts<'py>> {
        self.files.hand_over(py, &self.plan, || self.rows.take(rows))
    }

    /// The last parts.
    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<Parts<'py>> {
        self.files.hand_over(py, &self.plan, || self.rows.finish())
    }
}

/// Names of the files of a trace: at the senders, at the receivers, and the log.
#[pyfunction]
pub(crate) fn trace_files() -> Vec<&'static str> {
    FILES.to_vec()
}
