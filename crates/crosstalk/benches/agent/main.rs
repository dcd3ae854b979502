//! What the agent costs while it watches, as a process, by the kernel's own books. Needs root.

use crosstalk_figure::process::{cpu_seconds, peak_bytes};
use crosstalk_figure::{Figure, Section, has, is_asked_for};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn main() -> std::io::Result<()> {
    if !is_asked_for() {
        return Ok(());
    }
    let length = Duration::from_secs(if has("--quick") { 10 } else { 120 });
    let mut section = Section::new("The agent at work");
    let (share, mib) = watch(&[], length)?;
    section.extend([
        Figure::new("default settings: processor time, of one core", format!("{share:.2} %"))
            .against("below 1 %", share < 1.0),
        Figure::new("default settings: largest resident set", format!("{mib:.1} MiB"))
            .against("below 64 MiB", mib < 64.0),
    ]);
    let (share, mib) = watch(&[("CROSSTALK_AGENT_SAMPLING_PERIOD", "1ms")], length)?;
    section.extend([
        Figure::new("sampling at 1 kHz: processor time, of one core", format!("{share:.2} %"))
            .against("below 20 % (200m)", share < 20.0),
        Figure::new("sampling at 1 kHz: largest resident set", format!("{mib:.1} MiB"))
            .against("below 256 MiB", mib < 256.0),
    ]);
    section.finish()
}

/// Runs an agent for so long; returns its share of one core in per cent and its largest resident set in MiB.
fn watch(environment: &[(&str, &str)], length: Duration) -> std::io::Result<(f64, f64)> {
    let mut agent = Agent(
        Command::new(env!("CARGO_BIN_EXE_crosstalk"))
            .args(["agent", "--listen", "127.0.0.1:0"])
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?,
    );
    let mut line = String::new();
    BufReader::new(agent.0.stdout.take().expect("a pipe")).read_line(&mut line)?;
    assert!(!line.is_empty(), "the agent ended before it answered");
    // Starting is not watching: programs are loaded and verified, memory is touched for the first time.
    pause(Duration::from_secs(5));
    let (before, began) = (cpu_seconds(agent.0.id()), Instant::now());
    pause(length);
    let used = cpu_seconds(agent.0.id()) - before;
    let share = used / began.elapsed().as_secs_f64() * 100.0;
    Ok((share, peak_bytes(agent.0.id()) as f64 / 1_048_576.0))
}

#[allow(clippy::disallowed_methods)] // a known length of time is what is measured
fn pause(length: Duration) {
    std::thread::sleep(length);
}

struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        // One that has ended by itself needs no more.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
