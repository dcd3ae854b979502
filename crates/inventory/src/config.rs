//! Which sources fill an inventory.

use crate::engine::{Containerd, Cri, Docker, Kubelet};
use crate::inventory::Inventory;
use crate::kubernetes::Kubernetes;
use crate::source::{Failure, follow};
use crate::static_file::StaticFile;
use crosstalk_host::HostRoot;
use futures_util::future::{BoxFuture, join_all};
use std::ffi::OsString;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::time::Duration;

/// Which sources fill an inventory, and how often they are asked. By default there are none.
#[derive(Debug, Clone)]
pub struct Config {
    /// How long a fact stays known after it is over.
    pub grace: Duration,
    /// How often a source is asked that has not told of a change before.
    pub refresh: Duration,
    /// A file with pods (see [`crate::read_static_file`]).
    pub static_file: Option<PathBuf>,
    /// The Kubernetes API.
    pub kubernetes: Option<Kubernetes>,
    /// The socket of a Docker Engine, or of Podman.
    pub docker: Option<PathBuf>,
    /// The socket of containerd.
    pub containerd: Option<PathBuf>,
    /// The socket of another runtime that serves CRI, such as CRI-O.
    pub cri: Option<PathBuf>,
    /// The kubelet's PodResources socket.
    pub kubelet: Option<PathBuf>,
    /// Where the host's `/proc` is, by which a container is found whose id its cgroup does not tell.
    pub host: HostRoot,
    /// Places that [`Config::detect`] looked at in vain, where it found no container engine at all.
    pub looked_at: Vec<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            grace: Duration::from_secs(300),
            refresh: Duration::from_secs(20),
            static_file: None,
            kubernetes: None,
            docker: None,
            containerd: None,
            cri: None,
            kubelet: None,
            host: HostRoot::new("/"),
            looked_at: Vec::new(),
        }
    }
}

const DOCKER: &[&str] = &["/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock"];
const CONTAINERD: &[&str] =
    &["/run/containerd/containerd.sock", "/run/k3s/containerd/containerd.sock"];
const CRI: &[&str] = &["/run/crio/crio.sock", "/var/run/crio/crio.sock"];
const KUBELET: &[&str] = &["/var/lib/kubelet/pod-resources/kubelet.sock"];

/// The path of a socket in a variable, plain or as a URL; an engine on another machine is none of ours.
fn socket_of(value: OsString) -> Option<PathBuf> {
    let text = value.into_string().ok()?;
    let path = text.strip_prefix("unix://").unwrap_or(&text);
    path.starts_with('/').then(|| path.into())
}

/// How late the news of a source may be on a busy machine.
const SLACK: Duration = Duration::from_secs(10);

/// How often a source of this node is asked that never tells of changes.
const POLL: Duration = Duration::from_secs(5);

/// How often the kubelet is asked who has which device: until that is told, metrics of a pod's devices find nobody.
const KUBELET_POLL: Duration = Duration::from_secs(1);

impl Config {
    /// The sources of this node: the sockets of container engines and kubelet that are there, below `host`. Where
    /// `DOCKER_HOST` or `CONTAINERD_ADDRESS` names another socket, as their own tools have it, that one is asked.
    ///
    /// ```
    /// let empty = tempfile::tempdir().unwrap();
    /// let host = crosstalk_host::HostRoot::new(empty.path());
    /// let inventory = crosstalk_inventory::Inventory::start(crosstalk_inventory::Config::detect(&host));
    /// let status = inventory.statuses().remove(0);
    /// assert!(status.error.unwrap().found.contains("docker.sock"), "nothing found is said");
    /// ```
    pub fn detect(host: &HostRoot) -> Self {
        let find = |places: &[&str]| {
            let mut found = places.iter().map(|place| host.path(place));
            found.find(|path| path.metadata().is_ok_and(|meta| meta.file_type().is_socket()))
        };
        let named = |variable: &str| socket_of(std::env::var_os(variable)?);
        let mut config = Config {
            docker: named("DOCKER_HOST").or_else(|| find(DOCKER)),
            containerd: named("CONTAINERD_ADDRESS").or_else(|| find(CONTAINERD)),
            cri: find(CRI),
            kubelet: find(KUBELET),
            host: host.clone(),
            ..Config::default()
        };
        if config.docker.is_none() && config.containerd.is_none() && config.cri.is_none() {
            let looked_at = [DOCKER, CONTAINERD, CRI].concat();
            config.looked_at = looked_at.into_iter().map(|place| host.path(place)).collect();
        }
        config
    }

    /// Where the kubelet of a host tells which devices it gave to whom, whether or not it runs just now.
    pub fn kubelet_of(host: &HostRoot) -> PathBuf {
        host.path(KUBELET[0])
    }

    /// Notes the sources in `inventory`, so that its statuses name them before they are heard.
    pub fn announce(&self, inventory: &Inventory) {
        for (name, used) in [
            ("static", self.static_file.is_some()),
            (crate::kubernetes::NAME, self.kubernetes.is_some()),
            ("docker", self.docker.is_some()),
            ("containerd", self.containerd.is_some()),
            ("cri", self.cri.is_some()),
            ("kubelet", self.kubelet.is_some()),
        ] {
            if used {
                inventory.announce(name);
            }
        }
        if let Some(kubernetes) = &self.kubernetes {
            // It is told what came of the watch every so often, and the watch ends when nothing did for too long.
            let silence = self.refresh + kubernetes.longest_silence() + SLACK;
            inventory.expect(crate::kubernetes::NAME, silence);
            let namespace = Some(&*kubernetes.namespace).filter(|name| !name.is_empty());
            inventory.follows(crate::kubernetes::NAME, namespace);
        }
        if !self.looked_at.is_empty() {
            let places: Vec<String> =
                self.looked_at.iter().map(|place| place.display().to_string()).collect();
            let found = format!("no container engine's socket at {}", places.join(", "));
            let fix = "containers have ids without names; name the socket if there is an engine";
            inventory.note("engine", Failure::away(found, fix));
        }
    }

    /// Runs the sources and never returns; they end when this is dropped. For an owner with a runtime of its own.
    pub async fn run(self, inventory: &Inventory) {
        self.announce(inventory);
        let refresh = self.refresh;
        let mut sources: Vec<BoxFuture<'_, ()>> = Vec::new();
        let host = &self.host;
        if let Some(path) = self.static_file {
            sources.push(Box::pin(follow(StaticFile::new(path), refresh, inventory)));
        }
        if let Some(socket) = self.docker {
            sources.push(Box::pin(follow(Docker::new(socket), refresh, inventory)));
        }
        if let Some(socket) = self.containerd {
            sources.push(Box::pin(follow(Containerd::new(socket, host), refresh, inventory)));
        }
        if let Some(socket) = self.cri {
            sources.push(Box::pin(follow(Cri::new(socket), POLL.min(refresh), inventory)));
        }
        if let Some(socket) = self.kubelet {
            sources.push(Box::pin(follow(
                Kubelet::new(socket),
                KUBELET_POLL.min(refresh),
                inventory,
            )));
        }
        if let Some(kubernetes) = self.kubernetes {
            sources.push(Box::pin(kubernetes.follow(refresh, inventory)));
        }
        join_all(sources).await;
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_named_plainly_or_as_a_url_and_another_machine_is_not_asked() {
        let path = |text: &str| socket_of(text.into());
        assert_eq!(path("unix:///run/x.sock"), Some("/run/x.sock".into()));
        assert_eq!(path("/run/x.sock"), Some("/run/x.sock".into()));
        assert_eq!(path("tcp://10.0.0.1:2375"), None);
        assert_eq!(path(""), None);
    }
}
