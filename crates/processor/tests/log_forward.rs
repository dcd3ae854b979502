//! Every log record goes on to the log stores, with its workload, and none is lost on the way.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crosstalk_processor::config::{LogForward, LogStore, Secret, WhenFull};
use crosstalk_processor::dead_letters::{DeadLetters, Replayed, replay_logs};
use serde_json::{Value, json};
use support::Service;
use support::http::{get, send};

/// A log store that keeps what it takes, and answers as it is told.
#[derive(Clone)]
struct Store {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    heads: Vec<String>,
    taken: Vec<String>,
    /// Status and body of the next answers; after them everything is taken.
    answers: Vec<(&'static str, &'static str)>,
}

impl Store {
    fn start(answers: &[(&'static str, &'static str)]) -> Store {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared =
            Arc::new(Mutex::new(Shared { answers: answers.to_vec(), ..Shared::default() }));
        let store = Store { address, shared };
        let serving = store.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let store = serving.clone();
                std::thread::spawn(move || store.serve(stream));
            }
        });
        store
    }

    fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut writer = stream;
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if reader.read_line(&mut head).ok()? == 0 {
                    return None;
                }
            }
            let length = head.lines().find_map(|line| {
                line.to_lowercase().strip_prefix("content-length: ")?.trim().parse::<usize>().ok()
            });
            let mut body = vec![0; length?];
            reader.read_exact(&mut body).ok()?;
            let mut text = String::new();
            flate2::read::GzDecoder::new(&body[..]).read_to_string(&mut text).unwrap();
            let mut shared = self.shared.lock().unwrap();
            shared.heads.push(head);
            let answer = match shared.answers.is_empty() {
                true => None,
                false => Some(shared.answers.remove(0)),
            };
            let (status, said) = answer.unwrap_or(("200 OK", "{\"errors\":false}"));
            if status.starts_with('2') {
                shared.taken.push(text);
            }
            drop(shared);
            write!(writer, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{said}", said.len())
                .ok()?;
        }
    }

    fn wait_for(&self, bodies: usize) -> Vec<String> {
        support::eventually("bodies at the log store", || {
            let taken = self.shared.lock().unwrap().taken.clone();
            (taken.len() >= bodies).then_some(taken)
        })
    }
}

fn record(at: u32, log: &str) -> Value {
    json!({"date": 1766652000 + at, "log": log, "stream": "stdout",
           "kubernetes": {"namespace_name": "ml", "pod_name": "p-0", "host": "node-a", "container_name": "main", "labels": {"job-name": "demo"}}})
}

fn post(service: &Service, records: &[Value]) -> u16 {
    send(service.address, "POST", "/logs", &[], json!(records).to_string().as_bytes()).status
}

#[test]
fn every_record_arrives_in_both_kinds_of_store_after_any_refusal_that_may_pass() {
    let loki = Store::start(&[
        ("503 Busy", ""),
        ("401 Unauthorized", ""),
        ("404 Not Found", ""),
        ("429 Slow Down", ""),
    ]);
    let busy = r#"{"errors":true,"items":[{"create":{"status":201}},{"create":{"status":429,"error":{"type":"busy"}}}]}"#;
    let again = r#"{"errors":true,"items":[{"create":{"status":409}},{"create":{"status":201}}]}"#;
    let elastic = Store::start(&[("200 OK", busy), ("200 OK", again)]);
    let service = Service::start(|config| {
        let mut first = LogForward::new("loki", format!("http://{}", loki.address));
        first.headers.insert("X-Scope-OrgID".into(), Secret::new("team"));
        let second = LogForward {
            kind: LogStore::Elasticsearch,
            ..LogForward::new("elastic", format!("http://me:pw@{}", elastic.address))
        };
        config.logs.forwards = vec![first, second];
    });
    assert_eq!(post(&service, &[record(1, "hello"), record(2, "step: 1 loss: 2.5")]), 200);
    let body: Value = serde_json::from_str(&loki.wait_for(1)[0]).unwrap();
    assert_eq!(
        body["streams"][0]["stream"],
        json!({"container": "main", "namespace": "ml", "node": "node-a", "pod": "p-0", "stream": "stdout",
               "workload_group_name": "demo", "workload_group_uid": "ml:demo", "workload_name": "demo", "workload_uid": "ml:demo"})
    );
    assert_eq!(
        body["streams"][0]["values"],
        json!([["1766652001000000000", "hello"], ["1766652002000000000", "step: 1 loss: 2.5"]])
    );
    // Elasticsearch was sent the same body again, and by its ids the same documents.
    let taken = elastic.wait_for(2);
    assert_eq!(taken[0], taken[1]);
    let lines: Vec<Value> =
        taken[1].lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[3]["workload_uid"]), (4, &json!("ml:demo")));
    let head = |store: &Store| store.shared.lock().unwrap().heads[0].to_lowercase();
    let (loki_head, elastic_head) = (head(&loki), head(&elastic));
    assert!(
        loki_head.starts_with("post /loki/api/v1/push ")
            && loki_head.contains("x-scope-orgid: team"),
        "{loki_head}"
    );
    assert!(
        elastic_head.starts_with("post /_bulk ") && elastic_head.contains("authorization: basic "),
        "{elastic_head}"
    );
    support::eventually("both counts", || {
        let count = |name: &str| {
            service.metric(&format!(
                "crosstalk_processor_log_forwarded_lines_total{{store=\"{name}\"}}"
            ))
        };
        (count("loki") == 2.0 && count("elastic") == 2.0).then_some(())
    });
}

#[test]
fn what_a_log_store_had_not_taken_is_delivered_after_a_restart_and_a_bad_body_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = support::process::free_port();
    let start = |to: SocketAddr| {
        Service::start(|config| {
            config.data_dir = folder.path().to_owned();
            config.logs.forwards = vec![LogForward::new("loki", format!("http://{to}"))];
        })
    };
    let service = start(nobody);
    assert_eq!(post(&service, &[record(1, "one")]), 200);
    assert_eq!(post(&service, &[record(2, "two"), record(3, "three")]), 200);
    assert!(service.metric("crosstalk_processor_log_forward_queue_bytes{store=\"loki\"}") > 0.0);
    drop(service);
    let store = Store::start(&[("400 Bad Request", "entry too far behind")]);
    let service = start(store.address);
    let taken = store.wait_for(1);
    assert!(taken[0].contains("two") && taken[0].contains("three"), "{taken:?}");
    assert_eq!(
        service.metric("crosstalk_processor_log_forward_refused_lines_total{store=\"loki\"}"),
        1.0
    );
    let letters = DeadLetters::of_log_store(folder.path(), "loki");
    let kept = letters.list().unwrap();
    let about = &kept[0].about;
    assert_eq!((kept.len(), about.status, about.samples), (1, 400, 1));
    assert_eq!((&*about.reason, &*about.protocol), ("entry too far behind", "logs"));
    drop(service);
    // The store is mended; one more try finds it away first.
    let mut told = Vec::new();
    let away = LogForward::new("loki", format!("http://{nobody}"));
    replay_logs(folder.path(), &away, |_| true, |_, replayed| told.push(replayed.clone())).unwrap();
    assert!(matches!(&told[..], [Replayed::Away(_)]), "{told:?}");
    let mended = LogForward::new("loki", format!("http://{}", store.address));
    replay_logs(folder.path(), &mended, |_| true, |_, replayed| told.push(replayed.clone()))
        .unwrap();
    assert_eq!(told[1..], [Replayed::Delivered]);
    assert!(store.wait_for(2)[1].contains("one"));
    assert!(letters.list().unwrap().is_empty());
}

#[test]
fn of_a_bulk_request_those_documents_are_kept_that_the_store_names() {
    let folder = tempfile::tempdir().unwrap();
    let bad = r#"{"errors":true,"items":[{"create":{"status":201}},{"create":{"status":400,"error":{"type":"mapper_parsing_exception"}}},{"create":{"status":201}}]}"#;
    let store = Store::start(&[("200 OK", bad)]);
    let forward = LogForward {
        kind: LogStore::Elasticsearch,
        ..LogForward::new("elastic", format!("http://{}", store.address))
    };
    let service = Service::start(|config| {
        config.data_dir = folder.path().to_owned();
        config.logs.forwards = vec![forward.clone()];
    });
    assert_eq!(post(&service, &[record(1, "one"), record(2, "two"), record(3, "three")]), 200);
    let letters = DeadLetters::of_log_store(folder.path(), "elastic");
    let kept = support::eventually("a dead letter", || {
        Some(letters.list().unwrap()).filter(|letters| !letters.is_empty())
    });
    assert_eq!((kept[0].about.samples, kept[0].about.status), (1, 400));
    assert!(kept[0].about.reason.contains("mapper_parsing_exception"), "{:?}", kept[0].about);
    let forwarded = "crosstalk_processor_log_forwarded_lines_total{store=\"elastic\"}";
    support::eventually("the others", || (service.metric(forwarded) == 2.0).then_some(()));
    assert_eq!(service.metric("crosstalk_processor_log_forward_dead_letters_total{"), 1.0);
    // Refused again it stays; taken, it was the one document and no other.
    store.shared.lock().unwrap().answers = vec![(
        "200 OK",
        r#"{"errors":true,"items":[{"create":{"status":400,"error":{"type":"still"}}}]}"#,
    )];
    let mut told = Vec::new();
    for _ in 0..2 {
        replay_logs(folder.path(), &forward, |_| true, |_, replayed| told.push(replayed.clone()))
            .unwrap();
    }
    let refused = Replayed::Refused(400, r#"{"type":"still"}"#.to_owned());
    assert_eq!(told, [refused, Replayed::Delivered]);
    let sent = store.wait_for(3)[2].clone();
    assert!(sent.contains("two") && !sent.contains("one") && !sent.contains("three"), "{sent}");
    assert!(letters.list().unwrap().is_empty());
}

#[test]
fn a_full_queue_of_a_log_store_is_told_to_log_senders_alone() {
    let nobody = support::process::free_port();
    let service = Service::start(|config| {
        let mut forward = LogForward::new("loki", format!("http://{nobody}"));
        forward.max_queue_bytes = 4 << 20;
        config.logs.forwards = vec![forward];
    });
    let mut random = fastrand::Rng::with_seed(1);
    let full = support::eventually("the queue is full", || {
        let records = [record(1, &noise(&mut random)), record(2, &noise(&mut random))];
        let answer = post(&service, &records);
        (answer != 200).then_some(answer)
    });
    assert_eq!(full, 429);
    let labels: &[(&str, &str)] = &[("__name__", "up")];
    assert_eq!(support::write::write(service.address, &[(labels, &[(1.0, 5)])]).status, 204);
}

#[test]
fn a_sole_log_store_that_is_away_keeps_no_training_line_from_the_database() {
    let nobody = support::process::free_port();
    let service = Service::start(|config| {
        let mut forward = LogForward::new("loki", format!("http://{nobody}"));
        forward.max_queue_bytes = 4 << 20;
        config.logs.forwards = vec![forward];
    });
    let mut random = fastrand::Rng::with_seed(4);
    let mut body = 0;
    support::eventually("the queue is full", || {
        body += 1;
        let line = format!("step: {body} loss: 2.5");
        let records = [record(body, &line), record(body, &noise(&mut random))];
        (post(&service, &records) == 429).then_some(())
    });
    // The sender tries again, as it was asked to.
    let line = format!("step: {body} loss: 2.5");
    let again = [record(body, &line), record(body, &noise(&mut random))];
    assert_eq!(post(&service, &again), 429);
    let stored = || {
        let training = get(service.address, "/workloads/ml:demo/training");
        (training.status == 200).then(|| training.json())
    };
    let training = support::eventually("every line is stored", || {
        let last = |training: &Value| {
            training["points"].as_array().is_some_and(|points| points.len() == body as usize)
        };
        stored().filter(last)
    });
    assert_eq!(training["runs"].as_array().unwrap().len(), 1, "{training}");
}

#[test]
fn a_sole_endpoint_that_is_away_keeps_no_line_from_the_database_and_the_log_stores() {
    let (loki, nobody) = (Store::start(&[]), support::process::free_port());
    let service = Service::start(|config| {
        let url = format!("http://{nobody}/api/v1/write");
        let mut endpoint = crosstalk_processor::config::Endpoint::new("store", url);
        endpoint.max_queue_bytes = 20_000;
        config.limits.max_body_bytes = 10_000;
        config.endpoints = vec![endpoint];
        config.logs.forwards = vec![LogForward::new("loki", format!("http://{}", loki.address))];
    });
    let dropped = "crosstalk_processor_dropped_samples_total{reason=\"no_room\"}";
    let mut step = 0;
    support::eventually("the endpoint's queue is full", || {
        step += 1;
        assert_eq!(post(&service, &[record(step, &format!("step: {step} loss: 2.5"))]), 200);
        (service.metric(dropped) > 0.0).then_some(())
    });
    assert!(loki.wait_for(step as usize).last().unwrap().contains(&format!("step: {step} ")));
    let training = support::eventually("every line is stored", || {
        let training = get(service.address, "/workloads/ml:demo/training").json();
        let points = training["points"].as_array().map_or(0, Vec::len);
        (points == step as usize).then_some(training)
    });
    assert_eq!(training["runs"].as_array().unwrap().len(), 1, "{training}");
}

/// A megabyte that does not compress, so that a small queue is full soon.
fn noise(random: &mut fastrand::Rng) -> String {
    (0..1 << 20).map(|_| random.alphanumeric()).collect()
}

#[test]
fn a_body_that_one_log_store_has_no_room_for_is_sent_to_none() {
    let (loki, nobody) = (Store::start(&[]), support::process::free_port());
    let service = Service::start(|config| {
        let mut away = LogForward::new("away", format!("http://{nobody}"));
        away.max_queue_bytes = 4 << 20;
        away.when_full = Some(WhenFull::Block);
        config.logs.forwards =
            vec![LogForward::new("loki", format!("http://{}", loki.address)), away];
    });
    let mut random = fastrand::Rng::with_seed(2);
    let mut sent = 0;
    let refused = support::eventually("the queue is full", || {
        sent += 1;
        let marked = format!("body-{sent}. {}", noise(&mut random));
        (post(&service, &[record(sent, &marked)]) == 429).then_some(sent)
    });
    // A small one fits behind it, and shows that the store was sent all there is.
    assert_eq!(post(&service, &[record(refused + 1, "small")]), 200);
    let taken = loki.wait_for(refused as usize);
    assert!(taken.last().unwrap().contains("small"));
    let mark = format!("body-{refused}. ");
    assert!(!taken.iter().any(|body| body.contains(&mark)), "its sender will send it again");
}

#[test]
fn one_of_several_log_stores_that_is_away_costs_the_others_nothing() {
    let (loki, nobody) = (Store::start(&[]), support::process::free_port());
    let service = Service::start(|config| {
        let mut away = LogForward::new("away", format!("http://{nobody}"));
        away.max_queue_bytes = 4 << 20;
        config.logs.forwards =
            vec![LogForward::new("loki", format!("http://{}", loki.address)), away];
    });
    let mut random = fastrand::Rng::with_seed(3);
    for body in 0..12 {
        assert_eq!(post(&service, &[record(body, &noise(&mut random))]), 200);
    }
    assert_eq!(loki.wait_for(12).len(), 12);
    let dropped = |store: &str| {
        service.metric(&format!(
            "crosstalk_processor_log_forward_dropped_lines_total{{store=\"{store}\"}}"
        ))
    };
    assert!(dropped("away") >= 1.0, "the oldest went");
    assert_eq!(dropped("loki"), 0.0);
}
