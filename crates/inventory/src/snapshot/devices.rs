//! Who holds and held which device, and what of that is in doubt.

use super::{SKEW_NS, Snapshot};
use crate::doubt::Doubt;
use crate::facts::{Device, Pod, Validity};
use crate::index::PairRef;
use crate::merge::Now;
use crate::parts::part_of;

/// So long after its node took a pod on it is waited for the news of which devices it was given.
const AWAITED_NS: u64 = 300_000_000_000;

impl Snapshot {
    /// The labels there are devices under, in the order of [`Snapshot::holder`]'s numbers.
    pub fn device_labels(&self) -> impl ExactSizeIterator<Item = &str> {
        self.labels.iter().map(|label| &**label)
    }

    /// The pod that holds `device` of `node`, under the label with this number in [`Snapshot::device_labels`]. A pod that
    /// is just gone has taken its devices along.
    pub fn holder(&self, label: usize, node: &str, device: &str) -> Option<&Pod> {
        let mut backwards = self.held(label, node, device)?.rev();
        backwards.find(|(device, pod)| self.is_held(device, pod)).map(|(_, pod)| pod)
    }

    /// Who held a device, one after another, with the pods that are known.
    fn held<'a>(
        &'a self,
        label: usize,
        node: &str,
        device: &str,
    ) -> Option<impl DoubleEndedIterator<Item = (&'a Device, &'a Pod)> + use<'a>> {
        let held = self.devices[part_of(node)].held(self.labels.get(label)?, node, device);
        Some(held.filter_map(move |device| Some((device, self.holder_of(device, None)?))))
    }

    /// The pod that a device was given to, where that is known. Of pods that followed each other under the name that the
    /// device's source knows, the one of that moment; the latest where none is given.
    fn holder_of(&self, device: &Device, at_ns: Option<u64>) -> Option<&Pod> {
        if !device.pod_uid.is_empty() {
            return self.pod(&device.pod_uid);
        }
        let part = &self.pods[part_of(&device.pod_name)];
        let named = part.by_name.get(&PairRef(&device.pod_namespace, &device.pod_name))?;
        let mut backwards = named.as_slice().iter().rev().map(|&pod| &part.pods[pod as usize]);
        let Some(at) = at_ns else { return backwards.next() };
        // No grace, as for devices: what a pod that is gone held is nobody's.
        let there = |pod: &&Pod, at_latest: u64| {
            let Validity { valid_from_ns, valid_to_ns } = pod.valid;
            valid_from_ns <= at_latest && valid_to_ns.is_none_or(|to| at < to)
        };
        // A pod that was first heard of from who knows names alone is the one that was heard of by its UID later.
        let known = backwards.clone().filter(|pod| !pod.uid.is_empty());
        let loosely = at.saturating_add(SKEW_NS);
        known
            .clone()
            .find(|pod| there(pod, at))
            .or_else(|| known.clone().find(|pod| there(pod, loosely)))
            .or_else(|| backwards.clone().find(|pod| there(pod, at)))
            .or_else(|| backwards.find(|pod| there(pod, loosely)))
    }

    fn is_held(&self, device: &Device, pod: &Pod) -> bool {
        match device.valid.valid_to_ns {
            None => true,
            Some(to) => {
                // A living pod that gave a device back does not hold it any more.
                pod.valid.valid_to_ns.is_some() && self.built_ns < to.saturating_add(self.grace_ns)
            }
        }
    }

    /// The pod that held `device` of `node` at that moment (Unix nanoseconds), and since and until when. No grace: a device
    /// that was given back is nobody's.
    pub fn holder_at(
        &self,
        label: usize,
        node: &str,
        device: &str,
        at_ns: u64,
    ) -> Option<(&Pod, Validity)> {
        let (pod, mut valid) = self.said_to_hold(label, node, device, at_ns)?;
        // That a pod is gone is often seen late, and its devices may be those of one that has started since.
        if pod.valid.valid_to_ns.is_some()
            && let Some(from) =
                self.awaits_devices_from(node).filter(|from| valid.valid_from_ns < *from)
        {
            valid.valid_to_ns = Some(valid.valid_to_ns.map_or(from, |to| to.min(from)));
        }
        valid.valid_to_ns.is_none_or(|to| at_ns < to).then_some((pod, valid))
    }

    /// The same, as far as those tell who tell of devices and pods.
    fn said_to_hold(
        &self,
        label: usize,
        node: &str,
        device: &str,
        at_ns: u64,
    ) -> Option<(&Pod, Validity)> {
        let label = self.labels.get(label)?;
        let mut found: Option<(&Pod, Validity)> = None;
        let (mut before, mut is_first) = (None, true);
        for device in self.devices[part_of(node)].held(label, node, device) {
            let there = self.holder_of(device, Some(at_ns));
            let Some(pod) = there.or_else(|| self.holder_of(device, None)) else { continue };
            let valid = held_by(device, pod, before);
            before = Some(pod);
            let (begins, ended) = (valid.valid_from_ns, valid.valid_to_ns);
            // The first that is known to have held it may have begun a little earlier than its clock says.
            let slack = if there.is_some() && std::mem::take(&mut is_first) { SKEW_NS } else { 0 };
            let held = begins <= at_ns.saturating_add(slack) && ended.is_none_or(|to| at_ns < to);
            if there.is_some() && held {
                found = Some((pod, valid));
            } else if let Some((_, known)) = &mut found {
                // That it was given back is often seen only after the next has it, or even had it.
                if begins > at_ns {
                    let until = known.valid_to_ns.map_or(begins, |until| until.min(begins));
                    known.valid_to_ns = Some(until);
                } else if begins > known.valid_from_ns {
                    found = None;
                } else if let Some(to) = ended.filter(|to| *to <= at_ns) {
                    known.valid_from_ns = known.valid_from_ns.max(to);
                }
            }
        }
        found
    }

    /// Who held `device` of `node` last before whoever has it at that moment (Unix nanoseconds), or before nobody has, and since
    /// and until when.
    pub fn holder_before(
        &self,
        label: usize,
        node: &str,
        device: &str,
        at_ns: u64,
    ) -> Option<(&Pod, Validity)> {
        let name = self.labels.get(label)?;
        let held = self.holder_at(label, node, device, at_ns);
        let until = held.map_or(at_ns, |(_, valid)| valid.valid_from_ns);
        let ends = self.devices[part_of(node)].held(name, node, device).filter_map(|device| {
            let of_pod = self.holder_of(device, None).and_then(|pod| pod.valid.valid_to_ns);
            device.valid.valid_to_ns.into_iter().chain(of_pod).min()
        });
        let ends = ends.filter(|end| *end <= until).chain(held.map(|_| until));
        let mut ends: Vec<u64> = ends.collect();
        ends.sort_unstable();
        // That one has given it back may be seen only when the next has it: the latest end after which somebody had it counts.
        ends.into_iter().rev().find_map(|end| {
            let (pod, valid) = self.holder_at(label, node, device, end.checked_sub(1)?)?;
            Some((pod, Validity { valid_to_ns: Some(end), ..valid }))
        })
    }

    /// Why it is not known who held devices of `node` under the label with this number at that moment (Unix nanoseconds): who
    /// told of them is not heard any more. `None` where that is known.
    pub fn doubt<'a>(&self, label: usize, node: &'a str, at_ns: u64) -> Option<Doubt<'a>> {
        let label = self.labels.get(label)?;
        let reporters = self.devices[part_of(node)].reporters(label, node);
        self.doubts.of(reporters, node, at_ns)
    }

    /// Whether this is a node of whose devices somebody told.
    pub fn knows_node(&self, node: &str) -> bool {
        self.devices[part_of(node)].knows_node(node) || self.doubts.knows_node(node)
    }

    /// Whether a source tells of this node, or will, which devices its pods were given.
    pub fn is_told_of(&self, node: &str) -> bool {
        self.doubts.will_be_told_of(node)
    }

    /// Whether `node` had taken a pod on by that moment (Unix nanoseconds) that asks for devices, and it is still to be told
    /// which ones it was given. That is waited for only so long: some kinds of devices nobody tells of.
    pub fn awaits_devices(&self, node: &str, at_ns: u64) -> bool {
        self.awaits_devices_from(node).is_some_and(|from| from <= at_ns)
    }

    /// From when on that is so.
    fn awaits_devices_from(&self, node: &str) -> Option<u64> {
        let awaiting = || self.pods.iter().filter_map(|part| part.awaiting.get(node)).flatten();
        awaiting().next().filter(|_| self.is_told_of(node))?;
        let since = Now::here().unix_ns.saturating_sub(AWAITED_NS);
        awaiting().copied().filter(|started| (*started).max(self.begun_ns) > since).min()
    }

    /// Whether devices of `node` are known to be held, or to have been, under the label with this number.
    pub fn has_devices(&self, label: usize, node: &str) -> bool {
        let label = self.labels.get(label);
        label.is_some_and(|label| self.devices[part_of(node)].has_devices(label, node))
    }

    /// Whether anybody is known to hold `device` of `node` or to have held it.
    pub fn has_been_held(&self, label: usize, node: &str, device: &str) -> bool {
        self.held(label, node, device).is_some_and(|mut held| held.next().is_some())
    }

    /// Every device with the pod that holds it.
    pub fn devices(&self) -> impl Iterator<Item = (&Device, &Pod)> {
        self.devices.iter().flat_map(|part| part.all()).filter_map(|held| {
            let mut known =
                held.rev().filter_map(|device| Some((device, self.holder_of(device, None)?)));
            known.find(|(device, pod)| self.is_held(device, pod))
        })
    }
}

/// When a pod held a device, which `before` had before it. A source that knows pods by name alone goes on saying so when
/// another of that name follows, and says it late when a pod is new: such a pod has had its devices since its node took it
/// on, unless whoever had them before lives on and gave them away.
fn held_by(device: &Device, pod: &Pod, before: Option<&Pod>) -> Validity {
    if !device.pod_uid.is_empty() {
        return device.valid;
    }
    let ends = device.valid.valid_to_ns.into_iter().chain(pod.valid.valid_to_ns);
    let heard = device.valid.valid_from_ns.max(pod.valid.valid_from_ns);
    let free = before.is_none_or(|before| before.valid.valid_to_ns.is_some());
    let started = pod.started_ns.filter(|_| free);
    Validity {
        valid_from_ns: started.map_or(heard, |started| started.min(heard)),
        valid_to_ns: ends.min(),
    }
}
