//! Whose a training run is: the nearest owner's, in the group of the top controller, until its pods have ended.
#![allow(clippy::unwrap_used)]

mod support;

use crosstalk_processor::config::{Endpoint, Period};
use serde_json::{Value, json};
use support::cluster::{Cluster, kubeconfig, object, pod};
use support::http::{get, send};
use support::sink::Sink;
use support::{Service, eventually};

const TRIALS: usize = 20;

/// An experiment whose trials are Jobs of one pod each.
fn experiment() -> Cluster {
    let cluster = Cluster::start("t1");
    cluster.set("/apis/example.com/v1/namespaces/ml/fancyjobs/sweep", object("sweep", None));
    for number in 0..TRIALS {
        let trial = format!("trial-{number}");
        let above = object(&trial, Some(("example.com/v1", "FancyJob", "sweep")));
        cluster.set(&format!("/apis/batch/v1/namespaces/ml/jobs/{trial}"), above);
        cluster.add_pod(pod_of(number));
    }
    cluster
}

fn pod_of(number: usize) -> Value {
    let trial = format!("trial-{number}");
    pod(&format!("{trial}-0"), Some(("batch/v1", "Job", &trial)))
}

fn start(cluster: &Cluster, sink: &Sink) -> Service {
    Service::start(|config| {
        let folder = config.data_dir.parent().unwrap().to_owned();
        config.cache.kubernetes.enabled = true;
        config.cache.kubernetes.kubeconfig = Some(kubeconfig(cluster, &folder));
        config.cache.refresh = Period::seconds(1);
        config.endpoints = vec![Endpoint::new("store", sink.url())];
    })
}

/// Three iterations of every trial, all at the same times.
fn send_logs(service: &Service) {
    let line = |number: usize, iteration: usize| {
        json!({"date": 1_766_652_000 + iteration, "kubernetes": {"pod_name": format!("trial-{number}-0"), "namespace_name": "ml"},
               "log": format!("iteration {iteration}/9 | lm loss: {number}.5 | elapsed time per iteration (ms): 1500.0")})
    };
    let records: Vec<Value> =
        (1..=3).flat_map(|iteration| (0..TRIALS).map(move |n| line(n, iteration))).collect();
    let body = json!(records).to_string();
    assert_eq!(send(service.address, "POST", "/logs", &[], body.as_bytes()).status, 200);
}

fn workload(service: &Service, uid: &str) -> Option<Value> {
    let list = get(service.address, "/workloads?limit=1000").json();
    list["items"].as_array().unwrap().iter().find(|item| item["uid"] == uid).cloned()
}

#[test]
fn twenty_trials_of_one_experiment_stay_apart() {
    let (cluster, sink) = (experiment(), Sink::start());
    let service = start(&cluster, &sink);
    send_logs(&service);
    for number in 0..TRIALS {
        let path = format!("/workloads/trial-{number}-uid/training");
        let series = eventually(&path, || {
            let answer = get(service.address, &path);
            (answer.status == 200).then(|| answer.json())
        });
        assert_eq!(series["runs"].as_array().unwrap().len(), 1, "{series}");
        let losses: Vec<_> = series["points"].as_array().unwrap().iter().map(loss).collect();
        assert_eq!(losses, [number as f64 + 0.5; 3]);
    }
    let group = get(service.address, "/workloads?group_uid=sweep-uid").json();
    let members = group["items"].as_array().unwrap();
    assert_eq!(members.len(), TRIALS);
    for member in members {
        assert_eq!((&member["kind"], &member["namespace"]), (&json!("Job"), &json!("ml")));
        assert_eq!(
            (&member["group_uid"], &member["ended_at"]),
            (&json!("sweep-uid"), &Value::Null)
        );
    }
    let top = workload(&service, "sweep-uid").unwrap();
    assert_eq!((&top["name"], &top["kind"]), (&json!("sweep"), &json!("FancyJob")));
    assert_eq!((&top["group_uid"], &top["run"]), (&Value::Null, &Value::Null));
    let arrived = eventually("every trial's loss", || {
        let series = sink.series().into_iter();
        let loss: Vec<_> = series.filter(|s| s.labels.contains("workload_training_loss")).collect();
        (loss.len() == TRIALS).then_some(loss)
    });
    for series in arrived {
        assert!(series.labels.contains(" workload_group_name=sweep "), "{}", series.labels);
        assert!(series.labels.contains(" workload_group_uid=sweep-uid "), "{}", series.labels);
        assert!(series.labels.contains(" workload_kind=Job "), "{}", series.labels);
        assert!(series.labels.contains(" workload_uid=trial-"), "{}", series.labels);
    }
}

fn loss(point: &Value) -> f64 {
    point["performance"]["lm_loss"].as_f64().unwrap()
}

#[test]
fn a_workload_has_ended_when_its_last_pod_has_until_another_comes() {
    let (cluster, sink) = (experiment(), Sink::start());
    let service = start(&cluster, &sink);
    send_logs(&service);
    let ended = |uid: &str| eventually(uid, || workload(&service, uid))["ended_at"].clone();
    assert_eq!(ended("trial-0-uid"), Value::Null);
    // Its object stays, and says when.
    let mut finished = pod_of(0);
    finished["status"] = json!({"phase": "Succeeded", "containerStatuses": [
        {"name": "main", "state": {"terminated": {"finishedAt": "2026-01-02T03:04:05Z"}}},
    ]});
    cluster.change("/api/v1/pods", "MODIFIED", finished);
    eventually("the end that the pod tells", || {
        (ended("trial-0-uid") == json!(1_767_323_045_000_000_000_i64)).then_some(())
    });
    cluster.delete_pod("trial-1-0-uid");
    eventually("the end of the one that was deleted", || {
        ended("trial-1-uid").as_i64().filter(|at| *at > 1_767_323_045_000_000_000)
    });
    assert_eq!((ended("trial-2-uid"), ended("sweep-uid")), (Value::Null, Value::Null));
    let mut again = pod_of(1);
    again["metadata"]["uid"] = json!("another");
    cluster.add_pod(again);
    eventually("it goes on", || (ended("trial-1-uid") == Value::Null).then_some(()));
}

#[test]
fn what_part_a_pod_plays_and_when_its_workload_started_are_stored() {
    let (cluster, sink) = (experiment(), Sink::start());
    let with_role = |number: usize, role: &str| {
        let mut pod = pod_of(number);
        pod["metadata"]["labels"] = json!({"training.kubeflow.org/replica-type": role});
        pod
    };
    cluster.change("/api/v1/pods", "MODIFIED", with_role(0, "master"));
    let service = start(&cluster, &sink);
    send_logs(&service);
    // A pod that no source knows has the labels that its shipper tells; only those of the third are told here.
    let labels = json!({"training.kubeflow.org/replica-type": "worker"});
    let line = json!({"date": 1_766_652_009, "log": "iteration 4/9 | lm loss: 0.5",
        "kubernetes": {"pod_name": "trial-2-0", "namespace_name": "ml", "labels": labels}});
    let sent = send(service.address, "POST", "/logs", &[], json!([line]).to_string().as_bytes());
    assert_eq!(sent.status, 200);
    for (number, role) in [(0, json!("master")), (1, Value::Null), (2, json!("worker"))] {
        let path = format!("/workloads/trial-{number}-uid/training");
        let reporters = eventually(&path, || {
            let answer = get(service.address, &path).json();
            let reporters = answer["reporters"].as_array()?.clone();
            reporters
                .first()
                .is_some_and(|first| first["replica_role"] == role)
                .then_some(reporters)
        });
        assert_eq!(reporters.len(), 1);
        assert_eq!(reporters[0]["pod_uid"], format!("trial-{number}-0-uid"));
    }
    let mut started = with_role(0, "master");
    started["status"]["startTime"] = json!("2026-01-02T03:04:05Z");
    cluster.change("/api/v1/pods", "MODIFIED", started);
    for uid in ["trial-0-uid", "sweep-uid"] {
        eventually("the start that the pod tells", || {
            let started = workload(&service, uid)?["started_at"].as_i64()?;
            (started == 1_767_323_045_000_000_000).then_some(())
        });
    }
    assert_eq!(workload(&service, "trial-1-uid").unwrap()["started_at"], Value::Null);
}
