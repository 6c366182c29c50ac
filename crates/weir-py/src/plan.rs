//! Plans.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weir_plan::Plan;

/// Reads a plan.
pub(crate) fn parse(json: &str) -> PyResult<Plan> {
    Plan::from_json(json).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Validates a plan; `ValueError` says where it is wrong and what was expected.
#[pyfunction]
pub(crate) fn check_plan(py: Python<'_>, json: &str) -> PyResult<()> {
    py.detach(|| parse(json).map(drop))
}

/// The JSON schema of a plan, as text.
#[pyfunction]
pub(crate) fn plan_schema() -> String {
    format!("{:#}\n", weir_plan::schema())
}

/// What the elements of links say of themselves, as JSON.
#[pyfunction]
pub(crate) fn elements() -> String {
    weir_plan::elements().to_string()
}
