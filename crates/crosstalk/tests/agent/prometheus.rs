//! Real promtool and a real Prometheus server, from Debian's package `prometheus`.

use crate::client::{get, get_as};
use crate::process::{Agent, until};
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

const FAST: &str = "[sampling]\nperiod = \"100ms\"\n";

fn ready(config: &str) -> Agent {
    let agent = Agent::start(config);
    agent.until("window_seconds=5", |answer| !answer["metrics"]["mean_mem_used"].is_null());
    agent
}

#[test]
fn the_text_passes_promtool_and_has_the_agents_own_state() {
    let agent = ready(FAST);
    let text = get(agent.address, "/metrics");
    assert!(text.head.contains("text/plain; version=0.0.4"), "{}", text.head);
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is in Debian's package prometheus");
    promtool.stdin.take().unwrap().write_all(text.body.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.trim().is_empty(), "{said}");
    for family in [
        "crosstalk_node_cpu_utilization_ratio",
        "crosstalk_node_memory_used_bytes",
        "crosstalk_agent_buffer_samples",
        "crosstalk_agent_source_errors_total",
        "crosstalk_agent_http_request_duration_seconds",
        "crosstalk_agent_newest_sample_age_seconds",
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
    ] {
        assert!(text.body.contains(&format!("# TYPE {family} ")), "{family}");
        assert!(text.body.contains(&format!("# HELP {family} ")), "{family}");
    }
    // Whoever accepts what Prometheus accepts gets text even with a window.
    let open = get_as(
        agent.address,
        "/metrics?window_seconds=5",
        "application/openmetrics-text; version=1.0.0,text/plain;version=0.0.4;q=0.5",
    );
    assert!(open.head.contains("application/openmetrics-text"), "{}", open.head);
    assert!(open.body.ends_with("# EOF\n"));
}

struct Prometheus {
    child: Child,
    address: SocketAddr,
    _dir: tempfile::TempDir,
}

impl Prometheus {
    fn scraping(agent: SocketAddr) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("prometheus.yml");
        let yaml = format!(
            "global:\n  scrape_interval: 500ms\n  scrape_timeout: 500ms\nscrape_configs:\n\
             - job_name: crosstalk\n  static_configs:\n  - targets: ['{agent}']\n"
        );
        fs::write(&config, yaml).unwrap();
        // Free now, and nobody else's for the moment it takes.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus is in Debian's package of that name");
        Self { child, address, _dir: dir }
    }

    /// The first value of an instant query.
    fn ask(&self, query: &str) -> Option<f64> {
        std::net::TcpStream::connect(self.address).ok()?;
        let response = get(self.address, &format!("/api/v1/query?query={query}"));
        // Prometheus may send its answer in chunks; the JSON is the one line that begins so.
        let line = response.body.lines().find(|line| line.starts_with('{'))?;
        let answer: serde_json::Value = serde_json::from_str(line).ok()?;
        answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_real_prometheus_scrapes_it() {
    let agent = ready(FAST);
    let prometheus = Prometheus::scraping(agent.address);
    until(|| prometheus.ask("up") == Some(1.0)).expect("the target is never up");
    let value = |query: &str| {
        let mut value = None;
        until(|| {
            value = prometheus.ask(query);
            value.is_some()
        })
        .unwrap_or_else(|()| panic!("{query} never came"));
        value.unwrap()
    };
    let used = value("crosstalk_node_cpu_utilization_ratio");
    assert!((0.0..=1.0).contains(&used), "{used}");
    assert!(value("process_cpu_seconds_total") > 0.0);
    assert!(value("sum(crosstalk_agent_http_requests_total)") > 0.0);
    assert_eq!(value("crosstalk_agent_build_info"), 1.0);
}
