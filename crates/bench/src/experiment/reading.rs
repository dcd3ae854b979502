//! Typed values out of a tree, with every mistake kept.

use crosstalk_settings::Period;
use crosstalk_settings::document::{Entry, Node, Place, Value, hint};
use std::cell::RefCell;
use std::fmt;
use std::time::Duration;

/// Something wrong with an experiment's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The line it is in, if it is in one.
    pub line: Option<usize>,
    /// What is wrong, and what would be right.
    pub what: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.line.map_or(Ok(()), |line| write!(f, "{line}: "))?;
        f.write_str(&self.what)
    }
}

/// Mistakes so far.
pub(super) struct Reading(RefCell<Vec<Mistake>>);

impl Reading {
    pub(super) const fn new() -> Self {
        Self(RefCell::new(Vec::new()))
    }

    pub(super) fn wrong(&self, line: usize, what: String) {
        self.0.borrow_mut().push(Mistake { line: Some(line), what });
    }

    /// The table that a node must be; one that is none is told and read as empty.
    pub(super) fn table<'a>(&'a self, node: &'a Node, path: &str) -> Table<'a> {
        let entries: &[Entry] = match &node.value {
            Value::Table(entries) => entries,
            Value::Null => &[],
            _ => {
                self.wrong(line(&node.place), format!("{path}: must be a table"));
                &[]
            }
        };
        Table { reading: self, path: path.to_owned(), line: line(&node.place), entries }
    }

    pub(super) fn finish<T>(self, value: T) -> Result<T, Vec<Mistake>> {
        let mut mistakes = self.0.into_inner();
        mistakes.sort_by_key(|mistake| mistake.line);
        if mistakes.is_empty() { Ok(value) } else { Err(mistakes) }
    }
}

pub(super) const fn line(place: &Place) -> usize {
    match place {
        Place::Line(line) => *line,
        Place::Named(_) => 1,
    }
}

/// A table being read.
pub(super) struct Table<'a> {
    reading: &'a Reading,
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) entries: &'a [Entry],
}

impl<'a> Table<'a> {
    /// Tells every key that is none of these.
    pub(super) fn only(&self, known: &[&str]) {
        for entry in self.entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let hint = hint(&entry.key, known.iter().copied());
            self.wrong_at(line(&entry.place), &entry.key, &format!("no such key; {hint}"));
        }
    }

    pub(super) fn wrong_at(&self, line: usize, key: &str, what: &str) {
        self.reading.wrong(line, format!("{}.{key}: {what}", self.path));
    }

    pub(super) fn wrong(&self, key: &str, what: &str) {
        self.wrong_at(self.line_of(key), key, what);
    }

    /// The line of a key; of one that is not there, that of the table.
    pub(super) fn line_of(&self, key: &str) -> usize {
        let entry = self.entries.iter().find(|entry| entry.key == key);
        entry.map_or(self.line, |entry| line(&entry.place))
    }

    /// Of two names of one key, the one that is written here; both are told.
    pub(super) fn either<'k>(&self, key: &'k str, other: &'k str) -> &'k str {
        match (self.node(key), self.node(other)) {
            (Some(_), Some(_)) => {
                self.wrong(other, &format!("is the same as {key}; leave one out"));
                key
            }
            (None, Some(_)) => other,
            _ => key,
        }
    }

    /// The value of a key; nothing is as good as none.
    pub(super) fn node(&self, key: &str) -> Option<&'a Node> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        (!matches!(entry.node.value, Value::Null)).then_some(&entry.node)
    }

    pub(super) fn table(&self, key: &str) -> Option<Table<'a>> {
        Some(self.reading.table(self.node(key)?, &format!("{}.{key}", self.path)))
    }

    /// Text; a number is taken as it is written.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        match as_text(self.node(key)?) {
            Some(text) => Some(text),
            None => {
                self.wrong(key, "must be text");
                None
            }
        }
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        match &self.node(key)?.value {
            Value::Bool(value) => return Some(*value),
            Value::Text(text) if text == "true" => return Some(true),
            Value::Text(text) if text == "false" => return Some(false),
            _ => self.wrong(key, "must be true or false"),
        }
        None
    }

    pub(super) fn number(&self, key: &str) -> Option<f64> {
        let number = match &self.node(key)?.value {
            Value::Integer(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        let number = number.filter(|number: &f64| number.is_finite());
        if number.is_none() {
            self.wrong(key, "must be a number");
        }
        number
    }

    pub(super) fn whole(&self, key: &str, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
        let number = self.number(key)?;
        let whole = (number.fract() == 0.0).then_some(number as i64);
        let found = whole.filter(|number| range.contains(number));
        if found.is_none() {
            let (low, high) = range.into_inner();
            let bound = if high == i64::MAX {
                format!("{low} or more")
            } else {
                format!("{low} to {high}")
            };
            self.wrong(key, &format!("must be a whole number, {bound}"));
        }
        found
    }

    /// Seconds as a number, or a length of time such as 500ms.
    pub(super) fn seconds(&self, key: &str) -> Option<Seconds> {
        const MOST: f64 = 30.0 * 366.0 * 86_400.0;
        let node = self.node(key)?;
        if let Value::Text(text) = &node.value
            && let Ok(period) = text.parse::<Period>()
        {
            return Some(Seconds::After(period.get()));
        }
        match self.number(key)? {
            -1.0 => Some(Seconds::Never),
            number if (0.0..=MOST).contains(&number) => {
                Some(Seconds::After(Duration::from_secs_f64(number)))
            }
            _ => {
                self.wrong(key, "must be seconds, 0 or more, or -1 for never");
                None
            }
        }
    }

    /// A list of texts, or one text.
    pub(super) fn texts(&self, key: &str) -> Vec<String> {
        let Some(node) = self.node(key) else { return Vec::new() };
        let Value::List(items) = &node.value else { return self.text(key).into_iter().collect() };
        let texts: Option<Vec<String>> = items.iter().map(as_text).collect();
        texts.unwrap_or_else(|| {
            self.wrong(key, "must be a list of texts");
            Vec::new()
        })
    }
}

/// A time in seconds, of which -1 means never.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Seconds {
    After(Duration),
    Never,
}

impl Seconds {
    pub(super) fn after(self) -> Option<Duration> {
        match self {
            Self::After(after) => Some(after),
            Self::Never => None,
        }
    }
}

pub(super) fn as_text(node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}
