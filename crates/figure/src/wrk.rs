//! `wrk` against a server, and what it prints.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

/// What a run of `wrk` came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// Answers in a second.
    pub requests_per_s: f64,
    /// Half of all answers took at most this.
    pub p50_ms: f64,
    /// All but one in a hundred took at most this.
    pub p99_ms: f64,
    /// Connections that failed, and answers that were none.
    pub errors: u64,
}

impl Load {
    /// Asks for `url` over so many connections for so long.
    ///
    /// # Errors
    /// If `wrk` is not there, or does not print what it should.
    pub fn run(url: &str, connections: u32, seconds: u32) -> Result<Self, Box<dyn Error>> {
        let output = Command::new("wrk")
            .args(["-t1", "--latency", "--timeout", "120s"])
            .arg(format!("-c{connections}"))
            .arg(format!("-d{seconds}s"))
            .arg(url)
            .output()
            .map_err(|e| format!("cannot run wrk: {e}; install Debian's package wrk"))?;
        Self::parse(&String::from_utf8_lossy(&output.stdout))
    }

    fn parse(text: &str) -> Result<Self, Box<dyn Error>> {
        let found = |start: &str| {
            let mut lines = text.lines().map(str::trim);
            let line = lines.find_map(|line| line.strip_prefix(start));
            line.map(|rest| rest.trim().to_owned())
                .ok_or(format!("wrk did not print {start}: {text}"))
        };
        let errors: u64 = text
            .lines()
            .filter(|line| line.contains("Socket errors") || line.contains("Non-2xx"))
            .flat_map(|line| line.split([' ', ',']))
            .filter_map(|word| word.parse::<u64>().ok())
            .sum();
        Ok(Self {
            requests_per_s: found("Requests/sec:")?.parse()?,
            p50_ms: millis(&found("50%")?)?,
            p99_ms: millis(&found("99%")?)?,
            errors,
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

/// One answer, its head included; none from a server that is not there (yet).
#[must_use]
pub fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_percentiles_and_failures_are_read_from_what_it_prints() {
        let text = "  1 threads and 4 connections\n  Latency Distribution\n     50%   93.00us\n     \
                    99%    1.25ms\n  Socket errors: connect 0, read 2, write 0, timeout 1\n  \
                    Non-2xx or 3xx responses: 4\nRequests/sec:  40123.5\n";
        let load = Load::parse(text).unwrap();
        let expected = Load { requests_per_s: 40_123.5, p50_ms: 0.093, p99_ms: 1.25, errors: 7 };
        assert_eq!(load, expected);
        assert!(Load::parse("Requests/sec: 1").is_err());
    }
}
