//! One log record.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::date;

/// A record as Fluent Bit's `http` output sends it. Fields we do not know are left alone.
#[derive(Debug)]
pub(super) struct Record<'a> {
    /// Nanoseconds since 1970, exact.
    pub(super) at: i64,
    pub(super) message: Cow<'a, str>,
    pub(super) kubernetes: Kubernetes<'a>,
}

#[derive(Debug, Deserialize)]
struct Raw<'a> {
    #[serde(borrow, alias = "@timestamp", alias = "timestamp", alias = "time")]
    date: Option<&'a RawValue>,
    #[serde(borrow, alias = "log", alias = "msg")]
    message: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    kubernetes: Kubernetes<'a>,
}

/// What the shipper knows of the pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Kubernetes<'a> {
    #[serde(borrow)]
    pub(super) pod_name: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) namespace_name: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) pod_id: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) host: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) labels: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
}

impl Kubernetes<'_> {
    pub(super) fn node(&self) -> &str {
        if self.host.is_empty() { "unknown" } else { &self.host }
    }
}

/// Why a record cannot be taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    #[error("not a log record: {0}")]
    Json(String),
    #[error("date is missing")]
    NoDate,
    #[error("date: {0}")]
    Date(String),
    #[error("message (or log) is missing")]
    NoMessage,
}

impl Unusable {
    /// The reason as metrics show it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Unusable::Json(_) => "json",
            Unusable::NoDate | Unusable::Date(_) => "date",
            Unusable::NoMessage => "message",
        }
    }
}

impl<'a> Record<'a> {
    pub(super) fn read(text: &'a str) -> Result<Self, Unusable> {
        let raw: Raw<'a> =
            serde_json::from_str(text).map_err(|error| Unusable::Json(error.to_string()))?;
        let date = raw.date.ok_or(Unusable::NoDate)?;
        Ok(Record {
            at: date::read(date.get()).map_err(Unusable::Date)?,
            message: raw.message.ok_or(Unusable::NoMessage)?,
            kubernetes: raw.kubernetes,
        })
    }
}

/// The records of a body: the elements of an array, or lines.
pub(super) fn split(body: &[u8]) -> Result<Vec<Result<&str, Unusable>>, String> {
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
        let elements: Vec<&RawValue> = serde_json::from_slice(body)
            .map_err(|error| format!("body is not a JSON array of log records: {error}"))?;
        return Ok(elements.into_iter().map(|element| Ok(element.get())).collect());
    }
    let lines = body.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.iter().all(u8::is_ascii_whitespace));
    let records: Vec<Result<&str, Unusable>> = lines
        .map(|line| std::str::from_utf8(line).map_err(|_| Unusable::Json("not UTF-8".to_owned())))
        .collect();
    match records.is_empty() {
        true => Err("body is empty: send a JSON array of log records, or one a line".to_owned()),
        false => Ok(records),
    }
}
