//! Lines to a processor.

use std::time::Duration;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Uri};

use super::FollowError;
use crate::error::Error;
use crate::post::{Access, Post};

/// Sends to one processor.
#[derive(Debug)]
pub(super) struct Sender(Post);

/// Time for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of an answer that are read.
const ANSWER_BYTES: usize = 4096;

/// What became of lines that were sent.
#[derive(Debug)]
pub(super) enum Sent {
    Taken,
    /// Not now: why.
    Later(String),
    /// These never: why.
    Refused(String),
}

impl Sender {
    pub(super) fn new(access: Access<'_>) -> Result<Sender, Error> {
        Post::new(access, PATIENCE).map(Sender)
    }

    /// Sends lines once. An answer that no other lines would change is an error.
    pub(super) async fn send(&self, uri: &Uri, lines: Bytes) -> Result<Sent, FollowError> {
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, text)]);
        let answer = match self.0.send(uri, &headers, lines, ANSWER_BYTES).await {
            Ok(answer) => answer,
            Err(why) => return Ok(Sent::Later(why)),
        };
        let text = || format!("{} {}", answer.status, answer.text());
        match answer.status {
            200..=299 => Ok(Sent::Taken),
            400 | 413 | 422 => Ok(Sent::Refused(text())),
            401 | 403 | 404 | 405 | 415 => {
                let host = uri.authority().map(ToString::to_string).unwrap_or_default();
                Err(FollowError::Answer { host, status: answer.status, text: answer.text() })
            }
            _ => Ok(Sent::Later(text())),
        }
    }
}
