//! The Kubernetes source against a real API server. Runs where `KUBECONFIG` names a cluster in which namespaces can be made;
//! each test works in one of its own and deletes it. Elsewhere every test says that it is skipped.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use support::http::get;
use support::{Service, eventually};

/// The cluster's kubeconfig.
fn kubeconfig() -> Option<PathBuf> {
    let path = std::env::var_os("KUBECONFIG").filter(|path| !path.is_empty());
    if path.is_none() {
        eprintln!("skipped: KUBECONFIG is not set, so there is no cluster to ask");
    }
    path.map(PathBuf::from)
}

fn workloads(service: &Service) -> Value {
    get(service.address, "/pods/workload/cache").json()
}

fn start(kubeconfig: &Path, namespace: &Namespace) -> Service {
    let service = launch(kubeconfig, namespace);
    service.wait_until_ready();
    service
}

/// Without the waiting: who was not let in by the cluster is not ready.
fn launch(kubeconfig: &Path, namespace: &Namespace) -> Service {
    Service::launch(|config| {
        config.cache.kubernetes.enabled = true;
        config.cache.kubernetes.kubeconfig = Some(kubeconfig.to_owned());
        config.cache.kubernetes.namespace = namespace.0.clone();
        config.cache.refresh = crosstalk_settings::Period::millis(1_000);
    })
}

/// Objects whose controllers make pods. Whether these ever run does not matter: a pending pod has its owners too.
const MANIFEST: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: 'registry.k8s.io/pause:3.9'}]}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec: {serviceName: db, replicas: 1, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}, spec: {containers: [{name: main, image: 'registry.k8s.io/pause:3.9'}]}}}
---
apiVersion: BATCH
kind: CronJob
metadata: {name: nightly}
spec: {schedule: '0 0 1 1 *', suspend: true, jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: 'registry.k8s.io/pause:3.9'}]}}}}}
---
apiVersion: v1
kind: Pod
metadata: {name: alone}
spec: {containers: [{name: main, image: 'registry.k8s.io/pause:3.9'}]}
";

/// A namespace of its own in a real cluster, deleted in the end.
struct Namespace(String);

impl Namespace {
    fn create(name: &str) -> Namespace {
        let namespace = Namespace(format!("crosstalk-test-{name}-{}", std::process::id()));
        run(&["create", "namespace", &namespace.0], "").unwrap();
        namespace
    }

    /// Makes objects. A namespace takes a moment to get the service account its pods need.
    fn apply(&self, manifest: &str) {
        let apply = ["apply", "--validate=false", "-f", "-"];
        eventually("the objects", || self.kubectl(&apply, manifest).ok());
    }

    /// Makes what [`MANIFEST`] says. Answers with the version under which this cluster has cron jobs.
    fn apply_manifest(&self) -> &'static str {
        let known = run(&["get", "--raw", "/apis/batch/v1"], "").unwrap();
        let batch = if known.contains("cronjobs") { "batch/v1" } else { "batch/v1beta1" };
        self.apply(&MANIFEST.replace("BATCH", batch));
        batch
    }

    fn uid_of(&self, kind: &str, name: &str) -> String {
        self.kubectl(&["get", kind, name, "-o", "jsonpath={.metadata.uid}"], "").unwrap()
    }

    fn kubectl(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        run(&[&["-n", &self.0][..], arguments].concat(), input)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = run(&["delete", "namespace", &self.0, "--wait=false"], "");
    }
}

fn run(arguments: &[&str], input: &str) -> Result<String, String> {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut command = Command::new("kubectl");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Waits until some pod has exactly this workload.
fn wait_for_workload(service: &Service, name: &str, uid: &str) {
    eventually(&format!("a pod of {name}"), || {
        let view = workloads(service);
        let mut owned = view.as_object()?.values();
        owned.any(|workloads| *workloads == json!([[name, uid]])).then_some(())
    });
}

#[test]
fn pods_are_followed_to_the_top_of_their_owners_and_stay_known_when_deleted() {
    let Some(kubeconfig) = kubeconfig() else { return };
    let namespace = Namespace::create("owners");
    let service = start(&kubeconfig, &namespace);
    let batch = namespace.apply_manifest();
    // As the CronJob's controller makes it when its time comes.
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "nightly-1", "ownerReferences": [{
            "apiVersion": batch, "kind": "CronJob", "name": "nightly",
            "uid": namespace.uid_of("cronjob", "nightly"), "controller": true,
        }]},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.9"}],
        }}},
    });
    namespace.apply(&job.to_string());
    for (kind, name) in
        [("deployment", "web"), ("statefulset", "db"), ("cronjob", "nightly"), ("pod", "alone")]
    {
        wait_for_workload(&service, name, &namespace.uid_of(kind, name));
    }
    let delete = ["delete", "pod", "alone", "--force", "--grace-period=0", "--wait=false"];
    namespace.kubectl(&delete, "").unwrap();
    eventually("the deletion", || {
        (service.metric("crosstalk_processor_cache_departed_pods") >= 1.0).then_some(())
    });
    assert!(workloads(&service).get("alone").is_some(), "known for the grace time");
}

/// A kubeconfig for the same cluster with another user.
fn kubeconfig_with(folder: &Path, user: Value) -> PathBuf {
    let text =
        run(&["config", "view", "--minify", "--flatten", "--raw", "-o", "json"], "").unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["users"] = json!([{"name": "test", "user": user}]);
    config["contexts"][0]["context"]["user"] = json!("test");
    let path = folder.join("kubeconfig");
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

/// The token of an account that may list and watch pods and nothing else.
fn token_of_reader(namespace: &Namespace) -> String {
    let account = format!("{}:reader", namespace.0);
    for arguments in [
        &["create", "serviceaccount", "reader"][..],
        &["create", "role", "reader", "--verb=list,watch", "--resource=pods"],
        &["create", "rolebinding", "reader", "--role=reader", "--serviceaccount", &account],
    ] {
        namespace.kubectl(arguments, "").unwrap();
    }
    // `kubectl create token` does the same, where it is new enough to have it.
    let path = format!("/api/v1/namespaces/{}/serviceaccounts/reader/token", namespace.0);
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer = run(&["create", "--raw", &path, "-f", "-"], &request.to_string()).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

#[test]
fn a_refused_token_is_read_again_and_an_owner_that_may_not_be_read_is_the_top() {
    let Some(_) = kubeconfig() else { return };
    let namespace = Namespace::create("token");
    let token = token_of_reader(&namespace);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), "refused\n").unwrap();
    let kubeconfig = kubeconfig_with(folder.path(), json!({"tokenFile": "token"}));
    let service = launch(&kubeconfig, &namespace);
    namespace.apply_manifest();
    eventually("a refusal", || {
        let errors = "crosstalk_processor_cache_errors_total{source=\"kubernetes\"}";
        (service.metric(errors) >= 1.0).then_some(())
    });
    std::fs::write(folder.path().join("token"), format!("{token}\n")).unwrap();
    wait_for_workload(&service, "alone", &namespace.uid_of("pod", "alone"));
    let set = ["get", "replicaset", "-o", "jsonpath={.items[0].metadata.name}"];
    let set = eventually("a replica set", || {
        namespace.kubectl(&set, "").ok().filter(|name| !name.is_empty())
    });
    wait_for_workload(&service, &set, &namespace.uid_of("replicaset", &set));
}

#[test]
fn a_plugin_is_run_for_the_token() {
    use std::os::unix::fs::PermissionsExt;
    let Some(_) = kubeconfig() else { return };
    let namespace = Namespace::create("exec");
    let token = token_of_reader(&namespace);
    let folder = tempfile::tempdir().unwrap();
    let version = "client.authentication.k8s.io/v1";
    let credential =
        json!({"apiVersion": version, "kind": "ExecCredential", "status": {"token": token}});
    let plugin = folder.path().join("plugin");
    std::fs::write(&plugin, format!("#!/bin/sh\necho '{credential}'\n")).unwrap();
    std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o755)).unwrap();
    let exec = json!({"apiVersion": version, "command": plugin, "interactiveMode": "Never"});
    let kubeconfig = kubeconfig_with(folder.path(), json!({"exec": exec}));
    let service = start(&kubeconfig, &namespace);
    namespace.apply_manifest();
    wait_for_workload(&service, "alone", &namespace.uid_of("pod", "alone"));
}
