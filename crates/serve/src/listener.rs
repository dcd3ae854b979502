use crosstalk_settings::{Fault, Period, Secret};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How a service listens: the keys are the same in every service.
///
/// ```
/// use crosstalk_serve::Listener;
///
/// let listener = Listener { tls_cert: Some("cert.pem".into()), ..Listener::default() };
/// assert_eq!(listener.fault("http").unwrap().key, "http.tls_cert");
/// assert!(Listener::default().fault("http").is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Listener {
    /// PEM certificate chain; with `tls_key` turns TLS on. Read again when it is renewed.
    pub tls_cert: Option<PathBuf>,
    /// PEM private key.
    pub tls_key: Option<PathBuf>,
    /// PEM file of the authorities whose clients are let in; every request but probes needs a certificate of theirs.
    pub client_ca: Option<PathBuf>,
    /// Token every request but probes must bear.
    pub bearer_token: Option<Secret>,
    /// File with that token, read again when it is renewed.
    pub bearer_token_file: Option<PathBuf>,
    /// Token that opens what is read, beside `bearer_token`, which opens everything.
    pub read_token: Option<Secret>,
    /// File with that token, read again when it is renewed.
    pub read_token_file: Option<PathBuf>,
    /// Token that opens what is written, beside `bearer_token`.
    pub write_token: Option<Secret>,
    /// File with that token, read again when it is renewed.
    pub write_token_file: Option<PathBuf>,
    /// Connections open at once; more are answered 503, but for probes.
    #[serde(alias = "max_connections")]
    pub connections: usize,
    /// Requests in work at once; more are answered 429, but for probes.
    #[serde(alias = "max_requests")]
    pub requests: usize,
    /// How long a request's head may take to arrive, and a connection may rest between two.
    #[serde(alias = "head_timeout")]
    pub read_timeout: Period,
    /// How long a request's body may take to arrive.
    pub body_timeout: Period,
    /// How long a client may take nothing of its answer.
    pub write_timeout: Period,
}

impl Default for Listener {
    fn default() -> Self {
        Self {
            tls_cert: None,
            tls_key: None,
            client_ca: None,
            bearer_token: None,
            bearer_token_file: None,
            read_token: None,
            read_token_file: None,
            write_token: None,
            write_token_file: None,
            connections: 1024,
            requests: 256,
            read_timeout: Period::seconds(30),
            body_timeout: Period::seconds(30),
            write_timeout: Period::seconds(10),
        }
    }
}

impl Listener {
    /// What cannot be, of a listener configured in the table `section`.
    #[must_use]
    pub fn fault(&self, section: &str) -> Option<Fault> {
        let fault = |key: &str, what: String| Some(Fault::new(format!("{section}.{key}"), what));
        match (&self.tls_cert, &self.tls_key) {
            (Some(_), None) => return fault("tls_cert", "needs tls_key beside it".to_owned()),
            (None, Some(_)) => return fault("tls_key", "needs tls_cert beside it".to_owned()),
            (None, None) if self.client_ca.is_some() => {
                return fault("client_ca", "needs tls_cert and tls_key beside it".to_owned());
            }
            _ => {}
        }
        for (key, token, file) in [
            ("bearer_token", &self.bearer_token, &self.bearer_token_file),
            ("read_token", &self.read_token, &self.read_token_file),
            ("write_token", &self.write_token, &self.write_token_file),
        ] {
            if token.is_some() && file.is_some() {
                let what = format!("give {key} or {key}_file, not both");
                return fault(&format!("{key}_file"), what);
            }
            if token.as_ref().is_some_and(Secret::is_empty) {
                return fault(key, "is empty; leave it out to ask for none".to_owned());
            }
        }
        for (key, count) in [("connections", self.connections), ("requests", self.requests)] {
            if !(1..=65_536).contains(&count) {
                return fault(key, format!("{count} is not within 1 and 65536"));
            }
        }
        let (least, most) = (Period::millis(100), Period::seconds(3_600));
        for (key, length) in [
            ("read_timeout", self.read_timeout),
            ("body_timeout", self.body_timeout),
            ("write_timeout", self.write_timeout),
        ] {
            if length < least || length > most {
                return fault(key, format!("{length} is not within {least} and {most}"));
            }
        }
        None
    }
}
