//! One processor forwards to another over TLS with a token: both ends of the secured way.
#![allow(clippy::unwrap_used)]

mod support;

use std::process::{Command, Stdio};

use crosstalk_processor::config::{Endpoint, Missing, Secret};
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
    let behind = Service::start(|config| {
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

    // Who has no token is refused for good.
    let nobody = in_front(None, true);
    assert_eq!(write(nobody.address, &[(labels, &[(1.0, 9)])]).status, 204);
    let refused = "crosstalk_processor_dead_letters_total{endpoint=\"behind\",code=\"401\"}";
    eventually("a dead letter", || (nobody.metric(refused) >= 1.0).then_some(()));
    assert_eq!(sink.series().len(), 1);
}
