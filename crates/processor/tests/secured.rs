//! One processor forwards to another over TLS with a token: both ends of the secured way.
#![allow(clippy::unwrap_used)]

mod support;

use std::process::{Command, Stdio};

use crosstalk_processor::config::{Endpoint, LogForward, Missing, Period, Secret};
use support::sink::Sink;
use support::write::write;
use support::{Service, eventually};

/// A certificate for 127.0.0.1 that vouches for itself.
fn make_certificate(folder: &std::path::Path) {
    let status = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
        ])
        .args(["-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(folder.join("key.pem"))
        .arg("-out")
        .arg(folder.join("cert.pem"))
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn a_processor_forwards_to_another_over_tls_with_a_token() {
    let folder = tempfile::tempdir().unwrap();
    make_certificate(folder.path());
    std::fs::write(folder.path().join("token"), "s3cret\n").unwrap();
    let sink = Sink::start();
    let behind = Service::launch(|config| {
        config.listener.tls_cert = Some(folder.path().join("cert.pem"));
        config.listener.tls_key = Some(folder.path().join("key.pem"));
        config.listener.bearer_token_file = Some(folder.path().join("token"));
        config.enrichment.missing = Missing::Pass;
        config.endpoints = vec![Endpoint::new("sink", sink.url())];
    });
    let in_front = |token: Option<&str>, trusted: bool| {
        let mut endpoint =
            Endpoint::new("behind", format!("https://{}/prometheus", behind.address));
        endpoint.bearer_token = token.map(Secret::new);
        endpoint.ca_file = trusted.then(|| folder.path().join("cert.pem"));
        Service::start(|config| {
            config.enrichment.missing = Missing::Pass;
            config.endpoints = vec![endpoint];
        })
    };
    let labels: &[(&str, &str)] = &[("__name__", "up")];

    let good = in_front(Some("s3cret"), true);
    assert_eq!(write(good.address, &[(labels, &[(1.0, 7)])]).status, 204);
    assert_eq!(sink.wait_for(1)[0].samples, [(1.0f64.to_bits(), 7)]);

    // Who does not know the certificate does not send, and keeps the data.
    let wary = in_front(Some("s3cret"), false);
    assert_eq!(write(wary.address, &[(labels, &[(1.0, 8)])]).status, 204);
    let retries =
        "crosstalk_processor_forward_retries_total{endpoint=\"behind\",reason=\"network\"}";
    eventually("a refusal to connect", || (wary.metric(retries) >= 1.0).then_some(()));

    // Who has no token is not let in, and keeps the data.
    let nobody = in_front(None, true);
    assert_eq!(write(nobody.address, &[(labels, &[(1.0, 9)])]).status, 204);
    let refused =
        "crosstalk_processor_forward_retries_total{endpoint=\"behind\",reason=\"unauthorized\"}";
    eventually("a refusal", || (nobody.metric(refused) >= 1.0).then_some(()));
    assert_eq!(sink.series().len(), 1);
}

#[test]
fn a_processor_shows_its_certificate_to_a_store_that_asks_for_one() {
    let folder = tempfile::tempdir().unwrap();
    make_certificate(folder.path());
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let sink = Sink::start();
    let behind = Service::launch(|config| {
        config.listener.tls_cert = Some(cert.clone());
        config.listener.tls_key = Some(key.clone());
        config.listener.client_ca = Some(cert.clone());
        config.enrichment.missing = Missing::Pass;
        config.endpoints = vec![Endpoint::new("sink", sink.url())];
    });
    let in_front = |certified: bool| {
        let url = format!("https://{}/prometheus", behind.address);
        let mut endpoint = Endpoint::new("behind", url);
        endpoint.ca_file = Some(cert.clone());
        endpoint.client_cert = certified.then(|| cert.clone());
        endpoint.client_key = certified.then(|| key.clone());
        Service::start(|config| {
            config.enrichment.missing = Missing::Pass;
            config.endpoints = vec![endpoint];
        })
    };
    let labels: &[(&str, &str)] = &[("__name__", "up")];
    let known = in_front(true);
    assert_eq!(write(known.address, &[(labels, &[(1.0, 7)])]).status, 204);
    assert_eq!(sink.wait_for(1)[0].samples, [(1.0f64.to_bits(), 7)]);
    let unknown = in_front(false);
    assert_eq!(write(unknown.address, &[(labels, &[(1.0, 8)])]).status, 204);
    let refused =
        "crosstalk_processor_forward_retries_total{endpoint=\"behind\",reason=\"unauthorized\"}";
    eventually("a refusal", || (unknown.metric(refused) >= 1.0).then_some(()));
    assert_eq!(sink.series().len(), 1);
}

#[test]
fn a_log_store_that_asks_for_a_certificate_is_shown_one() {
    let folder = tempfile::tempdir().unwrap();
    make_certificate(folder.path());
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let store = Service::launch(|config| {
        config.listener.tls_cert = Some(cert.clone());
        config.listener.tls_key = Some(key.clone());
        config.listener.client_ca = Some(cert.clone());
    });
    let in_front = |certified: bool| {
        // It is no Loki: whom it lets in it tells that the body is bad.
        let mut forward = LogForward::new("store", format!("https://{}/logs", store.address));
        forward.ca_file = Some(cert.clone());
        forward.client_cert = certified.then(|| cert.clone());
        forward.client_key = certified.then(|| key.clone());
        forward.max_backoff = Period::millis(200);
        Service::start(|config| config.logs.forwards = vec![forward])
    };
    let log = |service: &Service| {
        let record = r#"[{"date": 1794785002.25, "log": "hello", "kubernetes": {"namespace_name": "ml", "pod_name": "a"}}]"#;
        let headers = [("Content-Type", "application/json")];
        support::http::send(service.address, "POST", "/logs", &headers, record.as_bytes()).status
    };
    let refused =
        "crosstalk_processor_log_forward_dead_letters_total{store=\"store\",code=\"400\"}";
    let known = in_front(true);
    assert_eq!(log(&known), 200);
    eventually("an answer from inside", || (known.metric(refused) >= 1.0).then_some(()));
    let unknown = in_front(false);
    assert_eq!(log(&unknown), 200);
    let again = "crosstalk_processor_log_forward_retries_total{store=\"store\"}";
    eventually("a refusal at the door", || (unknown.metric(again) >= 1.0).then_some(()));
    assert_eq!(unknown.metric(refused), 0.0);
}

#[test]
fn what_is_read_and_what_is_written_may_have_tokens_of_their_own() {
    let sink = Sink::start();
    let service = Service::start(|config| {
        config.listener.read_token = Some(Secret::new("reads"));
        config.listener.write_token = Some(Secret::new("writes"));
        config.listener.bearer_token = Some(Secret::new("all"));
        config.endpoints = vec![Endpoint::new("sink", sink.url())];
    });
    let ask = |method: &str, path: &str, token: &str| {
        let bearer = format!("Bearer {token}");
        let mut headers = support::write::SNAPPY.to_vec();
        headers.push(("Authorization", &bearer));
        let body = support::write::body(&[(&[("__name__", "up")], &[(1.0, 7)])]);
        support::http::send(service.address, method, path, &headers, &body).status
    };
    for (token, reads, writes) in
        [("reads", 200, 401), ("writes", 401, 204), ("all", 200, 204), ("none", 401, 401)]
    {
        assert_eq!(ask("GET", "/metrics", token), reads, "{token}");
        assert_eq!(ask("POST", "/prometheus", token), writes, "{token}");
    }
}
