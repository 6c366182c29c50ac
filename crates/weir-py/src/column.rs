//! Columns of tables as Python buffers: numpy and Arrow read them in place.

use std::ffi::{CStr, c_int, c_void};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use weir_sim::Column as Values;

/// A column: an immutable one-dimensional buffer of integers.
#[pyclass(frozen, module = "weir._weir")]
pub(crate) struct Column {
    values: Values,
}

impl Column {
    pub(crate) fn new(values: Values) -> Column {
        Column { values }
    }

    /// First byte, number of elements, size of an element and its format as in Python's `struct`.
    fn layout(&self) -> (*const c_void, usize, usize, &'static CStr) {
        match &self.values {
            Values::U8(v) => (v.as_ptr().cast(), v.len(), 1, c"B"),
            Values::U32(v) => (v.as_ptr().cast(), v.len(), 4, c"I"),
            Values::U64(v) => (v.as_ptr().cast(), v.len(), 8, c"Q"),
            Values::I64(v) => (v.as_ptr().cast(), v.len(), 8, c"q"),
            Values::Name(v) => (v.as_ptr().cast(), v.len(), 16, c"16s"),
        }
    }
}

#[pymethods]
impl Column {
    fn __len__(&self) -> usize {
        self.layout().1
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill in"));
        }
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("a column cannot be written"));
        }
        let (data, count, size, format) = slf.get().layout();
        let wants = |flag: c_int| flags & flag == flag;
        // SAFETY: Python provides a view to fill in. The column is frozen, so its values stay in place as long as the
        // reference in `obj` lives; shape and strides point into the view itself, as the protocol allows.
        unsafe {
            (*view).buf = data.cast_mut();
            (*view).len = (count * size) as isize;
            (*view).readonly = 1;
            (*view).itemsize = size as isize;
            (*view).format = if wants(ffi::PyBUF_FORMAT) { format.as_ptr().cast_mut() } else { std::ptr::null_mut() };
            (*view).ndim = 1;
            // One dimension: its extent differs from `len`, which counts bytes, so it needs its own storage.
            (*view).internal = Box::into_raw(Box::new(count as isize)).cast();
            (*view).shape = if wants(ffi::PyBUF_ND) { (*view).internal.cast() } else { std::ptr::null_mut() };
            (*view).strides = if wants(ffi::PyBUF_STRIDES) { &raw mut (*view).itemsize } else { std::ptr::null_mut() };
            (*view).suboffsets = std::ptr::null_mut();
            (*view).obj = slf.into_any().into_ptr();
        }
        Ok(())
    }

    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: `__getbuffer__` made `internal` for this view, and Python releases a view once.
        drop(unsafe { Box::from_raw((*view).internal.cast::<isize>()) });
    }
}
