//! What the listener promises, asked over real sockets: renewal, certificates, tokens, room for probes.
#![allow(clippy::unwrap_used)]

use axum::Router;
use axum::extract::Request;
use axum::routing::{get, post};
use crosstalk_serve::{
    Background, Budget, Families, Format, Listener, Names, Rules, Server, ServerMetrics,
};
use crosstalk_settings::{Period, Secret};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const NAMES: Names =
    Names { prefix: "t_http", requests: "t_http_requests", route: "route", exact_codes: true };

#[derive(Debug)]
struct ServerCollector(Arc<ServerMetrics>);

impl Collector for ServerCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        self.0.write(&mut Families::new(encoder))
    }
}

fn start(settings: &Listener) -> Background {
    start_with(settings, Router::new())
}

fn start_with(settings: &Listener, more: Router) -> Background {
    let rules = Rules { essential: &["/metrics"], ..Rules::default() };
    let metrics = ServerMetrics::new(NAMES, &[("/ask", "/ask"), ("/send", "/send")]);
    let server = Server::bind(([127, 0, 0, 1], 0).into(), settings, rules, metrics).unwrap();
    let told = server.metrics();
    let text = move || {
        let told = Box::new(ServerCollector(Arc::clone(&told))) as Box<dyn Collector>;
        std::future::ready(crosstalk_serve::exposition(Format::Classic, [told], ""))
    };
    let budget = Budget::new(1 << 20);
    let send = move |request: Request| {
        let budget = budget.clone();
        async move {
            let held = crosstalk_serve::read(request, 1 << 20, Duration::from_secs(20), &budget);
            held.await
                .map(|held| held.bytes.len().to_string())
                .map_err(|u| u.response("limit", 1 << 20))
        }
    };
    let routes = Router::new()
        .route("/ask", get(async || "answer"))
        .route("/send", post(send))
        .merge(more)
        .route("/metrics", get(text))
        .route("/healthz", get(async || "ok"));
    Background::start(server, routes, || {}).unwrap()
}

fn request(path: &str, token: Option<&str>, end: &str) -> String {
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{token}Connection: {end}\r\n\r\n")
}

/// The status of an answer, and all of it.
fn ask(mut stream: impl Read + Write, text: &str) -> (u16, String) {
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    (answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0), answer)
}

fn plain(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !so() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        #[allow(clippy::disallowed_methods)] // a server tells of nothing but when asked
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A certificate for localhost that vouches for itself, as `NAME.pem` and `NAME.key`.
fn certificate(folder: &Path, name: &str) {
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
        .args([
            "-days",
            "2",
            "-subj",
            &format!("/CN={name}"),
            "-addext",
            "subjectAltName=DNS:localhost",
        ])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(folder.join(format!("{name}.key")))
        .arg("-out")
        .arg(folder.join(format!("{name}.pem")))
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
}

type Secured = StreamOwned<ClientConnection, TcpStream>;

/// Connects as a client that trusts `trusted` and shows `identity`, if it has one.
fn secured(address: SocketAddr, folder: &Path, trusted: &str, identity: Option<&str>) -> Secured {
    let pem =
        |name: &str| CertificateDer::from_pem_file(folder.join(format!("{name}.pem"))).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(pem(trusted)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match identity {
        Some(name) => {
            let key = PrivateKeyDer::from_pem_file(folder.join(format!("{name}.key"))).unwrap();
            builder.with_client_auth_cert(vec![pem(name)], key).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(connection, plain(address))
}

fn shaken(mut stream: Secured) -> bool {
    stream.write_all(request("/healthz", None, "close").as_bytes()).is_ok()
        && stream.read(&mut [0; 16]).is_ok()
}

#[test]
fn a_renewed_certificate_is_shown_to_who_comes_and_drops_nobody_who_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    certificate(dir, "old");
    certificate(dir, "new");
    let (cert, key) = (dir.join("tls.crt"), dir.join("tls.key"));
    let install = |name: &str| {
        std::fs::copy(dir.join(format!("{name}.pem")), &cert).unwrap();
        std::fs::copy(dir.join(format!("{name}.key")), &key).unwrap();
    };
    install("old");
    let settings = Listener {
        tls_cert: Some(cert.clone()),
        tls_key: Some(key.clone()),
        ..Listener::default()
    };
    let server = start(&settings);
    let mut staying = secured(server.address(), dir, "old", None);
    let asked = request("/ask", None, "keep-alive");
    staying.write_all(asked.as_bytes()).unwrap();
    assert!(staying.read(&mut [0; 1024]).unwrap() > 0);
    // Half of a renewal cannot be used; the old pair stays.
    std::fs::copy(dir.join("new.pem"), &cert).unwrap();
    assert!(shaken(secured(server.address(), dir, "old", None)));
    install("new");
    eventually("the new certificate", || shaken(secured(server.address(), dir, "new", None)));
    assert!(!shaken(secured(server.address(), dir, "old", None)));
    assert_eq!(ask(staying, &request("/ask", None, "close")).0, 200);
}

#[test]
fn only_who_shows_a_certificate_we_trust_is_answered_but_for_probes() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    for name in ["server", "friend", "stranger"] {
        certificate(dir, name);
    }
    let settings = Listener {
        tls_cert: Some(dir.join("server.pem")),
        tls_key: Some(dir.join("server.key")),
        client_ca: Some(dir.join("friend.pem")),
        ..Listener::default()
    };
    let server = start(&settings);
    let status = |identity, path| {
        let stream = secured(server.address(), dir, "server", identity);
        ask(stream, &request(path, None, "close")).0
    };
    assert_eq!(status(Some("friend"), "/ask"), 200);
    assert_eq!(status(None, "/ask"), 403);
    assert_eq!(status(None, "/healthz"), 200);
    assert!(!shaken(secured(server.address(), dir, "server", Some("stranger"))));
    // Plain text to a port that speaks TLS is no request.
    assert_eq!(ask(plain(server.address()), &request("/ask", None, "close")).0, 0);
}

#[test]
fn a_renewed_token_is_asked_for_and_a_refusal_is_a_problem() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "first\n").unwrap();
    let server = start(&Listener { bearer_token_file: Some(file.clone()), ..Listener::default() });
    let status = |token, path| ask(plain(server.address()), &request(path, token, "close")).0;
    assert_eq!(status(Some("first"), "/ask"), 200);
    assert_eq!(status(None, "/healthz"), 200);
    assert_eq!(status(None, "/metrics"), 401);
    let (_, answer) = ask(plain(server.address()), &request("/ask", Some("frist"), "close"));
    assert!(
        answer.contains("application/problem+json") && answer.contains("www-authenticate"),
        "{answer}"
    );
    std::fs::write(&file, "second\n").unwrap();
    eventually("the new token", || status(Some("second"), "/ask") == 200);
    assert_eq!(status(Some("first"), "/ask"), 401);
}

#[test]
fn probes_and_metrics_are_answered_while_every_place_is_taken() {
    let settings = Listener { connections: 2, requests: 1, ..Listener::default() };
    let server = start(&settings);
    // One sends a body without an end and has the only place for requests, as it knows by being told to go on: asking
    // before could take the place. One more is silent.
    let head =
        "POST /send HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n";
    let mut sending = plain(server.address());
    sending.write_all(head.as_bytes()).unwrap();
    let mut go_on = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
    sending.read_exact(&mut go_on).unwrap();
    assert!(go_on.starts_with(b"HTTP/1.1 100 "), "{}", String::from_utf8_lossy(&go_on));
    sending.write_all(b"12345").unwrap();
    let status = |path: &str| ask(plain(server.address()), &request(path, None, "close")).0;
    eventually("the place for requests is taken", || status("/ask") == 429);
    let silent = plain(server.address());
    eventually("the places for connections are taken", || status("/ask") == 503);
    assert_eq!((status("/healthz"), status("/metrics")), (200, 200));
    let (_, text) = ask(plain(server.address()), &request("/metrics", None, "close"));
    for line in
        ["t_http_throttled_total ", "t_http_connections_refused_total ", "t_http_connections "]
    {
        let value =
            text.lines().find_map(|l| l.strip_prefix(line)).unwrap_or_else(|| panic!("{text}"));
        assert!(value.parse::<f64>().unwrap() >= 1.0, "{line}{value}");
    }
    assert!(text.contains("t_http_requests_total{route=\"/ask\",code=\"429\"} "), "{text}");
    drop(silent);
    sending.write_all(b"67890").unwrap();
    let mut answer = [0; 1024];
    let length = sending.read(&mut answer).unwrap();
    assert!(answer[..length].starts_with(b"HTTP/1.1 200"), "it was never cut off");
}

#[test]
fn probes_and_metrics_are_answered_however_many_others_come_all_the_time() {
    let server = start(&Listener { connections: 2, ..Listener::default() });
    let address = server.address();
    let over = AtomicBool::new(false);
    let hold = |send: &str| {
        let mut held = VecDeque::new();
        while !over.load(Ordering::Relaxed) {
            let mut stream = TcpStream::connect(address).unwrap();
            let _ = stream.write_all(send.as_bytes());
            held.push_back(stream);
            if held.len() > 150 {
                held.pop_front();
            }
            #[allow(clippy::disallowed_methods)] // the rate at which they come
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    let half = "POST /send HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345";
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        scope.spawn(|| hold(half));
        scope.spawn(|| hold(""));
        eventually("more came than there is room for", || {
            let (status, text) = ask(plain(address), &request("/metrics", None, "close"));
            let refused = |line: &str| {
                line.strip_prefix("t_http_connections_refused_total ")?.parse::<f64>().ok()
            };
            status == 503 || text.lines().find_map(refused).is_some_and(|refused| refused > 100.0)
        });
        let paths = ["/healthz", "/metrics"].into_iter().cycle().take(40);
        let statuses =
            paths.map(|path| ask(plain(address), &request(path, None, "close")).0).collect();
        over.store(true, Ordering::Relaxed);
        statuses
    });
    assert_eq!(statuses, [200; 40]);
}

#[test]
fn whoever_leaves_gives_its_place_back_once_its_work_has_ended() {
    let (began, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(tokio::sync::Notify::new()));
    let (begins, ends) = (Arc::clone(&began), Arc::clone(&ended));
    let work = move |request: Request| {
        let (begins, ends) = (Arc::clone(&begins), Arc::clone(&ends));
        async move {
            let budget = Budget::new(1 << 20);
            let held = crosstalk_serve::read(request, 100, Duration::from_secs(20), &budget);
            let held = held.await.unwrap();
            // As storing does, which nobody may cut short.
            let working = tokio::spawn(async move {
                begins.store(true, Ordering::Relaxed);
                ends.notified().await;
                drop(held);
            });
            working.await.unwrap();
        }
    };
    let settings = Listener { requests: 1, ..Listener::default() };
    let server = start_with(&settings, Router::new().route("/work", post(work)));
    let mut sending = plain(server.address());
    let whole = "POST /work HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12345";
    sending.write_all(whole.as_bytes()).unwrap();
    eventually("the work has begun", || began.load(Ordering::Relaxed));
    drop(sending);
    eventually("its client has left", || {
        let (_, text) = ask(plain(server.address()), &request("/metrics", None, "close"));
        text.contains("\nt_http_connections 1\n")
    });
    let status = || ask(plain(server.address()), &request("/ask", None, "close")).0;
    assert_eq!(status(), 429, "the work goes on");
    ended.notify_one();
    eventually("its place is free", || status() == 200);
}

#[test]
fn requests_in_work_are_finished_when_the_server_ends() {
    let server = start(&Listener { read_timeout: Period::seconds(30), ..Listener::default() });
    let mut sending = plain(server.address());
    let head = "POST /send HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345";
    sending.write_all(head.as_bytes()).unwrap();
    let asked = ask(plain(server.address()), &request("/ask", None, "close"));
    assert_eq!(asked.0, 200);
    let address = server.address();
    let ending = std::thread::spawn(move || drop(server));
    eventually("no one new is let in", || TcpStream::connect(address).is_err());
    sending.write_all(b"67890").unwrap();
    let mut answer = String::new();
    sending.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("10"), "{answer}");
    ending.join().unwrap();
}

#[test]
fn files_that_cannot_be_used_are_named_before_anything_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let garbage = folder.path().join("garbage.pem");
    std::fs::write(&garbage, "no certificate").unwrap();
    for settings in [
        Listener {
            tls_cert: Some(garbage.clone()),
            tls_key: Some(garbage.clone()),
            ..Listener::default()
        },
        Listener {
            bearer_token_file: Some(folder.path().join("garbage.pem.not")),
            ..Listener::default()
        },
    ] {
        let error = crosstalk_serve::check(&settings).unwrap_err().to_string();
        assert!(error.contains("garbage.pem"), "{error}");
    }
    assert!(
        crosstalk_serve::check(&Listener {
            bearer_token: Some(Secret::new("x")),
            ..Listener::default()
        })
        .is_ok()
    );
}
