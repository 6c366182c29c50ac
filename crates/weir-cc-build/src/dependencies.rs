//! The files that a compiler read, from its make rule (`-MD`).

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

/// The files after the target of a rule.
pub(crate) fn files(rule: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut name = Vec::new();
    let mut bytes = rule.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match (byte, bytes.peek()) {
            (b'\\', Some(b'\n')) => {}
            (b'\\', Some(&escaped @ (b' ' | b'#' | b'\\'))) => {
                name.push(escaped);
                bytes.next();
            }
            (b'$', Some(b'$')) => {
                name.push(b'$');
                bytes.next();
            }
            (byte, _) if byte.is_ascii_whitespace() => {
                if !name.is_empty() {
                    found.push(std::mem::take(&mut name));
                }
            }
            (byte, _) => name.push(byte),
        }
    }
    found.push(name);
    // The target ends in a colon.
    let names = found.into_iter().filter(|name| !name.is_empty() && !name.ends_with(b":"));
    names.map(|name| PathBuf::from(OsString::from_vec(name))).collect()
}

/// The first of `files` outside all of `folders`.
pub(crate) fn first_outside<'a>(files: &'a [PathBuf], folders: &[PathBuf]) -> Option<&'a Path> {
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folders: Vec<_> = folders.iter().map(|folder| real(folder)).collect();
    let outside = |file: &&PathBuf| !folders.iter().any(|folder| real(file).starts_with(folder));
    files.iter().find(outside).map(PathBuf::as_path)
}

/// The header folders that a compiler reports (`-E -v`).
pub(crate) fn searched(said: &str) -> Vec<PathBuf> {
    let from_begin = said.lines().skip_while(|line| !line.starts_with("#include <...>")).skip(1);
    let lines = from_begin.take_while(|line| line.starts_with(' '));
    lines.map(|line| PathBuf::from(OsStr::from_bytes(line.trim().as_bytes()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_with_what_it_escapes() {
        let found = files(b"made: /a/b.c \\\n /a\\ b/c.h \\\n  /x$$y\\#z.h\n");
        assert_eq!(found, ["/a/b.c", "/a b/c.h", "/x$y#z.h"].map(PathBuf::from));
    }

    #[test]
    fn a_name_that_leads_out_is_outside() {
        let folder = tempfile::tempdir().expect("a folder");
        let (inside, outside) = (folder.path().join("in"), folder.path().join("out.h"));
        fs::create_dir(&inside).expect("a folder");
        fs::write(&outside, "").expect("writable");
        let files = [inside.join("there.h"), inside.join("../out.h")];
        fs::write(&files[0], "").expect("writable");
        assert_eq!(first_outside(&files, std::slice::from_ref(&inside)), Some(files[1].as_path()));
        assert_eq!(first_outside(&files[..1], &[inside]), None);
    }

    #[test]
    fn the_folders_of_a_compiler_are_read() {
        let said = "x\n#include \"...\" search starts here:\n#include <...> search starts here:\n /usr/lib/gcc/include\n /usr/include\nEnd of search list.\n /no\n";
        assert_eq!(searched(said), ["/usr/lib/gcc/include", "/usr/include"].map(PathBuf::from));
    }
}
