//! Whose a sample is, by the time it was taken.
#![allow(clippy::unwrap_used)]

mod support;

use crosstalk_processor::config::{Endpoint, Period};
use crosstalk_remote_write::STALE_MARKER_BITS;
use std::time::{SystemTime, UNIX_EPOCH};
use support::http::get;
use support::sink::{Arrived, Sink};
use support::write::write;
use support::{Service, eventually};

const GPU: &[(&str, &str)] = &[("__name__", "util"), ("gpu_id", "0"), ("node", "node-a")];

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

fn pods(holder: Option<&str>) -> String {
    let pod = |name: &str| {
        let devices = if holder == Some(name) { "[{type: gpu, device: 0}]" } else { "[]" };
        format!(
            "- {{name: {name}, namespace: ml, uid: {name}-uid, node: node-a, \
             workloads: [{{name: w-{name}, uid: w-{name}}}], devices: {devices}}}\n"
        )
    };
    format!("pods:\n{}{}", pod("a"), pod("b"))
}

struct Node {
    service: Service,
    sink: Sink,
    file: std::path::PathBuf,
}

impl Node {
    fn start() -> Node {
        Node::start_with(|_| {})
    }

    fn start_with(change: impl FnOnce(&mut crosstalk_processor::Config)) -> Node {
        let sink = Sink::start();
        let mut file = std::path::PathBuf::new();
        let service = Service::start(|config| {
            file = config.data_dir.with_file_name("pods.yaml");
            std::fs::write(&file, pods(Some("a"))).unwrap();
            config.cache.static_file = Some(file.clone());
            config.cache.refresh = Period::millis(100);
            config.endpoints = vec![Endpoint { in_flight: 1, ..Endpoint::new("s", sink.url()) }];
            change(config);
        });
        Node { service, sink, file }
    }

    /// Gives the device to another pod, or to none; from when on, in milliseconds.
    fn hand_over(&self, holder: Option<&str>) -> i64 {
        std::fs::write(&self.file, pods(holder)).unwrap();
        eventually("the new holder", || {
            let devices = get(self.service.address, "/pods/cache").json();
            let held = &devices["node-a"]["gpu_id"]["0"];
            (held.get(0).and_then(|pod| pod.as_str()) == holder).then_some(())
        });
        now_ms()
    }

    fn send(&self, samples: &[(f64, i64)]) -> Vec<Arrived> {
        let before = self.sink.series().len();
        assert_eq!(write(self.service.address, &[(GPU, samples)]).status, 204);
        let delivered = "crosstalk_processor_queue_bytes{endpoint=\"s\"}";
        eventually("delivery", || (self.service.metric(delivered) == 0.0).then_some(()));
        self.sink.series().split_off(before)
    }
}

/// Whose a series is, with its samples: value or `stale`, and time.
fn told(arrived: &[Arrived]) -> Vec<(String, Vec<(String, i64)>)> {
    let value = |bits: u64| match bits {
        STALE_MARKER_BITS => "stale".to_owned(),
        bits => f64::from_bits(bits).to_string(),
    };
    let series = |arrived: &Arrived| {
        let uid = arrived.labels.split(' ').find_map(|label| label.strip_prefix("workload_uid="));
        let samples = arrived.samples.iter().map(|(bits, time)| (value(*bits), *time)).collect();
        (uid.unwrap().to_owned(), samples)
    };
    arrived.iter().map(series).collect()
}

fn one(uid: &str, value: &str, time: i64) -> (String, Vec<(String, i64)>) {
    (uid.to_owned(), vec![(value.to_owned(), time)])
}

#[test]
fn a_backlog_goes_to_who_held_the_device_then_and_the_one_before_is_ended() {
    let node = Node::start();
    let start = now_ms();
    assert_eq!(told(&node.send(&[(1.0, start)])), [one("w-a", "1", start)]);
    assert_eq!(told(&node.send(&[(1.5, start + 1)])), [one("w-a", "1.5", start + 1)]);
    let after = node.hand_over(Some("b"));
    let arrived = told(&node.send(&[(2.0, after)]));
    assert_eq!(arrived, [one("w-a", "stale", after), one("w-b", "2", after)]);
    assert_eq!(told(&node.send(&[(2.5, after + 1)])), [one("w-b", "2.5", after + 1)], "once");

    // An hour's backlog, and one that spans the change.
    let hour = start - 3_600_000;
    assert_eq!(told(&node.send(&[(0.5, hour)])), [one("w-a", "0.5", hour)]);
    let arrived = told(&node.send(&[(3.0, hour + 1), (4.0, after + 2)]));
    assert_eq!(arrived, [one("w-a", "3", hour + 1), one("w-b", "4", after + 2)]);
    assert_eq!(told(&node.send(&[(5.0, after + 3)])), [one("w-b", "5", after + 3)]);
}

#[test]
fn the_one_before_is_ended_whatever_else_becomes_of_a_series_and_whatever_the_store_speaks() {
    let keeping = Node::start_with(|config| config.enrichment.keep_original = true);
    let of_two = Node::start_with(|config| {
        config.endpoints[0].protocol = crosstalk_processor::config::EndpointProtocol::V2;
    });
    for node in [&keeping, &of_two] {
        node.send(&[(1.0, now_ms())]);
        let after = node.hand_over(Some("b"));
        let arrived = node.send(&[(2.0, after)]);
        let of_workloads: Vec<Arrived> =
            arrived.into_iter().filter(|series| series.labels.contains("workload_uid=")).collect();
        assert_eq!(told(&of_workloads), [one("w-a", "stale", after), one("w-b", "2", after)]);
    }
}

#[test]
fn a_device_that_was_given_back_is_nobodys() {
    let node = Node::start();
    let start = now_ms();
    assert_eq!(told(&node.send(&[(1.0, start)])), [one("w-a", "1", start)]);
    let after = node.hand_over(None);
    assert_eq!(told(&node.send(&[(0.0, after)])), [one("w-a", "stale", after)]);
    assert!(node.send(&[(0.0, after + 1)]).is_empty());
    let idle = "crosstalk_processor_enrichment_misses_total{reason=\"idle_device\"}";
    assert_eq!(node.service.metric(idle), 2.0);
    // With its pod too: grace is for names.
    std::fs::write(&node.file, pods(Some("a"))).unwrap();
    node.hand_over(Some("a"));
    std::fs::write(&node.file, "pods: []\n").unwrap();
    let departed = "crosstalk_processor_cache_departed_pods";
    eventually("both pods gone", || (node.service.metric(departed) == 2.0).then_some(()));
    assert!(node.send(&[(0.0, now_ms())]).is_empty());
    let named: &[(&str, &str)] = &[("__name__", "late"), ("namespace", "ml"), ("pod", "a")];
    assert_eq!(write(node.service.address, &[(named, &[(1.0, now_ms())])]).status, 204);
    eventually("a late sample by name", || {
        node.sink.series().last().filter(|s| s.labels.contains("workload_late")).map(drop)
    });
}

#[test]
fn what_agents_report_finds_the_pod_and_after_a_restart_bills_nobody_for_what_may_be_handed_over() {
    let node = Node::start();
    let report = |node_name: &str, pod: &str| {
        serde_json::json!({"node": node_name, "devices": [
            {"resource": "nvidia.com/gpu", "device": "GPU-5f1c", "namespace": "ml", "pod": pod, "container": "main"},
            {"resource": "rdma/hca", "device": "mlx5_0", "namespace": "ml", "pod": pod},
        ]})
        .to_string()
    };
    let headers = [("Content-Type", "application/json")];
    let send = |service: &Service, body: &str| {
        let address = service.address;
        support::http::send(address, "POST", "/devices", &headers, body.as_bytes()).status
    };
    assert_eq!(send(&node.service, "{}"), 400);
    assert_eq!(send(&node.service, &report("node-b", "b")), 204);
    let held = |service: &Service, pod: &str| {
        eventually("the report", || {
            let devices = get(service.address, "/pods/cache").json();
            let held = &devices["node-b"]["gpu_uuid"]["GPU-5f1c"];
            (held[0] == pod && held[1] == format!("{pod}-uid")).then_some(())
        });
    };
    held(&node.service, "b");
    // As DCGM's exporter has it, scraped without honor_labels: the pod is the exporter's.
    let dcgm: &[(&str, &str)] = &[
        ("Hostname", "node-b"),
        ("UUID", "GPU-5f1c"),
        ("__name__", "DCGM_FI_DEV_GPU_UTIL"),
        ("gpu", "0"),
        ("namespace", "gpu-operator"),
        ("pod", "nvidia-dcgm-exporter-x"),
    ];
    assert_eq!(write(node.service.address, &[(dcgm, &[(7.0, now_ms())])]).status, 204);
    let arrived = node.sink.wait_for(1);
    assert_eq!(told(&arrived)[0].0, "w-b");

    // Whether or not agents are announced.
    let mut service = node.service;
    for (agents, holder) in [(false, "a"), (true, "b")] {
        let (file, url) = (node.file.clone(), node.sink.url());
        let a_minute_ago = now_ms() - 60_000;
        service = service.restart(|config| {
            config.cache.static_file = Some(file);
            config.cache.agents = agents;
            config.endpoints = vec![Endpoint::new("s", url)];
        });
        service.wait_until_ready();
        // What was taken before the restart goes to who is known to have held the card then.
        let before = node.sink.series().len();
        let since = now_ms();
        assert_eq!(write(service.address, &[(dcgm, &[(8.0, a_minute_ago)])]).status, 204);
        assert_eq!(told(&node.sink.wait_for(before + 1))[before].0, "w-b");
        // Who holds it now is not known: it was handed over while nobody listened.
        assert_eq!(write(service.address, &[(dcgm, &[(9.0, since)])]).status, 503);
        assert_eq!(send(&service, &report("node-b", holder)), 204);
        held(&service, holder);
        let now = now_ms();
        eventually("the agents are heard", || {
            (write(service.address, &[(dcgm, &[(9.0, now)])]).status == 204).then_some(())
        });
        let arrived = eventually("the new holder's", || {
            let series = node.sink.series().split_off(before + 1);
            let of = |s: &&Arrived| s.labels.contains(&format!("workload_uid=w-{holder} "));
            series.iter().find(of).cloned()
        });
        assert_eq!(told(&[arrived]), [one(&format!("w-{holder}"), "9", now)], "agents = {agents}");
    }
}

#[test]
fn a_job_that_was_submitted_again_under_its_name_does_not_get_the_first_ones_backlog() {
    let node = Node::start();
    report(&node, &[("nvidia.com/gpu", "GPU-5f1c", "a")]);
    let gpu: &[(&str, &str)] = &[("UUID", "GPU-5f1c"), ("__name__", "util"), ("node", "node-b")];
    let send = |samples: &[(f64, i64)]| {
        let before = node.sink.series().len();
        assert_eq!(write(node.service.address, &[(gpu, samples)]).status, 204);
        let delivered = "crosstalk_processor_queue_bytes{endpoint=\"s\"}";
        eventually("delivery", || (node.service.metric(delivered) == 0.0).then_some(()));
        told(&node.sink.series().split_off(before))
    };
    let first = now_ms();
    assert_eq!(send(&[(1.0, first)]), [one("w-a", "1", first)]);
    let again = pods(None).replace("a-uid", "a2-uid").replace("w-a", "w-a2");
    std::fs::write(&node.file, again).unwrap();
    eventually("the second", || {
        let devices = get(node.service.address, "/pods/cache").json();
        (devices["node-b"]["gpu_uuid"]["GPU-5f1c"][1] == "a2-uid").then_some(())
    });
    let second = now_ms();
    // What the first run's exporter kept, and a body that spans both.
    let late = send(&[(2.0, first + 1)]);
    assert_eq!(late, [one("w-a", "2", first + 1)]);
    let both = send(&[(3.0, first + 2), (4.0, second)]);
    assert_eq!(both, [one("w-a", "3", first + 2), one("w-a2", "4", second)]);
}

/// Sends a report of node-b's devices: resource, id and pod of each.
fn report(node: &Node, devices: &[(&str, &str, &str)]) {
    let given = |(resource, device, pod): &(&str, &str, &str)| serde_json::json!({"resource": resource, "device": device, "namespace": "ml", "pod": pod});
    let devices: Vec<_> = devices.iter().map(given).collect();
    let body = serde_json::json!({"node": "node-b", "devices": devices}).to_string();
    let (address, headers) = (node.service.address, [("Content-Type", "application/json")]);
    let answer = support::http::send(address, "POST", "/devices", &headers, body.as_bytes());
    assert_eq!(answer.status, 204, "{}", answer.text());
    eventually("the report", || get(address, "/pods/cache").json().get("node-b").map(drop));
}

/// Who a series with these labels more is billed to.
fn billed(node: &Node, labels: &[(&str, &str)]) -> Option<String> {
    let exporter = [
        ("__name__", "util"),
        ("hostname", "node-b"),
        ("namespace", "gpu-operator"),
        ("pod", "nvidia-dcgm-exporter-x"),
    ];
    let mut labels = [&exporter[..], labels].concat();
    labels.sort_unstable();
    let before = node.sink.series().len();
    assert_eq!(write(node.service.address, &[(&labels, &[(1.0, now_ms())])]).status, 204);
    let delivered = "crosstalk_processor_queue_bytes{endpoint=\"s\"}";
    eventually("delivery", || (node.service.metric(delivered) == 0.0).then_some(()));
    let arrived = node.sink.series().split_off(before);
    told(&arrived).into_iter().next().map(|(uid, _)| uid)
}

#[test]
fn a_part_of_a_gpu_is_billed_to_who_holds_it_and_not_to_the_cards_other_holders() {
    let node = Node::start();
    report(
        &node,
        &[
            ("nvidia.com/gpu", "GPU-5f1c", "b"),
            ("gpu", "0", "b"),
            ("mig", "0/7", "a"),
            ("nvidia.com/mig-1g.5gb", "MIG-GPU-77aa/3/0", "a"),
            ("nvidia.com/mig-1g.5gb", "MIG-GPU-77aa/4/0", "b"),
        ],
    );
    let dcgm = |uuid: &'static str, gpu: &'static str, instance: &'static str| {
        let labels =
            [("UUID", uuid), ("gpu", gpu), ("GPU_I_ID", instance), ("GPU_I_PROFILE", "1g.5gb")];
        billed(&node, &labels)
    };
    assert_eq!(dcgm("GPU-5f1c", "0", "7").as_deref(), Some("w-a"), "by number and instance");
    assert_eq!(dcgm("GPU-5f1c", "0", "9"), None, "held by nobody, though the card is");
    assert_eq!(dcgm("GPU-77aa", "1", "3").as_deref(), Some("w-a"), "as the kubelet names it");
    assert_eq!(dcgm("GPU-77aa", "1", "4").as_deref(), Some("w-b"));
    let whole = [("UUID", "GPU-5f1c"), ("gpu", "0")];
    assert_eq!(billed(&node, &whole).as_deref(), Some("w-b"), "the card itself");
}

#[test]
fn labels_of_amds_exporter_find_the_pod_by_number_serial_and_partition() {
    let node = Node::start();
    report(
        &node,
        &[("gpu", "3", "a"), ("serial_number", "692251001124", "b"), ("mig", "3/1", "b")],
    );
    let amd = |id: &'static str, serial: &'static str, partition: &'static str| {
        let labels = [
            ("card_model", "xxxx"),
            ("gpu_compute_partition_type", "spx"),
            ("gpu_id", id),
            ("gpu_partition_id", partition),
            ("serial_number", serial),
        ];
        billed(&node, &labels)
    };
    assert_eq!(amd("3", "1", "0").as_deref(), Some("w-a"), "a card that is not divided");
    assert_eq!(amd("7", "692251001124", "0").as_deref(), Some("w-b"), "by its serial number");
    assert_eq!(amd("3", "1", "1").as_deref(), Some("w-b"), "a partition");
    assert_eq!(amd("3", "1", "2"), None, "a partition of nobody");
}

#[test]
fn a_restart_ends_the_series_of_whoever_gave_its_device_away_meanwhile() {
    for holder in [Some("b"), None] {
        let node = Node::start();
        let start = now_ms();
        assert_eq!(told(&node.send(&[(1.0, start)])), [one("w-a", "1", start)]);
        let (file, url) = (node.file.clone(), node.sink.url());
        std::fs::write(&file, pods(holder)).unwrap();
        let service = node.service.restart(|config| {
            config.cache.static_file = Some(file);
            config.endpoints = vec![Endpoint { in_flight: 1, ..Endpoint::new("s", url) }];
        });
        service.wait_until_ready();
        let node = Node { service, sink: node.sink, file: node.file };
        let (first, second) = (now_ms(), now_ms() + 1);
        let of_next = |value: &str, at| holder.map(|next| one(&format!("w-{next}"), value, at));
        let stale = [one("w-a", "stale", first)];
        let expected: Vec<_> = stale.into_iter().chain(of_next("2", first)).collect();
        assert_eq!(told(&node.send(&[(2.0, first)])), expected, "{holder:?}");
        let expected: Vec<_> = of_next("3", second).into_iter().collect();
        assert_eq!(told(&node.send(&[(3.0, second)])), expected, "once");
    }
}

#[test]
fn what_node_exporters_say_of_rdma_devices_goes_to_who_was_given_them() {
    let node = Node::start();
    // The second is one of the shares that the plugin for shared devices counts.
    report(&node, &[("rdma", "mlx5_0", "a"), ("rdma/hca_shared_devices_a", "0", "b")]);
    let exporter = |instance: &'static str, device: &'static str| {
        let labels = [
            ("__name__", "node_infiniband_port_data_received_bytes_total"),
            ("device", device),
            ("instance", instance),
            ("job", "node-exporter"),
            ("namespace", "monitoring"),
            ("pod", "prometheus-node-exporter-x"),
            ("port", "1"),
        ];
        let before = node.sink.series().len();
        assert_eq!(write(node.service.address, &[(&labels, &[(1.0, now_ms())])]).status, 204);
        let delivered = "crosstalk_processor_queue_bytes{endpoint=\"s\"}";
        eventually("delivery", || (node.service.metric(delivered) == 0.0).then_some(()));
        told(&node.sink.series().split_off(before)).into_iter().next().map(|(uid, _)| uid)
    };
    assert_eq!(exporter("node-b", "mlx5_0").as_deref(), Some("w-a"), "as kube-prometheus has it");
    assert_eq!(exporter("node-b:9100", "mlx5_0").as_deref(), Some("w-a"));
    assert_eq!(exporter("10.0.0.7:9100", "mlx5_0"), None, "no node is known by that name");
    assert_eq!(exporter("node-b", "mlx5_1"), None);
    assert_eq!(exporter("node-b", "0"), None, "no device is called so");
}
