//! The lines of one stream in their order: what a trainer spreads over several is put together.
//!
//! Most trainers say everything about an iteration on one line. Some do not: behind Hugging Face's
//! Trainer the step stands on a progress bar and the loss on the line after it, and Composer prints
//! a head with the batch and then a line for each value. And a progress bar does not end its line
//! but goes back to its beginning: each carriage return ends a report.

use serde::{Deserialize, Serialize};

use crate::ansi;
use crate::format::Format;
use crate::metric::Metric;
use crate::parser::{Outcome, Parser, Reason};
use crate::performance::Performance;

/// So many lines after a report of progress, what has no iteration of its own is not of it.
const REACH: u8 = 64;

/// Reads the lines of one stream, such as a container's log, one after the other.
///
/// ```
/// use crosstalk_training_log::{Metric, Outcome, Parser, Stream};
/// let (parser, mut stream) = (Parser::default(), Stream::default());
/// let mut found = Vec::new();
/// for line in ["  2%|▏  | 10/500 [00:05<04:30,  1.81it/s]\r          ", "{'loss': 1.5, 'epoch': 0.02}"] {
///     stream.read(&parser, line, |_, outcome| found.push(outcome));
/// }
/// let Some(Outcome::Performance { performance, .. }) = found.pop() else { panic!() };
/// assert_eq!((performance.iteration(), performance.get(Metric::LmLoss)), (Some(10), Some(1.5)));
/// ```
/// What it waits with can be kept and read back, so that a restart between two lines costs nothing.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Stream {
    waiting: Option<Waiting>,
}

/// Progress that was reported without what belongs to it.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Waiting {
    progress: Performance,
    /// Whether it heads a list with a value a line.
    heads_list: bool,
    /// Lines since.
    lines: u8,
}

impl Stream {
    /// Reads the lines of a text and tells of each, with what it means after those before it.
    pub fn read<'t>(
        &mut self,
        parser: &Parser,
        text: &'t str,
        mut tell: impl FnMut(&'t str, Outcome),
    ) {
        for line in lines(text) {
            let outcome = self.read_line(parser, line);
            tell(line, outcome);
        }
    }

    /// Whether a line to come may need what came before. A stream of which this is not true may be
    /// forgotten.
    pub fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    fn read_line(&mut self, parser: &Parser, line: &str) -> Outcome {
        let outcome = match &self.waiting {
            None => parser.parse(line),
            Some(waiting) if waiting.heads_list && is_listed(line) => waiting.listed(parser, line),
            Some(waiting) => match parser.parse_thoroughly(line) {
                Outcome::Nothing(Reason::NoIteration(found)) if is_report(&found) => {
                    waiting.with(*found, Format::Generic)
                }
                outcome => outcome,
            },
        };
        self.note(line, &outcome);
        outcome
    }

    fn note(&mut self, line: &str, outcome: &Outcome) {
        match outcome {
            Outcome::Nothing(Reason::NoMetric(found)) => {
                if let Some(waiting) = Waiting::of(line, found) {
                    self.waiting = Some(waiting);
                    return;
                }
            }
            Outcome::Nothing(Reason::Evaluation) | Outcome::Start => self.waiting = None,
            // A line that says it all: this is no trainer that spreads it.
            Outcome::Performance { .. } if self.waiting.is_none() => return,
            _ => {}
        }
        if let Some(waiting) = &mut self.waiting {
            waiting.lines += 1;
            if waiting.lines >= REACH {
                self.waiting = None;
            }
        }
    }
}

impl Waiting {
    /// What a line says that reports progress and nothing else; `None` for any other.
    fn of(line: &str, found: &Performance) -> Option<Waiting> {
        let text = ansi::strip(line);
        let text = text.trim();
        if !tells_only_progress(text) {
            return None;
        }
        let heads_list = text.starts_with('[') && text.ends_with("]:");
        let mut progress = found.clone();
        if heads_list {
            count_over_epochs(&mut progress);
        }
        Some(Waiting { progress, heads_list, lines: 0 })
    }

    fn with(&self, found: Performance, format: Format) -> Outcome {
        let mut performance = found;
        performance.fill_from(&self.progress);
        Outcome::Performance { performance, format }
    }

    /// A line of the list: whatever it names is of the head's iteration.
    fn listed(&self, parser: &Parser, line: &str) -> Outcome {
        let mut found = parser.fields(line);
        let own = [Metric::CurrentIteration, Metric::TargetIteration];
        own.into_iter().for_each(|metric| found.unset(metric));
        if found.fields().next().is_none() {
            return Outcome::Nothing(Reason::NoFields);
        }
        self.with(found, Format::Composer)
    }
}

/// `[epoch=2][batch=3/10]` counts within the epoch; epochs are of one length and counted from 1.
fn count_over_epochs(progress: &mut Performance) {
    let epoch = progress.extra().find(|(name, _)| *name == "epoch").map(|(_, epoch)| epoch);
    let batch = progress.get(Metric::CurrentIteration);
    let (Some(epoch), Some(batch)) = (epoch, batch) else { return };
    let Some(length) = progress.get(Metric::TargetIteration) else { return };
    if epoch >= 1.0 {
        progress.set(Metric::CurrentIteration, (epoch - 1.0) * length + batch);
        // Where training ends is not said.
        progress.unset(Metric::TargetIteration);
    }
}

/// Whether a line of a list follows its head: Composer's begin with the word. Those of time count
/// batches and epochs once more.
fn is_listed(line: &str) -> bool {
    let line = ansi::strip(line);
    let named = line.trim_start().strip_prefix("Train ");
    named.is_some_and(|name| !name.starts_with("time/"))
}

/// Whether fields without an iteration are a report of one, rather than talk of a loss: several,
/// and not the sums at the end of a training.
fn is_report(found: &Performance) -> bool {
    // A loss of its own name is there twice.
    let fields = found.fields().filter(|(name, _)| *name == "lm_loss" || !name.ends_with("loss"));
    fields.count() > 1 && !found.extra().any(|(name, _)| name.ends_with("runtime"))
}

/// Whether a line is a progress bar of training, or has no words but those of progress: not that of
/// a download, and not `saving checkpoint at iteration 500`.
fn tells_only_progress(text: &str) -> bool {
    const OF_PROGRESS: [&str; 13] = [
        "epoch",
        "step",
        "steps",
        "iteration",
        "iterations",
        "iter",
        "batch",
        "train",
        "training",
        "global",
        "progress",
        "rank",
        "of",
    ];
    // Before its share a bar says what it is of.
    let words = text.find("%|").map_or(text, |share| &text[..share]);
    let mut bracket = false;
    let plain = words.split_inclusive(['[', ']']).filter(|part| {
        let prefix = bracket && !part.contains('=');
        bracket = part.ends_with('[');
        !prefix
    });
    let mut words =
        plain.flat_map(|part| part.split(|c: char| c.is_whitespace() || ",:;|=[]/#-_".contains(c)));
    words.all(|word| {
        let only_letters = !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphabetic());
        !only_letters || OF_PROGRESS.iter().any(|known| word.eq_ignore_ascii_case(known))
    })
}

/// The lines of a text, each ended by a line feed or a carriage return; blank ones only where there
/// is no other.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut parts = text.split(['\n', '\r']).filter(|part| !part.trim().is_empty());
    let first = parts.next().unwrap_or_default();
    std::iter::once(first).chain(parts)
}

/// The last of a text's lines that is not blank: what a terminal would show.
pub(crate) fn last_line(text: &str) -> &str {
    match memchr::memchr2(b'\r', b'\n', text.as_bytes()) {
        None => text,
        Some(_) => lines(text).last().unwrap_or(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iterations(text: &str) -> Vec<(u64, Option<f64>)> {
        let mut stream = Stream::default();
        let mut found = Vec::new();
        for line in text.split('\n') {
            stream.read(&Parser::default(), line, |_, outcome| {
                if let Outcome::Performance { performance, .. } = outcome {
                    let iteration = performance.iteration().unwrap();
                    found.push((iteration, performance.get(Metric::LmLoss)));
                }
            });
        }
        found
    }

    #[test]
    fn a_carriage_return_ends_a_report() {
        let text = "step: 10 loss: 1.0\rstep: 20\rstep: 30 loss: 3.0\r";
        assert_eq!(iterations(text), [(10, Some(1.0)), (30, Some(3.0))]);
        assert_eq!(Parser::default().parse(text), Parser::default().parse("step: 30 loss: 3.0"));
    }

    #[test]
    fn what_is_of_something_else_is_not_taken_for_the_iteration_before() {
        for (progress, line) in [
            ("Map: 100%|███| 1000/1000 [00:01<00:00, 900.1it/s]", "{'loss': 1.5, 'epoch': 0.1}"),
            ("saving checkpoint at iteration 500", "{'loss': 1.5, 'epoch': 0.1}"),
            ("  2%|▏| 10/500 [00:05<04:30,  1.81it/s]", "best loss: 0.5"),
            (
                "100%|███| 500/500 [04:35<00:00,  1.81it/s]",
                "{'train_runtime': 275.1, 'train_steps_per_second': 1.8, 'train_loss': 0.9, 'epoch': 1.0}",
            ),
            ("  2%|▏| 10/500 [00:05<04:30,  1.81it/s]", "{'eval_loss': 0.9, 'eval_runtime': 1.2}"),
        ] {
            assert_eq!(iterations(&format!("{progress}\n{line}")), [], "{progress} {line}");
        }
        let far = format!("step 10/500\n{}{{'loss': 1.5, 'epoch': 0.1}}", "hello\n".repeat(64));
        assert_eq!(iterations(&far), []);
    }

    #[test]
    fn progress_alone_on_a_line_is_of_what_follows() {
        for progress in [
            "step 10/500",
            "[2025-01-01 INFO trainer.py:3] Epoch 0, step: 10",
            "Training:   2%|▏| 10/500 [00:05<04:30,  1.81it/s]",
        ] {
            let text = format!("{progress}\nlr: 1e-4, loss: 2.5");
            assert_eq!(iterations(&text), [(10, Some(2.5))], "{progress}");
        }
    }

    #[test]
    fn blank_lines_are_told_only_where_there_is_nothing_else() {
        assert_eq!(lines("a\r\rb\n").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(lines(" \r").count(), 1);
        assert_eq!(lines("").collect::<Vec<_>>(), [""]);
        assert_eq!(last_line("a\rb\r  \r"), "b");
    }
}
