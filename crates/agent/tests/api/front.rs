//! What stands between an agent and the API and does to both what a network, a rival and time do: whoever answers behind it
//! answers by itself.

use super::{Api, Whose};
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

#[derive(Default)]
struct State {
    /// How many of the next reports somebody else comes before.
    rivals: u32,
    /// Whether watches are to begin at a version that is long gone, until there is a new list.
    too_old: bool,
    /// Watches that go on.
    watches: Vec<TcpStream>,
    /// What was asked, and the code it was answered with.
    asked: Vec<(String, u16)>,
}

#[derive(Clone)]
pub(crate) struct Front {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Front {
    pub(crate) fn start(api: &Arc<Api>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let front = Self { address: listener.local_addr().unwrap(), state: Arc::default() };
        let (own, api) = (front.clone(), Arc::downgrade(api));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Who asks after the test gets no answer.
                let Some(api) = api.upgrade() else { return };
                let front = own.clone();
                thread::spawn(move || {
                    let asked = front.ask(&stream, &api);
                    // An answer may take as long as a watch; the test is over when it likes.
                    drop(api);
                    let (line, server) = asked?;
                    front.answer(line, server, stream)
                });
            }
        });
        front
    }

    /// Lets somebody else change the object just before each of the next reports.
    pub(crate) fn let_others_come_first(&self, times: u32) {
        self.state.lock().unwrap().rivals = times;
    }

    /// Breaks every watch off.
    pub(crate) fn drop_watches(&self) {
        for watch in self.state.lock().unwrap().watches.drain(..) {
            let _ = watch.shutdown(Shutdown::Both);
        }
    }

    /// Lets so much time pass that the version which a watch goes on from is gone.
    pub(crate) fn forget_versions(&self) {
        self.state.lock().unwrap().too_old = true;
        self.drop_watches();
    }

    /// How often this was asked and answered with this code.
    pub(crate) fn count(&self, what: What, code: u16) -> usize {
        let state = self.state.lock().unwrap();
        let asked = state.asked.iter().filter(|(line, answer)| *answer == code && what.is(line));
        asked.count()
    }

    /// Hands a request on: its first line, and where the answer comes from.
    fn ask(&self, client: &TcpStream, api: &Api) -> Option<(String, TcpStream)> {
        let (line, headers, body) = read(client)?;
        let mut asked = line.clone();
        if What::Report.is(&line) && self.has_rival() {
            let left = self.state.lock().unwrap().rivals;
            api.patch("", &json!({"metadata": {"labels": {"rival": left.to_string()}}}));
        }
        if What::List.is(&line) {
            self.state.lock().unwrap().too_old = false;
        }
        if What::Watch.is(&line) && self.state.lock().unwrap().too_old {
            asked = at_first_version(&line);
        }
        let mut server = TcpStream::connect(api.address).ok()?;
        write!(server, "{asked}\r\nConnection: close\r\n").ok()?;
        // Whoever answers for a cluster says by itself who asks.
        let knows = matches!(api.whose, Whose::Cluster(_));
        let is_kept = |name: &str| name != "connection" && !(knows && name == "authorization");
        for header in headers.iter().filter(|h| is_kept(&name(h))) {
            write!(server, "{header}\r\n").ok()?;
        }
        server.write_all(b"\r\n").ok()?;
        server.write_all(&body).ok()?;
        Some((line, server))
    }

    fn has_rival(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        let had = state.rivals > 0;
        state.rivals = state.rivals.saturating_sub(1);
        had
    }

    /// Hands an answer on as it comes.
    fn answer(&self, line: String, server: TcpStream, mut client: TcpStream) -> Option<()> {
        let mut server = BufReader::new(server);
        let mut status = String::new();
        server.read_line(&mut status).ok()?;
        let code = status.split(' ').nth(1)?.parse().ok()?;
        {
            let mut state = self.state.lock().unwrap();
            if What::Watch.is(&line) {
                state.watches.push(client.try_clone().ok()?);
            }
            state.asked.push((line, code));
        }
        client.write_all(status.as_bytes()).ok()?;
        std::io::copy(&mut server, &mut client).ok()?;
        client.shutdown(Shutdown::Both).ok()
    }
}

/// What an agent asks for.
#[derive(Clone, Copy)]
pub(crate) enum What {
    List,
    Watch,
    Report,
}

impl What {
    fn is(self, line: &str) -> bool {
        let is_watch = line.contains("watch=true");
        match self {
            Self::List => line.contains("limit=") && !line.contains("continue=") && !is_watch,
            Self::Watch => is_watch,
            Self::Report => line.starts_with("PUT ") && line.contains("/status"),
        }
    }
}

/// A request: its first line, its headers and its body.
fn read(client: &TcpStream) -> Option<(String, Vec<String>, Vec<u8>)> {
    let mut reader = BufReader::new(client);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let length = lines.iter().find(|line| name(line) == "content-length");
    let length = length.and_then(|line| line.split_once(':')?.1.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let first = lines.remove(0);
    Some((first, lines, body))
}

fn name(header: &str) -> String {
    header.split(':').next().unwrap_or_default().to_lowercase()
}

/// The same watch, from the first version there ever was.
fn at_first_version(line: &str) -> String {
    let (before, after) = line.split_once("resourceVersion=").unwrap();
    let rest = after.find(['&', ' ']).map_or("", |at| &after[at..]);
    format!("{before}resourceVersion=1{rest}")
}
