//! Logs in, training runs out, with nothing configured.
#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use support::Service;
use support::http::{Answer, get, send};

fn record(at: f64, pod: &str, message: &str) -> Value {
    json!({
        "date": at, "stream": "stdout", "logtag": "F", "message": message,
        "kubernetes": {
            "pod_name": pod, "namespace_name": "ml", "pod_id": format!("{pod}-id"), "host": "node-a",
            "container_name": "main", "labels": {"training.kubeflow.org/job-name": "job-1"},
        },
    })
}

fn line(iteration: u32, loss: &str) -> String {
    format!(
        "[2025-12-25 08:40:22] iteration {iteration:8}/      50 | consumed samples: {} | \
         elapsed time per iteration (ms): 6046.6 | throughput per GPU (TFLOP/s/GPU): 1255.4 | \
         learning rate: 1.000000E-05 | global batch size:   128 | lm loss: {loss} | loss scale: 1.0 | \
         grad norm: 7.499 | number of skipped iterations:   0 | number of nan iterations:   0",
        iteration * 128
    )
}

fn post(service: &Service, path: &str, body: &str) -> Answer {
    send(service.address, "POST", path, &[("Content-Type", "application/json")], body.as_bytes())
}

#[test]
fn a_training_run_is_stored_and_shown_with_nothing_configured() {
    let service = Service::start(|_| {});
    let mut records = vec![record(1766652000.0, "job-1-worker-0", "training ...")];
    for iteration in 1..=20 {
        let at = 1766652000.25 + f64::from(iteration);
        records.push(record(at, "job-1-worker-0", &line(iteration, "1.189062E+01")));
        // A single-node run prints each iteration twice.
        records.push(record(at, "job-1-worker-0", &line(iteration, "1.189062E+01")));
    }
    records.push(record(1766652100.0, "job-1-worker-0", &line(21, "nan")));
    let answer = post(&service, "/logs", &json!(records).to_string());
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        (answer.json()["accepted"].as_u64(), answer.json()["rejected"].as_u64()),
        (Some(42), Some(0))
    );

    let workloads = get(service.address, "/workloads").json();
    assert_eq!(workloads["items"][0]["uid"], "ml:job-1", "{workloads}");
    assert_eq!(workloads["items"][0]["last_iteration"], 21);
    let training = get(service.address, "/v1/workloads/ml:job-1/training").json();
    assert_eq!(training["points"].as_array().unwrap().len(), 21, "{training}");
    let point = &training["points"][4];
    assert_eq!((&point["iteration"], &point["pod_uid"]), (&json!(5), &json!("job-1-worker-0-id")));
    assert_eq!(point["created_at"], json!(1_766_652_005_250_000_000i64));
    assert_eq!(point["performance"]["tflops"], json!(1255.4), "{point}");
    let thinned = get(service.address, "/workloads/ml:job-1/training?max_points=5").json();
    assert!(thinned["points"].as_array().unwrap().len() <= 5);

    let events = get(service.address, "/events").json();
    let kinds: Vec<&str> =
        events["items"].as_array().unwrap().iter().filter_map(|e| e["type"].as_str()).collect();
    assert_eq!(kinds, ["nan_loss", "training_start"], "{events}");
    let page = get(service.address, "/events?limit=1&workload_uid=ml:job-1").json();
    let next = page["next"].as_str().unwrap();
    let page = get(service.address, &format!("/events?limit=1&cursor={next}")).json();
    assert_eq!(page["items"][0]["type"], "training_start");

    assert_eq!(service.metric("log_analysis_consume_count{type=\"training\"}"), 41.0);
    assert_eq!(service.metric("workload_event_create_count"), 2.0);
    assert!(service.metric("log_consume_latency_seconds_count{node=\"node-a\"}") >= 42.0);
}

#[test]
fn good_records_are_kept_and_bad_ones_named() {
    let service = Service::start(|_| {});
    let body = format!("{}\n{{\"date\": \"x\"}}\n", record(1766652000.0, "p", &line(1, "1.0E+00")));
    let answer = post(&service, "/v1/logs", &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    assert_eq!((&answer["iterations"], &answer["rejected"]), (&json!(1), &json!(1)));
    assert_eq!(answer["reasons"][0]["index"], 1);
    for body in ["", "[", "{\"date\": 1}"] {
        assert_eq!(post(&service, "/logs", body).status, 400, "{body:?}");
    }
    assert_eq!(get(service.address, "/logs").status, 405);
    let deflate = [("Content-Encoding", "deflate")];
    assert_eq!(send(service.address, "POST", "/logs", &deflate, b"[]").status, 415);
}

#[test]
fn bodies_may_be_compressed_with_gzip_or_zstd_and_are_bounded_when_decompressed() {
    let service = Service::start(|config| config.limits.max_logs_body_bytes = 10_000);
    let gzip = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let headers = [("Content-Type", "application/json"), ("Content-Encoding", "gzip")];
    let post = |body: &[u8]| send(service.address, "POST", "/logs", &headers, body);
    let body = json!([record(1766652000.0, "p", &line(1, "1.0E+00"))]).to_string();
    let answer = post(&gzip(&body));
    assert_eq!(
        (answer.status, &answer.json()["iterations"]),
        (200, &json!(1)),
        "{}",
        answer.text()
    );
    let answer = post(&gzip(&" ".repeat(5 << 20)));
    assert!(
        answer.status == 413 && answer.text().contains("max_logs_body_bytes"),
        "{}",
        answer.text()
    );
    let answer = post(body.as_bytes());
    assert!(answer.status == 400 && answer.text().contains("gzip"), "{}", answer.text());
    let zstd = |text: &str| {
        let mut compressor = crosstalk_remote_write::Compressor::default();
        let packed =
            compressor.compress(crosstalk_remote_write::Compression::Zstd, text.as_bytes());
        let headers = [("Content-Type", "application/json"), ("Content-Encoding", "zstd")];
        send(service.address, "POST", "/logs", &headers, packed)
    };
    let answer = zstd(&json!([record(1766652001.0, "p", &line(2, "1.0E+00"))]).to_string());
    assert_eq!((answer.status, &answer.json()["iterations"]), (200, &json!(1)));
    let answer = zstd(&" ".repeat(5 << 20));
    assert!(answer.status == 413, "{}", answer.text());
}

#[test]
fn rows_older_than_their_table_keeps_them_are_deleted() {
    use crosstalk_processor::config::{Period, Secret};
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("own.sqlite").display());
    let old = Service::start(|config| config.database = Secret::new(url.clone()));
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let records = json!([
        record(now - 3.0 * 86_400.0, "p", "training ..."),
        record(now - 3.0 * 86_400.0, "p", &line(1, "1.0E+00")),
        record(now - 60.0, "p", &line(2, "1.0E+00")),
    ]);
    assert_eq!(post(&old, "/logs", &records.to_string()).json()["iterations"], 2);
    drop(old);
    let service = Service::start(|config| {
        config.database = Secret::new(url);
        config.retention.training_performance = Some(Period::seconds(86_400));
    });
    support::eventually("the old iteration is gone", || {
        let training = get(service.address, "/workloads/ml:job-1/training").json();
        let points = training["points"].as_array().unwrap();
        (points.len() == 1 && points[0]["iteration"] == 2).then_some(())
    });
    // Of the table that nothing is said of nothing goes.
    assert_eq!(get(service.address, "/events").json()["items"][0]["type"], "training_start");
}

#[test]
fn what_is_not_stored_is_told_in_the_answer_and_nothing_is_fine() {
    let service = Service::start(|_| {});
    assert_eq!(post(&service, "/logs", "[]").status, 200);
    let mut nobody = record(1766652000.0, "p", &line(1, "1.0E+00"));
    nobody["kubernetes"] = json!(null);
    let too_long = record(1766652000.0, &"p".repeat(300), &line(1, "1.0E+00"));
    let good = record(1766652000.0, "p", &line(1, "1.0E+00"));
    let answer = post(&service, "/logs", &json!([nobody, too_long, good]).to_string());
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    assert_eq!(
        (&answer["accepted"], &answer["rejected"], &answer["iterations"]),
        (&json!(1), &json!(2), &json!(1)),
        "{answer}"
    );
    let places: Vec<_> = (0..2).map(|place| answer["reasons"][place]["index"].clone()).collect();
    assert_eq!(places, [json!(0), json!(1)]);
    assert!(answer["reasons"][1]["reason"].as_str().unwrap().contains("255"), "{answer}");
    let answer = post(&service, "/logs", &json!([nobody]).to_string());
    assert_eq!(answer.status, 400, "{}", answer.text());
}

#[test]
fn unknown_things_and_bad_cursors_are_not_answered_200() {
    let service = Service::start(|_| {});
    assert_eq!(get(service.address, "/workloads/nobody/training").status, 404);
    assert_eq!(get(service.address, "/events?cursor=x").status, 400);
    assert_eq!(get(service.address, "/events?limit=x").status, 400);
    assert_eq!(get(service.address, "/nowhere").status, 404);
}

#[test]
fn the_description_names_every_route_and_every_route_it_names_is_served() {
    let service = Service::start(|_| {});
    let document = get(service.address, "/openapi.json").json();
    let paths = document["paths"].as_object().unwrap();
    for path in [
        "/prometheus",
        "/api/v1/write",
        "/logs",
        "/pods/cache",
        "/pods/workload/cache",
        "/workloads",
        "/workloads/{uid}/training",
        "/events",
        "/metrics",
        "/openapi.json",
        "/healthz",
        "/readyz",
    ] {
        assert!(paths.contains_key(path), "{path} is not described");
    }
    for (path, methods) in paths {
        let method = methods.as_object().unwrap().keys().next().unwrap().to_uppercase();
        let answer = send(service.address, &method, &path.replace("{uid}", "x"), &[], b"");
        assert!(!answer.text().contains("there is nothing at"), "{path}");
        assert_ne!(answer.status, 405, "{path}");
    }
}

#[test]
fn pods_and_devices_in_the_database_lead_to_workloads() {
    use crosstalk_store::{Device, Inventory, Pod, PodWorkload, Store, Workload};
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("own.sqlite").display());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = Store::open(&url).await.unwrap();
        let inventory = Inventory {
            pods: vec![Pod {
                uid: "p1".into(),
                name: "train-0".into(),
                namespace: "ml".into(),
                node: Some("node-a".into()),
                ..Pod::default()
            }],
            devices: vec![Device {
                node: "node-a".into(),
                label: "gpu_id".into(),
                name: "3".into(),
                pod_uid: "p1".into(),
            }],
            workloads: vec![Workload {
                uid: "w1".into(),
                name: Some("train".into()),
                namespace: Some("ml".into()),
                kind: Some("Job".into()),
                ..Workload::default()
            }],
            references: vec![PodWorkload { pod_uid: "p1".into(), workload_uid: "w1".into() }],
            containers: vec![],
        };
        store.save_inventory(&inventory).await.unwrap();
        store.close().await;
    });
    let service =
        Service::start(|config| config.database = crosstalk_processor::config::Secret::new(url));
    let devices = support::eventually("the tables are read", || {
        Some(get(service.address, "/pods/cache").json()).filter(|view| *view != json!({}))
    });
    assert_eq!(devices, json!({"node-a": {"gpu_id": {"3": ["train-0", "p1"]}}}));
    let workloads = get(service.address, "/pods/workload/cache").json();
    assert_eq!(workloads, json!({"train-0": [["train", "w1"]]}));
}

#[test]
fn a_progress_bar_and_its_values_are_one_iteration_though_a_restart_comes_between() {
    let bar = "  2%|▏         | 10/500 [00:05<04:10,  1.96it/s]";
    let values = "{'loss': 2.5, 'grad_norm': 1.0, 'learning_rate': 5e-05, 'epoch': 0.02}";
    let send_line = |service: &Service, at: f64, line: &str| {
        let body = json!([record(at, "job-1-worker-0", line)]).to_string();
        // Right after a restart senders are asked to come again.
        support::eventually("the line is taken", || {
            let answer = post(service, "/logs", &body);
            assert!([200, 503].contains(&answer.status), "{}", answer.text());
            (answer.status == 200).then_some(())
        });
    };
    let service = Service::start(|_| {});
    send_line(&service, 1766652001.0, bar);
    let service = service.restart(|_| {});
    service.wait_until_ready();
    send_line(&service, 1766652002.0, values);
    let training = support::eventually("the iteration is stored", || {
        let training = get(service.address, "/workloads/ml:job-1/training");
        (training.status == 200).then(|| training.json())
    });
    let point = &training["points"][0];
    assert_eq!((&point["iteration"], &point["performance"]["lm_loss"]), (&json!(10), &json!(2.5)));
}
