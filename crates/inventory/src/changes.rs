//! What changed from one snapshot to the next, so that who remembers something of an older one knows whether it still holds.

use crate::facts::{Device, Pod};
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

/// Changes that are remembered; whoever is behind by more asks anew.
const BATCHES: usize = 128;

/// The changes that led to a snapshot, the latest last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes(VecDeque<Arc<Batch>>);

#[derive(Debug)]
struct Batch {
    version: u64,
    /// Everything may have changed.
    all: bool,
    /// Keys of names of pods and of nodes, sorted.
    keys: Vec<u32>,
}

/// What is different in one snapshot.
#[derive(Debug, Default)]
pub(crate) struct Different {
    /// Everything may be.
    pub(crate) all: bool,
    keys: Vec<u32>,
}

impl Different {
    pub(crate) fn pods(&mut self, last: &[Pod], current: &[Pod]) {
        // Also by its node: whoever holds a device is found without the pod's name.
        let of_pod = |pod: &Pod| self.keys.extend([key(&pod.name), key(&pod.node)]);
        changed(last, current, pod_key, of_pod);
    }

    pub(crate) fn devices(&mut self, last: &[Device], current: &[Device]) {
        changed(last, current, device_key, |device| self.keys.push(key(&device.node)));
    }
}

impl Changes {
    /// Adds what is different from the snapshot before.
    pub(crate) fn add(&mut self, version: u64, different: Different) {
        let Different { all, mut keys } = different;
        keys.sort_unstable();
        keys.dedup();
        self.0.push_back(Arc::new(Batch { version, all, keys }));
        if self.0.len() > BATCHES {
            self.0.pop_front();
        }
    }

    /// Whether nothing of `keys` changed after the version with this lower half.
    pub(crate) fn none_since(&self, version: u32, keys: [u32; 2]) -> bool {
        let mut backwards = self.0.iter().rev();
        // The very version must be among those known, or more happened than is remembered.
        loop {
            match backwards.next() {
                Some(batch) if batch.version as u32 == version => return true,
                Some(batch) if batch.all => return false,
                Some(batch) if keys.iter().any(|key| batch.keys.binary_search(key).is_ok()) => {
                    return false;
                }
                Some(_) => {}
                None => return false,
            }
        }
    }
}

/// A short number for a name.
pub(crate) fn key(name: &str) -> u32 {
    // FNV-1a; 0 and the largest are left for those who need a number that is no name's.
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.clamp(1, u32::MAX - 1)
}

fn pod_key(pod: &Pod) -> (&str, &str, &str) {
    (&pod.uid, &pod.namespace, &pod.name)
}

fn device_key(device: &Device) -> (&str, &str, &str) {
    (&device.node, &device.label, &device.device)
}

/// Calls `note` with everything that is in one list and not just so in the other.
fn changed<'a, F: PartialEq, K: Eq + Hash>(
    last: &'a [F],
    current: &'a [F],
    key: impl Fn(&'a F) -> K,
    mut note: impl FnMut(&'a F),
) {
    let mut before: HashMap<K, &F> = last.iter().map(|fact| (key(fact), fact)).collect();
    for fact in current {
        if before.remove(&key(fact)).is_none_or(|known| known != fact) {
            note(fact);
        }
    }
    before.into_values().for_each(note);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(pods: &[(&str, &str)]) -> Vec<Pod> {
        let pod = |(name, node): &(&str, &str)| Pod {
            name: (*name).into(),
            node: (*node).into(),
            ..Pod::default()
        };
        pods.iter().map(pod).collect()
    }

    fn different(last: &[Pod], current: &[Pod]) -> Different {
        let mut different = Different::default();
        different.pods(last, current);
        different
    }

    #[test]
    fn only_what_changed_is_asked_for_anew() {
        let mut changes = Changes::default();
        let lists = [pods(&[]), pods(&[("a", "1"), ("b", "1")]), pods(&[("a", "1"), ("b", "2")])];
        changes.add(1, different(&lists[0], &lists[1]));
        changes.add(2, different(&lists[1], &lists[2]));
        assert!(changes.none_since(1, [key("a"), 0]));
        assert!(!changes.none_since(1, [key("b"), 0]));
        assert!(!changes.none_since(1, [0, key("2")]), "who holds a device there");
        assert!(changes.none_since(2, [key("b"), 0]));
        assert!(!changes.none_since(0, [key("c"), 0]), "nobody knows what was before");
        for version in 3..200 {
            changes.add(version, different(&lists[2], &lists[2]));
        }
        assert!(!changes.none_since(2, [key("a"), 0]), "too long ago");
        assert!(changes.none_since(150, [key("a"), 0]));
    }
}
