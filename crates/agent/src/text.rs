//! Prometheus text, classic (0.0.4) and OpenMetrics (1.0.0).

use std::fmt::Write;

/// Which of the two formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Classic,
    OpenMetrics,
}

impl Format {
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Writes families one after the other.
pub(crate) struct Text {
    format: Format,
    out: String,
}

/// Labels of a sample, in order.
pub(crate) type Pairs<'a> = &'a [(&'a str, &'a str)];

impl Text {
    pub(crate) fn new(format: Format) -> Self {
        Self { format, out: String::with_capacity(16 * 1024) }
    }

    pub(crate) fn gauge(&mut self, family: &str, help: &str) {
        self.head(family, "gauge", help);
    }

    /// A sum; its samples are called `family` and `_total`. OpenMetrics leaves that out of the
    /// family's name, the classic format does not.
    pub(crate) fn counter(&mut self, family: &str, help: &str) {
        match self.format {
            Format::OpenMetrics => self.head(family, "counter", help),
            Format::Classic => self.head(&format!("{family}_total"), "counter", help),
        }
    }

    pub(crate) fn histogram(&mut self, family: &str, help: &str) {
        self.head(family, "histogram", help);
    }

    fn head(&mut self, family: &str, kind: &str, help: &str) {
        let _ = writeln!(self.out, "# HELP {family} {}", escaped(help, false));
        let _ = writeln!(self.out, "# TYPE {family} {kind}");
    }

    pub(crate) fn sample(&mut self, name: &str, labels: Pairs<'_>, value: f64) {
        self.out.push_str(name);
        for (at, (key, value)) in labels.iter().enumerate() {
            self.out.push(if at == 0 { '{' } else { ',' });
            let _ = write!(self.out, "{key}=\"{}\"", escaped(value, true));
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        let _ = writeln!(self.out, " {value}");
    }

    pub(crate) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }
}

fn escaped(text: &str, quotes: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(format: Format) -> String {
        let mut text = Text::new(format);
        text.counter("a_seconds", "Help with\nnew line.");
        text.sample("a_seconds_total", &[("name", "a\"b\\c\nd")], 1.5);
        text.finish()
    }

    #[test]
    fn the_two_formats_differ_where_their_rules_do() {
        assert_eq!(
            example(Format::Classic),
            "# HELP a_seconds_total Help with\\nnew line.\n# TYPE a_seconds_total counter\n\
             a_seconds_total{name=\"a\\\"b\\\\c\\nd\"} 1.5\n"
        );
        let open = example(Format::OpenMetrics);
        assert!(open.contains("# TYPE a_seconds counter\n") && open.ends_with("# EOF\n"), "{open}");
    }
}
