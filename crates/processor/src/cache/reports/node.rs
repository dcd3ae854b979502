//! One node as its agent reported it, and what of that is sure while the agent is silent.

use std::time::Instant;

use crosstalk_inventory::{Device, Facts, Pod, Snapshot};

use super::{PATIENCE, SILENT};

/// Who lives, as Kubernetes tells.
pub(super) struct Alive<'a> {
    /// Whether it is heard; `None` where it is no source.
    pub(super) heard: Option<bool>,
    pub(super) known: &'a Snapshot,
}

impl Alive<'_> {
    /// The pod that had this name at that time, where it is told how long it lived.
    fn then(&self, namespace: &str, name: &str, at_ns: u64) -> Option<&Pod> {
        let pod = self.known.pod_in_at(namespace, name, Some(at_ns));
        let current = |pod: &&Pod| !pod.uid.is_empty() && pod.valid.valid_from_ns <= at_ns;
        pod.filter(|_| self.heard == Some(true)).filter(current)
    }

    /// Whether the pod that had this name then lives on.
    fn lives_since(&self, namespace: &str, name: &str, at_ns: u64) -> bool {
        let pod = self.then(namespace, name, at_ns);
        pod.is_some_and(|pod| pod.valid.valid_to_ns.is_none() && pod.finished_ns.is_none())
    }

    /// Until when a device was held that this pod had then, as far as its own end does not say so: a kubelet takes none back
    /// before the pod ends. `None` where nothing is known to end it.
    fn held_until(&self, device: &Device, at_ns: u64) -> Option<u64> {
        match self.then(&device.pod_namespace, &device.pod_name, at_ns) {
            Some(pod) => pod.finished_ns.map(|finished| finished.max(at_ns)),
            None => Some(at_ns),
        }
    }
}

#[derive(Debug)]
pub(super) struct Node {
    /// When it last reported, or when this process began.
    pub(super) at: Instant,
    /// When it last reported, Unix nanoseconds.
    pub(super) heard_ns: u64,
    /// Whether it has reported to this process.
    pub(super) reported: bool,
    /// Whether it is silent, and nobody else tells who lives there.
    pub(super) in_doubt: bool,
    pub(super) facts: Facts,
}

impl Node {
    /// One that an earlier process heard of.
    pub(super) fn remembered(started: Instant, heard_ns: u64) -> Node {
        Node { at: started, heard_ns, reported: false, in_doubt: true, facts: Facts::default() }
    }

    /// Adds a device that an earlier process knew; that process may have heard longer of other nodes.
    pub(super) fn add_device(&mut self, device: Device) {
        self.heard_ns = device.valid.valid_to_ns.map_or(self.heard_ns, |to| to.min(self.heard_ns));
        self.facts.devices.push(device);
    }

    fn is_silent(&self, now: Instant) -> bool {
        !self.reported || now.saturating_duration_since(self.at) >= SILENT
    }

    /// Whether it is not waited for any longer. Pods that live on keep what they have; while nobody can say who does, it is
    /// not known.
    pub(super) fn is_given_up(&self, now: Instant, alive: &Alive<'_>) -> bool {
        let late = now.saturating_duration_since(self.at) >= PATIENCE;
        late && match alive.heard {
            None => true,
            Some(false) => false,
            Some(true) => {
                let mut held = self.facts.devices.iter();
                let lives = |device: &Device| {
                    alive.lives_since(&device.pod_namespace, &device.pod_name, self.heard_ns)
                };
                !held.any(lives)
            }
        }
    }

    /// Finds out what is sure; whether that is other than before.
    pub(super) fn look(&mut self, now: Instant, alive: &Alive<'_>) -> bool {
        let silent = self.is_silent(now);
        let in_doubt = silent && alive.heard != Some(true);
        let mut changed = std::mem::replace(&mut self.in_doubt, in_doubt) != in_doubt;
        if !silent {
            // What is in a report is sure.
            return changed;
        }
        let since = self.heard_ns;
        for device in &mut self.facts.devices {
            let until = alive.held_until(device, since);
            changed |= std::mem::replace(&mut device.valid.valid_to_ns, until) != until;
        }
        for pod in &mut self.facts.pods {
            let sure = alive.lives_since(&pod.namespace, &pod.name, since);
            changed |= std::mem::replace(&mut pod.reports_devices, sure) != sure;
        }
        changed
    }
}
