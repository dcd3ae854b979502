//! Whose line it is.

use super::record::{Kubernetes, Record};
use crate::cache::Snapshot;
use crosstalk_inventory::{Pod, Workload, role_of};
use crosstalk_store::Group;

/// A workload and the pod that spoke.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Owner {
    /// The nearest owner of the pod: a trial, a job.
    pub(super) uid: String,
    pub(super) name: String,
    /// Empty where it is not known.
    pub(super) kind: String,
    pub(super) pod_uid: String,
    /// The part that pod plays; empty where it is not known.
    pub(super) role: String,
    /// The top controller, where that is another.
    pub(super) group: Option<Group>,
}

/// The workloads of a record's pod.
#[derive(Debug, Default)]
pub(super) struct Owners {
    pub(super) all: Vec<Owner>,
    /// Whether the caches know the pod, or the sender said whose it is, or there is none.
    pub(super) known: bool,
    /// Whether they know the pod, but an owner of it was not heard of yet.
    pub(super) awaited: bool,
}

impl Owner {
    /// Name and UID of the group; what is the top itself is its own group.
    pub(super) fn group(&self) -> (&str, &str) {
        match &self.group {
            Some(group) => (group.name.as_deref().unwrap_or_default(), &group.uid),
            None => (&self.name, &self.uid),
        }
    }
}

/// Labels that operators put on their pods and whose value is the job's name, the nearest first, with its kind where one
/// kind alone has it.
const JOB_LABELS: [(&str, &str); 6] = [
    ("training.kubeflow.org/job-name", ""),
    ("volcano.sh/job-name", "Job"),
    ("batch.kubernetes.io/job-name", "Job"),
    ("job-name", "Job"),
    ("ray.io/cluster", "RayCluster"),
    ("jobset.sigs.k8s.io/jobset-name", "JobSet"),
];

/// Labels that name what a job is a part of.
const GROUP_LABELS: [(&str, &str); 2] =
    [("katib.kubeflow.org/experiment", "Experiment"), ("jobset.sigs.k8s.io/jobset-name", "JobSet")];

/// The workloads of a record's pod, as the caches know them. For a pod they do not know, the job that its labels name;
/// without such labels the pod stands for itself. Empty only when the record names no pod at all.
pub(super) fn of_record(record: &Record<'_>, snapshot: &Snapshot) -> Owners {
    let kubernetes = &record.kubernetes;
    let found = known_pod(record, snapshot);
    let awaited = found.is_some_and(|pod| snapshot.awaits_owners(pod));
    match found.filter(|pod| !pod.workloads.is_empty() && !awaited) {
        Some(pod) => {
            let uid = if pod.uid.is_empty() { pod_uid(kubernetes) } else { pod.uid.to_string() };
            let role = if pod.role.is_empty() { role(kubernetes) } else { &pod.role };
            let all = pod.workloads.iter();
            let all = all.map(|workload| of_pod(pod, workload, &uid, role)).collect();
            Owners { all, known: true, awaited: false }
        }
        None => {
            let all = of_unknown(kubernetes);
            // Of a record that names no pod nothing more would be known at any time.
            Owners { known: all.is_empty(), all, awaited }
        }
    }
}

/// What the labels of a pod say, and its name.
fn of_unknown(kubernetes: &Kubernetes<'_>) -> Vec<Owner> {
    let pod_uid = pod_uid(kubernetes);
    if pod_uid.is_empty() {
        return Vec::new();
    }
    let named = |(label, kind): &(&str, &'static str)| {
        let name = kubernetes.labels.get(*label).filter(|name| !name.is_empty())?;
        Some((format!("{}:{name}", kubernetes.namespace_name), name.to_string(), *kind))
    };
    let Some((uid, name, kind)) = JOB_LABELS.iter().find_map(named) else {
        let (uid, name) = (pod_uid.clone(), pod_name(kubernetes));
        return vec![Owner { uid, name, kind: "Pod".to_owned(), pod_uid, ..Owner::default() }];
    };
    let group = GROUP_LABELS.iter().find_map(named).filter(|(above, ..)| *above != uid);
    let group =
        group.map(|(uid, name, kind)| Group { uid, name: Some(name), kind: Some(kind.to_owned()) });
    let role = role(kubernetes).to_owned();
    vec![Owner { uid, name, kind: kind.to_owned(), pod_uid, role, group }]
}

/// The owner of a known pod's line on the way to one of its workloads.
fn of_pod(pod: &Pod, top: &Workload, pod_uid: &str, role: &str) -> Owner {
    let below = pod.nearest_owner.as_ref().filter(|nearest| nearest.top_uid == top.uid);
    let nearest = below.map_or(top, |nearest| &nearest.owner);
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let group = below.map(|_| Group {
        uid: top.uid.to_string(),
        name: text(&top.name),
        kind: text(&top.kind),
    });
    Owner {
        uid: nearest.uid.to_string(),
        name: nearest.name.to_string(),
        kind: nearest.kind.to_string(),
        pod_uid: pod_uid.to_owned(),
        role: role.to_owned(),
        group,
    }
}

/// The part that the pod plays, by its labels as the shipper tells them.
fn role<'k>(kubernetes: &'k Kubernetes<'_>) -> &'k str {
    role_of(|name| kubernetes.labels.get(name).map(|value| &**value))
}

/// The pod in the caches, found as for a series with the same labels.
fn known_pod<'s>(record: &Record<'_>, snapshot: &'s Snapshot) -> Option<&'s Pod> {
    let kubernetes = &record.kubernetes;
    let (uid, name) = (&*kubernetes.pod_id, &*kubernetes.pod_name);
    if name.is_empty() {
        return snapshot.pod(uid);
    }
    let namespace = Some(&*kubernetes.namespace_name).filter(|namespace| !namespace.is_empty());
    // By when the line was written: who has the name now may have come after.
    let at = u64::try_from(record.at).ok();
    snapshot.by_labels_at(name, namespace, Some(uid), at).ok()
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
