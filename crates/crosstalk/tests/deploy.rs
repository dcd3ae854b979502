//! What `deploy/` promises: files that parse, flags that exist, and no more rights than needed.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

#[path = "deploy/cluster.rs"]
mod cluster;
mod support;

use serde::Deserialize;
use serde_yaml_ng::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use support::crosstalk;

fn deploy(file: &str) -> String {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy")).join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The documents of the manifest, aliases resolved.
fn manifest() -> Vec<Value> {
    let text = deploy("kubernetes/agent.yaml");
    serde_yaml_ng::Deserializer::from_str(&text)
        .map(|document| Value::deserialize(document).unwrap())
        .collect()
}

fn of_kind(kind: &str) -> Value {
    let all = manifest();
    all.into_iter().find(|document| document["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

fn container() -> Value {
    of_kind("DaemonSet")["spec"]["template"]["spec"]["containers"][0].clone()
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_sequence().unwrap().iter().map(|value| value.as_str().unwrap()).collect()
}

/// Runs `crosstalk` with these arguments on a configuration of our own, to be checked only.
fn check(arguments: &[&str], config: &Path) -> Output {
    let given: Vec<&str> = arguments
        .iter()
        .map(|word| if word.ends_with("agent.toml") { config.to_str().unwrap() } else { word })
        .collect();
    let check = (!given.contains(&"--check")).then_some("--check");
    crosstalk().args(given).args(check).output().unwrap()
}

fn assert_accepted(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_pod_starts_with_flags_and_a_configuration_that_the_command_accepts() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent.toml");
    let config = of_kind("ConfigMap")["data"]["agent.toml"].as_str().unwrap().to_owned();
    fs::write(&file, &config).unwrap();
    let container = container();
    let output = check(&texts(&container["args"]), &file);
    assert_accepted(&output);
    // The port that is probed and scraped is the one it listens on.
    let port = container["ports"][0]["containerPort"].as_u64().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.trim().ends_with(&format!(":{port}")), "{said}");
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        assert_eq!(container[probe]["httpGet"]["port"], container["ports"][0]["name"], "{probe}");
    }
    let mount = texts(&container["args"])
        .into_iter()
        .find_map(|word| word.strip_suffix("/agent.toml"))
        .unwrap();
    let mounts = container["volumeMounts"].as_sequence().unwrap();
    assert!(mounts.iter().any(|volume| volume["mountPath"] == mount), "{mount} is not mounted");
}

#[test]
fn the_pod_may_do_what_the_kernel_programs_need_and_nothing_else() {
    let daemon = of_kind("DaemonSet");
    let pod = &daemon["spec"]["template"]["spec"];
    assert_eq!(pod["hostPID"], true);
    // Its token may read who runs where, and nothing else.
    for rule in of_kind("ClusterRole")["rules"].as_sequence().unwrap() {
        let (verbs, resources) = (texts(&rule["verbs"]), texts(&rule["resources"]));
        assert!(verbs.iter().all(|verb| ["get", "list", "watch"].contains(verb)), "{verbs:?}");
        let named = ["pods", "replicasets", "jobs"];
        assert!(resources.iter().all(|resource| named.contains(resource)), "{resources:?}");
    }
    let container = container();
    let security = &container["securityContext"];
    assert_eq!(security["privileged"], false);
    assert_eq!(security["allowPrivilegeEscalation"], false);
    assert_eq!(security["readOnlyRootFilesystem"], true);
    assert_eq!(texts(&security["capabilities"]["drop"]), ["ALL"]);
    assert_eq!(texts(&security["capabilities"]["add"]), ["BPF", "PERFMON"]);
    let limits = &container["resources"]["limits"];
    assert_eq!((&limits["cpu"], &limits["memory"]), (&"200m".into(), &"256Mi".into()));
    let mounts = container["volumeMounts"].as_sequence().unwrap();
    assert!(mounts.iter().all(|mount| mount["readOnly"] == true), "{mounts:?}");
    let volumes = pod["volumes"].as_sequence().unwrap();
    for mount in mounts {
        assert!(volumes.iter().any(|volume| volume["name"] == mount["name"]), "{mount:?}");
    }
    assert_eq!(daemon["spec"]["selector"]["matchLabels"], daemon["metadata"]["labels"]);
}

#[test]
fn the_pod_knows_its_nodes_name_and_may_ask_for_the_names_of_pods() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent.toml");
    fs::write(&file, of_kind("ConfigMap")["data"]["agent.toml"].as_str().unwrap()).unwrap();
    let container = container();
    let variable = &container["env"][0];
    assert_eq!(variable["valueFrom"]["fieldRef"]["fieldPath"], "spec.nodeName");
    let mut command = crosstalk();
    command.env(variable["name"].as_str().unwrap(), "node-a");
    command.args(["agent", "--print-config=effective", "--config"]).arg(&file);
    let output = command.output().unwrap();
    assert_accepted(&output);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("\nnode = \"node-a\"\n"), "{printed}");
    assert!(printed.contains("\nkubernetes = true\n"), "{printed}");
    let pod = &of_kind("DaemonSet")["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], true);
    let role = of_kind("ClusterRole");
    assert_eq!(texts(&role["rules"][0]["resources"]), ["pods"]);
    assert_eq!(texts(&role["rules"][0]["verbs"]), ["get", "list", "watch"]);
    let binding = of_kind("ClusterRoleBinding");
    assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
    let account = of_kind("ServiceAccount");
    for key in ["name", "namespace"] {
        assert_eq!(binding["subjects"][0][key], account["metadata"][key]);
    }
    assert_eq!(pod["serviceAccountName"], account["metadata"]["name"]);
}

#[test]
fn the_systemd_unit_starts_with_flags_that_the_command_accepts() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent.toml");
    fs::write(&file, "[recording]\nout = \"/var/lib/crosstalk\"\n").unwrap();
    let unit = deploy("systemd/crosstalk-agent.service");
    let commands: Vec<&str> = unit
        .lines()
        .filter_map(|line| line.split_once('='))
        .filter(|(key, _)| key.starts_with("ExecStart"))
        .map(|(_, command)| command)
        .collect();
    assert_eq!(commands.len(), 2, "{commands:?}");
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        assert!(words[0].ends_with("/crosstalk"), "{command}");
        assert_accepted(&check(&words[1..], &file));
    }
    for key in ["AmbientCapabilities", "CapabilityBoundingSet"] {
        assert!(unit.contains(&format!("\n{key}=CAP_BPF CAP_PERFMON\n")), "{key}");
    }
}

#[test]
fn the_image_and_the_line_that_runs_it_name_commands_and_flags_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent.toml");
    fs::write(&file, "").unwrap();
    let text = deploy("Dockerfile");
    let command = text.lines().find_map(|line| line.strip_prefix("CMD ")).unwrap();
    let words: Vec<String> = serde_json::from_str(command).unwrap();
    assert_accepted(&check(&words.iter().map(String::as_str).collect::<Vec<_>>(), &file));
    let shown = text.lines().find_map(|line| line.split_once("crosstalk:0.1.0 agent ")).unwrap();
    let words: Vec<&str> = ["agent"].into_iter().chain(shown.1.split(' ')).collect();
    assert_accepted(&check(&words, &file));
    assert!(text.lines().any(|line| line.starts_with("USER ") && !line.contains("root")));
}

#[test]
fn the_agent_may_read_node_metrics_and_write_their_status_and_nothing_else() {
    let documents = |file: &str| -> Vec<Value> {
        let text = deploy(file);
        let all = serde_yaml_ng::Deserializer::from_str(&text);
        all.map(|document| Value::deserialize(document).unwrap()).collect()
    };
    let rbac = documents("kubernetes/node-metric/rbac.yaml");
    let mut writes = Vec::new();
    for rule in rbac[0]["rules"].as_sequence().unwrap() {
        let reads = ["get", "list", "watch"];
        if texts(&rule["verbs"]).iter().any(|verb| !reads.contains(verb)) {
            writes.push((texts(&rule["resources"]), texts(&rule["verbs"])));
        }
    }
    assert_eq!(writes, [(vec!["nodemetrics/status"], vec!["update"])]);
    let account = of_kind("ServiceAccount");
    assert_eq!(rbac[1]["subjects"][0]["name"], account["metadata"]["name"]);
    assert_eq!(rbac[1]["subjects"][0]["namespace"], account["metadata"]["namespace"]);
    let crd = &documents("kubernetes/node-metric/crd.yaml")[0];
    let version = &crd["spec"]["versions"][0];
    assert_eq!((&version["name"], &crd["spec"]["scope"]), (&"v1alpha1".into(), &"Cluster".into()));
    assert!(version["subresources"]["status"].is_mapping());
    // What the patch sets are keys there are.
    let patch = &documents("kubernetes/node-metric/agent.patch.yaml")[0];
    let env = &patch["spec"]["template"]["spec"]["containers"][0]["env"];
    let mut command = crosstalk();
    for variable in env.as_sequence().unwrap() {
        let value = variable["value"].as_str().unwrap_or("node-a");
        command.env(variable["name"].as_str().unwrap(), value);
    }
    let printed = command.args(["agent", "--print-config=effective"]).output().unwrap();
    assert_accepted(&printed);
    let printed = String::from_utf8(printed.stdout).unwrap();
    let told = printed.split_once("[node_metric]").unwrap().1;
    assert!(told.contains("mode = \"on\""), "{printed}");
}

#[test]
fn damon_is_chosen_by_what_gives_the_rights_for_it_and_these_are_no_others() {
    let chosen = |name: &str, value: &str| {
        let printed = crosstalk()
            .env(name, value)
            .args(["agent", "--print-config=effective"])
            .output()
            .unwrap();
        assert_accepted(&printed);
        let printed = String::from_utf8(printed.stdout).unwrap();
        assert!(printed.contains("backend = \"damon\""), "{printed}");
    };
    let patch: Value =
        serde_yaml_ng::from_str(&deploy("kubernetes/damon/agent.patch.yaml")).unwrap();
    let pod = &patch["spec"]["template"]["spec"];
    let patched = &pod["containers"][0];
    let variable = &patched["env"][0];
    chosen(variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap());
    // A patch replaces the whole list, so what the agent has already is in it.
    let security = container()["securityContext"].clone();
    let mut rights = texts(&security["capabilities"]["add"]);
    rights.push("SYS_ADMIN");
    assert_eq!(texts(&patched["securityContext"]["capabilities"]["add"]), rights);
    assert_eq!(patched["name"], container()["name"]);
    for mount in patched["volumeMounts"].as_sequence().unwrap() {
        let volumes = pod["volumes"].as_sequence().unwrap();
        let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap();
        // Where the agent, whose host is below /host, looks for it.
        let inside = format!("/host{}", volume["hostPath"]["path"].as_str().unwrap());
        assert_eq!(mount["mountPath"].as_str().unwrap(), inside);
    }

    let drop_in = deploy("systemd/damon.conf");
    let has = |line: &str| assert!(drop_in.lines().any(|is| is == line), "{line}\n{drop_in}");
    let environment = drop_in.lines().find_map(|line| line.strip_prefix("Environment="));
    let (name, value) = environment.unwrap().split_once('=').unwrap();
    chosen(name, value);
    for key in ["AmbientCapabilities", "CapabilityBoundingSet"] {
        has(&format!("{key}=CAP_SYS_ADMIN"));
    }
    has("User=root");
    has("DynamicUser=no");
}

#[test]
fn ageing_is_switched_on_by_what_lets_generations_be_read_and_no_capability_is_added() {
    let ages = |name: &str, value: &str| {
        let printed = crosstalk()
            .env(name, value)
            .args(["agent", "--print-config=effective"])
            .output()
            .unwrap();
        assert_accepted(&printed);
        let printed = String::from_utf8(printed.stdout).unwrap();
        assert!(printed.contains("ageing = true"), "{printed}");
    };
    let patch: Value =
        serde_yaml_ng::from_str(&deploy("kubernetes/ageing/agent.patch.yaml")).unwrap();
    let pod = &patch["spec"]["template"]["spec"];
    let patched = &pod["containers"][0];
    assert_eq!(patched["name"], container()["name"]);
    assert!(patched["securityContext"].is_null());
    let variable = &patched["env"][0];
    ages(variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap());
    let (mount, volume) = (&patched["volumeMounts"][0], &pod["volumes"][0]);
    assert_eq!(mount["name"], volume["name"]);
    // Where the agent, whose host is below /host, looks for it.
    let inside = format!("/host{}", volume["hostPath"]["path"].as_str().unwrap());
    assert_eq!(mount["mountPath"], inside);
    let drop_in = deploy("systemd/ageing.conf");
    let environment = drop_in.lines().find_map(|line| line.strip_prefix("Environment="));
    let (name, value) = environment.unwrap().split_once('=').unwrap();
    ages(name, value);
    assert!(drop_in.lines().any(|line| line == "User=root"));
    assert!(!drop_in.contains("CAP_"), "{drop_in}");
}
