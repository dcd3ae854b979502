//! The kubelet's PodResources socket: which container was given which device.

use super::grpc::Socket;
use crate::facts::{Device, Facts, Pod};
use crate::source::{Failure, Source};
use std::path::PathBuf;
use std::sync::Arc;

// Of the kubelet's `v1`, what is read; fields keep their published numbers.

#[derive(Clone, PartialEq, prost::Message)]
struct ListPodResourcesRequest {}

#[derive(Clone, PartialEq, prost::Message)]
struct ListPodResourcesResponse {
    #[prost(message, repeated, tag = "1")]
    pod_resources: Vec<PodResources>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PodResources {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    namespace: String,
    #[prost(message, repeated, tag = "3")]
    containers: Vec<ContainerResources>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ContainerResources {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    devices: Vec<ContainerDevices>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ContainerDevices {
    #[prost(string, tag = "1")]
    resource_name: String,
    #[prost(string, repeated, tag = "2")]
    device_ids: Vec<String>,
}

/// The kubelet behind its socket.
#[derive(Debug)]
pub(crate) struct Kubelet(Socket);

impl Kubelet {
    pub(crate) fn new(socket: PathBuf) -> Self {
        Kubelet(Socket::new(socket))
    }
}

impl Source for Kubelet {
    fn name(&self) -> &'static str {
        "kubelet"
    }

    async fn load(&mut self) -> Result<Facts, Failure> {
        let list = "/v1.PodResourcesLister/List";
        let answer = self.0.call(list, "", ListPodResourcesRequest {}).await;
        let answer: ListPodResourcesResponse = answer.map_err(|status| self.0.failure(&status))?;
        let mut facts = Facts::default();
        for pod in answer.pod_resources {
            pod.add_to(&mut facts);
        }
        Ok(facts)
    }
}

impl PodResources {
    fn add_to(self, facts: &mut Facts) {
        let (pod_name, pod_namespace): (Arc<str>, Arc<str>) =
            (self.name.into(), self.namespace.into());
        for container in self.containers {
            let container_name: Arc<str> = container.name.into();
            for given in container.devices {
                let label: Arc<str> = given.resource_name.into();
                facts.devices.extend(given.device_ids.into_iter().map(|device| Device {
                    label: Arc::clone(&label),
                    device: device.into(),
                    pod_name: Arc::clone(&pod_name),
                    pod_namespace: Arc::clone(&pod_namespace),
                    container_name: Arc::clone(&container_name),
                    ..Device::default()
                }));
            }
        }
        facts.pods.push(Pod { name: pod_name, namespace: pod_namespace, ..Pod::default() });
    }
}
