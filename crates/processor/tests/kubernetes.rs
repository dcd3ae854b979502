//! Pods and their owners from the Kubernetes API, through all its moods: a stand-in plays them. What a real cluster can
//! show is in `real_cluster.rs`.
#![allow(clippy::unwrap_used)]

mod support;

use crosstalk_processor::config::{Endpoint, Period};
use serde_json::{Value, json};
use std::time::Duration;
use support::cluster::{Cluster, kubeconfig, object, pod};
use support::http::{get, send};
use support::sink::Sink;
use support::write::write;
use support::{Service, eventually};

fn start(cluster: &Cluster) -> Service {
    let service = launch(cluster, |_| {});
    service.wait_until_ready();
    service
}

fn launch(cluster: &Cluster, change: impl FnOnce(&mut crosstalk_processor::Config)) -> Service {
    Service::launch(|config| {
        use_cluster(config, cluster);
        change(config);
    })
}

fn use_cluster(config: &mut crosstalk_processor::Config, cluster: &Cluster) {
    let folder = config.data_dir.parent().unwrap().to_owned();
    config.cache.kubernetes.enabled = true;
    config.cache.kubernetes.kubeconfig = Some(kubeconfig(cluster, &folder));
    config.cache.refresh = Period::seconds(1);
}

fn workloads(service: &Service) -> Value {
    get(service.address, "/pods/workload/cache").json()
}

/// Waits until a pod is known, and gives its workloads.
fn workload_of(service: &Service, pod: &str) -> Value {
    eventually(&format!("pod {pod}"), || workloads(service).get(pod).cloned())
}

#[test]
fn every_pod_belongs_to_the_top_of_its_owners() {
    let cluster = Cluster::start("t1");
    let apis = "/apis/apps/v1/namespaces/ml";
    cluster.set(
        &format!("{apis}/replicasets/web-7f"),
        object("web-7f", Some(("apps/v1", "Deployment", "web"))),
    );
    cluster.set(&format!("{apis}/deployments/web"), object("web", None));
    cluster.set(&format!("{apis}/statefulsets/db"), object("db", None));
    cluster.set(
        "/apis/batch/v1/namespaces/ml/jobs/nightly-1",
        object("nightly-1", Some(("batch/v1", "CronJob", "nightly"))),
    );
    cluster.set("/apis/batch/v1/namespaces/ml/cronjobs/nightly", object("nightly", None));
    cluster.set(
        "/apis/kubeflow.org/v1/namespaces/ml/pytorchjobs/train",
        object("train", Some(("example.com/v1", "FancyJob", "sweep"))),
    );
    cluster.set("/apis/example.com/v1/namespaces/ml/fancyjobs/sweep", object("sweep", None));
    cluster.add_pod(pod("web-7f-x", Some(("apps/v1", "ReplicaSet", "web-7f"))));
    cluster.add_pod(pod("db-0", Some(("apps/v1", "StatefulSet", "db"))));
    cluster.add_pod(pod("nightly-1-x", Some(("batch/v1", "Job", "nightly-1"))));
    cluster.add_pod(pod("train-0", Some(("kubeflow.org/v1", "PyTorchJob", "train"))));
    cluster.add_pod(pod("alone", None));
    // Neither its object nor its API can be read: the reference itself is the end.
    cluster.add_pod(pod("ray-0", Some(("ray.io/v1", "RayJob", "ray"))));
    cluster.add_pod(pod("gone-x", Some(("apps/v1", "ReplicaSet", "gone"))));

    let service = start(&cluster);
    workload_of(&service, "web-7f-x");
    let expected = json!({
        "web-7f-x": [["web", "web-uid"]],
        "db-0": [["db", "db-uid"]],
        "nightly-1-x": [["nightly", "nightly-uid"]],
        "train-0": [["sweep", "sweep-uid"]],
        "alone": [["alone", "alone-uid"]],
        "ray-0": [["ray", "ray-uid"]],
        "gone-x": [["gone", "gone-uid"]],
    });
    assert_eq!(workloads(&service), expected);
    assert_eq!(cluster.lists(), 1, "the list came in pages: {:?}", cluster.requests());
    let asked =
        cluster.requests().iter().filter(|path| path.contains("replicasets/web-7f")).count();
    assert_eq!(asked, 1, "an owner is asked for once");
}

#[test]
fn changes_arrive_by_watch_and_a_deleted_pod_stays_known() {
    let cluster = Cluster::start("t1");
    let service = start(&cluster);
    eventually("a watch", || (cluster.watches() > 0).then_some(()));
    let mut with_devices = pod("late", None);
    with_devices["metadata"]["annotations"] =
        json!({"crosstalk.dev/devices": "{\"gpu\": [\"3\"], \"rdma\": [\"mlx5_0\"]}"});
    cluster.add_pod(with_devices);
    workload_of(&service, "late");
    let devices = get(service.address, "/pods/cache").json();
    let held = json!(["late", "late-uid"]);
    assert_eq!(devices, json!({"node-a": {"gpu_id": {"3": held}, "device": {"mlx5_0": held}}}));
    cluster.delete_pod("late-uid");
    cluster.add_pod(pod("after", None));
    workload_of(&service, "after");
    assert!(workloads(&service).get("late").is_some(), "known for the grace time");
    assert_eq!(service.metric("crosstalk_processor_cache_departed_pods"), 1.0);
}

#[test]
fn a_watch_that_breaks_off_goes_on_where_it_was() {
    let cluster = Cluster::start("t1");
    let service = start(&cluster);
    eventually("a watch", || (cluster.watches() > 0).then_some(()));
    cluster.add_pod(pod("first", None));
    workload_of(&service, "first");
    let bookmark = cluster.bookmark();
    cluster.add_pod(pod("second", None));
    workload_of(&service, "second");
    let watches = cluster.watches();
    cluster.drop_streams();
    // Happens while nobody watches, or just as someone does again.
    cluster.add_pod(pod("third", None));
    workload_of(&service, "third");
    assert!(cluster.watches() > watches);
    assert_eq!(cluster.lists(), 1, "no list was needed");
    let last = cluster.requests().into_iter().rfind(|path| path.contains("watch=true")).unwrap();
    let version = last.rsplit("resourceVersion=").next().unwrap().split('&').next().unwrap();
    let version: u64 = version.parse().unwrap();
    assert!(version > bookmark, "{last}");
}

#[test]
fn a_version_that_is_gone_is_listed_again() {
    let cluster = Cluster::start("t1");
    let service = start(&cluster);
    eventually("a watch", || (cluster.watches() > 0).then_some(()));
    cluster.tell(
        json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}),
    );
    eventually("a second list", || (cluster.lists() == 2).then_some(()));
    // Also when the answer to the watch itself is 410.
    eventually("a watch again", || (cluster.watches() > 1).then_some(()));
    cluster.refuse_next(410);
    cluster.drop_streams();
    eventually("a third list", || (cluster.lists() >= 3).then_some(()));
    cluster.add_pod(pod("found", None));
    workload_of(&service, "found");
    assert!(
        service.metric("crosstalk_processor_cache_errors_total{source=\"kubernetes_gone\"}") >= 2.0
    );
}

#[test]
fn a_refused_token_is_read_again_and_what_was_known_stays() {
    let cluster = Cluster::start("t1");
    let service = start(&cluster);
    cluster.add_pod(pod("before", None));
    workload_of(&service, "before");
    cluster.set_token("t2");
    cluster.drop_streams();
    cluster.add_pod(pod("after", None));
    eventually("a refusal", || {
        let errors = "crosstalk_processor_cache_errors_total{source=\"kubernetes\"}";
        (service.metric(errors) >= 1.0).then_some(())
    });
    assert!(workloads(&service).get("before").is_some());
    std::fs::write(service.folder.path().join("token"), "t2").unwrap();
    workload_of(&service, "after");
}

#[test]
fn a_token_file_that_is_empty_for_a_moment_sends_nobody_out_without_a_name() {
    let cluster = Cluster::start("t1");
    let (apps, batch) = ("/apis/apps/v1/namespaces/ml", "/apis/batch/v1/namespaces/ml");
    cluster.set(
        &format!("{apps}/replicasets/web-7f"),
        object("web-7f", Some(("apps/v1", "Deployment", "web"))),
    );
    cluster.set(&format!("{apps}/deployments/web"), object("web", None));
    cluster.set(
        &format!("{batch}/jobs/nightly-1"),
        object("nightly-1", Some(("batch/v1", "CronJob", "nightly"))),
    );
    cluster.set(&format!("{batch}/cronjobs/nightly"), object("nightly", None));
    cluster.add_pod(pod("web-7f-x", Some(("apps/v1", "ReplicaSet", "web-7f"))));
    let mut token = std::path::PathBuf::new();
    // Just as it starts.
    let service = launch(&cluster, |config| {
        token = config.data_dir.with_file_name("token");
        std::fs::write(&token, "").unwrap();
    });
    let errors = "crosstalk_processor_cache_errors_total{source=\"kubernetes\"}";
    eventually("a try", || (service.metric(errors) >= 1.0).then_some(()));
    assert_eq!(get(service.address, "/readyz").status, 503);
    assert!(cluster.requests().is_empty(), "{:?}", cluster.requests());
    std::fs::write(&token, "t1").unwrap();
    service.wait_until_ready();
    assert_eq!(workload_of(&service, "web-7f-x"), json!([["web", "web-uid"]]));

    // While it runs, with owners that are new and a watch to begin again; then with all of it to begin anew.
    std::fs::write(&token, "").unwrap();
    eventually("a watch", || (cluster.watches() > 0).then_some(()));
    let watches = cluster.watches();
    cluster.drop_streams();
    cluster.add_pod(pod("nightly-1-x", Some(("batch/v1", "Job", "nightly-1"))));
    assert_eq!(workload_of(&service, "nightly-1-x"), json!([["nightly", "nightly-uid"]]));
    eventually("another watch", || (cluster.watches() > watches).then_some(()));
    let before = service.metric(errors);
    cluster.tell(
        json!({"type": "ERROR", "object": {"kind": "Status", "code": 401, "message": "expired"}}),
    );
    eventually("the refusal", || (service.metric(errors) > before).then_some(()));
    std::fs::write(&token, "t1").unwrap();
    cluster.add_pod(pod("after", None));
    workload_of(&service, "after");
    assert_eq!(cluster.anonymous(), 0, "{:?}", cluster.requests());
    let forbidden = "crosstalk_processor_cache_errors_total{source=\"kubernetes_forbidden\"}";
    assert_eq!(service.metric(forbidden), 0.0);
}

#[test]
fn servers_that_fail_are_asked_again() {
    let cluster = Cluster::start("t1");
    for status in [500, 503, 429] {
        cluster.refuse_next(status);
    }
    cluster.add_pod(pod("patient", None));
    let service = start(&cluster);
    workload_of(&service, "patient");
}

#[test]
fn a_broken_api_group_costs_only_its_own_owners_and_is_asked_again() {
    let cluster = Cluster::start("t1");
    let apps = "/apis/apps/v1/namespaces/ml";
    for name in ["web", "shop"] {
        let owner = object(&format!("{name}-7f"), Some(("apps/v1", "Deployment", name)));
        cluster.set(&format!("{apps}/replicasets/{name}-7f"), owner);
        cluster.set(&format!("{apps}/deployments/{name}"), object(name, None));
        let owner = format!("{name}-7f");
        cluster.add_pod(pod(&format!("{name}-7f-x"), Some(("apps/v1", "ReplicaSet", &owner))));
    }
    let things = json!({"resources": [{"name": "things", "kind": "Thing", "namespaced": true}]});
    cluster.set("/apis/broken.io/v1", things);
    let thing = "/apis/broken.io/v1/namespaces/ml/things/part";
    cluster.set(thing, object("part", Some(("apps/v1", "Deployment", "web"))));
    cluster.add_pod(pod("part-0", Some(("broken.io/v1", "Thing", "part"))));
    // A whole group, and one object of a group that works.
    cluster.fail("/apis/broken.io/v1");
    cluster.fail(&format!("{apps}/replicasets/shop-7f"));

    let sink = Sink::start();
    let service = launch(&cluster, |config| {
        config.endpoints = vec![Endpoint::new("store", sink.url())];
    });
    service.wait_until_ready();
    workload_of(&service, "web-7f-x");
    let expected = json!({"web-7f-x": [["web", "web-uid"]]});
    assert_eq!(workloads(&service), expected, "nobody is billed on a guess");
    let waited_for = ["shop-7f-x", "part-0"];
    let takes = |pod| write(service.address, &[(&up(pod), &[(1.0, 5)])]).status;
    for pod in waited_for {
        assert_eq!((takes(pod), send_log_of(&service, pod)), (503, 503), "{pod}");
    }
    assert_eq!(takes("web-7f-x"), 204);
    // Watching goes on meanwhile.
    cluster.add_pod(pod("later", None));
    workload_of(&service, "later");
    let errors = "crosstalk_processor_cache_errors_total{source=\"kubernetes_owner\"}";
    eventually("another try", || (service.metric(errors) >= 4.0).then_some(()));
    assert_eq!((cluster.lists(), cluster.watches()), (1, 1), "nothing was begun anew");

    cluster.repair();
    for (pod, workload) in [("shop-7f-x", "shop"), ("part-0", "web")] {
        let expected = json!([[workload, format!("{workload}-uid")]]);
        eventually(&format!("the owner of {pod}"), || {
            (workload_of(&service, pod) == expected).then_some(())
        });
    }
    for pod in waited_for {
        assert_eq!((takes(pod), send_log_of(&service, pod)), (204, 200), "{pod}");
    }
    eventually("three samples", || (ups(&sink).len() >= 3).then_some(()));
    for arrived in ups(&sink) {
        let of_shop = arrived.labels.contains(" pod=shop");
        let owner = if of_shop { "workload_uid=shop-uid" } else { "workload_uid=web-uid" };
        assert!(arrived.labels.contains(owner), "{}", arrived.labels);
    }
}

/// What arrived of [`up`]; what lines say of training is beside it.
fn ups(sink: &Sink) -> Vec<support::sink::Arrived> {
    let mut arrived = sink.series();
    arrived.retain(|series| series.labels.starts_with("__name__=workload_up "));
    arrived
}

/// A pod that was there when the line of [`LOG`] was written.
fn old_pod(name: &str, owner: Option<(&str, &str, &str)>) -> Value {
    let mut pod = pod(name, owner);
    pod["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    pod
}

#[test]
fn an_api_group_that_never_answers_delays_no_pod_of_another_and_costs_none_of_its_own() {
    let cluster = Cluster::start("t1");
    let apps = "/apis/apps/v1/namespaces/ml";
    cluster.set(
        &format!("{apps}/replicasets/web-7f"),
        object("web-7f", Some(("apps/v1", "Deployment", "web"))),
    );
    cluster.set(&format!("{apps}/deployments/web"), object("web", None));
    let things = json!({"resources": [{"name": "things", "kind": "Thing", "namespaced": true}]});
    cluster.set("/apis/hung.io/v1", things);
    let thing = "/apis/hung.io/v1/namespaces/ml/things/part";
    cluster.set(thing, object("part", Some(("apps/v1", "Deployment", "web"))));
    cluster.hang("/apis/hung.io");
    let sink = Sink::start();
    let service = launch(&cluster, |config| {
        config.endpoints = vec![Endpoint::new("store", sink.url())];
    });
    service.wait_until_ready();
    eventually("a watch", || (cluster.watches() > 0).then_some(()));

    cluster.add_pod(old_pod("part-0", Some(("hung.io/v1", "Thing", "part"))));
    let asked = || cluster.requests().iter().any(|path| path.contains("hung.io"));
    let began = std::time::Instant::now();
    eventually("a question that hangs", || {
        (asked() || began.elapsed().as_secs() > 2).then_some(())
    });
    let began = std::time::Instant::now();
    cluster.add_pod(old_pod("web-7f-x", Some(("apps/v1", "ReplicaSet", "web-7f"))));
    assert_eq!(workload_of(&service, "web-7f-x"), json!([["web", "web-uid"]]));
    let took = began.elapsed();
    assert!(took < Duration::from_secs(3), "known after {took:?}");
    let then = 1_794_785_002_250;
    let takes = |pod| write(service.address, &[(&up(pod), &[(1.0, then)])]).status;
    assert_eq!(takes("web-7f-x"), 204);
    assert_eq!((takes("part-0"), send_log_of(&service, "part-0")), (503, 503));

    cluster.repair();
    eventually("its owner", || (takes("part-0") == 204).then_some(()));
    eventually("both samples", || (ups(&sink).len() >= 2).then_some(()));
    for arrived in ups(&sink) {
        assert!(arrived.labels.contains("workload_uid=web-uid"), "{}", arrived.labels);
    }
}

#[test]
fn an_owner_is_waited_for_as_long_as_configured_and_then_the_last_that_is_known_is_the_top() {
    let cluster = Cluster::start("t1");
    let apps = "/apis/apps/v1/namespaces/ml";
    let set = object("web-7f", Some(("apps/v1", "Deployment", "web")));
    cluster.set(&format!("{apps}/replicasets/web-7f"), set);
    cluster.set(&format!("{apps}/deployments/web"), object("web", None));
    cluster.fail(&format!("{apps}/replicasets"));
    cluster.add_pod(pod("web-7f-x", Some(("apps/v1", "ReplicaSet", "web-7f"))));
    let sink = Sink::start();
    let service = launch(&cluster, |config| {
        config.endpoints = vec![Endpoint::new("store", sink.url())];
        config.cache.kubernetes.owner_wait = Period::seconds(3);
    });
    service.wait_until_ready();
    let takes = || write(service.address, &[(&up("web-7f-x"), &[(1.0, 5)])]).status;
    assert_eq!(takes(), 503);
    assert_eq!(workloads(&service), json!({}), "nobody's");
    eventually("the end of the waiting", || (takes() == 204).then_some(()));
    assert_eq!(workload_of(&service, "web-7f-x"), json!([["web-7f", "web-7f-uid"]]));
    let arrived = sink.wait_for(1);
    assert!(arrived[0].labels.contains("workload_uid=web-7f-uid"), "{}", arrived[0].labels);
    cluster.repair();
    eventually("the present owner", || {
        (workload_of(&service, "web-7f-x") == json!([["web", "web-uid"]])).then_some(())
    });
}

#[test]
fn only_the_namespace_that_is_followed_is_in_doubt() {
    let cluster = Cluster::start("t1");
    let pods = "/api/v1/namespaces/ml/pods";
    cluster.change(pods, "ADDED", pod("train-0", None));
    let service = launch(&cluster, |config| {
        config.cache.kubernetes.namespace = "ml".to_owned();
    });
    service.wait_until_ready();
    workload_of(&service, "train-0");
    eventually("a watch", || (cluster.watches() > 0).then_some(()));
    cluster.fail("/api");
    cluster.drop_streams();
    eventually("the outage", || {
        let ready = get(service.address, "/readyz").json();
        (ready["doubtful"] == json!(["kubernetes"])).then_some(())
    });
    let of = |namespace| [("__name__", "up"), ("namespace", namespace), ("pod", "new-0")];
    let takes = |namespace| write(service.address, &[(&of(namespace), &[(1.0, 5)])]).status;
    assert_eq!((takes("ml"), takes("other")), (503, 204));
    let bare: &[(&str, &str)] = &[("__name__", "up"), ("pod", "new-0")];
    assert_eq!(write(service.address, &[(bare, &[(1.0, 5)])]).status, 503, "may be of either");
    let log = LOG.replace("train-0", "new-0");
    let send_of = |log: &str| {
        let headers = [("Content-Type", "application/json")];
        send(service.address, "POST", "/logs", &headers, log.as_bytes()).status
    };
    assert_eq!(send_of(&log), 503);
    assert_eq!(send_of(&log.replace("\"ml\"", "\"other\"")), 200);
}

#[test]
fn a_line_that_is_here_before_its_pod_founds_no_workload_and_one_of_nobodys_pod_is_taken_soon() {
    let cluster = Cluster::start("t1");
    cluster.set("/apis/batch/v1/namespaces/ml/jobs/train", object("train", None));
    let service = start(&cluster);
    eventually("a watch", || (cluster.watches() > 0).then_some(()));
    assert_eq!(send_log_of(&service, "train-0"), 503, "the news of it may be under way");
    assert_eq!(send_log_of(&service, "stray-0"), 503);
    cluster.add_pod(old_pod("train-0", Some(("batch/v1", "Job", "train"))));
    for pod in ["train-0", "stray-0"] {
        eventually("its line is taken", || (send_log_of(&service, pod) == 200).then_some(()));
    }
    let founded = eventually("both workloads", || {
        let answer = get(service.address, "/workloads").json();
        let uid = |workload: &Value| workload["uid"].as_str().unwrap_or_default().to_owned();
        let mut uids: Vec<String> = answer["items"].as_array()?.iter().map(uid).collect();
        uids.sort();
        (uids.len() >= 2).then_some(uids)
    });
    assert_eq!(founded, ["ml:stray-0", "train-uid"]);
}

#[test]
fn pods_are_asked_for_by_the_name_of_this_program_in_pages_with_bookmarks() {
    let cluster = Cluster::start("t1");
    let _service = start(&cluster);
    eventually("a watch", || (cluster.watches() > 0).then_some(()));
    let requests = cluster.requests();
    assert!(requests[0].contains("limit=500"), "{requests:?}");
    assert!(requests[1].contains("allowWatchBookmarks=true"), "{requests:?}");
    assert!(requests[1].contains("timeoutSeconds="), "a deadline on every watch: {requests:?}");
    assert_eq!(cluster.agents(), ["crosstalk/0.1.0"]);
}

const LOG: &str = r#"[{"date": 1794785002.25, "log": "iteration 1/5 | lm loss: 2.7 | elapsed time per iteration (ms): 9.5",
    "kubernetes": {"namespace_name": "ml", "pod_name": "train-0"}}]"#;

fn send_log(service: &Service) -> u16 {
    send_log_of(service, "train-0")
}

fn send_log_of(service: &Service, pod: &str) -> u16 {
    let (headers, log) = ([("Content-Type", "application/json")], LOG.replace("train-0", pod));
    send(service.address, "POST", "/logs", &headers, log.as_bytes()).status
}

fn up(pod: &'static str) -> [(&'static str, &'static str); 3] {
    [("__name__", "up"), ("namespace", "ml"), ("pod", pod)]
}

#[test]
fn nothing_is_taken_before_the_sources_are_heard_and_nothing_is_lost() {
    let cluster = Cluster::start("t1");
    cluster.add_pod(pod("train-0", None));
    cluster.fail("/api/v1/pods");
    let sink = Sink::start();
    let service = launch(&cluster, |config| {
        config.endpoints = vec![Endpoint::new("store", sink.url())];
    });
    eventually("the database", || {
        let ready = get(service.address, "/readyz");
        assert_eq!(ready.status, 503);
        (ready.json()["waiting"] == json!(["kubernetes"])).then_some(())
    });
    let refused = write(service.address, &[(&up("train-0"), &[(1.0, 5)])]);
    assert_eq!((refused.status, refused.written()), (503, [0, 0, 0]), "{}", refused.text());
    assert!(refused.header("retry-after").is_some());
    assert!(refused.text().contains("kubernetes"), "{}", refused.text());
    assert_eq!(send_log(&service), 503, "a line of an unknown pod would found a workload");
    let never = "crosstalk_processor_cache_age_seconds{source=\"kubernetes\"}";
    assert_eq!(service.metric(never), f64::INFINITY);

    cluster.repair();
    service.wait_until_ready();
    assert_eq!(write(service.address, &[(&up("train-0"), &[(1.0, 5)])]).status, 204);
    assert_eq!(sink.wait_for(1)[0].samples[0].1, 5);
    assert!(service.metric(never) < 60.0);
    assert_eq!(send_log(&service), 200);
}

#[test]
fn a_restart_uses_what_was_known_at_once_and_keeps_back_only_what_may_be_new() {
    let cluster = Cluster::start("t1");
    let owner = object("train", None);
    cluster.set("/apis/batch/v1/namespaces/ml/jobs/train", owner);
    cluster.add_pod(pod("train-0", Some(("batch/v1", "Job", "train"))));
    let sink = Sink::start();
    let endpoints = || vec![Endpoint::new("store", sink.url())];
    let service = launch(&cluster, |config| config.endpoints = endpoints());
    workload_of(&service, "train-0");
    // Away while it restarts, and a pod is new meanwhile.
    cluster.fail("/api");
    let service = service.restart(|config| {
        use_cluster(config, &cluster);
        config.endpoints = endpoints();
    });
    let ready = get(service.address, "/readyz");
    assert_eq!((ready.status, &ready.json()["remembered"]), (200, &json!(["kubernetes"])));
    let remembered = "crosstalk_processor_cache_remembered{source=\"kubernetes\"}";
    assert_eq!(service.metric(remembered), 1.0);
    assert_eq!(write(service.address, &[(&up("train-0"), &[(1.0, 5)])]).status, 204);
    let arrived = sink.wait_for(1);
    assert!(arrived[0].labels.contains("workload_uid=train-uid"), "{}", arrived[0].labels);
    let node: &[(&str, &str)] = &[("__name__", "load"), ("node", "node-a")];
    assert_eq!(write(service.address, &[(node, &[(1.0, 5)])]).status, 204, "of nobody");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let (labels, samples) = (up("new-0"), [(2.0, now.as_millis() as i64)]);
    let new = [(&labels[..], &samples[..])];
    assert_eq!(write(service.address, &new).status, 503, "may be new");
    assert_eq!(send_log_of(&service, "train-0"), 200, "it is known whose");
    assert_eq!(send_log_of(&service, "new-0"), 503, "would found a workload");

    cluster.repair();
    cluster.add_pod(pod("new-0", None));
    eventually("the new pod", || (write(service.address, &new).status == 204).then_some(()));
    eventually("its series", || {
        let arrived = sink.series();
        arrived.iter().any(|series| series.labels.contains("workload_uid=new-0-uid")).then_some(())
    });
    assert_eq!(service.metric(remembered), 0.0);
}

#[test]
fn an_api_that_goes_away_while_running_costs_no_sample_of_a_pod_that_is_new_meanwhile() {
    let cluster = Cluster::start("t1");
    cluster.add_pod(pod("train-0", None));
    let sink = Sink::start();
    let service = launch(&cluster, |config| {
        config.endpoints = vec![Endpoint::new("store", sink.url())];
    });
    service.wait_until_ready();
    workload_of(&service, "train-0");
    eventually("a watch", || (cluster.watches() > 0).then_some(()));
    cluster.fail("/api");
    cluster.drop_streams();
    eventually("the outage", || {
        let ready = get(service.address, "/readyz");
        assert_eq!(ready.status, 200, "those that are known are served");
        (ready.json()["doubtful"] == json!(["kubernetes"])).then_some(())
    });
    cluster.add_pod(pod("new-0", None));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let (labels, samples) = (up("new-0"), [(2.0, now.as_millis() as i64)]);
    let new = [(&labels[..], &samples[..])];
    assert_eq!(write(service.address, &new).status, 503);
    assert_eq!(send_log_of(&service, "new-0"), 503, "would found a workload");
    assert_eq!(write(service.address, &[(&up("train-0"), &[(1.0, 5)])]).status, 204);
    assert_eq!(send_log_of(&service, "train-0"), 200);
    // What is nobody's at any time is not kept waiting.
    let known = LOG.trim_matches(['[', ']']);
    let both = format!("[{known}, {}]", known.replace("train-0", ""));
    let headers = [("Content-Type", "application/json")];
    let answer = send(service.address, "POST", "/logs", &headers, both.as_bytes());
    assert_eq!(answer.status, 200, "the second names no pod: {}", answer.text());
    let eth0: &[(&str, &str)] = &[("__name__", "rx"), ("device", "eth0"), ("node", "node-a")];
    assert_eq!(write(service.address, &[(eth0, &[(1.0, 5)])]).status, 204);

    cluster.repair();
    eventually("the new pod", || (write(service.address, &new).status == 204).then_some(()));
    let arrived = eventually("its series", || {
        let mut arrived = sink.series().into_iter();
        arrived.find(|series| series.labels.contains("workload_uid=new-0-uid"))
    });
    assert_eq!(arrived.samples[0].1, samples[0].1);
}

#[test]
fn a_restart_believes_what_was_known_of_owners_that_cannot_be_asked_for() {
    let cluster = Cluster::start("t1");
    let apps = "/apis/apps/v1/namespaces/ml";
    let owned_by = |name: &str| object("web-7f", Some(("apps/v1", "Deployment", name)));
    cluster.set(&format!("{apps}/replicasets/web-7f"), owned_by("web"));
    for name in ["web", "shop"] {
        cluster.set(&format!("{apps}/deployments/{name}"), object(name, None));
    }
    cluster.add_pod(pod("web-7f-x", Some(("apps/v1", "ReplicaSet", "web-7f"))));
    let service = start(&cluster);
    assert_eq!(workload_of(&service, "web-7f-x"), json!([["web", "web-uid"]]));

    cluster.fail("/apis/apps/v1");
    let service = service.restart(|config| use_cluster(config, &cluster));
    cluster.add_pod(pod("new", None));
    workload_of(&service, "new");
    assert_eq!(
        workload_of(&service, "web-7f-x"),
        json!([["web", "web-uid"]]),
        "not its ReplicaSet"
    );
    // What is found once they can be asked for goes before it.
    cluster.set(&format!("{apps}/replicasets/web-7f"), owned_by("shop"));
    cluster.repair();
    eventually("the present owner", || {
        (workload_of(&service, "web-7f-x") == json!([["shop", "shop-uid"]])).then_some(())
    });
}

#[test]
fn owners_are_asked_for_many_at_a_time_and_ten_thousand_pods_are_ready_within_five_seconds() {
    let cluster = Cluster::start("t1");
    let apps = "/apis/apps/v1/namespaces/ml";
    for number in 0..500 {
        let (set, deployment) = (format!("set-{number}"), format!("deploy-{number}"));
        let above = object(&set, Some(("apps/v1", "Deployment", &deployment)));
        cluster.set(&format!("{apps}/replicasets/{set}"), above);
        cluster.set(&format!("{apps}/deployments/{deployment}"), object(&deployment, None));
        cluster
            .add_pods((0..20).map(|place| {
                pod(&format!("{set}-{place}"), Some(("apps/v1", "ReplicaSet", &set)))
            }));
    }
    cluster.slow_down(Duration::from_millis(20));
    let limit = Duration::from_secs(5);
    // Another start only where the machine was busy: what takes longer by itself does so every time.
    let (service, took) = (0..3)
        .map(|_| {
            let started = std::time::Instant::now();
            let service = start(&cluster);
            (service, started.elapsed())
        })
        .find(|(_, took)| *took < limit)
        .expect("ready within five seconds in one of three starts");
    let pods = "crosstalk_processor_cache_pods";
    assert_eq!(service.metric(pods), 10_000.0);
    assert_eq!(workload_of(&service, "set-499-19"), json!([["deploy-499", "deploy-499-uid"]]));
    let most = cluster.most_in_work();
    assert!(most >= 32, "{most} at once");
    eprintln!("10,000 pods of 500 Deployments at 20 ms a round trip: ready in {took:?}");
    // A node that starts anew has its disk: what was known is used at once.
    let started = std::time::Instant::now();
    let service = service.restart(|config| use_cluster(config, &cluster));
    service.wait_until_ready();
    let again = started.elapsed();
    assert_eq!(service.metric(pods), 10_000.0);
    // And all of them were heard anew soon after, so that nothing is only remembered.
    eventually("the API is heard", || {
        let ready = get(service.address, "/readyz").json();
        ready["remembered"].as_array().is_none_or(Vec::is_empty).then_some(())
    });
    let heard = started.elapsed();
    assert!(again < limit && heard < 2 * limit, "ready in {again:?}, heard in {heard:?}");
    assert_eq!(workload_of(&service, "set-499-19"), json!([["deploy-499", "deploy-499-uid"]]));
    eprintln!("restarted: ready in {again:?}, the API heard in {heard:?}");
}

#[test]
fn what_is_believed_of_owners_expires() {
    let cluster = Cluster::start("t1");
    let apps = "/apis/apps/v1/namespaces/ml";
    let set = |name: &str, above: &str, uid: &str| {
        let mut set = object(name, Some(("apps/v1", "Deployment", above)));
        set["metadata"]["ownerReferences"][0]["uid"] = json!(uid);
        set
    };
    cluster.set(&format!("{apps}/replicasets/web-7f"), set("web-7f", "web", "web-uid"));
    cluster.set(&format!("{apps}/replicasets/shop-1"), set("shop-1", "shop", "shop-uid"));
    for name in ["web", "shop"] {
        cluster.set(&format!("{apps}/deployments/{name}"), object(name, None));
    }
    cluster.add_pod(pod("web-7f-x", Some(("apps/v1", "ReplicaSet", "web-7f"))));
    cluster.add_pod(pod("shop-1-x", Some(("apps/v1", "ReplicaSet", "shop-1"))));
    cluster.add_pod(pod("odd-0", Some(("example.com/v1", "OddJob", "odd"))));
    cluster.forbid(&format!("{apps}/replicasets/web-7f"));
    // Nor may the kinds of a whole API version be asked for.
    cluster.add_pod(pod("closed-0", Some(("closed.io/v1", "ClosedJob", "closed"))));
    cluster.forbid("/apis/closed.io");
    let service = launch(&cluster, |config| {
        config.cache.kubernetes.owner_ttl = Period::millis(1500);
    });
    service.wait_until_ready();
    let becomes = |pod: &str, name: &str, uid: &str| {
        let expected = json!([[name, uid]]);
        eventually(&format!("{pod} of {uid}"), || {
            (workload_of(&service, pod) == expected).then_some(())
        });
    };
    // It may not be read, so it is the top, until it may.
    becomes("web-7f-x", "web-7f", "web-7f-uid");
    let forbidden = "crosstalk_processor_cache_errors_total{source=\"kubernetes_forbidden\"}";
    becomes("closed-0", "closed", "closed-uid");
    assert!(service.metric(forbidden) >= 2.0);
    let kinds =
        json!({"resources": [{"name": "closedjobs", "kind": "ClosedJob", "namespaced": true}]});
    cluster.set("/apis/closed.io/v1", kinds);
    let above = object("closed", Some(("apps/v1", "Deployment", "web")));
    cluster.set("/apis/closed.io/v1/namespaces/ml/closedjobs/closed", above);
    cluster.grant();
    becomes("web-7f-x", "web", "web-uid");
    becomes("closed-0", "web", "web-uid");

    // An owner that was replaced under the same name.
    becomes("shop-1-x", "shop", "shop-uid");
    let mut again = object("shop", None);
    again["metadata"]["uid"] = json!("shop-2-uid");
    cluster.set(&format!("{apps}/deployments/shop"), again);
    cluster.set(&format!("{apps}/replicasets/shop-1"), set("shop-1", "shop", "shop-2-uid"));
    becomes("shop-1-x", "shop", "shop-2-uid");

    // A kind that is new in an API group that was known.
    becomes("odd-0", "odd", "odd-uid");
    let kind = |name: &str, kind: &str| json!({"name": name, "kind": kind, "namespaced": true});
    let kinds = [kind("fancyjobs", "FancyJob"), kind("oddjobs", "OddJob")];
    cluster.set("/apis/example.com/v1", json!({"resources": kinds}));
    let above = object("odd", Some(("example.com/v1", "FancyJob", "sweep")));
    cluster.set("/apis/example.com/v1/namespaces/ml/oddjobs/odd", above);
    cluster.set("/apis/example.com/v1/namespaces/ml/fancyjobs/sweep", object("sweep", None));
    becomes("odd-0", "sweep", "sweep-uid");
}
