//! What a workload prints: kept up to a bound, and heard for its progress.

use crate::Error;
use crate::collectors::Meter;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A workload that prints without end fills no disk.
const LONGEST_LOG: u64 = 16 << 20;
/// A line beyond this is not heard.
const LONGEST_LINE: usize = 64 << 10;

/// Takes a workload's output.
#[derive(Debug)]
pub struct Output {
    file: Mutex<(File, u64)>,
    meter: Option<Meter>,
}

impl Output {
    /// Keeps it in a file at `path`, which is added to, and tells the meter.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn new(path: &Path, meter: Option<Meter>) -> Result<Self, Error> {
        let file =
            File::options().create(true).append(true).open(path).map_err(Error::file(path))?;
        Ok(Self { file: Mutex::new((file, 0)), meter })
    }

    /// What it says of its progress.
    pub fn meter(&self) -> Option<&Meter> {
        self.meter.as_ref()
    }

    /// Keeps some bytes as they are.
    pub fn keep(&self, bytes: &[u8]) {
        let mut locked = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, length) = &mut *locked;
        let room = LONGEST_LOG.saturating_sub(*length) as usize;
        let kept = &bytes[..bytes.len().min(room)];
        // A full disk costs the log, not the run.
        let _ = file.write_all(kept);
        *length += kept.len() as u64;
        if !kept.is_empty() && kept.len() < bytes.len() {
            let _ = file.write_all(b"\n[cut: more output than is kept]\n");
        }
    }

    /// Reads to the end, line by line.
    pub fn follow(self: &Arc<Self>, mut from: impl Read) {
        let mut ear = Ear::new(self);
        let mut buffer = [0; 8192];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            ear.hear(&buffer[..length]);
        }
    }
}

/// Takes what comes in pieces apart into lines.
#[derive(Debug)]
pub struct Ear {
    output: Arc<Output>,
    waiting: Vec<u8>,
}

impl Ear {
    /// For this output.
    pub fn new(output: &Arc<Output>) -> Self {
        Self { output: Arc::clone(output), waiting: Vec::new() }
    }

    /// Keeps some bytes that say nothing of its progress.
    pub fn keep(&self, bytes: &[u8]) {
        self.output.keep(bytes);
    }

    /// Keeps the next piece, and hears the lines that are whole with it.
    pub fn hear(&mut self, bytes: &[u8]) {
        self.output.keep(bytes);
        let Some(meter) = &self.output.meter else { return };
        self.waiting.extend(bytes);
        while let Some(end) = self.waiting.iter().position(|byte| *byte == b'\n') {
            meter.hear(&String::from_utf8_lossy(&self.waiting[..end]));
            self.waiting.drain(..=end);
        }
        if self.waiting.len() > LONGEST_LINE {
            self.waiting.clear();
        }
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        if let Some(meter) = &self.output.meter {
            meter.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collectors::Meters;
    use crate::experiment::{Experiment, Surroundings, Variables};

    #[test]
    fn lines_are_heard_however_they_are_cut_and_a_flood_is_kept_up_to_a_bound() {
        let around = Surroundings { cpus: [0].into_iter().collect(), path: vec!["/bin".into()] };
        let text = "benchmark: {name: x}\na: {index: 0, command: sh, progress: {number: done}}\n";
        let read = Experiment::parse("e.yaml", text, &Variables::default(), &around).unwrap();
        let clock = crosstalk_host::Clock::measure();
        let meter = Meters::default().meter(&read.containers[0], 0, &clock);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let output = Arc::new(Output::new(&path, meter).unwrap());
        output.follow(&b"done 1\nhello\ndo"[..]);
        assert_eq!(output.meter().unwrap().done(), Some(1.0));
        let mut ear = Ear::new(&output);
        for piece in [&b"do"[..], b"ne 2", b"5\n"] {
            ear.hear(piece);
        }
        assert_eq!(output.meter().unwrap().done(), Some(25.0));
        let flood = vec![b'x'; 1 << 20];
        (0..20).for_each(|_| ear.hear(&flood));
        let kept = std::fs::metadata(&path).unwrap().len();
        assert!(kept < LONGEST_LOG + 100, "{kept}");
    }
}
