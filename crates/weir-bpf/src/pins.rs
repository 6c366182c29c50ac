//! Congestion controls that stay loaded for other programs: their links are pinned in a BPF file system.

use crate::{error::BpfError, kernel, load::Loaded, registered};
use libbpf_rs::{Link, MapCore, MapHandle, query::LinkTypeInfo};
use rustix::{
    fs::statfs,
    io::Errno,
    mount::{MountFlags, mount},
};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Conventional place of the BPF file system.
pub const BPFFS: &str = "/sys/fs/bpf";
/// `BPF_FS_MAGIC` of linux/magic.h.
const BPFFS_MAGIC: u32 = 0xcafe_4a11;
/// The folder of weir's pins.
const FOLDER: &str = "weir";

/// Weir's pins in one BPF file system.
#[derive(Clone, Debug)]
pub struct Pins {
    root: PathBuf,
}

impl Pins {
    /// The pins below `root`, a BPF file system or a folder to mount one on.
    pub fn at(root: impl Into<PathBuf>) -> Pins {
        Pins { root: root.into() }
    }

    /// Keeps a congestion control loaded after this process ends. Mounts the file system if necessary.
    ///
    /// # Errors
    /// [`BpfError::NoBpffs`], [`BpfError::NameTaken`], [`BpfError::Io`].
    pub fn keep(&self, mut loaded: Loaded) -> Result<PathBuf, BpfError> {
        self.mounted()?;
        let path = self.folder().join(&loaded.name);
        match loaded.link.pin(&path) {
            Ok(()) => {
                if !loaded.by_link {
                    loaded.link.disconnect(); // dropping it would unregister the pinned control
                }
                Ok(path)
            }
            Err(error) if error.kind() == libbpf_rs::ErrorKind::AlreadyExists => {
                Err(BpfError::NameTaken { name: loaded.name })
            }
            Err(error) => Err(BpfError::Io { path, error: io::Error::other(error.to_string()) }),
        }
    }

    /// The names of the pins.
    ///
    /// # Errors
    /// [`BpfError::Io`].
    pub fn names(&self) -> Result<Vec<String>, BpfError> {
        let folder = self.folder();
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(BpfError::Io { path: folder, error }),
        };
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        Ok(names)
    }

    /// The kernel's id of the map of operations that is pinned as `name`.
    pub(crate) fn map_id(&self, name: &str, links: bool) -> Option<u32> {
        let path = self.folder().join(name);
        if !links {
            return Some(MapHandle::from_pinned_path(path).ok()?.info().ok()?.info.id);
        }
        match Link::open(path).ok()?.info().ok()?.info {
            LinkTypeInfo::StructOps(operations) => Some(operations.map_id),
            _ => None,
        }
    }

    /// Removes a pin, and with it the congestion control from the kernel's list; sockets that use it keep it.
    ///
    /// # Errors
    /// [`BpfError::NotPinned`], [`BpfError::Io`].
    pub fn remove(&self, name: &str) -> Result<(), BpfError> {
        let pinned = self.names()?;
        if !pinned.iter().any(|other| other == name) {
            return Err(BpfError::NotPinned { name: name.to_owned(), pinned });
        }
        let path = self.folder().join(name);
        if !kernel::links() {
            let unregistered = MapHandle::from_pinned_path(&path).and_then(|map| registered::unregister(&map));
            unregistered
                .map_err(|error| BpfError::Io { path: path.clone(), error: io::Error::other(error.to_string()) })?;
        }
        fs::remove_file(&path).map_err(|error| BpfError::Io { path, error })?;
        // The last pin removes the folder; another user's pin keeps it.
        let _ = fs::remove_dir(self.folder());
        Ok(())
    }

    fn folder(&self) -> PathBuf {
        self.root.join(FOLDER)
    }

    fn mounted(&self) -> Result<(), BpfError> {
        let fail = |reason: String| BpfError::NoBpffs { path: self.root.clone(), reason };
        if !is_bpffs(&self.root) {
            mount("bpf", &self.root, "bpf", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, c"mode=700")
                .map_err(|error| fail(reason(error)))?;
        }
        let folder = self.folder();
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(BpfError::Io { path: folder, error }),
            _ => Ok(()),
        }
    }
}

fn is_bpffs(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| found.f_type as u32 == BPFFS_MAGIC)
}

fn reason(error: Errno) -> String {
    format!("no BPF file system is there, and mounting one failed: {}", io::Error::from(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_pins_has_no_names_and_nothing_to_remove() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let pins = Pins::at(folder.path());
        assert_eq!(pins.names().expect("readable"), Vec::<String>::new());
        let message = pins.remove("weir_cubic").expect_err("nothing is there").to_string();
        assert!(message.contains("weir_cubic is not loaded") && message.contains("nothing is"), "{message}");
    }

    #[test]
    fn only_a_bpf_file_system_is_one() {
        assert!(!is_bpffs(Path::new("/proc")));
        assert!(!is_bpffs(Path::new("/no/such/folder")));
    }
}
