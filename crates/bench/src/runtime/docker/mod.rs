//! Containers of a Docker Engine, through its API.

mod contained;
mod course;
mod image;
mod lead;
mod ports;

use super::{Ear, Order, Runtime, Workload, limited_disks};
use crate::Error;
use crate::clean::Cleaned;
use crate::experiment::{Container, Mistake, Registry};
use crate::identity::{Driver, Whose};
use bollard::Docker;
use bollard::auth::DockerCredentials;
use bollard::models::{ContainerCreateBody, HostConfig, PortBinding, ThrottleDevice};
use bollard::query_parameters::{
    CreateContainerOptions, CreateImageOptions, ListContainersOptions, RemoveContainerOptions,
};
use contained::Contained;
use course::{Course, Teller};
use crosstalk_host::HostRoot;
use futures_util::StreamExt;
use lead::Leads;
use ports::{is_taken, taken};
use std::collections::HashMap;
use std::env;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime as Tokio};

/// Says whose a container is.
const DRIVER: &str = "crosstalk.bench.driver";
const RUN: &str = "crosstalk.bench.run";
/// An engine that does not answer is gone.
const PATIENCE_SECONDS: u64 = 120;
/// What takes an engine milliseconds is not waited for longer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const REMOVE_WITHIN: Duration = Duration::from_secs(30);
/// A signal is noticed within this.
const LOOK: Duration = Duration::from_millis(20);
/// What an engine says of a program it cannot find.
const NONE: &str = "N/A";

/// Runs images in containers of an engine.
pub struct DockerEngine {
    docker: Docker,
    tokio: Arc<Tokio>,
    host: HostRoot,
    registry: Option<Registry>,
    leads: Leads,
    /// Whether it can put a first process into containers that passes signals on.
    init: OnceLock<bool>,
    /// Whether it did not answer when it was last asked for something quick.
    hangs: Arc<AtomicBool>,
    /// Whether it is on this machine.
    is_here: bool,
}

impl DockerEngine {
    /// The engine at this socket; without one, where `DOCKER_HOST` says, else where it usually is.
    ///
    /// # Errors
    /// There is none.
    pub fn connect(
        host: &HostRoot,
        socket: Option<&Path>,
        registry: Option<Registry>,
    ) -> Result<Self, Error> {
        let docker = match socket {
            Some(path) => Docker::connect_with_unix(
                &path.display().to_string(),
                PATIENCE_SECONDS,
                bollard::API_DEFAULT_VERSION,
            ),
            None => Docker::connect_with_defaults(),
        };
        let tokio = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let tokio = tokio.map_err(Error::file("tokio"))?;
        let docker = docker.map_err(|error| engine_error("docker", &error))?;
        let (tokio, leads) = (Arc::new(tokio), Leads::default());
        let (init, hangs) = (OnceLock::new(), Arc::default());
        let address = env::var("DOCKER_HOST").unwrap_or_default();
        let is_here = socket.is_some() || address.is_empty() || address.starts_with("unix:");
        Ok(Self { docker, tokio, host: host.clone(), registry, leads, init, hangs, is_here })
    }

    /// Whether containers can have an init of the engine's. Who is first in a container and does not care for SIGTERM
    /// never gets it; behind an init it ends at once.
    fn has_init(&self) -> bool {
        *self.init.get_or_init(|| {
            let about = self.tokio.block_on(self.docker.info()).ok();
            let commit = about.and_then(|about| about.init_commit?.id);
            commit.is_some_and(|id| id != NONE)
        })
    }

    /// What an engine answers that is asked for something quick.
    fn soon<T>(
        &self,
        stop: &AtomicBool,
        asked: impl Future<Output = Result<T, bollard::errors::Error>>,
    ) -> Result<T, Error> {
        let failed = |reason: &str| Error::Container {
            container: "docker".to_owned(),
            reason: reason.to_owned(),
        };
        self.tokio.block_on(async {
            tokio::select! {
                answer = tokio::time::timeout(ANSWER_WITHIN, asked) => {
                    self.hangs.store(answer.is_err(), Ordering::Relaxed);
                    let hangs = "its engine does not answer; what earlier runs left there stays until \
                                 crosstalk bench clean is asked again";
                    let answer = answer.map_err(|_| failed(hangs))?;
                    answer.map_err(|error| engine_error("docker", &error))
                }
                () = set(stop) => Err(failed("its engine was not waited for, since a signal came")),
            }
        })
    }

    async fn pull(&self, container: &str, image: &str) -> Result<(), Error> {
        if self.docker.inspect_image(image).await.is_ok() {
            return Ok(());
        }
        let options = CreateImageOptions {
            from_image: Some(image::tagged(image)),
            ..CreateImageOptions::default()
        };
        let mut pull = self.docker.create_image(Some(options), None, self.credentials(image));
        while let Some(step) = pull.next().await {
            step.map_err(|error| engine_error(container, &error))?;
        }
        Ok(())
    }

    /// What proves who asks for an image, to its own registry and no other.
    fn credentials(&self, image: &str) -> Option<DockerCredentials> {
        let is_its =
            |registry: &&Registry| image::is_at(&registry.address, image::registry_of(image));
        let registry = self.registry.as_ref().filter(is_its)?;
        Some(DockerCredentials {
            username: Some(registry.user.clone()),
            password: Some(registry.password.reveal().to_owned()),
            serveraddress: Some(registry.address.clone()),
            ..DockerCredentials::default()
        })
    }
}

/// Waits until a signal came.
async fn set(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(LOOK).await;
    }
}

fn engine_error(container: &str, error: &bollard::errors::Error) -> Error {
    Error::Container { container: container.to_owned(), reason: error.to_string() }
}

/// What the engine is asked to make.
fn body(order: &Order<'_>, host: &HostRoot) -> Result<ContainerCreateBody, Error> {
    let container = order.container;
    let disks = limited_disks(host, container)?;
    let io = container.io.as_ref().map(|io| io.limits).unwrap_or_default();
    let throttle = |rate: Option<u64>| {
        let rate = i64::try_from(rate?).unwrap_or(i64::MAX);
        let device = |disk: &crosstalk_host::Disk| ThrottleDevice {
            path: Some(format!("/dev/{}", disk.name)),
            rate: Some(rate),
        };
        Some(disks.iter().map(device).collect())
    };
    let inside = |port: u16| format!("{port}/tcp");
    // Two ports of the host may lead to the same of the container.
    let mut bindings: HashMap<String, Option<Vec<PortBinding>>> = HashMap::new();
    for port in &container.ports {
        let binding = PortBinding { host_ip: None, host_port: Some(port.host.to_string()) };
        let bound = bindings.entry(inside(port.container)).or_default();
        bound.get_or_insert_default().push(binding);
    }
    let binds = container.volumes.iter().map(|volume| {
        let mode = if volume.read_only { "ro" } else { "rw" };
        format!("{}:{}:{mode}", volume.host, volume.container)
    });
    let labels = [(DRIVER, order.driver.to_string()), (RUN, order.run.to_owned())];
    Ok(ContainerCreateBody {
        image: container.image.clone(),
        cmd: (!container.command.is_empty()).then(|| container.command.clone()),
        env: Some(container.env.iter().map(|(key, value)| format!("{key}={value}")).collect()),
        labels: Some(labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        exposed_ports: Some(container.ports.iter().map(|port| inside(port.container)).collect()),
        host_config: Some(HostConfig {
            cpuset_cpus: container.cpus.as_ref().map(ToString::to_string),
            nano_cpus: container.cpu_limit.map(|cores| (cores * 1e9) as i64),
            memory: container.memory_limit.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX)),
            binds: Some(binds.collect()),
            port_bindings: Some(bindings),
            blkio_device_read_bps: throttle(io.read_bytes),
            blkio_device_write_bps: throttle(io.written_bytes),
            blkio_device_read_iops: throttle(io.reads),
            blkio_device_write_iops: throttle(io.writes),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    })
}

impl Runtime for DockerEngine {
    fn name(&self) -> &'static str {
        "docker"
    }

    fn hindrances(&self, container: &Container) -> Vec<Mistake> {
        // Ports of an engine on another machine are not ours to know.
        let ports = container.ports.iter().filter(|port| self.is_here && is_taken(port.host));
        ports.map(|port| taken(container, port)).collect()
    }

    fn fetch(&self, container: &Container, stop: &AtomicBool) -> Result<(), Error> {
        let Some(image) = &container.image else { return Ok(()) };
        self.tokio.block_on(async {
            tokio::select! {
                pulled = self.pull(&container.name, image) => pulled,
                // Whoever asked sees by itself that it is to end; the engine gives up when nobody listens.
                () = set(stop) => Ok(()),
            }
        })
    }

    fn prepare(&self, order: &Order<'_>) -> Result<Box<dyn Workload>, Error> {
        let name = order.name();
        let mut body = body(order, &self.host)?;
        if let Some(host) = &mut body.host_config {
            // An engine may be set to give everybody one.
            host.init = match order.container.init {
                true => self.has_init().then_some(true),
                false => Some(false),
            };
        }
        let lead = self.tokio.block_on(self.leads.of(&self.docker, &name, &body));
        let options = CreateContainerOptions {
            name: Some(name.clone()),
            ..CreateContainerOptions::default()
        };
        let made = self
            .tokio
            .block_on(self.docker.create_container(Some(options), body))
            .map_err(|error| engine_error(&order.container.name, &error))?;
        let (index, round) = (order.container.index, order.round);
        let teller = Teller { news: order.news.clone(), index, round };
        let (first, short) = (Arc::default(), made.id.chars().take(12).collect());
        let course = Course {
            docker: self.docker.clone(),
            host: self.host.clone(),
            name: name.clone(),
            id: made.id,
            leads: self.leads.clone(),
            image: order.container.image.clone().unwrap_or_default(),
            network: order.container.network,
            ear: Ear::new(&order.output),
            teller: teller.clone(),
            first: Arc::clone(&first),
        };
        Ok(Box::new(Contained {
            docker: self.docker.clone(),
            tokio: Arc::clone(&self.tokio),
            name,
            id: short,
            lead,
            course: Some(course),
            teller,
            first,
            hangs: Arc::clone(&self.hangs),
            is_removed: false,
        }))
    }

    fn version(&self) -> Option<String> {
        let version = self.tokio.block_on(self.docker.version()).ok()?;
        Some(format!("docker {}", version.version?))
    }

    fn clean(&self, whose: Whose, stop: &AtomicBool) -> Cleaned {
        let filters = HashMap::from([("label".to_owned(), vec![DRIVER.to_owned()])]);
        let options = ListContainersOptions {
            all: true,
            filters: Some(filters),
            ..ListContainersOptions::default()
        };
        let found = match self.soon(stop, self.docker.list_containers(Some(options))) {
            Ok(found) => found,
            Err(error) => return Cleaned::failure(error),
        };
        let mut cleaned = Cleaned::default();
        for one in found {
            let driver = one.labels.as_ref().and_then(|labels| labels.get(DRIVER));
            let driver = driver.and_then(|text| text.parse::<Driver>().ok());
            let (Some(id), Some(driver)) = (one.id, driver) else { continue };
            let name = one.names.and_then(|names| names.into_iter().next());
            let name = name.unwrap_or_else(|| id.clone());
            let name = format!("container {}", name.trim_start_matches('/'));
            if cleaned.takes(driver, whose, &self.host, || name.clone()) {
                cleaned.note(name, self.soon(stop, remove(&self.docker, &id)));
            }
            if self.hangs.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed) {
                break;
            }
        }
        cleaned
    }
}

async fn remove(docker: &Docker, name: &str) -> Result<(), bollard::errors::Error> {
    let options = RemoveContainerOptions { force: true, v: true, link: false };
    match docker.remove_container(name, Some(options)).await {
        // It is gone, which is what is wanted.
        Err(bollard::errors::Error::DockerResponseServerError { status_code: 404, .. }) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, Surroundings, Variables};
    use crate::runtime::Output;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    #[test]
    fn an_engine_that_hangs_does_not_hold_up_a_run_and_a_signal_is_heard_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("docker.sock");
        // Whoever connects waits: nobody takes the connection.
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let clean = |stop: Arc<AtomicBool>| {
            let engine = DockerEngine::connect(&HostRoot::default(), Some(&socket), None).unwrap();
            let began = Instant::now();
            let cleaned = engine.clean(Whose::Gone, &stop);
            (cleaned.failed[0].to_string(), began.elapsed())
        };
        let stop = Arc::new(AtomicBool::new(false));
        let signal = Arc::clone(&stop);
        let signalling = std::thread::spawn(move || {
            #[allow(clippy::disallowed_methods)] // any moment in the middle will do
            std::thread::sleep(Duration::from_millis(300));
            signal.store(true, Ordering::Relaxed);
        });
        let (why, took) = clean(stop);
        assert!(why.contains("a signal came") && took < Duration::from_secs(5), "{why}: {took:?}");
        signalling.join().unwrap();
        let (why, took) = clean(Arc::default());
        assert!(
            why.contains("does not answer") && took < Duration::from_secs(20),
            "{why}: {took:?}"
        );
    }

    #[test]
    fn limits_of_the_file_are_what_the_engine_is_asked_for() {
        let text = "benchmark: {name: x}
a: {index: 0, image: i, io: {read: 1MiB, write_ops: 7}, cpus: 1.5, memory: 64MiB, core: 0, \
    port: [\"81:80\", \"82:80\"]}
";
        let around = Surroundings { cpus: [0].into_iter().collect(), path: Vec::new() };
        let read = Experiment::parse("e.yaml", text, &Variables::default(), &around).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("sys/block/sdx");
        std::fs::create_dir_all(&disk).unwrap();
        std::fs::write(disk.join("dev"), "8:0\n").unwrap();
        std::fs::write(disk.join("size"), "9\n").unwrap();
        let host = HostRoot::new(folder.path());
        let (news, _) = channel();
        let output = Arc::new(Output::new(&folder.path().join("log"), None).unwrap());
        let driver = Driver::own(&HostRoot::default());
        let container = &read.containers[0];
        let order = Order { container, driver, run: "r", round: 0, output, news };
        let asked = body(&order, &host).unwrap().host_config.unwrap();
        let rate = |devices: Option<Vec<ThrottleDevice>>| {
            let device = devices?.pop()?;
            Some((device.path?, device.rate?))
        };
        assert_eq!(rate(asked.blkio_device_read_bps), Some(("/dev/sdx".to_owned(), 1 << 20)));
        assert_eq!(rate(asked.blkio_device_write_iops), Some(("/dev/sdx".to_owned(), 7)));
        assert_eq!(rate(asked.blkio_device_write_bps), None);
        assert_eq!((asked.nano_cpus, asked.memory), (Some(1_500_000_000), Some(64 << 20)));
        let bound = asked.port_bindings.unwrap().remove("80/tcp").flatten().unwrap();
        let ports: Vec<String> = bound.into_iter().filter_map(|one| one.host_port).collect();
        assert_eq!(ports, ["81", "82"], "both lead to the same");
        let mut elsewhere = container.clone();
        elsewhere.io.as_mut().unwrap().disk = Some("sdy".to_owned());
        let order = Order { container: &elsewhere, ..order };
        let error = body(&order, &host).unwrap_err().to_string();
        assert!(error.contains("there is no disk sdy; this machine has [sdx]"), "{error}");
    }
}
