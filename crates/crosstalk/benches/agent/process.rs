//! An agent as a process of its own, and what it says of itself; and those it may watch.

use crosstalk_figure::process::{cpu_seconds, peak_bytes};
use crosstalk_figure::wrk::get;
use serde_json::Value;
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

pub(crate) struct Agent {
    child: Child,
    address: SocketAddr,
}

/// What the counters had in a window.
pub(crate) struct Counters {
    pub(crate) samples: f64,
    pub(crate) newest_seconds: f64,
}

impl Agent {
    pub(crate) fn start(environment: &[(&str, &str)]) -> Result<Self, Box<dyn Error>> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_crosstalk"))
            .args(["agent", "--listen", "127.0.0.1:0"])
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no pipe")?).read_line(&mut line)?;
        let mut agent = Self { child, address: ([127, 0, 0, 1], 0).into() };
        let said =
            line.split("http://").nth(1).and_then(|rest| rest.split(['/', ' ', '\n']).next());
        agent.address = said.ok_or("the agent did not say where it listens")?.parse()?;
        Ok(agent)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn cpu_seconds(&self) -> f64 {
        cpu_seconds(self.child.id())
    }

    pub(crate) fn peak_mib(&self) -> f64 {
        peak_bytes(self.child.id()) as f64 / 1_048_576.0
    }

    pub(crate) fn counters(&self, window_seconds: u32) -> Result<Counters, Box<dyn Error>> {
        let answer = self.get(&format!("/metrics?window_seconds={window_seconds}"))?;
        let answer: Value = serde_json::from_str(&answer)?;
        let sources = answer["sources"].as_array().ok_or("no sources")?;
        let counters = sources.iter().find(|source| source["name"] == "counters");
        let counters = counters.ok_or("no counters")?;
        let number = |key: &str| counters[key].as_f64().ok_or(format!("no {key}: {counters}"));
        Ok(Counters {
            samples: number("samples_count")?,
            newest_seconds: number("newest_seconds")?,
        })
    }

    /// Slots that the agent did not get, or got too late.
    pub(crate) fn lost_rows(&self) -> Result<f64, Box<dyn Error>> {
        let text = self.get("/metrics")?;
        let line = text.lines().find(|line| line.starts_with("crosstalk_agent_lost_rows_total"));
        let value = line.and_then(|line| line.split(' ').nth(1)).ok_or("no count of lost rows")?;
        Ok(value.parse()?)
    }

    fn get(&self, path: &str) -> Result<String, Box<dyn Error>> {
        let answer = get(self.address, path).ok_or("the agent does not answer")?;
        let (_, body) = answer.split_once("\r\n\r\n").ok_or("half an answer")?;
        Ok(body.to_owned())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // One that has ended by itself needs no more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Of built-in workloads: on every core one that serves requests, one that chases pointers and rests, and one that
/// computes in phases.
pub(crate) struct Loads(Vec<Child>);

impl Loads {
    pub(crate) fn start() -> Result<Self, Box<dyn Error>> {
        let cores = std::thread::available_parallelism()?.get();
        let mut loads = Self(Vec::new());
        for core in 0..cores {
            let (core, seed) = (core.to_string(), (core + 1).to_string());
            let kinds: [&[&str]; 3] = [
                &["serve", "--rate", "200"],
                &["chase", "--bytes", "4MiB", "--rest", "3ms"],
                &["compute", "--phases", &seed],
            ];
            for kind in kinds {
                let mut command = Command::new(env!("CARGO_BIN_EXE_crosstalk"));
                command.arg("workload").args(kind).args(["--core", &core]);
                loads.0.push(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
            }
        }
        Ok(loads)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

impl Drop for Loads {
    fn drop(&mut self) {
        for load in &mut self.0 {
            // One that has ended by itself needs no more.
            let _ = load.kill();
            let _ = load.wait();
        }
    }
}
