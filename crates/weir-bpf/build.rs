//! Compiles every congestion control of `cc/registry.txt` for BPF and generates the table of objects and sources.
//!
//! Without clang the table has no objects, only the reason; the binary then compiles the embedded sources on demand.

#[path = "../weir-cc/registry_file.rs"]
mod registry_file;

use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};
use weir_cc_build::{BpfBuild, Confinement, Sources, compile_bpf};

fn main() {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .join("../../cc")
        .canonicalize()
        .expect("the folder cc/ of the repository");
    let names = registry_file::registered(&root).unwrap_or_else(|problem| panic!("{problem}"));
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("embedded.rs"), table(&root, &out, &names)).expect("OUT_DIR is writable");
    // Relative to the crate: cargo keeps the path, and a copied folder of builds would watch the sources of another tree.
    println!("cargo::rerun-if-changed=../../cc");
    println!("cargo::rerun-if-changed=../weir-cc/registry_file.rs");
    println!("cargo::rerun-if-env-changed=WEIR_CLANG");
    // If clang is installed later, a change of the PATH's folders goes unnoticed: the binary then compiles by itself.
    println!("cargo::rerun-if-env-changed=PATH");
}

fn table(root: &Path, out: &Path, names: &[String]) -> String {
    let mut text = String::from("/// Every registered congestion control.\n");
    writeln!(text, "pub(crate) static EMBEDDED: [Embedded; {}] = [", names.len()).expect("a string");
    for name in names {
        let source = root.join(name).join(format!("{name}.c"));
        let object = compile(&source, out, name, &[]);
        if object.is_none() && name == &names[0] {
            println!("cargo::warning=no clang: weir-bpf gets no BPF objects, and needs clang when it loads one");
        }
        // Only controls with this operation differ between kernels with its old and its new signature.
        let code = fs::read_to_string(&source).expect("registered sources are readable");
        let before_6_10 =
            if code.contains("cong_control") { compile(&source, out, name, &["WEIR_OLD_CONG_CONTROL"]) } else { None };
        writeln!(text, "    Embedded {{").expect("a string");
        writeln!(text, "        name: {name:?},").expect("a string");
        writeln!(text, "        source: include_str!({:?}),", source.display().to_string()).expect("a string");
        writeln!(text, "        object: {},", included(object.as_deref())).expect("a string");
        writeln!(text, "        before_6_10: {},", included(before_6_10.as_deref())).expect("a string");
        writeln!(text, "    }},").expect("a string");
    }
    text.push_str("];\n");
    text
}

fn included(object: Option<&Path>) -> String {
    object.map_or("None".into(), |path| format!("Some(include_bytes!({:?}))", path.display().to_string()))
}

fn compile(source: &Path, out: &Path, name: &str, defines: &[&str]) -> Option<PathBuf> {
    let built = Sources::read(source).and_then(|sources| compile_bpf(&sources, defines, &Confinement::Off));
    match built.unwrap_or_else(|error| panic!("{error}")) {
        BpfBuild::Object(bytes) => {
            let path = out.join(format!("{name}{}.o", defines.concat()));
            fs::write(&path, bytes).expect("OUT_DIR is writable");
            Some(path)
        }
        BpfBuild::Refused(messages) => panic!("{} does not compile for BPF:\n{messages}", source.display()),
        BpfBuild::NoClang(_) => None,
    }
}
