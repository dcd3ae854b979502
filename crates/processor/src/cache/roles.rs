//! Which labels of a series say where it belongs.

use std::collections::BTreeMap;

use crosstalk_inventory::Device;
use crosstalk_remote_write::Label;

use crate::enrich::pattern_matches;

/// The label names that are looked at, each list in order of preference.
#[derive(Debug, Clone)]
pub struct LabelNames {
    /// May name the node.
    pub node: Vec<String>,
    /// May name the pod.
    pub pod: Vec<String>,
    /// May hold the pod's UID.
    pub uid: Vec<String>,
    /// May name a device, as the inventory calls them; any other comes after.
    pub device: Vec<String>,
    /// Patterns of the names of exporters' pods.
    pub exporters: Vec<String>,
    /// Labels that name devices of a resource of the kubelet, by the resource.
    pub resources: BTreeMap<String, String>,
}

impl Default for LabelNames {
    fn default() -> Self {
        let enrichment = crate::config::Enrichment::default();
        LabelNames {
            node: enrichment.node_labels,
            pod: enrichment.pod_labels,
            uid: enrichment.uid_labels,
            device: enrichment.device_labels,
            exporters: enrichment.exporter_pods,
            resources: enrichment.device_resources,
        }
    }
}

/// Labels of one kind that are looked at; more in a configuration are not.
pub(crate) const MAX_NAMES: usize = 8;

/// Device labels that are looked at, those that exporters have first.
pub(super) const MAX_DEVICE_LABELS: usize = 16;

#[derive(Debug, Clone, Copy)]
enum Role {
    Node(u8),
    /// Says who was scraped, with a port: a node, where one is known by that name.
    Scraped(u8),
    Pod(u8),
    Uid(u8),
    ExportedUid(u8),
    Namespace,
    ExportedNamespace,
    Device(u8),
    /// Names the card that a part belongs to, by number or UUID.
    Card(u8),
    /// Names the part of a card.
    Instance,
    /// Names the part of a card that may not be divided.
    Partition,
    /// Says that the series is about a GPU or the like, whether or not the inventory knows such.
    Accelerator,
}

/// What exporters call a device, by what the inventory calls it, the surest name first: DCGM has `gpu` and `UUID`, AMD's exporter `gpu_id` and
/// `gpu_uuid`, the exporters of nodes `device`.
const ALIASES: [(&str, &[&str]); 2] =
    [("gpu_uuid", &["UUID", "uuid", "GPU_UUID"]), ("gpu_id", &["gpu"])];

/// What DCGM's exporter calls the part of a card, of one that is divided.
const INSTANCES: [&str; 2] = ["GPU_I_ID", "gpu_i_id"];

/// What AMD's exporter calls it, of every card; and its values for the first part, which stands for a card that is not
/// divided.
const PARTITION: &str = "gpu_partition_id";
const WHOLE: [&str; 3] = ["0", "NA", "na"];

/// Device labels that name whole cards.
const CARDS: [&str; 3] = ["gpu_uuid", "serial_number", "gpu_id"];

/// The label by which Prometheus says whom it scraped: with a port, unless it is made the node's name as kube-prometheus does.
const SCRAPED: &str = "instance";

/// Labels of series about accelerators. A pod that is named beside them without holding one may be the exporter's.
const ACCELERATORS: [&str; 8] =
    ["gpu_id", "gpu", "gpu_uuid", "UUID", "GPU_I_ID", "gpu_i_id", "asic", "card"];

/// Label names and what they mean, made for finding out quickly that a label means nothing.
#[derive(Debug, Default)]
pub struct Roles {
    names: Vec<(Box<str>, Role)>,
    /// For each first byte of a name, the lengths there are: bit n for n bytes, 63 for all longer ones.
    shapes: Vec<u64>,
    /// Pod labels that go with the exported namespace, by place.
    exported: [bool; MAX_NAMES],
    /// Which of the device labels is that of parts of cards.
    pub(super) slices: Option<usize>,
    /// Which of the device labels each of those that are looked at is.
    looked_at: Vec<usize>,
    /// The device labels these were made for.
    devices: Vec<Box<str>>,
    exporters: Vec<String>,
}

/// What the labels of one series say.
#[derive(Debug, Default)]
pub(super) struct Said<'b> {
    node: Option<(u8, &'b str)>,
    scraped: Option<(u8, &'b str)>,
    pub(super) pods: [Option<&'b str>; MAX_NAMES],
    uid: Option<(u8, &'b str)>,
    exported_uid: Option<(u8, &'b str)>,
    pub(super) namespace: Option<&'b str>,
    pub(super) exported_namespace: Option<&'b str>,
    /// By place among the device labels that are looked at.
    devices: [Option<&'b str>; MAX_DEVICE_LABELS],
    /// The card by UUID and by number, where the inventory knows parts of cards.
    pub(super) cards: [Option<&'b str>; 2],
    /// The part of a card.
    pub(super) instance: Option<&'b str>,
    pub(super) accelerator: bool,
}

impl<'b> Said<'b> {
    pub(super) fn node(&self) -> Option<&'b str> {
        self.node.map(|(_, node)| node)
    }

    /// Who was scraped, without the port.
    pub(super) fn scraped(&self) -> Option<&'b str> {
        let (_, instance) = self.scraped?;
        let port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        let cut = instance.rsplit_once(':').filter(|(_, after)| port(after));
        Some(cut.map_or(instance, |(host, _)| host))
    }

    /// Whether who was scraped goes before what else names a node.
    pub(super) fn is_scraped_first(&self) -> bool {
        let place = |named: Option<(u8, &str)>| named.map_or(u8::MAX, |(place, _)| place);
        place(self.scraped) < place(self.node)
    }

    /// What a label without `exported_` gives as UID: the exporter's word, or the scraper's where both had one.
    pub(super) fn plain_uid(&self) -> Option<&'b str> {
        self.uid.map(|(_, uid)| uid)
    }

    pub(super) fn exported_uid(&self) -> Option<&'b str> {
        self.exported_uid.map(|(_, uid)| uid)
    }

    pub(super) fn uid(&self) -> Option<&'b str> {
        self.exported_uid().or(self.plain_uid())
    }

    /// Whether a device, or a part of one, is spoken of.
    pub(super) fn names_a_device(&self) -> bool {
        self.instance.is_some() || self.devices.iter().any(Option::is_some)
    }
}

impl Roles {
    pub(super) fn new(names: &LabelNames, device_labels: &[&str]) -> Self {
        let mut roles = Roles { shapes: vec![0; 256], ..Roles::default() };
        let mut add = |name: &str, role: Role| {
            if let Some(first) = name.as_bytes().first() {
                roles.shapes[usize::from(*first)] |= 1 << name.len().min(63);
                roles.names.push((name.into(), role));
            }
        };
        for (place, name) in names.node.iter().take(MAX_NAMES).enumerate() {
            match name == SCRAPED {
                true => add(name, Role::Scraped(place as u8)),
                false => add(name, Role::Node(place as u8)),
            }
        }
        for (place, name) in names.pod.iter().take(MAX_NAMES).enumerate() {
            add(name, Role::Pod(place as u8));
        }
        for (place, name) in names.uid.iter().take(MAX_NAMES).enumerate() {
            match is_exported(name) {
                true => add(name, Role::ExportedUid(place as u8)),
                false => add(name, Role::Uid(place as u8)),
            }
        }
        INSTANCES.iter().for_each(|name| add(name, Role::Instance));
        add(PARTITION, Role::Partition);
        let slices = device_labels.iter().position(|name| *name == Device::SLICE);
        if slices.is_some() {
            for (card, (name, aliases)) in ALIASES.iter().enumerate() {
                [*name].iter().chain(*aliases).for_each(|n| add(n, Role::Card(card as u8)));
            }
        }
        let device_names = device_labels.iter().map(|label| match names.resources.get(*label) {
            Some(name) => name.as_str(),
            None => label,
        });
        let device_names: Vec<&str> = device_names.collect();
        let looked_at = looked_at(&device_names, &names.device);
        for (place, label) in looked_at.iter().enumerate() {
            let name = device_names[*label];
            add(name, Role::Device(place as u8));
            let aliases = ALIASES.iter().filter(|(known, _)| *known == name);
            for alias in aliases.flat_map(|(_, aliases)| *aliases) {
                add(alias, Role::Device(place as u8));
            }
        }
        ACCELERATORS.iter().for_each(|name| add(name, Role::Accelerator));
        add("namespace", Role::Namespace);
        add("exported_namespace", Role::ExportedNamespace);
        for (place, name) in names.pod.iter().take(MAX_NAMES).enumerate() {
            roles.exported[place] = is_exported(name);
        }
        (roles.slices, roles.looked_at) = (slices, looked_at);
        roles.exporters.clone_from(&names.exporters);
        roles.devices = device_labels.iter().map(|label| (*label).into()).collect();
        roles
    }

    /// The devices that a series names: which of the device labels, and the value.
    pub(super) fn devices<'b>(
        &self,
        said: &Said<'b>,
    ) -> impl Iterator<Item = (usize, &'b str)> + use<'_, 'b> {
        let devices = said.devices;
        self.looked_at.iter().zip(devices).filter_map(|(label, device)| Some((*label, device?)))
    }

    /// Whether these were made for these device labels.
    pub(super) fn fit<'a>(&self, device_labels: impl ExactSizeIterator<Item = &'a str>) -> bool {
        device_labels.len() == self.devices.len()
            && device_labels.zip(&self.devices).all(|(label, known)| *label == **known)
    }

    /// Whether a pod that the label at `place` names only watches the device that the series is about: by its name, or as
    /// one of every node's beside an accelerator, or a device that `was_given` to somebody once, where the exporter did not
    /// name it itself.
    pub(super) fn is_exporter(
        &self,
        said: &Said<'_>,
        place: usize,
        pod: &crosstalk_inventory::Pod,
        was_given: bool,
    ) -> bool {
        let of_every_node = || pod.workloads.iter().any(|workload| &*workload.kind == "DaemonSet");
        let named = || self.exporters.iter().any(|pattern| pattern_matches(pattern, &pod.name));
        ((said.accelerator || was_given) && !self.exported[place] && of_every_node())
            || ((said.accelerator || said.names_a_device()) && named())
    }

    /// Whether a device label's value names a whole card. The UUID of a part has a beginning of its own.
    pub(super) fn is_card(&self, place: usize, device: &str) -> bool {
        let label = self.devices.get(place);
        label.is_some_and(|label| CARDS.contains(&&**label)) && !device.starts_with("MIG-")
    }

    /// Whether the pod label at `place` is what the exporter itself said, and not whoever scraped it.
    pub(super) fn is_exported(&self, place: usize) -> bool {
        self.exported[place]
    }

    /// The namespace that belongs to the pod label at `place`.
    pub(super) fn namespace<'b>(&self, said: &Said<'b>, place: usize) -> Option<&'b str> {
        let exported = said.exported_namespace.filter(|_| self.exported[place]);
        exported.or(said.namespace)
    }

    #[inline]
    pub(super) fn read<'b>(&self, labels: &[Label<'b>]) -> Said<'b> {
        let mut said = Said::default();
        for label in labels {
            let Some(first) = label.name.as_bytes().first() else { continue };
            let shapes = self.shapes.get(usize::from(*first)).copied().unwrap_or(0);
            if shapes & (1 << label.name.len().min(63)) == 0 || label.value.is_empty() {
                continue;
            }
            for (_, role) in self.names.iter().filter(|(name, _)| **name == *label.name) {
                said.note(*role, label.value);
            }
        }
        said
    }
}

/// Whether a label is what an exporter said of the same name as a label of whoever scraped it.
fn is_exported(name: &str) -> bool {
    name.starts_with("exported_")
}

/// Which of the device labels can be those of a series, in the order that is configured and then any other; a resource of the
/// kubelet (`example.com/fpga`) is no label's name unless one is configured for it.
fn looked_at(device_labels: &[&str], order: &[String]) -> Vec<usize> {
    let is_name = |label: &str| {
        let may_stand = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
        label.bytes().all(may_stand) && !label.starts_with(|first: char| first.is_ascii_digit())
    };
    let places = 0..device_labels.len();
    let mut places: Vec<usize> = places
        .filter(|place| is_name(device_labels[*place]) && device_labels[*place] != Device::SLICE)
        .collect();
    let rank = |label: &str| order.iter().position(|name| *name == label).unwrap_or(usize::MAX);
    places.sort_by_key(|place| rank(device_labels[*place]));
    if places.len() > MAX_DEVICE_LABELS {
        let left_out: Vec<&str> = places
            .split_off(MAX_DEVICE_LABELS)
            .into_iter()
            .map(|place| device_labels[place])
            .collect();
        tracing::warn!(?left_out, "too many labels of devices are known; these are not looked at");
    }
    places
}

impl<'b> Said<'b> {
    fn note(&mut self, role: Role, value: &'b str) {
        let preferred = |known: Option<(u8, &'b str)>, place: u8| match known {
            Some((best, _)) if best < place => known,
            _ => Some((place, value)),
        };
        match role {
            Role::Node(place) => self.node = preferred(self.node, place),
            Role::Scraped(place) => self.scraped = Some((place, value)),
            Role::Uid(place) => self.uid = preferred(self.uid, place),
            Role::ExportedUid(place) => self.exported_uid = preferred(self.exported_uid, place),
            Role::Pod(place) => self.pods[usize::from(place)] = Some(value),
            Role::Namespace => self.namespace = Some(value),
            Role::ExportedNamespace => self.exported_namespace = Some(value),
            Role::Device(place) => self.devices[usize::from(place)] = Some(value),
            Role::Card(place) => self.cards[usize::from(place)] = Some(value),
            Role::Partition if WHOLE.contains(&value) => {}
            Role::Instance | Role::Partition => self.instance = Some(value),
            Role::Accelerator => self.accelerator = true,
        }
    }
}
