//! The Container Runtime Interface, which containerd and CRI-O serve to the kubelet: pods and their containers.

use super::grpc::{Socket, if_served};
use super::{pods_of, take_kubernetes_labels};
use crate::facts::{Container, Facts, Validity};
use crate::source::{Failure, Source};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use tonic::Status;

// Of `runtime.v1`, what is read; fields keep their published numbers.

#[derive(Clone, PartialEq, prost::Message)]
struct ListContainersRequest {
    #[prost(message, optional, tag = "1")]
    filter: Option<ContainerFilter>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ContainerFilter {
    #[prost(message, optional, tag = "2")]
    state: Option<ContainerStateValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ContainerStateValue {
    #[prost(int32, tag = "1")]
    state: i32,
}

/// `CONTAINER_RUNNING`
const RUNNING: i32 = 1;

#[derive(Clone, PartialEq, prost::Message)]
struct ListContainersResponse {
    #[prost(message, repeated, tag = "1")]
    containers: Vec<Listed>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Listed {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    pod_sandbox_id: String,
    #[prost(message, optional, tag = "3")]
    metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "4")]
    image: Option<ImageSpec>,
    #[prost(int64, tag = "7")]
    created_at: i64,
    #[prost(map = "string, string", tag = "8")]
    labels: HashMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ContainerMetadata {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ImageSpec {
    #[prost(string, tag = "1")]
    image: String,
    #[prost(string, tag = "18")]
    user_specified_image: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ListPodSandboxRequest {}

#[derive(Clone, PartialEq, prost::Message)]
struct ListPodSandboxResponse {
    #[prost(message, repeated, tag = "1")]
    items: Vec<PodSandbox>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PodSandbox {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(message, optional, tag = "2")]
    metadata: Option<PodSandboxMetadata>,
    /// 0 is ready.
    #[prost(int32, tag = "3")]
    state: i32,
    #[prost(int64, tag = "4")]
    created_at: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PodSandboxMetadata {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    uid: String,
    #[prost(string, tag = "3")]
    namespace: String,
}

/// Everything the interface says, or `None` where it is not served.
pub(super) async fn list(socket: &mut Socket) -> Result<Option<Facts>, Status> {
    let sandboxes = "/runtime.v1.RuntimeService/ListPodSandbox";
    let sandboxes = if_served(socket.call(sandboxes, "", ListPodSandboxRequest {}).await)?;
    let Some(ListPodSandboxResponse { items }) = sandboxes else { return Ok(None) };
    let filter = Some(ContainerFilter { state: Some(ContainerStateValue { state: RUNNING }) });
    let containers = "/runtime.v1.RuntimeService/ListContainers";
    let answer = socket.call(containers, "", ListContainersRequest { filter }).await?;
    let ListContainersResponse { containers } = answer;
    Ok(Some(facts(items, containers)))
}

fn facts(sandboxes: Vec<PodSandbox>, containers: Vec<Listed>) -> Facts {
    let mut facts = Facts::default();
    // A sandbox is a container too: the one whose process holds the pod's namespaces.
    let ready = sandboxes.into_iter().filter(|sandbox| sandbox.state == 0);
    let pods: HashMap<String, Container> =
        ready.map(|sandbox| (sandbox.id.clone(), sandbox.container())).collect();
    facts.containers.extend(pods.values().cloned());
    for listed in containers {
        let pod = pods.get(&listed.pod_sandbox_id);
        let container = listed.container(pod);
        facts.containers.push(container);
    }
    facts.pods = pods_of(&facts.containers);
    facts
}

fn since(created_at: i64) -> Validity {
    Validity { valid_from_ns: u64::try_from(created_at).unwrap_or(0), valid_to_ns: None }
}

impl PodSandbox {
    fn container(self) -> Container {
        let metadata = self.metadata.unwrap_or_default();
        Container {
            id: self.id.into(),
            pod_name: metadata.name.into(),
            pod_namespace: metadata.namespace.into(),
            pod_uid: metadata.uid.into(),
            valid: since(self.created_at),
            ..Container::default()
        }
    }
}

impl Listed {
    fn container(self, pod: Option<&Container>) -> Container {
        let image = self.image.unwrap_or_default();
        let asked_for = [image.user_specified_image, image.image].into_iter();
        // Some engines know here only which image it is, not how it was called.
        let image =
            asked_for.into_iter().find(|image| !image.is_empty() && !image.starts_with("sha256:"));
        let mut container = Container {
            id: self.id.into(),
            name: self.metadata.unwrap_or_default().name.into(),
            image: image.unwrap_or_default().into(),
            valid: since(self.created_at),
            ..Container::default()
        };
        match pod {
            Some(pod) => {
                container.pod_name = Arc::clone(&pod.pod_name);
                container.pod_namespace = Arc::clone(&pod.pod_namespace);
                container.pod_uid = Arc::clone(&pod.pod_uid);
            }
            None => {
                let labels = self.labels.into_iter().map(|(name, value)| (name, value.into()));
                take_kubernetes_labels(&mut container, &labels.collect());
            }
        }
        container
    }
}

/// A runtime that serves this interface and nothing else that is known here.
#[derive(Debug)]
pub(crate) struct Cri(Socket);

impl Cri {
    pub(crate) fn new(socket: PathBuf) -> Self {
        Cri(Socket::new(socket))
    }
}

impl Source for Cri {
    fn name(&self) -> &'static str {
        "cri"
    }

    async fn load(&mut self) -> Result<Facts, Failure> {
        let listed = list(&mut self.0).await.map_err(|status| self.0.failure(&status))?;
        listed.ok_or_else(|| {
            let found = format!("{} does not serve CRI v1", self.0.path().display());
            Failure::away(found, "name the socket of a container runtime")
        })
    }
}
