//! Whose a device is while those who tell of it are away: the API, or the agent of its node. A stand-in plays the API.
#![allow(clippy::unwrap_used)]

mod support;

use crosstalk_processor::config::{Endpoint, Period};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};
use support::cluster::{Cluster, kubeconfig, pod};
use support::http::{get, send};
use support::sink::Sink;
use support::write::{Given, write};
use support::{Service, eventually};

struct Site {
    cluster: Cluster,
    sink: Sink,
    service: Service,
}

impl Site {
    /// With these pods, and an agent on node-a.
    fn start(pods: Vec<Value>) -> Site {
        let (cluster, sink) = (Cluster::start("t1"), Sink::start());
        pods.into_iter().for_each(|pod| cluster.add_pod(pod));
        let service = Service::start(|config| {
            let folder = config.data_dir.parent().unwrap().to_owned();
            config.cache.kubernetes.enabled = true;
            config.cache.kubernetes.kubeconfig = Some(kubeconfig(&cluster, &folder));
            config.cache.refresh = Period::seconds(1);
            config.endpoints = vec![Endpoint::new("s", sink.url())];
        });
        eventually("a watch", || (cluster.watches() > 0).then_some(()));
        Site { cluster, sink, service }
    }

    fn report(&self, devices: &[(&str, &str)]) {
        let given = |(device, pod): &(&str, &str)| json!({"resource": "nvidia.com/gpu", "device": device, "namespace": "ml", "pod": pod});
        let devices: Vec<Value> = devices.iter().map(given).collect();
        let body = json!({"node": "node-a", "devices": devices}).to_string();
        let headers = [("Content-Type", "application/json")];
        let answer = send(self.service.address, "POST", "/devices", &headers, body.as_bytes());
        assert_eq!(answer.status, 204, "{}", answer.text());
    }

    /// Waits until GPU-1 is known to be of this pod.
    fn held_by(&self, holder: &str) {
        eventually("the report", || {
            let known = get(self.service.address, "/pods/cache").json();
            let held = &known["node-a"]["gpu_uuid"]["GPU-1"][0];
            (held == holder).then_some(())
        });
    }

    fn take_the_api_away(&self) {
        self.cluster.fail("/api");
        self.cluster.drop_streams();
        eventually("the outage", || {
            let ready = get(self.service.address, "/readyz").json();
            (ready["doubtful"] == json!(["kubernetes"])).then_some(())
        });
    }

    fn status(&self, series: &[Given<'_>]) -> u16 {
        write(self.service.address, series).status
    }

    /// Whose the sample of this time is, once it has arrived.
    fn owner(&self, at: i64) -> String {
        eventually("the sample", || {
            let arrived = self.sink.series().into_iter();
            let mut of_then = arrived.filter(|series| {
                series
                    .samples
                    .iter()
                    .any(|(bits, time)| *time == at && f64::from_bits(*bits) == 1.0)
            });
            let labels = of_then.next()?.labels;
            labels.split(' ').find_map(|label| label.strip_prefix("pod_name=")).map(str::to_owned)
        })
    }
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

/// A pod that its node took on now, with a GPU by its spec.
fn with_gpu(name: &str) -> Value {
    let mut pod = pod(name, None);
    pod["spec"]["containers"] =
        json!([{"name": "main", "resources": {"limits": {"cpu": "4", "nvidia.com/gpu": "1"}}}]);
    let now = jiff::Timestamp::from_millisecond(now_ms()).unwrap().to_string();
    pod["status"]["startTime"] = json!(now);
    pod["metadata"]["creationTimestamp"] = json!(now);
    pod
}

/// One whose scheduler writes which device it has.
fn with_annotation(name: &str) -> Value {
    let mut pod = pod(name, None);
    pod["metadata"]["annotations"] = json!({"crosstalk.dev/devices": "{\"gpu\": [\"7\"]}"});
    pod
}

/// As DCGM's exporter has it, of a card without a pod, scraped without `honor_labels`.
const GPU_1: [(&str, &str); 4] =
    [("Hostname", "node-a"), ("UUID", "GPU-1"), ("__name__", "DCGM_FI_DEV_GPU_UTIL"), ("gpu", "0")];

const ANNOTATED: [(&str, &str); 3] = [("__name__", "util"), ("gpu_id", "7"), ("node", "node-a")];

const UP: [(&str, &str); 3] = [("__name__", "up"), ("namespace", "ml"), ("pod", "n")];

#[test]
fn a_device_is_doubted_only_while_who_tells_of_it_is_away() {
    let site = Site::start(vec![with_gpu("a"), with_annotation("n")]);
    site.report(&[("GPU-1", "a")]);
    site.held_by("a");
    // Given back, as the agent says.
    site.cluster.delete_pod("a-uid");
    site.report(&[]);
    let departed = "crosstalk_processor_cache_departed_pods";
    // As the API knew it, and as the agent did.
    eventually("it is gone", || (site.service.metric(departed) == 2.0).then_some(()));
    assert_eq!(site.status(&[(&ANNOTATED, &[(1.0, now_ms())])]), 204);
    let before = now_ms();
    site.take_the_api_away();
    let idle: Given<'_> = (&GPU_1, &[(0.0, now_ms())]);
    let both = [idle, (&UP, &[(1.0, now_ms())])];
    let answer = write(site.service.address, &both);
    assert_eq!(answer.status, 204, "the agent of node-a says it is nobody's: {}", answer.text());
    // What the API tells of may have been handed over since it was heard.
    let after = now_ms();
    let answer = write(site.service.address, &[(&ANNOTATED, &[(1.0, after)])]);
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.text().contains("kubernetes"), "{}", answer.text());
    assert_eq!(site.status(&[(&ANNOTATED, &[(1.0, before - 60_000)])]), 204, "as it was then");
    assert_eq!(site.owner(before - 60_000), "n");

    let mut next = with_annotation("m");
    next["status"]["startTime"] =
        json!(jiff::Timestamp::from_millisecond(after).unwrap().to_string());
    site.cluster.delete_pod("n-uid");
    site.cluster.add_pod(next);
    site.cluster.repair();
    eventually("the API is heard", || {
        (site.status(&[(&ANNOTATED, &[(1.0, after)])]) == 204).then_some(())
    });
    assert_eq!(site.owner(after), "m", "who had it while nobody could know");
}

#[test]
fn a_pod_that_has_just_started_is_waited_for_until_its_agent_says_which_gpu_it_has() {
    let site = Site::start(vec![with_gpu("a")]);
    site.report(&[]);
    site.report(&[("GPU-2", "a")]);
    eventually("the report", || {
        get(site.service.address, "/pods/cache").json()["node-a"].as_object().map(drop)
    });
    let idle = now_ms();
    assert_eq!(site.status(&[(&GPU_1, &[(0.0, idle)])]), 204, "everybody's devices are known");
    site.cluster.add_pod(with_gpu("b"));
    eventually("the pod", || {
        get(site.service.address, "/pods/workload/cache").json().get("b").map(drop)
    });
    let at = now_ms();
    let answer = write(site.service.address, &[(&GPU_1, &[(1.0, at)])]);
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.text().contains("the agent of node node-a"), "{}", answer.text());
    let others = [("__name__", "rx"), ("device", "eth0"), ("node", "node-a")];
    assert_eq!(site.status(&[(&others, &[(1.0, at)])]), 204, "no such device is given to pods");
    assert_eq!(site.status(&[(&GPU_1, &[(0.0, idle - 60_000)])]), 204, "before it came");
    site.report(&[("GPU-1", "b"), ("GPU-2", "a")]);
    eventually("the report", || (site.status(&[(&GPU_1, &[(1.0, at)])]) == 204).then_some(()));
    assert_eq!(site.owner(at), "b");
}
