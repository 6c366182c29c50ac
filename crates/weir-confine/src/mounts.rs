//! A view of the host's files by mounts, in a namespace of this process' own, with all capabilities in it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, fstat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_bind, mount_change, move_mount,
    open_tree,
};

use weir_sys::isolation::attribute::{NO_DEVICES, NO_SET_USER, READ_ONLY};
use weir_sys::isolation::set_mount_attributes;

use crate::view::{DEVICES, View};

/// The failing path, and its error.
pub(crate) type Failed = (PathBuf, io::Error);

/// Hides the hidden places of `view`, makes the rest read-only and `writable` writable.
pub(crate) fn make(view: &View, writable: &[PathBuf]) -> Result<(), Failed> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).map_err(at("/"))?;
    let covers = view.covers();
    // These must be open before a mount covers them.
    let shown = covers.shown.iter().map(|path| Tree::of(path)).collect::<Result<Vec<_>, _>>()?;
    let places = writable.iter().map(|path| Tree::of(path)).collect::<Result<Vec<_>, _>>()?;
    let devices: Vec<Tree> = DEVICES.iter().filter_map(|path| Tree::of(Path::new(path)).ok()).collect();
    let (later, first): (Vec<_>, Vec<_>) =
        covers.hidden.iter().partition(|path| covers.shown.iter().any(|shown| path.starts_with(shown)));
    // Covers files first, while the null device that covers them exists, and hidden places inside shown ones last,
    // after those exist.
    let (folders, files): (Vec<_>, Vec<_>) = first.into_iter().partition(|path| path.is_dir());
    files.into_iter().try_for_each(|path| cover(path))?;
    folders.into_iter().try_for_each(|path| cover(path))?;
    shown.iter().chain(&places).chain(&devices).try_for_each(Tree::make_point)?;
    shown.iter().try_for_each(Tree::put)?;
    later.into_iter().try_for_each(|path| cover(path))?;
    for (name, target) in [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        let _ = symlink(target, Path::new("/dev").join(name)); // exists already if /dev is not hidden
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None).map_err(at("/proc"))?;
    set_mount_attributes(CWD, c"/", READ_ONLY | NO_SET_USER | NO_DEVICES, 0).map_err(at("/"))?;
    places.iter().try_for_each(|place| place.set(NO_SET_USER | NO_DEVICES, 0).and_then(|()| place.put()))?;
    // A device on a read-only mount can still be written; its attributes cannot.
    devices.iter().try_for_each(|device| device.set(READ_ONLY | NO_SET_USER, NO_DEVICES).and_then(|()| device.put()))
}

/// A place that is kept open while something is mounted over it, and then mounted on top.
struct Tree {
    path: PathBuf,
    mount: OwnedFd,
}

impl Tree {
    fn of(path: &Path) -> Result<Tree, Failed> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        Ok(Tree { path: path.to_owned(), mount: open_tree(CWD, path, flags).map_err(at(path))? })
    }

    /// Creates its mount point, if that was covered.
    fn make_point(&self) -> Result<(), Failed> {
        let failed = |error| (self.path.clone(), error);
        if self.path.symlink_metadata().is_ok() {
            return Ok(());
        }
        if let Some(parent) = self.path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let about = fstat(&self.mount).map_err(at(&self.path))?;
        if FileType::from_raw_mode(about.st_mode) == FileType::Directory {
            fs::create_dir(&self.path).map_err(failed)
        } else {
            fs::File::create(&self.path).map(drop).map_err(failed)
        }
    }

    fn set(&self, set: u64, clear: u64) -> Result<(), Failed> {
        set_mount_attributes(self.mount.as_fd(), c"", set, clear).map_err(at(&self.path))
    }

    fn put(&self) -> Result<(), Failed> {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&self.mount, "", CWD, &self.path, flags).map_err(at(&self.path))
    }
}

/// The null device; once `/dev` is covered, the empty file on which the device is mounted.
const NULL: &str = "/dev/null";

/// Hides a folder under an empty one, a file under an empty file.
fn cover(path: &Path) -> Result<(), Failed> {
    match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => {
            mount("none", path, "tmpfs", MountFlags::NOSUID, Some(c"mode=755,size=256k")).map_err(at(path))
        }
        Ok(about) if !about.is_symlink() => mount_bind(NULL, path).map_err(at(path)),
        _ => Ok(()), // gone, or a link, whose target is hidden by its own name if at all
    }
}

fn at(path: impl AsRef<Path>) -> impl FnOnce(Errno) -> Failed {
    move |error| (path.as_ref().to_owned(), error.into())
}
