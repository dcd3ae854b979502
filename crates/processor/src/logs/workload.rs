//! Whose line it is.

use super::record::{Kubernetes, Record};
use crate::cache::{PodEntry, Snapshot};

/// A workload and the pod that spoke.
#[derive(Debug, PartialEq, Eq)]
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
        let owner = |workload: &crate::cache::Workload| Owner {
            uid: workload.uid.clone(),
            name: workload.name.clone(),
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

/// The pod in the caches, found as for a series with the same labels: by UID and name, by namespace and name, in a
/// source without namespaces by name; never one that the record's UID contradicts.
fn known_pod<'s>(kubernetes: &Kubernetes<'_>, snapshot: &'s Snapshot) -> Option<&'s PodEntry> {
    let (uid, name) = (&*kubernetes.pod_id, &*kubernetes.pod_name);
    let by_uid = snapshot.pod_by_uid(uid);
    if name.is_empty() {
        return by_uid;
    }
    if let Some(pod) = by_uid.filter(|pod| *pod.name == *name) {
        return Some(pod);
    }
    let pod = match &*kubernetes.namespace_name {
        "" => the_one_of_this_name(name, snapshot),
        namespace => {
            let with_namespace = snapshot.pod_by_name(namespace, name);
            with_namespace.or_else(|| snapshot.pod_by_name("", name))
        }
    };
    pod.filter(|pod| !looks_like_uid(uid) || pod.uid.is_empty() || *pod.uid == *uid)
}

/// None where pods of several namespaces have the name. Of one that followed another in its place the later counts.
fn the_one_of_this_name<'s>(name: &str, snapshot: &'s Snapshot) -> Option<&'s PodEntry> {
    let mut named = snapshot.pods().iter().rev().filter(|pod| *pod.name == *name);
    let latest = named.next()?;
    named.all(|other| other.namespace == latest.namespace).then_some(latest)
}

/// Only what Kubernetes could have given can contradict what it gave.
fn looks_like_uid(text: &str) -> bool {
    let dash = |place| matches!(place, 8 | 13 | 18 | 23);
    let fits = |(place, byte): (usize, u8)| match dash(place) {
        true => byte == b'-',
        false => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(fits)
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
