//! What is shipped, in a real cluster.

use super::deploy;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What is shipped, in the cluster that `KUBECONFIG` names, under names of this test: that one may have an agent already.
struct Shipped {
    namespace: String,
}

impl Shipped {
    fn new() -> Self {
        Self { namespace: format!("crosstalk-test-{}", std::process::id()) }
    }

    fn agent(&self) -> String {
        format!("{}-agent", self.namespace)
    }

    fn apply(&self, file: &str) {
        let text = deploy(file).replace("crosstalk-agent", &self.agent());
        let own = format!(": {}\n", self.namespace);
        kubectl(&["apply", "-f", "-"], &text.replace(": crosstalk\n", &own)).unwrap();
    }

    fn patch(&self, file: &str) {
        let patch = deploy(file);
        let what = ["patch", "daemonset", &self.agent(), "--patch", &patch];
        kubectl(&[&["-n", &self.namespace][..], &what].concat(), "").unwrap();
    }

    /// Whether the agent's account may do something, in all namespaces.
    fn may(&self, action: &str) -> bool {
        let account = format!("--as=system:serviceaccount:{}:{}", self.namespace, self.agent());
        let words: Vec<&str> = action.split(' ').collect();
        let asked = [&["auth", "can-i", "--all-namespaces", &account][..], &words].concat();
        // It says no by its status, too.
        let said = kubectl(&asked, "").unwrap_or_else(|said| said);
        match said.lines().find(|line| ["yes", "no"].contains(line)) {
            Some(answer) => answer == "yes",
            None => panic!("{action}: {said}"),
        }
    }

    /// What the API server gives to all is soon known to whoever decides.
    fn will(&self, action: &str) {
        let end = Instant::now() + Duration::from_secs(20);
        while !self.may(action) {
            assert!(Instant::now() < end, "the agent may not {action}");
        }
    }

    fn may_not(&self, actions: &[&str]) {
        let granted: Vec<_> = actions.iter().filter(|action| self.may(action)).collect();
        assert!(granted.is_empty(), "the agent may {granted:?}");
    }
}

impl Drop for Shipped {
    fn drop(&mut self) {
        let (agent, reports) = (self.agent(), format!("{}-node-metric", self.agent()));
        for kind in ["clusterrolebinding", "clusterrole"] {
            let _ = kubectl(&["delete", kind, &agent, &reports, "--ignore-not-found"], "");
        }
        let _ = kubectl(&["delete", "namespace", &self.namespace, "--wait=false"], "");
    }
}

/// What it printed, or all that it printed where it failed.
fn kubectl(arguments: &[&str], input: &str) -> Result<String, String> {
    let mut command = Command::new("kubectl");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("kubectl is there");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(printed),
        false => Err(printed + &String::from_utf8_lossy(&output.stderr)),
    }
}

#[test]
fn a_cluster_takes_what_is_shipped_and_gives_the_agent_the_rights_it_needs_and_no_others() {
    if std::env::var_os("KUBECONFIG").is_none_or(|path| path.is_empty()) {
        return eprintln!("skipped: KUBECONFIG is not set, so there is no cluster to ask");
    }
    let shipped = Shipped::new();
    // As it stands: it has one name in all clusters, and stays.
    kubectl(&["apply", "-f", "-"], &deploy("kubernetes/node-metric/crd.yaml")).unwrap();
    shipped.apply("kubernetes/agent.yaml");
    let names = ["get pods", "list pods", "watch pods", "get replicasets.apps", "get jobs.batch"];
    names.iter().for_each(|action| shipped.will(action));
    let metrics = "nodemetrics.slo.koordinator.sh";
    let on_metrics = |verbs: &[&str]| -> Vec<String> {
        verbs.iter().map(|verb| format!("{verb} {metrics}")).collect()
    };
    let reads = on_metrics(&["get", "list", "watch"]);
    let reports = format!("update {metrics} --subresource=status");
    let before: Vec<&str> = reads.iter().chain([&reports]).map(String::as_str).collect();
    shipped.may_not(&before);

    shipped.apply("kubernetes/node-metric/rbac.yaml");
    before.iter().for_each(|action| shipped.will(action));
    let writes = on_metrics(&["create", "update", "patch", "delete", "deletecollection"]);
    shipped.may_not(&writes.iter().map(String::as_str).collect::<Vec<_>>());
    shipped.may_not(&[
        "patch nodemetrics.slo.koordinator.sh --subresource=status",
        "* *",
        "create pods",
        "delete pods",
        "patch pods",
        "create pods --subresource=exec",
        "get pods --subresource=log",
        "list replicasets.apps",
        "create jobs.batch",
        "get secrets",
        "list secrets",
        "get configmaps",
        "list nodes",
        "get nodes --subresource=proxy",
        "create serviceaccounts --subresource=token",
        "patch daemonsets.apps",
        "impersonate users",
        "escalate clusterroles.rbac.authorization.k8s.io",
    ]);

    // Both patches, on what is there: each adds, and takes nothing away.
    shipped.patch("kubernetes/node-metric/agent.patch.yaml");
    shipped.patch("kubernetes/damon/agent.patch.yaml");
    let daemon = ["-n", &shipped.namespace, "get", "daemonset", &shipped.agent(), "-o", "json"];
    let daemon: Value = serde_json::from_str(&kubectl(&daemon, "").unwrap()).unwrap();
    let pod = &daemon["spec"]["template"]["spec"];
    assert_eq!(pod["containers"].as_array().unwrap().len(), 1, "{pod:#}");
    let patched = &pod["containers"][0];
    let all = |list: &Value, key: &str| -> BTreeSet<String> {
        let of = |item: &Value| item[key].as_str().unwrap().to_owned();
        list.as_array().unwrap().iter().map(of).collect()
    };
    let variables = [
        "CROSSTALK_AGENT_NODE",
        "CROSSTALK_AGENT_NODE_METRIC_MODE",
        "CROSSTALK_AGENT_SOURCES_COLDMEM_BACKEND",
    ];
    assert_eq!(all(&patched["env"], "name"), variables.map(str::to_owned).into());
    let capabilities = &patched["securityContext"]["capabilities"];
    assert_eq!(capabilities["add"], json!(["BPF", "PERFMON", "SYS_ADMIN"]));
    assert_eq!(capabilities["drop"], json!(["ALL"]));
    let mounts = [
        "/etc/crosstalk",
        "/host/proc",
        "/host/run/crosstalk-damon",
        "/host/sys",
        "/host/sys/kernel/mm/damon",
    ];
    assert_eq!(all(&patched["volumeMounts"], "mountPath"), mounts.map(str::to_owned).into());
    let (mounted, there) = (all(&patched["volumeMounts"], "name"), all(&pod["volumes"], "name"));
    assert_eq!(mounted, there);
    assert_eq!(patched["args"], json!(["agent", "--config", "/etc/crosstalk/agent.toml"]));
}
