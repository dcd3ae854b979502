//! Facts in parts, so that a change of one pod costs a part and not everything.
//!
//! Pods lie by their name, devices by their node: whatever several sources say of one thing is in one part, and so is all
//! that has the same name. Containers are few, those of one node, and are not divided.

use crate::changes::key;
use crate::facts::{Container, Device, Facts, Pod};
use std::collections::HashSet;
use std::sync::Arc;

/// Parts of pods, and of devices.
pub(crate) const PARTS: usize = 64;

/// The part that what is called so belongs to.
pub(crate) fn part_of(name: &str) -> usize {
    key(name) as usize % PARTS
}

/// Facts in parts.
#[derive(Debug, Clone)]
pub(crate) struct Parted {
    pub(crate) pods: Vec<Vec<Pod>>,
    pub(crate) devices: Vec<Vec<Device>>,
    pub(crate) containers: Vec<Container>,
}

impl Default for Parted {
    fn default() -> Self {
        let (pods, devices) = (vec![Vec::new(); PARTS], vec![Vec::new(); PARTS]);
        Parted { pods, devices, containers: Vec::new() }
    }
}

impl From<Facts> for Parted {
    fn from(facts: Facts) -> Self {
        let mut parted = Parted { containers: facts.containers, ..Parted::default() };
        for pod in facts.pods {
            parted.pods[part_of(&pod.name)].push(pod);
        }
        for device in facts.devices {
            parted.devices[part_of(&device.node)].push(device);
        }
        parted
    }
}

impl Parted {
    /// All of them.
    pub(crate) fn facts(&self) -> Facts {
        Facts {
            pods: self.pods.concat(),
            devices: self.devices.concat(),
            containers: self.containers.clone(),
        }
    }

    /// Notes which source said all this.
    pub(crate) fn reporters(mut self, source: u16) -> Parted {
        for device in self.devices.iter_mut().flatten() {
            device.reporters = source;
        }
        self
    }

    /// Ends what is known of who holds a device at that moment, unless it ended before.
    pub(crate) fn devices_were_held_until(&mut self, at_ns: u64) {
        for device in self.devices.iter_mut().flatten() {
            let until = device.valid.valid_to_ns.map_or(at_ns, |until| until.min(at_ns));
            device.valid.valid_to_ns = Some(until);
        }
    }

    /// Takes that back.
    pub(crate) fn devices_are_held_beyond(&mut self, at_ns: u64) {
        let ended = |device: &&mut Device| device.valid.valid_to_ns == Some(at_ns);
        for device in self.devices.iter_mut().flatten().filter(ended) {
            device.valid.valid_to_ns = None;
        }
    }

    pub(crate) fn has_pods(&self) -> bool {
        self.pods.iter().any(|part| !part.is_empty())
    }

    /// The parts in which these differ.
    pub(crate) fn differing(&self, other: &Parted) -> Touched {
        let mut touched = Touched::default();
        for part in 0..PARTS {
            touched.pods[part] = self.pods[part] != other.pods[part];
            touched.devices[part] = self.devices[part] != other.devices[part];
        }
        touched.containers = self.containers != other.containers;
        touched
    }

    /// Puts `facts` in place of all that is said of the pods that are gone. A pod's devices are those on its node.
    pub(crate) fn replace(&mut self, gone: &Gone<'_>, facts: Facts) -> Touched {
        let mut touched = Touched::default();
        for name in &gone.names {
            touched.pods[part_of(name)] = true;
        }
        for part in (0..PARTS).filter(|part| touched.pods[*part]) {
            self.pods[part].retain(|pod| {
                let is_gone = gone.uids.contains(&*pod.uid);
                // By the node that this source names: another may name another.
                touched.devices[part_of(&pod.node)] |= is_gone;
                !is_gone
            });
        }
        for part in 0..PARTS {
            if touched.devices[part] {
                let before = self.devices[part].len();
                self.devices[part].retain(|device| !gone.uids.contains(&*device.pod_uid));
                touched.devices[part] = before != self.devices[part].len();
            }
        }
        let before = self.containers.len();
        self.containers.retain(|container| !gone.uids.contains(&*container.pod_uid));
        touched.containers = before != self.containers.len() || !facts.containers.is_empty();
        self.containers.extend(facts.containers);
        for pod in facts.pods {
            let part = part_of(&pod.name);
            touched.pods[part] = true;
            self.pods[part].push(pod);
        }
        for device in facts.devices {
            let part = part_of(&device.node);
            touched.devices[part] = true;
            self.devices[part].push(device);
        }
        touched
    }
}

/// Pods of which something else is said than before, or nothing any more.
#[derive(Debug, Default)]
pub(crate) struct Gone<'a> {
    pub(crate) uids: HashSet<&'a str>,
    /// Their names as they were.
    pub(crate) names: Vec<Arc<str>>,
}

/// Parts in which something changed.
#[derive(Debug, Clone)]
pub(crate) struct Touched {
    pub(crate) pods: [bool; PARTS],
    pub(crate) devices: [bool; PARTS],
    pub(crate) containers: bool,
}

impl Default for Touched {
    fn default() -> Self {
        Touched { pods: [false; PARTS], devices: [false; PARTS], containers: false }
    }
}

impl Touched {
    /// Everything.
    pub(crate) fn all() -> Self {
        Touched { pods: [true; PARTS], devices: [true; PARTS], containers: true }
    }

    pub(crate) fn is_empty(&self) -> bool {
        let any = self.pods.iter().chain(&self.devices).any(|part| *part);
        !any && !self.containers
    }
}
