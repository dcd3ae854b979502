//! Measurements in real servers: InfluxDB 1.x as Debian has it, and VictoriaMetrics for the way of 2.x.
#![allow(clippy::unwrap_used)]

mod support;

use crosstalk_bench::result::Recorded;
use crosstalk_resctrl_sim::{Profile, mount};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{Bench, COUNTS, can_make_cgroups};

struct Server {
    child: Child,
    program: &'static str,
    arguments: Vec<String>,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Server {
    /// Ends it as an administrator would.
    fn stop(&mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap();
    }

    /// Starts it again where it was.
    fn start_again(&mut self) {
        self.child = launch(self.program, &self.arguments).unwrap();
        self.wait_until_it_answers();
    }

    fn wait_until_it_answers(&self) {
        wait_until("the server answers", || {
            get(self.port, "/ping").is_some() || get(self.port, "/health").is_some()
        });
    }

    /// What InfluxDB 1.x answers.
    fn query(&self, text: &str) -> String {
        let path = format!("/query?db=bench&q={}", text.replace(' ', "%20").replace('"', "%22"));
        get(self.port, &path).unwrap_or_default()
    }

    /// How many points have a field of memory: one for each sample of a container.
    fn samples(&self) -> usize {
        let found = self.query("SELECT count(docker_memory_usage_bytes) FROM benchmark_metrics");
        let number =
            found.rsplit_once(',').map(|(_, rest)| rest.trim_end_matches([']', '}', '\n']));
        number.and_then(|text| text.parse().ok()).unwrap_or(0)
    }
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

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        #[allow(clippy::disallowed_methods)] // neither servers nor folders offer an event
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn launch(program: &str, arguments: &[String]) -> std::io::Result<Child> {
    Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

fn start(
    program: &'static str,
    arguments: impl FnOnce(&str, u16) -> Vec<String>,
) -> Option<Server> {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let arguments = arguments(folder.path().to_str().unwrap(), port);
    let Ok(child) = launch(program, &arguments) else {
        support::skip(format!("no {program} on this machine"));
        return None;
    };
    let server = Server { child, program, arguments, port, _folder: folder };
    server.wait_until_it_answers();
    Some(server)
}

/// An InfluxDB 1.x with an empty database.
fn influxd() -> Option<Server> {
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
    let server = start("influxd", config)?;
    let create = Command::new("curl")
        .args(["-sf", "-XPOST", &format!("http://127.0.0.1:{}/query", server.port)])
        .args(["--data-urlencode", "q=CREATE DATABASE bench"])
        .output();
    assert!(create.is_ok_and(|output| output.status.success()), "the database is made");
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
    let Some(server) = influxd() else { return };
    let record = run(&format!("{{host: \"127.0.0.1:{}\", name: bench}}", server.port));
    let query = |text: &str| server.query(text);
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

/// A run of some seconds with this database.
fn experiment(seconds: u32, host: &str) -> String {
    format!(
        "benchmark:
  name: stored
  max_t: {seconds}
  data: {{profilefrequency: 50, perf: false, probe: false, rdt: false, db: {{host: \"{host}\", name: bench}}}}
counter: {{index: 4, command: {COUNTS:?}, progress: {{number: done}}}}
"
    )
}

/// Samples that tell of memory: all but what is read of who has ended.
fn with_memory(recorded: &Recorded) -> usize {
    recorded.usage.iter().filter(|point| point.memory_bytes.is_some()).count()
}

/// Batches that wait below a folder of runs.
fn batches(runs: &Path) -> Vec<PathBuf> {
    let below = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let spools = below(runs.to_owned()).map(|run| run.path().join("influx-spool"));
    let files = spools.flat_map(below).map(|file| file.path());
    files.filter(|path| path.extension().is_some_and(|ending| ending == "lp")).collect()
}

#[test]
fn a_server_that_goes_away_in_the_middle_of_a_run_and_comes_back_misses_nothing() {
    if !can_make_cgroups() {
        return;
    }
    let Some(mut server) = influxd() else { return };
    let bench = Bench::new();
    let runs = bench.folder.path().join("runs");
    let text = experiment(10, &format!("127.0.0.1:{}", server.port));
    let (dir, record) = std::thread::scope(|scope| {
        let disturbing = scope.spawn(|| {
            wait_until("a sample is stored", || server.samples() > 0);
            server.stop();
            wait_until("batches wait", || batches(&runs).len() >= 2);
            server.start_again();
        });
        let ran = bench.run(&text).unwrap();
        disturbing.join().unwrap();
        ran
    });
    assert!(record.lost.is_empty(), "{:?}", record.lost);
    assert!(!dir.path().join("influx-spool").exists(), "nothing waits");
    let recorded = Recorded::read(&dir, &record).unwrap();
    assert!(recorded.usage.len() > 20, "{}", recorded.usage.len());
    assert_eq!(server.samples(), with_memory(&recorded));
}

#[test]
fn a_server_that_takes_all_and_never_answers_delays_no_start_and_loses_no_row() {
    if !can_make_cgroups() {
        return;
    }
    // Nobody takes connections from it; the kernel does.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let bench = Bench::new();
    let began = Instant::now();
    let text = experiment(2, &silent.local_addr().unwrap().to_string());
    let (dir, record) = bench.run(&text).unwrap();
    let took = began.elapsed();
    assert!(
        took < Duration::from_secs(25),
        "the end waits for it once, and not for long: {took:?}"
    );
    let prepared = record.rounds[0].zero_ns.saturating_sub(record.began_ns);
    assert!(prepared < 5_000_000_000, "the start waited for it: {prepared} ns");
    assert!(record.lost.is_empty(), "{:?}", record.lost);
    let waiting = batches(&bench.folder.path().join("runs"));
    let lines: String = waiting.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let recorded = Recorded::read(&dir, &record).unwrap();
    assert!(recorded.usage.len() > 20, "{}", recorded.usage.len());
    assert_eq!(lines.matches("docker_memory_usage_bytes=").count(), with_memory(&recorded));
    assert_eq!(lines.matches("docker_cpu_usage_ns=").count(), recorded.usage.len());
}

#[test]
fn what_processes_did_and_held_of_the_cache_is_stored_and_limits_also_of_who_is_not_sampled() {
    if !can_make_cgroups() {
        return;
    }
    let Some(server) = influxd() else { return };
    let mounted = tempfile::tempdir().unwrap();
    let simulator = match mount(Profile::small(), mounted.path()) {
        Ok(simulator) => simulator,
        Err(error) => return support::skip(error),
    };
    let text = format!(
        "benchmark:
  name: stored
  max_t: 4
  scheduler: {{implementation: rdt}}
  data: {{profilefrequency: 50, probe: false, db: {{host: \"127.0.0.1:{}\", name: bench}}}}
busy: {{index: 0, command: \"sh -c 'while :; do :; done'\", critical: true, data: {{dockerstats: false}}}}
other: {{index: 1, command: \"sleep 60\"}}
",
        server.port
    );
    let (_, record) = Bench::new().resctrl(mounted.path()).run(&text).unwrap();
    let of = |container: &str, field: &str| {
        let one = format!("container_name = '{container}'");
        server.query(&format!("SELECT last({field}) FROM benchmark_metrics WHERE {one}"))
    };
    for container in ["busy", "other"] {
        for field in ["rdt_cache_allocation", "rdt_mb_allocation"] {
            let found = of(container, field);
            assert!(found.contains("values"), "{container}: {field}: {found}");
        }
    }
    assert!(!of("busy", "docker_memory_usage_bytes").contains("values"), "it is not sampled");
    let lacks = |what: &str| record.absent.iter().find(|(name, _)| name == what);
    if let Some(why) = lacks("counters") {
        support::skip(format!("in part: {why:?}"));
    } else {
        let fields = ["perf_on_cpu_ns", "perf_context_switches", "rdt_llc_occupancy"];
        let counted = ["perf_cycles", "perf_instructions"].into_iter();
        for field in counted.filter(|_| lacks("ipc").is_none()).chain(fields) {
            let found = of("busy", field);
            assert!(found.contains("values"), "{field}: {found} {:?}", record.absent);
        }
    }
    simulator.unmount().unwrap();
}
