//! What a source knows, in plain lists.

use serde::{Deserialize, Serialize};

/// Everything one source knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Pods with their workloads.
    pub pods: Vec<Pod>,
    /// Devices and the pods that hold them.
    pub devices: Vec<Device>,
}

/// A pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pod {
    /// Name.
    pub name: String,
    /// Namespace; empty when not known.
    pub namespace: String,
    /// UID; empty when not known.
    pub uid: String,
    /// Node it runs on; empty when not known.
    pub node: String,
    /// Workloads it belongs to, its top controller among them.
    pub workloads: Vec<Workload>,
}

/// A workload: the top controller of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Workload {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Kind, for example `PyTorchJob`; empty when not known.
    pub kind: String,
}

/// A device of a node, and who holds it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Device {
    /// Node.
    pub node: String,
    /// The metric label that names such a device: see [`Device::label_of`].
    pub label: String,
    /// Its number or name, as that label's value.
    pub device: String,
    /// UID of the pod that holds it.
    pub pod_uid: String,
    /// Namespace of that pod.
    pub pod_namespace: String,
    /// Name of that pod.
    pub pod_name: String,
}

impl Device {
    /// The metric label that names a device of this type: GPUs by number in `gpu_id`, InfiniBand and RDMA by name in
    /// `device`, ASICs by name in `asic`; any other type is its own label.
    ///
    /// ```
    /// use crosstalk_processor::cache::Device;
    /// assert_eq!(Device::label_of("GPU"), "gpu_id");
    /// assert_eq!(Device::label_of("rdma"), "device");
    /// assert_eq!(Device::label_of("fpga_slot"), "fpga_slot");
    /// ```
    pub fn label_of(device_type: &str) -> &str {
        match device_type {
            t if t.eq_ignore_ascii_case("gpu") => "gpu_id",
            t if t.eq_ignore_ascii_case("ib") || t.eq_ignore_ascii_case("rdma") => "device",
            t if t.eq_ignore_ascii_case("infiniband") => "device",
            t if t.eq_ignore_ascii_case("asic") => "asic",
            other => other,
        }
    }
}
