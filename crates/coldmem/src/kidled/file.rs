//! Where kidled's file is: each kernel has its own name for it.

use super::{IdleInfo, IdleInfoError};
use crosstalk_host::{HostRoot, walk_cgroups};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The names, those that hold the cgroups within first.
const NAMES: [&str; 4] = [
    "memory.idle_page_stats",
    "memory.idle_stat",
    "memory.idle_page_stats.local",
    "memory.idle_stat.local",
];
/// Where some kernels say whether values hold those of the cgroups within; others say so in each file, or not at all.
const USE_HIERARCHY: &str = "/sys/kernel/mm/kidled/use_hierarchy";
/// How many cgroups are looked at for one that has the file: v2 has none in the root.
const LOOK_AT: usize = 64;

/// Why a cgroup's idle info is not known.
#[derive(Debug, thiserror::Error)]
pub enum IdleFileError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// It is not what kidled writes.
    #[error("{} {source}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where.
        source: IdleInfoError,
    },
}

/// The idle info of a cgroup, and whether it is of the cgroup alone. Buffers are kept between cgroups.
#[derive(Debug, Default)]
pub struct IdleFile {
    /// What it says.
    pub info: IdleInfo,
    /// The file's name.
    pub name: &'static str,
    text: String,
    /// What the kernel's setting says of all files that say nothing of it themselves.
    use_hierarchy: Option<u64>,
}

impl IdleFile {
    /// Looks how kidled is set, for the files that are read from now on. It can be set otherwise at any time.
    pub fn look_at_setting(&mut self, host: &HostRoot) {
        self.use_hierarchy = host.line(USE_HIERARCHY).and_then(|line| line.parse().ok());
    }

    /// Reads a cgroup's file; `false` where it has none.
    ///
    /// # Errors
    /// It has one which cannot be read, or which is not what kidled writes.
    pub fn read(&mut self, cgroup: &Path) -> Result<bool, IdleFileError> {
        // One kernel has one name: the last that was there is tried first.
        let names = [self.name].into_iter().chain(NAMES).filter(|name| !name.is_empty());
        for name in names {
            let path = cgroup.join(name);
            self.text.clear();
            let read = File::open(&path).and_then(|mut file| file.read_to_string(&mut self.text));
            match read {
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(source) => return Err(IdleFileError::Unreadable { path, source }),
                Ok(_) => {
                    self.name = name;
                    let parsed = self.info.parse(&self.text);
                    parsed.map_err(|source| IdleFileError::Malformed { path, source })?;
                    self.info.use_hierarchy = self.info.use_hierarchy.or(self.use_hierarchy);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether it leaves out the cgroups within.
    pub fn is_local(&self) -> bool {
        self.name.ends_with(".local") || self.info.use_hierarchy == Some(0)
    }
}

/// The idle info of the first cgroup that has one; `None` where none of the first has.
pub(crate) fn read_any(root: &Path) -> Option<Result<IdleFile, IdleFileError>> {
    let mut found = None;
    let mut seen = 0;
    walk_cgroups(root, |inside| {
        seen += 1;
        if found.is_none() && seen <= LOOK_AT {
            let mut file = IdleFile::default();
            found = file.read(&root.join(inside)).map(|there| there.then_some(file)).transpose();
        }
        found.is_none() && seen < LOOK_AT
    });
    found
}
