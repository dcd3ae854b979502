//! Sorted labels with ours among them.

use crosstalk_remote_write::Label;

use super::Rules;
use crate::cache::{PodEntry, Workload};

/// The labels of a series with those of its pod and workload, sorted and unique: ours replace what the series brought
/// under the same names.
pub(super) fn merge<'a>(
    out: &mut Vec<Label<'a>>,
    labels: &[Label<'a>],
    rules: &'a Rules,
    pod: &'a PodEntry,
    workload: &'a Workload,
) {
    let job_before = labels.iter().find(|label| label.name == "job").map_or("", |job| job.value);
    let original_job = Label { name: &rules.original_job_label, value: job_before };
    let ours = [
        Label { name: "job", value: &rules.job },
        Label { name: "pod_name", value: &pod.name },
        Label { name: "pod_uid", value: &pod.uid },
        Label { name: "workload_name", value: &workload.name },
        Label { name: "workload_uid", value: &workload.uid },
    ];
    let mut rest = labels;
    for label in ours {
        // Both lists are sorted, so each of ours has its place after the one before.
        let (before, from) = rest.split_at(rest.partition_point(|other| other.name < label.name));
        out.extend_from_slice(before);
        out.push(label);
        let replaced = from.first().is_some_and(|other| other.name == label.name);
        rest = &from[usize::from(replaced)..];
    }
    out.extend_from_slice(rest);
    if !original_job.name.is_empty() && !original_job.value.is_empty() {
        place(out, original_job);
    }
}

/// The labels of a series with one more.
pub(super) fn insert<'a>(out: &mut Vec<Label<'a>>, labels: &[Label<'a>], label: Label<'a>) {
    out.extend_from_slice(labels);
    place(out, label);
}

fn place<'a>(labels: &mut Vec<Label<'a>>, label: Label<'a>) {
    match labels.binary_search_by(|other| other.name.cmp(label.name)) {
        Ok(at) => labels[at] = label,
        Err(at) => labels.insert(at, label),
    }
}
