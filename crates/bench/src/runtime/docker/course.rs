//! What becomes of a container from being asked to start to its end, told as it happens.

use super::lead::{Leads, ended_at, started_at};
use crate::experiment::NetworkLimits;
use crate::runtime::{Ear, Happened, News, network};
use bollard::Docker;
use bollard::container::LogOutput;
use bollard::errors::Error as EngineError;
use bollard::models::ContainerState;
use bollard::query_parameters::{
    InspectContainerOptions, LogsOptions, StartContainerOptions, WaitContainerOptions,
};
use crosstalk_host::{CgroupHierarchy, ControlGroup, HostRoot};
use futures_util::StreamExt;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a container printed last may come after the word that it has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The first process of a container that runs.
#[derive(Clone, Debug)]
pub(super) struct First {
    pub(super) pid: u32,
    /// The container's cgroup, if it is on this host.
    pub(super) group: Option<ControlGroup>,
}

/// Tells what happens to a container; nobody may be listening any more.
#[derive(Clone)]
pub(super) struct Teller {
    pub(super) news: Sender<News>,
    pub(super) index: u32,
    pub(super) round: u32,
}

impl Teller {
    pub(super) fn tell(&self, what: Happened, at: Instant) {
        let _ = self.news.send(News { index: self.index, round: self.round, what, at });
    }
}

pub(super) struct Course {
    pub(super) docker: Docker,
    pub(super) host: HostRoot,
    pub(super) name: String,
    /// The engine's own name for it, whole.
    pub(super) id: String,
    pub(super) leads: Leads,
    pub(super) image: String,
    pub(super) network: Option<NetworkLimits>,
    pub(super) ear: Ear,
    pub(super) teller: Teller,
    pub(super) first: Arc<Mutex<Option<First>>>,
}

impl Course {
    pub(super) async fn run(self) {
        let asked = Instant::now();
        let started = self.docker.start_container(&self.name, None::<StartContainerOptions>).await;
        if let Err(error) = started {
            self.ear.keep(format!("crosstalk: {error}\n").as_bytes());
            let reason = format!("its engine cannot start it: {error}");
            return self.teller.tell(Happened::Failed { reason }, Instant::now());
        }
        let state = inspect(&self.docker, &self.name).await;
        let at = started_at(state.as_ref(), asked);
        self.leads.learn(&self.image, at.saturating_duration_since(asked));
        let pid = state.and_then(|state| u32::try_from(state.pid?).ok()).filter(|pid| *pid > 0);
        let first = pid.map(|pid| First { pid, group: own_group(&self.host, pid, &self.id) });
        *self.first.lock().unwrap_or_else(PoisonError::into_inner) = first;
        self.teller.tell(Happened::Started, at);
        if let (Some(limits), Some(pid)) = (self.network, pid) {
            self.limit_network(pid, limits).await;
        }
        let Self { docker, name, ear, teller, .. } = self;
        let hears = tokio::spawn(hear(docker.clone(), name.clone(), ear));
        let what = end(&docker, &name).await;
        let heard = Instant::now();
        let _ = tokio::time::timeout(LAST_WORDS, hears).await;
        let state = match what {
            // An engine that hangs by now is not waited for.
            Happened::Ended { .. } => {
                tokio::time::timeout(LAST_WORDS, inspect(&docker, &name)).await.ok().flatten()
            }
            _ => None,
        };
        teller.tell(what, ended_at(state.as_ref(), at, heard));
    }

    async fn limit_network(&self, pid: u32, limits: NetworkLimits) {
        let limited = tokio::task::spawn_blocking(move || network::limit(pid, &limits));
        let limited = limited.await.unwrap_or_else(|error| Err(error.to_string()));
        let Err(reason) = limited else { return };
        // One that is over already has no network left to limit.
        let state = inspect(&self.docker, &self.name).await;
        if state.and_then(|state| state.running).unwrap_or(false) {
            let reason = format!("its network cannot be limited: {reason}");
            self.teller.tell(Happened::Failed { reason }, Instant::now());
        }
    }
}

/// How the engine says that it stands.
async fn inspect(docker: &Docker, name: &str) -> Option<ContainerState> {
    docker.inspect_container(name, None::<InspectContainerOptions>).await.ok()?.state
}

/// The cgroup of a container: of an engine on another host, a process of that number here is somebody else.
fn own_group(host: &HostRoot, pid: u32, id: &str) -> Option<ControlGroup> {
    let place = CgroupHierarchy::find(host)?.of_process(host, pid)?;
    place.contains(id).then(|| ControlGroup::of_process(host, pid)).flatten()
}

/// Keeps all that it prints, and hears what is on its standard output, as of a process.
async fn hear(docker: Docker, name: String, mut ear: Ear) {
    let all = LogsOptions { follow: true, stdout: true, stderr: true, ..LogsOptions::default() };
    let mut logs = docker.logs(&name, Some(all));
    while let Some(Ok(piece)) = logs.next().await {
        match piece {
            LogOutput::StdErr { message } => ear.keep(&message),
            other => ear.hear(&other.into_bytes()),
        }
    }
}

/// Waits for its end. That nothing more is heard of it is none.
async fn end(docker: &Docker, name: &str) -> Happened {
    let code = match docker.wait_container(name, None::<WaitContainerOptions>).next().await {
        Some(Ok(answer)) => answer.status_code,
        // The engine tells an exit code other than 0 as an error.
        Some(Err(EngineError::DockerContainerWaitError { code, .. })) => code,
        Some(Err(error)) => {
            return Happened::Failed { reason: format!("its engine was lost: {error}") };
        }
        None => return Happened::Failed { reason: "its engine was lost".to_owned() },
    };
    Happened::Ended { code: i32::try_from(code).ok() }
}
