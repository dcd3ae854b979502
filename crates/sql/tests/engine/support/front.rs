//! A server in front of another one, which remembers what was asked for and denies some of it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The object that is denied, by a part of its name; from which request for it on; and with which status.
#[derive(Clone)]
pub(crate) struct Denied {
    pub(crate) object: String,
    pub(crate) after: usize,
    pub(crate) status: &'static str,
}

/// Instead of a status: from then on nobody answers at all.
pub(crate) const GONE: &str = "gone";

pub(crate) struct Front {
    pub(crate) address: String,
    asked: Arc<Mutex<Vec<String>>>,
    bytes: Arc<AtomicU64>,
}

impl Front {
    /// Ends with the program: a test's threads do.
    pub(crate) fn of(behind: &str, denied: Option<Denied>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let behind = behind.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let bytes = Arc::new(AtomicU64::new(0));
        let (known, sent) = (asked.clone(), bytes.clone());
        let gone = Arc::new(AtomicBool::new(false));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if gone.load(Ordering::SeqCst) {
                    break;
                }
                let (behind, denied, known) = (behind.clone(), denied.clone(), known.clone());
                let (gone, sent) = (gone.clone(), sent.clone());
                std::thread::spawn(move || {
                    let whole = answer(client, &behind, denied.as_ref(), &known, &gone);
                    sent.fetch_add(whole.unwrap_or(0), Ordering::SeqCst);
                });
            }
        });
        Self { address, asked, bytes }
    }

    /// Bytes that were answered with since this was asked last, heads and listings among them.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.swap(0, Ordering::SeqCst)
    }

    /// Names of objects that were read since this was asked last, one for each request.
    pub(crate) fn read(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

/// One request of a connection, which is then closed. Answers how many bytes the server behind said.
fn answer(
    mut client: TcpStream,
    behind: &str,
    denied: Option<&Denied>,
    asked: &Mutex<Vec<String>>,
    gone: &AtomicBool,
) -> Option<u64> {
    let mut head = String::new();
    let mut reader = BufReader::new(client.try_clone().ok()?);
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let name = head.strip_prefix("GET ").and_then(|rest| rest.split(' ').next());
    if let Some(name) = name.filter(|name| !name.contains('?')) {
        let name = name.replace("%3D", "=");
        let mut asked = asked.lock().unwrap();
        asked.push(name.clone());
        if let Some(denied) = denied {
            let times = asked.iter().filter(|name| name.contains(&denied.object)).count();
            if name.contains(&denied.object) && times > denied.after {
                if denied.status == GONE {
                    gone.store(true, Ordering::SeqCst);
                    return None;
                }
                let text = "<Error><Code>No</Code><Message>not for you</Message></Error>";
                let (status, length) = (denied.status, text.len());
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
                );
                client.write_all(answer.as_bytes()).ok()?;
                return None;
            }
        }
    }
    let mut server = TcpStream::connect(behind).ok()?;
    let head = head.replacen("\r\n", "\r\nConnection: close\r\n", 1);
    server.write_all(head.as_bytes()).ok()?;
    let mut whole = Vec::new();
    server.read_to_end(&mut whole).ok()?;
    client.write_all(&whole).ok()?;
    Some(whole.len() as u64)
}
