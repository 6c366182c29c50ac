//! weir-tcp.
