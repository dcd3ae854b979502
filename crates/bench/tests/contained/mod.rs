//! Experiments in containers of an engine that a test has started.
#![allow(dead_code, clippy::unwrap_used, unreachable_pub)]

use crate::engine::{self, Daemon};
use crate::support::{Bench, skip};
use crosstalk_bench::runtime::DockerEngine;
use crosstalk_host::HostRoot;
use std::process::Command;
use std::time::{Duration, Instant};

/// Whether there is an engine to start; says so where there is none.
pub fn has_engine() -> bool {
    let found = Command::new("dockerd").arg("--version").output().is_ok();
    if !found {
        skip("no dockerd; apt-get install docker.io");
    }
    found
}

pub fn connect(daemon: &Daemon) -> DockerEngine {
    let socket = daemon.path("docker.sock");
    DockerEngine::connect(&HostRoot::default(), Some(&socket), None).unwrap()
}

/// No bridge is set up in the test's engine.
pub fn bench(daemon: &Daemon) -> Bench {
    let mut bench = Bench::new();
    bench.options.runtimes.push(Box::new(connect(daemon)));
    bench
}

pub fn names(host: &str) -> String {
    engine::run("docker", &["-H", host, "ps", "-a", "--format", "{{.Names}} {{.Status}}"]).unwrap()
}

/// Waits until the container of this name runs; what the engine calls it.
pub fn running(host: &str, name: &str) -> String {
    let ending = format!("-{name} Up");
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        let names = names(host);
        let found = names.lines().find(|line| line.contains(&ending));
        if let Some(found) = found.and_then(|line| line.split(' ').next()) {
            return found.to_owned();
        }
        engine::pace(Duration::from_millis(20));
    }
    panic!("{name} never ran");
}
