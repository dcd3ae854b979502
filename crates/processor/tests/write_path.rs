//! From a request to the store: what is answered, and what arrives.
#![allow(clippy::unwrap_used)]

mod support;

use crosstalk_processor::config::{Endpoint, EndpointProtocol, Missing, Period};
use crosstalk_remote_write::{Compression, Compressor, Protocol, STALE_MARKER_BITS};
use std::time::Duration;
use support::http::{send, send_all_first};
use support::sink::Sink;
use support::write::{SNAPPY, body, encode, snappy, write};
use support::{Service, eventually, pace};

fn start(sink: &Sink) -> Service {
    start_with(sink, |_| {})
}

fn start_with(sink: &Sink, change: impl FnOnce(&mut crosstalk_processor::Config)) -> Service {
    let url = sink.url();
    Service::start(|config| {
        let pods = config.data_dir.with_file_name("pods.yaml");
        std::fs::write(&pods, support::PODS).unwrap();
        config.cache.static_file = Some(pods);
        config.endpoints = vec![Endpoint::new("store", url)];
        change(config);
    })
}

const UP: &[(&str, &str)] = &[("__name__", "up"), ("namespace", "ml"), ("pod", "train-0")];
const ENRICHED: &str = "__name__=workload_up job=crosstalk-processor namespace=ml pod=train-0 \
                        pod_name=train-0 pod_uid=pod-ml workload_name=train workload_uid=w-ml ";

#[test]
fn a_series_of_a_pod_arrives_as_its_workloads() {
    let sink = Sink::start();
    let service = start(&sink);
    for (number, path) in ["/prometheus", "/v1/prometheus", "/api/v1/write", "/v1/api/v1/write"]
        .into_iter()
        .enumerate()
    {
        let body = body(&[(UP, &[(1.5, 1000 + number as i64)])]);
        let answer = send(service.address, "POST", path, &SNAPPY, &body);
        assert_eq!((answer.status, answer.written()), (204, [1, 0, 0]), "{path} {}", answer.text());
        assert!(answer.body.is_empty());
    }
    let series = sink.wait_for(4);
    for (number, arrived) in series.iter().enumerate() {
        assert_eq!(arrived.labels, ENRICHED);
        assert_eq!(arrived.samples, [(1.5f64.to_bits(), 1000 + number as i64)]);
    }
    let request = &sink.requests()[0];
    assert!(request.contains("x-prometheus-remote-write-version: 0.1.0"), "{request}");
    assert!(request.contains("content-encoding: snappy"));
}

#[test]
fn a_device_on_a_node_leads_to_the_workload_and_namespaces_do_not_mix() {
    let sink = Sink::start();
    let service = start(&sink);
    let gpu: &[(&str, &str)] =
        &[("__name__", "gpu_utilization"), ("gpu_id", "0"), ("node", "node-a")];
    let other: &[(&str, &str)] = &[("__name__", "up"), ("namespace", "other"), ("pod", "train-0")];
    assert_eq!(write(service.address, &[(gpu, &[(0.5, 1)]), (other, &[(1.0, 1)])]).status, 204);
    let mut series = sink.wait_for(2);
    series.sort_by(|one, other| one.labels.cmp(&other.labels));
    assert!(series[0].labels.contains("workload_uid=w-ml"), "{}", series[0].labels);
    assert!(series[1].labels.contains("workload_uid=w-other"), "{}", series[1].labels);
}

#[test]
fn everything_a_2_0_request_carries_arrives() {
    let sink = Sink::start();
    let service = start_with(&sink, |config| {
        config.endpoints[0].protocol = EndpointProtocol::V2;
    });
    let stale = f64::from_bits(STALE_MARKER_BITS);
    let body = snappy(&encode(Protocol::V2, &[(UP, &[(1.0, 5), (stale, 6)])]));
    let headers = [("Content-Type", Protocol::V2.content_type()), ("Content-Encoding", "snappy")];
    let answer = send(service.address, "POST", "/prometheus", &headers, &body);
    assert_eq!((answer.status, answer.written()), (204, [2, 0, 0]), "{}", answer.text());
    let series = sink.wait_for(1);
    assert_eq!(series[0].labels, ENRICHED);
    assert_eq!(series[0].samples, [(1.0f64.to_bits(), 5), (STALE_MARKER_BITS, 6)]);
    assert!(sink.requests()[0].contains("x-prometheus-remote-write-version: 2.0.0"));
}

#[test]
fn a_zstd_body_is_taken_as_vmagent_sends_it() {
    let sink = Sink::start();
    let service = start(&sink);
    let plain = encode(Protocol::V1, &[(UP, &[(1.0, 5)])]);
    let body = Compressor::default().compress(Compression::Zstd, &plain).to_vec();
    let headers = [
        ("Content-Type", "application/x-protobuf"),
        ("Content-Encoding", "zstd"),
        ("X-VictoriaMetrics-Remote-Write-Version", "1"),
    ];
    let answer = send(service.address, "POST", "/api/v1/write", &headers, &body);
    assert_eq!(answer.status, 204, "{}", answer.text());
    sink.wait_for(1);
}

#[test]
fn other_types_and_encodings_are_415_and_bad_bodies_400() {
    let sink = Sink::start();
    let service = start(&sink);
    let good = body(&[(UP, &[(1.0, 5)])]);
    let post = |content_type: &str, encoding: &str, body: &[u8]| {
        let headers = [("Content-Type", content_type), ("Content-Encoding", encoding)];
        let answer = send(service.address, "POST", "/prometheus", &headers, body);
        assert_eq!(answer.written(), [0, 0, 0]);
        assert!(answer.body.len() > 10, "an error says what is wrong");
        answer.status
    };
    let protobuf = "application/x-protobuf";
    assert_eq!(post("application/json", "snappy", &good), 415);
    assert_eq!(post("image/png", "snappy", &good), 415);
    assert_eq!(post("application/x-protobuf;proto=other.Message", "snappy", &good), 415);
    assert_eq!(post(protobuf, "gzip", &good), 415);
    assert_eq!(post(protobuf, "deflate", &good), 415);
    assert_eq!(post(protobuf, "snappy", b""), 400);
    assert_eq!(post(protobuf, "snappy", b"not snappy at all"), 400);
    assert_eq!(post(protobuf, "zstd", &good), 400);
    assert_eq!(post(protobuf, "snappy", &good[..good.len() - 3]), 400);
    assert_eq!(post(protobuf, "snappy", &snappy(b"\x0a\xff\xff\xff\xff\x0f")), 400);
    let v2 = Protocol::V2.content_type();
    assert_eq!(post(v2, "snappy", &snappy(b"\x22\x01x")), 400);
    assert!(sink.requests().is_empty());
}

#[test]
fn a_rejected_series_is_400_and_the_others_arrive() {
    let sink = Sink::start();
    let service = start(&sink);
    let names: Vec<String> = (0..10_000).map(|number| format!("l{number:05}")).collect();
    let mut many: Vec<(&str, &str)> = vec![("__name__", "many")];
    many.extend(names.iter().map(|name| (name.as_str(), "v")));
    let answer = write(service.address, &[(UP, &[(1.0, 5)]), (&many, &[(1.0, 5)])]);
    assert_eq!((answer.status, answer.written()), (400, [1, 0, 0]));
    assert!(answer.text().contains("max_labels (64)"), "{}", answer.text());
    assert_eq!(sink.wait_for(1)[0].labels, ENRICHED);
    assert_eq!(service.metric("crosstalk_processor_rejected_series_total"), 1.0);
}

#[test]
fn bodies_over_a_limit_are_413_and_name_it() {
    let sink = Sink::start();
    let service = start_with(&sink, |config| {
        config.limits.max_body_bytes = 10_000;
        config.limits.max_decoded_bytes = 20_000;
        config.limits.max_series = 3;
    });
    let huge = vec![0xf0; 50_000];
    let answer = send(service.address, "POST", "/prometheus", &SNAPPY, &huge);
    assert_eq!(answer.status, 413);
    assert!(answer.text().contains("max_body_bytes (10000)"), "{}", answer.text());
    let bomb = snappy(&vec![0; 100_000]);
    let answer = send(service.address, "POST", "/prometheus", &SNAPPY, &bomb);
    assert_eq!(answer.status, 413);
    assert!(answer.text().contains("max_decoded_bytes (20000)"), "{}", answer.text());
    let answer = write(service.address, &[(UP, &[(1.0, 5)][..]); 4]);
    assert_eq!(answer.status, 413);
    assert!(answer.text().contains("max_series (3)"), "{}", answer.text());
}

#[test]
fn a_sender_that_trickles_its_body_is_cut_off_and_others_are_served() {
    use std::io::Write;
    let sink = Sink::start();
    let service = start_with(&sink, |config| {
        config.listener.body_timeout = Period::seconds(1);
        config.listener.read_timeout = Period::seconds(1);
    });
    let mut slow_body = std::net::TcpStream::connect(service.address).unwrap();
    let head = "POST /prometheus HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n\
                Content-Encoding: snappy\r\nContent-Length: 1000\r\n\r\nab";
    slow_body.write_all(head.as_bytes()).unwrap();
    let mut slow_head = std::net::TcpStream::connect(service.address).unwrap();
    slow_head.write_all(b"POST /prometheus HTTP/1.1\r\nHos").unwrap();

    assert_eq!(write(service.address, &[(UP, &[(1.0, 5)])]).status, 204);
    let answer = support::http::read_answer(&mut slow_body).unwrap();
    // A status in the four hundreds would make the sender drop its data.
    assert_eq!((answer.status, answer.written()), (503, [0, 0, 0]), "{}", answer.text());
    // The head never came: the connection is closed, with or without a word.
    let answer = support::http::read_answer(&mut slow_head);
    assert!(answer.is_none_or(|answer| answer.status == 408));
}

/// Writes until a write is refused: how many were taken, and the refusal.
fn fill(service: &Service) -> (i64, support::http::Answer) {
    for number in 0..1000 {
        let answer = write(service.address, &[(UP, &[(number as f64, number)])]);
        if answer.status != 204 {
            return (number, answer);
        }
    }
    panic!("the queue never fills");
}

/// Small enough to be filled by a few writes.
fn small_queue(config: &mut crosstalk_processor::Config) {
    config.limits.max_body_bytes = 20_000;
    config.endpoints[0].max_queue_bytes = 20_000;
    config.endpoints[0].max_backoff = Period::seconds(1);
}

#[test]
fn a_client_that_sends_everything_first_still_sees_why_it_is_refused() {
    let sink = Sink::start();
    sink.answer_always(Some("503 Away"));
    let service = start_with(&sink, |config| {
        small_queue(config);
        config.listener.bearer_token = Some(crosstalk_processor::config::Secret::new("t"));
    });
    let large = vec![0xf0; 40 << 20];
    let post = |headers: &[(&str, &str)]| {
        let answer = send_all_first(service.address, "/prometheus", headers, &large);
        assert_eq!(answer.written(), [0, 0, 0]);
        answer.status
    };
    let bearer = ("Authorization", "Bearer t");
    assert_eq!(post(&SNAPPY), 401);
    let mut headers = SNAPPY.to_vec();
    headers.push(bearer);
    assert_eq!(post(&headers), 413);
    assert_eq!(post(&[("Content-Type", "application/json"), bearer]), 415);
    let small = body(&[(UP, &[(1.0, 5)])]);
    eventually("a full queue", || {
        let answer = send(service.address, "POST", "/prometheus", &headers, &small);
        (answer.status == 429).then_some(())
    });
    assert_eq!(post(&headers), 429);
}

#[test]
fn a_client_that_waits_to_be_asked_for_its_body_is_not_asked_in_vain() {
    use std::io::Write;
    let sink = Sink::start();
    let service = start_with(&sink, |config| config.limits.max_body_bytes = 10_000);
    let mut stream = std::net::TcpStream::connect(service.address).unwrap();
    let head = "POST /prometheus HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\n\
                Content-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\n\
                Content-Length: 50000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let answer = support::http::read_answer(&mut stream).unwrap();
    assert_eq!(answer.status, 413, "{}", answer.text());
}

#[test]
fn more_requests_than_allowed_are_429_and_say_that_nothing_was_written() {
    use std::io::Write;
    let sink = Sink::start();
    let service = start_with(&sink, |config| config.listener.requests = 1);
    let head = "POST /prometheus HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n\
                Content-Encoding: snappy\r\nContent-Length: 1000\r\n\r\nab";
    // A slow request may itself be the one that is refused, so each try has one of its own.
    let mut slow = Vec::new();
    let refused = eventually("a refusal", || {
        slow.push(std::net::TcpStream::connect(service.address).unwrap());
        slow.last_mut().unwrap().write_all(head.as_bytes()).unwrap();
        pace(Duration::from_millis(100));
        Some(write(service.address, &[(UP, &[(1.0, 5)])])).filter(|answer| answer.status != 204)
    });
    assert_eq!((refused.status, refused.written()), (429, [0, 0, 0]), "{}", refused.text());
}

#[test]
fn a_body_of_the_other_protocol_is_400() {
    let sink = Sink::start();
    let service = start(&sink);
    for (sent, said) in [(Protocol::V1, Protocol::V2), (Protocol::V2, Protocol::V1)] {
        let body = snappy(&encode(sent, &[(UP, &[(1.0, 5)])]));
        let headers = [("Content-Type", said.content_type()), ("Content-Encoding", "snappy")];
        let answer = send(service.address, "POST", "/prometheus", &headers, &body);
        assert_eq!((answer.status, answer.written()), (400, [0, 0, 0]), "{}", answer.text());
    }
    assert!(sink.requests().is_empty());
}

#[test]
fn a_full_queue_answers_429_and_takes_data_again_once_the_store_is_back() {
    let sink = Sink::start();
    sink.answer_always(Some("503 Away"));
    let service = start_with(&sink, small_queue);
    let (taken, refused) = fill(&service);
    assert_eq!((refused.status, refused.written()), (429, [0, 0, 0]), "{}", refused.text());
    assert!(refused.header("retry-after").is_some());
    assert!(refused.text().contains("queue is full"), "{}", refused.text());
    assert!(service.metric("crosstalk_processor_throttled_total{full=\"queue\"}") >= 1.0);

    sink.answer_always(None);
    let series = sink.wait_for(taken as usize);
    let order: Vec<i64> = series.iter().map(|arrived| arrived.samples[0].1).collect();
    assert_eq!(order, (0..taken).collect::<Vec<_>>());
    eventually("room in the queue", || {
        (write(service.address, &[(UP, &[(1.0, taken)])]).status == 204).then_some(())
    });
}

#[test]
fn a_store_that_asks_for_time_gets_it_and_order_is_kept() {
    let sink = Sink::start();
    let service = start(&sink);
    sink.answer_next("503 Busy");
    sink.answer_next("429 Slow\r\nRetry-After: 1");
    sink.answer_next("500 Oops");
    for number in 0..20 {
        assert_eq!(write(service.address, &[(UP, &[(1.0, number)])]).status, 204);
    }
    let series = sink.wait_for(20);
    let order: Vec<i64> = series.iter().map(|arrived| arrived.samples[0].1).collect();
    assert_eq!(order, (0..20).collect::<Vec<_>>());
    let retries =
        "crosstalk_processor_forward_retries_total{endpoint=\"store\",reason=\"throttled\"}";
    assert_eq!(service.metric(retries), 1.0);
}

#[test]
fn every_endpoint_gets_everything_in_its_own_protocol() {
    let (first, second) = (Sink::start(), Sink::start());
    let url = second.url();
    let service = start_with(&first, |config| {
        let mut endpoint = Endpoint::new("second", url);
        endpoint.protocol = EndpointProtocol::V2;
        config.endpoints.push(endpoint);
        config.enrichment.missing = Missing::Tag;
    });
    let stray: &[(&str, &str)] = &[("__name__", "stray")];
    assert_eq!(write(service.address, &[(UP, &[(1.0, 1)]), (stray, &[(2.0, 2)])]).status, 204);
    for sink in [&first, &second] {
        let mut series = sink.wait_for(2);
        series.sort_by_key(|series| series.labels != ENRICHED);
        assert_eq!(series[0].labels, ENRICHED);
        assert_eq!(series[1].labels, "__name__=stray workload_missing=no_pod_label ");
    }
    let misses = "crosstalk_processor_enrichment_misses_total{reason=\"no_pod_label\"}";
    assert_eq!(service.metric(misses), 1.0);
}

#[test]
fn the_caches_are_shown_in_their_old_shapes() {
    let sink = Sink::start();
    let service = start(&sink);
    for prefix in ["", "/v1"] {
        let devices = support::http::get(service.address, &format!("{prefix}/pods/cache")).json();
        assert_eq!(
            devices,
            serde_json::json!({"node-a": {"gpu_id": {"0": ["train-0", "pod-ml"]}}})
        );
        let pods =
            support::http::get(service.address, &format!("{prefix}/pods/workload/cache")).json();
        let expected = serde_json::json!({"ml/train-0": [["train", "w-ml"]], "other/train-0": [["train", "w-other"]]});
        assert_eq!(pods, expected);
    }
}

#[test]
fn without_the_token_nothing_is_said() {
    let sink = Sink::start();
    let service = start_with(&sink, |config| {
        config.listener.bearer_token = Some(crosstalk_processor::config::Secret::new("s3cret"));
    });
    let body = body(&[(UP, &[(1.0, 5)])]);
    for path in ["/prometheus", "/metrics", "/pods/cache"] {
        assert_eq!(send(service.address, "POST", path, &SNAPPY, &body).status, 401, "{path}");
    }
    for path in ["/prometheus", "/v1/prometheus", "/api/v1/write", "/v1/api/v1/write"] {
        let answer = send(service.address, "POST", path, &SNAPPY, &body);
        assert_eq!((answer.status, answer.written()), (401, [0, 0, 0]), "{path}");
    }
    let mut headers = SNAPPY.to_vec();
    headers.push(("Authorization", "Bearer s3cret"));
    assert_eq!(send(service.address, "POST", "/prometheus", &headers, &body).status, 204);
    assert_eq!(support::http::get(service.address, "/healthz").status, 200);
}

#[test]
fn probes_and_metrics_are_answered_while_senders_hold_every_connection() {
    use std::io::Write;
    let sink = Sink::start();
    let service = start_with(&sink, |config| config.listener.connections = 2);
    let head = "POST /prometheus HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n\
                Content-Encoding: snappy\r\nContent-Length: 1000\r\n\r\nab";
    let mut senders = Vec::new();
    eventually("no room for one more sender", || {
        senders.push(std::net::TcpStream::connect(service.address).unwrap());
        senders.last_mut().unwrap().write_all(head.as_bytes()).unwrap();
        let answer = write(service.address, &[(UP, &[(1.0, 5)])]);
        (answer.status == 503).then(|| assert_eq!(answer.written(), [0, 0, 0]))
    });
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(support::http::get(service.address, path).status, 200, "{path}");
    }
    assert!(service.metric("crosstalk_processor_http_connections_refused_total") >= 1.0);
    // Those beyond the limit have places for what is essential, all of them taken now.
    for _ in 0..200 {
        senders.push(std::net::TcpStream::connect(service.address).unwrap());
        let _ = senders.last_mut().unwrap().write_all(head.as_bytes());
    }
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(support::http::get(service.address, path).status, 200, "{path}");
    }
    drop(senders);
    eventually("room again", || {
        (write(service.address, &[(UP, &[(1.0, 6)])]).status == 204).then_some(())
    });
}
