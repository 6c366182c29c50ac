//! weir-py.
