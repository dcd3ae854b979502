//! Who watches while the work runs.

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Observer {
    Crosstalk,
    CrosstalkWithoutRunq,
    PerfSched,
    Bpftrace,
}

impl Observer {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Crosstalk => "crosstalk record",
            Self::CrosstalkWithoutRunq => "crosstalk record --no-runq-wait",
            Self::PerfSched => "perf sched record",
            Self::Bpftrace => "bpftrace, time summed per pid",
        }
    }

    /// Starts watching; returns when it does watch.
    pub(crate) fn start(self, extra: &[&str]) -> Watching {
        let dir = TempDir::new().expect("a temporary folder");
        let child = match self {
            Self::Crosstalk => crosstalk(dir.path(), extra),
            Self::CrosstalkWithoutRunq => crosstalk(dir.path(), &["--no-runq-wait"]),
            Self::PerfSched => {
                let data = dir.path().join("perf.data");
                let child = Command::new("perf")
                    .args(["sched", "record", "-o"])
                    .arg(&data)
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .expect("perf starts");
                wait_for(|| fs::metadata(&data).is_ok_and(|m| m.len() > 0));
                child
            }
            Self::Bpftrace => bpftrace(),
        };
        Watching { child, dir }
    }
}

pub(crate) struct Watching {
    child: Child,
    dir: TempDir,
}

impl Watching {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops watching; Crosstalk's report is returned.
    pub(crate) fn stop(self) -> (Option<Value>, TempDir) {
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").args(["-INT", &pid]).status();
        let output = self.child.wait_with_output().expect("the observer ends");
        (serde_json::from_slice(&output.stdout).ok(), self.dir)
    }
}

fn crosstalk(out: &Path, extra: &[&str]) -> Child {
    let child = Command::new(env!("CARGO_BIN_EXE_crosstalk"))
        .args(["record", "--json", "--duration", "30m", "--out"])
        .arg(out)
        .args(extra)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("crosstalk starts");
    // Rows in the coverage file: the programs run.
    wait_for(|| {
        let files = fs::read_dir(out.join("slots")).into_iter().flatten().flatten();
        files.flat_map(|file| file.metadata()).any(|meta| meta.len() > 4_000)
    });
    child
}

/// What Crosstalk sums, in bpftrace: on-CPU time, waits and switches per process.
fn bpftrace() -> Child {
    let script = "BEGIN { printf(\"ready\\n\"); }
        rawtracepoint:sched_switch {
          $prev = (struct task_struct *)arg1; $next = (struct task_struct *)arg2;
          $t = nsecs;
          if (@since[cpu]) { @on_cpu[$prev->tgid] = sum($t - @since[cpu]); }
          @switches[$prev->tgid] = count();
          if (@woken[$next->pid]) { @wait[$next->tgid] = sum($t - @woken[$next->pid]); delete(@woken[$next->pid]); }
          @since[cpu] = $t; }
        rawtracepoint:sched_wakeup { $p = (struct task_struct *)arg0; @woken[$p->pid] = nsecs; }";
    let mut child = Command::new("bpftrace")
        .args(["-e", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("bpftrace starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let ready = lines.by_ref().take(20).flatten().any(|line| line.contains("ready"));
    assert!(ready, "bpftrace did not attach");
    std::thread::spawn(move || lines.for_each(drop));
    child
}

#[allow(clippy::disallowed_methods)] // the pace of looking at a file
fn wait_for(ready: impl Fn() -> bool) {
    let began = Instant::now();
    while !ready() {
        assert!(began.elapsed() < Duration::from_secs(30), "the observer never started");
        std::thread::sleep(Duration::from_millis(20));
    }
}
