//! weir-cc.
