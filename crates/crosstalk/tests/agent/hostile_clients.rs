//! Clients that are slow, many, or cut off: none harms another, or the samplers.

use crate::client::{connect, get, read};
use crate::process::{Agent, crosstalk, until};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Stdio;

const STRICT: &str =
    "[sampling]\nperiod = \"100ms\"\n[http]\nread_timeout = \"1s\"\nwrite_timeout = \"1s\"\n";

fn metric(agent: &Agent, name: &str) -> f64 {
    let text = get(agent.address, "/metrics").body;
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Waits for the server to close; what it sends before is passed over.
fn is_closed(mut stream: TcpStream) -> bool {
    let mut bytes = [0; 65_536];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn a_client_that_does_not_read_is_cut_off_and_nobody_else_waits() {
    let agent = Agent::start(STRICT);
    let mut slow = connect(agent.address);
    slow.set_nonblocking(true).unwrap();
    let request = "GET /metrics?window_seconds=20 HTTP/1.1\r\nHost: x\r\n\r\n".repeat(100);
    // Asks and asks without reading, until neither side takes any more.
    let mut full = 0;
    until(|| {
        match slow.write(request.as_bytes()) {
            Ok(_) => full = 0,
            Err(error) if error.kind() == ErrorKind::WouldBlock => full += 1,
            Err(_) => full = 100,
        }
        assert_eq!(get(agent.address, "/health").status, 200);
        full >= 3
    })
    .unwrap();
    // The one that is still open is ours, asking.
    until(|| metric(&agent, "crosstalk_agent_http_connections ") <= 1.0).unwrap();
    agent.until("window_seconds=1", |answer| answer["samples_count"].as_u64() > Some(5));
}

#[test]
fn a_thousand_connections_are_held_and_the_next_is_still_answered() {
    let agent = Agent::start("[sampling]\nperiod = \"100ms\"\n");
    let open: Vec<TcpStream> = (0..1_000).map(|_| connect(agent.address)).collect();
    assert_eq!(get(agent.address, "/health").status, 200);
    until(|| metric(&agent, "crosstalk_agent_http_connections ") >= 1_001.0).unwrap();
    agent.until("window_seconds=1", |answer| answer["samples_count"].as_u64() > Some(5));
    // Each of them is a working connection.
    for mut stream in open {
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        assert_eq!(read(&mut stream).unwrap().status, 200);
    }
}

#[test]
fn one_connection_too_many_is_told_so_and_there_is_room_again_later() {
    let agent = Agent::start("[http]\nconnections = 4\n");
    let open: Vec<TcpStream> = (0..4).map(|_| connect(agent.address)).collect();
    until(|| get(agent.address, "/metrics?window_seconds=5").status == 503).unwrap();
    // Who only looks whether it lives still finds room, however many others say nothing: they make room, and none of them
    // takes any for long.
    let silent: Vec<TcpStream> = (0..100).map(|_| connect(agent.address)).collect();
    for path in ["/health", "/healthz"] {
        assert_eq!(get(agent.address, path).status, 200);
    }
    assert_eq!(get(agent.address, "/metrics?window_seconds=5").status, 503);
    assert!(silent.into_iter().all(is_closed));
    until(|| get(agent.address, "/readyz").json()["sources"].is_array()).unwrap();
    // Also one that asks before it listens gets the whole answer, not a reset.
    for _ in 0..20 {
        let refused = get(agent.address, "/metrics?window_seconds=5");
        assert_eq!(refused.status, 503);
        let length = format!("content-length: {}\r\n", refused.body.len());
        assert!(refused.head.contains(&length), "{}", refused.head);
        assert_eq!(refused.json()["status"], 503);
    }
    drop(open);
    until(|| {
        let mut stream = connect(agent.address);
        let asked = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(asked).is_ok() && read(&mut stream).is_some_and(|r| r.status == 200)
    })
    .unwrap();
    assert!(metric(&agent, "crosstalk_agent_http_connections_refused_total") >= 1.0);
}

#[test]
fn requests_cut_anywhere_are_forgotten() {
    let agent = Agent::start(STRICT);
    let request = b"GET /metrics?window_seconds=20 HTTP/1.1\r\nHost: x\r\n\r\n";
    for cut in 0..request.len() {
        let mut stream = connect(agent.address);
        stream.write_all(&request[..cut]).unwrap();
        // Half are closed, half are left hanging for the server to end.
        if cut % 2 == 0 {
            stream.shutdown(Shutdown::Both).unwrap();
        } else {
            std::mem::forget(stream);
        }
    }
    let hanging = connect(agent.address);
    (&hanging).write_all(&request[..10]).unwrap();
    assert!(is_closed(hanging));
    for nonsense in
        [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"HELLO\r\n\r\n", b"GET / HTTP/9\r\n\r\n"]
    {
        let mut stream = connect(agent.address);
        stream.write_all(nonsense).unwrap();
        assert!(is_closed(stream));
    }
    let mut long = connect(agent.address);
    let _ = long.write_all(format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000)).as_bytes());
    assert!(is_closed(long));
    assert_eq!(get(agent.address, "/health").status, 200);
    until(|| metric(&agent, "crosstalk_agent_http_connections ") <= 1.0).unwrap();
}

#[test]
fn a_reader_of_its_output_that_leaves_does_not_end_it() {
    // Neither pipe has a reader once the agent runs; a source that fails has something to say.
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent.toml");
    let config = "listen = \"127.0.0.1:0\"\n[sampling]\nperiod = \"100ms\"\n\
                  [sources.pcm]\nmode = \"on\"\ncommand = \"/nowhere/pcm\"\n";
    std::fs::write(&file, config).unwrap();
    let mut child = crosstalk()
        .arg("--config")
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit("http://").next().unwrap().parse().unwrap();
    until(|| get(address, "/metrics?window_seconds=5").body.contains("\"failing\"")).unwrap();
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
}
