//! Where a recording goes: a folder, or an object store by way of one.

use crate::upload::{UploadOptions, Uploader, holds_recordings};
use crate::{Error, FinishedFile, Place};
use std::path::{Path, PathBuf};

/// Finished files that may wait for a store that is away.
const MOST_WAITING: u64 = 8 << 30;

/// Where a recording goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    folder: PathBuf,
    url: Option<String>,
}

impl Destination {
    /// A folder, or a URL such as `s3://bucket/recordings`, whose files wait in a folder of their own below `spool`
    /// until they are sent.
    ///
    /// # Errors
    /// The URL cannot be read, or names a file of another machine.
    pub fn new(out: &str, spool: &Path) -> Result<Self, Error> {
        Ok(match Place::parse(out)? {
            Place::Local(folder) => Self { folder, url: None },
            Place::Store(url) => {
                let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
                let name: String = url.chars().map(plain).collect();
                Self { folder: spool.join(name), url: Some(url) }
            }
        })
    }

    /// The folder that is written into.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The store, if it goes to one.
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// Asks a store whether it answers, and refuses one that holds runs already unless more may be added. A folder is
    /// looked at when it is claimed.
    ///
    /// # Errors
    /// There are runs, or the store does not answer.
    pub fn check(&self, append: bool) -> Result<(), Error> {
        match &self.url {
            Some(url) if holds_recordings(url)? && !append => {
                let run = "of this or another node".to_owned();
                Err(Error::Occupied { path: url.into(), run })
            }
            _ => Ok(()),
        }
    }

    /// Begins to send finished files, if it is a store they go to.
    ///
    /// # Errors
    /// The URL is none, or no thread can be started.
    pub fn uploader(&self, on_error: fn(&Error)) -> Result<Option<Uploader>, Error> {
        self.upload(on_error).map(Uploader::start).transpose()
    }

    /// What is to be sent, if it is a store it goes to.
    pub fn upload(&self, on_error: fn(&Error)) -> Option<UploadOptions> {
        let (url, spool) = (self.url.clone()?, self.folder.clone());
        Some(UploadOptions { url, spool, most_bytes: MOST_WAITING, on_error })
    }

    /// Where a finished file is in the end.
    pub fn place(&self, file: &Path) -> String {
        match (&self.url, file.strip_prefix(&self.folder)) {
            (Some(url), Ok(below)) => format!("{url}/{}", below.display()),
            _ => file.display().to_string(),
        }
    }

    /// Where the files of a run are to be read: of a store that a thousand nodes share, only the run's own part is
    /// listed.
    pub fn places<'a>(&self, files: impl IntoIterator<Item = &'a FinishedFile>) -> Vec<String> {
        if self.url.is_none() {
            return vec![self.folder.display().to_string()];
        }
        // DATASET/node=/run=
        const RUN: usize = 3;
        let run = |file: &FinishedFile| -> PathBuf {
            let below = file.path.strip_prefix(&self.folder).unwrap_or(&file.path);
            self.folder.join(below.components().take(RUN).collect::<PathBuf>())
        };
        let mut places: Vec<String> =
            files.into_iter().map(|file| self.place(&run(file))).collect();
        places.sort_unstable();
        places.dedup();
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_written_by_way_of_a_folder_of_its_own() {
        let spool = Path::new("/spool");
        let folder = Destination::new("rec", spool).unwrap();
        assert_eq!((folder.folder(), folder.url()), (Path::new("rec"), None));
        let file = Destination::new("file://localhost/data/rec", spool).unwrap();
        assert_eq!((file.folder(), file.url()), (Path::new("/data/rec"), None));
        let one = Destination::new("s3://cluster/rec/", spool).unwrap();
        let other = Destination::new("s3://cluster/other", spool).unwrap();
        assert_eq!(one.url(), Some("s3://cluster/rec"));
        assert_ne!(one.folder(), other.folder());
        let part = one.folder().join("tasks/node=a/run=b/tasks-1.parquet");
        assert_eq!(one.place(&part), "s3://cluster/rec/tasks/node=a/run=b/tasks-1.parquet");
    }
}
