//! A mounted simulator and real processes, for the tests beside it.
#![allow(dead_code, clippy::disallowed_methods)]

pub(crate) mod roles;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crosstalk_resctrl::Resctrl;
use crosstalk_resctrl::pool::{Subject, SubjectKey};
use crosstalk_resctrl_sim::{Profile, Simulator, mount};

/// Long enough for any loaded machine; a test that meets it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Looks again until `done`: the other side is a process or the simulator's own pace, with no event to wait on.
pub(crate) fn await_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) struct Machine {
    pub(crate) resctrl: Resctrl,
    pub(crate) simulator: Simulator,
    pub(crate) directory: tempfile::TempDir,
}

impl Machine {
    pub(crate) fn start(profile: Profile) -> Self {
        let profile = Profile {
            limbo_interval: Duration::from_millis(200),
            drain_half_life: Duration::from_millis(100),
            ..profile
        };
        let directory = tempfile::tempdir().unwrap();
        let simulator = mount(profile, directory.path()).unwrap();
        let resctrl = Resctrl::open(directory.path()).unwrap();
        Self { resctrl, simulator, directory }
    }

    pub(crate) fn await_limbo(&self, wanted: usize) {
        await_until("limbo has drained", || self.simulator.in_limbo() <= wanted);
    }
}

/// A process that does nothing until it is dropped.
pub(crate) struct Sleeper(Child);

impl Sleeper {
    pub(crate) fn start() -> Self {
        Self(Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A shell that does what it is told, one line at a time.
pub(crate) struct Shell {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    sleepers: Vec<String>,
}

impl Shell {
    pub(crate) fn start() -> Self {
        let mut child = Command::new("sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output, sleepers: Vec::new() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Runs a line that prints one line.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        writeln!(self.input, "{line}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        answer.trim().to_owned()
    }

    pub(crate) fn spawn_sleeper(&mut self) -> u32 {
        let pid = self.ask("sleep 600 >/dev/null & echo $!");
        self.sleepers.push(pid.clone());
        pid.parse().unwrap()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = writeln!(self.input, "kill {}; exit", self.sleepers.join(" "));
        let _ = self.input.flush();
        let _ = self.child.wait();
    }
}

pub(crate) fn subject(pid: u32, recent_cpu_ns: u64, container: Option<&str>) -> Subject {
    Subject {
        key: SubjectKey { pid, process_start_ns: 1 },
        comm: format!("process-{pid}").into(),
        container: container.map(Into::into),
        recent_cpu_ns,
    }
}

pub(crate) fn key(pid: u32) -> SubjectKey {
    SubjectKey { pid, process_start_ns: 1 }
}
