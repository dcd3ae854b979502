//! Measurements in real servers: InfluxDB 1.x as Debian has it, and VictoriaMetrics for the way of 2.x.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{Bench, COUNTS, can_make_cgroups};

struct Server {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn start(program: &str, arguments: impl FnOnce(&str, u16) -> Vec<String>) -> Option<Server> {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut command = Command::new(program);
    command.args(arguments(folder.path().to_str().unwrap(), port));
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(child) = child else {
        eprintln!("skipped: no {program} on this machine");
        return None;
    };
    let server = Server { child, port, _folder: folder };
    let began = Instant::now();
    while get(port, "/ping").is_none() && get(port, "/health").is_none() {
        assert!(began.elapsed() < Duration::from_secs(60), "{program} does not answer");
        #[allow(clippy::disallowed_methods)] // a server that starts offers no event
        std::thread::sleep(Duration::from_millis(50));
    }
    Some(server)
}

fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: x\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    head.split(' ').nth(1)?.starts_with('2').then(|| body.to_owned())
}

fn run(database: &str) -> crosstalk_bench::store::RunRecord {
    let text = format!(
        "benchmark:
  name: stored
  max_t: 2
  data: {{profilefrequency: 50, perf: false, probe: false, rdt: false, db: {database}}}
counter: {{index: 4, command: {COUNTS:?}, progress: {{number: done}}}}
"
    );
    let (dir, record) = Bench::new().run(&text).unwrap();
    assert!(record.lost.is_empty(), "{:?}", record.lost);
    assert!(!dir.path().join("influx-spool").exists(), "nothing waits");
    record
}

#[test]
fn version_one_has_every_line_under_the_names_of_old() {
    if !can_make_cgroups() {
        return;
    }
    let config = |folder: &str, port: u16| {
        let path = format!("{folder}/influx.conf");
        let rpc = free_port();
        let text = format!(
            "reporting-disabled = true\nbind-address = \"127.0.0.1:{rpc}\"\n[meta]\ndir = \"{folder}/meta\"\n\
             [data]\ndir = \"{folder}/data\"\nwal-dir = \"{folder}/wal\"\n[http]\nbind-address = \"127.0.0.1:{port}\"\n"
        );
        std::fs::write(&path, text).unwrap();
        vec!["-config".to_owned(), path]
    };
    let Some(server) = start("influxd", config) else { return };
    let create = Command::new("curl")
        .args(["-sf", "-XPOST", &format!("http://127.0.0.1:{}/query", server.port)])
        .args(["--data-urlencode", "q=CREATE DATABASE bench"])
        .output();
    assert!(create.is_ok_and(|output| output.status.success()), "the database is made");
    let record = run(&format!("{{host: \"127.0.0.1:{}\", name: bench}}", server.port));
    let query = |q: &str| {
        let path = format!("/query?db=bench&q={}", q.replace(' ', "%20").replace('"', "%22"));
        get(server.port, &path).unwrap()
    };
    let found = query("SELECT count(docker_memory_usage_bytes) FROM benchmark_metrics GROUP BY *");
    for tag in [
        &record.id,
        "container_name\":\"counter",
        "container_index\":\"4",
        "used_scheduler\":\"default",
    ] {
        assert!(found.contains(tag), "{tag}: {found}");
    }
    let meta = query("SELECT \"name\",host,kernel,config FROM benchmark_meta");
    assert!(meta.contains("stored") && meta.contains("profilefrequency"), "{meta}");
    let totals = query("SELECT total_rounds,outcome,host FROM benchmark_meta");
    assert!(totals.contains("completed") && totals.matches("[\"20").count() == 1, "{totals}");
    let progress = query("SELECT last(progress_done) FROM benchmark_metrics");
    assert!(progress.contains("values"), "{progress}");
}

#[test]
fn the_way_of_version_two_is_taken_by_victoria_metrics() {
    if !can_make_cgroups() {
        return;
    }
    let arguments = |folder: &str, port: u16| {
        vec![format!("-storageDataPath={folder}"), format!("-httpListenAddr=127.0.0.1:{port}")]
    };
    let Some(server) = start("victoria-metrics", arguments) else { return };
    let record = run(&format!(
        "{{host: \"http://127.0.0.1:{}\", name: bucket, user: u, password: TOKEN, org: o}}",
        server.port
    ));
    let _ = get(server.port, "/internal/force_flush");
    let began = Instant::now();
    loop {
        let path = "/api/v1/export?match%5B%5D=%7B__name__%3D~%22benchmark_metrics_.*%22%7D";
        let found = get(server.port, path).unwrap_or_default();
        let named = found.contains("benchmark_metrics_docker_memory_usage_bytes")
            && found.contains("benchmark_metrics_progress_done");
        if named && found.contains(&record.id) && found.contains("\"container_index\":\"4\"") {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{found}");
        #[allow(clippy::disallowed_methods)] // it says when it is searchable to nobody
        std::thread::sleep(Duration::from_millis(200));
    }
}
