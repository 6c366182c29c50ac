//! Congestion controls.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Every registered congestion control, as a JSON list.
#[pyfunction]
pub(crate) fn cc_list() -> PyResult<String> {
    json(&weir_cc::list().iter().map(weir_cc::Algorithm::describe).collect::<Vec<_>>())
}

/// The congestion control with a registered name, or of a shared object, as a JSON object.
#[pyfunction]
pub(crate) fn cc_describe(name: &str) -> PyResult<String> {
    let algorithm = weir_cc::find(name).map_err(|error| PyValueError::new_err(error.to_string()))?;
    json(&algorithm.describe())
}
