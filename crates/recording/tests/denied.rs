//! Keys that may write and read objects and not list them: such a store denies what is not there.
#![allow(clippy::unwrap_used)]
#![allow(unsafe_code)] // the environment is where keys come from

use crosstalk_recording::{UploadOptions, upload};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

/// Answers one request of a store that has these objects, by their lengths.
fn answer(mut stream: TcpStream, objects: &mut HashMap<String, usize>) {
    let mut input = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    input.read_line(&mut line).unwrap();
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let [method, path, _] = &words[..] else { return };
    let mut length = 0;
    loop {
        line.clear();
        input.read_line(&mut line).unwrap();
        let Some((name, value)) = line.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap();
        }
    }
    input.read_exact(&mut vec![0; length]).unwrap();
    if method == "PUT" {
        objects.insert(path.clone(), length);
    }
    let about = "ETag: \"e\"\r\nLast-Modified: Sun, 15 Nov 2026 22:05:00 GMT\r\nConnection: close";
    let (status, length) = match (method.as_str(), objects.get(path)) {
        ("PUT", _) => ("200 OK", 0),
        ("HEAD", Some(length)) => ("200 OK", *length),
        _ => ("403 Forbidden", 0),
    };
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{about}\r\n\r\n").unwrap();
}

#[test]
fn what_a_store_does_not_tell_these_keys_is_sent() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", server.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut objects = HashMap::new();
        server.incoming().flatten().for_each(|stream| answer(stream, &mut objects));
    });
    for (name, value) in [
        ("AWS_ENDPOINT_URL", address.as_str()),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", "k"),
        ("AWS_SECRET_ACCESS_KEY", "s"),
        ("AWS_REGION", "us-east-1"),
    ] {
        // SAFETY: this is the only test of its program, and no other thread reads the environment.
        unsafe { std::env::set_var(name, value) };
    }
    let spool = tempfile::tempdir().unwrap();
    let folder = spool.path().join("slots/node=a/run=r");
    std::fs::create_dir_all(&folder).unwrap();
    // It was there at the start, so it may have been sent before.
    std::fs::write(folder.join("slots-20261115T220500.000Z.parquet"), "0123456789").unwrap();
    let options = UploadOptions {
        url: "s3://cluster/rec".to_owned(),
        spool: spool.path().to_owned(),
        most_bytes: u64::MAX,
        on_error: |_| {},
    };
    let sent = upload(options).unwrap();
    assert_eq!((sent.files, sent.bytes, sent.left, sent.error), (1, 10, 0, None));
}
