//! What Prometheus is told of memory.

use super::answer::by_gain;
use super::round::{Held, Round, Which};
use crate::node::Node;
use crate::node_metric::Reports;
use crosstalk_coldmem::{Kind, Policy};
use crosstalk_host::monotonic_ns;
use crosstalk_model::Placement;
use crosstalk_serve::Families;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering;

/// Where the ages of labels begin, in seconds. Back ends cut ages where they will, and anew at every look; a label
/// must be one of few.
const AGES_S: [u64; 9] = [0, 30, 60, 120, 300, 600, 1_800, 3_600, 14_400];

fn age_edge(from_ms: u64) -> u64 {
    let seconds = from_ms / 1_000;
    AGES_S[AGES_S.partition_point(|edge| *edge <= seconds).saturating_sub(1)]
}

type Labels = Vec<(&'static str, String)>;

impl Node {
    /// Cold bytes by kind, age and back end, what at most is cold, and usage by policy, of everybody. Plain cgroups are
    /// left to `GET /memory`: there are too many of them for labels.
    pub(crate) fn write_memory(&self, text: &mut Families<'_>) -> fmt::Result {
        self.write_reports(text)?;
        let Some(published) = self.memory.current(monotonic_ns()) else { return Ok(()) };
        let round = &published.round;
        for which in [Which::Node, Which::System, Which::Pod, Which::Container] {
            let mut shown = by_gain(round, which);
            shown.truncate(if which == Which::Node { 1 } else { self.prometheus_limit });
            self.write_usage(text, round, which, &shown)?;
            self.write_cold(text, round, which, &shown)?;
        }
        Ok(())
    }

    fn write_reports(&self, text: &mut Families<'_>) -> fmt::Result {
        let Reports { done, conflicts, failed } = &self.reports;
        let help = "Reports to this node's NodeMetric, by how they went.";
        let mut family = text.counters("crosstalk_agent_node_metric_reports", help)?;
        for (result, count) in [("done", done), ("conflict", conflicts), ("failed", failed)] {
            family.counter(&[("result", result)], count.load(Ordering::Relaxed) as f64)?;
        }
        Ok(())
    }

    fn write_usage(
        &self,
        text: &mut Families<'_>,
        round: &Round,
        which: Which,
        shown: &[&Held],
    ) -> fmt::Result {
        let mut found: Vec<(Labels, Policy, u64)> = Vec::new();
        for policy in Policy::ALL {
            // What falls back to another policy is told under that one.
            let own =
                |usage: crosstalk_coldmem::Usage| usage.fallback().is_none().then_some(usage.bytes);
            if which == Which::System {
                found.extend(round.system(policy).and_then(own).map(|b| (Vec::new(), policy, b)));
            }
            for held in shown {
                let bytes = held.row.usage_under(policy).and_then(own);
                found.extend(bytes.map(|bytes| (self.labels(&held.row.place), policy, bytes)));
            }
        }
        if found.is_empty() {
            return Ok(());
        }
        let name = format!("crosstalk_{}_memory_usage_bytes", which.name());
        let help = "Memory in use, by what of the page cache counts.";
        let mut family = text.gauges(&name, help)?;
        for (labels, policy, bytes) in found {
            let more = [("policy", policy.name())];
            family.gauge(&joined(&labels, &more), bytes as f64)?;
        }
        Ok(())
    }

    fn write_cold(
        &self,
        text: &mut Families<'_>,
        round: &Round,
        which: Which,
        shown: &[&Held],
    ) -> fmt::Result {
        let backend = round.backend.name();
        let cold = |held: &&Held| {
            let mut cells: BTreeMap<(Kind, u64), u64> = BTreeMap::new();
            for row in &held.ages {
                let Some(bytes) = row.cold_bytes else { continue };
                *cells.entry((row.kind, age_edge(row.age_from_ms))).or_default() += bytes;
            }
            (self.labels(&held.row.place), cells)
        };
        let of_system = (which == Which::System).then(|| (Vec::new(), round.system_ages(age_edge)));
        let cold = shown.iter().map(cold).chain(of_system);
        let cold: Vec<_> = cold.filter(|(_, cells)| !cells.is_empty()).collect();
        if !cold.is_empty() {
            let name = format!("crosstalk_{}_memory_cold_bytes", which.name());
            let help = "Cold memory, by kind and by the seconds it has been idle for at least.";
            let mut family = text.gauges(&name, help)?;
            for (labels, cells) in cold {
                for ((kind, from), bytes) in cells {
                    let from = from.to_string();
                    let more = [("kind", kind.name()), ("age", &from), ("backend", backend)];
                    family.gauge(&joined(&labels, &more), bytes as f64)?;
                }
            }
        }
        let at_most = shown.iter().filter_map(|held| Some((held, held.row.at_most_bytes?)));
        let at_most: Vec<_> = at_most.collect();
        if !at_most.is_empty() {
            let name = format!("crosstalk_{}_memory_cold_limit_bytes", which.name());
            let help = "No more than this is cold, whether or not ages are known.";
            let mut family = text.gauges(&name, help)?;
            for (held, bytes) in at_most {
                let labels = self.labels(&held.row.place);
                family.gauge(&joined(&labels, &[]), bytes as f64)?;
            }
        }
        Ok(())
    }

    /// The same labels as every other family of containers and pods has.
    fn labels(&self, place: &Placement) -> Labels {
        let place = self.place(place);
        let labels = [
            ("container_id", place.container_id),
            ("container", place.container_name),
            ("pod_uid", place.pod_uid),
            ("namespace", place.pod_namespace),
            ("pod", place.pod_name),
            ("workload", place.workload),
        ];
        labels.into_iter().filter_map(|(name, is)| Some((name, is?.to_string()))).collect()
    }
}

fn joined<'a>(labels: &'a Labels, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let own = labels.iter().map(|(name, value)| (*name, value.as_str()));
    own.chain(more.iter().copied()).collect()
}
