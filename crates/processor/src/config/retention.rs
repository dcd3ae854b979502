//! How long rows stay in the database.

use std::fmt;
use std::time::Duration;

use crosstalk_settings::Period;
use crosstalk_store::Table;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

/// How long rows of each table are kept; for ever where nothing is said. One length of time is for all of them.
///
/// ```
/// use crosstalk_processor::Config;
/// let config = Config::from_text("p.toml", "retention = \"90d\"").unwrap();
/// assert_eq!(config.retention.event_stream, config.retention.training_performance);
/// let config = Config::from_text("p.yaml", "retention: {event_stream: 30d}").unwrap();
/// assert!(config.retention.event_stream.is_some() && config.retention.workload_event.is_none());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Retention {
    /// One row an iteration.
    pub training_performance: Option<Period>,
    /// What happened to workloads.
    pub workload_event: Option<Period>,
    /// All of that in order.
    pub event_stream: Option<Period>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename = "Retention")]
struct Tables {
    training_performance: Option<Period>,
    workload_event: Option<Period>,
    event_stream: Option<Period>,
}

impl Retention {
    /// The tables whose rows do not stay for ever, and how long they do.
    pub fn limited(&self) -> impl Iterator<Item = (Table, Duration)> {
        let of = |table| match table {
            Table::TrainingPerformance => self.training_performance,
            Table::WorkloadEvent => self.workload_event,
            Table::EventStream => self.event_stream,
        };
        Table::ALL.into_iter().filter_map(move |table| Some((table, of(table)?.get())))
    }
}

impl<'de> Deserialize<'de> for Retention {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Retention;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length of time in quotes, such as \"90d\", or a table with one for each table")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Retention, E> {
                let all = Some(text.parse().map_err(E::custom)?);
                Ok(Retention { training_performance: all, workload_event: all, event_stream: all })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Retention, A::Error> {
                let Tables { training_performance, workload_event, event_stream } =
                    Tables::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Retention { training_performance, workload_event, event_stream })
            }
        }
        from.deserialize_any(Either)
    }
}
