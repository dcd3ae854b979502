//! The command as a user types it.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod support;

use crosstalk_host::{CgroupHierarchy, HostRoot};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::*;

#[test]
fn recording_a_command_exits_with_its_status() {
    let out = tempfile::tempdir().unwrap();
    let output = record(out.path(), &["--", "sh", "-c", "echo hello; exit 7"]).output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    let (printed, report) = split_report(&output);
    assert_eq!(printed.trim(), "hello");
    let files = report["files"].as_array().unwrap().iter().map(|file| &file["dataset"]);
    // A machine with resctrl has one more, and so has one that is watched for a second.
    let always = files.filter(|dataset| {
        !["cache", "coldmem", "memory", "pressure", "steal", "throttling"]
            .contains(&dataset.as_str().unwrap_or_default())
    });
    assert_eq!(always.count(), 3);
    let again = ["--append", "--", "sh", "-c", "kill -9 $$"];
    let killed = record(out.path(), &again).output().unwrap();
    assert_eq!(killed.status.code(), Some(128 + 9));
}

/// Waits until a recording has rows.
fn wait_for_rows(out: &Path) {
    let parts = || files(out, "tasks", ".csv.part");
    while parts().first().is_none_or(|part| fs::metadata(part).map_or(0, |m| m.len()) < 500) {
        std::thread::yield_now();
    }
}

#[test]
fn a_closed_standard_output_and_error_do_not_end_a_recording() {
    let out = tempfile::tempdir().unwrap();
    let mut child = record(out.path(), &["--duration", "2s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(csv_rows(out.path(), "slots").len() >= 3_000);
    assert!(files(out.path(), "slots", ".part").is_empty());
}

#[test]
fn an_interrupt_or_a_dropped_connection_ends_the_recording_cleanly() {
    for signal in ["-INT", "-HUP", "-TERM"] {
        ends_cleanly(signal);
    }
}

fn ends_cleanly(signal: &str) {
    let out = tempfile::tempdir().unwrap();
    let child =
        record(out.path(), &[]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    wait_for_rows(out.path());
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{signal}");
    assert!(files(out.path(), "tasks", ".part").is_empty());
    // Without an end in sight, files go into folders by date and hour.
    let file = &files(out.path(), "tasks", ".csv")[0];
    let path = file.to_string_lossy();
    assert!(
        path.contains("/tasks/node=") && path.contains("/date=") && path.contains("/hour="),
        "{path}"
    );
}

#[test]
fn the_file_beside_a_csv_says_what_was_measured_and_how() {
    let out = tempfile::tempdir().unwrap();
    succeed(&mut record(out.path(), &["--duration", "500ms"]));
    let about = fs::read_to_string(&files(out.path(), "tasks", ".json")[0]).unwrap();
    let about: Value = serde_json::from_str(&about).unwrap();
    for key in ["host", "kernel", "cpu_model", "topology", "counters", "clock", "crosstalk_version"]
    {
        assert!(!about[key].is_null(), "{key} is missing");
    }
    let release = Command::new("uname").arg("-r").output().unwrap();
    assert_eq!(about["kernel"]["release"], String::from_utf8(release.stdout).unwrap().trim());
    assert!(about["counters_kernel_programs"]["events"].as_u64() > Some(0), "{about:#}");
    let rows = csv_rows(out.path(), "tasks");
    for counter in about["counters"].as_array().unwrap() {
        let column = counter["column"].as_str().unwrap();
        let absent = !counter["absent_because"].is_null();
        assert!(!counter["event"]["name"].is_null());
        let empty = rows.iter().filter(|row| row[column].is_empty()).count();
        if absent {
            assert_eq!(empty, rows.len(), "{column} could not be opened but has values");
        }
    }
}

/// A process in a cgroup that is named as container engines name theirs; ended and removed when dropped.
struct Container {
    id: String,
    folder: PathBuf,
    process: Child,
}

impl Container {
    fn start() -> Self {
        let host = HostRoot::default();
        let hierarchy = CgroupHierarchy::find(&host).expect("a cgroup file system is mounted");
        let id = format!("{:x>64}", format!("{:x}", std::process::id())).replace('x', "c");
        let folder = host.path(hierarchy.mount.join("docker").join(&id));
        fs::create_dir_all(&folder).expect("root may make cgroups");
        let process = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        fs::write(folder.join("cgroup.procs"), process.id().to_string()).unwrap();
        Self { id, folder, process }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir(&self.folder);
        // Only if nobody else has containers there.
        let _ = self.folder.parent().map(fs::remove_dir);
    }
}

#[test]
fn rows_have_the_pods_and_workloads_that_a_file_names() {
    let out = tempfile::tempdir().unwrap();
    let container = Container::start();
    let pods = out.path().join("pods.yaml");
    let text = format!(
        "pods: [{{ name: train-0, namespace: ml, uid: u-1, workloads: [{{ name: train, kind: Job }}],\n\
         containers: [{{ id: {}, name: worker }}] }}]\n",
        container.id
    );
    fs::write(&pods, text).unwrap();
    let rec = out.path().join("rec");
    succeed(&mut record(&rec, &["--duration", "1s", "--pods", pods.to_str().unwrap()]));
    let rows = csv_rows(&rec, "tasks");
    let mine: Vec<&Row> = rows.iter().filter(|row| row["container_id"] == container.id).collect();
    assert!(!mine.is_empty(), "the container was recorded");
    for (column, name) in
        [("container_name", "worker"), ("pod_name", "train-0"), ("pod_namespace", "ml")]
    {
        assert!(mine.iter().all(|row| row[column] == name), "{column}: {:?}", mine[0]);
    }
    assert!(mine.iter().all(|row| row["workload"].contains("train")), "{:?}", mine[0]);
}

#[test]
fn a_file_of_names_that_cannot_be_used_is_told_before_anything_is_recorded() {
    let out = tempfile::tempdir().unwrap();
    for flag in ["--pods", "--kubeconfig"] {
        let output = record(&out.path().join("rec"), &[flag, "/no/such/file"]).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(flag) && error.contains("/no/such/file"), "{error}");
        assert!(!out.path().join("rec").exists());
    }
}

#[test]
fn only_the_processes_asked_for_are_kept() {
    let out = tempfile::tempdir().unwrap();
    let mut burner = Command::new(PYTHON).args([&load("burn.py"), "0", "30"]).spawn().unwrap();
    let pid = burner.id().to_string();
    succeed(&mut record(out.path(), &["--duration", "1s", "--pid", &pid]));
    burner.kill().unwrap();
    burner.wait().unwrap();
    let rows = csv_rows(out.path(), "tasks");
    assert!(!rows.is_empty() && rows.iter().all(|row| row["pid"] == pid));
    assert!(csv_rows(out.path(), "slots").len() >= 1_900, "coverage stays whole");
}

#[test]
fn a_process_has_the_start_time_that_proc_shows_and_its_name_after_exec() {
    let out = tempfile::tempdir().unwrap();
    let script = "read -r stat < /proc/$$/stat; echo $$ ${stat##*) }; exec sleep 0.2";
    let output = succeed(&mut record(out.path(), &["--", "sh", "-c", script]));
    let (printed, _) = split_report(&output);
    let words: Vec<&str> = printed.split_whitespace().collect();
    // Field 22 of stat is the start in 10 ms ticks since boot; field 3 is the first one printed.
    let (pid, ticks): (u64, u64) = (words[0].parse().unwrap(), words[1 + 22 - 3].parse().unwrap());
    let about = fs::read_to_string(&files(out.path(), "tasks", ".json")[0]).unwrap();
    let about: Value = serde_json::from_str(&about).unwrap();
    let boot = about["clock"]["boot_unix_ns"].as_u64().unwrap();
    let rows = csv_rows(out.path(), "tasks");
    let mine: Vec<&Row> = rows.iter().filter(|row| number(row, "pid") == pid).collect();
    assert!(mine.iter().all(|row| number(row, "process_start_ns") == boot + ticks * 10_000_000));
    let last = mine.iter().max_by_key(|row| number(row, "slot_start_ns")).unwrap();
    assert_eq!(last["comm"], "sleep");
}

#[test]
fn long_recordings_are_cut_into_files_that_join_without_gap_or_overlap() {
    for format in ["csv", "parquet"] {
        let out = tempfile::tempdir().unwrap();
        succeed(&mut record(
            out.path(),
            &["--duration", "4s", "--rotate-time", "1s", "--format", format],
        ));
        let cut = files(out.path(), "slots", &format!(".{format}"));
        assert!((3..=6).contains(&cut.len()), "{cut:?}");
        if format == "csv" {
            let mut starts: Vec<(u64, u64)> = csv_rows(out.path(), "slots")
                .iter()
                .map(|row| (number(row, "core"), number(row, "slot_start_ns")))
                .collect();
            starts.sort_unstable();
            let broken = |w: &&[(u64, u64)]| w[0].0 == w[1].0 && w[1].1 - w[0].1 != SLOT_NS;
            assert_eq!(starts.windows(2).find(broken), None);
        }
    }
}

#[test]
fn doctor_names_every_capability_with_a_verdict() {
    let output = succeed(crosstalk().args(["doctor", "--json"]));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let capabilities = report["capabilities"].as_array().unwrap();
    for name in ["eBPF collector", "run-queue wait", "cycles", "instructions", "llc_misses"] {
        let found = capabilities.iter().find(|c| c["name"] == name).expect(name);
        let verdict = found["verdict"].as_str().unwrap();
        assert!(verdict == "ok" || found["fix"].is_string(), "{name} is {verdict} without a fix");
    }
}

#[test]
fn every_command_has_help_with_examples_and_a_shell_can_complete_them() {
    for command in
        [&["--help"][..], &["record", "--help"], &["doctor", "--help"], &["completions", "--help"]]
    {
        let output = succeed(crosstalk().args(command));
        assert!(String::from_utf8_lossy(&output.stdout).contains("Example"), "{command:?}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let output = succeed(crosstalk().args(["completions", shell]));
        assert!(String::from_utf8_lossy(&output.stdout).contains("record"));
    }
}
