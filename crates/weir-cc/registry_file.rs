// Reads cc/registry.txt; part of the build script and of its test.

use std::{collections::BTreeSet, path::Path};

/// Folders of `cc/` that hold no congestion control.
const NOT_A_CONTROL: [&str; 2] = ["include", "shim"];

/// The names that `cc/registry.txt` lists, each once and with its source; every folder with a source is listed.
pub fn registered(root: &Path) -> Result<Vec<String>, String> {
    let path = root.join("registry.txt");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let names: Vec<String> = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or("").trim())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    let mut seen = BTreeSet::new();
    for name in &names {
        if !seen.insert(name) {
            return Err(format!("cc/registry.txt lists {name} twice"));
        }
        if !has_source(root, name) {
            return Err(format!("cc/registry.txt lists {name}, but there is no cc/{name}/{name}.c"));
        }
    }
    for name in folders(root)? {
        if has_source(root, &name) && !names.contains(&name) {
            return Err(format!("cc/registry.txt does not list {name}: add a line for cc/{name}/{name}.c"));
        }
    }
    Ok(names)
}

fn has_source(root: &Path, name: &str) -> bool {
    root.join(name).join(format!("{name}.c")).is_file()
}

fn folders(root: &Path) -> Result<Vec<String>, String> {
    let entries = std::fs::read_dir(root).map_err(|error| format!("{}: {error}", root.display()))?;
    Ok(entries
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !NOT_A_CONTROL.contains(&name.as_str()))
        .collect())
}
