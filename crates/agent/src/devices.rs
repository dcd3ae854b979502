//! Tells a processor which devices of this node the kubelet has given to whom, so that metrics of devices find their pod.

use crate::config::Config;
use crate::error::AgentError;
use crate::log::say;
use axum::http::Request;
use axum::http::header::CONTENT_TYPE;
use crosstalk_host::{Gpus, HostRoot, rdma_names};
use crosstalk_inventory::{Inventory, Snapshot};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How often everything is told, though nothing changed.
const EVERY: Duration = Duration::from_secs(10);

/// How often it is looked whether something did.
const LOOK: Duration = Duration::from_millis(250);

/// How soon a report that was not taken is sent again.
const AGAIN: Duration = Duration::from_secs(2);

/// Time for a report.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reports until it is dropped.
#[derive(Debug)]
pub(crate) struct DeviceReports {
    /// Dropped to end it.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for DeviceReports {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts reporting, if the configuration names a processor.
pub(crate) fn start(
    config: &Config,
    inventory: Inventory,
) -> Result<Option<DeviceReports>, AgentError> {
    if config.inventory.report_to.is_empty() {
        return Ok(None);
    }
    let reporter = Reporter {
        url: config.inventory.report_to.clone(),
        token_file: config.inventory.report_token_file.clone(),
        node: config.kubernetes().node,
        host: HostRoot::new(&config.host_root),
        inventory,
    };
    let failed = |source| AgentError::Start { what: "the report of devices", source };
    let (stop, stopped) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let run = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = stopped => {}
                () = reporter.run() => {}
            }
        });
    };
    let thread = std::thread::Builder::new().name("device-reports".to_owned()).spawn(run);
    Ok(Some(DeviceReports { stop: Some(stop), thread: Some(thread.map_err(failed)?) }))
}

struct Reporter {
    url: String,
    token_file: std::path::PathBuf,
    node: String,
    host: HostRoot,
    inventory: Inventory,
}

impl Reporter {
    /// Tells everything at every change, and again and again: a processor that was restarted, or replaced, knows it within
    /// seconds.
    async fn run(&self) {
        let (mut failing, mut seen) = (false, 0);
        let mut sent: Option<(Instant, String)> = None;
        loop {
            tokio::time::sleep(LOOK).await;
            let due = sent.as_ref().is_none_or(|(at, _)| at.elapsed() >= EVERY);
            let version = self.inventory.version();
            // What the kubelet said before it fell silent is not what it would say now: better nothing is told.
            if !self.kubelet_is_heard() || !(due || version != seen) {
                continue;
            }
            seen = version;
            let body = self.report().to_string();
            if !due && sent.as_ref().is_some_and(|(_, before)| *before == body) {
                continue;
            }
            let taken = tokio::time::timeout(PATIENCE, self.tell(&body)).await;
            match taken.unwrap_or_else(|_| Err(format!("no answer within {PATIENCE:?}"))) {
                Ok(()) => (failing, sent) = (false, Some((Instant::now(), body))),
                Err(error) => {
                    if !std::mem::replace(&mut failing, true) {
                        say(format_args!("cannot report devices to {}: {error}", self.url));
                    }
                    sent = None;
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    /// What is told, with the pods that the kubelet knows: those without devices have been given none.
    fn report(&self) -> Value {
        let mut sent = report(&self.node, &self.inventory.snapshot(), &self.host);
        let pods = self.inventory.facts_of("kubelet").pods;
        let mut pods: Vec<[&str; 2]> =
            pods.iter().map(|pod| [&*pod.namespace, &*pod.name]).collect();
        pods.sort_unstable();
        let named = |[namespace, pod]: [&str; 2]| json!({"namespace": namespace, "pod": pod});
        sent["pods"] = pods.into_iter().map(named).collect();
        sent
    }

    /// Whether the kubelet has said which devices are whose and goes on to; also where it is not asked.
    fn kubelet_is_heard(&self) -> bool {
        let mut statuses = self.inventory.statuses().into_iter();
        let kubelet = statuses.find(|status| status.name == "kubelet");
        kubelet.is_none_or(|kubelet| kubelet.heard_at.is_some() && kubelet.error.is_none())
    }

    async fn tell(&self, body: &str) -> Result<(), String> {
        let text = |error: &dyn std::error::Error| error.to_string();
        // The client for Kubernetes speaks to any service that wants a token and has a certificate.
        let url = self.url.parse().map_err(|error| text(&error))?;
        let mut config = kube::Config::new(url);
        if !self.token_file.as_os_str().is_empty() {
            let token = std::fs::read_to_string(&self.token_file).map_err(|error| text(&error))?;
            config.auth_info.token = Some(token.trim().to_owned().into());
        }
        let client = kube::Client::try_from(config).map_err(|error| text(&error))?;
        let request = Request::post("/devices").header(CONTENT_TYPE, "application/json");
        let request =
            request.body(body.as_bytes().to_vec().into()).map_err(|error| text(&error))?;
        let answer = client.send(request).await.map_err(|error| text(&error))?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("answered {status}")),
        }
    }
}

/// What is told: every device that the kubelet gave to a container, GPUs, parts of them and RDMA devices by every name the
/// drivers tell. A device that was given back is nobody's, however lately.
fn report(node: &str, snapshot: &Snapshot, host: &HostRoot) -> Value {
    let gpus = Gpus::read(host);
    let mut devices = Vec::new();
    let mut parts: HashMap<[&str; 3], usize> = HashMap::new();
    let held = snapshot.devices().filter(|(device, _)| device.valid.valid_to_ns.is_none());
    for (device, pod) in held {
        let holder: [&str; 3] = [&pod.namespace, &pod.name, &device.container_name];
        devices.push(given(&device.label, &device.device, holder));
        for (kind, name) in gpus.names(&device.device) {
            devices.push(given(kind, name, holder));
        }
        for name in rdma_names(host, &device.device) {
            devices.push(given("rdma", &name, holder));
        }
        if device.device.starts_with("MIG-") {
            *parts.entry(holder).or_default() += 1;
        }
    }
    for container in snapshot.containers() {
        let holder: [&str; 3] = [&container.pod_namespace, &container.pod_name, &container.name];
        if let (Some(pid), Some(count)) = (container.pid, parts.get(&holder)) {
            let slices = gpus.slices_of(host, pid, *count);
            devices.extend(slices.into_iter().map(|(kind, name)| given(kind, name, holder)));
        }
    }
    // In one order, so that what did not change is the same.
    devices.sort_by_cached_key(Value::to_string);
    json!({"node": node, "devices": devices})
}

fn given(resource: &str, device: &str, [namespace, pod, container]: [&str; 3]) -> Value {
    json!({
        "resource": resource,
        "device": device,
        "namespace": namespace,
        "pod": pod,
        "container": container,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_inventory::{Device, Facts, Pod};

    #[test]
    fn a_gpu_is_told_by_its_uuid_and_by_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let gpu = folder.path().join("proc/driver/nvidia/gpus/0000:07:00.0");
        std::fs::create_dir_all(&gpu).unwrap();
        let about = "Model: \t\t NVIDIA A100\nGPU UUID: \t GPU-5f1c\nDevice Minor: \t 3\n";
        std::fs::write(gpu.join("information"), about).unwrap();
        let inventory = Inventory::new(Duration::ZERO);
        let device = |label: &str, id: &str| Device {
            label: label.into(),
            device: id.into(),
            pod_namespace: "ml".into(),
            pod_name: "train-0".into(),
            container_name: "main".into(),
            ..Device::default()
        };
        let pod = Pod { name: "train-0".into(), namespace: "ml".into(), ..Pod::default() };
        let devices = vec![
            device("nvidia.com/gpu", "GPU-5f1c"),
            device("rdma/hca", "mlx5_0"),
            device("intel.com/sriov", "0000:3b:00.2"),
        ];
        let rdma = folder.path().join("sys/bus/pci/devices/0000:3b:00.2/infiniband/mlx5_4");
        std::fs::create_dir_all(rdma).unwrap();
        inventory.update("kubelet", Facts { pods: vec![pod], devices, ..Facts::default() });
        let sent = report("n1", &inventory.snapshot(), &HostRoot::new(folder.path()));
        assert_eq!(sent["node"], "n1");
        let sent = sent["devices"].as_array().unwrap();
        let mut ids: Vec<(&str, &str)> = sent
            .iter()
            .map(|given| (given["resource"].as_str().unwrap(), given["device"].as_str().unwrap()))
            .collect();
        ids.sort_unstable();
        // Exporters number cards by their places on the bus, whatever their minors are.
        let expected = [
            ("gpu", "0"),
            ("intel.com/sriov", "0000:3b:00.2"),
            ("nvidia.com/gpu", "GPU-5f1c"),
            ("rdma", "mlx5_4"),
            ("rdma/hca", "mlx5_0"),
        ];
        assert_eq!(ids, expected);
        assert_eq!(sent[0]["container"], "main");
    }

    #[test]
    fn a_report_is_posted_with_the_token() {
        use std::io::{Read, Write};
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "s3cret\n").unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let reporter = Reporter {
            url: format!("http://{}", listener.local_addr().unwrap()),
            token_file: folder.path().join("token"),
            node: "n1".to_owned(),
            host: HostRoot::new(folder.path()),
            inventory: Inventory::new(Duration::ZERO),
        };
        let processor = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut request, mut part) = (String::new(), [0; 4096]);
            while !request.ends_with("]}") {
                let length = stream.read(&mut part).unwrap();
                assert_ne!(length, 0, "broke off: {request}");
                request.push_str(std::str::from_utf8(&part[..length]).unwrap());
            }
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
            request
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let body = reporter.report().to_string();
        runtime.block_on(reporter.tell(&body)).unwrap();
        let request = processor.join().unwrap();
        assert!(request.starts_with("POST /devices HTTP/1.1"), "{request}");
        assert!(request.contains("Bearer s3cret"), "{request}");
        assert!(request.ends_with(r#"{"devices":[],"node":"n1","pods":[]}"#), "{request}");
    }

    /// Takes one report, and gives what it says.
    fn one_report(listener: &std::net::TcpListener) -> Value {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let (mut request, mut part) = (String::new(), [0; 4096]);
        loop {
            let length = stream.read(&mut part).unwrap();
            assert_ne!(length, 0, "broke off: {request}");
            request.push_str(std::str::from_utf8(&part[..length]).unwrap());
            let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
            if let Ok(report) = serde_json::from_str(body) {
                stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").unwrap();
                return report;
            }
        }
    }

    #[test]
    fn a_change_is_told_at_once_and_nothing_before_the_kubelet_was_heard() {
        let folder = tempfile::tempdir().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let inventory = Inventory::new(Duration::from_secs(300));
        inventory.announce("kubelet");
        let reporter = Reporter {
            url: format!("http://{}", listener.local_addr().unwrap()),
            token_file: Default::default(),
            node: "n1".to_owned(),
            host: HostRoot::new(folder.path()),
            inventory: inventory.clone(),
        };
        assert!(!reporter.kubelet_is_heard());
        let (send, reports) = std::sync::mpsc::channel();
        std::thread::spawn(move || while send.send(one_report(&listener)).is_ok() {});
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.spawn(async move { reporter.run().await });
        let hold = |pods: &[(&str, &str)]| {
            let pod = |(name, _): &(&str, &str)| Pod { name: (*name).into(), ..Pod::default() };
            let device = |(name, gpu): &(&str, &str)| Device {
                label: "nvidia.com/gpu".into(),
                device: (*gpu).into(),
                pod_name: (*name).into(),
                ..Device::default()
            };
            let devices = pods.iter().map(device).collect();
            let pods = pods.iter().map(pod).collect();
            inventory.update("kubelet", Facts { pods, devices, ..Facts::default() });
        };
        // Sooner than it is told anyway.
        let next = |held: &[(&str, &str)]| {
            let report: Value = reports.recv_timeout(EVERY / 2).expect("told at once");
            let mut sent: Vec<_> = report["devices"].as_array().unwrap().iter().collect();
            sent.sort_by_key(|given| given["device"].to_string());
            let sent: Vec<_> = sent
                .iter()
                .map(|given| (given["pod"].as_str().unwrap(), given["device"].as_str().unwrap()))
                .collect();
            assert_eq!(sent, held);
            let pods: Vec<_> = report["pods"].as_array().unwrap().iter().collect();
            let pods: Vec<_> = pods.iter().map(|named| named["pod"].as_str().unwrap()).collect();
            assert_eq!(pods, held.iter().map(|(pod, _)| *pod).collect::<Vec<_>>());
        };
        hold(&[("a", "GPU-1")]);
        next(&[("a", "GPU-1")]);
        hold(&[("a", "GPU-1"), ("b", "GPU-2")]);
        next(&[("a", "GPU-1"), ("b", "GPU-2")]);
        // Gone, though it is still known by its name for a while.
        hold(&[("b", "GPU-2")]);
        next(&[("b", "GPU-2")]);
    }

    #[test]
    fn what_a_kubelet_that_does_not_answer_said_before_is_not_told_as_if_it_were_so() {
        let inventory = Inventory::new(Duration::ZERO);
        let reporter = Reporter {
            url: String::new(),
            token_file: Default::default(),
            node: "n1".to_owned(),
            host: HostRoot::new("/no/such/host"),
            inventory: inventory.clone(),
        };
        assert!(reporter.kubelet_is_heard(), "it is not asked, so others may tell");
        inventory.update("kubelet", Facts::default());
        assert!(reporter.kubelet_is_heard());
        inventory.fail("kubelet", crosstalk_inventory::Failure::away("connection refused", ""));
        assert!(!reporter.kubelet_is_heard());
        inventory.update("kubelet", Facts::default());
        assert!(reporter.kubelet_is_heard());
    }
}
