//! Requests to the API server.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;

use super::access::{Access, Token};
use super::objects::Status;
use crate::config::Kubernetes;
use crate::error::{Error, with_causes};

/// A connection to one API server.
#[derive(Debug)]
pub struct Api {
    client: hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    server: String,
    token: Token,
}

/// Why the API did not give what was asked for.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    /// The version we asked from is no longer known: list again.
    #[error("resource version is gone")]
    Gone,
    /// The API says no.
    #[error("{path}: {status} {message}")]
    Refused { path: String, status: u16, message: String },
    /// The API cannot be reached, or breaks off.
    #[error("{0}")]
    Away(String),
}

/// Time for an answer to begin, and for a whole object or page.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of one answer or one watch event at most.
const MAX_BYTES: usize = 64 << 20;

impl Api {
    /// A client as configured; nothing is asked yet.
    pub fn new(config: &Kubernetes) -> Result<Self, Error> {
        let access = Access::of(config).map_err(Error::Kubernetes)?;
        let connector = crate::tls::connector(access.tls);
        Ok(Api {
            client: hyper_util::client::legacy::Client::builder(TokioExecutor::new())
                .build(connector),
            server: access.server,
            token: access.token,
        })
    }

    /// One object or list.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        let reading = async {
            let response = self.send(path).await?;
            let body = whole(response.into_body()).await?;
            serde_json::from_slice(&body)
                .map_err(|error| ApiError::Away(format!("{path}: {error}")))
        };
        within(path, reading).await
    }

    /// A stream of events, one JSON text a line.
    pub(super) async fn watch(&self, path: &str) -> Result<Lines, ApiError> {
        let response = within(path, self.send(path)).await?;
        Ok(Lines { body: response.into_body(), buffer: BytesMut::new(), searched: 0 })
    }

    async fn send(&self, path: &str) -> Result<Response<Incoming>, ApiError> {
        let away = |error: String| ApiError::Away(format!("{path}: {error}"));
        let mut request = Request::new(Full::default());
        *request.uri_mut() =
            format!("{}{path}", self.server).parse().map_err(|error| away(format!("{error}")))?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(token) = self.token.read().map_err(away)? {
            let value = HeaderValue::from_str(&format!("Bearer {}", token.reveal()));
            let mut value =
                value.map_err(|_| away("the token cannot stand in a header".to_owned()))?;
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        let response = self.client.request(request).await;
        let response = response.map_err(|error| away(with_causes(&error)))?;
        match response.status() {
            StatusCode::OK => Ok(response),
            StatusCode::GONE => Err(ApiError::Gone),
            status => {
                let body = whole(response.into_body()).await.unwrap_or_default();
                let said: Status = serde_json::from_slice(&body).unwrap_or_default();
                let (path, status) = (path.to_owned(), status.as_u16());
                Err(ApiError::Refused { path, status, message: said.message })
            }
        }
    }
}

async fn within<T>(
    path: &str,
    work: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    let late = |_| ApiError::Away(format!("{path}: no answer within {TIMEOUT:?}"));
    tokio::time::timeout(TIMEOUT, work).await.map_err(late)?
}

async fn whole(mut body: Incoming) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ApiError::Away(with_causes(&error)))?;
        if let Some(data) = frame.data_ref() {
            if bytes.len() + data.len() > MAX_BYTES {
                return Err(ApiError::Away(format!("answer is larger than {MAX_BYTES} bytes")));
            }
            bytes.extend_from_slice(data);
        }
    }
    Ok(bytes)
}

/// The lines of a watch as they come.
#[derive(Debug)]
pub(super) struct Lines {
    body: Incoming,
    buffer: BytesMut,
    /// Bytes of the buffer known to hold no line end.
    searched: usize,
}

impl Lines {
    /// The next line, or `None` when the server ends the stream. May be dropped while waiting without losing a line.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            if let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.searched + end).freeze();
                self.buffer.advance(1);
                self.searched = 0;
                return Ok(Some(line));
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > MAX_BYTES {
                return Err(ApiError::Away(format!("event is larger than {MAX_BYTES} bytes")));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(ApiError::Away(with_causes(&error))),
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.buffer.extend_from_slice(data);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_api_that_cannot_be_reached_is_said_with_the_cause() {
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let text = format!(
            "current-context: c\ncontexts: [{{name: c, context: {{cluster: k}}}}]\n\
             clusters: [{{name: k, cluster: {{server: 'http://{nobody}'}}}}]\n"
        );
        std::fs::write(&path, text).unwrap();
        let config = Kubernetes { enabled: true, kubeconfig: Some(path), ..Default::default() };
        let api = Api::new(&config).unwrap();
        let error = api.get::<Status>("/api/v1/pods").await.unwrap_err().to_string();
        assert!(error.contains("refused"), "{error}");
    }
}
