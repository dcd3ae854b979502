//! Asks workloads for a number.

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::Uri;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::io;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// More than a page of metrics has.
const LONGEST: usize = 16 << 20;

/// Asks one address after the other.
pub(super) struct Http {
    client: Client<HttpConnector, Empty<Bytes>>,
    runtime: Runtime,
}

impl Http {
    pub(super) fn new() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        // Between questions nobody would see that the other end hung up.
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http();
        Ok(Self { client, runtime })
    }

    /// The body at an `http://` address; `None` when there is none in time.
    pub(super) fn get(&self, url: &str, patience: Duration) -> Option<String> {
        let uri: Uri = url.parse().ok()?;
        let asking = async {
            let answer = self.client.get(uri).await.ok()?;
            if !answer.status().is_success() {
                return None;
            }
            let body = Limited::new(answer.into_body(), LONGEST).collect().await.ok()?;
            String::from_utf8(body.to_bytes().into()).ok()
        };
        self.runtime.block_on(async { timeout(patience, asking).await }).ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    const PATIENCE: Duration = Duration::from_secs(10);

    /// Answers so many questions in turn, then hangs up.
    fn server(at: &str, answers: &'static [&'static str]) -> (String, impl FnOnce()) {
        let listener = TcpListener::bind(at).unwrap();
        let url = format!("http://{}/done?x=1", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 1024]);
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        (url, || server.join().unwrap())
    }

    #[test]
    fn a_body_is_taken_only_from_an_answer_that_is_one() {
        let (url, end) = server(
            "127.0.0.1:0",
            &["HTTP/1.1 200 OK\r\nX: y\r\n\r\n42\n", "HTTP/1.1 500 No\r\n\r\n7"],
        );
        let http = Http::new().unwrap();
        assert_eq!(http.get(&url, PATIENCE).as_deref(), Some("42\n"));
        assert_eq!(http.get(&url, PATIENCE), None);
        end();
        assert_eq!(http.get(&url, PATIENCE), None, "nobody listens");
        assert_eq!(http.get("no address", PATIENCE), None);
    }

    #[test]
    fn an_answer_in_chunks_is_whole_also_from_an_address_of_version_six() {
        const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n4.2\r\n2\r\n5\n\r\n0\r\n\r\n";
        let at = if TcpListener::bind("[::1]:0").is_ok() { "[::1]:0" } else { "127.0.0.1:0" };
        let (url, end) = server(at, &[CHUNKED]);
        assert_eq!(Http::new().unwrap().get(&url, PATIENCE).as_deref(), Some("4.25\n"));
        end();
    }
}
