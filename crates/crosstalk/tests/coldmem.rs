//! `crosstalk coldmem` and `doctor` as a person uses them, on a machine whose kernel has kidled.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod support;

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use support::{crosstalk, csv_rows, files, number, record, succeed};

const STAT: &str = "inactive_anon 1000\nactive_anon 2000\ninactive_file 40000\nactive_file 8000\n\
                    file_mapped 48000\nunevictable 0\nworkingset_refault_file 5\nworkingset_refault_anon 1\n";

fn put(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A node with one cgroup, in which 70 bytes of inactive page cache are idle for 300 s, watched for `scans` of 100 s.
fn machine(scans: u32) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "proc/1/mounts", "c /sys/fs/cgroup cgroup2 rw 0 0\n");
    put(root.path(), "proc/meminfo", "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 800 kB\n");
    let header = format!(
        "# version: 1.0\n# page_scans: {scans}\n# slab_scans: 0\n# scan_period_in_seconds: 100\n\
         # buckets: 1,3\n"
    );
    let rows =
        "csei dsei cfei dfei csui dsui cfui dfui csea dsea cfea dfea csua dsua cfua dfua slab";
    let row =
        |name| if name == "cfei" { "cfei 1 70\n".to_owned() } else { format!("{name} 0 0\n") };
    let idle = header + &rows.split(' ').map(row).collect::<String>();
    for folder in ["sys/fs/cgroup", "sys/fs/cgroup/a"] {
        put(root.path(), &format!("{folder}/memory.stat"), STAT);
        put(root.path(), &format!("{folder}/memory.idle_page_stats"), &idle);
    }
    root
}

fn json(root: &Path, args: &[&str]) -> Value {
    let output = succeed(crosstalk().args(args).arg("--json").arg("--host-root").arg(root));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn show_has_the_kernels_fields_and_what_is_cold_of_a_cgroup() {
    let machine = machine(9);
    let shown = json(machine.path(), &["coldmem", "show", "--cgroup", "/a"]);
    assert_eq!(
        (&shown["backend"], &shown["warm_up"]["state"]),
        (&"kidled".into(), &"ready".into())
    );
    assert_eq!((&shown["page_scans"], &shown["scan_period_in_seconds"]), (&9.into(), &100.into()));
    assert_eq!((&shown["idle_total_bytes"], &shown["cold_bytes"]), (&71.into(), &70.into()));
    let table = succeed(crosstalk().args(["coldmem", "show", "--host-root"]).arg(machine.path()));
    assert!(String::from_utf8_lossy(&table.stdout).contains("kidled"), "{table:?}");
}

#[test]
fn advice_is_given_once_memory_was_watched_for_long_enough() {
    let advise = |root: &Path| json(root, &["coldmem", "advise", "--over", "100ms"]);
    let advice = advise(machine(9).path());
    assert_eq!(
        (&advice["advice"][0]["cgroup"], &advice["advice"][0]["cold_bytes"]),
        (&"/a".into(), &70.into())
    );
    assert_eq!(advice["advice"][0]["reclaimable_bytes"], 70, "{advice:#}");
    assert_eq!(advice["advice"][0]["refaults"], 6, "{advice:#}");
    let table = |root: &Path| {
        let mut command = crosstalk();
        let command = command.args(["coldmem", "advise", "--over", "100ms", "--host-root"]);
        String::from_utf8_lossy(&succeed(command.arg(root)).stdout).into_owned()
    };
    assert!(!table(machine(9).path()).contains("warming up"));
    assert!(table(machine(2).path()).contains("/a      warming up: has watched 200 s of 300 s"));
    let early = advise(machine(2).path());
    assert_eq!(early["warm_up"]["state"], "warming", "{early:#}");
    assert_eq!(early["advice"][0]["cold_bytes"], Value::Null, "{early:#}");
    assert_eq!(early["advice"][0]["at_most_bytes"], 40_000, "{early:#}");
}

#[test]
fn a_recording_has_ages_or_bounds_and_usage_of_memory_unless_switched_off() {
    let out = tempfile::tempdir().unwrap();
    succeed(&mut record(out.path(), &["--duration", "2s"]));
    let cold = csv_rows(out.path(), "coldmem");
    assert!(!cold.is_empty());
    for row in &cold {
        // Either ages are known or what at most is cold, and never both.
        assert_ne!(row["bytes"].is_empty(), row["at_most_bytes"].is_empty(), "{row:?}");
        assert_eq!(row["at_most_bytes"].is_empty(), row["backend"] != "bounds", "{row:?}");
    }
    let memory = csv_rows(out.path(), "memory");
    let node = memory.iter().find(|row| row["cgroup_id"] == "0").unwrap();
    assert!(number(node, "without_page_cache_bytes") < number(node, "with_page_cache_bytes"));
    let off = tempfile::tempdir().unwrap();
    succeed(&mut record(off.path(), &["--duration", "2s", "--no-coldmem"]));
    for dataset in ["coldmem", "memory"] {
        assert!(files(off.path(), dataset, "").is_empty(), "{dataset}");
    }
}

#[test]
fn doctor_names_every_back_end_with_a_verdict() {
    let output = succeed(crosstalk().args(["doctor", "--json"]));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = report["capabilities"].as_array().unwrap();
    for name in ["kidled", "DAMON", "MGLRU", "bounds"].map(|name| format!("cold memory, {name}")) {
        let found = all.iter().find(|c| c["name"] == name.as_str()).expect(&name);
        assert!(found["verdict"] == "ok" || found["fix"].is_string(), "{found:#}");
    }
    let cold = report["cold_memory"].as_array().unwrap();
    assert_eq!(cold.len(), 4, "{report:#}");
    for backend in cold {
        for key in ["resolution", "overhead"] {
            assert!(backend[key].is_string(), "{key}: {backend:#}");
        }
        assert!(backend["warm_up"]["state"].is_string(), "{backend:#}");
    }
    let table = succeed(crosstalk().arg("doctor"));
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("kidled: ") && table.contains("; costs "), "{table}");
}

#[test]
fn the_agent_prints_or_writes_what_koordinator_would_be_told_without_kubernetes() {
    let machine = machine(9);
    let file = machine.path().join("metric.json");
    for to in ["-", file.to_str().unwrap()] {
        let mut command = crosstalk();
        command.args(["agent", "--listen", "127.0.0.1:0", "--node-metric-file", to]);
        command.arg("--host-root").arg(machine.path()).stdout(Stdio::piped());
        command.env("CROSSTALK_AGENT_INVENTORY_ENGINES", "false");
        let mut agent = Ended(command.env("CROSSTALK_AGENT_NODE", "n1").spawn().unwrap());
        let mut output = BufReader::new(agent.0.stdout.take().unwrap());
        let object: Value = if to == "-" {
            // The lines that say where it listens come first.
            skip_until(&mut output, b'{');
            let mut objects = serde_json::Deserializer::from_reader(output).into_iter();
            objects.next().unwrap().unwrap()
        } else {
            eventually(|| serde_json::from_slice(&fs::read(&file).ok()?).ok())
        };
        assert_eq!(
            (&object["kind"], &object["metadata"]["name"]),
            (&"NodeMetric".into(), &"n1".into())
        );
        let used = &object["status"]["nodeMetric"]["nodeUsage"]["resources"]["memory"];
        assert_eq!(*used, (200 * 1024).to_string(), "{object:#}");
        drop(agent);
    }
}

/// Takes what comes before a byte.
fn skip_until(from: &mut impl BufRead, byte: u8) {
    loop {
        let seen = from.fill_buf().unwrap();
        assert!(!seen.is_empty(), "it ended first");
        let at = seen.iter().position(|is| *is == byte);
        let skipped = at.unwrap_or(seen.len());
        from.consume(skipped);
        if at.is_some() {
            return;
        }
    }
}

/// A daemon that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "never came");
        #[allow(clippy::disallowed_methods)] // a file says nothing of its coming
        std::thread::sleep(Duration::from_millis(20));
    }
}
