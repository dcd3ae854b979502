//! What a container may send and receive, measured through a real Docker Engine on a bridge of the test's own.
#![allow(clippy::unwrap_used)]

mod bridge;
#[path = "../../inventory/tests/support/mod.rs"]
mod engine;
mod support;

use bridge::Bridge;
use crosstalk_bench::result::Recorded;
use crosstalk_bench::runtime::DockerEngine;
use crosstalk_bench::store::Outcome;
use crosstalk_host::HostRoot;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use support::{Bench, PLAIN};

const MIB: f64 = (1 << 20) as f64;
/// A limit is set a moment after the start, and what waits in buffers by then goes first.
const SETTLE: Duration = Duration::from_millis(1_500);
/// After so long nothing more comes.
const SILENCE: Duration = Duration::from_secs(2);

/// Takes one connection and does something with it over and over; answers bytes in a second once it has settled.
fn serve(
    bridge: &Bridge,
    mut step: impl FnMut(&mut TcpStream) -> std::io::Result<usize> + Send + 'static,
) -> (u16, Receiver<f64>) {
    let listener = TcpListener::bind((bridge.address.as_str(), 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, rate) = channel();
    std::thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else { return };
        // A link that is taken away says no goodbye.
        let _ = stream.set_read_timeout(Some(SILENCE));
        let _ = stream.set_write_timeout(Some(SILENCE));
        let began = Instant::now();
        let (mut bytes, mut settled, mut last) = (0, None, began);
        while let Ok(moved @ 1..) = step(&mut stream) {
            last = Instant::now();
            match settled {
                None if last >= began + SETTLE => settled = Some(last),
                None => {}
                Some(_) => bytes += moved,
            }
        }
        let since = settled.unwrap_or(last);
        let seconds = last.saturating_duration_since(since).as_secs_f64();
        let _ = sender.send(bytes as f64 / seconds.max(1e-9));
    });
    (port, rate)
}

/// MiB in a second over the container's own link, once it has settled.
fn over_its_link(recorded: &Recorded, name: &str) -> f64 {
    let mine = || recorded.usage.iter().filter(|point| point.container == name);
    let first_ns = mine().map(|point| point.at_ns).min().unwrap_or(0);
    let settled = mine().filter(|point| point.at_ns > first_ns + SETTLE.as_nanos() as u64);
    let (bytes, ns) = settled.fold((0, 0), |(bytes, ns), point| {
        (bytes + point.network_bytes.unwrap_or(0), ns + point.covers_ns)
    });
    bytes as f64 / MIB / (ns as f64 / 1e9)
}

#[test]
fn a_container_sends_and_receives_no_more_than_it_may() {
    if Command::new("dockerd").arg("--version").output().is_err() {
        return support::skip("no dockerd; apt-get install docker.io");
    }
    let bridge = match Bridge::new() {
        Ok(bridge) => bridge,
        Err(error) => return support::skip(format!("no bridge can be made: {error}")),
    };
    let (daemon, _) = engine::docker_on(&bridge.name, "talker:1");
    let mut buffer = vec![0; 1 << 16];
    let take = move |stream: &mut TcpStream| stream.read(&mut buffer);
    let (sent_to, sent) = serve(&bridge, take.clone());
    let (free_to, free) = serve(&bridge, take);
    let zeros = vec![0; 1 << 16];
    let (received_from, received) = serve(&bridge, move |stream| stream.write(&zeros));
    let address = &bridge.address;
    let sends = |port: u16| format!("sh -c 'cat /dev/zero | nc {address} {port}'");
    let receives = format!("sh -c 'nc {address} {received_from} > /dev/null'");
    let text = format!(
        "benchmark: {{name: limited, max_t: 5, {PLAIN}}}
sender: {{index: 0, image: \"talker:1\", command: {:?}, network: {{send: 1MiB}}}}
receiver: {{index: 1, image: \"talker:1\", command: {receives:?}, network: {{receive: 2MiB}}}}
free: {{index: 2, image: \"talker:1\", command: {:?}}}
",
        sends(sent_to),
        sends(free_to),
    );
    let mut bench = Bench::new();
    let socket = daemon.path("docker.sock");
    let docker = DockerEngine::connect(&HostRoot::default(), Some(&socket), None).unwrap();
    bench.options.runtimes.push(Box::new(docker));
    let (dir, record) = bench.run(&text).unwrap();
    assert_eq!(record.outcome, Some(Outcome::Completed));
    let recorded = Recorded::read(&dir, &record).unwrap();
    let heard = |rate: &Receiver<f64>| rate.recv_timeout(Duration::from_secs(10)).unwrap() / MIB;
    for (name, limit, through) in
        [("sender", 1.0, heard(&sent)), ("receiver", 2.0, heard(&received))]
    {
        let inside = over_its_link(&recorded, name);
        eprintln!(
            "{name}: {through:.2} MiB/s through it, {inside:.2} over its link, {limit} allowed"
        );
        for rate in [through, inside] {
            assert!(rate < limit * 1.15, "{name}: {rate:.2} MiB/s of {limit} allowed");
            assert!(rate > limit * 0.5, "{name}: {rate:.2} MiB/s of {limit}: does it talk at all?");
        }
    }
    let free = heard(&free);
    eprintln!("free: {free:.0} MiB/s");
    assert!(free > 6.0, "without a limit there would have been more to see: {free:.1} MiB/s");
}
