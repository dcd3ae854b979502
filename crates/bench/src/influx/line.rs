//! The line protocol.

use std::fmt::Write;

/// A line being put together; what is absent has no field.
///
/// ```
/// use crosstalk_bench::influx::Line;
///
/// let mut line = Line::new("m", &[("name", "a b"), ("image", "")]);
/// line.int("cpu", Some(3)).int("gone", None).float("ipc", Some(0.5)).text("why", "say \"x\"");
/// assert_eq!(line.at(7).as_deref(), Some("m,name=a\\ b cpu=3i,ipc=0.5,why=\"say \\\"x\\\"\" 7"));
/// assert_eq!(Line::new("m", &[]).at(7), None);
/// ```
#[derive(Clone, Debug)]
pub struct Line {
    head: String,
    fields: String,
}

impl Line {
    /// A line of a measurement with these tags; empty ones are left out, as the protocol wants it.
    pub fn new(measurement: &str, tags: &[(&str, &str)]) -> Self {
        let mut head = measurement.to_owned();
        for (key, value) in tags.iter().filter(|(_, value)| !value.is_empty()) {
            head.push(',');
            head += key;
            head.push('=');
            for letter in value.chars() {
                match letter {
                    ',' | '=' | ' ' => head.extend(['\\', letter]),
                    '\n' | '\r' => head.push('_'),
                    _ => head.push(letter),
                }
            }
        }
        Self { head, fields: String::new() }
    }

    fn field(&mut self, key: &str) -> &mut String {
        if !self.fields.is_empty() {
            self.fields.push(',');
        }
        self.fields += key;
        self.fields.push('=');
        &mut self.fields
    }

    /// A whole number.
    pub fn int(&mut self, key: &str, value: Option<u64>) -> &mut Self {
        if let Some(value) = value {
            let _ = write!(self.field(key), "{}i", i64::try_from(value).unwrap_or(i64::MAX));
        }
        self
    }

    /// A number.
    pub fn float(&mut self, key: &str, value: Option<f64>) -> &mut Self {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            let _ = write!(self.field(key), "{value}");
        }
        self
    }

    /// A text.
    pub fn text(&mut self, key: &str, value: &str) -> &mut Self {
        let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
        let _ = write!(self.field(key), "\"{escaped}\"");
        self
    }

    /// A text that may be absent.
    pub fn maybe_text(&mut self, key: &str, value: Option<&str>) -> &mut Self {
        match value {
            Some(value) => self.text(key, value),
            None => self,
        }
    }

    /// The line at this time, Unix nanoseconds; `None` when it says nothing.
    pub fn at(&self, unix_ns: u64) -> Option<String> {
        (!self.fields.is_empty()).then(|| format!("{} {} {unix_ns}", self.head, self.fields))
    }
}
