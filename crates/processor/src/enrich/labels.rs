//! The labels that enrichment adds.

use crosstalk_remote_write::Label;

use super::Rules;
use crosstalk_inventory::{Pod, Workload};

/// Labels added to an enriched series at most.
const MOST: usize = 6;

/// The labels of a pod and one of its workloads, sorted.
pub(super) struct Added<'a> {
    labels: [Label<'a>; MOST],
    length: usize,
}

impl<'a> Added<'a> {
    pub(super) fn new(rules: &'a Rules, pod: &'a Pod, workload: &'a Workload) -> Self {
        let labels = [
            Label { name: "job", value: &rules.job },
            Label { name: "pod_name", value: &pod.name },
            Label { name: "pod_uid", value: &pod.uid },
            Label { name: "workload_name", value: &workload.name },
            Label { name: "workload_uid", value: &workload.uid },
            Label { name: "", value: "" },
        ];
        Added { labels, length: MOST - 1 }
    }

    /// Adds the label that keeps the job a series came with.
    pub(super) fn keep_job(&mut self, name: &'a str, job: &'a str) {
        if self.length == MOST - 1 && !name.is_empty() && !job.is_empty() {
            self.labels[self.length] = Label { name, value: job };
            self.length = MOST;
            self.labels.sort_unstable();
        }
    }

    pub(super) fn labels(&self) -> &[Label<'a>] {
        &self.labels[..self.length]
    }
}
