//! The Prometheus text format.

use std::fmt::Write;

use super::counter::{Counter, CounterBy};

/// Type of a family.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
    Summary,
}

/// A page of metrics while it is written.
#[derive(Debug, Default)]
pub(crate) struct Page(String);

impl Page {
    pub(crate) fn family(&mut self, name: &str, help: &str, kind: Kind) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Summary => "summary",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.0.push_str(name);
        for (place, (label, text)) in labels.iter().enumerate() {
            self.0.push(if place == 0 { '{' } else { ',' });
            let _ = write!(self.0, "{label}=\"{}\"", escaped(text));
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = match value {
            v if v == f64::INFINITY => writeln!(self.0, " +Inf"),
            v => writeln!(self.0, " {v}"),
        };
    }

    pub(crate) fn counter(&mut self, name: &str, help: &str, counter: &Counter) {
        self.family(name, help, Kind::Counter);
        self.sample(name, &[], counter.get() as f64);
    }

    pub(crate) fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.family(name, help, Kind::Gauge);
        self.sample(name, &[], value);
    }

    pub(crate) fn by<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        labels: [&str; N],
        family: &CounterBy<N>,
    ) {
        self.family(name, help, Kind::Counter);
        for (values, count) in family.all() {
            let pairs: Vec<(&str, &str)> =
                labels.iter().copied().zip(values.iter().map(String::as_str)).collect();
            self.sample(name, &pairs, count as f64);
        }
    }

    pub(crate) fn finish(self) -> String {
        self.0
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_escaped() {
        let mut page = Page::default();
        page.sample("m", &[("a", "x\"\\\n"), ("b", "y")], 1.5);
        assert_eq!(page.finish(), "m{a=\"x\\\"\\\\\\n\",b=\"y\"} 1.5\n");
    }
}
