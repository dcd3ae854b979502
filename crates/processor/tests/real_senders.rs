//! Debian's Prometheus and vmagent in front, VictoriaMetrics behind, compared sample by sample while the processor and
//! the store are killed in turn.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use support::process::{ProcessorProcess, Running, free_port};
use support::{eventually, http};

/// A target to scrape: counters of two pods of the same name and one series that belongs to nobody.
struct Exporter {
    address: SocketAddr,
    scrapes: Arc<AtomicU64>,
}

impl Exporter {
    fn start() -> Exporter {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let scrapes = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&scrapes);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let counter = Arc::clone(&counter);
                std::thread::spawn(move || {
                    let mut request = [0; 4096];
                    while stream.read(&mut request).is_ok_and(|length| length > 0) {
                        let page = page(counter.fetch_add(1, Ordering::Relaxed));
                        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n";
                        let answer = format!("{head}Content-Length: {}\r\n\r\n{page}", page.len());
                        if stream.write_all(answer.as_bytes()).is_err() {
                            break;
                        }
                    }
                });
            }
        });
        Exporter { address, scrapes }
    }

    /// Waits until the target was scraped `count` times more.
    fn wait_for_scrapes(&self, count: u64) {
        let until = self.scrapes.load(Ordering::Relaxed) + count;
        eventually("scrapes", || (self.scrapes.load(Ordering::Relaxed) >= until).then_some(()));
    }
}

fn page(scrape: u64) -> String {
    let mut page = String::from("# TYPE load_total counter\n");
    for number in 0..20 {
        for namespace in ["ml", "other"] {
            let value = scrape * 100 + number;
            page.push_str(&format!(
                "load_total{{namespace=\"{namespace}\",pod=\"train-0\",number=\"{number}\"}} {value}\n"
            ));
        }
    }
    page.push_str(&format!(
        "gpu_power{{gpu_id=\"0\",node=\"node-a\"}} {}.25\nstray 1\n",
        scrape + 1
    ));
    page
}

/// VictoriaMetrics on a fixed port.
struct Store {
    address: SocketAddr,
    folder: PathBuf,
    running: Option<Running>,
}

impl Store {
    fn start(folder: &Path) -> Store {
        let mut store = Store { address: free_port(), folder: folder.to_owned(), running: None };
        store.restart();
        store
    }

    fn restart(&mut self) {
        let mut command = Command::new("victoria-metrics");
        command
            .arg(format!("-storageDataPath={}", self.folder.display()))
            .arg(format!("-httpListenAddr={}", self.address))
            .args(["-retentionPeriod=100y", "-loggerLevel=ERROR", "-memory.allowedBytes=200MB"])
            .stderr(Stdio::null());
        self.running = Some(Running::start(&mut command));
        eventually("the store listens", || http::try_get(self.address, "/health"));
    }

    /// SIGTERM, not SIGKILL: VictoriaMetrics itself keeps its last seconds in memory only.
    fn stop(&mut self) {
        self.running.take().unwrap().stop();
    }

    fn url(&self) -> String {
        format!("http://{}/api/v1/write", self.address)
    }

    /// Every sample of the metrics that `pattern` matches.
    fn samples(&self, pattern: &str) -> Samples {
        http::get(self.address, "/internal/force_flush");
        let path =
            format!("/api/v1/export?match[]=%7B__name__=~%22{pattern}%22%7D&reduce_mem_usage=1");
        let mut samples = Samples::new();
        for line in http::get(self.address, &path).text().lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_owner(&line["metric"]);
            let series = samples.entry(key(&line["metric"])).or_default();
            let values = line["values"].as_array().unwrap().iter();
            for (value, at) in values.zip(line["timestamps"].as_array().unwrap()) {
                // A stale marker is exported as null; it has its own test.
                if let Some(value) = value.as_f64() {
                    series.insert(at.as_i64().unwrap(), value);
                }
            }
        }
        samples
    }
}

/// By series: timestamp to value.
type Samples = BTreeMap<String, BTreeMap<i64, f64>>;

/// Whoever a series is billed to must be who it is of: by its namespace, or as the holder of the GPU.
fn assert_owner(metric: &serde_json::Value) {
    let name = metric["__name__"].as_str().unwrap();
    if !name.starts_with("workload_") {
        return;
    }
    let [workload, pod] = match metric["namespace"].as_str() {
        Some("other") => ["w-other", "pod-other"],
        _ => ["w-ml", "pod-ml"],
    };
    assert_eq!(metric["workload_uid"], workload, "{metric}");
    assert_eq!(metric["pod_uid"], pod, "{metric}");
}

/// What tells the series apart, without what the processor adds or changes.
fn key(metric: &serde_json::Value) -> String {
    let metric = metric.as_object().unwrap();
    let added = ["job", "exported_job", "pod_name", "pod_uid", "workload_name", "workload_uid"];
    let labels = metric.iter().filter(|(name, _)| !added.contains(&name.as_str()));
    let text = labels
        .map(|(name, value)| format!("{name}={} ", value.as_str().unwrap()))
        .collect::<String>();
    text.replace("__name__=workload_", "__name__=")
}

fn count(samples: &Samples) -> usize {
    samples.values().map(BTreeMap::len).sum()
}

/// What Prometheus itself holds.
fn prometheus_samples(address: SocketAddr) -> Samples {
    let query = "%7B__name__=~%22load_total%7Cgpu_power%22%7D%5B1h%5D";
    let answer = http::get(address, &format!("/api/v1/query?query={query}")).json();
    let mut samples = Samples::new();
    for series in answer["data"]["result"].as_array().unwrap() {
        let of_series = samples.entry(key(&series["metric"])).or_default();
        for pair in series["values"].as_array().unwrap() {
            let at = (pair[0].as_f64().unwrap() * 1000.0).round() as i64;
            of_series.insert(at, pair[1].as_str().unwrap().parse().unwrap());
        }
    }
    samples
}

/// Kills the processor and the store in turn while scrapes go on.
fn kill_everything(exporter: &Exporter, processor: &mut ProcessorProcess, store: &mut Store) {
    exporter.wait_for_scrapes(8);
    processor.kill();
    exporter.wait_for_scrapes(3);
    processor.restart();
    exporter.wait_for_scrapes(5);
    store.stop();
    exporter.wait_for_scrapes(4);
    processor.kill();
    processor.restart();
    exporter.wait_for_scrapes(3);
    store.restart();
    exporter.wait_for_scrapes(8);
}

#[test]
fn what_prometheus_scraped_is_in_the_store_though_everything_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let exporter = Exporter::start();
    let mut store = Store::start(&folder.path().join("store"));
    let mut processor = ProcessorProcess::start(folder.path(), &store.url(), "");
    let config = format!(
        "global: {{scrape_interval: 300ms, scrape_timeout: 300ms}}\n\
         scrape_configs:\n- job_name: test\n  static_configs: [{{targets: ['{}']}}]\n\
         remote_write:\n- url: http://{}/prometheus\n  queue_config: {{max_samples_per_send: 60, batch_send_deadline: 300ms, max_backoff: 500ms}}\n",
        exporter.address, processor.address
    );
    let path = folder.path().join("prometheus.yml");
    std::fs::write(&path, config).unwrap();
    let address = free_port();
    let mut command = Command::new("prometheus");
    command
        .arg(format!("--config.file={}", path.display()))
        .arg(format!("--storage.tsdb.path={}", folder.path().join("prometheus").display()))
        .arg(format!("--web.listen-address={address}"))
        .arg("--log.level=error")
        .current_dir(folder.path());
    let prometheus = Running::start(&mut command);

    kill_everything(&exporter, &mut processor, &mut store);
    let expected = prometheus_samples(address);
    assert_eq!(expected.len(), 41);
    assert!(count(&expected) > 41 * 20, "{}", count(&expected));
    eventually("every sample Prometheus has, in the store", || {
        let stored = store.samples("workload_(load_total|gpu_power)");
        let missing = expected.iter().find(|(series, samples)| {
            let stored = stored.get(*series);
            samples.iter().any(|(at, value)| stored.and_then(|s| s.get(at)) != Some(value))
        });
        missing.is_none().then_some(())
    });
    assert!(store.samples("workload_stray|stray").is_empty());
    drop(prometheus);
}

#[test]
fn what_vmagent_scraped_is_in_the_store_though_everything_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let exporter = Exporter::start();
    // vmagent holds no samples of its own, so it also writes straight to a second store, which is the measure.
    let measure = Store::start(&folder.path().join("measure"));
    let mut store = Store::start(&folder.path().join("store"));
    let mut processor = ProcessorProcess::start(folder.path(), &store.url(), "");
    let config = format!(
        "global: {{scrape_interval: 300ms, scrape_timeout: 300ms}}\n\
         scrape_configs:\n- job_name: test\n  static_configs: [{{targets: ['{}']}}]\n",
        exporter.address
    );
    let path = folder.path().join("vmagent.yml");
    std::fs::write(&path, config).unwrap();
    let mut command = Command::new("vmagent");
    command
        .arg(format!("-promscrape.config={}", path.display()))
        .arg(format!("-httpListenAddr={}", free_port()))
        .arg(format!("-remoteWrite.url=http://{}/prometheus", processor.address))
        .arg(format!("-remoteWrite.url={}", measure.url()))
        .arg(format!("-remoteWrite.tmpDataPath={}", folder.path().join("vmagent").display()))
        .args(["-remoteWrite.flushInterval=300ms", "-loggerLevel=ERROR"])
        .stderr(Stdio::null());
    let vmagent = Running::start(&mut command);

    kill_everything(&exporter, &mut processor, &mut store);
    let expected = eventually("samples at the measure", || {
        let samples = measure.samples("load_total|gpu_power");
        (samples.len() == 41 && count(&samples) > 41 * 15).then_some(samples)
    });
    eventually("every sample the measure has, in the store", || {
        let stored = store.samples("workload_(load_total|gpu_power)");
        let missing = expected.iter().find(|(series, samples)| {
            let stored = stored.get(*series);
            samples.iter().any(|(at, value)| stored.and_then(|s| s.get(at)) != Some(value))
        });
        missing.is_none().then_some(())
    });
    drop(vmagent);
}
