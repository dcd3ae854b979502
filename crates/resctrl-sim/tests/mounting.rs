//! A simulator takes away what it mounted, and nothing else.
#![allow(clippy::unwrap_used)]

use crosstalk_resctrl_sim::{Error, Profile, mount};
use rustix::mount::{MountFlags, UnmountFlags, unmount};
use std::fs;
use std::path::Path;

/// A file system of somebody else, with a file in it; taken away at the end of the test.
struct Tmpfs<'a>(&'a Path);

impl<'a> Tmpfs<'a> {
    fn mount(path: &'a Path) -> Self {
        rustix::mount::mount("none", path, "tmpfs", MountFlags::empty(), None).unwrap();
        fs::write(path.join("theirs"), "").unwrap();
        Self(path)
    }

    fn is_there(&self) -> bool {
        self.0.join("theirs").exists()
    }
}

impl Drop for Tmpfs<'_> {
    fn drop(&mut self) {
        let _ = unmount(self.0, UnmountFlags::DETACH);
    }
}

#[test]
fn what_was_mounted_below_it_stays() {
    let folder = tempfile::tempdir().unwrap();
    let theirs = Tmpfs::mount(folder.path());
    let simulator = mount(Profile::small(), folder.path()).unwrap();
    assert!(!theirs.is_there() && folder.path().join("schemata").exists());
    simulator.unmount().unwrap();
    assert!(theirs.is_there());
}

#[test]
fn what_came_into_its_place_after_it_was_unmounted_stays() {
    let folder = tempfile::tempdir().unwrap();
    let simulator = mount(Profile::small(), folder.path()).unwrap();
    unmount(folder.path(), UnmountFlags::empty()).unwrap();
    let theirs = Tmpfs::mount(folder.path());
    drop(simulator);
    assert!(theirs.is_there());
}

#[test]
fn what_was_mounted_over_it_stays_and_the_end_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let simulator = mount(Profile::small(), folder.path()).unwrap();
    let theirs = Tmpfs::mount(folder.path());
    let error = simulator.unmount().unwrap_err().to_string();
    assert!(error.contains("something else is mounted over it"), "{error}");
    assert!(theirs.is_there());
    drop(theirs);
    let _ = unmount(folder.path(), UnmountFlags::DETACH);
}

#[test]
fn there_is_no_second_one_in_the_same_place() {
    let folder = tempfile::tempdir().unwrap();
    let first = mount(Profile::small(), folder.path()).unwrap();
    let second = mount(Profile::small(), folder.path());
    assert!(matches!(second, Err(Error::AlreadyThere { .. })), "{second:?}");
    assert!(first.is_mounted() && folder.path().join("schemata").exists());
}
