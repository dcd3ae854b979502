//! NodeMetric in a cluster, through all its moods, with kidled's files in a folder. What answers is a stand-in and, where
//! `KUBECONFIG` names one, a real cluster too: the same tests, the same promises. Conflicts, watches that break off and
//! versions that are gone are made by what stands in front of either; the answers to them are the API's own.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod api;
#[path = "../../processor/tests/support/cluster.rs"]
mod cluster;
mod machine;

use api::{Api, Front, What};
use crosstalk_agent::Agent;
use machine::{Machine, eventually};
use serde_json::{Value, json};
use std::sync::Arc;

/// A scene: an API, what stands before it, and a machine whose kidled says that 400 bytes are cold.
struct Scene {
    api: Arc<Api>,
    front: Front,
    machine: Machine,
}

impl Scene {
    /// With the stand-in, and with the cluster if there is one.
    fn every() -> impl Iterator<Item = Self> {
        api::every().into_iter().map(|api| {
            let api = Arc::new(api);
            let (front, machine) = (Front::start(&api), Machine::with_kidled());
            machine.kubeconfig(&format!("http://{}/", front.address), "t1\n");
            Self { api, front, machine }
        })
    }

    /// An agent on the node of this scene.
    fn agent(&self) -> Agent {
        Agent::start(&self.machine.config(&self.api.node)).unwrap()
    }

    /// Waits until the node's usage is told under a policy, and gives its memory.
    fn told_under(&self, policy: &str) -> String {
        eventually(policy, || {
            let metric = &self.api.object(&self.api.node)["status"]["nodeMetric"];
            let told = metric["extensions"]["crosstalk.dev/memory"]["policy"] == policy;
            let memory = metric["nodeUsage"]["resources"]["memory"].as_str().map(str::to_owned);
            memory.filter(|_| told)
        })
    }

    /// Asks for a policy and waits until it is told under it.
    fn obeys(&self, policy: &str) {
        self.api.ask("nodeMemoryCollectPolicy", policy);
        self.told_under(policy);
    }
}

/// How many reports came to this, by the agent's own account.
fn reports(agent: &Agent, result: &str) -> u64 {
    let family = format!("crosstalk_agent_node_metric_reports_total{{result=\"{result}\"}}");
    let text = machine::get(agent.address(), "/metrics");
    let count = text.lines().find_map(|line| line.strip_prefix(&family));
    count.unwrap().trim().parse().unwrap()
}

#[test]
fn the_policy_of_the_object_is_obeyed_as_it_changes_in_both_spellings() {
    for scene in Scene::every() {
        let (api, other) = (&scene.api, format!("{}-other", scene.api.node));
        api.make(&api.node, json!({}));
        api.make(&other, json!({}));
        let theirs = json!({"status": {"prodReclaimableMetric": {"resource": {}}}});
        api.patch("/status", &theirs);
        let _agent = scene.agent();
        assert_eq!(scene.told_under("usageWithoutPageCache"), (200 * 1024).to_string());
        for (key, policy, bytes) in [
            ("nodeMemoryCollectPolicy", "usageWithPageCache", 700 * 1024),
            ("memoryCollectPolicy", "usageWithHotPageCache", 700 * 1024 - 400),
        ] {
            api.ask(key, policy);
            assert_eq!(scene.told_under(policy), bytes.to_string());
        }
        let status = &api.object(&api.node)["status"];
        assert!(status["updateTime"].as_str().unwrap().ends_with('Z'), "{status}");
        let kept = &status["prodReclaimableMetric"];
        assert_eq!(*kept, json!({"resource": {}}), "somebody else's stays");
        let other = api.object(&other);
        assert_eq!(other["status"]["nodeMetric"], Value::Null, "another node's is left alone");
    }
}

#[test]
fn a_report_that_met_another_writer_is_made_anew_on_what_that_one_wrote() {
    for scene in Scene::every() {
        scene.api.make(&scene.api.node, json!({}));
        scene.front.let_others_come_first(3);
        let agent = scene.agent();
        scene.told_under("usageWithoutPageCache");
        let object = scene.api.object(&scene.api.node);
        assert_eq!(object["metadata"]["labels"]["rival"], "0", "what the others wrote is there");
        eventually("the answer", || (reports(&agent, "done") > 0).then_some(()));
        let answered = [409, 200].map(|code| scene.front.count(What::Report, code));
        assert_eq!(answered, [3, 1]);
        assert_eq!((reports(&agent, "conflict"), reports(&agent, "done")), (3, 1));
    }
}

#[test]
fn watches_that_break_off_and_versions_that_are_gone_are_survived() {
    for scene in Scene::every() {
        scene.api.make(&scene.api.node, json!({}));
        let _agent = scene.agent();
        scene.told_under("usageWithoutPageCache");
        let asked = |what: What| scene.front.count(what, 200);
        eventually("a watch", || (asked(What::Watch) > 0).then_some(()));
        // A watch that breaks off is begun again where it was: nothing is listed anew.
        let (lists, watches) = (asked(What::List), asked(What::Watch));
        scene.front.drop_watches();
        eventually("another watch", || (asked(What::Watch) > watches).then_some(()));
        scene.obeys("usageWithPageCache");
        assert_eq!(asked(What::List), lists);
        // A version that is gone means a new list.
        scene.front.forget_versions();
        eventually("another list", || (asked(What::List) > lists).then_some(()));
        scene.obeys("usageWithHotPageCache");
    }
}

#[test]
fn a_token_that_is_refused_is_read_again() {
    for scene in Scene::every() {
        let (api, machine) = (&scene.api, &scene.machine);
        let (token, _left) = api.introduce(machine, "nobody\n");
        api.make(&api.node, json!({}));
        let agent = scene.agent();
        eventually("a refusal", || (reports(&agent, "failed") > 0).then_some(()));
        assert_eq!(reports(&agent, "done"), 0);
        machine.put("token", format!("{token}\n"));
        scene.told_under("usageWithoutPageCache");
        // One that was good until now, too.
        let refused = reports(&agent, "failed");
        if api.take_only("t2") {
            eventually("another refusal", || (reports(&agent, "failed") > refused).then_some(()));
            machine.put("token", "t2\n");
            scene.obeys("usageWithPageCache");
        }
    }
}

#[test]
fn an_object_that_is_made_later_is_found() {
    for scene in Scene::every() {
        scene.api.make(&format!("{}-other", scene.api.node), json!({}));
        let _agent = scene.agent();
        let watched = || scene.front.count(What::Watch, 200) > 0;
        eventually("a watch", || watched().then_some(()));
        scene.api.make(&scene.api.node, json!({}));
        scene.told_under("usageWithoutPageCache");
    }
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
