//! The HTTP side of a store.

use std::time::{Duration, SystemTime};

use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::Bytes;
use crosstalk_remote_write::{Compression, Protocol};
use http_body_util::{BodyExt, Full};
use hyper::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT,
};
use hyper::{Method, Request, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::verdict::{Verdict, judge};
use crate::config::Endpoint;
use crate::error::{Error, with_causes};
use crate::tls;
use crosstalk_settings::{RenewedSecret, Secret};
use percent_encoding::percent_decode_str;
use url::Url;

type HyperClient = hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Sends blocks to one store.
#[derive(Debug)]
pub(crate) struct Client {
    client: HyperClient,
    uri: Uri,
    access: Access,
    /// What the configuration wants along with every request.
    headers: Vec<(HeaderName, HeaderValue)>,
    timeout: Duration,
}

/// How we prove who we are.
#[derive(Debug)]
enum Access {
    Open,
    /// A user and password of the URL.
    Basic(HeaderValue),
    /// A token, read again when its file is renewed.
    Bearer(RenewedSecret),
}

/// Bytes of an error answer that are kept.
const ANSWER_BYTES: usize = 1024;

impl Client {
    pub(crate) fn new(endpoint: &Endpoint) -> Result<Self, Error> {
        let (uri, user_info) = without_user_info(&endpoint.url);
        let file = endpoint.bearer_token_file.as_deref();
        let access = match (RenewedSecret::of(endpoint.bearer_token.as_ref(), file)?, user_info) {
            (Some(token), _) => Access::Bearer(token),
            (None, Some(user)) => {
                Access::Basic(secret_header(&format!("Basic {}", BASE64_STANDARD.encode(user))))
            }
            (None, None) => Access::Open,
        };
        let shown = endpoint.client_cert.as_deref().zip(endpoint.client_key.as_deref());
        let connector = tls::connector(tls::client_config(endpoint.ca_file.as_deref(), shown)?);
        let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(60))
            .build(connector);
        // Names and values were checked with the configuration.
        let header = |(name, value): (&String, &Secret)| {
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, secret_header(value.reveal())))
        };
        let headers = endpoint.headers.iter().filter_map(header).collect();
        Ok(Client { client, uri, access, headers, timeout: endpoint.timeout.get() })
    }

    pub(crate) async fn send(&self, protocol: Protocol, payload: Bytes) -> Verdict {
        let again = |reason, detail: String| Verdict::Again { reason, detail, after: None };
        let request = self.request(protocol, payload);
        match tokio::time::timeout(self.timeout, self.exchange(request)).await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(error)) => again("network", error),
            Err(_) => again("timeout", format!("no answer within {:?}", self.timeout)),
        }
    }

    fn request(&self, protocol: Protocol, payload: Bytes) -> Request<Full<Bytes>> {
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
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.clone());
        }
        match &self.access {
            Access::Open => {}
            Access::Basic(value) => {
                headers.insert(AUTHORIZATION, value.clone());
            }
            Access::Bearer(token) => {
                let token = format!("Bearer {}", token.get().reveal());
                headers.insert(AUTHORIZATION, secret_header(&token));
            }
        }
        request
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

/// The URL as it is requested, and the user and password that stood in it. A URL was checked with the configuration.
pub(crate) fn without_user_info(url: &Secret) -> (Uri, Option<String>) {
    let Ok(mut url) = Url::parse(url.reveal()) else { return (Uri::default(), None) };
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let password = url.password().map(decoded);
    let user = match (url.username(), password) {
        ("", None) => None,
        (user, password) => Some(format!("{}:{}", decoded(user), password.unwrap_or_default())),
    };
    // Neither can fail for a URL that has a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    (url.as_str().parse().unwrap_or_default(), user)
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
