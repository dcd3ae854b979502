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
    #[prost(message, repeated, tag = "5")]
    dynamic_resources: Vec<DynamicResource>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ContainerDevices {
    #[prost(string, tag = "1")]
    resource_name: String,
    #[prost(string, repeated, tag = "2")]
    device_ids: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DynamicResource {
    #[prost(message, repeated, tag = "4")]
    claim_resources: Vec<ClaimResource>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ClaimResource {
    #[prost(message, repeated, tag = "1")]
    cdi_devices: Vec<CdiDevice>,
    #[prost(string, tag = "2")]
    driver_name: String,
    #[prost(string, tag = "4")]
    device_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct CdiDevice {
    #[prost(string, tag = "1")]
    name: String,
}

impl ClaimResource {
    /// Driver and device; kubelets before 1.34 tell only what the container runtime calls it (`vendor.com/class=name`).
    fn named(self) -> Vec<(String, String)> {
        if !self.device_name.is_empty() {
            return vec![(self.driver_name, self.device_name)];
        }
        let names = self.cdi_devices.into_iter().filter_map(|device| {
            let (kind, name) = device.name.split_once('=')?;
            Some((kind.to_owned(), name.to_owned()))
        });
        names.collect()
    }
}

impl ContainerResources {
    /// What kind of device, and which ones: those of plugins, and those that were claimed.
    fn given(self) -> Vec<(String, Vec<String>)> {
        let claims = self.dynamic_resources.into_iter().flat_map(|claim| claim.claim_resources);
        let claimed = claims.flat_map(ClaimResource::named).map(|(kind, name)| (kind, vec![name]));
        let by_plugins = self.devices.into_iter();
        by_plugins.map(|given| (given.resource_name, given.device_ids)).chain(claimed).collect()
    }
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
            let container_name: Arc<str> = container.name.as_str().into();
            for (kind, ids) in container.given() {
                let label: Arc<str> = kind.into();
                facts.devices.extend(ids.into_iter().map(|device| Device {
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
