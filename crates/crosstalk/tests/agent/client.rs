//! As small an HTTP client as will do.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

pub(crate) fn get(address: SocketAddr, target: &str) -> Response {
    get_as(address, target, "*/*")
}

pub(crate) fn get_as(address: SocketAddr, target: &str, accept: &str) -> Response {
    let mut stream = connect(address);
    let request = format!(
        "GET {target} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    let outcome = stream.read_to_end(&mut bytes);
    parse(&bytes)
        .unwrap_or_else(|| panic!("{target}: no answer: {outcome:?}, {} bytes", bytes.len()))
}

/// What comes until the server closes; `None` if that is no answer.
pub(crate) fn read(stream: &mut TcpStream) -> Option<Response> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Option<Response> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Response { status, head: head.to_lowercase(), body: body.to_owned() })
}
