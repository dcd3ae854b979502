//! The timeline: one row a container, redrawn in place.

use super::{Lines, Live, Shown, State, Status};
use crate::plan::RoundKind;
use crate::store::Event;
use std::io::Write;
use std::time::Duration;

/// Columns of the bar.
const WIDTH: usize = 32;
/// Containers shown at once: more rows than a terminal has cannot be drawn over.
const MOST_ROWS: usize = 18;
/// A row that is wider than the terminal is cut, not continued on a second, which would not be drawn over.
const CUT: &str = "\x1b[?7l";
const CONTINUE: &str = "\x1b[?7h";

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

    fn is_drawn(&self) -> bool {
        true
    }

    fn draw(&mut self, status: &Status) {
        self.wipe();
        let text = render(status);
        self.drawn = text.lines().count();
        let _ = write!(self.out, "{CUT}{text}{CONTINUE}").and_then(|()| self.out.flush());
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
    let kind = match (status.kind, &status.shown[..]) {
        (RoundKind::Together, _) => "together".to_owned(),
        (RoundKind::Solo(_), [only]) => format!("{} alone", only.name),
        (RoundKind::Solo(index), _) => format!("container {index} alone"),
    };
    // Rounds have the numbers here that they have in files and events, from 0.
    let more = match status.rounds.saturating_sub(status.round + 1) {
        0 => String::new(),
        more => format!(", {more} more to come"),
    };
    let mut text = format!(
        "round {} ({kind}{more}), {:.1} of {:.1} s\n",
        status.round,
        status.now.as_secs_f64(),
        length.as_secs_f64(),
    );
    let rows = rows(status);
    let name_width = rows.iter().map(|shown| shown.name.chars().count()).max().unwrap_or(0);
    for shown in &rows {
        let bar = bar(shown, status.now, length);
        text += &format!("{:name_width$}  [{bar}]  {}\n", shown.name, figures(shown));
    }
    if rows.len() < status.shown.len() {
        text += &format!("and {} more\n", status.shown.len() - rows.len());
    }
    text
}

/// Those for whom there is room, in their order: who runs, else who will, else who did.
fn rows(status: &Status) -> Vec<&Shown> {
    let mut rows: Vec<(usize, &Shown)> = status.shown.iter().enumerate().collect();
    rows.sort_by_key(|(_, shown)| match shown.state {
        State::Running | State::Stopping => 0,
        State::Waiting => 1,
        State::Ended(_) => 2,
    });
    rows.truncate(MOST_ROWS);
    rows.sort_by_key(|(at, _)| *at);
    rows.into_iter().map(|(_, shown)| shown).collect()
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
        assert!(text.starts_with("round 0 (together, 2 more to come), 20.0 of 40.0 s\n"), "{text}");
        let last = Status { round: 2, kind: RoundKind::Solo(7), ..status.clone() };
        let last = render(&last);
        assert!(last.starts_with("round 2 (noisy alone), 20.0 of 40.0 s\n"), "{last}");
        let part = |letter: &str| letter.repeat(WIDTH / 4);
        let row = format!("[{}{}{}{}]", part(" "), part("="), part("."), part(" "));
        assert!(text.contains(&format!("noisy  {row}  runs  0.98 cores  100 units/s")), "{text}");
    }

    #[test]
    fn of_more_containers_than_there_are_rows_those_that_run_are_shown_and_none_is_continued() {
        let shown = |at: u64| {
            let mut shown = Shown::new(&format!("c{at}"), Duration::from_secs(at), None);
            shown.state = if at >= 30 { State::Running } else { State::Ended(Some(0)) };
            shown
        };
        let status = Status {
            round: 0,
            rounds: 1,
            kind: RoundKind::Together,
            now: Duration::from_secs(40),
            length: Some(Duration::from_secs(60)),
            shown: (0..40).map(shown).collect(),
        };
        let mut timeline = TerminalTimeline::new(Vec::new(), Lines::new(Vec::new(), false));
        timeline.draw(&status);
        timeline.draw(&status);
        let drawn = String::from_utf8(timeline.out).unwrap();
        assert!(
            drawn.contains("\x1b[20A\x1b[J"),
            "as many are taken away as were drawn: {drawn:?}"
        );
        let text = render(&status);
        assert!((30..40).all(|at| text.contains(&format!("c{at} "))), "{text}");
        assert!(text.contains("and 22 more") && text.lines().count() == 20, "{text}");
        assert!(drawn.starts_with(CUT) && drawn.ends_with(CONTINUE));
    }
}
