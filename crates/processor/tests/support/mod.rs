//! What the tests share: a processor in this process or in its own, a store that writes down what it gets, and a
//! plain HTTP client.
#![allow(dead_code, clippy::unwrap_used, unreachable_pub)]

pub mod cluster;
pub mod http;
pub mod process;
pub mod sink;
pub mod write;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crosstalk_processor::{Config, Processor};

/// A processor in this process, stopped when dropped.
pub struct Service {
    pub address: SocketAddr,
    pub folder: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    processor: Option<Processor>,
}

impl Service {
    /// Starts a processor on a free port with its data in a folder of its own, and waits until it is ready.
    pub fn start(change: impl FnOnce(&mut Config)) -> Service {
        let service = Service::launch(change);
        service.wait_until_ready();
        service
    }

    /// As [`Service::start`], without the waiting.
    pub fn launch(change: impl FnOnce(&mut Config)) -> Service {
        Service::launch_in(tempfile::tempdir().unwrap(), change)
    }

    /// Stops it and starts another with the same data.
    pub fn restart(mut self, change: impl FnOnce(&mut Config)) -> Service {
        let processor = self.processor.take().unwrap();
        self.runtime.block_on(processor.stop());
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        Service::launch_in(folder, change)
    }

    fn launch_in(folder: tempfile::TempDir, change: impl FnOnce(&mut Config)) -> Service {
        let mut config = Config::default();
        config.listen.set_port(0);
        config.data_dir = folder.path().join("data");
        change(&mut config);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let processor = runtime.block_on(Processor::start(config)).unwrap();
        Service { address: processor.address(), folder, runtime, processor: Some(processor) }
    }

    pub fn wait_until_ready(&self) {
        eventually("the processor is ready", || {
            (http::get(self.address, "/readyz").status == 200).then_some(())
        });
    }

    pub fn metric(&self, line_start: &str) -> f64 {
        let text = http::get(self.address, "/metrics").text();
        let line = text.lines().find(|line| line.starts_with(line_start));
        line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(processor) = self.processor.take() {
            self.runtime.block_on(processor.stop());
        }
    }
}

/// Two pods of one name in two namespaces, and one that holds GPU 0 of node-a.
pub const PODS: &str = "
pods:
- {name: train-0, namespace: ml, uid: pod-ml, node: node-a, workloads: [{name: train, uid: w-ml, kind: PyTorchJob}], devices: [{type: gpu, device: 0}]}
- {name: train-0, namespace: other, uid: pod-other, node: node-b, workloads: [{name: train, uid: w-other, kind: Job}]}
";

/// Waits for something that will be true, however slow the machine; fails with `what` after a long time.
pub fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        pace(Duration::from_millis(50));
    }
}

/// Time between two looks at another process, which offers no event to wait on.
#[allow(clippy::disallowed_methods)]
pub fn pace(pause: Duration) {
    std::thread::sleep(pause);
}
