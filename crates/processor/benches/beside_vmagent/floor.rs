//! What no processor that takes these bodies in and keeps them on disk can do without: snappy in, snappy out, and the disk.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use crosstalk_figure::process;
use crosstalk_remote_write::{Compression, Compressor, Decompressor, Limits};

/// Bodies that share one sync, as those of two senders do.
const GROUP: usize = 2;

/// Samples a second that could be if nothing else had to be done.
pub struct Floor {
    /// Of a processor: snappy decoding what comes and encoding what goes.
    pub snappy_per_cpu_second: f64,
    /// Of a processor: that, and writing what goes to a file.
    pub all_per_cpu_second: f64,
    /// Of the clock: writing what goes to a file and waiting until it is on disk.
    pub disk_per_second: f64,
}

/// `requests` as they come and `plain` as it goes, `samples` in all of them, `rounds` times.
pub fn measured(
    folder: &Path,
    requests: &[Vec<u8>],
    plain: &[Vec<u8>],
    samples: usize,
    rounds: usize,
) -> Floor {
    let samples = (samples * rounds) as f64;
    let mut decompressor = Decompressor::default();
    let mut compressor = Compressor::default();
    let mut bytes = 0;
    let before = cpu_seconds();
    for _ in 0..rounds {
        for (request, plain) in requests.iter().zip(plain) {
            let decoded =
                decompressor.decompress(Compression::Snappy, request, &Limits::default()).unwrap();
            bytes += decoded.len() + compressor.compress(Compression::Snappy, plain).len();
        }
    }
    let snappy = cpu_seconds() - before;
    assert!(std::hint::black_box(bytes) > 0);

    let packed: Vec<Vec<u8>> = plain
        .iter()
        .map(|plain| compressor.compress(Compression::Snappy, plain).to_vec())
        .collect();
    let mut file = File::create(folder.join("floor")).unwrap();
    let (before, began) = (cpu_seconds(), Instant::now());
    for _ in 0..rounds {
        for group in packed.chunks(GROUP) {
            for body in group {
                file.write_all(body).unwrap();
            }
            file.sync_data().unwrap();
        }
    }
    let (disk, waited) = (cpu_seconds() - before, began.elapsed().as_secs_f64());
    Floor {
        snappy_per_cpu_second: samples / snappy,
        all_per_cpu_second: samples / (snappy + disk),
        disk_per_second: samples / waited,
    }
}

fn cpu_seconds() -> f64 {
    process::cpu_seconds(std::process::id())
}
