//! Pods, containers, devices and workloads from a file that a person wrote.

use crate::facts::{Container, Device, Facts, Pod, Workload};
use crate::source::{Failure, Source};
use serde::Deserialize;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a static file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StaticFileError {
    /// It cannot be read.
    #[error("{}: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// What it says cannot be used.
    #[error("{}: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, with the place.
        reason: String,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    pods: Vec<FilePod>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct FilePod {
    name: Arc<str>,
    namespace: Arc<str>,
    uid: Arc<str>,
    node: Arc<str>,
    workloads: Vec<Workload>,
    containers: Vec<FileContainer>,
    devices: Vec<FileDevice>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileContainer {
    id: Arc<str>,
    #[serde(default)]
    name: Arc<str>,
    #[serde(default)]
    image: Arc<str>,
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
    Name(Arc<str>),
}

/// Bytes of such a file at most.
const MAX_BYTES: u64 = 64 << 20;

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
///   containers: [{id: 4f1d, name: main, image: 'trainer:3'}]
///   devices: [{type: gpu, device: 3}, {type: rdma, device: mlx5_0}]
/// ").unwrap();
/// let facts = crosstalk_inventory::read_static_file(&path).unwrap();
/// assert_eq!(&*facts.devices[0].label, "gpu_id");
/// assert_eq!(&*facts.containers[0].pod_name, "train-0");
/// ```
pub fn read_static_file(path: &Path) -> Result<Facts, StaticFileError> {
    let unusable = |reason: String| StaticFileError::Unusable { path: path.to_owned(), reason };
    let text =
        read(path).map_err(|cause| StaticFileError::Unreadable { path: path.to_owned(), cause })?;
    let file: File = if path.extension().is_some_and(|extension| extension == "toml") {
        toml::from_str(&text).map_err(|error| unusable(error.to_string()))?
    } else {
        serde_yaml_ng::from_str(&text).map_err(|error| unusable(error.to_string()))?
    };
    let mut facts = Facts::default();
    for (number, pod) in file.pods.into_iter().enumerate() {
        if pod.name.is_empty() {
            return Err(unusable(format!("pods[{number}]: name is missing")));
        }
        if !pod.devices.is_empty() && pod.node.is_empty() {
            return Err(unusable(format!("pods[{number}]: a pod with devices needs its node")));
        }
        pod.add_to(&mut facts);
    }
    Ok(facts)
}

fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MAX_BYTES {
        true => Err(std::io::Error::other(format!("is larger than {MAX_BYTES} bytes"))),
        false => Ok(text),
    }
}

impl FilePod {
    fn add_to(self, facts: &mut Facts) {
        for device in self.devices {
            facts.devices.push(Device {
                node: self.node.clone(),
                label: Device::label_of(&device.r#type).into(),
                device: match device.device {
                    DeviceName::Number(number) => number.to_string().into(),
                    DeviceName::Name(name) => name,
                },
                pod_uid: self.uid.clone(),
                pod_namespace: self.namespace.clone(),
                pod_name: self.name.clone(),
                ..Device::default()
            });
        }
        for container in self.containers {
            facts.containers.push(Container {
                id: container.id,
                name: container.name,
                image: container.image,
                pod_uid: self.uid.clone(),
                pod_namespace: self.namespace.clone(),
                pod_name: self.name.clone(),
                ..Container::default()
            });
        }
        facts.pods.push(Pod {
            name: self.name,
            namespace: self.namespace,
            uid: self.uid,
            node: self.node,
            workloads: self.workloads,
            ..Pod::default()
        });
    }
}

/// A static file as a source.
#[derive(Debug)]
pub struct StaticFile {
    path: PathBuf,
}

impl StaticFile {
    /// The file at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        StaticFile { path: path.into() }
    }
}

impl Source for StaticFile {
    fn name(&self) -> &'static str {
        "static"
    }

    async fn load(&mut self) -> Result<Facts, Failure> {
        read_static_file(&self.path).map_err(|error| Failure::away(error, "correct the file"))
    }
}
