//! The files that a confined process may read: those of the host that this user may read, without secrets.
//!
//! A program needs libraries, interpreters and data from all over the host, and no list of them would be complete. So
//! the rule is the reverse. Everything is visible except
//!
//! - devices, and runtime data (`/dev`, `/run`), except what every program needs of them; views of the kernel's
//!   internals;
//! - everything in this user's home that begins with a dot: keys, histories, profiles of browsers; except folders of
//!   programs; and the targets of links among them, two folders deep: dot files are often links to a folder of their
//!   own;
//! - tickets of Kerberos in folders for temporary files;
//! - for root, files of `/etc` and `/` that others may not read, swap files, and all of `/var`, `/srv` and `/boot`:
//!   without capabilities, root may still read root's files, such as `/etc/shadow`.
//!
//! A place that is named, or lies in a named one, is visible.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Devices that a confined process may read and write.
pub const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

const HIDDEN: [&str; 4] = ["/dev", "/run", "/sys/kernel/debug", "/sys/kernel/tracing"];
const HIDDEN_FROM_ROOT: [&str; 3] = ["/boot", "/srv", "/var"];
const NEEDED: [&str; 4] = ["/run/current-system", "/run/booted-system", "/run/opengl-driver", "/run/systemd/resolve"];

/// Besides names that begin with a dot.
const HIDDEN_AT_HOME: [&str; 1] = ["snap"];
/// Targets of links from hidden places that are not hidden: they are the system's, not the user's own.
const OF_THE_SYSTEM: [&str; 13] =
    ["/bin", "/boot", "/dev", "/etc", "/gnu", "/lib", "/lib64", "/nix", "/opt", "/proc", "/sbin", "/sys", "/usr"];
/// Depth in folders, and number of names, of the search for links in a hidden folder.
const LINKS_DEPTH: u32 = 2;
const LINKS_NAMES: usize = 20_000;
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];
const TICKETS: &[u8] = b"krb5cc";

/// Folders of programs below a home.
const PROGRAMS_AT_HOME: [&str; 22] = [
    ".asdf",
    ".bun",
    ".cargo/bin",
    ".conda",
    ".deno",
    ".guix-profile",
    ".juliaup",
    ".linuxbrew",
    ".local/bin",
    ".local/lib",
    ".local/opt",
    ".local/pipx",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/uv",
    ".mamba",
    ".nix-defexpr",
    ".nix-profile",
    ".nvm",
    ".pyenv",
    ".rbenv",
    ".rustup",
];

/// A view as mounts over the files of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Covers {
    /// Folders and files.
    pub hidden: Vec<PathBuf>,
    /// Folders and files below those.
    pub shown: Vec<PathBuf>,
}

/// Visible and hidden places; the longest one that contains a path decides.
#[derive(Clone, Debug, Default)]
pub struct View {
    shown: BTreeSet<PathBuf>,
    hidden: BTreeSet<PathBuf>,
}

impl View {
    /// The host's files as the owner of `homes` may see them, with `read` and without `hide`.
    pub fn of_host(homes: &[PathBuf], is_root: bool, read: &[PathBuf], hide: &[PathBuf]) -> View {
        let mut view = View::default();
        view.shown.insert(PathBuf::from("/"));
        view.hidden.extend(HIDDEN.iter().map(PathBuf::from));
        view.shown.extend(NEEDED.iter().filter_map(|path| fs::canonicalize(path).ok()));
        if is_root {
            view.hidden.extend(HIDDEN_FROM_ROOT.iter().map(PathBuf::from));
            hide_private(Path::new("/etc"), &mut view.hidden);
            view.hidden.extend(entries(Path::new("/")).filter(|path| is_private_file(path)));
            view.hidden.extend(swap_files(&fs::read_to_string("/proc/swaps").unwrap_or_default()));
        }
        for home in homes.iter().filter_map(|home| fs::canonicalize(home).ok()) {
            view.hidden.extend(entries(&home).filter(|path| is_dotted(path)));
            view.hidden.extend(HIDDEN_AT_HOME.iter().map(|name| home.join(name)));
            view.shown.extend(PROGRAMS_AT_HOME.iter().filter_map(|name| fs::canonicalize(home.join(name)).ok()));
        }
        for home in homes.iter().filter_map(|home| fs::canonicalize(home).ok()) {
            let targets = view.targets_of_links(&home);
            view.hidden.extend(targets);
        }
        let named = std::env::var_os("TMPDIR").map(PathBuf::from);
        for folder in TEMPORARY.iter().map(PathBuf::from).chain(named).filter_map(|path| fs::canonicalize(path).ok()) {
            view.hidden.extend(entries(&folder).filter(|path| begins_with(path, TICKETS)));
        }
        view.hidden.extend(hide.iter().filter_map(|path| fs::canonicalize(path).ok()));
        view.shown.extend(read.iter().cloned());
        view
    }

    /// Whether `path`, which is canonical, is visible.
    #[cfg(test)]
    pub fn shows(&self, path: &Path) -> bool {
        path.ancestors().find_map(|above| self.verdict(above)).unwrap_or(true)
    }

    /// Shows the working folder `path`, which is canonical, if it is hidden from root only because it may hold files
    /// that others cannot read. False if it is hidden for another reason.
    pub fn work_in(&mut self, path: &Path) -> bool {
        let place = path.ancestors().find_map(|above| self.verdict(above).map(|shown| (above, shown)));
        match place {
            Some((place, false)) if HIDDEN_FROM_ROOT.iter().any(|hidden| place == Path::new(hidden)) => {
                self.shown.insert(path.to_owned());
                true
            }
            Some((_, shown)) => shown,
            None => true,
        }
    }

    /// Hides every other process in `/proc`, present and future; the kernel's own files there stay visible.
    pub fn hide_other_processes(&mut self) {
        let proc = Path::new("/proc");
        let is_process = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit))
        };
        self.hidden.extend(entries(proc).filter(is_process));
        self.shown.insert(proc.join(std::process::id().to_string()));
    }

    /// The targets of links in the hidden places of `home`, if they are the user's own.
    fn targets_of_links(&self, home: &Path) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        let mut names = LINKS_NAMES;
        let places = entries(home).filter(|path| self.hidden.contains(path)).map(|path| (path, 0));
        let mut waiting = Vec::from_iter(places);
        while let Some((path, depth)) = waiting.pop() {
            let Ok(about) = fs::symlink_metadata(&path) else { continue };
            if about.is_symlink() {
                found.extend(fs::canonicalize(&path).ok().filter(|target| self.is_own(target, home)));
            } else if about.is_dir() && depth < LINKS_DEPTH && !self.shown.contains(&path) {
                let before = waiting.len();
                waiting.extend(entries(&path).take(names).map(|path| (path, depth + 1)));
                names -= waiting.len() - before;
            }
        }
        found
    }

    /// Whether `target` of a link is the user's own: not the system's, a place of programs, or a folder that contains
    /// the home.
    fn is_own(&self, target: &Path, home: &Path) -> bool {
        let root = Path::new("/");
        let of_programs = self.shown.iter().any(|shown| shown != root && target.starts_with(shown));
        !home.starts_with(target) && !of_programs && !OF_THE_SYSTEM.iter().any(|place| target.starts_with(place))
    }

    /// The smallest set of folders and files that contains exactly the visible places.
    pub fn roots(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for root in &self.shown {
            if !self.is_within_shown(root) {
                self.cover(root, &mut found);
            }
        }
        found
    }

    /// The places to cover, and those inside them to show again, parents first.
    pub fn covers(&self) -> Covers {
        let inside = |path: &Path| path.ancestors().skip(1).find_map(|above| self.verdict(above)).unwrap_or(true);
        Covers {
            hidden: self.hidden.iter().filter(|path| !self.shown.contains(*path) && inside(path)).cloned().collect(),
            shown: self.shown.iter().filter(|path| !inside(path)).cloned().collect(),
        }
    }

    /// Whether a parent of `root` shows it already.
    fn is_within_shown(&self, root: &Path) -> bool {
        root.ancestors().skip(1).find_map(|path| self.verdict(path)).unwrap_or(false)
    }

    fn verdict(&self, path: &Path) -> Option<bool> {
        // A named place takes precedence over a rule that hides the same path.
        if self.shown.contains(path) { Some(true) } else { self.hidden.contains(path).then_some(false) }
    }

    fn cover(&self, visible: &Path, found: &mut Vec<PathBuf>) {
        if !self.hides_below(visible) {
            found.push(visible.to_owned());
            return;
        }
        for path in entries(visible) {
            if self.verdict(&path) != Some(false) && !path.is_symlink() {
                self.cover(&path, found);
            }
        }
    }

    fn hides_below(&self, path: &Path) -> bool {
        let mut later = self.hidden.range(path.to_owned()..).filter(|hidden| *hidden != path);
        later.next().is_some_and(|hidden| hidden.starts_with(path))
    }

    /// Something below `path`, which is canonical, that is there and hidden.
    pub fn hidden_below(&self, path: &Path) -> Option<PathBuf> {
        let later = self.hidden.range(path.to_owned()..).take_while(|hidden| hidden.starts_with(path));
        later.filter(|hidden| *hidden != path && !self.shown.contains(*hidden)).find(|hidden| hidden.exists()).cloned()
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn is_dotted(path: &Path) -> bool {
    begins_with(path, b".")
}

fn begins_with(path: &Path, begin: &[u8]) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(begin))
}

fn is_private_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|about| about.is_file() && about.mode() & 0o004 == 0)
}

/// The files of `/proc/swaps`, which contain memory of processes.
fn swap_files(swaps: &str) -> impl Iterator<Item = PathBuf> {
    let lines = swaps.lines().filter(|line| line.split_whitespace().nth(1) == Some("file"));
    lines.filter_map(|line| fs::canonicalize(line.split_whitespace().next()?).ok())
}

/// Adds everything below `folder` that others may not read.
fn hide_private(folder: &Path, hidden: &mut BTreeSet<PathBuf>) {
    const READ: u32 = 0o004;
    const ENTER: u32 = 0o005;
    for path in entries(folder) {
        let Ok(about) = fs::symlink_metadata(&path) else { continue };
        let wanted = if about.is_dir() { ENTER } else { READ };
        if !about.is_symlink() && about.mode() & wanted != wanted {
            hidden.insert(path);
        } else if about.is_dir() {
            hide_private(&path, hidden);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(shown: &[&str], hidden: &[&str]) -> View {
        let set = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        View { shown: set(shown), hidden: set(hidden) }
    }

    #[test]
    fn a_view_without_anything_hidden_is_one_root() {
        assert_eq!(view(&["/"], &[]).roots(), [PathBuf::from("/")]);
        assert_eq!(view(&["/", "/usr"], &[]).roots(), [PathBuf::from("/")]);
    }

    #[test]
    fn links_among_dot_files_hide_what_they_lead_to() {
        let home = std::env::temp_dir().join(format!("weir-links-{}", std::process::id()));
        for name in ["dotfiles/gh", "notes", ".config/app", ".local/bin", "tools"] {
            fs::create_dir_all(home.join(name)).expect("a folder");
        }
        for (link, target) in [
            (".netrc", "dotfiles/netrc"),
            (".config/gh", "../dotfiles/gh"),
            (".config/app/key", "../../dotfiles/key"),
            (".local/bin/tool", "../../tools/tool"),
            (".up", ".."),
            (".system", "/usr"),
        ] {
            std::os::unix::fs::symlink(target, home.join(link)).expect("a link");
        }
        for name in ["dotfiles/netrc", "dotfiles/key", "tools/tool"] {
            fs::write(home.join(name), "x").expect("a file");
        }
        let view = View::of_host(std::slice::from_ref(&home), false, &[], &[]);
        let at = fs::canonicalize(&home).expect("there");
        let hidden = ["dotfiles/netrc", "dotfiles/gh", "dotfiles/gh/hosts", "dotfiles/key", ".netrc", "snap/x"];
        let seen = ["dotfiles/other", "notes", "tools/tool", ".local/bin/tool"];
        let wrong = hidden.iter().filter(|name| view.shows(&at.join(name)));
        let wrong = Vec::from_iter(wrong.chain(seen.iter().filter(|name| !view.shows(&at.join(name)))));
        fs::remove_dir_all(&home).expect("ours");
        assert_eq!(wrong, Vec::<&&str>::new());
        assert!(view.shows(Path::new("/usr/bin")) && view.shows(&at));
    }

    #[test]
    fn root_may_work_where_its_services_keep_data_but_not_among_secrets() {
        let mut view = view(&["/"], &["/srv", "/srv/home/.ssh"]);
        assert!(!view.shows(Path::new("/srv/data/run")));
        assert!(view.work_in(Path::new("/srv/data/run")) && view.shows(Path::new("/srv/data/run/mine.yaml")));
        assert!(!view.shows(Path::new("/srv/data/other")));
        assert!(!view.work_in(Path::new("/srv/home/.ssh/keys")) && !view.shows(Path::new("/srv/home/.ssh/keys")));
        assert!(view.work_in(Path::new("/usr/lib")));
    }

    #[test]
    fn files_for_swapping_are_known_and_partitions_are_none() {
        let folder = std::env::temp_dir().join(format!("weir-swap-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("swapfile");
        fs::write(&file, "x").expect("a file");
        let swaps =
            format!("Filename Type Size Used Priority\n/dev/null partition 1 0 -2\n{} file 1 0 -3\n", file.display());
        let found: Vec<_> = swap_files(&swaps).collect();
        let expected = fs::canonicalize(&file).expect("there");
        fs::remove_dir_all(&folder).expect("ours");
        assert_eq!(found, [expected]);
    }

    #[test]
    fn the_longest_place_decides() {
        let folder = std::env::temp_dir().join(format!("weir-view-{}", std::process::id()));
        for name in ["a/secret/open", "a/plain", "ab"] {
            fs::create_dir_all(folder.join(name)).expect("a folder");
        }
        let at = |name: &str| folder.join(name);
        let mut view = View::default();
        view.shown.extend([at("."), at("a/secret/open")].map(|p| fs::canonicalize(p).expect("there")));
        view.hidden.insert(fs::canonicalize(at("a/secret")).expect("there"));
        let mut found = view.roots();
        found.sort();
        fs::remove_dir_all(&folder).expect("ours");
        assert_eq!(found, [at("a/plain"), at("a/secret/open"), at("ab")]);
    }

    #[test]
    fn what_is_hidden_is_covered_once_and_what_is_shown_in_it_is_put_back() {
        let covers = view(&["/", "/a/b", "/x"], &["/a", "/a/c", "/a/b/d", "/x"]).covers();
        assert_eq!(covers.hidden, ["/a", "/a/b/d"].map(PathBuf::from));
        assert_eq!(covers.shown, ["/a/b"].map(PathBuf::from));
    }
}
