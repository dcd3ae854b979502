use super::*;
use crate::memory::Memory;
use crosstalk_coldmem::{Backend, Policy, UsageRow};
use crosstalk_inventory::{Facts, Inventory, Pod};
use crosstalk_model::Placement;

const SECOND: u64 = 1_000_000_000;

fn row(path: &str, uid: Option<&str>, (without, with): (u64, u64), cold: Option<u64>) -> UsageRow {
    let place = Placement { pod_uid: uid.map(Into::into), ..Placement::default() };
    UsageRow {
        slot_start_ns: 5,
        cgroup_id: u64::from(path != "/"),
        cgroup: path.into(),
        place: Arc::new(place),
        backend: Backend::Kidled,
        without_page_cache: Some(without),
        with_page_cache: Some(with),
        cold_bytes: cold,
        at_most_bytes: None,
        refaults: None,
        stalled_ns: None,
        problem: None,
    }
}

/// A node with a pod whose name is known and one whose name is not, watched for five minutes until now.
fn reported(policy: Policy, cold: Option<u64>) -> Reported {
    let minute = Duration::from_secs(60);
    let memory = Memory::new(vec![minute * 5, minute * 10], policy, 8);
    let now_ns = monotonic_ns() + 3_600 * SECOND;
    let mut cpu = CpuUse::default();
    for age in (0..6).rev() {
        let rows = [
            row("/", None, (1_000, 4_000), cold),
            row("/p/a", Some("uid-a"), (100, 400), cold.map(|cold| cold / 10)),
            row("/p/b", Some("uid-b"), (10, 40), cold.map(|cold| cold / 10)),
        ];
        let end_ns = now_ns - age * 60 * SECOND;
        memory.take_usage(&rows, end_ns);
        cpu.node.push(end_ns, [Some(1.0 + age as f64 / 10.0)]);
        cpu.pods.entry("uid-a".into()).or_default().push(end_ns, [Some(0.25)]);
    }
    let inventory = Inventory::new(Duration::ZERO);
    let known = Pod {
        name: "a".into(),
        namespace: "ns".into(),
        uid: "uid-a".into(),
        priority: "koord-batch".into(),
        ..Pod::default()
    };
    inventory.update("test", Facts { pods: vec![known], ..Facts::default() });
    let mut node = Node::new(Vec::new(), minute);
    node.inventory = Some(inventory);
    let policy = CollectPolicy {
        aggregate: minute * 5,
        every: minute,
        durations: memory.durations.clone(),
        memory: policy,
    };
    node.memory = Arc::new(memory);
    let host = HostRoot::default();
    Reported {
        node: Arc::new(node),
        name: "n".to_owned(),
        policy,
        host,
        cpu: Mutex::new(cpu),
        without_memory: false,
        began: Instant::now(),
    }
}

/// The status as of when the last sample was taken.
fn status(reported: &Reported) -> Value {
    let memory = reported.node.memory.newest();
    let known = Known {
        node: &reported.node,
        memory: memory.as_deref(),
        cpu: &reported.cpu.lock().unwrap(),
        policy: &reported.policy,
        now_ns: memory.as_ref().unwrap().round.end_ns,
        update_time: "2026-01-02T03:04:05Z".to_owned(),
    };
    Value::Object(known.status())
}

#[test]
fn every_policy_counts_for_node_pods_and_system_alike() {
    let node_pod_system = |policy| {
        let status = status(&reported(policy, Some(500)));
        let text = |value: &Value| value["resources"]["memory"].as_str().unwrap().to_owned();
        let node = &status["nodeMetric"];
        let pod = &status["podsMetric"][0];
        [text(&node["nodeUsage"]), text(&pod["podUsage"]), text(&node["systemUsage"])]
    };
    assert_eq!(node_pod_system(Policy::UsageWithoutPageCache), ["1000", "100", "890"]);
    assert_eq!(node_pod_system(Policy::UsageWithPageCache), ["4000", "400", "3560"]);
    // More is cold of the other pod than it uses: that is none of it, and no less.
    assert_eq!(node_pod_system(Policy::UsageWithHotPageCache), ["3500", "350", "3150"]);
}

#[test]
fn a_policy_without_data_falls_back_says_so_and_costs_processor_time_nothing() {
    let status = status(&reported(Policy::UsageWithHotPageCache, None));
    let node = &status["nodeMetric"];
    assert_eq!(node["nodeUsage"]["resources"]["memory"], "1000");
    assert_eq!(node["nodeUsage"]["resources"]["cpu"], "1200m");
    assert_eq!(node["systemUsage"]["resources"], json!({"cpu": "950m", "memory": "890"}));
    let about = &node["extensions"]["crosstalk.dev/memory"];
    assert_eq!(about["policy"], "usageWithoutPageCache");
    assert_eq!(about["fallback"], "usageWithHotPageCache has no data here");
    assert!(about.get("coldBytes").is_none());
    let system = &node["extensions"]["crosstalk.dev/system-memory"];
    assert_eq!(system["policy"], "usageWithoutPageCache", "{node:#}");
}

#[test]
fn memory_that_is_looked_at_more_rarely_than_the_time_is_long_is_told_as_it_was_last() {
    let reported = reported(Policy::UsageWithHotPageCache, Some(500));
    let length = Duration::from_secs(600);
    let memory =
        Memory::new(vec![Duration::from_secs(300)], reported.policy.memory, 8).every(length);
    let now_ns = monotonic_ns() + 7_200 * SECOND;
    for age_s in [1_200, 600] {
        memory.take_usage(&[row("/", None, (1_000, 4_000), Some(500))], now_ns - age_s * SECOND);
    }
    let published = memory.newest().unwrap();
    let node = |later_s: u64| {
        let known = Known {
            node: &reported.node,
            memory: Some(&published),
            cpu: &CpuUse::default(),
            policy: &reported.policy,
            now_ns: now_ns + later_s * SECOND,
            update_time: String::new(),
        };
        known.status()["nodeMetric"].clone()
    };
    for policy in ["nodeUsage", "systemUsage"] {
        assert_eq!(node(0)[policy]["resources"]["memory"], "3500", "{policy}");
    }
    assert_eq!(node(0)["aggregatedNodeUsages"], json!([]), "a moment is no five minutes");
    let silent = node(1_300);
    assert!(silent["nodeUsage"]["resources"].get("memory").is_none(), "{silent:#}");
}

#[test]
fn processor_time_is_told_where_nobody_measures_memory() {
    let mut reported = reported(Policy::UsageWithoutPageCache, None);
    let empty = Memory::new(Vec::new(), Policy::UsageWithoutPageCache, 8);
    Arc::get_mut(&mut reported.node).unwrap().memory = Arc::new(empty);
    reported.cpu.lock().unwrap().node.push(monotonic_ns(), [Some(1.5)]);
    assert!(!reported.is_known(), "memory may still come");
    reported.without_memory = true;
    assert!(reported.is_known());
    let status = reported.status(&reported.policy);
    let resources = &status["nodeMetric"]["nodeUsage"]["resources"];
    assert!(resources.get("memory").is_none() && resources.get("cpu").is_some(), "{status:#?}");
}

#[test]
fn pods_keep_their_processor_time_where_nobody_measures_memory() {
    let mut reported = reported(Policy::UsageWithoutPageCache, None);
    let now_ns = reported.node.memory.newest().unwrap().round.end_ns;
    let empty = Memory::new(Vec::new(), Policy::UsageWithoutPageCache, 8);
    Arc::get_mut(&mut reported.node).unwrap().memory = Arc::new(empty);
    let known = Known {
        node: &reported.node,
        memory: None,
        cpu: &reported.cpu.lock().unwrap(),
        policy: &reported.policy,
        now_ns,
        update_time: String::new(),
    };
    let status = Value::Object(known.status());
    assert_eq!(status["podsMetric"][0]["podUsage"]["resources"], json!({"cpu": "250m"}));
    // What pods use is none of the system's.
    assert_eq!(status["nodeMetric"]["systemUsage"]["resources"], json!({"cpu": "950m"}));
}

#[test]
fn a_pod_of_a_round_long_ago_is_not_told_of() {
    let reported = reported(Policy::UsageWithHotPageCache, Some(500));
    let memory = reported.node.memory.newest().unwrap();
    let pods_after = |seconds: u64| {
        let known = Known {
            node: &reported.node,
            memory: Some(&memory),
            cpu: &reported.cpu.lock().unwrap(),
            policy: &reported.policy,
            now_ns: memory.round.end_ns + seconds * 1_000_000_000,
            update_time: String::new(),
        };
        known.status()["podsMetric"].as_array().unwrap().len()
    };
    assert_eq!((pods_after(0), pods_after(3600)), (1, 0));
}

#[test]
fn durations_are_aggregated_over_once_enough_of_them_is_known() {
    let status = status(&reported(Policy::UsageWithHotPageCache, Some(500)));
    let all = status["nodeMetric"]["aggregatedNodeUsages"].as_array().unwrap();
    assert_eq!(all.len(), 1, "five minutes are no ten: {all:?}");
    assert_eq!(all[0]["duration"], "5m0s");
    assert_eq!(all[0]["usage"]["avg"]["resources"], json!({"cpu": "1200m", "memory": "3500"}));
    assert_eq!(all[0]["usage"]["p99"]["resources"]["cpu"], "1400m");
    for name in ["p50", "p90", "p95"] {
        assert_eq!(all[0]["usage"][name]["resources"]["memory"], "3500", "{name}");
    }
    let pods = status["podsMetric"].as_array().unwrap();
    assert_eq!(pods.len(), 1, "a pod without a name cannot be told of");
    assert_eq!((&pods[0]["name"], &pods[0]["namespace"]), (&json!("a"), &json!("ns")));
    assert_eq!((&pods[0]["priority"], pods[0].get("qos")), (&json!("koord-batch"), None));
    assert_eq!(pods[0]["podUsage"]["resources"]["cpu"], "250m");
    assert_eq!(pods[0]["extensions"]["crosstalk.dev/memory"]["coldBytes"], 50);
}

#[test]
fn the_object_in_a_file_is_whole_and_has_the_spec_it_was_made_under() {
    let reported = reported(Policy::UsageWithPageCache, None);
    let object = reported.object();
    assert_eq!((&object["kind"], &object["metadata"]["name"]), (&json!("NodeMetric"), &json!("n")));
    let (policy, remarks) = reported.policy.obeying(&object["spec"]);
    assert_eq!((policy, remarks), (reported.policy.clone(), Vec::new()));
}
