//! A C file and the headers beside it, read once, so that the compiled bytes are the hashed bytes.
//!
//! Headers are copied only from the source's folder and below. Others are withheld from the compiler: a header
//! elsewhere, a hidden file such as `.netrc`, a link that leads out of the folder, and precompiled headers, which gcc
//! would execute as its own code.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    io::Read,
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::{Component, Path, PathBuf},
};
use weir_cc::CcError;

/// Maximum bytes of one file.
const MAX_BYTES: u64 = 8 << 20;
/// Maximum number of files.
const MAX_FILES: usize = 100;

/// The C file of a congestion control, with the headers beside it that it includes.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The path of the C file, as the user wrote it.
    pub path: PathBuf,
    /// The content of the C file.
    pub main: Vec<u8>,
    /// Headers: the path of each below the folder of the C file, and its content, in the order of their inclusion.
    pub headers: Vec<(PathBuf, Vec<u8>)>,
    /// Files that an include names and that were not read: the name there, and why.
    pub(crate) left_out: Vec<(String, &'static str)>,
}

impl Sources {
    /// Reads the C file at `path` and its headers.
    ///
    /// # Errors
    /// [`CcError::Io`]; [`CcError::Source`] for a file that is too large, a link to no C file, a computed include.
    pub fn read(path: &Path) -> Result<Sources, CcError> {
        let refused = |reason: &str| CcError::Source { path: path.to_owned(), reason: reason.to_owned() };
        let real = fs::canonicalize(path).map_err(io(path))?;
        if path.is_symlink() && real.extension() != Some(OsStr::new("c")) {
            return Err(refused("it is a link to a file whose name does not end in .c"));
        }
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let main = content(path)?;
        let mut found =
            Sources { path: path.to_owned(), main: main.clone(), headers: Vec::new(), left_out: Vec::new() };
        let mut seen = BTreeSet::new();
        let mut waiting = included(path, &main)?.into_iter().map(|name| (PathBuf::new(), name)).collect::<Vec<_>>();
        while let Some((within, name)) = waiting.pop() {
            let place = match Place::of(folder, &within, &name) {
                Place::Absent => continue,
                Place::LeftOut(why) => {
                    found.left_out.push((name.to_string_lossy().into_owned(), why));
                    continue;
                }
                Place::Below(place) => place,
            };
            if !seen.insert(place.clone()) {
                continue;
            }
            if seen.len() >= MAX_FILES {
                return Err(refused(&format!("it includes more than {MAX_FILES} files")));
            }
            let header = content(&folder.join(&place))?;
            let inner = place.parent().unwrap_or(Path::new("")).to_owned();
            waiting.extend(included(&folder.join(&place), &header)?.into_iter().map(|name| (inner.clone(), name)));
            found.headers.push((place, header));
        }
        Ok(found)
    }
}

/// The place of an included file.
enum Place {
    /// Below the folder of the source.
    Below(PathBuf),
    /// It exists, but the compiler does not get it.
    LeftOut(&'static str),
    /// Nowhere beside the source; the compiler may have it.
    Absent,
}

impl Place {
    /// The place of `name`, which a file in `within` includes; `within` is below `folder`.
    fn of(folder: &Path, within: &Path, name: &Path) -> Place {
        let there = folder.join(within).join(name);
        let Ok(real) = fs::canonicalize(&there) else { return Place::Absent };
        const OUTSIDE: &str = "is not below the folder of the source: put it there";
        let (Some(place), Ok(base)) = (normal(&within.join(name)), fs::canonicalize(folder)) else {
            return Place::LeftOut(OUTSIDE);
        };
        let Ok(real) = real.strip_prefix(base) else { return Place::LeftOut(OUTSIDE) };
        if has(&place, is_hidden) || has(real, is_hidden) {
            return Place::LeftOut(
                "is a hidden file, or in a hidden folder: give it a name that does not begin with a dot",
            );
        }
        if has(&place, is_precompiled) {
            return Place::LeftOut("is a precompiled header, which the compiler would execute: include the header");
        }
        if !there.is_file() {
            return Place::LeftOut("is not a file");
        }
        Place::Below(place)
    }
}

/// A relative path without `.` and `..`; none if it leads out.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => found.push(name),
            Component::ParentDir if found.pop() => {}
            _ => return None,
        }
    }
    Some(found)
}

fn has(path: &Path, is: fn(&[u8]) -> bool) -> bool {
    path.components().any(|part| is(part.as_os_str().as_bytes()))
}

fn is_hidden(name: &[u8]) -> bool {
    name.starts_with(b".")
}

fn is_precompiled(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with(b".gch") || name.ends_with(b".pch")
}

/// The names in quotes after every `include` of a file, with anything in between: too many rather than too few.
///
/// # Errors
/// [`CcError::Source`] for an include whose name is computed.
fn included(path: &Path, text: &[u8]) -> Result<Vec<PathBuf>, CcError> {
    const WORD: &[u8] = b"include";
    let mut names = Vec::new();
    let mut at = 0;
    while let Some(found) = text[at..].windows(WORD.len()).position(|window| window == WORD) {
        let word = at + found;
        at = word + WORD.len();
        let rest = after_space(&text[at..]);
        let rest = rest.strip_prefix(b"(").map_or(rest, after_space);
        let quoted = rest.strip_prefix(b"\"");
        if let Some(name) = quoted.and_then(|rest| rest.split(|byte| matches!(byte, b'"' | b'\n')).next()) {
            names.push(PathBuf::from(OsStr::from_bytes(name)));
        } else if is_directive(&text[..word])
            && text.get(at).is_some_and(u8::is_ascii_whitespace)
            && rest[..].first() != Some(&b'<')
        {
            let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let reason = format!(
                "it includes {}: write the name of the file, as in #include \"name.h\"",
                String::from_utf8_lossy(line).trim_end()
            );
            return Err(CcError::Source { path: path.to_owned(), reason });
        }
    }
    Ok(names)
}

/// Whether a line ends in `#`, with only white space before it.
fn is_directive(before: &[u8]) -> bool {
    let line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    line.trim_ascii() == b"#"
}

/// Without the white space, continued lines and comments at the beginning.
fn after_space(mut text: &[u8]) -> &[u8] {
    loop {
        let rest = text.trim_ascii_start();
        let rest = rest.strip_prefix(b"\\\n").unwrap_or(rest);
        let rest = match rest.strip_prefix(b"/*") {
            Some(comment) => {
                comment.windows(2).position(|two| two == b"*/").map_or(&b""[..], |end| &comment[end + 2..])
            }
            None => rest,
        };
        if rest.len() == text.len() {
            return rest;
        }
        text = rest;
    }
}

/// The content of a plain file that is not too large.
fn content(path: &Path) -> Result<Vec<u8>, CcError> {
    // Opening a pipe would block.
    let file = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(io(path))?;
    let refused = |reason: String| CcError::Source { path: path.to_owned(), reason };
    if !file.metadata().map_err(io(path))?.is_file() {
        return Err(refused("it is not a file".into()));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(io(path))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(refused(format!("it has more than {} MiB", MAX_BYTES >> 20)));
    }
    Ok(bytes)
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> CcError {
    let path = path.to_owned();
    move |error| CcError::Io { path: path.clone(), error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn names(text: &str) -> Vec<String> {
        let found = included(Path::new("x.c"), text.as_bytes()).expect("names");
        found.iter().map(|name| name.display().to_string()).collect()
    }

    #[test]
    fn includes_are_found_whatever_stands_before_them() {
        assert_eq!(
            names("#include \"a.h\"\n  #  include\t\"b.h\"\n/**/ #include /* */ \"c.h\"\n"),
            ["a.h", "b.h", "c.h"]
        );
        assert_eq!(names("%:include \\\n\"d.h\"\n#if __has_include (\"e.h\")\n"), ["d.h", "e.h"]);
        assert_eq!(names("#include <stdint.h>\n// this includes much\n"), Vec::<String>::new());
    }

    #[test]
    fn a_computed_name_is_refused() {
        let error = included(Path::new("x.c"), b"\n#include NAME\n").expect_err("computed").to_string();
        assert!(error.contains("it includes NAME: write the name of the file"), "{error}");
    }

    #[test]
    fn only_headers_beside_the_source_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| {
            fs::create_dir_all(at(name).parent().expect("a parent")).expect("a folder");
            fs::write(at(name), text).expect("writable");
        };
        write(
            "cc/mine.c",
            "#include \"a.h\"\n#include \"../out.h\"\n#include \".netrc\"\n#include \"link.h\"\n#include \"a.h.gch\"\n#include \"absent.h\"\n#include \"in/c.h\"\n",
        );
        for name in ["cc/a.h", "out.h", "cc/.netrc", "cc/a.h.gch"] {
            write(name, "");
        }
        write("cc/in/c.h", "#include \"../a.h\"\n#include \"d.h\"\n");
        write("cc/in/d.h", "");
        symlink(at("out.h"), at("cc/link.h")).expect("a link");
        let found = Sources::read(&at("cc/mine.c")).expect("readable");
        let mut headers: Vec<_> = found.headers.iter().map(|(name, _)| name.display().to_string()).collect();
        headers.sort();
        assert_eq!(headers, ["a.h", "in/c.h", "in/d.h"]);
        let mut left: Vec<_> = found.left_out.iter().map(|(name, _)| name.as_str()).collect();
        left.sort_unstable();
        assert_eq!(left, ["../out.h", ".netrc", "a.h.gch", "link.h"]);
    }

    #[test]
    fn a_link_to_what_is_no_c_file_is_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("key"), "secret").expect("writable");
        symlink(folder.path().join("key"), folder.path().join("mine.c")).expect("a link");
        let error = Sources::read(&folder.path().join("mine.c")).expect_err("a link").to_string();
        assert!(error.contains("does not end in .c"), "{error}");
    }
}
