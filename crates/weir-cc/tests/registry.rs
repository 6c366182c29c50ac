//! Valid contents of `cc/registry.txt`: the build script's own check, on folders made for it.
#![allow(clippy::disallowed_methods, reason = "the tests read cc/")]

#[path = "../registry_file.rs"]
mod registry_file;

use registry_file::registered;
use std::{fs, path::Path};
use tempfile::TempDir;

fn folder(registry: &str, sources: &[&str]) -> TempDir {
    let root = tempfile::tempdir().expect("a temporary folder");
    fs::write(root.path().join("registry.txt"), registry).expect("writable");
    for name in sources {
        fs::create_dir(root.path().join(name)).expect("writable");
        fs::write(root.path().join(name).join(format!("{name}.c")), "").expect("writable");
    }
    root
}

fn problem(registry: &str, sources: &[&str]) -> String {
    registered(folder(registry, sources).path()).expect_err("a problem")
}

#[test]
fn one_line_registers_one_folder() {
    let root = folder("# comment\nreno\n\nbic # the paper of 2004\n", &["reno", "bic"]);
    fs::create_dir(root.path().join("shim")).expect("writable");
    fs::create_dir(root.path().join("begun")).expect("writable"); // no source yet
    assert_eq!(registered(root.path()).expect("valid"), ["reno", "bic"]);
}

#[test]
fn a_name_given_twice_is_refused() {
    assert_eq!(problem("reno\nreno\n", &["reno"]), "cc/registry.txt lists reno twice");
}

#[test]
fn a_name_without_its_source_is_refused() {
    assert!(problem("reno\nvegas\n", &["reno"]).contains("no cc/vegas/vegas.c"));
}

#[test]
fn a_source_that_is_not_listed_is_refused() {
    assert!(problem("reno\n", &["reno", "vegas"]).contains("does not list vegas"));
}

#[test]
fn a_missing_registry_is_named() {
    assert!(registered(Path::new("nowhere")).expect_err("missing").contains("registry.txt"));
}
