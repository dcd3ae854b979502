//! The timeline: one row a container, redrawn in place.

use super::{Lines, Live, Shown, State, Status};
use crate::plan::RoundKind;
use crate::store::Event;
use std::io::Write;
use std::time::Duration;

/// Columns of the bar.
const WIDTH: usize = 40;

/// Draws on a terminal.
pub struct TerminalTimeline<W: Write> {
    lines: Lines<W>,
    out: W,
    /// Rows that stand below the cursor's line and are drawn over next.
    drawn: usize,
}

impl<W: Write> TerminalTimeline<W> {
    /// Draws on `out`, on which `lines` writes too.
    pub const fn new(out: W, lines: Lines<W>) -> Self {
        Self { lines, out, drawn: 0 }
    }

    /// Takes the timeline away, so that a line can be written where it stood.
    fn wipe(&mut self) {
        if self.drawn > 0 {
            let _ = write!(self.out, "\x1b[{}A\x1b[J", self.drawn);
            self.drawn = 0;
        }
    }
}

impl<W: Write> Live for TerminalTimeline<W> {
    fn say(&mut self, lines: &[String]) {
        self.lines.say(lines);
    }

    fn absent(&mut self, absent: &[(String, String)]) {
        self.lines.absent(absent);
    }

    fn event(&mut self, event: &Event) {
        self.wipe();
        self.lines.event(event);
    }

    fn draw(&mut self, status: &Status) {
        self.wipe();
        let text = render(status);
        self.drawn = text.lines().count();
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }

    fn over(&mut self) {
        self.wipe();
        self.lines.over();
    }
}

/// The timeline as text.
fn render(status: &Status) -> String {
    let last = status.shown.iter().filter_map(|shown| shown.stop).max();
    let length = status.length.or(last).unwrap_or(status.now).max(status.now);
    let kind = match status.kind {
        RoundKind::Together => "together".to_owned(),
        RoundKind::Solo(index) => format!("container {index} alone"),
    };
    let mut text = format!(
        "round {} of {} ({kind}), {:.1} of {:.1} s\n",
        status.round + 1,
        status.rounds,
        status.now.as_secs_f64(),
        length.as_secs_f64(),
    );
    let name_width = status.shown.iter().map(|shown| shown.name.chars().count()).max().unwrap_or(0);
    for shown in &status.shown {
        let bar = bar(shown, status.now, length);
        text += &format!("{:name_width$}  [{bar}]  {}\n", shown.name, figures(shown));
    }
    text
}

fn bar(shown: &Shown, now: Duration, length: Duration) -> String {
    let at = |column: usize| length.mul_f64((column as f64 + 0.5) / WIDTH as f64);
    let cell = |column: usize| {
        let time = at(column);
        let planned = time >= shown.start && shown.stop.is_none_or(|stop| time < stop);
        match (planned, time <= now) {
            (true, true) => '=',
            (true, false) => '.',
            (false, _) => ' ',
        }
    };
    (0..WIDTH).map(cell).collect()
}

fn figures(shown: &Shown) -> String {
    let state = match shown.state {
        State::Waiting => "waits".to_owned(),
        State::Running => "runs".to_owned(),
        State::Stopping => "stops".to_owned(),
        State::Ended(Some(code)) if code != 0 => format!("ended ({code})"),
        State::Ended(_) => "ended".to_owned(),
    };
    let cores = shown.cores.map(|cores| format!("  {cores:.2} cores"));
    let memory = shown.memory_bytes.filter(|_| shown.cores.is_some());
    let memory = memory.map(|bytes| format!("  {:.0} MiB", bytes as f64 / (1 << 20) as f64));
    let rate = shown.rate.map(|rate| format!("  {rate:.0} units/s"));
    [Some(state), cores, memory, rate].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_what_was_what_is_planned_and_what_is() {
        let mut noisy = Shown::new("noisy", Duration::from_secs(10), Some(Duration::from_secs(30)));
        noisy.state = State::Running;
        noisy.cores = Some(0.98);
        noisy.note_progress(Some((1_000_000_000, 100.0)));
        noisy.note_progress(Some((3_000_000_000, 300.0)));
        let status = Status {
            round: 0,
            rounds: 3,
            kind: RoundKind::Together,
            now: Duration::from_secs(20),
            length: Some(Duration::from_secs(40)),
            shown: vec![noisy],
        };
        let text = render(&status);
        assert!(text.starts_with("round 1 of 3 (together), 20.0 of 40.0 s\n"), "{text}");
        let row =
            format!("[{}{}{}{}]", " ".repeat(10), "=".repeat(10), ".".repeat(10), " ".repeat(10));
        assert!(text.contains(&format!("noisy  {row}  runs  0.98 cores  100 units/s")), "{text}");
    }
}
