//! A small stand-in for the Kubernetes API: list in pages, watch with bookmarks, and every way it can fail.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

#[derive(Default)]
struct World {
    version: u64,
    pods: Vec<Value>,
    /// Events with their versions, for watches that begin in the past.
    log: Vec<(u64, String)>,
    watchers: Vec<Sender<Option<String>>>,
    /// Answers to the next requests in place of the real ones.
    refusals: VecDeque<u16>,
    /// Paths that are answered 503, with all below them.
    failing: Vec<String>,
    /// Other objects by path.
    objects: HashMap<String, Value>,
    token: String,
    requests: Vec<String>,
    agents: BTreeSet<String>,
}

#[derive(Clone)]
pub struct Cluster {
    pub address: SocketAddr,
    world: Arc<Mutex<World>>,
}

/// Pods of one page, whatever the client asks for.
const PAGE: usize = 2;

impl Cluster {
    pub fn start(token: &str) -> Cluster {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let world = World { version: 100, token: token.to_owned(), ..Default::default() };
        let cluster = Cluster { address, world: Arc::new(Mutex::new(world)) };
        let for_thread = cluster.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let cluster = for_thread.clone();
                std::thread::spawn(move || cluster.serve(stream));
            }
        });
        cluster.add_discovery();
        cluster
    }

    fn add_discovery(&self) {
        let list = |kinds: &[(&str, &str)]| {
            let resource = |(name, kind): &(&str, &str)| json!({"name": name, "kind": kind, "namespaced": true});
            json!({"resources": kinds.iter().map(resource).collect::<Vec<_>>()})
        };
        let status = ("deployments/status", "Deployment");
        self.set(
            "/apis/apps/v1",
            list(&[
                status,
                ("deployments", "Deployment"),
                ("replicasets", "ReplicaSet"),
                ("statefulsets", "StatefulSet"),
            ]),
        );
        self.set("/apis/batch/v1", list(&[("jobs", "Job"), ("cronjobs", "CronJob")]));
        self.set("/apis/kubeflow.org/v1", list(&[("pytorchjobs", "PyTorchJob")]));
        self.set("/apis/example.com/v1", list(&[("fancyjobs", "FancyJob")]));
    }

    /// An object other than a pod.
    pub fn set(&self, path: &str, object: Value) {
        self.world.lock().unwrap().objects.insert(path.to_owned(), object);
    }

    pub fn set_token(&self, token: &str) {
        self.world.lock().unwrap().token = token.to_owned();
    }

    pub fn add_pod(&self, pod: Value) {
        self.change("ADDED", pod);
    }

    pub fn delete_pod(&self, uid: &str) {
        let pod = {
            let world = self.world.lock().unwrap();
            world.pods.iter().find(|pod| pod["metadata"]["uid"] == uid).unwrap().clone()
        };
        self.change("DELETED", pod);
    }

    fn change(&self, kind: &str, mut pod: Value) {
        let mut world = self.world.lock().unwrap();
        world.version += 1;
        let version = world.version;
        pod["metadata"]["resourceVersion"] = json!(version.to_string());
        let uid = pod["metadata"]["uid"].clone();
        world.pods.retain(|known| known["metadata"]["uid"] != uid);
        if kind != "DELETED" {
            world.pods.push(pod.clone());
        }
        world.tell(Some(version), json!({"type": kind, "object": pod}).to_string());
    }

    /// Says how far the world is without a change.
    pub fn bookmark(&self) -> u64 {
        let mut world = self.world.lock().unwrap();
        world.version += 50;
        let version = world.version;
        let object = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"resourceVersion": version.to_string()},
        });
        world.tell(None, json!({"type": "BOOKMARK", "object": object}).to_string());
        version
    }

    /// Sends an event as it is to everyone who watches.
    pub fn tell(&self, event: Value) {
        self.world.lock().unwrap().tell(None, event.to_string());
    }

    /// Breaks every watch off.
    pub fn drop_streams(&self) {
        for watcher in self.world.lock().unwrap().watchers.drain(..) {
            let _ = watcher.send(None);
        }
    }

    pub fn refuse_next(&self, status: u16) {
        self.world.lock().unwrap().refusals.push_back(status);
    }

    /// Answers 503 for this path and all below it, until told otherwise.
    pub fn fail(&self, path: &str) {
        self.world.lock().unwrap().failing.push(path.to_owned());
    }

    pub fn repair(&self) {
        self.world.lock().unwrap().failing.clear();
    }

    pub fn requests(&self) -> Vec<String> {
        self.world.lock().unwrap().requests.clone()
    }

    /// Who asked.
    pub fn agents(&self) -> Vec<String> {
        self.world.lock().unwrap().agents.iter().cloned().collect()
    }

    pub fn watches(&self) -> usize {
        self.requests().iter().filter(|request| request.contains("watch=true")).count()
    }

    pub fn lists(&self) -> usize {
        let first_page =
            |request: &&String| request.contains("limit=") && !request.contains("continue=");
        self.requests().iter().filter(first_page).count()
    }

    fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut stream = stream;
        let (mut path, mut token) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if path.is_empty() {
                path = line.split(' ').nth(1)?.to_owned();
            }
            if let Some(value) = line.to_lowercase().strip_prefix("authorization: bearer ") {
                token = value.trim().to_owned();
            }
            if let Some(value) = line.to_lowercase().strip_prefix("user-agent: ") {
                self.world.lock().unwrap().agents.insert(value.trim().to_owned());
            }
            if line == "\r\n" {
                break;
            }
        }
        let answer = self.world.lock().unwrap().answer(&path, &token);
        match answer {
            Reply::Json(status, value) => {
                let body = value.to_string();
                write!(stream, "HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len()).ok()
            }
            Reply::Watch(first, more) => {
                write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
                )
                .ok()?;
                for event in first.into_iter().map(Some).chain(more) {
                    // Without the last chunk: for the client the stream breaks off.
                    let line = format!("{}\n", event?);
                    write!(stream, "{:x}\r\n{line}\r\n", line.len()).ok()?;
                }
                Some(())
            }
        }
    }
}

enum Reply {
    Json(u16, Value),
    Watch(Vec<String>, Receiver<Option<String>>),
}

fn parameter<'a>(path: &'a str, name: &str) -> Option<&'a str> {
    let query = path.split_once('?')?.1;
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

impl World {
    fn tell(&mut self, version: Option<u64>, event: String) {
        if let Some(version) = version {
            self.log.push((version, event.clone()));
        }
        self.watchers.retain(|watcher| watcher.send(Some(event.clone())).is_ok());
    }

    fn answer(&mut self, path: &str, token: &str) -> Reply {
        self.requests.push(path.to_owned());
        if token != self.token {
            return Reply::Json(
                401,
                json!({"kind": "Status", "code": 401, "message": "Unauthorized"}),
            );
        }
        if let Some(status) = self.refusals.pop_front() {
            return Reply::Json(
                status,
                json!({"kind": "Status", "code": status, "message": "as told"}),
            );
        }
        let plain = path.split('?').next().unwrap_or_default();
        if self.failing.iter().any(|failing| plain.starts_with(failing)) {
            let message = "the server is currently unable to handle the request";
            return Reply::Json(503, json!({"kind": "Status", "code": 503, "message": message}));
        }
        if plain != "/api/v1/pods" {
            return match self.objects.get(plain) {
                Some(object) => Reply::Json(200, object.clone()),
                None => {
                    Reply::Json(404, json!({"kind": "Status", "code": 404, "message": "not found"}))
                }
            };
        }
        if parameter(path, "watch").is_some() {
            let from: u64 = parameter(path, "resourceVersion").unwrap_or("0").parse().unwrap();
            let first = self.log.iter().filter(|(version, _)| *version > from);
            let first = first.map(|(_, event)| event.clone()).collect();
            let (sender, receiver) = channel();
            self.watchers.push(sender);
            return Reply::Watch(first, receiver);
        }
        let start: usize = parameter(path, "continue").unwrap_or("0").parse().unwrap();
        let page: Vec<&Value> = self.pods.iter().skip(start).take(PAGE).collect();
        let next =
            if start + PAGE < self.pods.len() { (start + PAGE).to_string() } else { String::new() };
        let metadata = json!({"resourceVersion": self.version.to_string(), "continue": next});
        Reply::Json(200, json!({"metadata": metadata, "items": page}))
    }
}

/// A pod with at most one owner: API version, kind, name; the owner's UID is its name with `-uid`.
pub fn pod(name: &str, owner: Option<(&str, &str, &str)>) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "ml", "uid": format!("{name}-uid"),
            "ownerReferences": references(owner),
        },
        "spec": {"nodeName": "node-a"},
        "status": {"phase": "Running"},
    })
}

/// An object with at most one owner.
pub fn object(name: &str, owner: Option<(&str, &str, &str)>) -> Value {
    json!({"metadata": {
        "name": name, "namespace": "ml", "uid": format!("{name}-uid"), "ownerReferences": references(owner),
    }})
}

fn references(owner: Option<(&str, &str, &str)>) -> Vec<Value> {
    let reference = |(version, kind, name): (&str, &str, &str)| json!({"apiVersion": version, "kind": kind, "name": name, "uid": format!("{name}-uid"), "controller": true});
    owner.map(reference).into_iter().collect()
}
