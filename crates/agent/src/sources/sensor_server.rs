//! `pcm-sensor-server`, asked over HTTP.

use super::pcm::{report, values};
use super::{Failure, Source};
use crate::clock::monotonic_ns;
use crate::status::SourceState;
use crate::supervise::Stop;
use crosstalk_pcm::parse_sensor_server;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

/// The answer of a large machine is some 2 MB.
const LONGEST_ANSWER: u64 = 16 << 20;
const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct SensorServer {
    address: String,
    interval: Duration,
}

impl SensorServer {
    pub(super) fn new(address: &str, interval: Duration) -> Self {
        Self { address: address.to_owned(), interval }
    }

    /// `/persecond`: the mean over the server's own last second.
    fn ask(&self) -> io::Result<String> {
        let mut addresses = self.address.to_socket_addrs()?;
        let address =
            addresses.next().ok_or_else(|| io::Error::other("the name has no address"))?;
        let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        // HTTP/1.0, so that the answer is not chunked and ends with the connection.
        let request = format!(
            "GET /persecond/1 HTTP/1.0\r\nHost: {}\r\nAccept: application/json\r\n\r\n",
            self.address
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(LONGEST_ANSWER).read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .ok_or_else(|| io::Error::other("the answer has no end of headers"))?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        if status != "200" {
            return Err(io::Error::other(format!("it answered with status {status}")));
        }
        Ok(body.to_owned())
    }
}

impl Source for SensorServer {
    fn run(&mut self, state: &SourceState, stop: &Stop) -> Result<(), Failure> {
        let mut before_ns = monotonic_ns();
        while !stop.after(self.interval) {
            let body = self.ask().map_err(|error| {
                let address = &self.address;
                Failure::Broken(format!(
                    "pcm-sensor-server at {address}: {error}; start it, or empty \
                     sources.pcm.sensor_server"
                ))
            })?;
            let metrics = parse_sensor_server(body.as_bytes())
                .map_err(|error| Failure::Broken(error.to_string()))?;
            let at_ns = monotonic_ns();
            state.push(at_ns, at_ns.saturating_sub(before_ns).max(1), &values(&metrics));
            before_ns = at_ns;
            state.report(report(Path::new("pcm-sensor-server"), &metrics));
        }
        Ok(())
    }
}
