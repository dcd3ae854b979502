//! The generated load.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};

use crosstalk_remote_write::{Compression, Compressor, Encoder, Label, Protocol, Sample, Series};

const PODS: usize = 1000;

/// Senders at once.
const CONNECTIONS: usize = 2;

/// Series as GPU nodes have them: ten labels, values that change a little.
pub fn requests(series: usize, samples_per_request: usize) -> Vec<Vec<u8>> {
    let mut compressor = Compressor::default();
    bodies(series, samples_per_request, |_, _| {})
        .iter()
        .map(|plain| compressor.compress(Compression::Snappy, plain).to_vec())
        .collect()
}

/// What those requests become on their way to the store, before they are compressed.
pub fn enriched(series: usize, samples_per_request: usize) -> Vec<Vec<u8>> {
    bodies(series, samples_per_request, |pod, labels| {
        for (name, value) in labels.iter_mut() {
            match *name {
                "__name__" => value.insert_str(0, "workload_"),
                "job" => *value = "crosstalk-processor".to_owned(),
                _ => {}
            }
        }
        labels.extend([
            ("exported_job", "kubelet".to_owned()),
            ("pod_name", format!("train-{pod}-worker-{}", pod % 8)),
            ("pod_uid", format!("0f3c9d1e-{pod:04}")),
            ("workload_name", format!("train-{pod}")),
            ("workload_uid", format!("77aa0c4b-{pod:04}")),
        ]);
        labels.sort();
    })
}

type Labels = Vec<(&'static str, String)>;

fn bodies(
    series: usize,
    samples_per_request: usize,
    change: impl Fn(usize, &mut Labels),
) -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    let mut encoder = Encoder::new(Protocol::V1);
    for number in 0..series {
        let pod = number % PODS;
        let mut texts = vec![
            ("__name__", format!("container_metric_{}_total", number / PODS)),
            ("cluster", "training-eu-1".to_owned()),
            ("container", "main".to_owned()),
            ("instance", format!("10.0.{}.{}:9400", pod / 250, pod % 250)),
            ("job", "kubelet".to_owned()),
            ("namespace", format!("team-{}", pod % 20)),
            ("node", format!("node-{:03}", pod / 8)),
            ("pod", format!("train-{pod}-worker-{}", pod % 8)),
            ("service", "kubelet".to_owned()),
            ("zone", "a".to_owned()),
        ];
        change(pod, &mut texts);
        let labels: Vec<Label<'_>> =
            texts.iter().map(|(name, value)| Label { name, value }).collect();
        let value = (number * 7919 % 100_003) as f64 * 0.25;
        let sample = [Sample::new(value, 1_760_000_000_000 + number as i64 % 1000)];
        encoder.series("", &labels, &Series::of_samples(&labels, &sample));
        if (number + 1) % samples_per_request == 0 {
            bodies.push(encoder.finish().to_vec());
            encoder.clear();
        }
    }
    bodies
}

/// The pods those series name, each with one workload.
pub fn pods() -> String {
    let mut text = String::from("pods:\n");
    for pod in 0..PODS {
        text.push_str(&format!(
            "- {{name: train-{pod}-worker-{}, namespace: team-{}, uid: 0f3c9d1e-{pod:04}, node: node-{:03}, \
             workloads: [{{name: train-{pod}, uid: 77aa0c4b-{pod:04}, kind: PyTorchJob}}]}}\n",
            pod % 8,
            pod % 20,
            pod / 8
        ));
    }
    text
}

/// Sends every request `rounds` times, each again until it is taken.
pub fn send(address: SocketAddr, requests: &[Vec<u8>], rounds: usize) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_nodelay(true).unwrap();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= requests.len() * rounds {
                        break;
                    }
                    let request = &requests[number % requests.len()];
                    while !post(&mut stream, request) {}
                }
            });
        }
    });
}

fn post(stream: &mut TcpStream, body: &[u8]) -> bool {
    let head = format!(
        "POST /api/v1/write HTTP/1.1\r\nHost: bench\r\nContent-Type: application/x-protobuf\r\n\
         Content-Encoding: snappy\r\nX-Prometheus-Remote-Write-Version: 0.1.0\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = [0; 4096];
    let length = stream.read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]);
    assert!(answer.contains("\r\n\r\n"), "a short answer comes whole: {answer}");
    let taken = answer.starts_with("HTTP/1.1 2");
    let later = ["HTTP/1.1 429", "HTTP/1.1 503"].iter().any(|status| answer.starts_with(status));
    assert!(taken || later, "{answer}");
    taken
}

pub fn wait_until_up(address: SocketAddr) {
    while TcpStream::connect(address).is_err() {
        std::thread::yield_now();
    }
}
