//! Training logs without a log shipper: files that are followed, and lines posted as they are.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::Write;
use std::path::Path;

use crosstalk_processor::follow::{Follow, FollowError, follow};
use serde_json::json;
use support::Service;
use support::http::{get, send};

fn lines(from: u32, to: u32) -> String {
    (from..=to).map(|n| format!("step: {n}  loss: {n}.5  lr: 1e-4\n")).collect()
}

fn once(service: &Service, file: &Path) -> Follow {
    Follow {
        files: vec![file.to_owned()],
        to: format!("http://{}", service.address),
        workload: None,
        namespace: Some("ml".into()),
        pod: Some("box".into()),
        bearer_token: None,
        bearer_token_file: None,
        ca_file: None,
        state_dir: service.folder.path().join("state"),
        from_end: false,
        once: true,
    }
}

fn append(file: &Path, text: &str) {
    let mut file = std::fs::File::options().create(true).append(true).open(file).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn iterations(service: &Service, workload: &str) -> Vec<u64> {
    let training = get(service.address, &format!("/workloads/{workload}/training")).json();
    let points = training["points"].as_array().unwrap();
    points.iter().map(|point| point["iteration"].as_u64().unwrap()).collect()
}

#[test]
fn a_file_is_read_on_where_it_was_left_and_after_rotation() {
    let service = Service::start(|_| {});
    let file = service.folder.path().join("llama.log");
    append(&file, &lines(1, 3));
    follow(once(&service, &file)).unwrap();
    append(&file, &lines(4, 5));
    std::fs::rename(&file, service.folder.path().join("llama.log.1")).unwrap();
    append(&file, &lines(6, 6));
    // A process that starts only now still finds what it had not read.
    follow(once(&service, &file)).unwrap();
    append(&file, "step: 7  loss: 7.5");
    follow(once(&service, &file)).unwrap();
    follow(once(&service, &file)).unwrap();
    let all = iterations(&service, "ml:llama");
    assert_eq!(all, [1, 2, 3, 4, 5, 6, 7]);
    // Nothing was told twice: a second telling would have opened another run.
    let workloads = get(service.address, "/workloads").json();
    assert_eq!(workloads["items"].as_array().unwrap().len(), 1, "{workloads}");
    assert_eq!(service.metric("log_analysis_consume_count{type=\"training\"}"), 7.0);
}

#[test]
fn a_processor_that_never_will_take_lines_ends_it_with_the_reason() {
    let service = Service::start(|config| {
        config.listener.bearer_token = Some(crosstalk_processor::config::Secret::new("right"));
    });
    let file = service.folder.path().join("llama.log");
    append(&file, &lines(1, 3));
    let error = follow(once(&service, &file)).unwrap_err();
    assert!(matches!(error, FollowError::Answer { status: 401, .. }), "{error}");
    let right = crosstalk_processor::config::Secret::new("right");
    follow(Follow { bearer_token: Some(right), ..once(&service, &file) }).unwrap();
}

#[test]
fn lines_posted_as_text_are_of_the_workload_in_the_query() {
    let service = Service::start(|_| {});
    let post = |path: &str, kind: &str, body: &str| {
        send(service.address, "POST", path, &[("Content-Type", kind)], body.as_bytes())
    };
    let text = format!("starting\n2025-01-01T00:00:00Z {}", lines(1, 2));
    let answer =
        post("/logs?workload=demo&namespace=ml&node=n1", "text/plain; charset=utf-8", &text);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        (&answer.json()["accepted"], &answer.json()["iterations"]),
        (&json!(3), &json!(2)),
        "{}",
        answer.text()
    );
    assert_eq!(iterations(&service, "ml:demo"), [1, 2]);
    // As curl --data-binary sends a file, with a UID of its own.
    let form = "application/x-www-form-urlencoded";
    let answer = post("/v1/logs?workload=demo&workload_uid=u-1&at=1735689600", form, &lines(5, 5));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let training = get(service.address, "/workloads/u-1/training").json();
    assert_eq!(training["points"][0]["created_at"], json!(1_735_689_600_000_000_000i64));
    // JSON stays JSON, and nobody's lines are nobody's.
    assert_eq!(post("/logs?workload=demo", "application/json", "[]").status, 200);
    let answer = post("/logs", "text/plain", "step: 1 loss: 2");
    assert!(answer.status == 400 && answer.text().contains("workload="), "{}", answer.text());
    let answer = post("/logs?workload=demo&at=yesterday", "text/plain", "step: 1 loss: 2");
    assert!(answer.status == 400 && answer.text().contains("yesterday"), "{}", answer.text());
}

#[test]
fn a_bar_and_the_values_after_it_are_one_iteration_also_in_records_of_their_own() {
    let service = Service::start(|_| {});
    let record = |at: u32, stream: &str, log: String| {
        json!({"date": 1735689600 + at, "stream": stream, "log": log,
               "kubernetes": {"namespace_name": "ml", "pod_name": "hf-0", "container_name": "main"}})
    };
    for step in 1..=6u32 {
        let bar = format!("\r  1%|  | {step}/60 [00:05<04:30,  2.00it/s]\r          ");
        let values = format!("{{'loss': {step}.5, 'learning_rate': 5e-05, 'epoch': 0.1}}");
        let other = record(step, "stdout", "hello".into());
        let body = json!([record(step, "stderr", bar), other]).to_string();
        assert_eq!(send(service.address, "POST", "/logs", &[], body.as_bytes()).status, 200);
        let body = record(step, "stdout", values).to_string();
        assert_eq!(send(service.address, "POST", "/logs", &[], body.as_bytes()).status, 200);
    }
    assert_eq!(iterations(&service, "ml:hf-0"), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn more_records_or_training_lines_than_allowed_are_refused_by_name() {
    let service = Service::start(|config| {
        config.limits.max_logs_records = 20;
        config.limits.max_logs_observations = 10;
    });
    let post = |body: &str| {
        send(
            service.address,
            "POST",
            "/logs?workload=w",
            &[("Content-Type", "text/plain")],
            body.as_bytes(),
        )
    };
    assert_eq!(post(&lines(1, 10)).status, 200);
    let answer = post(&lines(11, 21));
    assert!(
        answer.status == 413 && answer.text().contains("max_logs_observations"),
        "{}",
        answer.text()
    );
    let answer = post(&"hello\n".repeat(21));
    assert!(
        answer.status == 413 && answer.text().contains("max_logs_records"),
        "{}",
        answer.text()
    );
    let answer = send(service.address, "POST", "/logs", &[], "{}\n".repeat(21).as_bytes());
    assert!(
        answer.status == 413 && answer.text().contains("max_logs_records"),
        "{}",
        answer.text()
    );
    // One record of many lines.
    let record = json!({"date": 1735689600, "log": lines(1, 11), "kubernetes": {"pod_name": "p"}});
    let answer = send(service.address, "POST", "/logs", &[], record.to_string().as_bytes());
    assert!(
        answer.status == 413 && answer.text().contains("max_logs_observations"),
        "{}",
        answer.text()
    );
}
