//! Congestion controls.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weir_cc::BpfCheck;

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

/// Compiles a congestion control to a shared object and returns its path.
#[pyfunction]
pub(crate) fn cc_build(py: Python<'_>, source: PathBuf, out: PathBuf) -> PyResult<PathBuf> {
    py.detach(|| weir_cc::build(&source, &out)).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Whether a congestion control is in the subset of C that BPF takes: `accepted`, `refused` or `no clang`, and why.
#[pyfunction]
pub(crate) fn cc_check_bpf(py: Python<'_>, source: PathBuf) -> PyResult<(&'static str, String)> {
    let checked =
        py.detach(|| weir_cc::check_bpf(&source)).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(match checked {
        BpfCheck::Accepted => ("accepted", String::new()),
        BpfCheck::Refused(messages) => ("refused", messages),
        BpfCheck::NoClang(tried) => ("no clang", tried),
    })
}

/// Writes the headers that a congestion control includes below a folder and returns the include path.
#[pyfunction]
pub(crate) fn cc_headers(folder: PathBuf) -> PyResult<PathBuf> {
    weir_cc::write_headers(&folder).map_err(|error| PyValueError::new_err(error.to_string()))
}
