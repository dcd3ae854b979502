//! containerd: its pods through the Container Runtime Interface, and every container in every namespace, pods or not,
//! through its own API.

use super::grpc::{Socket, if_served};
use super::{cri, pods_of, take_kubernetes_labels};
use crate::facts::{Container, Facts, Validity};
use crate::source::{Failure, Source};
use crosstalk_host::{CgroupHierarchy, HostRoot};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::Status;

// Of `containerd.services`, what is read; fields keep their published numbers.

#[derive(Clone, PartialEq, prost::Message)]
struct Empty {}

#[derive(Clone, PartialEq, prost::Message)]
struct ListNamespacesResponse {
    #[prost(message, repeated, tag = "1")]
    namespaces: Vec<Namespace>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Namespace {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ListContainersResponse {
    #[prost(message, repeated, tag = "1")]
    containers: Vec<Listed>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Listed {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(map = "string, string", tag = "2")]
    labels: HashMap<String, String>,
    #[prost(string, tag = "3")]
    image: String,
    #[prost(message, optional, tag = "8")]
    created_at: Option<Timestamp>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Timestamp {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ListTasksResponse {
    #[prost(message, repeated, tag = "1")]
    tasks: Vec<Process>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Process {
    #[prost(string, tag = "1")]
    container_id: String,
    #[prost(string, tag = "2")]
    id: String,
    #[prost(uint32, tag = "3")]
    pid: u32,
    #[prost(int32, tag = "4")]
    status: i32,
}

/// `STOPPED`: ended, and not yet cleaned away.
const STOPPED: i32 = 3;

#[derive(Clone, PartialEq, prost::Message)]
struct SubscribeRequest {
    #[prost(string, repeated, tag = "1")]
    filters: Vec<String>,
}

/// Pause before a subscription that ended is asked for again.
const RESUBSCRIBE: Duration = Duration::from_secs(5);

/// containerd's daemon behind one socket.
#[derive(Debug)]
pub(crate) struct Containerd {
    socket: Socket,
    host: HostRoot,
    hierarchy: Option<CgroupHierarchy>,
    events: Option<Events>,
}

/// A word for every container that starts or ends. The server answers a subscription only with its first event, so a
/// task of its own waits for it, and ends when this is dropped.
#[derive(Debug)]
struct Events {
    _task: JoinSet<()>,
    heard: mpsc::Receiver<()>,
}

impl Containerd {
    pub(crate) fn new(socket: PathBuf, host: &HostRoot) -> Self {
        let hierarchy = CgroupHierarchy::find(host);
        Containerd { socket: Socket::new(socket), host: host.clone(), hierarchy, events: None }
    }

    async fn subscribe(&mut self) -> Result<Events, Status> {
        let filters = ["start", "exit"].map(|what| format!("topic==\"/tasks/{what}\"")).to_vec();
        let subscribe = "/containerd.services.events.v1.Events/Subscribe";
        let stream = self.socket.stream(subscribe, SubscribeRequest { filters }).await?;
        let (hear, heard) = mpsc::channel(1);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let Ok(mut events) = stream.await else { return };
            while let Ok(Some(Empty {})) = events.message().await {
                // One that was not taken yet says the same.
                let _ = hear.try_send(());
            }
        });
        Ok(Events { _task: task, heard })
    }

    async fn list(&mut self) -> Result<Option<Facts>, Status> {
        if self.events.is_none() {
            // Before the list, so that nothing that happens in between is missed.
            self.events = Some(self.subscribe().await?);
        }
        let namespaces = "/containerd.services.namespaces.v1.Namespaces/List";
        let answer = if_served(self.socket.call(namespaces, "", Empty {}).await)?;
        let Some(ListNamespacesResponse { namespaces }) = answer else { return Ok(None) };
        let mut facts = Facts::default();
        for Namespace { name } in namespaces {
            self.list_namespace(&name, &mut facts.containers).await?;
        }
        facts.pods = pods_of(&facts.containers);
        Ok(Some(facts))
    }

    async fn list_namespace(
        &mut self,
        name: &str,
        into: &mut Vec<Container>,
    ) -> Result<(), Status> {
        let tasks = "/containerd.services.tasks.v1.Tasks/List";
        let ListTasksResponse { tasks } = self.socket.call(tasks, name, Empty {}).await?;
        let living = tasks.iter().filter(|task| task.status != STOPPED);
        let task_id = |task: &Process| match task.container_id.as_str() {
            "" => task.id.clone(),
            id => id.to_owned(),
        };
        let pids: HashMap<String, u32> = living.map(|task| (task_id(task), task.pid)).collect();
        if pids.is_empty() {
            return Ok(());
        }
        let containers = "/containerd.services.containers.v1.Containers/List";
        let answer = self.socket.call(containers, name, Empty {}).await?;
        let ListContainersResponse { containers } = answer;
        for listed in containers {
            if let Some(pid) = pids.get(&listed.id).filter(|pid| **pid > 0) {
                into.push(self.container(listed, *pid));
            }
        }
        Ok(())
    }

    fn container(&self, listed: Listed, pid: u32) -> Container {
        let labels: HashMap<String, Arc<str>> =
            listed.labels.into_iter().map(|(name, value)| (name, value.into())).collect();
        // People choose such ids; engines choose 64 digits, which stand in the cgroup's path.
        let chosen = !(listed.id.len() == 64 && listed.id.bytes().all(|b| b.is_ascii_hexdigit()));
        let id: Arc<str> = listed.id.into();
        let hierarchy = self.hierarchy.as_ref().filter(|_| chosen);
        let cgroup = hierarchy.and_then(|h| h.of_process(&self.host, pid));
        let created = listed.created_at.unwrap_or_default();
        let created = created.seconds.saturating_mul(1_000_000_000) + i64::from(created.nanos);
        let name = labels.get("nerdctl/name").cloned();
        let mut container = Container {
            name: name.or_else(|| chosen.then(|| Arc::clone(&id))).unwrap_or_default(),
            id,
            image: listed.image.into(),
            pid: Some(pid),
            // The root is everyone's.
            cgroup: cgroup.filter(|path| path != "/").map(Into::into),
            valid: Validity {
                valid_from_ns: u64::try_from(created).unwrap_or(0),
                valid_to_ns: None,
            },
            ..Container::default()
        };
        take_kubernetes_labels(&mut container, &labels);
        container
    }
}

impl Source for Containerd {
    fn name(&self) -> &'static str {
        "containerd"
    }

    async fn load(&mut self) -> Result<Facts, Failure> {
        let own = match self.list().await {
            Ok(own) => own,
            Err(status) => {
                self.events = None;
                return Err(self.socket.failure(&status));
            }
        };
        let pods = cri::list(&mut self.socket).await;
        let pods = pods.map_err(|status| self.socket.failure(&status))?;
        if own.is_none() && pods.is_none() {
            let found =
                format!("{} serves neither containerd nor CRI v1", self.socket.path().display());
            return Err(Failure::away(found, "name the socket of containerd"));
        }
        // Its own API comes first: it knows how an image was called.
        Ok(crate::merge::merge(own.iter().chain(pods.iter())))
    }

    async fn changed(&mut self) -> Result<(), Failure> {
        let Some(events) = &mut self.events else { return std::future::pending().await };
        if events.heard.recv().await.is_none() {
            // Not served, or ended: the next look subscribes anew.
            self.events = None;
            tokio::time::sleep(RESUBSCRIBE).await;
        }
        Ok(())
    }
}
