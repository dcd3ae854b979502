//! Where files lie: this machine, or an object store.

use crate::Error;
use crate::multipart::{self, Failed, LONGEST_PART, PART};
use bytes::Bytes;
use object_store::client::{HttpError, HttpErrorKind};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, UpdateVersion};
use std::fmt;
use std::fs::File;
use std::future::Future;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
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

/// An object as it was at one moment.
pub(crate) struct Seen {
    pub(crate) bytes: Bytes,
    /// How long ago it was put.
    pub(crate) age: Duration,
    pub(crate) version: Option<String>,
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

/// The same, for so long as an answer to a small question may take. What is sent has more time, [`LONGEST_PART`] for each
/// part: that, once, is what a store that takes requests and never answers can hold up the end of a recording.
fn in_time<T>(work: impl Future<Output = T>) -> Result<T, Error> {
    const LONGEST: Duration = Duration::from_secs(30);
    let late = |_| Error::Store { url: String::new(), reason: no_answer(LONGEST) };
    wait(async { tokio::time::timeout(LONGEST, work).await })?.map_err(late)
}

fn no_answer(longest: Duration) -> String {
    format!("the store has not answered for {} s", longest.as_secs())
}

impl Remote {
    fn path(&self, name: &str) -> Path {
        object_path(&format!("{}/{name}", self.prefix))
    }
}

/// A name as it is: what is `%20` in it, as node names have it in folders, stays so.
pub(crate) fn object_path(name: &str) -> Path {
    Path::parse(name).unwrap_or_else(|_| Path::from(name))
}

/// What came of putting an object only where it is as expected.
pub(crate) enum Replaced {
    /// It was put; the version it has now.
    Done(Option<String>),
    /// Another one is there, or none.
    Otherwise,
}

impl Store {
    /// Opens the store of a URL. Keys and endpoints come from the environment, as its own tools take
    /// them (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, ...).
    pub(crate) fn open(url: &str) -> Result<Self, Error> {
        Self::open_with(url, None)
    }

    /// The same, for sending: a request may take as long as a slow link needs for the largest part, unless the environment
    /// says otherwise (`AWS_TIMEOUT`).
    pub(crate) fn open_to_send(url: &str) -> Result<Self, Error> {
        let longest = format!("{}s", LONGEST_PART.as_secs());
        Self::open_with(url, Some(("timeout".to_owned(), longest)))
    }

    fn open_with(url: &str, first: Option<(String, String)>) -> Result<Self, Error> {
        let wrong = |reason: String| Error::Store { url: url.to_owned(), reason };
        let parsed = url::Url::parse(url).map_err(|e| wrong(e.to_string()))?;
        let settings = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?.to_ascii_lowercase(), value.into_string().ok()?))
        });
        let (objects, prefix) =
            object_store::parse_url_opts(&parsed, first.into_iter().chain(settings))
                .map_err(|e| wrong(e.to_string()))?;
        let path = parsed.path().trim_end_matches('/');
        let bucket = url.trim_end_matches('/').strip_suffix(path).unwrap_or(url).to_owned();
        Ok(Self::Remote(Arc::new(Remote { bucket, prefix, objects: objects.into() })))
    }

    /// All names with their sizes.
    pub(crate) fn list(&self) -> Result<Vec<(String, u64)>, Error> {
        let Self::Remote(remote) = self else { return Ok(Vec::new()) };
        let found = wait(crate::listing::all(&*remote.objects, &remote.prefix))?;
        found.map_err(|e| self.error(remote.prefix.as_ref(), &e))
    }

    /// Notes in the folders above ([`crate::exchange`]): their names follow those of anything else, so that it is asked for
    /// nothing but them. Where keys may not list that, there are none.
    pub(crate) fn notes_above(&self) -> Result<Vec<(String, u64)>, Error> {
        use futures_util::TryStreamExt;
        let Self::Remote(remote) = self else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        let mut above = remote.prefix.as_ref();
        while !above.is_empty() {
            above = above.rsplit_once('/').map_or("", |(above, _)| above);
            let from = object_path(&format!("{above}/~"));
            let listed = remote.objects.list_with_offset(Some(&object_path(above)), &from);
            let listed = listed.map_ok(|o| (o.location.to_string(), o.size));
            match in_time(listed.try_collect::<Vec<_>>())? {
                Ok(notes) => found.extend(notes),
                Err(object_store::Error::PermissionDenied { .. }) => {}
                Err(error) => return Err(self.error(above, &error)),
            }
        }
        Ok(found)
    }

    /// Whether what has this whole name is below the prefix.
    pub(crate) fn holds(&self, name: &str) -> bool {
        let Self::Remote(remote) = self else { return true };
        let prefix = remote.prefix.as_ref();
        let below = name.strip_prefix(prefix);
        prefix.is_empty() || below.is_some_and(|below| below.starts_with('/'))
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
                let path = object_path(name);
                let whole = async { remote.objects.get(&path).await?.bytes().await };
                wait(whole)?.map_err(|e| self.error(name, &e))
            }
        }
    }

    /// The same; `None` if there is no such file.
    pub(crate) fn read_if_there(&self, name: &str) -> Result<Option<Bytes>, Error> {
        match self {
            Self::Local => match std::fs::read(name) {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
                other => other
                    .map(|bytes| Some(bytes.into()))
                    .map_err(|e| Error::io(std::path::Path::new(name), e)),
            },
            Self::Remote(remote) => {
                let path = object_path(name);
                let whole = async { remote.objects.get(&path).await?.bytes().await };
                match in_time(whole)? {
                    Err(object_store::Error::NotFound { .. }) => Ok(None),
                    other => other.map(Some).map_err(|e| self.error(name, &e)),
                }
            }
        }
    }

    /// The same bucket with another prefix, by its whole name; `None` on this machine.
    pub(crate) fn below_bucket(&self, prefix: &str) -> Option<Self> {
        let Self::Remote(remote) = self else { return None };
        let (bucket, objects) = (remote.bucket.clone(), remote.objects.clone());
        Some(Self::Remote(Arc::new(Remote { bucket, prefix: object_path(prefix), objects })))
    }

    /// Makes a small file unless there is one.
    pub(crate) fn put_new(&self, name: &str, bytes: Vec<u8>) -> Result<Replaced, Error> {
        self.put(name, bytes, PutMode::Create)
    }

    /// Puts another one in the place of a small file that has this version.
    pub(crate) fn put_over(
        &self,
        name: &str,
        bytes: Vec<u8>,
        version: Option<String>,
    ) -> Result<Replaced, Error> {
        self.put(name, bytes, PutMode::Update(UpdateVersion { e_tag: version, version: None }))
    }

    fn put(&self, name: &str, bytes: Vec<u8>, mode: PutMode) -> Result<Replaced, Error> {
        use object_store::Error::{AlreadyExists, NotFound, Precondition};
        let Self::Remote(remote) = self else { return Err(self.not_remote(name)) };
        let path = remote.path(name);
        let options = PutOptions { mode, ..PutOptions::default() };
        match in_time(remote.objects.put_opts(&path, bytes.into(), options))? {
            Ok(put) => Ok(Replaced::Done(put.e_tag)),
            Err(AlreadyExists { .. } | Precondition { .. } | NotFound { .. }) => {
                Ok(Replaced::Otherwise)
            }
            Err(error) => Err(self.error(path.as_ref(), &error)),
        }
    }

    /// A small file by its whole name, with its age and version; `None` if there is none.
    pub(crate) fn look(&self, name: &str) -> Result<Option<Seen>, Error> {
        let Self::Remote(remote) = self else { return Err(self.not_remote(name)) };
        let path = object_path(name);
        let seen = async {
            let got = remote.objects.get(&path).await?;
            let about = got.meta.clone();
            Ok::<_, object_store::Error>((about, got.bytes().await?))
        };
        let (about, bytes) = match in_time(seen)? {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            other => other.map_err(|e| self.error(name, &e))?,
        };
        let put = u64::try_from(about.last_modified.timestamp_millis()).unwrap_or(0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let age = now.saturating_sub(Duration::from_millis(put));
        Ok(Some(Seen { bytes, age, version: about.e_tag }))
    }

    /// Removes a file. One that is not there is no error.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Error> {
        let Self::Remote(remote) = self else {
            return match std::fs::remove_file(name) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(Error::io(std::path::Path::new(name), error))
                }
                _ => Ok(()),
            };
        };
        let path = remote.path(name);
        match in_time(remote.objects.delete(&path))? {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.error(path.as_ref(), &error)),
        }
    }

    /// Sends a file of this machine and asks how long it is there, so that it stands whole or is an error.
    pub(crate) fn write_file(
        &self,
        name: &str,
        input: &mut File,
        path: &std::path::Path,
    ) -> Result<u64, Error> {
        let sent = self.write(name, &mut || next_piece(input, path))?;
        let there = self.size(name)?;
        if there == sent {
            return Ok(sent);
        }
        let reason = format!("it has {there} bytes there where {sent} were sent; it is sent again");
        Err(Error::Store { url: self.shown_below(name), reason })
    }

    /// Makes a file of what `next` hands out until that is empty, whole or not at all. How many bytes it has. `name` is
    /// below the prefix.
    pub(crate) fn write(
        &self,
        name: &str,
        next: &mut dyn FnMut() -> Result<Vec<u8>, Error>,
    ) -> Result<u64, Error> {
        let Self::Remote(remote) = self else { return Err(self.not_remote(name)) };
        let path = remote.path(name);
        let first = next()?;
        let bytes = first.len() as u64;
        let sent = wait(async {
            if first.len() < PART {
                let put =
                    tokio::time::timeout(LONGEST_PART, remote.objects.put(&path, first.into()));
                let put = put.await.map_err(|_| Failed::Late(LONGEST_PART))?;
                return put.map(|_| bytes).map_err(Failed::Store);
            }
            let begun = tokio::time::timeout(LONGEST_PART, remote.objects.put_multipart(&path));
            let begun = begun.await.map_err(|_| Failed::Late(LONGEST_PART))?;
            multipart::send(begun.map_err(Failed::Store)?, first, next, LONGEST_PART).await
        })?;
        sent.map_err(|failed| match failed {
            Failed::Input(error) => error,
            Failed::Store(error) => self.error(path.as_ref(), &error),
            Failed::Late(longest) => {
                Error::Store { url: self.shown(path.as_ref()), reason: no_answer(longest) }
            }
        })
    }

    /// How long the file is that has this name below the prefix.
    pub(crate) fn size(&self, name: &str) -> Result<u64, Error> {
        let Self::Remote(remote) = self else { return Err(self.not_remote(name)) };
        let path = remote.path(name);
        let about = in_time(remote.objects.head(&path))?;
        about.map(|about| about.size).map_err(|e| self.error(path.as_ref(), &e))
    }

    /// The same; `None` if there is no such file.
    pub(crate) fn size_if_there(&self, name: &str) -> Result<Option<u64>, Error> {
        let Self::Remote(remote) = self else { return Err(self.not_remote(name)) };
        let path = remote.path(name);
        match in_time(remote.objects.head(&path))? {
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            about => about.map(|about| Some(about.size)).map_err(|e| self.error(path.as_ref(), &e)),
        }
    }

    /// A listed name, less the prefix.
    pub(crate) fn below<'a>(&self, name: &'a str) -> &'a str {
        let Self::Remote(remote) = self else { return name };
        name.strip_prefix(remote.prefix.as_ref()).unwrap_or(name).trim_start_matches('/')
    }

    /// The whole name of what has this one below the prefix.
    pub(crate) fn whole(&self, name: &str) -> String {
        match self {
            Self::Local => name.to_owned(),
            Self::Remote(remote) => remote.path(name).to_string(),
        }
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

    pub(crate) fn error(&self, name: &str, error: &object_store::Error) -> Error {
        let (url, reason) = (self.shown(name), said(&error.to_string()));
        match error {
            object_store::Error::PermissionDenied { .. } => Error::Denied { url, reason },
            _ if is_unreachable(error) => Error::Unreachable { url, reason },
            _ => Error::Store { url, reason },
        }
    }
}

/// Whether not even a connection was made, in all the times that this was tried.
fn is_unreachable(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(|cause| {
        let failed = cause.downcast_ref::<HttpError>();
        failed.is_some_and(|failed| failed.kind() == HttpErrorKind::Connect)
    })
}

fn next_piece(input: &mut File, path: &std::path::Path) -> Result<Vec<u8>, Error> {
    use std::io::Read;
    let mut piece = Vec::with_capacity(PART);
    input.take(PART as u64).read_to_end(&mut piece).map_err(|e| Error::io(path, e))?;
    Ok(piece)
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
    use super::{object_path, said};

    #[test]
    fn a_name_with_a_percent_sign_is_not_encoded_again() {
        let name = "rec/tasks/node=a%20b/run=r1/tasks-1.parquet";
        assert_eq!(object_path(name).as_ref(), name);
    }

    #[test]
    fn an_error_is_what_the_store_said_and_not_its_xml() {
        let long = "Error performing PUT http://s3/x in 9ms - Server returned non-2xx status code: 404 Not Found: \
            <Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist</Message></Error>";
        assert_eq!(said(long), "The specified bucket does not exist (NoSuchBucket)");
        assert_eq!(said("connection refused"), "connection refused");
    }
}
