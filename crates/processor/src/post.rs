//! One POST: what was answered, or why nothing was.

use std::path::Path;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::Bytes;
use crosstalk_settings::{RenewedSecret, Secret};
use http_body_util::{BodyExt, Full};
use hyper::header::{AUTHORIZATION, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{HeaderMap, Method, Request, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::error::{Error, with_causes};
use crate::tls;

type HyperClient = hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Posts to one place.
#[derive(Debug)]
pub(crate) struct Post {
    client: HyperClient,
    token: Option<RenewedSecret>,
    basic: Option<HeaderValue>,
    timeout: Duration,
}

/// What the other side said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// A pause it asks for, in seconds; a date is not waited for.
    pub(crate) retry_after: Option<Duration>,
    /// The beginning of the body.
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The body for people.
    pub(crate) fn text(&self) -> String {
        let text: String = String::from_utf8_lossy(&self.body).chars().take(500).collect();
        text.trim().to_owned()
    }
}

/// Who we are to the other side.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Access<'a> {
    pub(crate) token: Option<&'a Secret>,
    pub(crate) token_file: Option<&'a Path>,
    /// `user:password`, used where there is no token.
    pub(crate) user: Option<&'a str>,
    pub(crate) ca_file: Option<&'a Path>,
    /// A certificate and its key.
    pub(crate) shown: Option<(&'a Path, &'a Path)>,
}

impl Post {
    pub(crate) fn new(access: Access<'_>, timeout: Duration) -> Result<Post, Error> {
        let connector = tls::connector(tls::client_config(access.ca_file, access.shown)?);
        let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(60))
            .build(connector);
        let token = RenewedSecret::of(access.token, access.token_file)?;
        let basic = access.user.map(|user| format!("Basic {}", BASE64_STANDARD.encode(user)));
        Ok(Post { client, token, basic: basic.and_then(|text| secret(&text)), timeout })
    }

    /// Posts once and reads `most` bytes of the answer. An error is the network's: why there is no answer.
    pub(crate) async fn send(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        body: Bytes,
        most: usize,
    ) -> Result<Answer, String> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri.clone();
        let ours = request.headers_mut();
        let agent = concat!("crosstalk-processor/", env!("CARGO_PKG_VERSION"));
        ours.insert(USER_AGENT, HeaderValue::from_static(agent));
        let token =
            self.token.as_ref().and_then(|t| secret(&format!("Bearer {}", t.get().reveal())));
        if let Some(access) = token.or_else(|| self.basic.clone()) {
            ours.insert(AUTHORIZATION, access);
        }
        ours.extend(headers.clone());
        let exchange = async {
            let response =
                self.client.request(request).await.map_err(|error| with_causes(&error))?;
            let status = response.status().as_u16();
            let asked = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
            let retry_after =
                asked.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
            let body = read_at_most(response.into_body(), most).await;
            Ok(Answer { status, retry_after, body })
        };
        tokio::time::timeout(self.timeout, exchange)
            .await
            .unwrap_or_else(|_| Err(format!("no answer within {:?}", self.timeout)))
    }
}

fn secret(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The first `most` bytes of a body; reads no further once it has them.
async fn read_at_most(mut body: hyper::body::Incoming, most: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < most
        && let Some(Ok(frame)) = body.frame().await
    {
        if let Some(data) = frame.data_ref() {
            let room = most - bytes.len();
            bytes.extend_from_slice(&data[..data.len().min(room)]);
        }
    }
    bytes
}
