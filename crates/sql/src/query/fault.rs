//! What is wrong with a query, where, and what may have been meant.

use crate::Error;
use crosstalk_settings::document::hint;
use datafusion::arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;

/// Whose fault it is that a query failed while it ran: a store, a file, too little memory or a machine that is gone is
/// not the query's. What other machines say of a failure is only text, so on a cluster nothing that happens there is.
pub(super) fn whose(query: &str, error: DataFusionError, on_cluster: bool) -> Error {
    let is_querys = match root(&error) {
        DataFusionError::ArrowError(error, _) => !on_cluster && is_about_values(error),
        DataFusionError::Execution(_) => !on_cluster,
        DataFusionError::ResourcesExhausted(_)
        | DataFusionError::ObjectStore(_)
        | DataFusionError::ParquetError(_)
        | DataFusionError::IoError(_)
        | DataFusionError::External(_)
        | DataFusionError::ExecutionJoin(_)
        | DataFusionError::Internal(_) => false,
        _ => true,
    };
    match root(&error) {
        DataFusionError::ResourcesExhausted(text) if !on_cluster => Error::Engine(too_little(text)),
        _ if is_querys => Error::Query(explained(query, &error)),
        _ => error.into(),
    }
}

/// What to do where memory is not enough: the engine only says who had it.
fn too_little(text: &str) -> String {
    let what = text.split(" with top memory consumers").next().unwrap_or(text);
    format!(
        "--memory is too little for it: sorts and groups go to disk, joins do not; ask for a part of the time (WHERE time ...), \
         or allow more: {}",
        in_a_line(what)
    )
}

/// Whether it is about what was to be computed, and not about where rows come from or go.
fn is_about_values(error: &ArrowError) -> bool {
    !matches!(
        error,
        ArrowError::ExternalError(_)
            | ArrowError::IoError(..)
            | ArrowError::IpcError(_)
            | ArrowError::MemoryError(_)
            | ArrowError::ParquetError(_)
            | ArrowError::CDataInterface(_)
    )
}

/// An error of the engine as somebody who wrote the query would put it.
pub(super) fn explained(query: &str, error: &DataFusionError) -> String {
    let place = error.diagnostic().and_then(|diagnostic| diagnostic.span);
    let place = place.map(|span| (span.start.line, span.start.column));
    match root(error) {
        DataFusionError::SQL(error, _) => match error.as_ref() {
            ParserError::TokenizerError(text) | ParserError::ParserError(text) => syntax(text),
            ParserError::RecursionLimitExceeded => {
                "query: it is nested too deeply; take parts of it out with WITH".to_owned()
            }
        },
        DataFusionError::SchemaError(error, _) => match error.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => {
                let place = place.or_else(|| find(query, &field.name));
                let elsewhere = valid_fields.iter().find(|one| one.name == field.name);
                if let Some(known) = elsewhere.filter(|_| field.relation.is_some()) {
                    let (named, known) = (field.flat_name(), known.flat_name());
                    return format!("{}no column {named}; did you mean {known}?", shown(place));
                }
                let known: Vec<&str> = valid_fields.iter().map(|one| one.name.as_str()).collect();
                let hint = hint(&field.name, known.iter().copied());
                format!("{}no column \"{}\"; {hint}", shown(place), field.name)
            }
            SchemaError::AmbiguousReference { field } => {
                let place = place.or_else(|| find(query, &field.name));
                let name = &field.name;
                format!(
                    "{}column \"{name}\" is in several tables here; say which: table.{name}",
                    shown(place)
                )
            }
            other => format!("{}{other}", shown(place)),
        },
        other => format!("{}{}", shown(place), in_a_line(&other.message())),
    }
}

/// The engine's own words as ours are: in a line, and without a capital at its beginning.
fn in_a_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(lower).collect::<Vec<_>>().join("; ")
}

/// A table that is not there.
pub(super) fn no_table(query: &str, name: &str, known: &[String]) -> String {
    let place = shown(find(query, name));
    let hint = hint(name, known.iter().map(String::as_str));
    format!("{place}no table \"{name}\"; {hint}")
}

/// What is beneath contexts.
fn root(error: &DataFusionError) -> &DataFusionError {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => root(inner),
        DataFusionError::Shared(inner) => root(inner),
        DataFusionError::Collection(all) => all.first().map_or(error, root),
        DataFusionError::ArrowError(inner, _) => match inner.as_ref() {
            ArrowError::ExternalError(inner) => inner.downcast_ref().map_or(error, root),
            _ => error,
        },
        DataFusionError::External(inner) => inner.downcast_ref().map_or(error, root),
        other => other,
    }
}

fn shown(place: Option<(u64, u64)>) -> String {
    place.map_or("query: ".to_owned(), |(line, column)| format!("query:{line}:{column}: "))
}

/// The parser puts the place at the end of its sentence.
fn syntax(text: &str) -> String {
    let Some((what, place)) = text.rsplit_once(" at Line: ") else {
        return format!("query: {}", lower(text));
    };
    let place = place.replace(", Column: ", ":");
    format!("query:{place}: {}", lower(what))
}

fn lower(text: &str) -> String {
    let text = text.trim_end_matches('.');
    let mut rest = text.chars();
    rest.next().map_or(String::new(), |first| first.to_lowercase().chain(rest).collect())
}

/// Where a word stands in a query, from 1.
fn find(query: &str, word: &str) -> Option<(u64, u64)> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    // Letters may have other lengths in lower case.
    let word = word.to_lowercase();
    for (line, text) in query.lines().enumerate() {
        let lowered = text.to_lowercase();
        for (at, _) in lowered.match_indices(&word) {
            let before = lowered[..at].chars().next_back();
            let after = lowered[at + word.len()..].chars().next();
            if !before.is_some_and(is_part) && !after.is_some_and(is_part) {
                let column = lowered[..at].chars().count() as u64 + 1;
                return Some((line as u64 + 1, column));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_where_it_stands_alone() {
        assert_eq!(find("select pids,\n pid from x", "pid"), Some((2, 2)));
        assert_eq!(find("select 1", "pid"), None);
        assert_eq!(find("Ümlaut, pid", "PID"), Some((1, 9)));
        assert_eq!(find("SELECT * FROM ẞ", "ẞ"), Some((1, 15)));
    }

    #[test]
    fn a_file_memory_or_a_machine_that_fails_is_not_the_querys_fault() {
        let gone = || DataFusionError::IoError(std::io::ErrorKind::NotFound.into());
        let full = DataFusionError::ResourcesExhausted("4 MiB".to_owned()).context("sorting");
        let lost = || DataFusionError::External("connection refused".into());
        let cut_off = ArrowError::IpcError("end of stream".to_owned());
        let below = ArrowError::ExternalError(Box::new(gone()));
        let below = DataFusionError::ArrowError(Box::new(below), None);
        let cut_off = DataFusionError::ArrowError(Box::new(cut_off), None);
        for error in [gone(), full, lost(), cut_off, below] {
            let whose = whose("SELECT 1", error, false);
            assert!(matches!(whose, Error::Engine(_)), "{whose:?}");
        }
        let wrong = || DataFusionError::Execution("no such function here".to_owned());
        let divided = || DataFusionError::ArrowError(Box::new(ArrowError::DivideByZero), None);
        for error in [wrong(), divided(), DataFusionError::External(Box::new(divided()))] {
            let whose = whose("SELECT 1", error, false);
            assert!(matches!(whose, Error::Query(_)), "{whose:?}");
        }
        // An executor that is lost is told so by the scheduler.
        for error in [wrong(), divided()] {
            let whose = whose("SELECT 1", error, true);
            assert!(matches!(whose, Error::Engine(_)), "{whose:?}");
        }
        let unknown = DataFusionError::Plan("no such function".to_owned());
        assert!(matches!(whose("SELECT 1", unknown, true), Error::Query(_)));
    }

    #[test]
    fn what_the_engine_says_in_lines_is_told_in_one() {
        let said = "Invalid function 'summ'.\nDid you mean 'sum'?";
        assert_eq!(in_a_line(said), "invalid function 'summ'; did you mean 'sum'?");
    }

    #[test]
    fn a_fault_of_syntax_opens_with_its_place() {
        let said = syntax("Expected: an expression, found: FROM at Line: 1, Column: 8");
        assert_eq!(said, "query:1:8: expected: an expression, found: FROM");
    }
}
