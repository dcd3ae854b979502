//! What is mounted where.

use crate::{HostError, HostRoot};
use std::io::ErrorKind;

/// One line of a `mounts` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where, as the host sees it.
    pub point: String,
    /// The file system.
    pub kind: String,
    /// Its options, joined by commas.
    pub options: String,
}

impl Mount {
    /// Every mount of a `mounts` text; torn lines are passed over.
    ///
    /// ```
    /// use crosstalk_host::Mount;
    ///
    /// let mounts = Mount::parse("proc /proc proc rw 0 0\nresctrl /sys/fs/res\\040ctrl resctrl rw,cdp 0 0\ntorn\n");
    /// assert_eq!(mounts.len(), 2);
    /// assert_eq!((&*mounts[1].point, &*mounts[1].kind), ("/sys/fs/res ctrl", "resctrl"));
    /// assert!(mounts[1].has("cdp"));
    /// ```
    pub fn parse(mounts: &str) -> Vec<Self> {
        let mount = |line: &str| {
            let mut words = line.split(' ').skip(1);
            let (point, kind, options) = (words.next()?, words.next()?, words.next()?);
            // The kernel writes a space in a path as an octal escape.
            Some(Self {
                point: point.replace("\\040", " "),
                kind: kind.to_owned(),
                options: options.to_owned(),
            })
        };
        mounts.lines().filter_map(mount).collect()
    }

    /// What process 1 sees, or this one where that is hidden; `None` where `/proc` says nothing.
    pub fn all(host: &HostRoot) -> Option<Vec<Self>> {
        let text = host.line("/proc/1/mounts").or_else(|| host.line("/proc/mounts"))?;
        Some(Self::parse(&text))
    }

    /// What this process sees.
    ///
    /// # Errors
    /// `/proc/mounts` cannot be read.
    pub fn own(host: &HostRoot) -> Result<Vec<Self>, HostError> {
        const FILE: &str = "/proc/mounts";
        let none = || HostError { path: host.path(FILE), source: ErrorKind::NotFound.into() };
        Ok(Self::parse(&host.read(FILE)?.ok_or_else(none)?))
    }

    /// Whether it has an option.
    pub fn has(&self, option: &str) -> bool {
        self.options.split(',').any(|one| one == option)
    }
}
