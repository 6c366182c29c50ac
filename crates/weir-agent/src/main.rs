//! `weir-agent`: generates and sinks traffic on a node.

use std::process::ExitCode;

use weir_agent::cli;

fn main() -> ExitCode {
    cli::main(std::env::args_os())
}
