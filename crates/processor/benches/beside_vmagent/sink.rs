//! The store both forward to: counts samples and answers at once, or after the time that a store far away takes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crosstalk_remote_write::{
    Compression, Decoder, Decompressor, Limits, Metadata, Protocol, Receiver, Series,
};

#[derive(Default)]
struct Total {
    samples: Mutex<u64>,
    grown: Condvar,
}

pub struct Sink {
    pub address: SocketAddr,
    total: Arc<Total>,
}

struct Count(u64);

impl<'b> Receiver<'b> for Count {
    fn series(&mut self, series: &Series<'_, 'b>) {
        assert!(series.label("workload_uid").is_some(), "the four labels are there");
        self.0 += series.samples.len() as u64;
    }
    fn metadata(&mut self, _: &Metadata<'b>) {}
}

impl Sink {
    pub fn start(delay: Duration) -> Sink {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let total = Arc::new(Total::default());
        let shared = Arc::clone(&total);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let total = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &total, delay));
            }
        });
        Sink { address, total }
    }

    pub fn wait_for(&self, samples: u64) {
        let total = self.total.samples.lock().unwrap();
        drop(self.total.grown.wait_while(total, |total| *total < samples).unwrap());
    }
}

fn serve(stream: TcpStream, total: &Total, delay: Duration) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::with_capacity(1 << 20, stream.try_clone().ok()?);
    let mut writer = stream;
    let mut decompressor = Decompressor::default();
    let mut decoder = Decoder::new(Limits::default());
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if line == "\r\n" {
                break;
            }
            if let Some(text) = line.to_lowercase().strip_prefix("content-length: ") {
                length = text.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let plain =
            decompressor.decompress(Compression::Snappy, &body, &Limits::default()).unwrap();
        let mut count = Count(0);
        decoder.decode(Protocol::V1, plain, &mut count).unwrap();
        if !delay.is_zero() {
            #[allow(clippy::disallowed_methods)] // it is the way there and back
            std::thread::sleep(delay);
        }
        *total.samples.lock().unwrap() += count.0;
        total.grown.notify_all();
        writer.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").ok()?;
    }
}
