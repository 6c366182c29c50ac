//! Compiles every congestion control of `cc/registry.txt` and generates the table of their entry points.
//!
//! Refuses a folder that is not registered, a registered name without its folder, and a name given twice.

#![allow(clippy::disallowed_methods, reason = "a build script reads files and cargo's environment")]

#[path = "registry_file.rs"]
mod registry_file;

use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

fn main() {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .join("../../cc")
        .canonicalize()
        .expect("the folder cc/ of the repository");
    let names = registry_file::registered(&root).unwrap_or_else(|problem| panic!("{problem}"));
    compile(&root, &names);
    write_table(&names);
    // Relative to the crate: cargo keeps the path, and a copied folder of builds would watch the sources of another tree.
    println!("cargo::rerun-if-changed=../../cc");
    println!("cargo::rerun-if-changed=registry_file.rs");
}

fn compile(root: &Path, names: &[String]) {
    let mut build = cc::Build::new();
    build
        .include(root.join("include"))
        .std("gnu11")
        .opt_level(2)
        .warnings(true)
        .extra_warnings(true)
        .flag("-fno-strict-aliasing")
        .flag("-fvisibility=hidden")
        .flag_if_supported("-Werror=discarded-qualifiers")
        // No floating point: the kernel and BPF have none.
        .flag_if_supported("-mgeneral-regs-only");
    for name in names {
        build.file(root.join(name).join(format!("{name}.c")));
    }
    build.file(PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("src/layout.c"));
    println!("cargo::rerun-if-changed=src/layout.c");
    build.compile("weir_cc");
}

fn write_table(names: &[String]) {
    let mut text = String::new();
    writeln!(text, "unsafe extern \"C\" {{").expect("a string");
    for name in names {
        writeln!(text, "    static weir_cc_{}: Ops;", identifier(name)).expect("a string");
    }
    writeln!(text, "}}").expect("a string");
    writeln!(text, "/// The operations of every registered congestion control, with its folder's name.")
        .expect("a string");
    writeln!(text, "pub(crate) static BUILT_IN: [(&str, &Ops); {}] = [", names.len()).expect("a string");
    for name in names {
        writeln!(text, "    // SAFETY: a constant of the C source, never written.").expect("a string");
        writeln!(text, "    (\"{name}\", unsafe {{ &weir_cc_{} }}),", identifier(name)).expect("a string");
    }
    writeln!(text, "];").expect("a string");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it")).join("built_in.rs");
    fs::write(out, text).expect("OUT_DIR is writable");
}

fn identifier(name: &str) -> String {
    name.replace('-', "_")
}
