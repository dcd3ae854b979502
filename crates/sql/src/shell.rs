//! Queries one after the other, with history and completion.

use crate::query::{Format, Output};
use crate::views::VIEWS;
use crate::{Error, Session};
use datafusion::common::TableReference;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Context, Editor, Helper};
use std::io::{Write, stderr, stdout};
use std::path::PathBuf;
use std::time::Instant;
use tokio::runtime::Runtime;

const HELP: &str = "\
A query ends with ; and may have many lines. Tab completes words, tables and columns.
\\d            tables and views
\\d NAME       the columns of a table, or what a view is
\\x QUERY      how a query would be run
\\f FORMAT     table, csv, json or jsonl from now on
\\q            end
Ctrl-C stops a query.
";

const WORDS: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "LIMIT",
    "JOIN",
    "LEFT JOIN",
    "ON",
    "AND",
    "OR",
    "AS",
    "DESC",
    "HAVING",
    "DISTINCT",
    "WITH",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "BETWEEN",
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "approx_percentile_cont",
    "date_trunc",
    "date_bin",
    "coalesce",
];

/// Reads queries until there are no more.
///
/// # Errors
/// The terminal cannot be read.
pub fn run(runtime: &Runtime, session: &Session) -> Result<(), Error> {
    let terminal = |e: ReadlineError| Error::Engine(format!("cannot read the terminal: {e}"));
    let mut editor: Editor<Words, DefaultHistory> =
        Editor::with_config(Config::builder().auto_add_history(true).build()).map_err(terminal)?;
    editor.set_helper(Some(Words::of(runtime, session)));
    let history = history();
    if let Some(path) = &history {
        let _ = path.parent().map(std::fs::create_dir_all);
        // There is none the first time.
        let _ = editor.load_history(path);
    }
    println!(
        "{} tables and views: {}; \\? for help",
        session.names.len(),
        session.names.join(", ")
    );
    let mut format = Format::Table;
    loop {
        let line = match editor.readline("crosstalk> ") {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(terminal(error)),
        };
        if let Some(path) = &history {
            // Now, because not every session has a clean end.
            let _ = editor.append_history(path);
        }
        match line.trim() {
            "" => continue,
            "\\q" | "quit" | "exit" => break,
            line => {
                if let Err(error) = one(runtime, session, line, &mut format) {
                    let _ = writeln!(stderr(), "{error}");
                }
            }
        }
        for note in session.notes.take() {
            let _ = writeln!(stderr(), "not used: {note}");
        }
    }
    Ok(())
}

fn one(runtime: &Runtime, session: &Session, line: &str, format: &mut Format) -> Result<(), Error> {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim().trim_end_matches(';');
    match (word, rest) {
        ("\\?" | "\\h" | "help", _) => print!("{HELP}"),
        ("\\d", "") => session.names.iter().for_each(|name| println!("{name}")),
        ("\\d", name) => {
            if let Some(view) = VIEWS.iter().find(|view| view.name == name) {
                println!("{}\n", view.about());
            }
            answer(runtime, session, &format!("DESCRIBE {name}"), *format)?;
        }
        ("\\x", query) => print!("{}", runtime.block_on(session.explain(query, false))?),
        ("\\f", name) => match name.parse().map_err(Error::Query)? {
            Format::Parquet => {
                let what = "Parquet is nothing for a terminal; crosstalk sql PATH QUERY --out FILE.parquet writes it";
                return Err(Error::Refused(what.to_owned()));
            }
            other => *format = other,
        },
        (command, _) if command.starts_with('\\') => {
            return Err(Error::Query(format!("{command}: no such command; \\? lists them")));
        }
        _ => answer(runtime, session, line.trim_end_matches(';'), *format)?,
    }
    Ok(())
}

fn answer(runtime: &Runtime, session: &Session, query: &str, format: Format) -> Result<(), Error> {
    let began = Instant::now();
    let answered = async {
        let frame = session.plan(query).await?;
        let mut output = Output::new(format, frame.schema().inner(), stdout())?;
        session.run_planned(query, frame, |batch| output.write(&batch)).await?;
        output.finish()
    };
    let stopped = runtime.block_on(async {
        tokio::select! {
            answered = answered => answered.map(|_| false),
            // The query ends, and not the shell.
            _ = tokio::signal::ctrl_c() => Ok(true),
        }
    })?;
    let how = if stopped { "stopped after " } else { "" };
    let _ = writeln!(stderr(), "{how}{:.2} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// Where other tools of the terminal keep theirs.
fn history() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state"));
    Some(state.or_else(home)?.join("crosstalk/sql_history"))
}

/// What can be completed.
struct Words(Vec<String>);

impl Words {
    fn of(runtime: &Runtime, session: &Session) -> Self {
        let mut words: Vec<String> = WORDS.iter().map(|word| (*word).to_owned()).collect();
        words.extend(session.names.iter().cloned());
        for name in &session.names {
            if let Ok(table) =
                runtime.block_on(session.context.table(TableReference::bare(name.as_str())))
            {
                words.extend(table.schema().fields().iter().map(|field| field.name().clone()));
            }
        }
        words.sort();
        words.dedup();
        Self(words)
    }

    /// Words that begin as the one before the cursor does, and where that begins.
    fn completing(&self, line: &str) -> (usize, Vec<&str>) {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let begun = line.rfind(|c: char| !is_part(c));
        let start = begun.map_or(0, |at| at + line[at..].chars().next().map_or(1, char::len_utf8));
        let word = line[start..].to_lowercase();
        let fits = |known: &&String| !word.is_empty() && known.to_lowercase().starts_with(&word);
        (start, self.0.iter().filter(fits).map(String::as_str).collect())
    }
}

impl Completer for Words {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, words) = self.completing(&line[..at]);
        let pair = |word: &str| Pair { display: word.to_owned(), replacement: word.to_owned() };
        Ok((start, words.into_iter().map(pair).collect()))
    }
}

impl Validator for Words {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let line = context.input().trim();
        let is_whole = line.is_empty()
            || line.ends_with(';')
            || line.starts_with('\\')
            || matches!(line, "quit" | "exit" | "help");
        Ok(if is_whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Hinter for Words {
    type Hint = String;
}
impl Highlighter for Words {}
impl Helper for Words {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_completed_from_where_it_begins() {
        let words =
            Words(["SELECT", "slots", "slot_start_ns", "tasks"].map(str::to_owned).to_vec());
        assert_eq!(words.completing("SELECT slo"), (7, vec!["slots", "slot_start_ns"]));
        assert_eq!(words.completing("sel"), (0, vec!["SELECT"]));
        assert_eq!(words.completing("é.ta"), (3, vec!["tasks"]));
        assert_eq!(words.completing("x "), (2, vec![]));
    }
}
