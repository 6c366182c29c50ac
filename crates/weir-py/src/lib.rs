//! The Python extension module `weir._weir`.
//!
//! It converts types, releases the GIL and turns errors into Python exceptions; it contains no logic. The stubs for
//! mypy are in `python/weir/_weir.pyi`.

mod asked;
mod cc;
mod column;
mod digest;
mod plan;
mod random;
mod simulator;
mod trace;

use std::collections::BTreeMap;

use pyo3::prelude::*;

/// The version of the Rust side; a test compares it with the package's.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// The build: `rustc`, `profile`, `target`.
#[pyfunction]
fn build_info() -> BTreeMap<&'static str, &'static str> {
    BTreeMap::from([("rustc", env!("WEIR_RUSTC")), ("profile", env!("WEIR_PROFILE")), ("target", env!("WEIR_TARGET"))])
}

/// The compiled half of weir.
#[pymodule]
fn _weir(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(version, module)?)?;
    module.add_function(wrap_pyfunction!(build_info, module)?)?;
    module.add_function(wrap_pyfunction!(plan::check_plan, module)?)?;
    module.add_function(wrap_pyfunction!(plan::plan_schema, module)?)?;
    module.add_function(wrap_pyfunction!(plan::elements, module)?)?;
    module.add_function(wrap_pyfunction!(cc::cc_list, module)?)?;
    module.add_function(wrap_pyfunction!(cc::cc_everywhere, module)?)?;
    module.add_function(wrap_pyfunction!(cc::cc_describe, module)?)?;
    module.add_function(wrap_pyfunction!(cc::cc_permit_loading, module)?)?;
    module.add_function(wrap_pyfunction!(cc::cc_try, module)?)?;
    module.add_function(wrap_pyfunction!(cc::cc_suite, module)?)?;
    module.add_function(wrap_pyfunction!(cc::cc_compile, module)?)?;
    module.add_function(wrap_pyfunction!(cc::cc_recipe, module)?)?;
    module.add_function(wrap_pyfunction!(cc::cc_watch_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(cc::cc_watch_share, module)?)?;
    module.add_function(wrap_pyfunction!(cc::cc_watched, module)?)?;
    module.add_function(wrap_pyfunction!(cc::cc_check_bpf, module)?)?;
    module.add_function(wrap_pyfunction!(cc::cc_compile_bpf, module)?)?;
    module.add_function(wrap_pyfunction!(cc::cc_headers, module)?)?;
    module.add_function(wrap_pyfunction!(digest::digest_file, module)?)?;
    module.add_function(wrap_pyfunction!(digest::digest_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(digest::plain_file, module)?)?;
    module.add_function(wrap_pyfunction!(digest::digest_plain, module)?)?;
    module.add_function(wrap_pyfunction!(random::sample, module)?)?;
    module.add_function(wrap_pyfunction!(simulator::event_kinds, module)?)?;
    module.add_function(wrap_pyfunction!(simulator::keep_freed_memory, module)?)?;
    module.add_class::<simulator::Simulator>()?;
    module.add_function(wrap_pyfunction!(trace::trace_files, module)?)?;
    module.add_class::<asked::Asked>()?;
    module.add_class::<cc::CcSources>()?;
    module.add_class::<trace::RowTrace>()?;
    module.add_class::<column::Column>()?;
    Ok(())
}
