//! The HTTP side of a store.

use std::time::{Duration, SystemTime};

use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::Bytes;
use crosstalk_remote_write::{Compression, Protocol};
use http_body_util::{BodyExt, Full};
use hyper::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::verdict::{Verdict, judge};
use crate::config::{Endpoint, Secret};
use crate::error::{Error, with_causes};
use crate::tls;

type HyperClient = hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Sends blocks to one store.
#[derive(Debug)]
pub(super) struct Client {
    client: HyperClient,
    uri: Uri,
    access: Access,
    timeout: Duration,
}

/// How we prove who we are.
#[derive(Debug)]
enum Access {
    Open,
    Header(HeaderValue),
    /// Read for every request: such tokens are replaced while we run.
    TokenFile(std::path::PathBuf),
}

/// Bytes of an error answer that are kept.
const ANSWER_BYTES: usize = 1024;

impl Client {
    pub(super) fn new(endpoint: &Endpoint) -> Result<Self, Error> {
        let (uri, user_info) = without_user_info(&endpoint.url);
        let access = match (&endpoint.bearer_token, &endpoint.bearer_token_file, user_info) {
            (Some(token), _, _) => {
                Access::Header(secret_header(&format!("Bearer {}", token.reveal())))
            }
            (None, Some(file), _) => Access::TokenFile(file.clone()),
            (None, None, Some(user)) => {
                Access::Header(secret_header(&format!("Basic {}", BASE64_STANDARD.encode(user))))
            }
            (None, None, None) => Access::Open,
        };
        let connector = tls::connector(tls::client_config(endpoint.ca_file.as_deref())?);
        let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(60))
            .build(connector);
        Ok(Client { client, uri, access, timeout: endpoint.timeout() })
    }

    pub(super) async fn send(&self, protocol: Protocol, payload: Bytes) -> Verdict {
        let again = |reason, detail: String| Verdict::Again { reason, detail, after: None };
        let request = match self.request(protocol, payload) {
            Ok(request) => request,
            Err(detail) => return again("token", detail),
        };
        match tokio::time::timeout(self.timeout, self.exchange(request)).await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(error)) => again("network", error),
            Err(_) => again("timeout", format!("no answer within {:?}", self.timeout)),
        }
    }

    fn request(&self, protocol: Protocol, payload: Bytes) -> Result<Request<Full<Bytes>>, String> {
        let mut request = Request::new(Full::new(payload));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(protocol.content_type()));
        let encoding = Compression::Snappy.content_encoding();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        let version = HeaderValue::from_static(protocol.version_header());
        headers.insert("x-prometheus-remote-write-version", version);
        let agent = concat!("crosstalk-processor/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        match &self.access {
            Access::Open => {}
            Access::Header(value) => {
                headers.insert(AUTHORIZATION, value.clone());
            }
            Access::TokenFile(file) => {
                let token = std::fs::read_to_string(file)
                    .map_err(|error| format!("{}: {error}", file.display()))?;
                headers.insert(AUTHORIZATION, secret_header(&format!("Bearer {}", token.trim())));
            }
        }
        Ok(request)
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Verdict, String> {
        let response = self.client.request(request).await.map_err(|error| with_causes(&error))?;
        let status = response.status().as_u16();
        let retry_after = response.headers().get("retry-after").cloned();
        let retry_after = retry_after.as_ref().and_then(|value| value.to_str().ok());
        // Read to the end so that the connection can be used again; an answer that breaks off does not change it.
        let body = read_at_most(response.into_body(), ANSWER_BYTES).await;
        let body = String::from_utf8_lossy(&body).trim().to_owned();
        Ok(judge(status, retry_after, body, SystemTime::now()))
    }
}

/// The first `limit` bytes of a body; reads no further once it has them.
async fn read_at_most(mut body: hyper::body::Incoming, limit: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < limit
        && let Some(Ok(frame)) = body.frame().await
    {
        if let Some(data) = frame.data_ref() {
            let room = limit - bytes.len();
            bytes.extend_from_slice(&data[..data.len().min(room)]);
        }
    }
    bytes
}

fn secret_header(text: &str) -> HeaderValue {
    let mut value = HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("invalid"));
    value.set_sensitive(true);
    value
}

/// The URL as it is requested, and the user and password that stood in it.
fn without_user_info(url: &Secret) -> (Uri, Option<String>) {
    let url = url.reveal();
    let split = url.split_once("://").and_then(|(scheme, rest)| {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (user, host) = authority.rsplit_once('@')?;
        Some((format!("{scheme}://{host}{path}"), percent_decoded(user)))
    });
    let (url, user) = match split {
        Some((url, user)) => (url, Some(user)),
        None => (url.to_owned(), None),
    };
    (url.parse().unwrap_or_default(), user)
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(decoded) if byte == b'%' => {
                bytes.push(decoded);
                rest = &after[2..];
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_in_the_url_becomes_basic_authentication() {
        let (uri, user) = without_user_info(&Secret::new("http://me:p%40ss@host:1/write?x=1"));
        assert_eq!(uri.to_string(), "http://host:1/write?x=1");
        assert_eq!(user.as_deref(), Some("me:p@ss"));
        assert_eq!(without_user_info(&Secret::new("http://host/@x")).1, None);
    }
}
