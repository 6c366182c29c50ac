//! Loads the congestion controls of `cc/` into the running Linux kernel as BPF `struct_ops`.
//!
//! clang compiles the sources when weir is built, and the objects are embedded; a user's own source is compiled on
//! demand. Before loading, the object's constants are set: the options' values, HZ, the name to register and whether
//! processes without privileges may choose it. A file descriptor holds a [`Loaded`] congestion control: it ends with
//! its process, however that ends, unless it is pinned ([`Pins::keep`]). Before Linux 6.4 a second process
//! ([`guarded`]) ensures that.

mod calls;
mod error;
mod fuzz;
mod guard;
mod hold;
mod kernel;
mod load;
mod names;
mod object;
mod parity;
mod pins;
mod record;
mod registered;
mod source;
mod status;

pub use error::{BpfError, Code};
pub use guard::guarded;
pub use hold::hold;
pub use kernel::{Kernel, Privilege, clock_granularity_ns, hz, why_not};
pub use load::{Loaded, Request, load};
pub use names::{check_name, default_name};
pub use object::{CompiledCc, CompiledOption};
pub use parity::{Difference, Parity, fuzzed};
pub use pins::{BPFFS, Pins};
pub use record::Recorder;
pub use source::{Source, compiled, trust_sources};
pub use status::{KernelCc, Status, loaded, status};
