//! `wrk` and what it prints.

use std::error::Error;
use std::process::Command;

pub(crate) struct Load {
    pub(crate) requests_per_s: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) errors: u64,
}

impl Load {
    pub(crate) fn run(url: &str, connections: u32, seconds: u32) -> Result<Self, Box<dyn Error>> {
        let output = Command::new("wrk")
            .args(["-t1", "--latency", "--timeout", "120s"])
            .arg(format!("-c{connections}"))
            .arg(format!("-d{seconds}s"))
            .arg(url)
            .output()
            .map_err(|e| format!("cannot run wrk: {e}; install Debian's package wrk"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let found = |start: &str| {
            let mut lines = text.lines().map(str::trim);
            let line = lines.find_map(|line| line.strip_prefix(start));
            line.map(|rest| rest.trim().to_owned())
                .ok_or(format!("wrk did not print {start}: {text}"))
        };
        let failed: u64 = text
            .lines()
            .filter(|line| line.contains("Socket errors") || line.contains("Non-2xx"))
            .flat_map(|line| line.split([' ', ',']))
            .filter_map(|word| word.parse::<u64>().ok())
            .sum();
        Ok(Self {
            requests_per_s: found("Requests/sec:")?.parse()?,
            p50_ms: millis(&found("50%")?)?,
            p99_ms: millis(&found("99%")?)?,
            errors: failed,
        })
    }
}

/// `12.30us`, `4.5ms`, `1.2s`, `1.1m`.
fn millis(text: &str) -> Result<f64, Box<dyn Error>> {
    let at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or("no unit")?;
    let number: f64 = text[..at].parse()?;
    let scale = match &text[at..] {
        "us" => 1e-3,
        "ms" => 1.0,
        "s" => 1e3,
        "m" => 60e3,
        other => return Err(format!("unknown unit {other}").into()),
    };
    Ok(number * scale)
}
