//! Starting, awaiting and ending a real agent.

use crate::client::get;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Long enough for a machine that does ten other things.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Agent {
    child: Child,
    pub(crate) address: SocketAddr,
    _dir: TempDir,
}

pub(crate) fn crosstalk() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crosstalk"));
    command.arg("agent").env("STATE_DIRECTORY", env!("CARGO_TARGET_TMPDIR"));
    command
}

impl Agent {
    /// With a fast pace, and whatever else `config` says.
    pub(crate) fn start(config: &str) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), config)
    }

    pub(crate) fn start_in(dir: TempDir, config: &str) -> Self {
        Self::start_as(crosstalk(), dir, config)
    }

    /// By a command that ends up in `crosstalk agent` with the arguments that follow.
    pub(crate) fn start_as(mut command: Command, dir: TempDir, config: &str) -> Self {
        let file = dir.path().join("agent.toml");
        std::fs::write(&file, format!("listen = \"127.0.0.1:0\"\n{config}")).unwrap();
        let mut child = command
            .args([Path::new("--config"), &file])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (_, address) = line.trim().split_once("http://").unwrap_or_else(|| panic!("{line:?}"));
        Self { address: address.parse().unwrap(), child, _dir: dir }
    }

    pub(crate) fn window(&self, query: &str) -> Value {
        let response = get(self.address, &format!("/metrics?{query}"));
        assert_eq!(response.status, 200, "{}", response.body);
        response.json()
    }

    /// Asks until the answer is as wanted.
    pub(crate) fn until(&self, query: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut answer = Value::Null;
        until(|| {
            answer = self.window(query);
            wanted(&answer)
        })
        .unwrap_or_else(|()| panic!("never came: {answer:#}"));
        answer
    }

    pub(crate) fn terminate(mut self) -> ExitStatus {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Looks ten times a second until it is so; an error if it never is.
pub(crate) fn until(mut so: impl FnMut() -> bool) -> Result<(), ()> {
    let end = Instant::now() + PATIENCE;
    while !so() {
        if Instant::now() > end {
            return Err(());
        }
        #[allow(clippy::disallowed_methods)] // another process tells of nothing but when asked
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// The entry of a source in an answer or in `/ready`.
pub(crate) fn source<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let sources = answer["sources"].as_array().unwrap();
    sources.iter().find(|source| source["name"] == name).unwrap_or(&Value::Null)
}
