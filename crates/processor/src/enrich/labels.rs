//! The labels that enrichment adds.

use crosstalk_remote_write::{Label, Series};

use super::Rules;
use crosstalk_inventory::{Pod, Workload};

/// The names of the labels that are ours, sorted, and where a label of that name that a series came with is kept: as
/// Prometheus does, `exported_` before it, once more for each that is taken.
pub(super) const OURS: [(&str, [&str; 3]); 5] = [
    ("job", ["exported_job", "exported_exported_job", "exported_exported_exported_job"]),
    (
        "pod_name",
        ["exported_pod_name", "exported_exported_pod_name", "exported_exported_exported_pod_name"],
    ),
    (
        "pod_uid",
        ["exported_pod_uid", "exported_exported_pod_uid", "exported_exported_exported_pod_uid"],
    ),
    (
        "workload_name",
        [
            "exported_workload_name",
            "exported_exported_workload_name",
            "exported_exported_exported_workload_name",
        ],
    ),
    (
        "workload_uid",
        [
            "exported_workload_uid",
            "exported_exported_workload_uid",
            "exported_exported_exported_workload_uid",
        ],
    ),
];

/// Labels added to an enriched series at most: ours, and those that move out of the way, with the places they leave.
const MOST: usize = 5 * OURS.len();

/// The labels of a pod and one of its workloads, sorted, with those moved that they take the place of.
///
/// What a series came with as `job` becomes `exported_job`, what was `exported_job` becomes `exported_exported_job`, and so
/// on, whether or not the place before is taken: so no two series come to have the same labels.
pub(super) struct Added<'a> {
    labels: [Label<'a>; MOST],
    length: usize,
}

impl<'a> Added<'a> {
    pub(super) fn new(
        rules: &'a Rules,
        pod: &'a Pod,
        workload: &'a Workload,
        series: &Series<'_, 'a>,
    ) -> Self {
        let mut added = Added { labels: [Label { name: "", value: "" }; MOST], length: 0 };
        let values = [&*rules.job, &pod.name, &pod.uid, &workload.name, &workload.uid];
        for ((name, kept_as), ours) in OURS.iter().zip(values) {
            let custom = *name == "job" && rules.original_job_label != kept_as[0];
            if custom && !rules.original_job_label.is_empty() {
                added.move_to(&rules.original_job_label, series.label(name));
            }
            if !custom {
                let mut from = *name;
                for to in kept_as {
                    added.move_to(to, series.label(from));
                    // One that moves away leaves nothing behind, unless the one before it comes there.
                    if series.label(to).is_some() && series.label(from).is_none() {
                        added.push(Label { name: to, value: "" });
                    }
                    from = to;
                }
            }
            added.push(Label { name, value: ours });
        }
        added.labels[..added.length].sort_unstable();
        added
    }

    fn move_to(&mut self, to: &'a str, value: Option<&'a str>) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            self.push(Label { name: to, value });
        }
    }

    fn push(&mut self, label: Label<'a>) {
        self.labels[self.length] = label;
        self.length += 1;
    }

    pub(super) fn labels(&self) -> &[Label<'a>] {
        &self.labels[..self.length]
    }
}
