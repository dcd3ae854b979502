//! One log record.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::date;

/// A record as Fluent Bit's `http` output sends it. Fields we do not know are left alone.
#[derive(Debug)]
pub(super) struct Record<'a> {
    /// Nanoseconds since 1970, exact.
    pub(super) at: i64,
    pub(super) message: Cow<'a, str>,
    /// `stdout` or `stderr`, where the shipper says.
    pub(super) stream: Cow<'a, str>,
    pub(super) kubernetes: Kubernetes<'a>,
}

/// What the shipper knows of the pod. What it does not know it leaves out, or sends as null.
#[derive(Debug, Clone, Default)]
pub(super) struct Kubernetes<'a> {
    pub(super) pod_name: Cow<'a, str>,
    pub(super) namespace_name: Cow<'a, str>,
    pub(super) pod_id: Cow<'a, str>,
    pub(super) host: Cow<'a, str>,
    pub(super) container_name: Cow<'a, str>,
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
    #[error("the array does not end here, or something follows it")]
    Rest,
    #[error("a training line, but neither kubernetes.pod_name nor pod_id says of which pod")]
    NoPod,
}

impl Unusable {
    /// The reason as metrics show it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Unusable::Json(_) | Unusable::Rest => "json",
            Unusable::NoDate | Unusable::Date(_) => "date",
            Unusable::NoMessage => "message",
            Unusable::NoPod => "no_pod",
        }
    }
}

/// Names of the time and of the line, the best first. Shippers send several at once: Fluent Bit adds its own `date`
/// to what its input left in the record.
const DATES: [&str; 4] = ["date", "@timestamp", "timestamp", "time"];
const MESSAGES: [&str; 3] = ["message", "log", "msg"];

impl<'a> Record<'a> {
    pub(super) fn read(text: &'a str) -> Result<Self, Unusable> {
        let Object(fields) =
            serde_json::from_str(text).map_err(|error| Unusable::Json(error.to_string()))?;
        let find = |name: &str| {
            let field = fields.iter().find(|(known, _)| known == name);
            field.map(|(_, value)| *value).filter(|value| value.get() != "null")
        };
        let mut dates =
            DATES.iter().filter_map(|name| find(name)).map(|date| date::read(date.get()));
        let first = dates.next().ok_or(Unusable::NoDate)?;
        let at = first.or_else(|why| dates.find_map(Result::ok).ok_or(Unusable::Date(why)))?;
        let message = MESSAGES.iter().filter_map(|name| find(name)).find_map(string);
        Ok(Record {
            at,
            message: message.ok_or(Unusable::NoMessage)?,
            stream: find("stream").map(self::text).unwrap_or_default(),
            kubernetes: find("kubernetes").map(Kubernetes::read).unwrap_or_default(),
        })
    }
}

impl<'a> Kubernetes<'a> {
    fn read(value: &'a RawValue) -> Self {
        let mut kubernetes = Kubernetes::default();
        for (name, value) in object(value) {
            match &*name {
                "pod_name" => kubernetes.pod_name = text(value),
                "namespace_name" => kubernetes.namespace_name = text(value),
                "pod_id" => kubernetes.pod_id = text(value),
                "host" => kubernetes.host = text(value),
                "container_name" => kubernetes.container_name = text(value),
                "labels" => {
                    let labels = object(value).into_iter();
                    kubernetes.labels = labels.map(|(name, value)| (name, text(value))).collect();
                }
                _ => {}
            }
        }
        kubernetes
    }
}

/// The fields of an object in their order, each as it is written. A name may stand there twice.
struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((Name(name), value)) = map.next_entry()? {
                    fields.push((name, value));
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Fields).map(Object)
    }
}

/// Text that is borrowed where it can be.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// The fields of a value, none where it is no object.
fn object(value: &RawValue) -> Vec<(Cow<'_, str>, &RawValue)> {
    serde_json::from_str(value.get()).map(|Object(fields)| fields).unwrap_or_default()
}

fn string(value: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str(value.get()).ok().map(|Name(text)| text)
}

/// A value as text: numbers and truth values as they are written, nothing for null.
fn text(value: &RawValue) -> Cow<'_, str> {
    let written = value.get();
    match written.as_bytes().first() {
        Some(b'"') => string(value).unwrap_or_default(),
        Some(b'n' | b'{' | b'[') | None => Cow::default(),
        Some(_) => Cow::Borrowed(written),
    }
}
