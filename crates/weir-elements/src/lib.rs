//! weir-elements.
