//! The smallest client that can ask a workload on this machine for a number.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// More than a page of metrics has.
const LONGEST: u64 = 1 << 20;

/// The body at an `http://` address; `None` when there is none in time.
pub(super) fn get(url: &str, patience: Duration) -> Option<String> {
    let rest = url.strip_prefix("http://")?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let address = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    let address = address.to_socket_addrs().ok()?.next()?;
    let mut stream = TcpStream::connect_timeout(&address, patience).ok()?;
    stream.set_read_timeout(Some(patience)).ok()?;
    stream.set_write_timeout(Some(patience)).ok()?;
    // 1.0, so that the answer ends with the connection and comes in one piece.
    // In one piece: a server may answer, and hang up, after the first it gets.
    let request = format!("GET /{path} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.take(LONGEST).read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?;
    status.starts_with('2').then(|| body.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_body_is_taken_only_from_an_answer_that_is_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            for answer in ["HTTP/1.1 200 OK\r\nX: y\r\n\r\n42\n", "HTTP/1.1 500 No\r\n\r\n7"] {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 1024]);
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let patience = Duration::from_secs(10);
        let url = format!("http://{address}/done");
        assert_eq!(get(&url, patience).as_deref(), Some("42\n"));
        assert_eq!(get(&url, patience), None);
        server.join().unwrap();
        assert_eq!(get(&url, patience), None, "nobody listens");
    }
}
