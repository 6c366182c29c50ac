//! Inspects a shared object by reading the file, without running any of it.

use object::{File, Object, ObjectSection, ObjectSymbol, SectionFlags, SymbolKind};

/// Bytes of variables in every C compiler's own start-up code.
const OF_THE_COMPILER: u64 = 16;
const NAMES_OF_THE_COMPILER: [&str; 3] = ["completed.0", "__dso_handle", "__TMC_END__"];

/// The variables in the object that calls could change, and flows would share; empty if there are none.
///
/// # Errors
/// Why it is no shared object.
pub(crate) fn variables(bytes: &[u8]) -> Result<Vec<String>, String> {
    let file = File::parse(bytes).map_err(|error| format!("it is no shared object ({error})"))?;
    let mut names: Vec<String> = file
        .symbols()
        .filter(|symbol| symbol.size() > 0 && matches!(symbol.kind(), SymbolKind::Data | SymbolKind::Tls))
        .filter(|symbol| {
            symbol.section_index().and_then(|index| file.section_by_index(index).ok()).is_some_and(|s| is_variable(&s))
        })
        .filter_map(|symbol| symbol.name().ok().map(str::to_owned))
        .filter(|name| !NAMES_OF_THE_COMPILER.contains(&name.as_str()))
        .map(|name| name.split('.').next().unwrap_or_default().to_owned())
        .collect();
    names.sort();
    names.dedup();
    let held: u64 = file.sections().filter(is_variable).map(|section| section.size()).sum();
    if names.is_empty() && file.symbols().next().is_none() && held > OF_THE_COMPILER {
        names.push("variables without a name".into());
    }
    Ok(names)
}

/// Whether a loader would find the symbol `name`.
pub(crate) fn exports(bytes: &[u8], name: &str) -> bool {
    File::parse(bytes).is_ok_and(|file| {
        file.dynamic_symbols().any(|symbol| symbol.is_definition() && symbol.name().is_ok_and(|found| found == name))
    })
}

/// Whether it has code that runs when it is loaded.
pub(crate) fn runs_at_load(bytes: &[u8]) -> bool {
    const AT_LOAD: [&str; 5] = [".init_array", ".preinit_array", ".fini_array", ".ctors", ".init"];
    File::parse(bytes).is_ok_and(|file| {
        file.sections().any(|section| section.size() > 0 && section.name().is_ok_and(|name| AT_LOAD.contains(&name)))
    })
}

/// Whether a section is written after loading; `.data.rel.ro` and the like are protected before the first call.
fn is_variable<'data>(section: &impl ObjectSection<'data>) -> bool {
    const VARIABLES: [&str; 4] = [".data", ".bss", ".tdata", ".tbss"];
    let SectionFlags::Elf { sh_flags } = section.flags() else { return false };
    let name = section.name().unwrap_or_default();
    let of = |prefix: &&str| name == *prefix || name.strip_prefix(*prefix).is_some_and(|rest| rest.starts_with('.'));
    sh_flags & u64::from(object::elf::SHF_WRITE) != 0 && VARIABLES.iter().any(of) && !name.starts_with(".data.rel.ro")
}
