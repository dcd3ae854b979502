//! Debian's containerd: containers by themselves, and pods through the Container Runtime Interface.
#![allow(clippy::unwrap_used)]

mod support;

use crosstalk_host::HostRoot;
use crosstalk_inventory::{Cgroups, Config, Inventory};
use hyper::http::uri::PathAndQuery;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};
use support::Daemon;
use support::containerd::{IMAGE, containerd, ctr, import};
use tonic_prost::ProstCodec;

#[test]
fn a_container_that_ctr_runs_is_known_by_its_cgroup_and_image() {
    let daemon = containerd();
    import(&daemon, "default");
    let config = Config { containerd: Some(daemon.path("containerd.sock")), ..Config::default() };
    let inventory = Inventory::start(config);
    daemon.eventually("a first look", || inventory.statuses()[0].heard_at);
    let cgroup = format!("{}/by-hand", daemon.cgroup);
    // Nothing of it is to stay outside the daemon's folder.
    let runc = daemon.path("runc").display().to_string();
    let options = ["run", "-d", "--null-io", "--runc-root", &runc];
    let options = [&options[..], &["--snapshotter", "native", "--cgroup", &cgroup]].concat();
    let started = Instant::now();
    ctr(&daemon, "default", &[&options[..], &[IMAGE, "by-hand"]].concat()).unwrap();
    let container =
        daemon.eventually("the container", || inventory.snapshot().container("by-hand").cloned());
    assert!(started.elapsed() < Duration::from_secs(10), "not by an event");
    assert_eq!((&*container.name, &*container.image), ("by-hand", IMAGE));

    let mut cgroups = Cgroups::new(&HostRoot::new("/"));
    let folder = cgroups.hierarchy().unwrap().mount.join(cgroup.trim_start_matches('/'));
    let cgroup = cgroups.resolve(folder.metadata().unwrap().ino(), container.pid.unwrap());
    let placement = inventory.snapshot().place_cgroup(&cgroup);
    assert_eq!(placement.container_name.as_deref(), Some("by-hand"));
    assert_eq!(placement.container_image.as_deref(), Some(IMAGE));
    ctr(&daemon, "default", &["tasks", "kill", "-s", "SIGKILL", "by-hand"]).unwrap();
    daemon.eventually("its end", || inventory.snapshot().container("by-hand")?.valid.valid_to_ns);
}

// Of `runtime.v1`, what is needed to make a pod.

#[derive(Clone, PartialEq, prost::Message)]
struct RunPodSandboxRequest {
    #[prost(message, optional, tag = "1")]
    config: Option<PodSandboxConfig>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PodSandboxConfig {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Metadata>,
    #[prost(string, tag = "3")]
    log_directory: String,
    #[prost(message, optional, tag = "8")]
    linux: Option<Linux>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Metadata {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    uid: String,
    #[prost(string, tag = "3")]
    namespace: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Linux {
    #[prost(string, tag = "1")]
    cgroup_parent: String,
    #[prost(message, optional, tag = "2")]
    security: Option<Security>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Security {
    #[prost(message, optional, tag = "1")]
    namespaces: Option<Namespaces>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Namespaces {
    /// 2 is the node's.
    #[prost(int32, tag = "1")]
    network: i32,
}

/// The answers of `RunPodSandbox` and `CreateContainer`, and the questions that take only an id.
#[derive(Clone, PartialEq, prost::Message)]
struct Id {
    #[prost(string, tag = "1")]
    id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct CreateContainerRequest {
    #[prost(string, tag = "1")]
    pod_sandbox_id: String,
    #[prost(message, optional, tag = "2")]
    config: Option<ContainerConfig>,
    #[prost(message, optional, tag = "3")]
    sandbox_config: Option<PodSandboxConfig>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ContainerConfig {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Metadata>,
    #[prost(message, optional, tag = "2")]
    image: Option<Id>,
}

async fn call<Q>(daemon: &Daemon, method: &'static str, question: Q) -> Id
where
    Q: prost::Message + 'static,
{
    let address = format!("unix://{}", daemon.path("containerd.sock").display());
    let channel =
        tonic::transport::Endpoint::from_shared(address).unwrap().connect().await.unwrap();
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let codec: ProstCodec<Q, Id> = ProstCodec::default();
    let path = PathAndQuery::from_static(method);
    client.unary(tonic::Request::new(question), path, codec).await.unwrap().into_inner()
}

#[test]
fn a_pod_of_the_container_runtime_interface_is_known_by_name() {
    let daemon = containerd();
    import(&daemon, "k8s.io");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (sandbox, id) = runtime.block_on(async {
        let metadata =
            Metadata { name: "train-0".into(), uid: "u-1".into(), namespace: "ml".into() };
        let security = Some(Security { namespaces: Some(Namespaces { network: 2 }) });
        let linux = Some(Linux { cgroup_parent: daemon.cgroup.clone(), security });
        let log_directory = daemon.path("logs").display().to_string();
        let config = PodSandboxConfig { metadata: Some(metadata), log_directory, linux };
        let request = RunPodSandboxRequest { config: Some(config.clone()) };
        let sandbox = call(&daemon, "/runtime.v1.RuntimeService/RunPodSandbox", request).await.id;
        let metadata = Some(Metadata { name: "main".into(), ..Metadata::default() });
        let container = ContainerConfig { metadata, image: Some(Id { id: IMAGE.into() }) };
        let request = CreateContainerRequest {
            pod_sandbox_id: sandbox.clone(),
            config: Some(container),
            sandbox_config: Some(config),
        };
        let create = "/runtime.v1.RuntimeService/CreateContainer";
        let id = call(&daemon, create, request).await.id;
        let start = "/runtime.v1.RuntimeService/StartContainer";
        call(&daemon, start, Id { id: id.clone() }).await;
        (sandbox, id)
    });
    let socket = Some(daemon.path("containerd.sock"));
    // As containerd, and as any runtime that serves the interface.
    for config in [
        Config { containerd: socket.clone(), ..Config::default() },
        Config { cri: socket.clone(), ..Config::default() },
    ] {
        let own_api = config.containerd.is_some();
        let inventory = Inventory::start(config);
        let container =
            daemon.eventually("the container", || inventory.snapshot().container(&id).cloned());
        assert_eq!((&*container.name, &*container.pod_name), ("main", "train-0"));
        assert_eq!((&*container.pod_namespace, &*container.pod_uid), ("ml", "u-1"));
        if own_api {
            assert_eq!(&*container.image, IMAGE);
        }
        let snapshot = inventory.snapshot();
        assert_eq!(&*snapshot.pod("u-1").unwrap().name, "train-0");
        assert_eq!(&*snapshot.container(&sandbox).unwrap().pod_name, "train-0");
    }
}
