//! A store that writes down what it gets and answers as it is told.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crosstalk_remote_write::{
    Compression, Decoder, Decompressor, Limits, Metadata, Protocol, Receiver, Series, body_format,
};

/// A series as it arrived: its labels as text, value bits and timestamps.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrived {
    pub labels: String,
    pub samples: Vec<(u64, i64)>,
    pub start_timestamps: Vec<i64>,
    pub histograms: Vec<Vec<u8>>,
    pub exemplars: usize,
    pub help: String,
}

#[derive(Debug, Default)]
pub struct Record {
    pub series: Vec<Arrived>,
    pub families: Vec<String>,
    /// Method, path and headers of every request.
    pub requests: Vec<String>,
    pub bodies: usize,
}

impl<'b> Receiver<'b> for Record {
    fn series(&mut self, series: &Series<'_, 'b>) {
        let labels = series.labels.iter().map(|label| format!("{}={} ", label.name, label.value));
        self.series.push(Arrived {
            labels: labels.collect(),
            samples: series.samples.iter().map(|s| (s.value.to_bits(), s.timestamp)).collect(),
            start_timestamps: series.samples.iter().map(|s| s.start_timestamp).collect(),
            histograms: series.histograms.iter().map(|h| h.message.to_vec()).collect(),
            exemplars: series.exemplars().len(),
            help: series.metadata.help.to_owned(),
        });
    }
    fn metadata(&mut self, metadata: &Metadata<'b>) {
        self.families.push(metadata.family.to_owned());
    }
}

/// How the next request is answered: status line and headers. 204 when nothing is told.
#[derive(Debug, Default)]
struct Shared {
    record: Mutex<Record>,
    answers: Mutex<VecDeque<String>>,
    always: Mutex<Option<String>>,
    /// Bodies with a series whose labels have this are answered 503.
    away_for: Mutex<Option<String>>,
    /// How long an answer takes; requests in work now, and the most there were.
    delay: Mutex<std::time::Duration>,
    in_work: Mutex<(usize, usize)>,
}

#[derive(Clone)]
pub struct Sink {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

impl Sink {
    pub fn start() -> Sink {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let for_thread = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&for_thread);
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Sink { address, shared }
    }

    pub fn url(&self) -> String {
        format!("http://{}/api/v1/write", self.address)
    }

    /// Answers the next request so, for example `503 Busy\r\nRetry-After: 1`.
    pub fn answer_next(&self, status: &str) {
        self.shared.answers.lock().unwrap().push_back(status.to_owned());
    }

    /// Answers every request so until told otherwise.
    pub fn answer_always(&self, status: Option<&str>) {
        *self.shared.always.lock().unwrap() = status.map(str::to_owned);
    }

    /// Answers bodies 503 that hold a series with these words in its labels.
    pub fn be_away_for(&self, words: Option<&str>) {
        *self.shared.away_for.lock().unwrap() = words.map(str::to_owned);
    }

    /// Lets every answer take so long.
    pub fn slow_down(&self, delay: std::time::Duration) {
        *self.shared.delay.lock().unwrap() = delay;
    }

    /// The most requests that were in work at once.
    pub fn most_in_work(&self) -> usize {
        self.shared.in_work.lock().unwrap().1
    }

    pub fn series(&self) -> Vec<Arrived> {
        self.shared.record.lock().unwrap().series.clone()
    }

    pub fn requests(&self) -> Vec<String> {
        self.shared.record.lock().unwrap().requests.clone()
    }

    pub fn families(&self) -> Vec<String> {
        self.shared.record.lock().unwrap().families.clone()
    }

    /// Waits until `count` series were taken.
    pub fn wait_for(&self, count: usize) -> Vec<Arrived> {
        super::eventually(&format!("{count} series at the store"), || {
            Some(self.series()).filter(|series| series.len() >= count)
        })
    }
}

fn serve(stream: TcpStream, shared: &Shared) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream;
    loop {
        let mut head = String::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if line == "\r\n" {
                break;
            }
            head.push_str(&line.to_lowercase());
        }
        let header = |name: &str| {
            let line = head.lines().find(|line| line.starts_with(&format!("{name}: ")))?;
            Some(line.split_once(": ")?.1.to_owned())
        };
        let mut body = vec![0; header("content-length")?.parse().ok()?];
        reader.read_exact(&mut body).ok()?;
        let delay = *shared.delay.lock().unwrap();
        if !delay.is_zero() {
            let mut in_work = shared.in_work.lock().unwrap();
            in_work.0 += 1;
            in_work.1 = in_work.1.max(in_work.0);
            drop(in_work);
            super::pace(delay);
            shared.in_work.lock().unwrap().0 -= 1;
        }
        let told = shared.answers.lock().unwrap().pop_front();
        let told = told.or_else(|| shared.always.lock().unwrap().clone());
        let mut status = told.unwrap_or_else(|| "204 No Content".to_owned());
        let taken = status.starts_with('2').then(|| read(&head, &body));
        let mut record = shared.record.lock().unwrap();
        record.requests.push(head.clone());
        if let Some(taken) = taken {
            let away_for = shared.away_for.lock().unwrap().clone();
            let is_away = |series: &Arrived| {
                away_for.as_ref().is_some_and(|words| series.labels.contains(words.as_str()))
            };
            if taken.series.iter().any(is_away) {
                status = "503 Away".to_owned();
            } else {
                record.series.extend(taken.series);
                record.families.extend(taken.families);
                record.bodies += 1;
            }
        }
        drop(record);
        write!(writer, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").ok()?;
    }
}

/// What a body holds.
fn read(head: &str, body: &[u8]) -> Record {
    let header = |name: &str| {
        let line = head.lines().find(|line| line.starts_with(&format!("{name}: ")))?;
        Some(line.split_once(": ")?.1.to_owned())
    };
    // Content types are compared in lower case here; the protocol's name is not.
    let v2 = header("content-type").is_some_and(|text| text.contains("write.v2.request"));
    let protocol = if v2 { Protocol::V2 } else { Protocol::V1 };
    assert!(body_format(None, header("content-encoding").as_deref()).is_ok());
    let mut decompressor = Decompressor::default();
    let plain = decompressor
        .decompress(Compression::Snappy, body, &Limits::default())
        .expect("a snappy body");
    let mut record = Record::default();
    let outcome =
        Decoder::new(Limits::default()).decode(protocol, plain, &mut record).expect("a valid body");
    assert_eq!(outcome.rejected, 0, "{:?}", outcome.examples);
    record
}
