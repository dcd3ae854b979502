//! Files of training logs, sent to a processor as they grow: for machines without a log shipper.
//!
//! What a processor has acknowledged is noted on disk, so that a restart neither repeats nor loses a line; a processor
//! that is away is waited for, and the file is the buffer.

mod sender;
mod tail;

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use crosstalk_settings::Secret;
use hyper::Uri;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

use crate::error::Error;
use crate::forward::Backoff;
use crate::post::Access;
use sender::{Sender, Sent};
use tail::{Position, Tail};

/// What to follow, and where to send it.
#[derive(Debug, Clone)]
pub struct Follow {
    /// The files.
    pub files: Vec<PathBuf>,
    /// The processor, such as `http://127.0.0.1:8989`.
    pub to: String,
    /// Name of the workload; each file's name without its ending unless given.
    pub workload: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
    /// The pod that speaks; this machine's name unless given.
    pub pod: Option<String>,
    /// Token to bear.
    pub bearer_token: Option<Secret>,
    /// File with that token.
    pub bearer_token_file: Option<PathBuf>,
    /// PEM file of the authority that signed the processor's certificate.
    pub ca_file: Option<PathBuf>,
    /// Folder in which it is noted how far each file was read.
    pub state_dir: PathBuf,
    /// Whether files seen for the first time are read from their end.
    pub from_end: bool,
    /// Whether to stop at the end of the files.
    pub once: bool,
}

/// Why files are not followed any longer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// Something needed cannot be used.
    #[error(transparent)]
    Setup(#[from] Error),
    /// The address is none.
    #[error("--to {to}: {why}; give the processor's address, such as http://127.0.0.1:8989")]
    Address {
        /// As it was given.
        to: String,
        /// What is wrong with it.
        why: String,
    },
    /// A file cannot be read, or what was read cannot be noted.
    #[error("{}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The processor will never take the lines.
    #[error("{host} answers {status}: {text}")]
    Answer {
        /// The processor.
        host: String,
        /// Its answer.
        status: u16,
        /// What it said.
        text: String,
    },
}

/// Pause between two looks at a file that has not grown.
const PACE: Duration = Duration::from_millis(500);

/// Longest pause between two tries to send.
const MAX_PAUSE: Duration = Duration::from_secs(15);

/// Follows the files until the process is told to stop (SIGTERM or SIGINT), or, where told so, to their end.
///
/// # Errors
/// Where a file cannot be read, the address is none, or the processor refuses whoever asks.
pub fn follow(options: Follow) -> Result<(), FollowError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|cause| FollowError::File { path: "runtime".into(), cause })?;
    runtime.block_on(async {
        tokio::select! {
            biased;
            () = crate::service::stop_signal() => Ok(()),
            followed = run(options) => followed,
        }
    })
}

async fn run(options: Follow) -> Result<(), FollowError> {
    let sender = Sender::new(Access {
        token: options.bearer_token.as_ref(),
        token_file: options.bearer_token_file.as_deref(),
        user: None,
        ca_file: options.ca_file.as_deref(),
        shown: None,
    })?;
    std::fs::create_dir_all(&options.state_dir)
        .map_err(|cause| FollowError::File { path: options.state_dir.clone(), cause })?;
    let mut files: Vec<Followed> =
        options.files.iter().map(|path| Followed::new(path, &options)).collect::<Result<_, _>>()?;
    loop {
        let mut grown = false;
        for file in &mut files {
            grown |= file.step(&sender, options.once).await?;
        }
        if !grown {
            if options.once {
                return Ok(());
            }
            tokio::time::sleep(PACE).await;
        }
    }
}

/// One file and where its lines go.
#[derive(Debug)]
struct Followed {
    path: PathBuf,
    tail: Tail,
    /// Address with whose lines they are, but for the time.
    address: String,
    state: PathBuf,
}

impl Followed {
    fn new(path: &Path, options: &Follow) -> Result<Followed, FollowError> {
        let failed = |cause| FollowError::File { path: path.to_owned(), cause };
        if options.once {
            std::fs::metadata(path).map_err(failed)?;
        }
        let whole = std::path::absolute(path).map_err(failed)?;
        let name = crc32fast::hash(whole.as_os_str().as_encoded_bytes());
        let state = options.state_dir.join(format!("{name:08x}.json"));
        let known = std::fs::read(&state).ok();
        let position = known.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let mut tail = Tail::new(path, position.unwrap_or_default());
        if position.is_none() && options.from_end {
            tail.skip().map_err(failed)?;
        }
        Ok(Followed { path: path.to_owned(), tail, address: address(path, options)?, state })
    }

    /// Sends what came since; whether anything did.
    async fn step(&mut self, sender: &Sender, finished: bool) -> Result<bool, FollowError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |cause| FollowError::File { path, cause }
        };
        let Some(chunk) = self.tail.read(finished).map_err(failed(&self.path))? else {
            return Ok(false);
        };
        let at = format!("{}&at={}", self.address, chunk.written_by);
        let uri: Uri = at.parse().map_err(|_| FollowError::Address {
            to: self.address.clone(),
            why: "not an address".to_owned(),
        })?;
        let lines = Bytes::from(chunk.bytes);
        let mut backoff = Backoff::new(MAX_PAUSE);
        loop {
            match sender.send(&uri, lines.clone()).await? {
                Sent::Taken => break,
                Sent::Refused(why) => {
                    tracing::error!(file = %self.path.display(), why, "lines are refused and left out");
                    break;
                }
                Sent::Later(why) => {
                    tracing::warn!(file = %self.path.display(), why, "not taken; will try again");
                    tokio::time::sleep(backoff.next(None)).await;
                }
            }
        }
        self.tail.advance(chunk.next);
        note(&self.state, &chunk.next).map_err(failed(&self.state))?;
        Ok(true)
    }
}

/// Notes how far a file was read, whole or not at all.
fn note(path: &Path, position: &Position) -> std::io::Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, serde_json::to_vec(position)?)?;
    std::fs::rename(&new, path)
}

/// Where the lines of a file go, with whose they are.
fn address(path: &Path, options: &Follow) -> Result<String, FollowError> {
    let wrong = |why: String| FollowError::Address { to: options.to.clone(), why };
    let url = Url::parse(&options.to).map_err(|error| wrong(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(wrong("no http:// or https:// and a host".to_owned()));
    }
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let kernel = crosstalk_host::Kernel::read(&crosstalk_host::HostRoot::default());
    let host = kernel.hostname.unwrap_or_else(|| "localhost".to_owned());
    let pod = options.pod.clone().unwrap_or_else(|| host.clone());
    let pairs = [
        ("workload", options.workload.clone().or(stem)),
        ("namespace", options.namespace.clone()),
        ("pod", Some(pod)),
        ("node", Some(host)),
        ("container", path.file_name().map(|name| name.to_string_lossy().into_owned())),
    ];
    let pairs = pairs.into_iter().filter_map(|(name, value)| {
        let value = value?;
        Some(format!("{name}={}", utf8_percent_encode(&value, NON_ALPHANUMERIC)))
    });
    let base = url.as_str().trim_end_matches('/').trim_end_matches("/logs");
    Ok(format!("{base}/logs?{}", pairs.collect::<Vec<_>>().join("&")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_whose_the_lines_are() {
        let options = Follow {
            files: vec![],
            to: "http://127.0.0.1:8989/".into(),
            workload: None,
            namespace: Some("my team".into()),
            pod: Some("p-0".into()),
            bearer_token: None,
            bearer_token_file: None,
            ca_file: None,
            state_dir: PathBuf::new(),
            from_end: false,
            once: false,
        };
        let found = address(Path::new("/logs/llama 7b.log"), &options).unwrap();
        assert!(
            found.starts_with(
                "http://127.0.0.1:8989/logs?workload=llama%207b&namespace=my%20team&pod=p%2D0&node="
            ),
            "{found}"
        );
        let wrong = Follow { to: "localhost:8989".into(), ..options };
        let error = address(Path::new("a"), &wrong).unwrap_err().to_string();
        assert!(error.contains("http://127.0.0.1:8989"), "{error}");
    }
}
