//! What is wrong with a query, where, and what may have been meant.

use crosstalk_settings::document::hint;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;

/// An error of the engine as somebody who wrote the query would put it.
pub(super) fn told(query: &str, error: &DataFusionError) -> String {
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
        other => format!("{}{}", shown(place), other.message()),
    }
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
    for (line, text) in query.lines().enumerate() {
        let lowered = text.to_lowercase();
        for (at, _) in lowered.match_indices(&word.to_lowercase()) {
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
    }

    #[test]
    fn a_fault_of_syntax_opens_with_its_place() {
        let said = syntax("Expected: an expression, found: FROM at Line: 1, Column: 8");
        assert_eq!(said, "query:1:8: expected: an expression, found: FROM");
    }
}
