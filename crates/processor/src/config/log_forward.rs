//! Where log records go on to.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crosstalk_settings::{Period, Secret};
use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use crate::queue::WhenFull;

/// What a log store speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogStore {
    /// Loki's push API.
    #[default]
    Loki,
    /// Elasticsearch's bulk API.
    Elasticsearch,
}

impl LogStore {
    /// The address with the API's path, where it has none of its own.
    pub(crate) fn path(self, uri: Uri) -> Uri {
        let own = match self {
            LogStore::Loki => "loki/api/v1/push",
            LogStore::Elasticsearch => "_bulk",
        };
        match uri.path() {
            "" | "/" => {
                let base = uri.to_string();
                let (base, query) = base.split_once('?').unwrap_or((&base, ""));
                let query = if query.is_empty() { String::new() } else { format!("?{query}") };
                format!("{}/{own}{query}", base.trim_end_matches('/')).parse().unwrap_or(uri)
            }
            _ => uri,
        }
    }
}

/// A log store that every record is forwarded to.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LogForward {
    /// Name in metrics, and of the queue's folder.
    pub name: String,
    /// What it speaks.
    #[serde(default)]
    pub kind: LogStore,
    /// Where to POST; without a path, the API's own. A user and password in it become basic authentication.
    pub url: Secret,
    /// Elasticsearch: the index, or data stream.
    #[serde(default = "default_index")]
    pub index: String,
    /// Bytes that may wait on disk.
    #[serde(default = "default_queue_bytes", deserialize_with = "crosstalk_settings::bytes")]
    pub max_queue_bytes: u64,
    /// What happens when they do: senders wait (so it is for a single log store), or the oldest are dropped (so it is for
    /// each of several).
    #[serde(default)]
    pub when_full: Option<WhenFull>,
    /// Bytes of what the store refused that may stay on disk; the oldest go first.
    #[serde(default = "default_dead_letter_bytes", deserialize_with = "crosstalk_settings::bytes")]
    pub max_dead_letter_bytes: u64,
    /// How long a request may take.
    #[serde(default = "half_a_minute")]
    pub timeout: Period,
    /// Longest pause between two tries.
    #[serde(default = "half_a_minute")]
    pub max_backoff: Period,
    /// Headers of every request, such as Loki's `X-Scope-OrgID`.
    #[serde(default)]
    pub headers: BTreeMap<String, Secret>,
    /// Token to bear.
    #[serde(default)]
    pub bearer_token: Option<Secret>,
    /// File with that token, read again when it is renewed.
    #[serde(default)]
    pub bearer_token_file: Option<PathBuf>,
    /// PEM file of the authority that signed the store's certificate; the system's are used without it.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// PEM file of the certificate that is shown to the store, with `client_key`. Both are read again for every connection.
    #[serde(default)]
    pub client_cert: Option<PathBuf>,
    /// PEM file of its key.
    #[serde(default)]
    pub client_key: Option<PathBuf>,
}

fn default_index() -> String {
    "crosstalk-logs".to_owned()
}
fn default_queue_bytes() -> u64 {
    1 << 30
}
fn default_dead_letter_bytes() -> u64 {
    64 << 20
}
fn half_a_minute() -> Period {
    Period::seconds(30)
}

impl LogForward {
    /// A Loki with default bounds.
    pub fn new(name: impl Into<String>, url: impl Into<String>) -> Self {
        LogForward {
            name: name.into(),
            kind: LogStore::default(),
            url: Secret::new(url),
            index: default_index(),
            max_queue_bytes: default_queue_bytes(),
            when_full: None,
            max_dead_letter_bytes: default_dead_letter_bytes(),
            timeout: half_a_minute(),
            max_backoff: half_a_minute(),
            headers: BTreeMap::new(),
            bearer_token: None,
            bearer_token_file: None,
            ca_file: None,
            client_cert: None,
            client_key: None,
        }
    }

    /// The key that cannot be, and why, apart from its name and address.
    pub(crate) fn fault(&self) -> Option<(&'static str, String)> {
        if self.bearer_token.is_some() && self.bearer_token_file.is_some() {
            let what = "give bearer_token or bearer_token_file, not both";
            return Some(("bearer_token_file", what.to_owned()));
        }
        if self.client_cert.is_some() != self.client_key.is_some() {
            return Some(("client_cert", "give client_cert and client_key together".to_owned()));
        }
        if self.max_queue_bytes < 4 << 20 {
            return Some(("max_queue_bytes", "must be at least 4MiB".to_owned()));
        }
        if self.kind == LogStore::Elasticsearch && self.index.is_empty() {
            return Some(("index", "is empty".to_owned()));
        }
        let bad = self.headers.iter().find(|(name, value)| {
            HeaderName::try_from(name.as_str()).is_err()
                || HeaderValue::try_from(value.reveal()).is_err()
        });
        bad.map(|(name, _)| ("headers", format!("{name:?} is no header, or its value none")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_path_gets_the_one_of_its_api() {
        for (kind, url, expected) in [
            (LogStore::Loki, "http://loki:3100", "http://loki:3100/loki/api/v1/push"),
            (
                LogStore::Elasticsearch,
                "http://es:9200/?pipeline=p",
                "http://es:9200/_bulk?pipeline=p",
            ),
            (
                LogStore::Loki,
                "http://vl/insert/loki/api/v1/push",
                "http://vl/insert/loki/api/v1/push",
            ),
        ] {
            assert_eq!(kind.path(url.parse().unwrap()).to_string(), expected);
        }
    }
}
