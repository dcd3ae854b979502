//! Prometheus text by `prometheus-client`, in both formats that scrapers ask for.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt;

/// Which text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `text/plain; version=0.0.4`, which every scraper reads.
    Classic,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The format a scraper asks for; `None` if it is not one that asks.
    #[must_use]
    pub fn asked(headers: &HeaderMap) -> Option<Self> {
        let accept = headers.get(ACCEPT)?.to_str().ok()?;
        if accept.contains("application/openmetrics-text") {
            return Some(Self::OpenMetrics);
        }
        let classic = |kind: &str| {
            kind.trim_start().starts_with("text/plain") && kind.contains("version=0.0.4")
        };
        accept.split(',').any(classic).then_some(Self::Classic)
    }

    /// As the Content-Type says it.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Everything the collectors tell. `summaries` is text of our own, the same in both formats: `prometheus-client` has no
/// type for a summary.
pub fn exposition(
    format: Format,
    collectors: impl IntoIterator<Item = Box<dyn Collector>>,
    summaries: &str,
) -> String {
    let mut registry = Registry::default();
    for collector in collectors {
        registry.register_collector(collector);
    }
    let mut text = String::with_capacity(16 * 1024);
    // Writing to a String cannot fail.
    let _ = encode_registry(&mut text, &registry);
    match format {
        Format::Classic => classic(&text) + summaries,
        Format::OpenMetrics => {
            text.push_str(summaries);
            let _ = encode_eof(&mut text);
            text
        }
    }
}

/// OpenMetrics as version 0.0.4 has it: a counter's family is called as its samples are, a family without a type that
/// OpenMetrics knows ([`Families::plain_counter`]) is a counter, and a whole bound has no fraction.
fn classic(open: &str) -> String {
    let mut text = String::with_capacity(open.len() + 1024);
    let mut lines = open.lines().peekable();
    while let Some(line) = lines.next() {
        let total = |kind: &str| if kind == "counter" { "_total" } else { "" };
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|l| l.split_once(' ')) {
            let kind = lines.peek().and_then(|next| next.rsplit_once(' ')).map_or("", |t| t.1);
            text.push_str(&format!("# HELP {name}{} {help}\n", total(kind)));
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|l| l.split_once(' '))
        {
            let shown = if kind == "unknown" { "counter" } else { kind };
            text.push_str(&format!("# TYPE {name}{} {shown}\n", total(kind)));
        } else if !line.starts_with('#') {
            match line.split_once(".0\"").filter(|(before, _)| is_bound(before)) {
                Some((before, after)) => text.push_str(&format!("{before}\"{after}\n")),
                None => text.extend([line, "\n"]),
            }
        }
    }
    text
}

/// Whether a line so far ends within the whole number of an `le` label: the first label of a bucket.
fn is_bound(before: &str) -> bool {
    let number = before.split_once("_bucket{le=\"").map_or("", |(_, number)| number);
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Labels of a sample, in order.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// Writes families one after the other.
#[derive(Debug)]
pub struct Families<'a>(DescriptorEncoder<'a>);

impl<'a> Families<'a> {
    /// Within a collector.
    #[must_use]
    pub fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Self(encoder)
    }

    /// A family of gauges, begun; samples are written with [`Family::gauge`].
    ///
    /// # Errors
    /// As all of these: if the text cannot be written.
    pub fn gauges<'s>(&'s mut self, name: &'s str, help: &str) -> Result<Family<'s>, fmt::Error> {
        Ok(Family(self.0.encode_descriptor(name, help, None, MetricType::Gauge)?))
    }

    /// A family of counters; `name` has no `_total`.
    ///
    /// # Errors
    /// See [`Families::gauges`].
    pub fn counters<'s>(&'s mut self, name: &'s str, help: &str) -> Result<Family<'s>, fmt::Error> {
        Ok(Family(self.0.encode_descriptor(name, help, None, MetricType::Counter)?))
    }

    /// A family of counters whose name existing dashboards fix, without `_total`, which OpenMetrics does not allow: there
    /// its type is unknown.
    ///
    /// # Errors
    /// See [`Families::gauges`].
    pub fn plain_counter<'s>(
        &'s mut self,
        name: &'s str,
        help: &str,
    ) -> Result<Family<'s>, fmt::Error> {
        Ok(Family(self.0.encode_descriptor(name, help, None, MetricType::Unknown)?))
    }

    /// A family of histograms.
    ///
    /// # Errors
    /// See [`Families::gauges`].
    pub fn histograms<'s>(
        &'s mut self,
        name: &'s str,
        help: &str,
    ) -> Result<Family<'s>, fmt::Error> {
        Ok(Family(self.0.encode_descriptor(name, help, None, MetricType::Histogram)?))
    }

    /// One gauge without labels.
    ///
    /// # Errors
    /// See [`Families::gauges`].
    pub fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.gauges(name, help)?.gauge(&[], value)
    }

    /// One counter without labels.
    ///
    /// # Errors
    /// See [`Families::gauges`].
    pub fn counter(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.counters(name, help)?.counter(&[], value)
    }
}

/// Samples of one family.
#[derive(Debug)]
pub struct Family<'a>(MetricEncoder<'a>);

/// The count, if a value is one: written without a fraction.
fn whole(value: f64) -> Option<u64> {
    (value.fract() == 0.0 && (0.0..9e15).contains(&value)).then_some(value as u64)
}

impl Family<'_> {
    /// A sample of a gauge, or of a plain counter.
    ///
    /// # Errors
    /// See [`Families::gauges`].
    pub fn gauge(&mut self, labels: Labels<'_>, value: f64) -> fmt::Result {
        let write = |mut encoder: MetricEncoder<'_>| match whole(value) {
            Some(count) => encoder.encode_gauge(&count),
            None => encoder.encode_gauge(&value),
        };
        if labels.is_empty() {
            return match whole(value) {
                Some(count) => self.0.encode_gauge(&count),
                None => self.0.encode_gauge(&value),
            };
        }
        write(self.0.encode_family(&labels)?)
    }

    /// A sample of a counter.
    ///
    /// # Errors
    /// See [`Families::gauges`].
    pub fn counter(&mut self, labels: Labels<'_>, value: f64) -> fmt::Result {
        fn write(encoder: &mut MetricEncoder<'_>, value: f64) -> fmt::Result {
            match whole(value) {
                Some(count) => encoder.encode_counter::<NoLabelSet, _, u64>(&count, None),
                None => encoder.encode_counter::<NoLabelSet, _, u64>(&value, None),
            }
        }
        if labels.is_empty() {
            return write(&mut self.0, value);
        }
        write(&mut self.0.encode_family(&labels)?, value)
    }

    /// A histogram: upper bounds, the last of which is infinite, with the count of each bucket alone.
    ///
    /// # Errors
    /// See [`Families::gauges`].
    pub fn histogram(
        &mut self,
        labels: Labels<'_>,
        sum: f64,
        buckets: &[(f64, u64)],
    ) -> fmt::Result {
        let count = buckets.iter().map(|(_, count)| count).sum();
        let mut encoder = self.0.encode_family(&labels)?;
        encoder.encode_histogram::<NoLabelSet>(sum, count, buckets, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Example;

    impl Collector for Example {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let mut families = Families::new(encoder);
            families.counters("a_seconds", "Help.")?.counter(&[("name", "a\"b\\c\nd")], 1.5)?;
            families.gauge("b", "Help of b.", 7.0)?;
            families.plain_counter("c_count", "Help of c.")?.gauge(&[("le", "3.0")], 2.0)?;
            let buckets = [(0.5, 1), (1.0, 2), (f64::INFINITY, 3)];
            families.histograms("d", "Help of d.")?.histogram(&[("x", "1.0")], 9.5, &buckets)
        }
    }

    #[test]
    fn the_two_formats_differ_where_their_rules_do() {
        let text = |format| exposition(format, [Box::new(Example) as _], "s 1\n");
        assert_eq!(
            text(Format::Classic),
            "# HELP a_seconds_total Help.\n# TYPE a_seconds_total counter\n\
             a_seconds_total{name=\"a\\\"b\\\\c\\nd\"} 1.5\n\
             # HELP b Help of b.\n# TYPE b gauge\nb 7\n\
             # HELP c_count Help of c.\n# TYPE c_count counter\nc_count{le=\"3.0\"} 2\n\
             # HELP d Help of d.\n# TYPE d histogram\nd_sum{x=\"1.0\"} 9.5\nd_count{x=\"1.0\"} 6\n\
             d_bucket{le=\"0.5\",x=\"1.0\"} 1\nd_bucket{le=\"1\",x=\"1.0\"} 3\n\
             d_bucket{le=\"+Inf\",x=\"1.0\"} 6\ns 1\n"
        );
        let open = text(Format::OpenMetrics);
        assert!(open.contains("# TYPE a_seconds counter\na_seconds_total{"), "{open}");
        assert!(open.contains("# TYPE c_count unknown\nc_count{"), "{open}");
        assert!(open.contains("le=\"1.0\"") && open.ends_with("s 1\n# EOF\n"), "{open}");
    }

    #[test]
    fn a_scraper_gets_the_format_it_asks_for() {
        let asked = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            Format::asked(&headers)
        };
        let prometheus =
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
        assert_eq!(asked(prometheus), Some(Format::OpenMetrics));
        assert_eq!(asked("text/plain;version=0.0.4;q=0.5,*/*;q=0.1"), Some(Format::Classic));
        assert_eq!(asked("text/plain"), None);
        assert_eq!(asked("*/*"), None);
    }
}
