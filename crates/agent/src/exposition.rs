//! What Prometheus is told: the newest values of the node, containers and pods, and the agent's
//! own state and cost.

use crate::clock::monotonic_ns;
use crate::metric::{CPU_UTIL, Metric};
use crate::node::Node;
use crate::status::{SourceState, Verdict};
use crate::subjects::{Kind, Subject, SubjectKey};
use crate::text::{Format, Text};
use crosstalk_counters::OwnUsage;
use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The newest value of each metric somebody measured.
type Values = Vec<(Metric, f64)>;

impl Node {
    /// The whole text.
    pub(crate) fn exposition(&self, format: Format) -> String {
        let mut text = Text::new(format);
        self.write_node(&mut text);
        self.write_totals(&mut text);
        for kind in [Kind::Container, Kind::Pod] {
            self.write_subjects(&mut text, kind);
        }
        self.write_sources(&mut text);
        self.write_server(&mut text);
        write_process(&mut text, self.started_unix_s);
        text.finish()
    }

    /// A value older than this is not "now" any more and is left out.
    fn current(&self) -> Duration {
        self.fresh.min(self.retention)
    }

    fn write_node(&self, text: &mut Text) {
        let now_ns = monotonic_ns();
        let newest: Vec<(&SourceState, Vec<Option<f64>>)> = self
            .sources
            .iter()
            .filter_map(|s| Some((&**s, s.tape.as_ref()?.newest(now_ns, self.current()))))
            .collect();
        for metric in &self.catalog {
            let found = newest.iter().find_map(|(source, values)| {
                let at = source.metrics().iter().position(|known| known.name == metric.name)?;
                Some((source.name, values[at]?))
            });
            let Some((source, value)) = found else { continue };
            let family = format!("crosstalk_node_{}", metric.family);
            text.gauge(&family, metric.help);
            text.sample(&family, &[("source", source)], value * metric.scale);
        }
    }

    fn write_totals(&self, text: &mut Text) {
        for (total, sum) in self.sources.iter().flat_map(|source| source.totals()) {
            text.counter(total.family, total.help);
            text.sample(&format!("{}_total", total.family), &[], sum);
        }
    }

    fn write_subjects(&self, text: &mut Text, kind: Kind) {
        let now_ns = monotonic_ns();
        let mut known: HashMap<SubjectKey, (Arc<Subject>, Values)> = HashMap::new();
        for subject in self.sources.iter().flat_map(|source| source.subjects.of(kind)) {
            let values = subject.tape.newest(now_ns, self.current());
            let entry = known
                .entry(subject.key.clone())
                .or_insert_with(|| (Arc::clone(&subject), Vec::new()));
            for (metric, value) in subject.tape.metrics().iter().zip(values) {
                let first = entry.1.iter().all(|(have, _)| have.name != metric.name);
                entry.1.extend(value.filter(|_| first).map(|value| (*metric, value)));
            }
        }
        let value_of = |values: &[(Metric, f64)], metric: &Metric| {
            values.iter().find(|(have, _)| have.name == metric.name).map(|(_, value)| *value)
        };
        let used = |values: &[(Metric, f64)]| value_of(values, &CPU_UTIL).unwrap_or(-1.0);
        let mut ranked: Vec<_> = known.into_values().collect();
        ranked.sort_by(|a, b| used(&b.1).total_cmp(&used(&a.1)));
        ranked.truncate(self.prometheus_limit);
        for metric in &self.catalog {
            let mut headed = false;
            for (subject, values) in &ranked {
                let Some(value) = value_of(values, metric) else { continue };
                let family = format!("crosstalk_{}_{}", kind.name(), metric.family);
                if !headed {
                    text.gauge(&family, metric.help);
                    headed = true;
                }
                let mut labels = Vec::new();
                if let Some(id) = &subject.labels.container_id {
                    labels.push(("container_id", &**id));
                }
                if let Some(uid) = &subject.labels.pod_uid {
                    labels.push(("pod_uid", &**uid));
                }
                text.sample(&family, &labels, value * metric.scale);
            }
        }
    }

    fn write_sources(&self, text: &mut Text) {
        let now_ns = monotonic_ns();
        let mut each = |name: &str, help: &str, value: &dyn Fn(&SourceState) -> Option<f64>| {
            match name.strip_suffix("_total") {
                Some(family) => text.counter(family, help),
                None => text.gauge(name, help),
            }
            for source in &self.sources {
                if let Some(value) = value(source) {
                    text.sample(name, &[("source", source.name)], value);
                }
            }
        };
        each("crosstalk_agent_source_up", "1 while a source measures, else 0.", &|source| {
            let up = matches!(source.current().verdict, Verdict::Ok | Verdict::Limited);
            Some(f64::from(u8::from(up)))
        });
        each("crosstalk_agent_source_errors_total", "What went wrong in a source.", &|source| {
            Some(source.errors() as f64)
        });
        each("crosstalk_agent_source_restarts_total", "Restarts of a source.", &|source| {
            Some(source.restarts() as f64)
        });
        each("crosstalk_agent_buffer_samples", "Samples of the node in the buffer.", &|source| {
            source.tape.as_ref().map(|tape| tape.view().samples() as f64)
        });
        each("crosstalk_agent_buffer_capacity", "Samples the buffer has room for.", &|source| {
            source.tape.as_ref().map(|tape| tape.capacity() as f64)
        });
        let dropped = "Samples dropped before their time, or refused.";
        each("crosstalk_agent_buffer_dropped_total", dropped, &|source| {
            let counters = source.tape.as_ref()?.reader().counters();
            Some((counters.dropped_full + counters.out_of_order) as f64)
        });
        let age = "Age of the newest sample.";
        each("crosstalk_agent_newest_sample_age_seconds", age, &|source| source.age_s(now_ns));
        let turned_away = "Samples whose subject found no room.";
        each("crosstalk_agent_subjects_turned_away_total", turned_away, &|source| {
            Some(source.subjects.turned_away() as f64)
        });
        const SUBJECTS: &str = "crosstalk_agent_subjects";
        text.gauge(SUBJECTS, "Subjects followed.");
        for source in &self.sources {
            for kind in Kind::ALL {
                let labels = [("source", source.name), ("kind", kind.name())];
                text.sample(SUBJECTS, &labels, source.subjects.count(kind) as f64);
            }
        }
    }

    fn write_server(&self, text: &mut Text) {
        self.latencies.write(text);
        text.gauge("crosstalk_agent_http_connections", "Connections open now.");
        let open = self.connections.load(Ordering::Relaxed) as f64;
        text.sample("crosstalk_agent_http_connections", &[], open);
        let sums = [
            (
                "crosstalk_agent_http_connections_refused",
                "Connections told 503 because there were too many.",
                self.refused.load(Ordering::Relaxed),
            ),
            (
                "crosstalk_agent_http_accept_errors",
                "Connections the system could not hand over.",
                self.accept_errors.load(Ordering::Relaxed),
            ),
            ("crosstalk_agent_clock_steps", "Times the wall clock was set.", self.clock_steps()),
        ];
        for (family, help, sum) in sums {
            text.counter(family, help);
            text.sample(&format!("{family}_total"), &[], sum as f64);
        }
        text.gauge("crosstalk_agent_build_info", "Always 1; the label says which version.");
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        text.sample("crosstalk_agent_build_info", &version, 1.0);
    }
}

/// The names every Prometheus client library uses for its own process.
fn write_process(text: &mut Text, started_unix_s: f64) {
    text.counter("process_cpu_seconds", "Processor time of the agent.");
    text.sample("process_cpu_seconds_total", &[], OwnUsage::now().cpu.as_secs_f64());
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    if let Some(pages) = pages {
        text.gauge("process_resident_memory_bytes", "Resident memory of the agent.");
        let bytes = pages * rustix::param::page_size() as u64;
        text.sample("process_resident_memory_bytes", &[], bytes as f64);
    }
    text.gauge("process_start_time_seconds", "When the agent started, Unix time.");
    text.sample("process_start_time_seconds", &[], started_unix_s);
}
