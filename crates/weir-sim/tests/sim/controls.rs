//! The stack treats a user's congestion control as a registered one, by the attributes in its source.

use std::{fs, path::PathBuf};

use weir_cc_build::Confinement;
use weir_plan::{Source, Stack};
use weir_sim::{Options, Tables};

use crate::common::{MS, S, add_flow, droptail, dumbbell, events, run_with, tcp};
use crate::determinism::assert_same;

const MBIT: u64 = 1_000_000;

/// A registered control under another name and without the operation `lacking`, built as a user's.
#[allow(clippy::disallowed_methods, reason = "a test reads a source of cc/")]
fn copy_of(name: &str, lacking: &str, folder: &tempfile::TempDir) -> PathBuf {
    let registered = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../cc/{name}/{name}.c"));
    let text = fs::read_to_string(registered).expect("the source of a registered control");
    let named = format!("\"{name}\"");
    assert_eq!(text.matches(&named).count(), 1, "{name} says its name once");
    let copy = folder.path().join("copy.c");
    fs::write(&copy, text.replace(&named, "\"copy\"").replace(lacking, "")).expect("a folder of the test's own");
    weir_cc_build::permit_loading();
    weir_cc_build::build(&copy, folder.path(), &Confinement::Off).expect("it compiles under another name")
}

fn tables(cc: &str, stack: Stack) -> Tables {
    let mut plan = dumbbell(1, 1000 * MBIT, 20 * MBIT, 40 * MS, droptail(Some(60_000), None), 20 * S);
    add_flow(&mut plan, 0, 0, weir_plan::Tcp { stack, ..tcp(cc) }, Source::Bulk);
    run_with(&plan, Options::default())
}

#[test]
fn a_copy_under_another_name_gives_the_same_tables() {
    for name in ["reno", "scalable"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let copy = copy_of(name, "no operation", &folder);
        for stack in [Stack::Linux, Stack::Linux26] {
            let registered = tables(name, stack);
            let reductions = events(&registered, "recovery", 0).len();
            assert!(reductions > 3, "{reductions} reductions of the window: too few to tell controls apart");
            assert_same(&registered, &tables(copy.to_str().expect("UTF-8"), stack), &[])
                .unwrap_or_else(|error| panic!("{name} with {stack:?}: {error}"));
        }
    }
}

#[test]
fn the_floor_of_rate_halving_is_the_control_s() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copy = copy_of("reno", "OP(min_cwnd, tcp_reno_min_cwnd)", &folder);
    let copy = copy.to_str().expect("UTF-8");
    assert_same(&tables("reno", Stack::Linux), &tables(copy, Stack::Linux), &[]).expect("it halves no rate");
    assert_same(&tables("reno", Stack::Linux26), &tables(copy, Stack::Linux26), &[])
        .expect_err("without the operation the window stops at the threshold");
}
