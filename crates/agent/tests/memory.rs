//! `GET /memory` and what Prometheus is told of memory, on a machine in a folder.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod machine;

use crosstalk_agent::Agent;
use crosstalk_agent::config::Mode;
use machine::{Machine, eventually, get};
use serde_json::{Value, json};

const UID: &str = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
const ID: &str = "4f1d2c3b4a5968778695a4b3c2d1e0f00112233445566778899aabbccddeeff0";

fn answer(agent: &Agent, query: &str) -> Value {
    serde_json::from_str(&get(agent.address(), &format!("/memory{query}"))).unwrap()
}

fn start(machine: &Machine) -> Agent {
    machine.group(&format!("/kubepods/pod{UID}"), 7);
    machine.group(&format!("/kubepods/pod{UID}/{ID}"), 5);
    machine.group("/system.slice", 2);
    // A container whose ages cannot be read costs the others nothing.
    let broken = format!("/docker/{}", "a".repeat(64));
    machine.group(&broken, 0);
    machine.put(&format!("sys/fs/cgroup{broken}/memory.idle_page_stats"), "# x\n");
    let mut config = machine.config("node-a");
    config.node_metric.mode = Mode::Off;
    config.memory.policy = "usageWithHotPageCache".to_owned();
    config.memory.durations = vec![crosstalk_agent::config::Period::seconds(2)];
    let agent = Agent::start(&config).unwrap();
    eventually("a round", || (!answer(&agent, "")["node"].is_null()).then_some(()));
    agent
}

#[test]
fn memory_is_told_of_everybody_under_every_policy_with_what_could_not_be_read() {
    let machine = Machine::with_kidled();
    let agent = start(&machine);
    let all = answer(&agent, "");
    assert_eq!(
        (&all["backend"], &all["policy"]),
        (&json!("kidled"), &json!("usageWithHotPageCache"))
    );
    assert_eq!(all["node"]["usage_bytes"], 700 * 1024 - 400);
    assert_eq!(all["node"]["usageWithoutPageCache"], 200 * 1024);
    let pod = &all["pods"][0];
    assert_eq!((&pod["pod_uid"], &pod["cold_bytes"]), (&json!(UID), &json!(28)));
    assert_eq!((&pod["usageWithPageCache"], &pod["usage_bytes"]), (&json!(51_000), &json!(50_972)));
    let cold: Vec<&Value> =
        pod["ages"].as_array().unwrap().iter().filter(|cell| cell["cold_bytes"] != 0).collect();
    assert_eq!(cold.len(), 1, "{pod}");
    assert_eq!((&cold[0]["kind"], &cold[0]["from_ms"]), (&json!("file"), &json!(300_000)));
    let containers = all["containers"].as_array().unwrap();
    let of =
        |id: &str| containers.iter().find(|container| container["container_id"] == id).unwrap();
    assert_eq!((containers.len(), &of(ID)["cold_bytes"]), (2, &json!(20)));
    let broken = of(&"a".repeat(64));
    assert!(broken["problem"].is_string() && broken["cold_bytes"].is_null(), "{broken}");
    assert_eq!(broken["usage_bytes"], 3_000);
    // One of them has no ages, so the remainder is of all without page cache.
    let system = &all["system"];
    assert_eq!(system["usage_policy"], "usageWithoutPageCache");
    assert_eq!(system["usage_bytes"], 200 * 1024 - 6_000);
    assert!(system["fallback"].as_str().unwrap().contains("usageWithHotPageCache has no data"));
    assert!(all["cgroups"].is_null());
    let cgroups = answer(&agent, "?subject=cgroup&top=1");
    assert_eq!(cgroups["cgroups"][0]["cgroup"], "/system.slice");
    assert!(cgroups["node"].is_null() && cgroups["pods"].is_null());
    let wrong = answer(&agent, "?subject=planet");
    assert_eq!((&wrong["status"], &wrong["parameter"]), (&json!(400), &json!("subject")));
}

#[test]
fn usage_is_aggregated_over_the_durations_of_the_configuration() {
    let machine = Machine::with_kidled();
    let agent = start(&machine);
    let over = eventually("two rounds", || {
        let over = answer(&agent, "?subject=node")["node"]["aggregates"][0].clone();
        (over["samples_count"].as_u64() >= Some(2)).then_some(over)
    });
    assert_eq!(over["duration_seconds"], 2.0);
    for name in ["avg", "p50", "p90", "p95", "p99"] {
        assert_eq!(over["usageWithHotPageCache"][name], (700 * 1024 - 400) as f64, "{name}");
        assert_eq!(over["cold_bytes"][name], 400.0, "{name}");
    }
}

#[test]
fn a_window_has_memory_beside_the_metrics_unless_some_were_chosen() {
    let machine = Machine::with_kidled();
    let agent = start(&machine);
    let asked = |query: &str| -> Value {
        serde_json::from_str(&get(agent.address(), &format!("/metrics?{query}"))).unwrap()
    };
    let memory = eventually("a look within the window", || {
        let memory = asked("window_seconds=10")["memory"].clone();
        memory["window"].is_object().then_some(memory)
    });
    assert_eq!(memory["usage_bytes"], 700 * 1024 - 400);
    assert_eq!((&memory["backend"], &memory["cold_bytes"]), (&json!("kidled"), &json!(400)));
    assert_eq!(memory["window"]["cold_bytes"]["p99"], 400.0);
    assert!(memory["age_seconds"].as_f64().unwrap() >= 0.0);
    assert!(memory.get("ages").is_none(), "these are behind /memory");
    assert!(asked("window_seconds=10&metrics=cpu_util").get("memory").is_none());
}

#[test]
fn prometheus_is_told_cold_bytes_by_subject_kind_age_and_back_end_and_usage_by_policy() {
    let machine = Machine::with_kidled();
    let agent = start(&machine);
    let text = get(agent.address(), "/metrics");
    let has = |line: &str| assert!(text.lines().any(|is| is == line), "{line}\n{text}");
    has("crosstalk_node_memory_cold_bytes{kind=\"file\",age=\"300\",backend=\"kidled\"} 400");
    has(&format!(
        "crosstalk_pod_memory_cold_bytes{{pod_uid=\"{UID}\",kind=\"file\",age=\"300\",backend=\"kidled\"}} 28"
    ));
    has(&format!(
        "crosstalk_container_memory_usage_bytes{{container_id=\"{ID}\",pod_uid=\"{UID}\",policy=\"usageWithHotPageCache\"}} 50980"
    ));
    has("crosstalk_system_memory_usage_bytes{policy=\"usageWithoutPageCache\"} 198800");
    has("crosstalk_node_memory_usage_bytes{policy=\"usageWithPageCache\"} 716800");
}

#[test]
fn prometheus_is_told_what_is_cold_of_the_system_where_it_is_known_of_all_others() {
    let machine = Machine::with_kidled();
    machine.group(&format!("/kubepods/pod{UID}"), 7);
    machine.group(&format!("/kubepods/pod{UID}/{ID}"), 5);
    let mut config = machine.config("node-a");
    config.node_metric.mode = Mode::Off;
    let agent = Agent::start(&config).unwrap();
    let of = |text: &str| {
        let name =
            "crosstalk_system_memory_cold_bytes{kind=\"file\",age=\"300\",backend=\"kidled\"}";
        text.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
    };
    let cold = eventually("cold bytes", || of(&get(agent.address(), "/metrics")));
    assert_eq!(cold, (400 - 28).to_string());
    assert_eq!(answer(&agent, "")["system"]["cold_bytes"], 400 - 28);
}

#[test]
fn age_and_kinds_of_the_configuration_say_what_is_cold() {
    let machine = Machine::with_kidled();
    let mut config = machine.config("node-a");
    config.node_metric.mode = Mode::Off;
    config.sources.coldmem.age = crosstalk_agent::config::Period::seconds(100);
    config.sources.coldmem.kinds = vec!["anon".to_owned(), "slab".to_owned()];
    let agent = Agent::start(&config).unwrap();
    let all = eventually("a round", || {
        let all = answer(&agent, "");
        (!all["node"].is_null()).then_some(all)
    });
    // Eight rows of anonymous memory and one of slab, of which a byte each is idle for 100 s and 100 for 300 s.
    assert_eq!(all["node"]["cold_bytes"], 9 * 101, "{all:#}");
    assert!(all["ages_age_seconds"].as_f64().unwrap() >= 0.0, "{all:#}");
}

#[test]
fn a_source_that_is_switched_off_is_said_to_be() {
    let machine = Machine::with_kidled();
    let mut config = machine.config("node-a");
    config.node_metric.mode = Mode::Off;
    config.sources.coldmem.mode = Mode::Off;
    let agent = Agent::start(&config).unwrap();
    let answer = answer(&agent, "");
    assert_eq!(answer["verdict"], "off");
    assert!(
        answer["node"].is_null()
            && answer["fix"].as_str().unwrap().contains("sources.coldmem.mode")
    );
    assert!(!get(agent.address(), "/metrics").contains("memory_cold_bytes"));
}

#[test]
fn a_back_end_that_somebody_else_uses_costs_ages_and_not_usage() {
    let machine = Machine::with_kidled();
    let kdamonds = "sys/kernel/mm/damon/admin/kdamonds";
    machine.put(&format!("{kdamonds}/nr_kdamonds"), "1\n");
    machine.put(&format!("{kdamonds}/0/state"), "on\n");
    machine.put(&format!("{kdamonds}/0/pid"), "77\n");
    machine.put("proc/sys/kernel/osrelease", "6.12.1\n");
    let mut config = machine.config("node-a");
    config.node_metric.mode = Mode::Off;
    config.sources.coldmem.backend = "damon".to_owned();
    config.memory.policy = "usageWithHotPageCache".to_owned();
    let agent = Agent::start(&config).unwrap();
    let all = eventually("a round", || {
        let all = answer(&agent, "");
        (!all["node"].is_null()).then_some(all)
    });
    assert_eq!((&all["backend"], &all["verdict"]), (&json!("bounds"), &json!("limited")));
    assert!(all["found"].as_str().unwrap().contains("pid 77"), "{all:#}");
    assert_eq!(all["node"]["usageWithoutPageCache"], 200 * 1024);
    assert!(all["node"]["fallback"].as_str().unwrap().contains("usageWithHotPageCache"));
    assert!(all["node"]["cold_bytes"].is_null());
    assert_eq!(all["node"]["refaults"], 6);
}

#[test]
fn while_it_warms_up_nothing_is_called_cold_not_even_nothing() {
    let machine = Machine::with_kidled();
    let file = "sys/fs/cgroup/memory.idle_page_stats";
    let idle = std::fs::read_to_string(machine.path(file)).unwrap();
    machine.put(file, idle.replace("page_scans: 9", "page_scans: 2"));
    let mut config = machine.config("node-a");
    config.node_metric.mode = Mode::Off;
    let agent = Agent::start(&config).unwrap();
    let node = eventually("a round", || {
        let node = answer(&agent, "")["node"].clone();
        (!node.is_null()).then_some(node)
    });
    let cells = node["ages"].as_array().unwrap();
    assert!(!cells.is_empty() && cells.iter().all(|cell| cell["cold_bytes"].is_null()), "{node:#}");
    assert!(!get(agent.address(), "/metrics").contains("node_memory_cold_bytes"));
}
