//! `${NAME}` in an experiment's file, from the environment and `.env`.
//!
//! The places are marked before the text is parsed and filled after, so that a value can hold anything without
//! changing what the file says, and what stands in a comment is nobody's variable.

use crosstalk_settings::document::{Node, Place, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// Characters that no file has, and YAML takes as letters.
const OPEN: char = '\u{E000}';
const CLOSE: char = '\u{E001}';

/// What variables there are.
#[derive(Clone, Debug, Default)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Those of this process, over those in a file `.env` beside the experiment, over those in one where this process is.
    pub fn beside(experiment: &Path) -> Self {
        let folder = experiment.parent().unwrap_or(Path::new("."));
        let own = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Self::in_folders([Path::new(""), folder]).with(own)
    }

    /// Those in files `.env`, the last folder's over those before.
    fn in_folders<const N: usize>(folders: [&Path; N]) -> Self {
        let texts = folders.map(|folder| std::fs::read_to_string(folder.join(".env")));
        let files = texts.into_iter().flatten().map(|text| Self::from_env_file(&text));
        files.fold(Self::default(), |all, file| all.with(file.0))
    }

    /// Lines of `NAME=value`, the value perhaps in quotes, `export` before it or not.
    pub fn from_env_file(text: &str) -> Self {
        let pair = |line: &str| {
            let line = line.trim();
            let line = line.strip_prefix("export ").unwrap_or(line);
            let (name, value) = line.split_once('=')?;
            let (name, value) = (name.trim(), value.trim());
            let quoted = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
            let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
            is_name(name).then(|| (name.to_owned(), value.to_owned()))
        };
        Self(
            text.lines()
                .filter(|line| !line.trim_start().starts_with('#'))
                .filter_map(pair)
                .collect(),
        )
    }

    /// With these over those there are.
    #[must_use]
    pub fn with(mut self, more: impl IntoIterator<Item = (String, String)>) -> Self {
        self.0.extend(more);
        self
    }

    /// Fills every marked place below `node`; tells the line and name of each that is not set.
    pub(super) fn fill(&self, node: &mut Node, unset: &mut Vec<(usize, String)>) {
        let line = match node.place {
            Place::Line(line) => line,
            Place::Named(_) => 0,
        };
        match &mut node.value {
            Value::Text(text) if text.contains(OPEN) => {
                *text = self.filled(text, |name| unset.push((line, name.to_owned())));
            }
            Value::List(items) => items.iter_mut().for_each(|item| self.fill(item, unset)),
            Value::Table(entries) => {
                entries.iter_mut().for_each(|entry| self.fill(&mut entry.node, unset));
            }
            _ => {}
        }
    }

    fn filled(&self, text: &str, mut unset: impl FnMut(&str)) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPEN) {
            let Some((name, after)) = after.split_once(CLOSE) else { break };
            filled += before;
            match self.0.get(name) {
                Some(value) => filled += value,
                None => unset(name),
            }
            rest = after;
        }
        filled + rest
    }
}

/// Writes every marked place below `node` as it stands in the file.
pub(super) fn unmark(node: &mut Node) {
    match &mut node.value {
        Value::Text(text) if text.contains(OPEN) => {
            *text = text.replace(OPEN, "${").replace(CLOSE, "}");
        }
        Value::List(items) => items.iter_mut().for_each(unmark),
        Value::Table(entries) => entries.iter_mut().for_each(|entry| unmark(&mut entry.node)),
        _ => {}
    }
}

fn is_name(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.bytes().all(word) && text.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

/// Marks every `${NAME}`; lines stay where they are.
pub(super) fn mark(text: &str) -> String {
    let mut marked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        marked += before;
        match after.split_once('}') {
            Some((name, after)) if is_name(name) => {
                marked.push(OPEN);
                marked += name;
                marked.push(CLOSE);
                rest = after;
            }
            _ => {
                marked += "${";
                rest = after;
            }
        }
    }
    marked + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_settings::document::read;

    #[test]
    fn a_value_can_hold_anything_and_a_comment_nothing() {
        let text = "a: {host: ${HOST}, b: \"x-${HOST}\"} # ${NOT}\nc: ${MISSING}\n";
        let mut node = read("e.yaml", &mark(text)).unwrap();
        let variables = Variables::default().with([("HOST".to_owned(), "a: }'\"#".to_owned())]);
        let mut unset = Vec::new();
        variables.fill(&mut node, &mut unset);
        assert_eq!(unset, [(2, "MISSING".to_owned())]);
        let Value::Table(top) = &node.value else { panic!() };
        let Value::Table(inner) = &top[0].node.value else { panic!() };
        assert!(matches!(&inner[0].node.value, Value::Text(text) if text == "a: }'\"#"));
        assert!(matches!(&inner[1].node.value, Value::Text(text) if text == "x-a: }'\"#"));
    }

    #[test]
    fn files_where_the_driver_is_and_beside_the_experiment_are_both_read() {
        let [here, beside] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        std::fs::write(here.path().join(".env"), "A=here\nB=here\n").unwrap();
        std::fs::write(beside.path().join(".env"), "B=beside\n").unwrap();
        let nowhere = Path::new("/nonexistent");
        let variables = Variables::in_folders([nowhere, here.path(), beside.path()]);
        let all: Vec<_> = variables.0.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(all, [("A", "here"), ("B", "beside")]);
    }

    #[test]
    fn a_file_of_variables_is_read_as_shells_write_them() {
        let file = "# A=no\nexport A=1\nB = \"two words\"\nC='x'\n9=bad\nnothing\n";
        let variables = Variables::from_env_file(file).with([("A".to_owned(), "own".to_owned())]);
        let all: Vec<_> = variables.0.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(all, [("A", "own"), ("B", "two words"), ("C", "x")]);
    }
}
