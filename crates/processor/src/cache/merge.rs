//! Several sources into one inventory, and the pods that left it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::inventory::{Device, Inventory, Pod};

/// A pod that is gone but still known.
#[derive(Debug)]
pub(super) struct Departed {
    pod: Pod,
    devices: Vec<Device>,
    since: Instant,
}

/// Deleted pods kept at most; beyond it the longest gone are forgotten first.
const MAX_DEPARTED: usize = 100_000;

/// What makes two entries the same pod: the UID where it is known, else namespace and name.
fn identity(pod: &Pod) -> (&str, &str, &str) {
    match pod.uid.as_str() {
        "" => ("", &pod.namespace, &pod.name),
        uid => (uid, "", ""),
    }
}

/// One inventory of all sources: what two of them say of one pod is put together.
pub(super) fn merge<'a>(sources: impl Iterator<Item = &'a Inventory>) -> Inventory {
    let mut merged = Inventory::default();
    let mut places: HashMap<(&str, &str, &str), usize> = HashMap::new();
    let sources: Vec<&Inventory> = sources.collect();
    for pod in sources.iter().flat_map(|source| &source.pods) {
        match places.get(&identity(pod)) {
            Some(&place) => join(&mut merged.pods[place], pod),
            None => {
                places.insert(identity(pod), merged.pods.len());
                merged.pods.push(pod.clone());
            }
        }
    }
    for device in sources.iter().flat_map(|source| &source.devices) {
        merged.devices.push(device.clone());
    }
    merged
}

fn join(pod: &mut Pod, other: &Pod) {
    for (field, value) in [
        (&mut pod.name, &other.name),
        (&mut pod.namespace, &other.namespace),
        (&mut pod.node, &other.node),
    ] {
        if field.is_empty() {
            field.clone_from(value);
        }
    }
    for workload in &other.workloads {
        if !pod
            .workloads
            .iter()
            .any(|known| known.uid == workload.uid && known.name == workload.name)
        {
            pod.workloads.push(workload.clone());
        }
    }
}

/// Who is gone now: those gone before and still within the grace time, and those that just left.
pub(super) fn departed(
    before: Vec<Departed>,
    last: &Inventory,
    current: &Inventory,
    now: Instant,
    grace: Duration,
) -> Vec<Departed> {
    let present: std::collections::HashSet<_> = current.pods.iter().map(identity).collect();
    let mut departed: Vec<Departed> = before
        .into_iter()
        .filter(|gone| now.duration_since(gone.since) < grace)
        .filter(|gone| !present.contains(&identity(&gone.pod)))
        .collect();
    for pod in last.pods.iter().filter(|pod| !present.contains(&identity(pod))) {
        let holds = |device: &&Device| match pod.uid.as_str() {
            "" => device.pod_name == pod.name && device.pod_namespace == pod.namespace,
            uid => device.pod_uid == uid,
        };
        let devices = last.devices.iter().filter(holds).cloned().collect();
        departed.push(Departed { pod: pod.clone(), devices, since: now });
    }
    let excess = departed.len().saturating_sub(MAX_DEPARTED);
    departed.drain(..excess);
    departed
}

/// The departed as an inventory; the latest to leave come last.
pub(super) fn remembered(departed: &[Departed]) -> Inventory {
    Inventory {
        pods: departed.iter().map(|gone| gone.pod.clone()).collect(),
        devices: departed.iter().flat_map(|gone| gone.devices.iter().cloned()).collect(),
    }
}
