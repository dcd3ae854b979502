use crate::HostError;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The folder below which the host's `/proc` and `/sys` are found.
///
/// ```
/// use crosstalk_host::HostRoot;
///
/// let host = HostRoot::new("/host");
/// assert_eq!(host.path("/proc/1/stat").to_str(), Some("/host/proc/1/stat"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRoot(PathBuf);

impl Default for HostRoot {
    fn default() -> Self {
        Self::new("/")
    }
}

impl HostRoot {
    /// A root at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Where the host's absolute `path` is for us.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The text of a file; `None` when it does not exist.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Option<String>, HostError> {
        let path = self.path(path);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(HostError { path, source }),
        }
    }

    /// The text of a small file without its line end; `None` when it is missing or unreadable.
    pub fn line(&self, path: impl AsRef<Path>) -> Option<String> {
        self.read(path).ok().flatten().map(|text| text.trim().to_owned())
    }
}
