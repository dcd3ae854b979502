//! Containers as the engines of this node know them, and devices as the kubelet hands them out.
//!
//! Every call only reads. What a socket says is bounded in bytes, and a socket that hangs is left after a while.

mod containerd;
mod cri;
mod docker;
mod grpc;
mod kubelet;

pub(crate) use containerd::Containerd;
pub(crate) use cri::Cri;
pub(crate) use docker::Docker;
pub(crate) use kubelet::Kubelet;

use crate::facts::Container;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Bytes of one answer at most.
const MAX_BYTES: usize = 16 << 20;

/// What to do about a socket that does not answer.
fn fix(socket: &Path) -> String {
    format!("see that the engine runs and that this user may read and write {}", socket.display())
}

/// Fills in the pod, and the container's name in it, from the labels that the kubelet puts on every container.
fn take_kubernetes_labels(container: &mut Container, labels: &HashMap<String, Arc<str>>) {
    let label = |name: &str| labels.get(&format!("io.kubernetes.{name}")).cloned();
    container.pod_name = label("pod.name").unwrap_or_default();
    container.pod_namespace = label("pod.namespace").unwrap_or_default();
    container.pod_uid = label("pod.uid").unwrap_or_default();
    if let Some(name) = label("container.name") {
        container.name = name;
    }
}

/// The pods that containers name, each once.
fn pods_of(containers: &[Container]) -> Vec<crate::facts::Pod> {
    let mut pods: HashMap<&str, crate::facts::Pod> = HashMap::new();
    for container in containers.iter().filter(|container| !container.pod_uid.is_empty()) {
        pods.entry(&container.pod_uid).or_insert_with(|| crate::facts::Pod {
            name: Arc::clone(&container.pod_name),
            namespace: Arc::clone(&container.pod_namespace),
            uid: Arc::clone(&container.pod_uid),
            ..Default::default()
        });
    }
    pods.into_values().collect()
}
