//! A bar on a terminal while recordings are read.

use crate::quantity::{size, thousands};
use crosstalk_analysis::Read;
use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(200);
const WIDTH: usize = 30;

/// A bar on a terminal that says how far reading has come.
pub(crate) struct Bar {
    live: bool,
    began: Instant,
    shown: Option<Instant>,
}

impl Bar {
    pub(crate) fn new() -> Self {
        Self { live: stderr().is_terminal(), began: Instant::now(), shown: None }
    }

    pub(crate) fn show(&mut self, read: Read) {
        let last = self.shown.unwrap_or(self.began);
        if self.live && last.elapsed() >= EVERY {
            self.shown = Some(Instant::now());
            let _ = write!(stderr(), "\r\x1b[K{}", line(read, self.began.elapsed()));
        }
    }

    pub(crate) fn clear(&self) {
        if self.shown.is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

fn line(read: Read, elapsed: Duration) -> String {
    let share = read.bytes as f64 / read.total_bytes.max(1) as f64;
    let full = (share * WIDTH as f64) as usize;
    let left = elapsed.as_secs_f64() * (1.0 / share.max(1e-3) - 1.0);
    format!(
        "[{}{}] {:3.0} % of {}, {} rows, {:.0} s left",
        "#".repeat(full.min(WIDTH)),
        ".".repeat(WIDTH - full.min(WIDTH)),
        share * 100.0,
        size(read.total_bytes),
        thousands(read.rows),
        left
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_full_as_what_was_read() {
        let read = Read { rows: 1_234, bytes: 50, total_bytes: 100 };
        let shown = line(read, Duration::from_secs(3));
        assert!(shown.starts_with(&format!(
            "[{}{}]  50 % of 100 B",
            "#".repeat(15),
            ".".repeat(15)
        )));
        assert!(shown.ends_with("1,234 rows, 3 s left"), "{shown}");
    }
}
