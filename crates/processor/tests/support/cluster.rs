//! A small stand-in for the Kubernetes API: list in pages, watch with bookmarks, make, patch and delete objects, replace a
//! status, and every way it can fail.
#![allow(dead_code, unreachable_pub)] // each test uses its own part

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// Objects that can be listed and watched.
#[derive(Default)]
struct Collection {
    items: Vec<Value>,
    /// Events with their versions, for watches that begin in the past.
    log: Vec<(u64, Value)>,
    /// With the only name each wants to hear of.
    watchers: Vec<(Option<String>, Sender<Option<String>>)>,
}

#[derive(Default)]
struct World {
    version: u64,
    /// By path.
    collections: HashMap<String, Collection>,
    /// Answers to the next requests in place of the real ones.
    refusals: VecDeque<u16>,
    /// Paths that are answered 503, with all below them.
    failing: Vec<String>,
    /// Paths that are answered 403, with all below them.
    forbidden: Vec<String>,
    /// Paths that are not answered, with all below them.
    hanging: Vec<String>,
    /// How long every answer takes.
    latency: std::time::Duration,
    /// Requests in work now, and the most there were.
    in_work: (usize, usize),
    /// Other objects by path.
    objects: HashMap<String, Value>,
    token: String,
    /// Requests that said nothing of who sent them.
    anonymous: usize,
    requests: Vec<String>,
    agents: BTreeSet<String>,
}

#[derive(Clone)]
pub struct Cluster {
    pub address: SocketAddr,
    world: Arc<Mutex<World>>,
}

/// Objects of one page at most while there are few, so that few come in pages too.
const PAGE: usize = 2;

/// Objects of one page where there are many.
const LARGE_PAGE: usize = 500;

const PODS: &str = "/api/v1/pods";

/// What was before is not known any more.
const FIRST_VERSION: u64 = 100;

impl Cluster {
    pub fn start(token: &str) -> Cluster {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let world = World { version: FIRST_VERSION, token: token.to_owned(), ..Default::default() };
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
        self.change(PODS, "ADDED", pod);
    }

    /// Adds many at once before anybody looks.
    pub fn add_pods(&self, pods: impl IntoIterator<Item = Value>) {
        let mut world = self.world.lock().unwrap();
        world.collections.entry(PODS.to_owned()).or_default().items.extend(pods);
    }

    pub fn delete_pod(&self, uid: &str) {
        let pod = {
            let world = self.world.lock().unwrap();
            let mut pods = world.collections[PODS].items.iter();
            pods.find(|pod| pod["metadata"]["uid"] == uid).unwrap().clone()
        };
        self.change(PODS, "DELETED", pod);
    }

    /// Puts an object into the collection of this path, in place of the one of its UID.
    pub fn change(&self, path: &str, kind: &str, object: Value) {
        self.world.lock().unwrap().change(path, kind, object);
    }

    /// Says how far the world is without a change.
    pub fn bookmark(&self) -> u64 {
        let mut world = self.world.lock().unwrap();
        world.version += 50;
        let version = world.version;
        let object = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"resourceVersion": version.to_string()},
        });
        world.tell(PODS, None, json!({"type": "BOOKMARK", "object": object}));
        version
    }

    /// Sends an event as it is to everyone who watches pods.
    pub fn tell(&self, event: Value) {
        self.world.lock().unwrap().tell(PODS, None, event);
    }

    /// Breaks every watch off.
    pub fn drop_streams(&self) {
        let mut world = self.world.lock().unwrap();
        let watchers = world.collections.values_mut().flat_map(|all| all.watchers.drain(..));
        for (_, watcher) in watchers {
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

    /// Gives no answer for this path and all below it, until repaired.
    pub fn hang(&self, path: &str) {
        self.world.lock().unwrap().hanging.push(path.to_owned());
    }

    pub fn repair(&self) {
        let mut world = self.world.lock().unwrap();
        world.failing.clear();
        world.hanging.clear();
    }

    /// Answers 403 for this path and all below it, until told otherwise.
    pub fn forbid(&self, path: &str) {
        self.world.lock().unwrap().forbidden.push(path.to_owned());
    }

    pub fn grant(&self) {
        self.world.lock().unwrap().forbidden.clear();
    }

    /// Lets every answer take so long.
    pub fn slow_down(&self, latency: std::time::Duration) {
        self.world.lock().unwrap().latency = latency;
    }

    /// The most requests that were in work at once.
    pub fn most_in_work(&self) -> usize {
        self.world.lock().unwrap().in_work.1
    }

    pub fn requests(&self) -> Vec<String> {
        self.world.lock().unwrap().requests.clone()
    }

    /// Requests without a token.
    pub fn anonymous(&self) -> usize {
        self.world.lock().unwrap().anonymous
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
        let (mut method, mut path, mut token) = (String::new(), String::new(), String::new());
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if path.is_empty() {
                method = line.split(' ').next()?.to_owned();
                path = line.split(' ').nth(1)?.to_owned();
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length: ") {
                length = value.trim().parse().ok()?;
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
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body = (method != "GET").then(|| serde_json::from_slice(&body).unwrap());
        let latency = {
            let mut world = self.world.lock().unwrap();
            world.in_work.0 += 1;
            world.in_work.1 = world.in_work.1.max(world.in_work.0);
            world.latency
        };
        if !latency.is_zero() {
            take(latency);
        }
        while self.world.lock().unwrap().hangs(&path) {
            take(std::time::Duration::from_millis(20));
        }
        let answer = {
            let mut world = self.world.lock().unwrap();
            world.in_work.0 -= 1;
            world.answer(&method, &path, &token, body)
        };
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

/// What a watch from a version that is gone is told.
fn expired() -> Value {
    let message = "too old resource version";
    json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": message}})
}

/// RFC 7396.
fn merge(into: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else { return *into = patch.clone() };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in patch {
        match value {
            Value::Null => drop(into.as_object_mut().unwrap().remove(key)),
            value => merge(&mut into[key], value),
        }
    }
}

/// The only name that a list or watch is about.
fn only_name(path: &str) -> Option<String> {
    let selector = parameter(path, "fieldSelector")?.replace("%3D", "=");
    selector.strip_prefix("metadata.name=").map(str::to_owned)
}

fn status(code: u16, message: &str) -> Reply {
    let reason = if code == 409 { "Conflict" } else { "" };
    Reply::Json(code, json!({"kind": "Status", "code": code, "reason": reason, "message": message}))
}

impl World {
    fn hangs(&self, path: &str) -> bool {
        self.hanging.iter().any(|hanging| path.starts_with(hanging))
    }

    fn change(&mut self, path: &str, kind: &str, mut object: Value) {
        self.version += 1;
        let version = self.version;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let uid = object["metadata"]["uid"].clone();
        let items = &mut self.collections.entry(path.to_owned()).or_default().items;
        items.retain(|known| known["metadata"]["uid"] != uid);
        if kind != "DELETED" {
            items.push(object.clone());
        }
        self.tell(path, Some(version), json!({"type": kind, "object": object}));
    }

    fn tell(&mut self, path: &str, version: Option<u64>, event: Value) {
        let collection = self.collections.entry(path.to_owned()).or_default();
        if let Some(version) = version {
            collection.log.push((version, event.clone()));
        }
        let name = &event["object"]["metadata"]["name"];
        collection.watchers.retain(|(only, watcher)| {
            let wanted = only.as_ref().is_none_or(|only| name.is_null() || name == only);
            !wanted || watcher.send(Some(event.to_string())).is_ok()
        });
    }

    fn answer(&mut self, method: &str, path: &str, token: &str, body: Option<Value>) -> Reply {
        self.requests.push(path.to_owned());
        self.anonymous += usize::from(token.is_empty());
        if token != self.token {
            return status(401, "Unauthorized");
        }
        if let Some(code) = self.refusals.pop_front() {
            return status(code, "as told");
        }
        let plain = path.split('?').next().unwrap_or_default();
        if self.failing.iter().any(|failing| plain.starts_with(failing)) {
            return status(503, "the server is currently unable to handle the request");
        }
        if self.forbidden.iter().any(|forbidden| plain.starts_with(forbidden)) {
            return status(403, "forbidden");
        }
        if let Some(body) = body {
            return match method {
                "PUT" => self.replace_status(plain, body),
                _ => self.write(method, plain, body),
            };
        }
        if plain != PODS && !self.collections.contains_key(plain) {
            return match self.objects.get(plain).cloned().or_else(|| self.named(plain)) {
                Some(object) => Reply::Json(200, object),
                None => status(404, "not found"),
            };
        }
        let only = only_name(path);
        let collection = self.collections.entry(plain.to_owned()).or_default();
        let wanted =
            |object: &Value| only.as_ref().is_none_or(|only| object["metadata"]["name"] == *only);
        if parameter(path, "watch").is_some() {
            let from: u64 = parameter(path, "resourceVersion").unwrap_or("0").parse().unwrap();
            if (1..FIRST_VERSION).contains(&from) {
                return Reply::Watch(vec![expired().to_string()], channel().1);
            }
            let first = collection.log.iter().filter(|(version, _)| *version > from);
            let first = first.filter(|(_, event)| wanted(&event["object"]));
            let first = first.map(|(_, event)| event.to_string()).collect();
            let (sender, receiver) = channel();
            collection.watchers.push((only, sender));
            return Reply::Watch(first, receiver);
        }
        let start: usize = parameter(path, "continue").unwrap_or("0").parse().unwrap();
        let items: Vec<&Value> = collection.items.iter().filter(|item| wanted(item)).collect();
        let size = if items.len() > 100 { LARGE_PAGE } else { PAGE };
        let page: Vec<&&Value> = items.iter().skip(start).take(size).collect();
        let next =
            if start + size < items.len() { (start + size).to_string() } else { String::new() };
        let metadata = json!({"resourceVersion": self.version.to_string(), "continue": next});
        Reply::Json(200, json!({"metadata": metadata, "items": page}))
    }

    /// An object by the path of its collection and its name.
    fn named(&self, path: &str) -> Option<Value> {
        let (collection, name) = path.rsplit_once('/')?;
        let mut items = self.collections.get(collection)?.items.iter();
        items.find(|item| item["metadata"]["name"] == name).cloned()
    }

    /// Makes, patches or deletes an object, of which the status is written by itself.
    fn write(&mut self, method: &str, path: &str, mut body: Value) -> Reply {
        if method == "POST" {
            let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            body["metadata"]["uid"] = json!(format!("{name}-uid"));
            body.as_object_mut().unwrap().remove("status");
            self.change(path, "ADDED", body);
            return Reply::Json(201, self.named(&format!("{path}/{name}")).unwrap_or_default());
        }
        let place = path.strip_suffix("/status").unwrap_or(path);
        let Some(mut item) = self.named(place) else { return status(404, "not found") };
        let collection = place.rsplit_once('/').map_or("", |(collection, _)| collection);
        match method {
            "DELETE" => self.change(collection, "DELETED", item),
            "PATCH" => {
                let (only_status, keep) = (place != path, item["status"].clone());
                if only_status {
                    merge(&mut item["status"], &body["status"]);
                } else {
                    merge(&mut item, &body);
                    if !keep.is_null() {
                        item["status"] = keep;
                    }
                }
                self.change(collection, "MODIFIED", item);
            }
            _ => return status(405, "not allowed"),
        }
        Reply::Json(200, self.named(place).unwrap_or_default())
    }

    /// Takes the status of an object, and nothing else, unless somebody changed it since it was read.
    fn replace_status(&mut self, path: &str, body: Value) -> Reply {
        let Some(place) = path.strip_suffix("/status") else { return status(405, "not allowed") };
        let Some(mut item) = self.named(place) else { return status(404, "not found") };
        let collection = place.rsplit_once('/').map_or("", |(collection, _)| collection).to_owned();
        if item["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"] {
            return status(409, "the object has been modified");
        }
        item["status"] = body["status"].clone();
        self.change(&collection, "MODIFIED", item);
        Reply::Json(200, self.named(place).unwrap_or_default())
    }
}

/// Takes as long as a network far away would.
#[allow(clippy::disallowed_methods)]
fn take(latency: std::time::Duration) {
    std::thread::sleep(latency);
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

/// Writes a kubeconfig for this cluster with the token `t1` in a file beside it.
pub fn kubeconfig(cluster: &Cluster, folder: &std::path::Path) -> std::path::PathBuf {
    let address = cluster.address;
    std::fs::write(folder.join("token"), "t1\n").unwrap();
    let kubeconfig = folder.join("kubeconfig");
    let text = format!(
        "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
         clusters: [{{name: k, cluster: {{server: 'http://{address}/'}}}}]\n\
         users: [{{name: u, user: {{tokenFile: token}}}}]\n"
    );
    std::fs::write(&kubeconfig, text).unwrap();
    kubeconfig
}
