//! Containers of a Docker Engine, through its API.

use super::{Ear, Ended, Order, Runtime, Workload};
use crate::Error;
use crate::experiment::{Container, Registry};
use crate::identity::{Driver, PREFIX};
use bollard::Docker;
use bollard::auth::DockerCredentials;
use bollard::models::{ContainerCreateBody, HostConfig, PortBinding};
use bollard::query_parameters::{
    CreateContainerOptions, CreateImageOptions, InspectContainerOptions, KillContainerOptions,
    ListContainersOptions, LogsOptions, RemoveContainerOptions, StartContainerOptions,
    WaitContainerOptions,
};
use crosstalk_host::{ControlGroup, HostRoot};
use futures_util::StreamExt;
use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime as Tokio};

/// Says whose a container is.
const DRIVER: &str = "crosstalk.bench.driver";
const RUN: &str = "crosstalk.bench.run";
/// An engine that does not answer is gone.
const PATIENCE_SECONDS: u64 = 120;
const REMOVE_WITHIN: Duration = Duration::from_secs(30);

/// Runs images in containers of an engine.
pub struct DockerEngine {
    docker: Docker,
    tokio: Arc<Tokio>,
    host: HostRoot,
    registry: Option<Registry>,
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
        Ok(Self { docker, tokio: Arc::new(tokio), host: host.clone(), registry })
    }

    fn credentials(&self) -> Option<DockerCredentials> {
        let registry = self.registry.as_ref()?;
        Some(DockerCredentials {
            username: Some(registry.user.clone()),
            password: Some(registry.password.reveal().to_owned()),
            serveraddress: Some(registry.address.clone()),
            ..DockerCredentials::default()
        })
    }
}

fn engine_error(container: &str, error: &bollard::errors::Error) -> Error {
    Error::Container { container: container.to_owned(), reason: error.to_string() }
}

/// What the engine is asked to make.
fn body(order: &Order<'_>) -> ContainerCreateBody {
    let container = order.container;
    let inside = |port: u16| format!("{port}/tcp");
    let bindings = container.ports.iter().map(|(host, port)| {
        let binding = PortBinding { host_ip: None, host_port: Some(host.to_string()) };
        (inside(*port), Some(vec![binding]))
    });
    let binds = container.volumes.iter().map(|volume| {
        let mode = if volume.read_only { "ro" } else { "rw" };
        format!("{}:{}:{mode}", volume.host, volume.container)
    });
    let labels = [(DRIVER, order.driver.to_string()), (RUN, order.run.to_owned())];
    ContainerCreateBody {
        image: container.image.clone(),
        cmd: (!container.command.is_empty()).then(|| container.command.clone()),
        env: Some(container.env.iter().map(|(key, value)| format!("{key}={value}")).collect()),
        labels: Some(labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        exposed_ports: Some(container.ports.iter().map(|(_, port)| inside(*port)).collect()),
        host_config: Some(HostConfig {
            cpuset_cpus: container.cpus.as_ref().map(ToString::to_string),
            nano_cpus: container.cpu_limit.map(|cores| (cores * 1e9) as i64),
            memory: container.memory_limit.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX)),
            binds: Some(binds.collect()),
            port_bindings: Some(bindings.collect()),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}

impl Runtime for DockerEngine {
    fn name(&self) -> &'static str {
        "docker"
    }

    fn fetch(&self, container: &Container) -> Result<(), Error> {
        let Some(image) = &container.image else { return Ok(()) };
        self.tokio.block_on(async {
            if self.docker.inspect_image(image).await.is_ok() {
                return Ok(());
            }
            let options = CreateImageOptions {
                from_image: Some(image.clone()),
                ..CreateImageOptions::default()
            };
            let mut pull = self.docker.create_image(Some(options), None, self.credentials());
            while let Some(step) = pull.next().await {
                step.map_err(|error| engine_error(&container.name, &error))?;
            }
            Ok(())
        })
    }

    fn prepare(&self, order: &Order<'_>) -> Result<Box<dyn Workload>, Error> {
        let name = order.name();
        let options = CreateContainerOptions {
            name: Some(name.clone()),
            ..CreateContainerOptions::default()
        };
        self.tokio
            .block_on(self.docker.create_container(Some(options), body(order)))
            .map_err(|error| engine_error(&order.container.name, &error))?;
        Ok(Box::new(Contained {
            docker: self.docker.clone(),
            tokio: Arc::clone(&self.tokio),
            host: self.host.clone(),
            name,
            ear: Some(Ear::new(&order.output)),
            ended: order.ended.clone(),
            index: order.container.index,
            round: order.round,
            pid: Arc::default(),
            is_removed: false,
        }))
    }

    fn clean(&self) -> Result<Vec<String>, Error> {
        let filters = HashMap::from([("label".to_owned(), vec![DRIVER.to_owned()])]);
        let options = ListContainersOptions {
            all: true,
            filters: Some(filters),
            ..ListContainersOptions::default()
        };
        let failed = |error| engine_error("docker", &error);
        let found =
            self.tokio.block_on(self.docker.list_containers(Some(options))).map_err(failed)?;
        let mut removed = Vec::new();
        for one in found {
            let driver = one.labels.as_ref().and_then(|labels| labels.get(DRIVER));
            let driver = driver.and_then(|text| text.parse::<Driver>().ok());
            let (Some(id), Some(driver)) = (one.id, driver) else { continue };
            if !driver.lives(&self.host) {
                self.tokio.block_on(remove(&self.docker, &id)).map_err(failed)?;
                let name = one.names.and_then(|names| names.into_iter().next()).unwrap_or(id);
                removed.push(format!("container {}", name.trim_start_matches('/')));
            }
        }
        Ok(removed)
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

struct Contained {
    docker: Docker,
    tokio: Arc<Tokio>,
    host: HostRoot,
    name: String,
    ear: Option<Ear>,
    ended: Sender<Ended>,
    index: u32,
    round: u32,
    /// Its first process, once it runs.
    pid: Arc<Mutex<Option<u32>>>,
    is_removed: bool,
}

impl Contained {
    fn pid(&self) -> Option<u32> {
        *self.pid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, signal: &'static str) {
        let (docker, name) = (self.docker.clone(), self.name.clone());
        self.tokio.spawn(async move {
            let options = KillContainerOptions { signal: signal.to_owned() };
            // One that has ended meanwhile needs no signal.
            let _ = docker.kill_container(&name, Some(options)).await;
        });
    }
}

impl Workload for Contained {
    /// Only asks: the engine takes a while, and others are to start too.
    fn start(&mut self) -> Result<(), Error> {
        let Some(mut ear) = self.ear.take() else { return Ok(()) };
        let (docker, name) = (self.docker.clone(), self.name.clone());
        let (ended, pid) = (self.ended.clone(), Arc::clone(&self.pid));
        let (index, round) = (self.index, self.round);
        self.tokio.spawn(async move {
            let tell = |code: Option<i32>| {
                let _ = ended.send(Ended { index, round, code, at: Instant::now() });
            };
            if let Err(error) = docker.start_container(&name, None::<StartContainerOptions>).await {
                ear.hear(format!("crosstalk: {error}\n").as_bytes());
                return tell(None);
            }
            let inspected = docker.inspect_container(&name, None::<InspectContainerOptions>).await;
            let first = inspected.ok().and_then(|found| found.state?.pid);
            *pid.lock().unwrap_or_else(PoisonError::into_inner) =
                first.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0);
            let logs =
                LogsOptions { follow: true, stdout: true, stderr: true, ..LogsOptions::default() };
            let mut logs = docker.logs(&name, Some(logs));
            let follow = async {
                while let Some(Ok(piece)) = logs.next().await {
                    ear.hear(&piece.into_bytes());
                }
            };
            let mut over = docker.wait_container(&name, None::<WaitContainerOptions>);
            let wait = async {
                let code = match over.next().await {
                    Some(Ok(answer)) => i32::try_from(answer.status_code).ok(),
                    // The engine tells an exit code other than 0 as an error.
                    Some(Err(bollard::errors::Error::DockerContainerWaitError {
                        code, ..
                    })) => i32::try_from(code).ok(),
                    _ => None,
                };
                tell(code);
            };
            tokio::join!(follow, wait);
        });
        Ok(())
    }

    fn ask_to_stop(&mut self) {
        self.send("SIGTERM");
    }

    fn kill(&mut self) {
        self.send("SIGKILL");
    }

    fn group(&self) -> Option<ControlGroup> {
        ControlGroup::of_process(&self.host, self.pid()?)
    }

    fn network_of(&self) -> Option<u32> {
        self.pid()
    }

    fn remove(&mut self) -> Result<(), Error> {
        if self.is_removed {
            return Ok(());
        }
        let name = self.name.trim_start_matches(PREFIX);
        // A timer is made inside the runtime that keeps it.
        let gone = self.tokio.block_on(async {
            tokio::time::timeout(REMOVE_WITHIN, remove(&self.docker, &self.name)).await
        });
        match gone {
            Ok(removed) => removed.map_err(|error| engine_error(name, &error))?,
            Err(_) => {
                let reason = "the engine did not remove it in time".to_owned();
                return Err(Error::Container { container: name.to_owned(), reason });
            }
        }
        self.is_removed = true;
        Ok(())
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        // Whoever could say why has called `remove` before.
        let _ = self.remove();
    }
}
