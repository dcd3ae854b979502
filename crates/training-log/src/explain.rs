//! Shows what each line of a file gives, and why not, for whoever adds a pattern.

use std::io::{self, BufRead, Write};

use serde::Serialize;

use crate::parser::{MAX_LINE, Outcome, Parser};
use crate::performance::Performance;
use crate::stream::Stream;

/// How to show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// For reading.
    Human,
    /// One JSON object a line.
    Json,
}

/// What one line gave.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The line's number, from 1.
    pub number: u64,
    /// The line.
    pub line: String,
    /// Whether it is a training line or a training start.
    pub matched: bool,
    /// The dialect, `start`, or nothing.
    pub format: Option<String>,
    /// The fields found, even where they do not make a training line.
    pub fields: Performance,
    /// Why it gave nothing.
    pub reason: Option<String>,
}

/// How many lines there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// All lines.
    pub lines: u64,
    /// Those that gave something.
    pub matched: u64,
}

impl Explanation {
    /// Explains one line by itself.
    pub fn of(parser: &Parser, number: u64, line: &str) -> Explanation {
        Explanation::new(number, line, parser.parse_thoroughly(line))
    }

    fn new(number: u64, line: &str, outcome: Outcome) -> Explanation {
        let (format, fields, reason) = match outcome {
            Outcome::Performance { performance, format } => {
                (Some(format.name().to_owned()), performance, None)
            }
            Outcome::Start => (Some("start".to_owned()), Performance::default(), None),
            Outcome::Nothing(reason) => {
                (None, reason.found().cloned().unwrap_or_default(), Some(reason.to_string()))
            }
        };
        Explanation {
            number,
            line: line.to_owned(),
            matched: format.is_some(),
            format,
            fields,
            reason,
        }
    }
}

/// Explains every line of `input` on `output`, each with what those before it said. A line with
/// carriage returns is several, all of the same number. Bytes that are no text are shown as replacement
/// characters; of a line too long to be read only the beginning is held and shown.
///
/// ```
/// use crosstalk_training_log::{Parser, Style, explain};
/// let mut shown = Vec::new();
/// let summary = explain(&Parser::default(), &b"step: 1 loss: 2.5\nhello\n"[..], &mut shown, Style::Human).unwrap();
/// assert_eq!((summary.lines, summary.matched), (2, 1));
/// assert!(String::from_utf8(shown).unwrap().contains("lm_loss = 2.5"));
/// ```
///
/// # Errors
/// Where reading or writing fails.
pub fn explain(
    parser: &Parser,
    mut input: impl BufRead,
    mut output: impl Write,
    style: Style,
) -> io::Result<Summary> {
    let mut summary = Summary::default();
    let mut stream = Stream::default();
    let mut line = Vec::new();
    let (mut number, mut before) = (1, b'\n');
    while let Some(end) = read_line(&mut input, &mut line)? {
        let text = String::from_utf8_lossy(&line);
        // Bars are wiped with spaces, and lines end with both.
        let blank_part = (end == b'\r' || before == b'\r') && text.trim().is_empty();
        if !blank_part {
            let mut explained = None;
            stream.read(parser, &text, |_, outcome| explained = Some(outcome));
            let outcome = match explained {
                Some(Outcome::Nothing(_)) | None => parser.parse_thoroughly(&text),
                Some(found) => found,
            };
            let explanation = Explanation::new(number, &text, outcome);
            summary.lines += 1;
            summary.matched += u64::from(explanation.matched);
            match style {
                Style::Human => show(&explanation, &mut output)?,
                Style::Json => {
                    serde_json::to_writer(&mut output, &explanation)?;
                    output.write_all(b"\n")?;
                }
            }
        }
        number += u64::from(end == b'\n');
        before = end;
    }
    if style == Style::Human {
        writeln!(output, "{} of {} lines matched", summary.matched, summary.lines)?;
    }
    output.flush()?;
    Ok(summary)
}

/// Reads a line without its end, which it gives, holding little more of it than the parser would
/// read. A carriage return ends one as well.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<u8>> {
    line.clear();
    let mut ended = None;
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            break;
        }
        let end = memchr::memchr2(b'\n', b'\r', buffer);
        ended = Some(end.map_or(b'\n', |at| buffer[at]));
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let room = (MAX_LINE + 1).saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(room)]);
        let taken = end.map_or(buffer.len(), |at| at + 1);
        input.consume(taken);
        if end.is_some() {
            break;
        }
    }
    Ok(ended)
}

/// Characters of a line that are shown above what it gave.
const SHOWN: usize = 100;

fn show(explanation: &Explanation, output: &mut impl Write) -> io::Result<()> {
    let mut text: String =
        explanation.line.chars().filter(|c| !c.is_control()).take(SHOWN).collect();
    if explanation.line.chars().count() > SHOWN {
        text.push('…');
    }
    writeln!(output, "{}: {text}", explanation.number)?;
    match (&explanation.format, &explanation.reason) {
        (Some(format), _) => writeln!(output, "  matched: {format}")?,
        (None, Some(reason)) => writeln!(output, "  no match: {reason}")?,
        (None, None) => {}
    }
    for (name, value) in explanation.fields.fields() {
        writeln!(output, "    {name} = {value}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(input: &[u8]) -> Vec<serde_json::Value> {
        let mut shown = Vec::new();
        explain(&Parser::default(), input, &mut shown, Style::Json).unwrap();
        shown
            .split(|b| *b == b'\n')
            .filter(|l| !l.is_empty())
            .map(|l| serde_json::from_slice(l).unwrap())
            .collect()
    }

    #[test]
    fn json_has_one_object_a_line_with_what_was_found_and_why_not() {
        let found = json(b"step: 1 loss: nan\r\ntraining ...\n\xff\xfe\n\nlr: 1e-3, loss: 2");
        assert_eq!(found.len(), 5);
        assert_eq!(found[0]["line"], "step: 1 loss: nan");
        assert_eq!(found[0]["matched"], true);
        assert_eq!(found[0]["format"], "generic");
        assert_eq!(found[0]["fields"]["lm_loss"], "NaN");
        assert!(found[0]["reason"].is_null());
        assert_eq!((&found[1]["matched"], &found[1]["format"]), (&true.into(), &"start".into()));
        assert_eq!(found[2]["matched"], false);
        assert!(found[2]["format"].is_null());
        assert_eq!(found[3]["reason"], "the line is empty");
        assert_eq!(found[4]["fields"]["learning_rate"], 1e-3);
        assert_eq!(
            found[4]["reason"],
            "found learning_rate, lm_loss, but no iteration or step number"
        );
    }

    #[test]
    fn an_endless_line_is_held_only_in_part() {
        let mut line = vec![b'x'; 10 * MAX_LINE];
        line.push(b'\n');
        line.extend_from_slice(b"step: 2 loss: 1\n");
        let found = json(&line);
        assert_eq!(found.len(), 2);
        assert!(found[0]["reason"].as_str().unwrap().contains("more than the 16384"));
        assert_eq!(found[1]["matched"], true);
    }
}
