//! weir-traffic.
