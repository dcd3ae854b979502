//! The Docker Engine's API, which Podman serves too: running containers, and a word when that changes.

use super::{MAX_BYTES, fix, pods_of, take_kubernetes_labels};
use crate::facts::{Container, Facts, Validity};
use crate::source::{Failure, Source};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::UnixStream;

/// What changes the list of running containers: `{"type":["container"],"event":["start","die","rename"]}`.
const EVENTS: &str = "/events?filters=%7B%22type%22%3A%5B%22container%22%5D%2C%22event%22%3A%5B%22start%22%2C%22die%22%2C%22rename%22%5D%7D";

/// The engine behind one socket.
#[derive(Debug)]
pub(crate) struct Docker {
    socket: PathBuf,
    events: Option<Incoming>,
    /// First processes by container id: a container is looked at closely once.
    pids: HashMap<Arc<str>, Option<u32>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    id: Arc<str>,
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    image: Arc<str>,
    /// Unix seconds.
    #[serde(default)]
    created: u64,
    #[serde(default)]
    labels: Option<HashMap<String, Arc<str>>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    state: State,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct State {
    #[serde(default)]
    pid: u32,
}

impl Docker {
    pub(crate) fn new(socket: PathBuf) -> Self {
        Docker { socket, events: None, pids: HashMap::new() }
    }

    async fn send(&self, path: &str) -> Result<Response<Incoming>, Failure> {
        let away = |error: &dyn std::error::Error| {
            Failure::away(format!("{}: {error}", self.socket.display()), fix(&self.socket))
        };
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| away(&error))?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| away(&error))?;
        // Ends with the answer's body.
        tokio::spawn(connection);
        let request = Request::get(path).header("host", "localhost").body(Empty::<Bytes>::new());
        let request = request.map_err(|error| away(&error))?;
        let response = sender.send_request(request).await.map_err(|error| away(&error))?;
        match response.status().is_success() {
            true => Ok(response),
            false => {
                let found = format!("{}: {path}: {}", self.socket.display(), response.status());
                Err(Failure::away(found, ""))
            }
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let body = self.send(path).await?.into_body();
        let found = |error: &dyn std::fmt::Display| {
            Failure::away(format!("{}: {path}: {error}", self.socket.display()), "")
        };
        let body = Limited::new(body, MAX_BYTES).collect().await.map_err(|error| found(&error))?;
        serde_json::from_slice(&body.to_bytes()).map_err(|error| found(&error))
    }

    /// One that is gone by now has no process.
    async fn pid(&self, id: &str) -> Option<u32> {
        let inspected: Inspected = self.get(&format!("/containers/{id}/json")).await.ok()?;
        Some(inspected.state.pid).filter(|pid| *pid > 0)
    }
}

impl Source for Docker {
    fn name(&self) -> &'static str {
        "docker"
    }

    async fn load(&mut self) -> Result<Facts, Failure> {
        if self.events.is_none() {
            // Before the list, so that nothing that happens in between is missed.
            self.events = Some(self.send(EVENTS).await?.into_body());
        }
        let listed: Vec<Listed> = self.get("/containers/json").await?;
        let mut pids = HashMap::new();
        let mut facts = Facts::default();
        for listed in listed {
            let pid = match self.pids.get(&listed.id) {
                Some(pid) => *pid,
                None => self.pid(&listed.id).await,
            };
            pids.insert(Arc::clone(&listed.id), pid);
            let container = listed.container(pid);
            facts.containers.push(container);
        }
        self.pids = pids;
        facts.pods = pods_of(&facts.containers);
        Ok(facts)
    }

    /// Any event will do: what it means is seen in the next list.
    async fn changed(&mut self) -> Result<(), Failure> {
        let Some(events) = &mut self.events else { return Ok(()) };
        if !matches!(events.frame().await, Some(Ok(_))) {
            self.events = None;
        }
        Ok(())
    }
}

impl Listed {
    fn container(self, pid: Option<u32>) -> Container {
        let name = self.names.first().map_or("", |name| name.trim_start_matches('/'));
        let valid_from_ns = self.created.saturating_mul(1_000_000_000);
        let mut container = Container {
            id: self.id,
            name: name.into(),
            image: self.image,
            pid,
            valid: Validity { valid_from_ns, valid_to_ns: None },
            ..Container::default()
        };
        take_kubernetes_labels(&mut container, &self.labels.unwrap_or_default());
        container
    }
}
