//! What the processor says when it starts, and what it refuses to start with.
#![allow(clippy::unwrap_used)]

mod support;

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use crosstalk_processor::config::{Endpoint, Secret};
use crosstalk_processor::{Config, check};
use support::http::{get, send, try_get};
use support::process::{Running, free_port, processor_binary};
use support::{Service, eventually};

/// What a processor in a process of its own has logged once `done` says so of its address and its log.
fn said(folder: &Path, configuration: &str, done: impl Fn(SocketAddr, &str) -> bool) -> String {
    let address = free_port();
    let config = folder.join("processor.toml");
    let data = folder.join("data").display().to_string();
    let text = format!("listen = \"{address}\"\ndata_dir = \"{data}\"\n{configuration}");
    std::fs::write(&config, text).unwrap();
    let log = folder.join("log");
    let mut command = Command::new(processor_binary());
    command.arg(&config).env("RUST_LOG", "warn").stdout(Stdio::null());
    let running = Running::start(command.stderr(std::fs::File::create(&log).unwrap()));
    eventually("the processor listens", || try_get(address, "/healthz"));
    let text = eventually("a word in the log", || {
        Some(std::fs::read_to_string(&log).unwrap()).filter(|text| done(address, text))
    });
    running.stop();
    text
}

const NO_PODS: &str = "no source knows any pod";

#[test]
fn a_processor_that_knows_no_pods_says_so() {
    for sources in ["", "[cache]\ndatabase = false\n"] {
        let folder = tempfile::tempdir().unwrap();
        let text = said(folder.path(), sources, |_, text| text.contains(NO_PODS));
        assert!(text.contains("cache.static_file"), "{text}");
        assert_eq!(text.matches(NO_PODS).count(), 1, "{text}");
    }
}

#[test]
fn a_processor_that_knows_a_pod_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let pods = folder.path().join("pods.yaml");
    std::fs::write(&pods, support::PODS).unwrap();
    let cache = format!("[cache]\nrefresh = \"1s\"\nstatic_file = \"{}\"\n", pods.display());
    let text = said(folder.path(), &cache, |address, _| {
        let page = get(address, "/metrics").text();
        page.contains("cache_refreshes_total{source=\"database\"}")
    });
    assert!(!text.contains(NO_PODS), "{text}");
}

#[test]
fn a_database_that_is_away_does_not_stop_the_start_and_is_said_with_the_cause() {
    let nobody = free_port();
    let service = Service::launch(|config| {
        config.database = Secret::new(format!("postgres://me:s3cret@{nobody}/x"));
        config.cache.database = false;
    });
    let record = r#"[{"date": 1794785002.25, "log": "iteration 1/5 | lm loss: 2.7 | elapsed time per iteration (ms): 9.5",
        "kubernetes": {"namespace_name": "ml", "pod_name": "t-0", "labels": {"job-name": "demo"}}}]"#;
    let headers = [("Content-Type", "application/json")];
    let answer = send(service.address, "POST", "/logs", &headers, record.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["waiting"], 1, "{}", answer.text());
    let answer = get(service.address, "/workloads");
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.text().contains("refused"), "{}", answer.text());
    assert!(!answer.text().contains("s3cret"), "{}", answer.text());
}

#[test]
fn a_check_finds_what_a_start_would_stumble_over() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.pem");
    let garbage = folder.path().join("garbage.pem");
    std::fs::write(&garbage, "no certificate").unwrap();
    let fault = |change: &dyn Fn(&mut Config)| {
        let mut config = Config { data_dir: folder.path().to_owned(), ..Config::default() };
        change(&mut config);
        check(&config).map_err(|error| error.to_string())
    };
    assert_eq!(fault(&|_| {}), Ok(()));
    let endpoint = || Endpoint::new("store", "https://store/");
    type Change<'a> = &'a dyn Fn(&mut Config);
    let certified = |cert: &Path| Endpoint {
        client_cert: Some(cert.to_owned()),
        client_key: Some(missing.clone()),
        ..endpoint()
    };
    let cases: [(Change<'_>, &str); 9] = [
        (&|config| config.endpoints = vec![certified(&garbage)], "garbage.pem"),
        (&|config| config.database = Secret::new("foo://db/x"), "foo"),
        (&|config| config.database = Secret::new("postgres://db:port/x"), "database"),
        (&|config| config.listener.bearer_token_file = Some(missing.clone()), "missing.pem"),
        (
            &|config| {
                config.listener.tls_cert = Some(missing.clone());
                config.listener.tls_key = Some(missing.clone());
            },
            "missing.pem",
        ),
        (
            &|config| {
                config.listener.tls_cert = Some(garbage.clone());
                config.listener.tls_key = Some(garbage.clone());
            },
            "garbage.pem",
        ),
        (
            &|config| {
                config.endpoints = vec![Endpoint { ca_file: Some(missing.clone()), ..endpoint() }];
            },
            "missing.pem",
        ),
        (
            &|config| {
                config.endpoints =
                    vec![Endpoint { bearer_token_file: Some(missing.clone()), ..endpoint() }];
            },
            "missing.pem",
        ),
        (&|config| config.cache.static_file = Some(missing.clone()), "missing.pem"),
    ];
    for (change, named) in cases {
        let error = fault(change).expect_err(named);
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn a_database_url_that_can_never_work_stops_the_start() {
    for url in ["foo://db/x", "postgres://me:s3c?ret@db/x", "mysql://db/x?ssl-mode=maybe"] {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config { data_dir: folder.path().to_owned(), ..Config::default() };
        config.listen.set_port(0);
        config.database = Secret::new(url);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let error = runtime.block_on(crosstalk_processor::Processor::start(config));
        let error = error.map(drop).expect_err(url).to_string();
        assert!(!error.contains("s3c") && !error.contains("ret@"), "{error}");
    }
}

/// The code blocks of one language in the user's guide.
fn guide(language: &str) -> Vec<String> {
    let text = include_str!("../../../docs/processor.md");
    let start = format!("```{language}");
    let mut blocks: Vec<String> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = line.trim() == start;
            blocks.extend(inside.then(String::new));
        } else if let (true, Some(block)) = (inside, blocks.last_mut()) {
            block.push_str(line);
            block.push('\n');
        }
    }
    blocks
}

#[test]
fn the_configuration_in_the_guide_is_one_and_shows_the_defaults() {
    let [text] = &guide("toml")[..] else { panic!("one configuration") };
    let shown = Config::from_text("docs/processor.md", text).unwrap();
    let default = Config::default();
    assert_eq!(shown.listen, default.listen);
    assert_eq!(shown.data_dir, default.data_dir);
    assert_eq!(format!("{:?}", shown.limits), format!("{:?}", default.limits));
    assert_eq!(shown.listener.requests, default.listener.requests);
    assert_eq!(shown.listener.connections, default.listener.connections);
    assert_eq!(shown.listener.read_timeout, default.listener.read_timeout);
    assert_eq!(shown.listener.body_timeout, default.listener.body_timeout);
    assert_eq!(shown.enrichment.missing, default.enrichment.missing);
    assert_eq!(shown.enrichment.job, default.enrichment.job);
    assert_eq!(shown.cache.refresh, default.cache.refresh);
    assert_eq!(shown.cache.grace, default.cache.grace);
    let endpoint = Endpoint::new("", "");
    assert_eq!(shown.endpoints[1].max_queue_bytes, endpoint.max_queue_bytes);
    assert_eq!(shown.endpoints[1].max_dead_letter_bytes, endpoint.max_dead_letter_bytes);
}

#[test]
fn the_pods_in_the_guide_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pods.yaml");
    let [text] = &guide("yaml")[..] else { panic!("one file of pods") };
    std::fs::write(&path, text).unwrap();
    let facts = crosstalk_inventory::read_static_file(&path).unwrap();
    assert_eq!((facts.pods.len(), facts.devices.len()), (1, 2));
}
