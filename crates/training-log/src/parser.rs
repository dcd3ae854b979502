//! One line in, what it means out.

use std::fmt;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::assemble::{Assembly, Shortfall};
use crate::format::Format;
use crate::pattern::Pattern;
use crate::performance::Performance;
use crate::{ansi, scan, stream};

/// Longer lines are not read: no trainer prints them, and dumps of tensors do.
pub const MAX_LINE: usize = 16 * 1024;

/// What Megatron and Primus print when the training loop begins.
static START: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("training ..."));

/// Reads log lines. Made once, used for every line, shared between threads.
///
/// ```
/// use crosstalk_training_log::{Format, Metric, Outcome, Parser};
/// let parser = Parser::default();
/// let line = " iteration 2/ 50 | elapsed time per iteration (ms): 6046.6/6100.0 | lm loss: 1.18E+01 |";
/// let Outcome::Performance { performance, format } = parser.parse(line) else { panic!() };
/// assert_eq!(format, Format::Megatron);
/// assert_eq!(performance.get(Metric::TargetIteration), Some(50.0));
/// assert_eq!(performance.get(Metric::ElapsedTimePerIterationMs), Some(6046.6));
/// assert_eq!(parser.parse("training ..."), Outcome::Start);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Parser {
    patterns: Vec<Pattern>,
}

/// What a line means.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The numbers of an iteration.
    Performance {
        /// The numbers.
        performance: Performance,
        /// The dialect they were in.
        format: Format,
    },
    /// Training starts here.
    Start,
    /// Nothing of training.
    Nothing(Reason),
}

/// Why a line gave nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// Only white space.
    Empty,
    /// Longer than [`MAX_LINE`].
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// Nothing that could count iterations.
    NoProgress,
    /// No key with a number.
    NoFields,
    /// Keys with numbers, but none that means anything here.
    UnknownFields,
    /// Training metrics, but no iteration they belong to; holds what was found.
    NoIteration(Box<Performance>),
    /// An iteration, but nothing that only a training line has; holds what was found.
    NoMetric(Box<Performance>),
    /// The iteration of a checkpoint that was written or read; holds what was found.
    Checkpoint(Box<Performance>),
    /// The line reports an evaluation.
    Evaluation,
}

impl Parser {
    /// A parser that tries these patterns, in order, on lines the built-in rules give nothing for.
    pub fn with_patterns(patterns: Vec<Pattern>) -> Parser {
        Parser { patterns }
    }

    /// Reads one line. Never fails: what is no training line says why, in short; for the whole
    /// reason ask [`Parser::parse_thoroughly`]. Of a line with carriage returns the last part counts;
    /// [`crate::Stream`] reads them all.
    pub fn parse(&self, line: &str) -> Outcome {
        let outcome = if line.len() <= MAX_LINE && !may_hold_progress(line.as_bytes()) {
            let empty = line.trim().is_empty();
            Outcome::Nothing(if empty { Reason::Empty } else { Reason::NoProgress })
        } else {
            self.parse_built_in(line)
        };
        self.or_patterns(line, outcome)
    }

    /// Reads one line as [`Parser::parse`] does, and where it is no training line looks at all of
    /// it, to tell what was found and what is missing.
    pub fn parse_thoroughly(&self, line: &str) -> Outcome {
        self.or_patterns(line, self.parse_built_in(line))
    }

    /// All that a line names, whether or not it is a training line.
    pub(crate) fn fields(&self, line: &str) -> Performance {
        let mut assembly = Assembly::new();
        let text = if line.len() <= MAX_LINE { ansi::strip(line) } else { "".into() };
        scan::scan(text.trim(), &mut |field| assembly.take(&field));
        assembly.into_fields()
    }

    fn or_patterns(&self, line: &str, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Nothing(Reason::TooLong { length }) => {
                Outcome::Nothing(Reason::TooLong { length })
            }
            Outcome::Nothing(reason) => {
                let text = ansi::strip(line);
                let matched = self.patterns.iter().find_map(|pattern| {
                    let performance = pattern.read(&text)?;
                    Some(Outcome::Performance {
                        performance,
                        format: Format::Pattern(pattern.name().to_owned()),
                    })
                });
                matched.unwrap_or(Outcome::Nothing(reason))
            }
            outcome => outcome,
        }
    }

    fn parse_built_in(&self, line: &str) -> Outcome {
        if line.len() > MAX_LINE {
            return Outcome::Nothing(Reason::TooLong { length: line.len() });
        }
        let text = ansi::strip(stream::last_line(line));
        let text = text.trim();
        if text.is_empty() {
            return Outcome::Nothing(Reason::Empty);
        }
        if START.find(text.as_bytes()).is_some() {
            return Outcome::Start;
        }
        let mut assembly = Assembly::new();
        let evaluation = scan::scan(text, &mut |field| assembly.take(&field));
        assembly.evaluation |= evaluation;
        match assembly.finish() {
            Ok((performance, marks)) => {
                Outcome::Performance { performance, format: Format::of(marks) }
            }
            Err(shortfall) => Outcome::Nothing(shortfall.into()),
        }
    }
}

/// Whether a line may be a training line or a training start. Most lines of a pod are neither, and
/// what every name of the iteration has in common is quickly looked for: `iter`, `step`, `batch`,
/// `updates`, a progress bar's `10/500`, and the start's `...`.
fn may_hold_progress(line: &[u8]) -> bool {
    // A colour code may stand inside a word.
    if memchr::memchr(0x1b, line).is_some() {
        return true;
    }
    memchr::memchr3_iter(b't', b'T', b'/', line).any(|at| match line[at] {
        b'/' => {
            let before = line[..at].iter().rev().find(|byte| **byte != b' ');
            let after = line[at + 1..].iter().find(|byte| **byte != b' ');
            let number = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'+' | b'-');
            before.is_some_and(number) && after.is_some_and(number)
        }
        _ => {
            let (before, after) = (&line[..at], &line[at + 1..]);
            ends_with(before, b"i") && starts_with(after, b"er")
                || ends_with(before, b"s") && starts_with(after, b"ep")
                || ends_with(before, b"ba") && starts_with(after, b"ch")
                || ends_with(before, b"upda") && starts_with(after, b"es")
                || starts_with(after, b"raining ")
        }
    })
}

fn starts_with(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

fn ends_with(text: &[u8], word: &[u8]) -> bool {
    text.len() >= word.len() && text[text.len() - word.len()..].eq_ignore_ascii_case(word)
}

impl From<Shortfall> for Reason {
    fn from(shortfall: Shortfall) -> Reason {
        match shortfall {
            Shortfall::NoFields => Reason::NoFields,
            Shortfall::Unknown => Reason::UnknownFields,
            Shortfall::NoIteration(found) => Reason::NoIteration(found),
            Shortfall::NoMetric(found) => Reason::NoMetric(found),
            Shortfall::Checkpoint(found) => Reason::Checkpoint(found),
            Shortfall::Evaluation => Reason::Evaluation,
        }
    }
}

impl Reason {
    /// Fields that were found although the line does not count.
    pub fn found(&self) -> Option<&Performance> {
        match self {
            Reason::NoIteration(found) | Reason::NoMetric(found) | Reason::Checkpoint(found) => {
                Some(found)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |found: &Performance| {
            let names: Vec<_> = found.fields().map(|(name, _)| name.to_owned()).collect();
            names.join(", ")
        };
        match self {
            Reason::Empty => write!(formatter, "the line is empty"),
            Reason::TooLong { length } => {
                write!(
                    formatter,
                    "{length} bytes are more than the {MAX_LINE} that are read of a line"
                )
            }
            Reason::NoProgress => write!(formatter, "no word for an iteration or step"),
            Reason::NoFields => write!(formatter, "no key with a number after it"),
            Reason::UnknownFields => write!(formatter, "no field is a known training metric"),
            Reason::NoIteration(found) => {
                write!(formatter, "found {}, but no iteration or step number", names(found))
            }
            Reason::NoMetric(found) => write!(
                formatter,
                "found {}, but no loss, learning rate, throughput or other training metric beside it",
                names(found)
            ),
            Reason::Checkpoint(found) => write!(
                formatter,
                "found {}, but of a checkpoint, not of a training iteration",
                names(found)
            ),
            Reason::Evaluation => {
                write!(formatter, "reports an evaluation, not a training iteration")
            }
        }
    }
}
