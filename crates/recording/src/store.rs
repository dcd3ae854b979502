//! Where files lie: this machine, or an object store.

use crate::Error;
use bytes::Bytes;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::runtime::{Builder, Runtime};

/// A place that holds files by name.
#[derive(Clone)]
pub(crate) enum Store {
    /// The names are paths.
    Local,
    /// The names are below a prefix of a bucket.
    Remote(Arc<Remote>),
}

pub(crate) struct Remote {
    /// The URL without the prefix.
    pub(crate) bucket: String,
    prefix: Path,
    pub(crate) objects: Arc<dyn ObjectStore>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Remote(remote) => f.write_str(&remote.bucket),
        }
    }
}

/// Reading is synchronous; what waits for the network waits here.
static RUNTIME: LazyLock<Option<Runtime>> = LazyLock::new(|| {
    Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("object-store")
        .enable_all()
        .build()
        .ok()
});

/// Waits for an answer of the object store.
pub(crate) fn wait<T>(work: impl Future<Output = T>) -> Result<T, Error> {
    let runtime = RUNTIME.as_ref().ok_or_else(|| Error::Store {
        url: String::new(),
        reason: "no thread for the network could be started".to_owned(),
    })?;
    Ok(runtime.block_on(work))
}

/// The same, for so long as an answer may take: a store that is away must not hold up the end of a recording.
fn in_time<T>(work: impl Future<Output = T>) -> Result<T, Error> {
    const LONGEST: Duration = Duration::from_secs(30);
    let late = |_| Error::Store {
        url: String::new(),
        reason: format!("the store has not answered for {} s", LONGEST.as_secs()),
    };
    wait(async { tokio::time::timeout(LONGEST, work).await })?.map_err(late)
}

impl Remote {
    fn path(&self, name: &str) -> Path {
        Path::from(format!("{}/{name}", self.prefix))
    }
}

impl Store {
    /// Opens the store of a URL. Keys and endpoints come from the environment, as its own tools take
    /// them (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, ...).
    pub(crate) fn open(url: &str) -> Result<Self, Error> {
        let wrong = |reason: String| Error::Store { url: url.to_owned(), reason };
        let parsed = url::Url::parse(url).map_err(|e| wrong(e.to_string()))?;
        let settings = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?.to_ascii_lowercase(), value.into_string().ok()?))
        });
        let (objects, prefix) =
            object_store::parse_url_opts(&parsed, settings).map_err(|e| wrong(e.to_string()))?;
        let path = parsed.path().trim_end_matches('/');
        let bucket = url.trim_end_matches('/').strip_suffix(path).unwrap_or(url).to_owned();
        Ok(Self::Remote(Arc::new(Remote { bucket, prefix, objects: objects.into() })))
    }

    /// All names with their sizes.
    pub(crate) fn list(&self) -> Result<Vec<(String, u64)>, Error> {
        use futures_util::TryStreamExt;
        let Self::Remote(remote) = self else { return Ok(Vec::new()) };
        let listed = remote.objects.list(Some(&remote.prefix));
        let found = wait(listed.map_ok(|o| (o.location.to_string(), o.size)).try_collect())?;
        found.map_err(|e| self.error("", &e))
    }

    /// Some names, at most so many: whether there is anything, and whose it is, is known without listing a cluster's year.
    pub(crate) fn some(&self, most: usize) -> Result<Vec<String>, Error> {
        use futures_util::{StreamExt, TryStreamExt};
        let Self::Remote(remote) = self else { return Ok(Vec::new()) };
        let listed = remote.objects.list(Some(&remote.prefix)).take(most);
        let found = in_time(listed.map_ok(|o| o.location.to_string()).try_collect())?;
        found.map_err(|e| self.error("", &e))
    }

    /// The whole of a file.
    pub(crate) fn read(&self, name: &str) -> Result<Bytes, Error> {
        match self {
            Self::Local => std::fs::read(name)
                .map(Bytes::from)
                .map_err(|e| Error::io(std::path::Path::new(name), e)),
            Self::Remote(remote) => {
                let path = Path::from(name);
                let whole = async { remote.objects.get(&path).await?.bytes().await };
                wait(whole)?.map_err(|e| self.error(name, &e))
            }
        }
    }

    /// Makes a file of what `next` hands out until that is empty, whole or not at all. How many bytes it has. `name` is
    /// below the prefix.
    pub(crate) fn write(
        &self,
        name: &str,
        next: &mut dyn FnMut() -> Result<Vec<u8>, Error>,
    ) -> Result<u64, Error> {
        let Self::Remote(remote) = self else { return Err(self.not_remote(name)) };
        let mut writer = BufWriter::new(Arc::clone(&remote.objects), remote.path(name));
        let failed = |e: &dyn std::error::Error| self.error(remote.path(name).as_ref(), e);
        let mut bytes = 0;
        loop {
            let piece = next()?;
            if piece.is_empty() {
                break;
            }
            bytes += piece.len() as u64;
            in_time(writer.put(piece.into()))?.map_err(|e| failed(&e))?;
        }
        in_time(writer.shutdown())?.map_err(|e| failed(&e))?;
        Ok(bytes)
    }

    /// How long the file is that has this name below the prefix.
    pub(crate) fn size(&self, name: &str) -> Result<u64, Error> {
        let Self::Remote(remote) = self else { return Err(self.not_remote(name)) };
        let path = remote.path(name);
        let about = in_time(remote.objects.head(&path))?;
        about.map(|about| about.size).map_err(|e| self.error(path.as_ref(), &e))
    }

    /// A listed name, less the prefix.
    pub(crate) fn below<'a>(&self, name: &'a str) -> &'a str {
        let Self::Remote(remote) = self else { return name };
        name.strip_prefix(remote.prefix.as_ref()).unwrap_or(name).trim_start_matches('/')
    }

    /// A name below the prefix, as a person would write it.
    pub(crate) fn shown_below(&self, name: &str) -> String {
        match self {
            Self::Local => name.to_owned(),
            Self::Remote(remote) => self.shown(remote.path(name).as_ref()),
        }
    }

    fn not_remote(&self, name: &str) -> Error {
        Error::Store { url: name.to_owned(), reason: "this is no object store".to_owned() }
    }

    /// The name as a person would write it.
    pub(crate) fn shown(&self, name: &str) -> String {
        match self {
            Self::Local => name.to_owned(),
            Self::Remote(remote) => format!("{}/{name}", remote.bucket),
        }
    }

    pub(crate) fn error(&self, name: &str, error: &dyn std::error::Error) -> Error {
        Error::Store { url: self.shown(name), reason: said(&error.to_string()) }
    }
}

/// What the store itself said, out of a long story of requests around it.
fn said(text: &str) -> String {
    let between = |tag: &str| {
        let rest = text.split_once(&format!("<{tag}>"))?.1;
        Some(rest.split_once(&format!("</{tag}>"))?.0)
    };
    match (between("Code"), between("Message")) {
        (Some(code), Some(message)) => format!("{message} ({code})"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::said;

    #[test]
    fn an_error_is_what_the_store_said_and_not_its_xml() {
        let long = "Error performing PUT http://s3/x in 9ms - Server returned non-2xx status code: 404 Not Found: \
            <Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist</Message></Error>";
        assert_eq!(said(long), "The specified bucket does not exist (NoSuchBucket)");
        assert_eq!(said("connection refused"), "connection refused");
    }
}
