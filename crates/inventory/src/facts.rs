//! What there is on a node or in a cluster, in plain lists: the form in which a source tells it.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Everything one source knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// Pods with their workloads.
    pub pods: Vec<Pod>,
    /// Containers, in pods or by themselves.
    pub containers: Vec<Container>,
    /// Devices and the pods that hold them.
    pub devices: Vec<Device>,
}

/// When a fact held, in Unix nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Validity {
    /// Since when. A source that cannot tell leaves 0, and the time it was first heard is put in; 1 for what it said the
    /// first time, which may have held for as long as anybody can remember.
    pub valid_from_ns: u64,
    /// Until when; `None` while it holds. What is over stays known for a grace time.
    pub valid_to_ns: Option<u64>,
}

/// A pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Name.
    pub name: Arc<str>,
    /// Namespace; empty when not known.
    pub namespace: Arc<str>,
    /// UID; empty when not known.
    pub uid: Arc<str>,
    /// Node it runs on; empty when not known.
    pub node: Arc<str>,
    /// Workloads it belongs to, its top controller among them.
    pub workloads: Vec<Workload>,
    /// Its priority as Koordinator names it, such as `koord-prod`; empty when not known.
    pub priority: Arc<str>,
    /// Its quality of service as Koordinator names it, such as `LS`; empty when not known.
    pub qos: Arc<str>,
    /// The owner nearest to it, where that is not its top controller: a trial of an experiment, a job of a group.
    pub nearest_owner: Option<NearestOwner>,
    /// The part it plays in its workload, as the workload's operator names it: `master`, `worker`; empty when not known.
    pub role: Arc<str>,
    /// When its node took it on, which gives it its devices, in Unix nanoseconds.
    pub started_ns: Option<u64>,
    /// When all that it ran had ended, in Unix nanoseconds, where its object outlives that; 0 where it is not told when.
    pub finished_ns: Option<u64>,
    /// Whether it asks for devices of a kind that its kubelet hands out.
    pub asks_for_devices: bool,
    /// Whether it was told which those are: until then a device that nobody holds may be its own.
    pub reports_devices: bool,
    /// Whether an owner of it is still asked for, so that it is not known yet whose it is.
    pub owners_awaited: bool,
    /// When there was such a pod.
    pub valid: Validity,
}

/// Labels by which operators say what part a pod plays in its workload.
const ROLE_LABELS: [&str; 5] = [
    "training.kubeflow.org/replica-type",
    "volcano.sh/task-spec",
    "ray.io/node-type",
    "jobset.sigs.k8s.io/replicatedjob-name",
    "leaderworkerset.sigs.k8s.io/role",
];

/// The part that a pod with these labels plays in its workload; empty where none tells.
///
/// ```
/// let labels = [("training.kubeflow.org/replica-type", "worker")];
/// let value = |name: &str| labels.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
/// assert_eq!(crosstalk_inventory::role_of(value), "worker");
/// assert_eq!(crosstalk_inventory::role_of(|_| None), "");
/// ```
pub fn role_of<'l>(label: impl Fn(&str) -> Option<&'l str>) -> &'l str {
    ROLE_LABELS.into_iter().filter_map(label).find(|role| !role.is_empty()).unwrap_or_default()
}

/// A workload: the top controller of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Workload {
    /// Name.
    pub name: Arc<str>,
    /// UID.
    pub uid: Arc<str>,
    /// Kind, for example `PyTorchJob`; empty when not known.
    pub kind: Arc<str>,
}

/// An owner below a top controller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NearestOwner {
    /// The owner.
    pub owner: Workload,
    /// UID of the top controller, which is among the pod's workloads.
    pub top_uid: Arc<str>,
}

/// A container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Container {
    /// The engine's id, as it stands in cgroup paths.
    pub id: Arc<str>,
    /// Name within its pod, or the engine's name for it; empty when not known.
    pub name: Arc<str>,
    /// Image as it was asked for; empty when not known.
    pub image: Arc<str>,
    /// UID of its pod; empty for a container outside pods.
    pub pod_uid: Arc<str>,
    /// Namespace of its pod.
    pub pod_namespace: Arc<str>,
    /// Name of its pod.
    pub pod_name: Arc<str>,
    /// Its first process, in the host's numbering.
    pub pid: Option<u32>,
    /// Its cgroup's path, where the id does not stand in it.
    pub cgroup: Option<Arc<str>>,
    /// When it ran.
    pub valid: Validity,
}

/// A device of a node, and who holds it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// Node; empty for the one this runs on.
    pub node: Arc<str>,
    /// The metric label that names such a device (see [`Device::label_of`]), or the kubelet's resource name.
    pub label: Arc<str>,
    /// Its number or name, as that label's value.
    pub device: Arc<str>,
    /// UID of the pod that holds it.
    pub pod_uid: Arc<str>,
    /// Namespace of that pod.
    pub pod_namespace: Arc<str>,
    /// Name of that pod.
    pub pod_name: Arc<str>,
    /// The container in that pod, where it is known.
    pub container_name: Arc<str>,
    /// Which sources say so, a bit each; the inventory that they tell sets it.
    #[serde(skip)]
    pub reporters: u16,
    /// When the pod held it.
    pub valid: Validity,
}

impl Device {
    /// The metric label that names a device of this type: GPUs by number in `gpu_id`, InfiniBand and RDMA by name in
    /// `device`, ASICs by name in `asic`; any other type is its own label. The kubelet knows GPUs, whole or parts of them, by
    /// UUID. A part of a GPU (`mig`) is named by the card, number or UUID, and the instance: `0/7`.
    ///
    /// ```
    /// use crosstalk_inventory::Device;
    /// assert_eq!(Device::label_of("GPU"), "gpu_id");
    /// assert_eq!(Device::label_of("mig"), Device::SLICE);
    /// assert_eq!(Device::label_of("rdma"), "device");
    /// assert_eq!(Device::label_of("nvidia.com/mig-1g.5gb"), "gpu_uuid");
    /// assert_eq!(Device::label_of("rdma/hca_shared"), "device");
    /// assert_eq!(Device::label_of("fpga_slot"), "fpga_slot");
    /// ```
    pub fn label_of(device_type: &str) -> &str {
        match device_type {
            t if t.eq_ignore_ascii_case("gpu") => "gpu_id",
            t if t.eq_ignore_ascii_case("ib") || t.eq_ignore_ascii_case("rdma") => "device",
            t if t.eq_ignore_ascii_case("infiniband") => "device",
            t if t.eq_ignore_ascii_case("asic") => "asic",
            t if t.eq_ignore_ascii_case("mig") => Device::SLICE,
            t if t == "nvidia.com/gpu" || t.starts_with("nvidia.com/mig-") => "gpu_uuid",
            "amd.com/gpu" | "gpu.intel.com/i915" | "gpu.intel.com/xe" => "gpu_uuid",
            t if t.starts_with("rdma/") || t.starts_with("nvidia.com/hostdev") => "device",
            other => other,
        }
    }

    /// The device that an id of the kubelet is a share of: NVIDIA's plugin adds `::N` to those that several containers use in
    /// turns, which no exporter knows of.
    ///
    /// ```
    /// use crosstalk_inventory::Device;
    /// assert_eq!(Device::shared("GPU-5f1c::3"), Some("GPU-5f1c"));
    /// assert_eq!(Device::shared("GPU-5f1c"), None);
    /// assert_eq!(Device::shared("0000::a"), None);
    /// ```
    pub fn shared(id: &str) -> Option<&str> {
        let (device, share) = id.rsplit_once("::")?;
        let number = !share.is_empty() && share.bytes().all(|byte| byte.is_ascii_digit());
        (number && !device.is_empty()).then_some(device)
    }

    /// Whether an id is one of so many shares that a plugin hands out of one device, and names none: the plugin for shared RDMA
    /// devices counts them from 0.
    ///
    /// ```
    /// use crosstalk_inventory::Device;
    /// assert!(Device::is_a_share("rdma/hca_shared_devices_a", "17"));
    /// assert!(!Device::is_a_share("rdma/hca", "mlx5_0"));
    /// assert!(!Device::is_a_share("gpu", "0"));
    /// ```
    pub fn is_a_share(resource: &str, id: &str) -> bool {
        resource.starts_with("rdma/") && id.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// The label of parts of GPUs, as DCGM's exporter has it. It alone names no part: the card is named beside it.
    pub const SLICE: &'static str = "GPU_I_ID";

    /// The card and instance in an id of the kubelet that tells them, as older drivers of NVIDIA have it.
    ///
    /// ```
    /// use crosstalk_inventory::Device;
    /// assert_eq!(Device::slice_of("MIG-GPU-5f1c/7/0").as_deref(), Some("GPU-5f1c/7"));
    /// assert_eq!(Device::slice_of("MIG-8f2c1d90"), None);
    /// ```
    pub fn slice_of(id: &str) -> Option<String> {
        let mut parts = id.strip_prefix("MIG-")?.split('/');
        let (card, instance) = (parts.next()?, parts.next()?);
        card.starts_with("GPU-").then(|| format!("{card}/{instance}"))
    }
}
