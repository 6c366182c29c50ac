//! Objects in Python that decide for a flow.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir_cc::{Decider, Decision, Registration, Report};

/// Calls an object with the fields of a report by name; it returns window, pacing rate and time until the next call.
struct Callable(Py<PyAny>);

impl Decider for Callable {
    fn decide(&self, report: &Report) -> Result<Decision, String> {
        Python::attach(|py| {
            let (window_packets, pacing_bytes_per_s, after_us) =
                self.0.call(py, (), Some(&fields(py, report)?))?.extract(py)?;
            Ok(Decision { window_packets, pacing_bytes_per_s, after_us })
        })
        .map_err(|error: PyErr| error.to_string())
    }
}

fn fields<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("first", report.first)?;
    fields.set_item("now_us", report.now_us)?;
    fields.set_item("interval_us", report.interval_us)?;
    fields.set_item("sent_packets", report.sent_packets)?;
    fields.set_item("acked_packets", report.acked_packets)?;
    fields.set_item("lost_packets", report.lost_packets)?;
    fields.set_item("marked_packets", report.marked_packets)?;
    fields.set_item("timeouts", report.timeouts)?;
    fields.set_item("packet_bytes", report.packet_bytes)?;
    fields.set_item("rtt_us", report.rtt_us)?;
    fields.set_item("rtt_mean_us", report.rtt_mean_us)?;
    fields.set_item("srtt_us", report.srtt_us)?;
    fields.set_item("rtt_min_us", report.rtt_min_us)?;
    fields.set_item("in_flight_packets", report.in_flight_packets)?;
    fields.set_item("window_packets", report.window_packets)?;
    fields.set_item("pacing_bytes_per_s", report.pacing_bytes_per_s)?;
    fields.set_item("send_bps", report.send_bps())?;
    fields.set_item("delivery_bps", report.delivery_bps())?;
    fields.set_item("app_limited", report.app_limited)?;
    fields.set_item("seed", report.seed)?;
    Ok(fields)
}

/// The registration of an object that decides for a flow; it ends with this.
#[pyclass(frozen, module = "weir._weir")]
pub(crate) struct Asked(Registration);

#[pymethods]
impl Asked {
    #[new]
    fn new(name: &str, decide: Py<PyAny>) -> Asked {
        Asked(Registration::new(name, Arc::new(Callable(decide))))
    }

    /// The transport of the flow: these fields instead of its own.
    fn transport<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let options = PyDict::new(py);
        options.set_item(weir_cc::DECIDER, self.0.number())?;
        let transport = PyDict::new(py);
        transport.set_item("cc", weir_cc::ASKED)?;
        transport.set_item("cc_options", options)?;
        Ok(transport)
    }
}
