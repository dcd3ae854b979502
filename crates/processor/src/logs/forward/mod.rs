//! Every log record on to a log store, with the workload on it, through a durable queue of its own.

mod encode;
mod verdict;

use std::path::Path;
use std::sync::Arc;

use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, Uri};
use tokio::sync::watch;

use crate::config::{LogForward, LogStore};
use crate::error::Error;
use crate::forward::{Backoff, without_user_info};
use crate::logs::disk;
use crate::metrics::Metrics;
use crate::post::{Access, Post};
use crate::queue::{Entry, Queue, QueueError, Reader};
pub(super) use encode::Encoder;
pub(crate) use encode::LogBody;
use verdict::{Verdict, judge};

/// Mark of a block of log lines.
const KIND: u8 = 32;

/// Bytes of an answer that are read: a bulk request's names every line.
const ANSWER_BYTES: usize = 4 << 20;

/// A log store's queue.
#[derive(Debug)]
pub(crate) struct LogTarget {
    pub(crate) name: String,
    pub(crate) queue: Queue,
}

impl LogTarget {
    /// Puts bodies on disk.
    pub(crate) async fn append(&self, bodies: &[LogBody]) -> Result<(), QueueError> {
        for body in bodies {
            self.queue.append(disk::block(KIND, body.lines, body.bytes.clone())).await?;
        }
        Ok(())
    }
}

/// Delivers one log store's queue.
#[derive(Debug)]
pub(crate) struct LogForwarder {
    name: String,
    store: LogStore,
    post: Post,
    uri: Uri,
    headers: HeaderMap,
    reader: Reader,
    backoff: Backoff,
    metrics: Arc<Metrics>,
    stopping: watch::Receiver<bool>,
}

/// The processor is stopping; what is not delivered stays on disk.
struct Ended;

impl LogForwarder {
    /// Opens the queue of `forward` in `folder`, and what empties it.
    pub(crate) fn open(
        forward: &LogForward,
        folder: &Path,
        metrics: Arc<Metrics>,
        stopping: watch::Receiver<bool>,
    ) -> Result<(LogTarget, LogForwarder), Error> {
        let (post, uri, headers) = client(forward)?;
        let opened = disk::open(folder, forward.max_queue_bytes);
        let name = forward.name.clone();
        let (queue, reader) =
            opened.map_err(|cause| Error::Queue { endpoint: name.clone(), cause })?;
        let forwarder = LogForwarder {
            name: name.clone(),
            store: forward.kind,
            post,
            uri,
            headers,
            reader,
            backoff: Backoff::new(forward.max_backoff.get()),
            metrics,
            stopping,
        };
        Ok((LogTarget { name, queue }, forwarder))
    }

    /// Whether the files that `forward` names can be used.
    pub(crate) fn check(forward: &LogForward) -> Result<(), Error> {
        client(forward).map(drop)
    }

    /// Runs until shutdown.
    pub(crate) async fn run(mut self) {
        while self.step().await.is_ok() {}
    }

    async fn step(&mut self) -> Result<(), Ended> {
        let entry = tokio::select! {
            biased;
            _ = self.stopping.wait_for(|stop| *stop) => return Err(Ended),
            entry = self.reader.next() => entry,
        };
        match entry {
            Ok(entry) => {
                self.deliver(&entry).await?;
                if let Err(error) = self.reader.delivered(&entry) {
                    tracing::error!(store = self.name, %error, "cannot note a delivery");
                }
                Ok(())
            }
            Err(QueueError::Closed) => Err(Ended),
            Err(error) => {
                tracing::error!(store = self.name, %error, "cannot read the queue of a log store");
                self.pause(None).await
            }
        }
    }

    /// Sends until the store has decided.
    async fn deliver(&mut self, entry: &Entry) -> Result<(), Ended> {
        let (lines, body) = (entry.block.samples, &entry.block.payload);
        loop {
            let sent = self.post.send(&self.uri, &self.headers, body.clone(), ANSWER_BYTES);
            let answer = tokio::select! {
                biased;
                _ = self.stopping.wait_for(|stop| *stop) => return Err(Ended),
                answer = sent => answer,
            };
            let verdict = match answer {
                Ok(answer) => judge(self.store, &answer, lines),
                Err(reason) => Verdict::Again { reason, after: None },
            };
            match verdict {
                Verdict::Taken { refused, reason } => {
                    self.backoff.reset();
                    let taken = u64::from(lines.saturating_sub(refused));
                    self.metrics.forwarded_log_lines.add([&self.name], taken);
                    if refused > 0 {
                        self.metrics.refused_log_lines.add([&self.name], u64::from(refused));
                        tracing::warn!(
                            store = self.name,
                            refused,
                            reason,
                            "log store refuses lines for good"
                        );
                    }
                    return Ok(());
                }
                Verdict::Again { reason, after } => {
                    self.metrics.log_forward_retries.add([&self.name], 1);
                    tracing::warn!(
                        store = self.name,
                        reason,
                        "cannot deliver log lines; will try again"
                    );
                    self.pause(after).await?;
                }
            }
        }
    }

    async fn pause(&mut self, at_least: Option<std::time::Duration>) -> Result<(), Ended> {
        let pause = self.backoff.next(at_least);
        tokio::select! {
            biased;
            _ = self.stopping.wait_for(|stop| *stop) => Err(Ended),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }
}

/// What posts to a log store, where, and with which headers.
fn client(forward: &LogForward) -> Result<(Post, Uri, HeaderMap), Error> {
    let (uri, user) = without_user_info(&forward.url);
    let access = Access {
        token: forward.bearer_token.as_ref(),
        token_file: forward.bearer_token_file.as_deref(),
        user: user.as_deref(),
        ca_file: forward.ca_file.as_deref(),
    };
    let kind = match forward.kind {
        LogStore::Loki => "application/json",
        LogStore::Elasticsearch => "application/x-ndjson",
    };
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    for (name, value) in &forward.headers {
        // Both were checked with the configuration.
        if let (Ok(name), Ok(value)) =
            (HeaderName::try_from(name.as_str()), HeaderValue::try_from(value.reveal()))
        {
            headers.insert(name, value);
        }
    }
    Ok((Post::new(access, forward.timeout.get())?, forward.kind.path(uri), headers))
}
