//! NodeMetrics in an API: that of a stand-in, and that of the cluster which `KUBECONFIG` names.

mod front;

use crate::cluster::Cluster;
use crate::machine::{Machine, kubectl};
pub(crate) use front::{Front, What};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

const METRICS: &str = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics";
static MADE: AtomicU32 = AtomicU32::new(0);

/// Whose API it is. Either is spoken to without encryption on this machine.
enum Whose {
    StandIn(Cluster),
    /// Through `kubectl proxy`, which says who asks.
    Cluster(Child),
}

pub(crate) struct Api {
    whose: Whose,
    address: SocketAddr,
    /// What proves to the stand-in who asks.
    token: Mutex<String>,
    /// Objects that go with the test.
    made: Mutex<Vec<String>>,
    /// The node, and so the object, of one test: others may use the cluster at the same time.
    pub(crate) node: String,
}

/// The stand-in, and the cluster if there is one.
pub(crate) fn every() -> Vec<Api> {
    let cluster = Cluster::start("t1");
    let mut all = vec![Api::new(cluster.address, Whose::StandIn(cluster))];
    match std::env::var_os("KUBECONFIG").filter(|path| !path.is_empty()) {
        Some(_) => all.push(Api::of_cluster()),
        None => eprintln!("skipped in part: KUBECONFIG is not set, so only the stand-in is asked"),
    }
    all
}

impl Api {
    fn new(address: SocketAddr, whose: Whose) -> Self {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let node = format!("crosstalk-test-{}-{number}", std::process::id());
        Self { whose, address, token: Mutex::new("t1".to_owned()), made: Mutex::default(), node }
    }

    fn of_cluster() -> Self {
        let crd =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/kubernetes/node-metric/crd.yaml");
        kubectl(&["apply", "-f", crd], "").unwrap();
        let established = ["wait", "--for=condition=Established", "--timeout=60s", "-f", crd];
        kubectl(&established, "").unwrap();
        let mut proxy = Command::new("kubectl");
        proxy.args(["proxy", "--port=0"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut proxy = proxy.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(proxy.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let address = said.trim().rsplit(' ').next().and_then(|address| address.parse().ok());
        let address = address.unwrap_or_else(|| panic!("kubectl proxy says where it is: {said}"));
        Self::new(address, Whose::Cluster(proxy))
    }

    /// Takes another token from now on, and breaks off who watches with the old one. Only the stand-in can: a cluster takes
    /// a token until its time is over, ten minutes at least. Says whether it was done.
    pub(crate) fn take_only(&self, token: &str) -> bool {
        let Whose::StandIn(cluster) = &self.whose else { return false };
        *self.token.lock().unwrap() = token.to_owned();
        cluster.set_token(token);
        cluster.drop_streams();
        true
    }

    /// Lets an agent on this machine ask the API itself, as who has the token in the machine's file `token`. Answers with one
    /// that may do what the shipped role says.
    pub(crate) fn introduce(&self, machine: &Machine, token: &str) -> (String, Vec<Left>) {
        if let Whose::StandIn(_) = &self.whose {
            machine.kubeconfig(&format!("http://{}/", self.address), token);
            return (self.token.lock().unwrap().clone(), Vec::new());
        }
        let view = ["config", "view", "--minify", "--flatten", "--raw", "-o", "json"];
        let mut config: Value = serde_json::from_str(&kubectl(&view, "").unwrap()).unwrap();
        config["users"] = json!([{"name": "test", "user": {"tokenFile": "token"}}]);
        config["contexts"][0]["context"]["user"] = json!("test");
        machine.put("kubeconfig", config.to_string());
        machine.put("token", token);
        account(&self.node)
    }

    /// What an object's path ends in, asked for with a method.
    fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let kind =
            if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let token = match self.whose {
            Whose::StandIn(_) => {
                format!("Authorization: Bearer {}\r\n", self.token.lock().unwrap())
            }
            Whose::Cluster(_) => String::new(),
        };
        let body = if method == "GET" { String::new() } else { body.to_string() };
        // The old protocol, in which an answer is one piece.
        write!(
            stream,
            "{method} {METRICS}{path} HTTP/1.0\r\nHost: 127.0.0.1\r\n{token}Accept: application/json\r\n\
             Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        (code, serde_json::from_str(body).unwrap_or_default())
    }

    /// Makes the object of a node, which asks for a policy.
    pub(crate) fn make(&self, node: &str, policy: Value) {
        self.made.lock().unwrap().push(node.to_owned());
        let object = json!({
            "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric",
            "metadata": {"name": node},
            "spec": {"metricCollectPolicy": policy},
        });
        let (code, answer) = self.call("POST", "", &object);
        assert_eq!(code, 201, "{answer}");
    }

    /// Changes a part of the object; `""` or `"/status"` says which.
    pub(crate) fn patch(&self, part: &str, patch: &Value) {
        let (code, answer) = self.call("PATCH", &format!("/{}{part}", self.node), patch);
        assert_eq!(code, 200, "{answer}");
    }

    /// Asks for a memory policy under one of its names, and no longer under the other.
    pub(crate) fn ask(&self, key: &str, policy: &str) {
        let mut asked = json!({"nodeMemoryCollectPolicy": null, "memoryCollectPolicy": null});
        asked[key] = json!(policy);
        self.patch("", &json!({"spec": {"metricCollectPolicy": asked}}));
    }

    pub(crate) fn object(&self, node: &str) -> Value {
        self.call("GET", &format!("/{node}"), &Value::Null).1
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        let Whose::Cluster(proxy) = &mut self.whose else { return };
        let _ = proxy.kill();
        let _ = proxy.wait();
        for name in self.made.get_mut().unwrap().drain(..) {
            let _ = kubectl(&["delete", "nodemetric", &name, "--wait=false"], "");
        }
    }
}

/// Something in a cluster that goes with the test.
pub(crate) struct Left(&'static str, String);

impl Drop for Left {
    fn drop(&mut self) {
        let _ = kubectl(&["delete", self.0, &self.1, "--wait=false"], "");
    }
}

/// An account that may do what the shipped role says, and its token.
fn account(name: &str) -> (String, Vec<Left>) {
    let left = ["serviceaccount", "clusterrole", "clusterrolebinding"];
    let left = left.map(|kind| Left(kind, name.to_owned())).into();
    let rbac =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/kubernetes/node-metric/rbac.yaml");
    let shipped = kubectl(&["create", "--dry-run=client", "-o", "json", "-f", rbac], "").unwrap();
    // One object after the other, or a list of them.
    let objects = serde_json::Deserializer::from_str(&shipped).into_iter::<Value>();
    let mut objects = objects.flat_map(|object| {
        let object = object.unwrap();
        object["items"].as_array().cloned().unwrap_or_else(|| vec![object])
    });
    let mut role = objects.find(|object| object["kind"] == "ClusterRole").unwrap();
    role["metadata"] = json!({"name": name});
    kubectl(&["create", "-f", "-"], &role.to_string()).unwrap();
    kubectl(&["create", "serviceaccount", name], "").unwrap();
    let namespace = ["config", "view", "--minify", "-o", "jsonpath={..namespace}"];
    let namespace = kubectl(&namespace, "").unwrap();
    let namespace = if namespace.is_empty() { "default" } else { &namespace };
    let (role, account) = (format!("--clusterrole={name}"), format!("{namespace}:{name}"));
    let account = format!("--serviceaccount={account}");
    kubectl(&["create", "clusterrolebinding", name, &role, &account], "").unwrap();
    // `kubectl create token` does the same, where it is new enough to have it.
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer = kubectl(&["create", "--raw", &path, "-f", "-"], &request.to_string()).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    (answer["status"]["token"].as_str().unwrap().to_owned(), left)
}
