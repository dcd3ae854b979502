//! Pods, devices and workloads from a file that a person wrote.

use std::path::Path;

use serde::Deserialize;

use super::inventory::{Device, Inventory, Pod, Workload};
use crate::error::{Error, file_error};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    pods: Vec<FilePod>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct FilePod {
    name: String,
    namespace: String,
    uid: String,
    node: String,
    workloads: Vec<Workload>,
    devices: Vec<FileDevice>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileDevice {
    /// `gpu`, `ib`, `rdma`, `asic`, or the metric label itself.
    r#type: String,
    device: DeviceName,
}

/// A GPU's number may be written as a number.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum DeviceName {
    Number(u64),
    Name(String),
}

/// Reads a file in YAML (of which JSON is a part) or, when its name ends in `.toml`, TOML.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("pods.yaml");
/// std::fs::write(&path, "
/// pods:
/// - name: train-0
///   namespace: ml
///   uid: p1
///   node: node-a
///   workloads: [{name: train, uid: w1, kind: PyTorchJob}]
///   devices: [{type: gpu, device: 3}, {type: rdma, device: mlx5_0}]
/// ").unwrap();
/// let inventory = crosstalk_processor::cache::read_static_file(&path).unwrap();
/// assert_eq!(inventory.devices[0].label, "gpu_id");
/// ```
pub fn read_static_file(path: &Path) -> Result<Inventory, Error> {
    let text = std::fs::read_to_string(path).map_err(file_error(path))?;
    let unusable = |reason: String| Error::StaticFile { path: path.to_owned(), reason };
    let file: File = if path.extension().is_some_and(|extension| extension == "toml") {
        toml::from_str(&text).map_err(|error| unusable(error.to_string()))?
    } else {
        serde_yaml_ng::from_str(&text).map_err(|error| unusable(error.to_string()))?
    };
    let mut inventory = Inventory::default();
    for (number, pod) in file.pods.into_iter().enumerate() {
        if pod.name.is_empty() {
            return Err(unusable(format!("pods[{number}]: name is missing")));
        }
        if !pod.devices.is_empty() && pod.node.is_empty() {
            return Err(unusable(format!("pods[{number}]: a pod with devices needs its node")));
        }
        for device in pod.devices {
            inventory.devices.push(Device {
                node: pod.node.clone(),
                label: Device::label_of(&device.r#type).to_owned(),
                device: match device.device {
                    DeviceName::Number(number) => number.to_string(),
                    DeviceName::Name(name) => name,
                },
                pod_uid: pod.uid.clone(),
                pod_namespace: pod.namespace.clone(),
                pod_name: pod.name.clone(),
            });
        }
        inventory.pods.push(Pod {
            name: pod.name,
            namespace: pod.namespace,
            uid: pod.uid,
            node: pod.node,
            workloads: pod.workloads,
        });
    }
    Ok(inventory)
}
