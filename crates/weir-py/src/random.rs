//! Random draws.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use weir_units::{Distribution, Stream};

/// `n` draws of `distribution` (a mapping such as `{"kind": "exponential", "mean": 3}`, or its JSON) from the
/// substream `stream` of `seed`.
#[pyfunction]
pub(crate) fn sample(
    py: Python<'_>,
    seed: u64,
    stream: &str,
    distribution: &Bound<'_, PyAny>,
    n: usize,
) -> PyResult<Vec<f64>> {
    let json = json_of(distribution)?;
    let distribution: Distribution =
        serde_json::from_str(&json).map_err(|e| PyValueError::new_err(format!("distribution: {e}")))?;
    py.detach(|| Stream::new(seed, stream).sample(&distribution, n)).map_err(|e| PyValueError::new_err(e.to_string()))
}

fn json_of(value: &Bound<'_, PyAny>) -> PyResult<String> {
    match value.cast::<PyString>() {
        Ok(text) => text.extract(),
        Err(_) => value.py().import("json")?.call_method1("dumps", (value,))?.extract(),
    }
}
