//! NodeMetric in a cluster, through all its moods: a stand-in plays the API, and kidled's files stand in a folder. The same
//! promise is kept against a real cluster where `KUBECONFIG` names one.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

#[path = "../../processor/tests/support/cluster.rs"]
mod cluster;
mod machine;

use cluster::Cluster;
use crosstalk_agent::Agent;
use machine::{Machine, eventually};
use serde_json::{Value, json};

const METRICS: &str = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics";

fn metric(name: &str, policy: Value) -> Value {
    json!({
        "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric",
        "metadata": {"name": name, "uid": format!("{name}-uid")},
        "spec": {"metricCollectPolicy": policy},
        "status": {"prodReclaimableMetric": {"resource": {}}},
    })
}

/// An agent on `node-a` of this cluster, whose kidled says that 400 bytes are cold.
fn start(machine: &Machine, cluster: &Cluster) -> Agent {
    machine.kubeconfig(&format!("http://{}/", cluster.address), "t1\n");
    Agent::start(&machine.config("node-a")).unwrap()
}

fn status(cluster: &Cluster) -> Value {
    cluster.item(METRICS, "node-a").unwrap()["status"].clone()
}

/// Waits until the node's usage is told under a policy, and gives its memory.
fn told_under(cluster: &Cluster, policy: &str) -> String {
    eventually(policy, || {
        let metric = &status(cluster)["nodeMetric"];
        let told = metric["extensions"]["crosstalk.dev/memory"]["policy"] == policy;
        let memory = metric["nodeUsage"]["resources"]["memory"].as_str().map(str::to_owned);
        memory.filter(|_| told)
    })
}

#[test]
fn the_policy_of_the_object_is_obeyed_as_it_changes_in_both_spellings() {
    let cluster = Cluster::start("t1");
    let machine = Machine::with_kidled();
    cluster.change(METRICS, "ADDED", metric("node-a", json!({})));
    cluster.change(METRICS, "ADDED", metric("node-b", json!({})));
    let _agent = start(&machine, &cluster);
    assert_eq!(told_under(&cluster, "usageWithoutPageCache"), (200 * 1024).to_string());
    for (key, policy, bytes) in [
        ("nodeMemoryCollectPolicy", "usageWithPageCache", 700 * 1024),
        ("memoryCollectPolicy", "usageWithHotPageCache", 700 * 1024 - 400),
    ] {
        let mut object = cluster.item(METRICS, "node-a").unwrap();
        object["spec"] = json!({"metricCollectPolicy": {key: policy}});
        cluster.change(METRICS, "MODIFIED", object);
        assert_eq!(told_under(&cluster, policy), bytes.to_string());
    }
    let status = status(&cluster);
    assert!(status["updateTime"].as_str().unwrap().ends_with('Z'), "{status}");
    assert_eq!(status["prodReclaimableMetric"], json!({"resource": {}}), "somebody else's stays");
    let other = cluster.item(METRICS, "node-b").unwrap();
    assert!(other["status"]["nodeMetric"].is_null(), "another node's object is left alone");
}

#[test]
fn a_report_that_met_another_writer_is_made_anew_on_what_that_one_wrote() {
    let cluster = Cluster::start("t1");
    let machine = Machine::with_kidled();
    cluster.change(METRICS, "ADDED", metric("node-a", json!({})));
    cluster.let_others_come_first(3);
    let _agent = start(&machine, &cluster);
    told_under(&cluster, "usageWithoutPageCache");
    let object = cluster.item(METRICS, "node-a").unwrap();
    assert_eq!(object["metadata"]["labels"]["rival"], "0", "what the others wrote is still there");
    let updates = cluster.requests().iter().filter(|path| path.contains("/status")).count();
    assert_eq!(updates, 4);
}

#[test]
fn dropped_watches_versions_that_are_gone_and_refused_tokens_are_survived() {
    let cluster = Cluster::start("t1");
    let machine = Machine::with_kidled();
    cluster.change(METRICS, "ADDED", metric("node-a", json!({})));
    let agent = start(&machine, &cluster);
    told_under(&cluster, "usageWithoutPageCache");
    let watches = || cluster.watches();
    let change = |policy: &str| {
        let mut object = cluster.item(METRICS, "node-a").unwrap();
        object["spec"] = json!({"metricCollectPolicy": {"nodeMemoryCollectPolicy": policy}});
        cluster.change(METRICS, "MODIFIED", object);
        told_under(&cluster, policy);
    };
    // A watch that breaks off is begun again.
    let before = watches();
    eventually("a watch", || (cluster.watches() > 0).then_some(()));
    cluster.drop_streams();
    eventually("another watch", || (watches() > before).then_some(()));
    change("usageWithPageCache");
    // A version that is gone means a new list.
    let lists = cluster.lists();
    let gone = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"});
    cluster.tell_in(METRICS, json!({"type": "ERROR", "object": gone}));
    eventually("another list", || (cluster.lists() > lists).then_some(()));
    change("usageWithHotPageCache");
    // A token that is refused is read again.
    cluster.set_token("t2");
    cluster.drop_streams();
    let refused = cluster.requests().len();
    eventually("a refusal", || (cluster.requests().len() > refused).then_some(()));
    machine.put("token", "t2\n");
    change("usageWithoutPageCache");
    let text = machine::get(agent.address(), "/metrics");
    let failed = "crosstalk_agent_node_metric_reports_total{result=\"failed\"}";
    let failed = text.lines().find_map(|line| line.strip_prefix(failed)).unwrap();
    assert!(failed.trim().parse::<u64>().unwrap() > 0, "{failed}");
}

#[test]
fn an_object_that_is_made_later_is_found() {
    let cluster = Cluster::start("t1");
    let machine = Machine::with_kidled();
    cluster.change(METRICS, "ADDED", metric("node-b", json!({})));
    let _agent = start(&machine, &cluster);
    eventually("a watch", || (cluster.watches() > 0).then_some(()));
    cluster.change(METRICS, "ADDED", metric("node-a", json!({})));
    told_under(&cluster, "usageWithoutPageCache");
}

#[test]
fn the_same_object_is_written_to_a_file_without_kubernetes() {
    let machine = Machine::with_kidled();
    let file = machine.path("metric.json");
    let mut config = machine.config("node-a");
    config.node_metric.mode = crosstalk_agent::config::Mode::Off;
    config.node_metric.file = file.clone();
    config.memory.policy = "usageWithHotPageCache".to_owned();
    let _agent = Agent::start(&config).unwrap();
    let object: Value =
        eventually("the file", || serde_json::from_slice(&std::fs::read(&file).ok()?).ok());
    assert_eq!(
        (&object["kind"], &object["metadata"]["name"]),
        (&json!("NodeMetric"), &json!("node-a"))
    );
    let node = &object["status"]["nodeMetric"]["nodeUsage"]["resources"];
    assert_eq!(node["memory"], (700 * 1024 - 400).to_string());
}

#[test]
fn a_real_cluster_is_told_and_obeyed() {
    let Some(kubeconfig) = std::env::var_os("KUBECONFIG").filter(|path| !path.is_empty()) else {
        eprintln!("skipped: KUBECONFIG is not set, so there is no cluster to ask");
        return;
    };
    let crd = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/kubernetes/node-metric/crd.yaml");
    machine::kubectl(&["apply", "-f", crd], "").unwrap();
    machine::kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "-f", crd], "")
        .unwrap();
    let name = format!("crosstalk-test-{}", std::process::id());
    let _gone = machine::Deleted(name.clone());
    let object = metric(&name, json!({"memoryCollectPolicy": "usageWithHotPageCache"}));
    machine::kubectl(&["apply", "-f", "-"], &object.to_string()).unwrap();
    let machine = Machine::with_kidled();
    let mut config = machine.config(&name);
    config.inventory.kubeconfig = kubeconfig.into();
    let _agent = Agent::start(&config).unwrap();
    let told = |policy: &str| {
        eventually(policy, || {
            let text = machine::kubectl(&["get", "nodemetric", &name, "-o", "json"], "").ok()?;
            let object: Value = serde_json::from_str(&text).ok()?;
            let metric = &object["status"]["nodeMetric"];
            let about = &metric["extensions"]["crosstalk.dev/memory"];
            (about["policy"] == policy).then(|| metric["nodeUsage"]["resources"]["memory"].clone())
        })
    };
    assert_eq!(told("usageWithHotPageCache"), (700 * 1024 - 400).to_string());
    let patch = json!({"spec": {"metricCollectPolicy": {
        "memoryCollectPolicy": null, "nodeMemoryCollectPolicy": "usageWithPageCache",
    }}});
    let patch = patch.to_string();
    machine::kubectl(&["patch", "nodemetric", &name, "--type=merge", "-p", &patch], "").unwrap();
    assert_eq!(told("usageWithPageCache"), (700 * 1024).to_string());
}
