//! TOML, YAML and JSON into one tree with lines.

use crate::error::SettingsError;
use crate::tree::{Entry, Node, Place, Value};
use saphyr::{LoadableYamlNode, MarkedYaml, Scalar, YamlData};
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Format {
    Toml,
    Yaml,
    Json,
}

/// By the ending of the name; without one that says it, by the text: JSON begins with a brace, and in TOML the first
/// line that says something is a table's head or has an equals sign before any colon.
fn format(name: &str, text: &str) -> Format {
    match Path::new(name).extension().and_then(|ending| ending.to_str()) {
        Some("toml") => return Format::Toml,
        Some("yaml" | "yml") => return Format::Yaml,
        Some("json") => return Format::Json,
        _ => {}
    }
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or_default();
    let equals = first.find('=').unwrap_or(usize::MAX);
    match first.as_bytes().first() {
        Some(b'{') => Format::Json,
        None | Some(b'[') => Format::Toml,
        _ if equals < first.find(':').unwrap_or(usize::MAX) => Format::Toml,
        _ => Format::Yaml,
    }
}

/// Reads a text; `name` stands in errors and says the format.
///
/// # Errors
/// It is none of the format.
pub fn read(name: &str, text: &str) -> Result<Node, SettingsError> {
    match format(name, text) {
        Format::Toml => toml(name, text),
        Format::Yaml => yaml(name, text),
        Format::Json => {
            // Told by JSON's own rules first: YAML, of which it is a part, takes more.
            serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|error| {
                SettingsError::invalid(format!("{name}:{}", error.line()), error.to_string())
            })?;
            yaml(name, text)
        }
    }
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

fn toml(name: &str, text: &str) -> Result<Node, SettingsError> {
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_at(text, span.start));
        SettingsError::invalid(format!("{name}:{line}"), error.message())
    })?;
    Ok(Node::new(&Place::Line(1), toml_table(table.get_ref(), text)))
}

fn toml_table(table: &DeTable<'_>, text: &str) -> Value {
    let line = |span: std::ops::Range<usize>| Place::Line(line_at(text, span.start));
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            place: line(key.span()),
            node: toml_node(value, text),
        })
        .collect();
    // In the order of the file, so that the first mistake is told first.
    entries.sort_by_key(|entry| match entry.place {
        Place::Line(line) => line,
        Place::Named(_) => 0,
    });
    Value::Table(entries)
}

fn toml_node(value: &Spanned<DeValue<'_>>, text: &str) -> Node {
    let place = Place::Line(line_at(text, value.span().start));
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Value::Text(number.to_string()), Value::Integer),
        DeValue::Float(number) => {
            number.as_str().parse().map_or_else(|_| Value::Text(number.to_string()), Value::Float)
        }
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(date) => Value::Text(date.to_string()),
        DeValue::Array(items) => {
            Value::List(items.iter().map(|item| toml_node(item, text)).collect())
        }
        DeValue::Table(table) => toml_table(table, text),
    };
    Node { place, value }
}

/// One value as TOML writes it, else nothing: `7`, `true`, `["a"]`, `{a = 1}`, `"text"`.
pub(crate) fn toml_value(text: &str, place: &Place) -> Option<Node> {
    let text = format!("value = {text}");
    let table = DeTable::parse(&text).ok()?;
    let mut entries = table.get_ref().iter();
    let (Some((_, value)), None) = (entries.next(), entries.next()) else { return None };
    let mut node = toml_node(value, &text);
    node.put_at(place);
    Some(node)
}

impl Node {
    /// Says of the node and all below it where they were written.
    fn put_at(&mut self, place: &Place) {
        self.place = place.clone();
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|item| item.put_at(place)),
            Value::Table(entries) => entries.iter_mut().for_each(|entry| {
                entry.place = place.clone();
                entry.node.put_at(place);
            }),
            _ => {}
        }
    }
}

fn yaml(name: &str, text: &str) -> Result<Node, SettingsError> {
    let invalid = |line: usize, what: &str| SettingsError::invalid(format!("{name}:{line}"), what);
    let documents = MarkedYaml::load_from_str(text)
        .map_err(|error| invalid(error.marker().line(), error.info()))?;
    match &documents[..] {
        [] => Ok(Node::empty()),
        [document] => match yaml_node(document).map_err(|(line, what)| invalid(line, what))? {
            Node { value: Value::Null, .. } => Ok(Node::empty()),
            node => Ok(node),
        },
        [_, second, ..] => Err(invalid(second.span.start.line(), "one document is enough")),
    }
}

fn yaml_node(node: &MarkedYaml<'_>) -> Result<Node, (usize, &'static str)> {
    let line = node.span.start.line();
    let value = match &node.data {
        YamlData::Value(Scalar::Null) => Value::Null,
        YamlData::Value(Scalar::Boolean(value)) => Value::Bool(*value),
        YamlData::Value(Scalar::Integer(value)) => Value::Integer(*value),
        YamlData::Value(Scalar::FloatingPoint(value)) => Value::Float(value.into_inner()),
        YamlData::Value(Scalar::String(text)) => Value::Text(text.to_string()),
        YamlData::Sequence(items) => {
            Value::List(items.iter().map(yaml_node).collect::<Result<_, _>>()?)
        }
        YamlData::Mapping(table) => {
            let entry = |(key, node): (&MarkedYaml<'_>, &MarkedYaml<'_>)| {
                let line = key.span.start.line();
                let YamlData::Value(Scalar::String(name)) = &key.data else {
                    return Err((line, "a key must be text"));
                };
                let (key, place) = (name.to_string(), Place::Line(line));
                Ok(Entry { key, place, node: yaml_node(node)? })
            };
            Value::Table(table.iter().map(entry).collect::<Result<_, _>>()?)
        }
        _ => return Err((line, "tags and unknown anchors have no meaning here")),
    };
    Ok(Node { place: Place::Line(line), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_known_by_its_ending_or_by_its_text() {
        assert_eq!(format("a.yml", "a = 1"), Format::Yaml);
        for (text, expected) in [
            ("", Format::Toml),
            ("# only a comment", Format::Toml),
            ("# a: b\n[table]\n", Format::Toml),
            ("url = \"http://x\"", Format::Toml),
            ("url: http://x/?a=b", Format::Yaml),
            ("---\na: 1", Format::Yaml),
            ("\n {\"a\": 1}", Format::Json),
        ] {
            assert_eq!(format("/etc/crosstalk/config", text), expected, "{text}");
        }
    }

    #[test]
    fn a_syntax_error_has_its_line_in_every_format() {
        for (name, text) in [
            ("a.toml", "a = 1\nb = = 2\n"),
            ("a.yaml", "a: 1\nb: [1, 2\n"),
            ("a.json", "{\"a\": 1,\n \"b\" 2}"),
            ("a.json", "{\n a: 1}"),
        ] {
            let error = read(name, text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{name}:")), "{error}");
            assert!(error[name.len() + 1..].starts_with(['2', '3']), "{error}");
        }
    }

    #[test]
    fn json_may_be_indented_with_tabs() {
        let node =
            read("a.json", "{\n\t\"a\": {\n\t\t\"b\": [1, 2.5, null, \"x\"]\n\t}\n}\n").unwrap();
        assert_eq!(node.place_of("a.b"), (Place::Line(3), true));
    }
}
