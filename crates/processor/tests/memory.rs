//! Memory is bounded by what is decoded, whoever leaves in the middle.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use crosstalk_processor::config::{Endpoint, Missing};
use crosstalk_remote_write::{Compression, Compressor};
use support::process::ProcessorProcess;
use support::sink::Sink;
use support::write::{SNAPPY, body, try_write};
use support::{Service, eventually, http, pace};

const UP: &[(&str, &str)] = &[("__name__", "up"), ("namespace", "ml"), ("pod", "train-0")];

/// A field of the process's status, in bytes.
fn status(id: u32, field: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn head(encoding: &str, length: usize) -> String {
    head_of("/prometheus", "application/x-protobuf", encoding, length)
}

fn head_of(path: &str, kind: &str, encoding: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\n\
         Content-Encoding: {encoding}\r\nContent-Length: {length}\r\n\r\n"
    )
}

#[test]
fn bodies_that_grow_when_decoded_take_no_more_than_their_share_though_their_senders_leave() {
    let folder = tempfile::tempdir().unwrap();
    let sink = Sink::start();
    let processor = ProcessorProcess::start(folder.path(), &sink.url(), "");
    // 60 MiB of a field that nobody knows, in a few kilobytes.
    let mut plain = vec![0x7a];
    let length = 60 << 20;
    plain.extend([0x80 | length as u8 & 0x7f, 0x80 | (length >> 7) as u8 & 0x7f]);
    plain.extend([0x80 | (length >> 14) as u8 & 0x7f, (length >> 21) as u8]);
    plain.resize(5 + length, 0);
    let bomb = Compressor::default().compress(Compression::Zstd, &plain).to_vec();
    assert!(bomb.len() < 20_000);
    drop(plain);
    for _ in 0..300 {
        let mut stream = TcpStream::connect(processor.address).unwrap();
        stream.write_all(head("zstd", bomb.len()).as_bytes()).unwrap();
        stream.write_all(&bomb).unwrap();
    }
    // Whoever waits for an answer now waits behind all of them.
    eventually("an answer", || {
        try_write(processor.address, &[(UP, &[(1.0, 1)])]).filter(|answer| answer.status == 204)
    });
    let peak = status(processor.id(), "VmHWM:");
    // Three decoded bodies at once, and what the process has anyway; all at once would be 18 GB.
    assert!(peak < 600 << 20, "{} MiB", peak >> 20);
    sink.wait_for(1);
}

#[test]
fn logs_that_grow_when_decoded_take_no_more_than_their_share_though_their_senders_leave() {
    let folder = tempfile::tempdir().unwrap();
    let sink = Sink::start();
    let processor = ProcessorProcess::start(folder.path(), &sink.url(), "");
    // 30 MiB of blank lines in some thirty kilobytes.
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&vec![b'\n'; 30 << 20]).unwrap();
    let gzip = encoder.finish().unwrap();
    let zstd = Compressor::default().compress(Compression::Zstd, &vec![b'\n'; 30 << 20]).to_vec();
    let path = "/logs?workload=w&namespace=ml";
    for number in 0..60 {
        let (encoding, bomb) = if number % 2 == 0 { ("gzip", &gzip) } else { ("zstd", &zstd) };
        let mut stream = TcpStream::connect(processor.address).unwrap();
        stream.write_all(head_of(path, "text/plain", encoding, bomb.len()).as_bytes()).unwrap();
        stream.write_all(bomb).unwrap();
    }
    let line = b"step: 1 loss: 2.5";
    eventually("an answer", || {
        let headers = [("Content-Type", "text/plain")];
        let answer = http::send(processor.address, "POST", path, &headers, line);
        (answer.status == 200).then_some(())
    });
    let peak = status(processor.id(), "VmHWM:");
    // Four decoded bodies at once, one of them being copied; all at once would be 1.8 GB.
    assert!(peak < 400 << 20, "{} MiB", peak >> 20);
}

#[test]
fn a_thousand_senders_that_leave_in_the_middle_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let sink = Sink::start();
    let processor = ProcessorProcess::start(folder.path(), &sink.url(), "");
    let whole = body(&[(UP, &[(1.0, 1)])]);
    let leave = |times: usize| {
        for number in 0..times {
            let mut stream = TcpStream::connect(processor.address).unwrap();
            let declared = if number % 2 == 0 { 1 << 20 } else { whole.len() };
            // Half of them leave within the body, half after it and before the answer.
            stream.write_all(head("snappy", declared).as_bytes()).unwrap();
            stream.write_all(if number % 2 == 0 { &whole[..5] } else { &whole }).unwrap();
        }
        eventually("every connection is over", || {
            let page = http::get(processor.address, "/metrics").text();
            let open =
                page.lines().find(|line| line.starts_with("crosstalk_processor_http_connections "));
            let open: f64 =
                open.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap());
            (open <= 1.0).then_some(())
        });
        status(processor.id(), "VmRSS:")
    };
    let warm = leave(200);
    let after = leave(1000);
    assert!(after < warm + (16 << 20), "{} MiB, then {} MiB", warm >> 20, after >> 20);
    let answer = http::send(processor.address, "POST", "/prometheus", &SNAPPY, &whole);
    assert_eq!(answer.status, 204);
}

#[test]
fn whoever_leaves_gives_its_place_among_the_requests_back_once_its_body_is_worked_up() {
    let sink = Sink::start();
    let service = Service::start(|config| {
        config.listener.requests = 1;
        config.enrichment.missing = Missing::Pass;
        config.endpoints = vec![Endpoint::new("store", sink.url())];
    });
    let numbers: Vec<String> = (0..200_000).map(|number| number.to_string()).collect();
    let labels: Vec<Vec<(&str, &str)>> = numbers
        .iter()
        .map(|n| ["__name__", "a", "b", "c", "d", "e", "f", "n"].map(|name| (name, &**n)).to_vec())
        .collect();
    let series: Vec<_> = labels.iter().map(|labels| (&labels[..], &[(1.0, 1)][..])).collect();
    let large = body(&series);
    let mut stream = TcpStream::connect(service.address).unwrap();
    stream.write_all(head("snappy", large.len()).as_bytes()).unwrap();
    stream.write_all(&large).unwrap();
    // Who leaves in the very moment in which its body is there begins nothing.
    pace(Duration::from_millis(300));
    drop(stream);
    eventually("it has come and left", || {
        (service.metric("crosstalk_processor_http_connections ") <= 1.0).then_some(())
    });
    let small = body(&[(UP, &[(1.0, 1)])]);
    let status = || http::send(service.address, "POST", "/prometheus", &SNAPPY, &small).status;
    assert_eq!(status(), 429, "its body is still in work");
    eventually("room again", || (status() == 204).then_some(()));
}
