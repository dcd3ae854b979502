//! Whose line it is.

use super::record::{Kubernetes, Record};
use crate::cache::Snapshot;
use crosstalk_inventory::Pod;

/// A workload and the pod that spoke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) uid: String,
    pub(super) name: String,
    pub(super) pod_uid: String,
}

/// Labels that operators put on their pods and whose value is the job's name.
const JOB_LABELS: [&str; 6] = [
    "training.kubeflow.org/job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "ray.io/cluster",
    "volcano.sh/job-name",
    "batch.kubernetes.io/job-name",
    "job-name",
];

/// The workloads of a record's pod, as the caches know them. For a pod they do not know, the job that its labels name;
/// without such labels the pod stands for itself. Empty only when the record names no pod at all.
pub(super) fn of_record(record: &Record<'_>, snapshot: &Snapshot) -> Vec<Owner> {
    let kubernetes = &record.kubernetes;
    let known = known_pod(kubernetes, snapshot).filter(|pod| !pod.workloads.is_empty());
    if let Some(pod) = known {
        let pod_uid = if pod.uid.is_empty() { pod_uid(kubernetes) } else { pod.uid.to_string() };
        let owner = |workload: &crosstalk_inventory::Workload| Owner {
            uid: workload.uid.to_string(),
            name: workload.name.to_string(),
            pod_uid: pod_uid.clone(),
        };
        return pod.workloads.iter().map(owner).collect();
    }
    let pod_uid = pod_uid(kubernetes);
    if pod_uid.is_empty() {
        return Vec::new();
    }
    let named = |label: &&str| kubernetes.labels.get(*label).filter(|job| !job.is_empty());
    let owner = match JOB_LABELS.iter().find_map(named) {
        Some(job) => Owner {
            uid: format!("{}:{job}", kubernetes.namespace_name),
            name: job.to_string(),
            pod_uid,
        },
        None => Owner { uid: pod_uid.clone(), name: pod_name(kubernetes), pod_uid },
    };
    vec![owner]
}

/// The pod in the caches, found as for a series with the same labels.
fn known_pod<'s>(kubernetes: &Kubernetes<'_>, snapshot: &'s Snapshot) -> Option<&'s Pod> {
    let (uid, name) = (&*kubernetes.pod_id, &*kubernetes.pod_name);
    if name.is_empty() {
        return snapshot.pod(uid);
    }
    let namespace = Some(&*kubernetes.namespace_name).filter(|namespace| !namespace.is_empty());
    snapshot.by_labels(name, namespace, Some(uid)).ok()
}

fn pod_name(kubernetes: &Kubernetes<'_>) -> String {
    let name =
        if kubernetes.pod_name.is_empty() { &kubernetes.pod_id } else { &kubernetes.pod_name };
    name.to_string()
}

/// The UID, or what stands in for it where the shipper does not tell.
fn pod_uid(kubernetes: &Kubernetes<'_>) -> String {
    match (kubernetes.pod_id.is_empty(), kubernetes.pod_name.is_empty()) {
        (false, _) => kubernetes.pod_id.to_string(),
        (true, false) => format!("{}:{}", kubernetes.namespace_name, kubernetes.pod_name),
        (true, true) => String::new(),
    }
}
