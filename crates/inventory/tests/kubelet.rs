//! The kubelet's PodResources socket, served by the test.
#![allow(clippy::unwrap_used)]

mod support;

use crosstalk_inventory::{Config, Inventory};
use futures_util::future::BoxFuture;
use futures_util::stream;
use std::convert::Infallible;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

#[derive(Clone, PartialEq, prost::Message)]
struct Empty {}

#[derive(Clone, PartialEq, prost::Message)]
struct List {
    #[prost(message, repeated, tag = "1")]
    pods: Vec<Pod>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Pod {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    namespace: String,
    #[prost(message, repeated, tag = "3")]
    containers: Vec<Container>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Container {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    devices: Vec<Devices>,
    #[prost(int64, repeated, tag = "3")]
    cpus: Vec<i64>,
    #[prost(message, repeated, tag = "5")]
    claims: Vec<Claim>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Claim {
    #[prost(string, tag = "2")]
    name: String,
    #[prost(message, repeated, tag = "4")]
    resources: Vec<Claimed>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Claimed {
    #[prost(message, repeated, tag = "1")]
    cdi: Vec<Cdi>,
    #[prost(string, tag = "2")]
    driver: String,
    #[prost(string, tag = "3")]
    pool: String,
    #[prost(string, tag = "4")]
    device: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Cdi {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Devices {
    #[prost(string, tag = "1")]
    resource: String,
    #[prost(string, repeated, tag = "2")]
    ids: Vec<String>,
}

#[derive(Clone)]
struct Lister;

impl NamedService for Lister {
    const NAME: &'static str = "v1.PodResourcesLister";
}

impl UnaryService<Empty> for Lister {
    type Response = List;
    type Future = BoxFuture<'static, Result<Response<List>, Status>>;

    fn call(&mut self, _: Request<Empty>) -> Self::Future {
        let devices = Devices {
            resource: "nvidia.com/gpu".into(),
            ids: vec!["GPU-1".into(), "GPU-2".into()],
        };
        let cdi = |name: &str| vec![Cdi { name: name.into() }];
        let resources = vec![
            Claimed {
                cdi: cdi("k8s.gpu.nvidia.com/device=u-gpu-3"),
                driver: "gpu.nvidia.com".into(),
                pool: "node-a".into(),
                device: "gpu-3".into(),
            },
            // As kubelets before 1.34 tell it.
            Claimed { cdi: cdi("k8s.gpu.nvidia.com/device=gpu-4"), ..Claimed::default() },
        ];
        let container = Container {
            name: "main".into(),
            devices: vec![devices],
            cpus: vec![0, 1],
            claims: vec![Claim { name: "c".into(), resources }],
        };
        let pod =
            Pod { name: "train-0".into(), namespace: "ml".into(), containers: vec![container] };
        Box::pin(async { Ok(Response::new(List { pods: vec![pod] })) })
    }
}

impl tower_service::Service<hyper::Request<Body>> for Lister {
    type Response = hyper::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: hyper::Request<Body>) -> Self::Future {
        assert_eq!(request.uri().path(), "/v1.PodResourcesLister/List");
        let codec: ProstCodec<List, Empty> = ProstCodec::default();
        Box::pin(async move { Ok(Grpc::new(codec).unary(Lister, request).await) })
    }
}

#[test]
fn the_kubelet_says_which_container_holds_which_device() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kubelet.sock");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let listener = runtime.block_on(async { tokio::net::UnixListener::bind(&socket).unwrap() });
    let incoming = stream::unfold(listener, |listener| async {
        let accepted = listener.accept().await.map(|(stream, _)| stream);
        Some((accepted, listener))
    });
    let server = tonic::transport::Server::builder().add_service(Lister);
    runtime.spawn(server.serve_with_incoming(Box::pin(incoming)));

    let inventory = Inventory::start(Config { kubelet: Some(socket), ..Config::default() });
    let deadline = Instant::now() + Duration::from_secs(20);
    while inventory.snapshot().devices().count() < 4 {
        assert!(Instant::now() < deadline, "{:?}", inventory.statuses());
        support::pace(Duration::from_millis(10));
    }
    let snapshot = inventory.snapshot();
    let mut held: Vec<_> = snapshot.devices().collect();
    held.sort_by_key(|(device, _)| device.device.clone());
    let told = |place: usize| (&*held[place].0.label, &*held[place].0.device);
    assert_eq!(
        (told(2), told(3)),
        (("gpu.nvidia.com", "gpu-3"), ("k8s.gpu.nvidia.com/device", "gpu-4"))
    );
    let (device, pod) = held[0];
    assert_eq!((&*device.label, &*device.device), ("nvidia.com/gpu", "GPU-1"));
    assert_eq!((&*device.container_name, &*pod.name, &*pod.namespace), ("main", "train-0", "ml"));
    let gpus = snapshot.device_labels().position(|label| label == "nvidia.com/gpu").unwrap();
    assert_eq!(&*snapshot.holder(gpus, "", "GPU-2").unwrap().name, "train-0");
}
