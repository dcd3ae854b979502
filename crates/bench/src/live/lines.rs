//! A line for each event.

use super::{Live, Status, line_of};
use crate::store::Event;
use std::io::Write;

/// Writes a line for each event; a reader that is gone is no reason to stop.
pub struct Lines<W: Write> {
    out: W,
    /// Whether what is not measured is told one by one.
    is_wordy: bool,
}

impl<W: Write> Lines<W> {
    /// To `out`.
    pub const fn new(out: W, is_wordy: bool) -> Self {
        Self { out, is_wordy }
    }
}

impl<W: Write> Live for Lines<W> {
    fn say(&mut self, lines: &[String]) {
        for line in lines {
            let _ = writeln!(self.out, "crosstalk: {line}");
        }
    }

    fn absent(&mut self, absent: &[(String, String)]) {
        if self.is_wordy {
            for (what, why) in absent {
                let _ = writeln!(self.out, "crosstalk: no {what}: {why}");
            }
        } else if !absent.is_empty() {
            let names: Vec<&str> = absent.iter().map(|(what, _)| what.as_str()).collect();
            let names = names.join(", ");
            let _ =
                writeln!(self.out, "crosstalk: not measured here: {names}; see crosstalk doctor");
        }
    }

    fn event(&mut self, event: &Event) {
        if let Some(line) = line_of(event) {
            let _ = writeln!(self.out, "{line}");
        }
    }

    fn draw(&mut self, _: &Status) {}

    fn over(&mut self) {
        let _ = self.out.flush();
    }
}
