//! Passes the build's compiler, profile and target to the crate.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = Command::new(compiler).arg("--version").output().ok().and_then(|o| String::from_utf8(o.stdout).ok());
    println!("cargo:rustc-env=WEIR_RUSTC={}", version.as_deref().unwrap_or("unknown").trim());
    for (name, variable) in [("WEIR_PROFILE", "PROFILE"), ("WEIR_TARGET", "TARGET")] {
        println!("cargo:rustc-env={name}={}", std::env::var(variable).unwrap_or_default());
    }
}
