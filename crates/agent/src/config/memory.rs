//! How usage of memory is told, and to whom.

use super::{Config, Mode, Period};
use crate::memory::{KEPT, Memory};
use crosstalk_coldmem::Policy;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How usage of memory is told.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryUsage {
    /// What of the page cache counts: `usageWithHotPageCache`, `usageWithoutPageCache` or `usageWithPageCache`.
    pub policy: String,
    /// Usage is aggregated over each of these.
    pub durations: Vec<Period>,
}

/// Who else is told of this node's usage.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeMetric {
    /// Whether this node's NodeMetric is kept up to date in Kubernetes.
    pub mode: Mode,
    /// A file the same object is written to, `-` for standard output; empty writes none.
    pub file: PathBuf,
    /// What usage is averaged over, unless the object says otherwise.
    pub aggregate_duration: Period,
    /// How often it is told, unless the object says otherwise.
    pub report_interval: Period,
}

impl Default for MemoryUsage {
    fn default() -> Self {
        Self {
            policy: Policy::default().name().to_owned(),
            durations: [300, 600, 1_800].map(Period::seconds).to_vec(),
        }
    }
}

impl Default for NodeMetric {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            file: PathBuf::new(),
            aggregate_duration: Period::seconds(300),
            report_interval: Period::seconds(60),
        }
    }
}

impl MemoryUsage {
    pub(super) fn fault(&self) -> Option<(&'static str, String)> {
        if let Err(error) = self.policy.parse::<Policy>() {
            return Some(("memory.policy", error.to_string()));
        }
        let (least, most) = (Period::seconds(1), Period::seconds(KEPT.as_secs()));
        let wrong = self.durations.iter().find(|length| **length < least || **length > most);
        wrong.map(|length| {
            ("memory.durations", format!("{length} is not within {least} and {most}"))
        })
    }
}

impl NodeMetric {
    pub(super) fn fault(&self) -> Option<(&'static str, String)> {
        let hour = Period::seconds(KEPT.as_secs());
        // The least that the object itself may ask for; a file may be written more often.
        let ranges = [
            ("node_metric.aggregate_duration", self.aggregate_duration, Period::seconds(1)),
            ("node_metric.report_interval", self.report_interval, Period::seconds(1)),
        ];
        let mut wrong = ranges.into_iter().filter(|(_, is, least)| is < least || *is > hour);
        wrong.next().map(|(key, is, least)| (key, format!("{is} is not within {least} and {hour}")))
    }
}

impl Config {
    /// Where usage of memory is kept.
    pub(crate) fn memory(&self) -> Memory {
        let durations = self.memory.durations.iter().map(|length| length.get()).collect();
        // What cannot be was refused when the configuration was checked.
        let policy = self.memory.policy.parse().unwrap_or_default();
        let period = self.sources.coldmem.period.get();
        Memory::new(durations, policy, self.subjects.limit).every(period)
    }
}
