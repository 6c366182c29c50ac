//! A process without permission loads no users' controls. (A process of its own: the permission is permanent.)

use std::{fs, path::PathBuf};
use weir_cc::find;
use weir_cc_build::{Confinement, Native, Sources, compile};

#[test]
fn a_shared_object_is_not_loaded_by_just_any_process() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let object = folder.path().join("cc.so");
    let example = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/my_cc/my_cc.c");
    let sources = Sources::read(&example).expect("readable");
    compile(&sources, &object, &Native::default(), &Confinement::Off).expect("compiles");
    let name = object.to_str().expect("UTF-8");
    let refused = find(name).expect_err("not permitted").to_string();
    assert!(refused.contains("a shared object is a program, and this process loads none"), "{refused}");
    fs::write(&object, "").expect("writable");
    assert!(find(name).expect_err("not permitted").to_string().contains("a program"));
}
