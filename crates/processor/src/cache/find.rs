//! From the labels of a series to its pod.

use std::ops::Deref;
use std::sync::Arc;

use crosstalk_inventory::{Doubt, Named, Pod, Validity};
use crosstalk_remote_write::Label;

use super::roles::{Roles, Said};

/// Why a series has no workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Miss {
    /// No label names a pod, nor a device on a node.
    NoPodLabel,
    /// No such device, and no label names a pod.
    UnknownDevice,
    /// No such pod.
    UnknownPod,
    /// Several pods have this name and no label tells them apart.
    AmbiguousPod,
    /// A pod of this name is known under another UID.
    OtherUid,
    /// The pod is known but belongs to no workload.
    NoWorkload,
    /// A series about a device that nobody is known to hold names only the pod of its exporter.
    ExporterPod,
    /// Nobody held the device at the time of the sample.
    IdleDevice,
    /// The pod is known, but an owner of it cannot be asked for yet.
    UnknownOwner,
}

impl Miss {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Miss; 9] = [
        Miss::NoPodLabel,
        Miss::UnknownDevice,
        Miss::UnknownPod,
        Miss::AmbiguousPod,
        Miss::OtherUid,
        Miss::NoWorkload,
        Miss::ExporterPod,
        Miss::IdleDevice,
        Miss::UnknownOwner,
    ];

    /// The reason as metrics and tags show it.
    pub fn name(self) -> &'static str {
        match self {
            Miss::NoPodLabel => "no_pod_label",
            Miss::UnknownDevice => "unknown_device",
            Miss::UnknownPod => "unknown_pod",
            Miss::AmbiguousPod => "ambiguous_pod",
            Miss::OtherUid => "other_uid",
            Miss::NoWorkload => "no_workload",
            Miss::ExporterPod => "exporter_pod",
            Miss::IdleDevice => "idle_device",
            Miss::UnknownOwner => "unknown_owner",
        }
    }
}

/// What is known at one moment, and how labels speak of it.
#[derive(Debug)]
pub struct Snapshot {
    known: Arc<crosstalk_inventory::Snapshot>,
    roles: Arc<Roles>,
}

impl Deref for Snapshot {
    type Target = crosstalk_inventory::Snapshot;

    fn deref(&self) -> &Self::Target {
        &self.known
    }
}

impl Snapshot {
    /// `roles` must have been made for the device labels of `known`.
    pub(super) fn new(known: Arc<crosstalk_inventory::Snapshot>, roles: Arc<Roles>) -> Self {
        Snapshot { known, roles }
    }

    /// The pod that a series with these labels is about, if it belongs to a workload.
    pub fn find(&self, labels: &[Label<'_>]) -> Result<&Pod, Miss> {
        self.find_at(labels, None).map(|found| found.pod)
    }

    /// The pod that a sample of this time (Unix nanoseconds) in a series with these labels is about: who held the device
    /// then, or had the name then. Without a time, the one of now.
    pub fn find_at(&self, labels: &[Label<'_>], at_ns: Option<u64>) -> Result<Found<'_>, Miss> {
        let said = self.roles.read(labels);
        let mut given_back = false;
        if let Some(node) = self.node_of(&said) {
            if let (Some(instance), Some(place)) = (said.instance, self.roles.slices) {
                for card in said.cards.into_iter().flatten() {
                    let mut buffer = [0; SLICE_BYTES];
                    let Some(slice) = slice_name(&mut buffer, card, instance) else { continue };
                    if let Some(found) = self.held(place, node, slice, at_ns) {
                        return self.with_workload(found);
                    }
                    given_back |= self.known.has_been_held(place, node, slice);
                }
            }
            for (place, device) in self.roles.devices(&said) {
                // Whoever holds the card, or another part of it, does not hold this part.
                if said.instance.is_some() && self.roles.is_card(place, device) {
                    continue;
                }
                if let Some(found) = self.held(place, node, device, at_ns) {
                    return self.with_workload(found);
                }
                given_back |= self.known.has_been_held(place, node, device);
            }
        }
        let mut miss = None;
        let mut exporter_named_one = false;
        for (place, name) in said.pods.iter().enumerate() {
            let Some(name) = name else { continue };
            let exported = self.roles.is_exported(place);
            // The exporter named a pod that is not known: whoever scraped it is not that one.
            if exporter_named_one && !exported {
                continue;
            }
            exporter_named_one |= exported;
            let namespace = self.roles.namespace(&said, place);
            let found = self.by_labels_at(name, namespace, self.uid_of(&said, place), at_ns);
            // Whoever scraped the exporter says which pod that is; the device is not its own.
            let watches = |pod| self.roles.is_exporter(&said, place, pod, given_back);
            let found = found.and_then(|pod| match watches(pod) {
                true => Err(Miss::ExporterPod),
                false => Ok(pod),
            });
            match found {
                Ok(pod) => return self.with_workload(Found::named(pod, at_ns)),
                Err(reason) => miss = miss.or(Some(reason)),
            }
        }
        if miss.is_none()
            && let Some(pod) = said.uid().and_then(|uid| self.known.pod(uid))
        {
            return self.with_workload(Found::named(pod, at_ns));
        }
        let of_any_kind = |node| said.accelerator && self.known.is_told_of(node);
        let device_said =
            self.node_of(&said).is_some_and(|node| said.names_a_device() || of_any_kind(node));
        Err(match miss {
            None | Some(Miss::ExporterPod) if given_back => Miss::IdleDevice,
            Some(miss) => miss,
            None if device_said => Miss::UnknownDevice,
            None => Miss::NoPodLabel,
        })
    }

    fn with_workload<'a>(&self, found: Found<'a>) -> Result<Found<'a>, Miss> {
        match found.pod {
            pod if self.known.awaits_owners(pod) => Err(Miss::UnknownOwner),
            pod if pod.workloads.is_empty() => Err(Miss::NoWorkload),
            _ => Ok(found),
        }
    }

    /// The node that a series speaks of, by the first of the labels that may name one. Who was scraped may be anything; it is
    /// a node where one is known by that name.
    fn node_of<'b>(&self, said: &Said<'b>) -> Option<&'b str> {
        let scraped = || said.scraped().filter(|node| self.known.knows_node(node));
        match said.is_scraped_first() {
            true => scraped().or_else(|| said.node()),
            false => said.node().or_else(scraped),
        }
    }

    /// The UID that goes with the pod label at `place`. A plain one beside a pod that the exporter named is the exporter's,
    /// unless it is that of the pod that was scraped.
    fn uid_of<'b>(&self, said: &Said<'b>, place: usize) -> Option<&'b str> {
        if !self.roles.is_exported(place) {
            return said.plain_uid();
        }
        let scraped = |pod: &Pod| {
            let mut names = said.pods.iter().enumerate();
            names.any(|(place, name)| !self.roles.is_exported(place) && *name == Some(&*pod.name))
        };
        let plain = || said.plain_uid().filter(|uid| !self.known.pod(uid).is_some_and(scraped));
        said.exported_uid().or_else(plain)
    }

    /// Who may know of whoever was missed, where that may only not have been heard of yet. Of a device those who tell of others
    /// of its kind on its node: most that exporters name are nobody's at any time.
    pub(crate) fn who_may_know<'b>(
        &self,
        labels: &[Label<'b>],
        miss: Miss,
        at_ns: u64,
    ) -> MayKnow<'b> {
        let pods = matches!(miss, Miss::UnknownPod | Miss::OtherUid | Miss::NoWorkload);
        let said = self.roles.read(labels);
        if miss == Miss::UnknownOwner {
            let name = said.pods.into_iter().flatten().next().unwrap_or_default();
            return MayKnow { holder: Some(Doubt::Owner(name)), ..MayKnow::default() };
        }
        let named = said.pods.iter().position(Option::is_some);
        let namespace = named.and_then(|place| self.roles.namespace(&said, place));
        let elsewhere = self.known.follows_pods_of(namespace.unwrap_or_default()) == Some(false);
        let holder = self.node_of(&said).and_then(|node| {
            let places = || {
                let slices = self.roles.slices.filter(|_| said.instance.is_some());
                self.roles.devices(&said).map(|(place, _)| place).chain(slices)
            };
            // All of its names are of one device: who is heard and tells of one of them knows.
            let holding = || places().filter(|place| self.known.has_devices(*place, node));
            let doubts = || holding().map(|place| self.known.doubt(place, node, at_ns));
            let unheard = doubts().next().flatten().filter(|_| doubts().all(|d| d.is_some()));
            let of_a_kind = || said.accelerator || holding().next().is_some();
            unheard.or_else(|| {
                let awaited = of_a_kind() && self.known.awaits_devices(node, at_ns);
                awaited.then_some(Doubt::Node(node))
            })
        });
        MayKnow { pods, elsewhere, holder }
    }

    /// Who held the device that these labels speak of last before whoever has it at that time, or before nobody has; and
    /// since and until when.
    pub(crate) fn holder_before(
        &self,
        labels: &[Label<'_>],
        at_ns: u64,
    ) -> Option<(&Pod, Validity)> {
        let said = self.roles.read(labels);
        let node = self.node_of(&said)?;
        if let (Some(instance), Some(place)) = (said.instance, self.roles.slices) {
            return said.cards.into_iter().flatten().find_map(|card| {
                let mut buffer = [0; SLICE_BYTES];
                let slice = slice_name(&mut buffer, card, instance)?;
                self.known.holder_before(place, node, slice, at_ns)
            });
        }
        let mut devices = self.roles.devices(&said);
        devices.find_map(|(place, device)| self.known.holder_before(place, node, device, at_ns))
    }

    fn held(
        &self,
        place: usize,
        node: &str,
        device: &str,
        at_ns: Option<u64>,
    ) -> Option<Found<'_>> {
        let Some(at) = at_ns else {
            let pod = self.known.holder(place, node, device)?;
            return Some(Found { pod, from_ns: 0, until_ns: u64::MAX, by_device: true });
        };
        let (pod, valid) = self.known.holder_at(place, node, device, at)?;
        let until_ns = valid.valid_to_ns.unwrap_or(u64::MAX);
        Some(Found { pod, from_ns: valid.valid_from_ns.min(at), until_ns, by_device: true })
    }

    /// The pod of this name: by UID and name, by namespace and name, without a namespace by a name that only one
    /// namespace has; never one that the UID contradicts.
    pub fn by_labels(
        &self,
        name: &str,
        namespace: Option<&str>,
        uid: Option<&str>,
    ) -> Result<&Pod, Miss> {
        self.by_labels_at(name, namespace, uid, None)
    }

    /// As [`Snapshot::by_labels`], of whoever had the name at that time (Unix nanoseconds).
    pub fn by_labels_at(
        &self,
        name: &str,
        namespace: Option<&str>,
        uid: Option<&str>,
        at_ns: Option<u64>,
    ) -> Result<&Pod, Miss> {
        if let Some(pod) = uid.and_then(|uid| self.known.pod(uid))
            && *pod.name == *name
        {
            return Ok(pod);
        }
        let pod = match namespace {
            // A source that knows no namespaces knows the pod by its bare name.
            Some(namespace) => self
                .known
                .pod_in_at(namespace, name, at_ns)
                .or_else(|| self.known.pod_in_at("", name, at_ns))
                .ok_or(Miss::UnknownPod)?,
            None => match self.known.pod_named_at(name, at_ns) {
                Some(Named::One(pod)) => pod,
                Some(Named::Several) => return Err(Miss::AmbiguousPod),
                None => return Err(Miss::UnknownPod),
            },
        };
        match uid {
            // Exporters also call other things `uid`, user numbers for example: only what looks like a Kubernetes UID
            // can contradict.
            Some(uid) if looks_like_uid(uid) && !pod.uid.is_empty() && *pod.uid != *uid => {
                Err(Miss::OtherUid)
            }
            _ => Ok(pod),
        }
    }
}

/// Who may know more of a series than was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MayKnow<'a> {
    /// Whether those may who tell of pods: whoever was named is not known, or not whose it is.
    pub(crate) pods: bool,
    /// Whether the pod is of a namespace that is not followed, so that who follows another cannot know it.
    pub(crate) elsewhere: bool,
    /// Who is not heard that may tell of a holder of the device.
    pub(crate) holder: Option<Doubt<'a>>,
}

/// What in the inventory the labels of a series speak of: when none of it changes, the same pod is found again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    name: u32,
    node: u32,
}

impl Keys {
    /// Of a series that speaks of nothing.
    const NONE: u32 = 0;
    /// Of a series that speaks of too much.
    const ANYTHING: u32 = u32::MAX;

    /// Of a series whose device led to this pod: whatever other pods its labels name, and whatever node that pod is said to
    /// be on, who held the device depends on the device and on who had this name.
    pub(crate) fn by_device(self, pod: &Pod) -> Keys {
        Keys { name: crosstalk_inventory::Snapshot::key(&pod.name), ..self }
    }
}

impl Snapshot {
    /// Grows with every change.
    pub(crate) fn version(&self) -> u64 {
        self.known.version()
    }

    /// What these labels speak of.
    pub(crate) fn keys(&self, labels: &[Label<'_>]) -> Keys {
        let said = self.roles.read(labels);
        let mut names = said.pods.iter().flatten();
        let name = match names.next() {
            None if said.uid().is_some() => Keys::ANYTHING,
            None => Keys::NONE,
            Some(name) if names.all(|other| other == name) => {
                crosstalk_inventory::Snapshot::key(name)
            }
            Some(_) => Keys::ANYTHING,
        };
        let device = said.names_a_device();
        // Either may be the node.
        let name = match said.is_scraped_first() && said.node().is_some() {
            true => Keys::ANYTHING,
            false => name,
        };
        // Also a node that is not known yet.
        let node = said.node().or(said.scraped()).filter(|_| device);
        let node = node.map_or(Keys::NONE, crosstalk_inventory::Snapshot::key);
        Keys { name, node }
    }

    /// Whether what `keys` speak of is as it was in the snapshot of that version (its lower half).
    pub(crate) fn holds_since(&self, version: u32, keys: Keys) -> bool {
        keys.name != Keys::ANYTHING && self.known.unchanged_since(version, [keys.name, keys.node])
    }
}

/// A pod, and for which samples it is the one: from the one time, before the other (Unix nanoseconds).
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// Samples from here on.
    pub from_ns: u64,
    /// Samples before this.
    pub until_ns: u64,
    /// Whether a device led to it, not a name.
    pub(crate) by_device: bool,
}

impl<'a> Found<'a> {
    /// A pod found by its name: for its own time, and for one late sample alone where it is gone.
    fn named(pod: &'a Pod, at_ns: Option<u64>) -> Self {
        let at = at_ns.unwrap_or(0);
        match pod.valid.valid_to_ns {
            // That it is gone may have been seen only after another had its name.
            Some(_) => Found { pod, from_ns: at, until_ns: at.saturating_add(1), by_device: false },
            None => Found {
                pod,
                by_device: false,
                from_ns: pod.valid.valid_from_ns.min(at),
                until_ns: u64::MAX,
            },
        }
    }
}

/// Bytes of a card's name and an instance at most; no card has a longer one.
const SLICE_BYTES: usize = 128;

/// A part of a card as the inventory names it.
fn slice_name<'k>(
    buffer: &'k mut [u8; SLICE_BYTES],
    card: &str,
    instance: &str,
) -> Option<&'k str> {
    let (card, instance) = (card.as_bytes(), instance.as_bytes());
    let length = card.len() + 1 + instance.len();
    let name = buffer.get_mut(..length)?;
    name[..card.len()].copy_from_slice(card);
    name[card.len()] = b'/';
    name[card.len() + 1..].copy_from_slice(instance);
    std::str::from_utf8(name).ok()
}

fn looks_like_uid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}
