//! The simulator, as a process of its own.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

use super::crosstalk;
use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// `crosstalk resctrl-sim` on a folder of its own; unmounted when dropped.
pub(crate) struct Simulator {
    child: Child,
    pub(crate) folder: tempfile::TempDir,
}

impl Simulator {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { child: mount(folder.path()), folder }
    }

    /// After [`Self::unmount`].
    pub(crate) fn mount_again(&mut self) {
        self.child = mount(self.folder.path());
    }

    pub(crate) fn root(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    pub(crate) fn groups(&self) -> HashSet<String> {
        let entries = fs::read_dir(self.folder.path().join("mon_groups")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    pub(crate) fn unmount(&mut self) {
        signal(&self.child, "TERM");
        assert!(self.child.wait().unwrap().success());
    }
}

fn mount(folder: &Path) -> Child {
    let mut child =
        crosstalk().arg("resctrl-sim").arg(folder).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), format!("resctrl-sim: small mounted at {}", folder.display()));
    child
}

impl Drop for Simulator {
    fn drop(&mut self) {
        // One that has been waited for has given its number back.
        if matches!(self.child.try_wait(), Ok(None)) {
            signal(&self.child, "TERM");
            let _ = self.child.wait();
        }
    }
}

pub(crate) fn signal(child: &Child, name: &str) {
    // A process that has just ended is what was wanted.
    let _ = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
}
