//! One body to a log store, and what became of it.

use bytes::Bytes;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, Uri};

use super::verdict::{Verdict, judge};
use crate::config::{LogForward, LogStore};
use crate::error::Error;
use crate::forward::without_user_info;
use crate::post::{Access, Post};

/// Bytes of an answer that are read: a bulk request's names every line, of which there are a few thousand, with the fault it
/// finds in it. One that is cut off cannot be read.
const ANSWER_BYTES: usize = 32 << 20;

/// What posts to a log store, where, and with which headers.
#[derive(Debug)]
pub(crate) struct LogWay {
    store: LogStore,
    post: Post,
    uri: Uri,
    headers: HeaderMap,
}

impl LogWay {
    pub(crate) fn new(forward: &LogForward) -> Result<LogWay, Error> {
        let (uri, user) = without_user_info(&forward.url);
        let access = Access {
            token: forward.bearer_token.as_ref(),
            token_file: forward.bearer_token_file.as_deref(),
            user: user.as_deref(),
            ca_file: forward.ca_file.as_deref(),
            shown: forward.client_cert.as_deref().zip(forward.client_key.as_deref()),
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
        let post = Post::new(access, forward.timeout.get())?;
        Ok(LogWay { store: forward.kind, post, uri: forward.kind.path(uri), headers })
    }

    /// Sends a body once.
    pub(crate) async fn send(&self, body: &Bytes) -> Verdict {
        match self.post.send(&self.uri, &self.headers, body.clone(), ANSWER_BYTES).await {
            Ok(answer) => judge(self.store, &answer),
            Err(reason) => Verdict::Again { reason, after: None },
        }
    }
}
