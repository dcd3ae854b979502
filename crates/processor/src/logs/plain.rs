//! Log lines as text, for whoever has no log shipper: whose they are is said beside them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crosstalk_training_log::timestamp;
use serde::Deserialize;

use super::record::{Kubernetes, Record};
use super::workload::Owner;

/// Whose the lines of a text are, as the query says.
#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub struct About {
    /// Name of the workload; makes the body lines of text, unless its Content-Type is JSON.
    pub workload: Option<String>,
    /// UID of the workload; NAMESPACE:WORKLOAD unless given.
    pub workload_uid: Option<String>,
    /// Namespace.
    pub namespace: Option<String>,
    /// Pod; the workload's name unless given. Without a workload, the one this pod belongs to.
    pub pod: Option<String>,
    /// UID of the pod; NAMESPACE:POD unless given.
    pub pod_uid: Option<String>,
    /// Node.
    pub node: Option<String>,
    /// Container.
    pub container: Option<String>,
    /// Time of lines that do not begin with one of their own; now unless given.
    pub at: Option<String>,
}

impl About {
    /// Whether it says whose the lines are.
    pub fn names_somebody(&self) -> bool {
        [&self.workload, &self.pod, &self.pod_uid]
            .into_iter()
            .flatten()
            .any(|name| !name.is_empty())
    }

    /// The time of lines without one, or why it is none.
    pub(super) fn at(&self, now: i64) -> Result<i64, String> {
        match &self.at {
            Some(text) => timestamp::parse(text).map_err(|error| format!("at: {error}")),
            None => Ok(now),
        }
    }

    /// The workload that is named, with the pod that speaks for it.
    pub(super) fn owner(&self) -> Option<Owner> {
        let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let name = text(&self.workload)?;
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let pod = text(&self.pod).unwrap_or_else(|| name.clone());
        Some(Owner {
            uid: text(&self.workload_uid).unwrap_or_else(|| format!("{namespace}:{name}")),
            pod_uid: text(&self.pod_uid).unwrap_or_else(|| format!("{namespace}:{pod}")),
            name,
            ..Owner::default()
        })
    }

    /// The pod as a log shipper would tell it.
    pub(super) fn speaker(&self) -> Kubernetes<'_> {
        let text = |text: &'_ Option<String>| text.as_deref().unwrap_or_default().to_owned();
        let pod = if self.pod.is_some() { &self.pod } else { &self.workload };
        Kubernetes {
            pod_name: Cow::Owned(text(pod)),
            namespace_name: Cow::Owned(text(&self.namespace)),
            pod_id: Cow::Owned(text(&self.pod_uid)),
            host: Cow::Owned(text(&self.node)),
            container_name: Cow::Owned(text(&self.container)),
            labels: BTreeMap::new(),
        }
    }
}

/// A line as a record. The time it begins with counts where it says its zone, as `kubectl logs --timestamps` and
/// container engines write it; without a zone it may be hours off.
pub(super) fn record<'a>(line: &'a str, at: i64, speaker: &Kubernetes<'a>) -> Record<'a> {
    let first = line.split(' ').next().unwrap_or_default();
    let zoned = first.len() > 19 && first.contains('T') && ends_with_zone(first);
    let own = zoned.then(|| timestamp::parse(first).ok()).flatten();
    Record {
        at: own.unwrap_or(at),
        message: Cow::Borrowed(line),
        stream: Cow::Borrowed(""),
        kubernetes: speaker.clone(),
    }
}

fn ends_with_zone(text: &str) -> bool {
    let offset = text.len().checked_sub(6).and_then(|at| text.get(at..));
    let is_offset = |zone: &str| matches!(zone.as_bytes(), [b'+' | b'-', _, _, b':', _, _]);
    text.ends_with('Z') || offset.is_some_and(is_offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_own_time_only_with_a_zone() {
        let at = |line| record(line, 7, &Kubernetes::default()).at;
        assert_eq!(at("2025-01-01T00:00:00.5Z step: 1"), 1_735_689_600_500_000_000);
        assert_eq!(at("2025-01-01T02:00:00+02:00 step: 1"), 1_735_689_600_000_000_000);
        assert_eq!(at("2025-01-01T00:00:00 step: 1"), 7);
        assert_eq!(at("[2025-01-01 00:00:00] step: 1"), 7);
        assert_eq!(at(""), 7);
    }
}
