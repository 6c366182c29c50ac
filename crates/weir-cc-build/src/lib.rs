//! Congestion controls that users write: compiles their C files, and loads what was compiled.
//!
//! Both are at the edge. A compiler runs confined, on a copy of the sources. A shared object is a program, so that only a
//! process loads one which is there for it ([`permit_loading`]); [`weir_cc::find`] then finds it by its path.

mod compile;
mod confined;
mod dependencies;
mod explain;
mod inspect;
mod library;
mod sources;

pub use compile::{BpfBuild, BpfCheck, Native, build, check_bpf, compile, compile_bpf, recipe, write_headers};
pub use confined::Confinement;
pub use library::permit_loading;
pub use sources::Sources;
