//! Congestion controls.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use weir_cc_build::{BpfBuild, BpfCheck, Confinement, Sources};

fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Every registered congestion control, as a JSON list.
#[pyfunction]
pub(crate) fn cc_list() -> PyResult<String> {
    json(&weir_cc::list().iter().map(weir_cc::Algorithm::describe).collect::<Vec<_>>())
}

/// Every registered congestion control, those too that exist in the simulator only, as a JSON list.
#[pyfunction]
pub(crate) fn cc_everywhere() -> PyResult<String> {
    json(&weir_cc::everywhere().iter().map(weir_cc::Algorithm::describe).collect::<Vec<_>>())
}

/// Describes a registered congestion control, or that of a shared object, as a JSON object.
#[pyfunction]
pub(crate) fn cc_describe(py: Python<'_>, name: &str) -> PyResult<String> {
    let algorithm = py.detach(|| weir_cc::find(name)).map_err(value_error)?;
    json(&algorithm.describe())
}

/// Allows this process to load shared objects from now on: that is its purpose.
#[pyfunction]
pub(crate) fn cc_permit_loading() {
    weir_cc_build::permit_loading();
}

/// Tries a congestion control with random calls; returns the names of the probes that it showed.
#[pyfunction]
pub(crate) fn cc_try(py: Python<'_>, name: &str) -> PyResult<Vec<String>> {
    let algorithm = py.detach(|| weir_cc::find(name)).map_err(value_error)?;
    py.detach(|| weir_cc::trial(&algorithm)).map_err(value_error)
}

/// Asks a congestion control what every control should do; returns each requirement with what it does instead, or none,
/// and the RFC, or an empty text.
#[pyfunction]
pub(crate) fn cc_suite(py: Python<'_>, name: &str) -> PyResult<Vec<(&'static str, Option<String>, &'static str)>> {
    let algorithm = py.detach(|| weir_cc::find(name)).map_err(value_error)?;
    let found =
        py.detach(|| weir_cc::suite(&algorithm, &weir_cc::Demands::unknown(&algorithm))).map_err(value_error)?;
    Ok(found.into_iter().map(|one| (one.name, one.instead, one.source)).collect())
}

/// A C file and the headers beside it that it includes, with the content at the time of reading.
#[pyclass(frozen)]
pub(crate) struct CcSources(Sources);

#[pymethods]
impl CcSources {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<CcSources> {
        Ok(CcSources(py.detach(|| Sources::read(&path)).map_err(value_error)?))
    }

    /// The content of the C file.
    #[getter]
    fn main<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.main)
    }

    /// The headers: the path of each below the folder of the C file, and its content.
    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> Vec<(PathBuf, Bound<'py, PyBytes>)> {
        self.0.headers.iter().map(|(name, content)| (name.clone(), PyBytes::new(py, content))).collect()
    }
}

/// Compiles a congestion control to a shared object, loads nothing, and returns the compiler's warnings. The compiler
/// runs under the program `confine`, or unconfined if there is none.
#[pyfunction]
pub(crate) fn cc_compile(
    py: Python<'_>,
    sources: &CcSources,
    shared: PathBuf,
    built_from: String,
    sanitize: bool,
    confine: Option<PathBuf>,
) -> PyResult<String> {
    let native = weir_cc_build::Native { sanitize, built_from };
    py.detach(|| weir_cc_build::compile(&sources.0, &shared, &native, &confinement(confine))).map_err(value_error)
}

fn confinement(program: Option<PathBuf>) -> Confinement {
    program.map_or(Confinement::Off, Confinement::Under)
}

/// The inputs of an object besides its source: compiler, flags, headers.
#[pyfunction]
pub(crate) fn cc_recipe(sanitize: bool) -> PyResult<String> {
    weir_cc_build::recipe(sanitize).map_err(value_error)
}

/// Whether a congestion control is in the subset of C that BPF accepts: `accepted`, `refused` or `no clang`, and why.
#[pyfunction]
pub(crate) fn cc_check_bpf(
    py: Python<'_>,
    sources: &CcSources,
    confine: Option<PathBuf>,
) -> PyResult<(&'static str, String)> {
    Ok(match py.detach(|| weir_cc_build::check_bpf(&sources.0, &confinement(confine))).map_err(value_error)? {
        BpfCheck::Accepted => ("accepted", String::new()),
        BpfCheck::Refused(messages) => ("refused", messages),
        BpfCheck::NoClang(tried) => ("no clang", tried),
    })
}

/// Compiles a congestion control to a BPF object, with the `cong_control` of kernels before Linux 6.10 if `old`.
#[pyfunction]
pub(crate) fn cc_compile_bpf<'py>(
    py: Python<'py>,
    sources: &CcSources,
    old: bool,
    confine: Option<PathBuf>,
) -> PyResult<Bound<'py, PyBytes>> {
    let defines: &[&str] = if old { &["WEIR_OLD_CONG_CONTROL"] } else { &[] };
    let built = py.detach(|| weir_cc_build::compile_bpf(&sources.0, defines, &confinement(confine)));
    match built.map_err(value_error)? {
        BpfBuild::Object(bytes) => Ok(PyBytes::new(py, &bytes)),
        BpfBuild::Refused(messages) => Err(value_error(format!("it does not compile for BPF:\n{messages}"))),
        BpfBuild::NoClang(tried) => {
            Err(value_error(format!("there is no {tried:?} to compile it for BPF; install clang or set WEIR_CLANG")))
        }
    }
}

/// Writes the headers for congestion controls below a folder and returns the include path.
#[pyfunction]
pub(crate) fn cc_headers(folder: PathBuf) -> PyResult<PathBuf> {
    weir_cc_build::write_headers(&folder).map_err(value_error)
}

/// Size of a record of calls, bytes.
#[pyfunction]
pub(crate) fn cc_watch_bytes() -> usize {
    weir_cc::WATCH_BYTES
}

/// Records the calls of users' congestion controls in an open file, of which this process takes ownership.
#[pyfunction]
pub(crate) fn cc_watch_share(fd: i32) -> PyResult<()> {
    weir_cc::share(fd).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Parses a record of calls into a JSON object.
#[pyfunction]
pub(crate) fn cc_watched(record: &[u8]) -> PyResult<String> {
    json(&weir_cc::Watched::parse(record))
}

fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
