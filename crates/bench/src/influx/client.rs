//! The three ways to write: 1.x with a database, 2.x with an organisation and a bucket, 3.x with a database and a token.

use crate::Error;
use crate::experiment::{Database, InfluxVersion};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// How long it may take to reach a server.
const CONNECT: Duration = Duration::from_secs(10);
/// Bytes of an error that are kept.
const ANSWER_BYTES: usize = 1_024;

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The server has it.
    Taken,
    /// The server will never take it.
    Refused(String),
    /// It must be sent again.
    Away(String),
}

/// Writes to one server.
pub struct Client {
    http: hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    tokio: Runtime,
    uri: Uri,
    access: Option<HeaderValue>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Client {
    /// For the server of an experiment.
    ///
    /// # Errors
    /// Its address is none.
    pub fn new(database: &Database) -> Result<Self, Error> {
        let (uri, access) = target(database);
        let wrong = |what: String| Error::Database { host: database.host.clone(), what };
        let uri: Uri = uri.parse().map_err(|error| wrong(format!("{error}")))?;
        if uri.host().is_none() {
            return Err(wrong("is no address".to_owned()));
        }
        let access = access
            .map(|text| HeaderValue::from_str(&text))
            .transpose()
            .map_err(|_| wrong("the token has characters that no token has".to_owned()))?;
        let tokio =
            Builder::new_current_thread().enable_all().build().map_err(Error::file("tokio"))?;
        let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .build(connector().map_err(wrong)?);
        Ok(Self { http, tokio, uri, access })
    }

    /// Sends a batch and waits for the answer, so long at most.
    pub fn send(&self, batch: &str, patience: Duration) -> Delivery {
        let mut request = Request::new(Full::new(Bytes::copy_from_slice(batch.as_bytes())));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        request.headers_mut().insert(CONTENT_TYPE, plain);
        if let Some(access) = &self.access {
            request.headers_mut().insert(AUTHORIZATION, access.clone());
        }
        let exchange = async {
            let response = self.http.request(request).await.map_err(|error| error.to_string())?;
            let status = response.status().as_u16();
            let body = Limited::new(response.into_body(), ANSWER_BYTES).collect().await;
            let body = body.map(|body| body.to_bytes()).unwrap_or_default();
            Ok::<_, String>((status, String::from_utf8_lossy(&body).trim().to_owned()))
        };
        let answer = self.tokio.block_on(async { tokio::time::timeout(patience, exchange).await });
        match answer {
            Ok(Ok((status, body))) => judge(status, &body),
            Ok(Err(error)) => Delivery::Away(error),
            Err(_) => Delivery::Away(format!("no answer within {patience:?}")),
        }
    }
}

fn judge(status: u16, body: &str) -> Delivery {
    let answer = format!("HTTP {status}: {body}");
    match status {
        200..=299 => Delivery::Taken,
        // Too many, too slow, not allowed or not there yet, as a database that is to be made: all of these may pass.
        401 | 403 | 404 | 408 | 429 | 500..=599 => Delivery::Away(answer),
        _ => Delivery::Refused(answer),
    }
}

/// The address to write to, and what proves who we are.
fn target(database: &Database) -> (String, Option<String>) {
    let host = database.host.trim_end_matches('/');
    let host = if host.contains("://") { host.to_owned() } else { format!("http://{host}") };
    // Without a port, the one that InfluxDB listens on.
    let bare = host.parse::<Uri>().is_ok_and(|uri| {
        uri.scheme_str() == Some("http") && uri.port().is_none() && uri.path() == "/"
    });
    let port = if database.version == InfluxVersion::Three { 8181 } else { 8086 };
    let host = if bare { format!("{host}:{port}") } else { host };
    let escape = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let name = escape(&database.name);
    let password = database.password.as_ref().map(|password| password.reveal());
    match database.version {
        InfluxVersion::Three => {
            let uri = format!("{host}/api/v3/write_lp?db={name}&precision=nanosecond");
            (uri, password.map(|token| format!("Bearer {token}")))
        }
        InfluxVersion::Two => {
            let org = escape(database.org.as_deref().unwrap_or_default());
            let uri = format!("{host}/api/v2/write?org={org}&bucket={name}&precision=ns");
            (uri, password.map(|token| format!("Token {token}")))
        }
        InfluxVersion::One => {
            let mut uri = format!("{host}/write?db={name}&precision=ns");
            if let (Some(user), Some(password)) = (&database.user, password) {
                uri += &format!("&u={}&p={}", escape(user), escape(password));
            }
            (uri, None)
        }
    }
}

fn connector() -> Result<HttpsConnector<HttpConnector>, String> {
    let mut roots = RootCertStore::empty();
    // A machine without authorities can still speak plain HTTP.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_connect_timeout(Some(CONNECT));
    let builder = HttpsConnectorBuilder::new().with_tls_config(tls);
    Ok(builder.https_or_http().enable_http1().wrap_connector(http))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_settings::Secret;

    #[test]
    fn each_version_has_its_address_and_its_way_to_say_who_asks() {
        let mut database = Database {
            host: "db".to_owned(),
            name: "a b".to_owned(),
            user: Some("u&".to_owned()),
            password: Some(Secret::new("p")),
            org: None,
            version: InfluxVersion::One,
        };
        let (uri, access) = target(&database);
        assert_eq!(uri, "http://db:8086/write?db=a%20b&precision=ns&u=u%26&p=p");
        assert_eq!(access, None);
        for (host, whole) in [("[::1]", "http://[::1]:8086"), ("db:80", "http://db:80")] {
            database.host = host.to_owned();
            assert!(target(&database).0.starts_with(&format!("{whole}/write")), "{host}");
        }
        (database.org, database.version) = (Some("o".to_owned()), InfluxVersion::Two);
        database.host = "https://db.example:9/x/".to_owned();
        let (uri, access) = target(&database);
        assert_eq!(uri, "https://db.example:9/x/api/v2/write?org=o&bucket=a%20b&precision=ns");
        assert_eq!(access.as_deref(), Some("Token p"));
        (database.host, database.version) = ("db".to_owned(), InfluxVersion::Three);
        let (uri, access) = target(&database);
        assert_eq!(uri, "http://db:8181/api/v3/write_lp?db=a%20b&precision=nanosecond");
        assert_eq!(access.as_deref(), Some("Bearer p"));
    }

    #[test]
    fn only_what_can_never_be_taken_is_given_up() {
        assert_eq!(judge(204, ""), Delivery::Taken);
        assert!(matches!(judge(400, "bad line"), Delivery::Refused(_)));
        for status in [401, 404, 429, 500, 503] {
            assert!(matches!(judge(status, ""), Delivery::Away(_)), "{status}");
        }
    }
}
