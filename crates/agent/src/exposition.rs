//! What Prometheus is told: the newest values of the node, containers and pods, and the agent's
//! own state and cost.

use crate::http::App;
use crate::node::Node;
use crate::window::{SourceWindow, Subject};
use crosstalk_host::{OwnUsage, ProcStat, monotonic_ns};
use crosstalk_model::metric::CPU_UTIL;
use crosstalk_model::{Metric, SubjectKey, SubjectKind};
use crosstalk_serve::Families;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The newest value of each metric somebody measured, and its age in seconds.
type Values = Vec<(Metric, f64, f64)>;

/// Everything known at the time of a scrape.
#[derive(Debug)]
pub(crate) struct NodeCollector(pub(crate) App);

impl Collector for NodeCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let App { node, server } = &self.0;
        let text = &mut Families::new(encoder);
        node.write_node(text)?;
        node.write_totals(text)?;
        for kind in [SubjectKind::Container, SubjectKind::Pod] {
            node.write_subjects(text, kind)?;
        }
        node.write_verdicts(text)?;
        node.write_memory(text)?;
        node.write_sources(text)?;
        node.write_losses(text)?;
        if let Some(recording) = &node.recording {
            let help = "1 while what comes is written into files, 0 while it cannot be.";
            let up = f64::from(u8::from(recording.is_up()));
            text.gauge("crosstalk_agent_recording_up", help, up)?;
        }
        server.write(text)?;
        let help = "Times the wall clock was set.";
        text.counter("crosstalk_agent_clock_steps", help, node.clock_steps() as f64)?;
        text.gauges("crosstalk_agent_build_info", "Always 1; the label says which version.")?
            .gauge(&[("version", env!("CARGO_PKG_VERSION"))], 1.0)?;
        write_process(text, node.started_unix_s)
    }
}

/// A source that is so many seconds behind another has gone silent.
const STALE_S: f64 = 3.0;

impl Node {
    /// A value older than this is not "now" any more and is left out.
    fn current(&self) -> Duration {
        self.fresh.min(self.retention)
    }

    fn write_node(&self, text: &mut Families<'_>) -> fmt::Result {
        let now_ns = monotonic_ns();
        let newest: Vec<(&SourceWindow, f64, Vec<Option<f64>>)> = self
            .sources
            .iter()
            .filter_map(|s| Some((&**s, s.age_s(now_ns)?, s.series.as_ref()?)))
            .map(|(source, age, series)| (source, age, series.newest(now_ns, self.current())))
            .collect();
        let mut shown: Vec<(&str, &str)> = Vec::new();
        for metric in &self.catalog {
            let mut found: Option<(f64, &str, f64)> = None;
            for (source, age, values) in &newest {
                let at = source.metrics().iter().position(|known| known.name == metric.name);
                let Some(value) = at.and_then(|at| values[at]) else { continue };
                // A source that went silent makes room for a lesser one that goes on.
                if found.is_none_or(|(youngest, ..)| age + STALE_S < youngest) {
                    found = Some((*age, source.name(), value));
                }
            }
            let Some((_, source, value)) = found else { continue };
            let family = format!("crosstalk_node_{}", metric.family);
            text.gauge(&family, metric.help, value * metric.scale)?;
            shown.push((metric.name, source));
        }
        if shown.is_empty() {
            return Ok(());
        }
        // Apart from the values: a label that changes would break their series in two.
        let help = "Always 1; the labels say which source a value of the node comes from now.";
        let mut family = text.gauges("crosstalk_node_source_info", help)?;
        for (metric, source) in shown {
            family.gauge(&[("metric", metric), ("source", source)], 1.0)?;
        }
        Ok(())
    }

    fn write_totals(&self, text: &mut Families<'_>) -> fmt::Result {
        for (total, sum) in self.sources.iter().flat_map(|source| source.totals()) {
            text.counter(total.family, total.help, sum)?;
        }
        Ok(())
    }

    fn write_subjects(&self, text: &mut Families<'_>, kind: SubjectKind) -> fmt::Result {
        let now_ns = monotonic_ns();
        let mut known: HashMap<SubjectKey, (Arc<Subject>, Values)> = HashMap::new();
        for subject in self.sources.iter().flat_map(|source| source.subjects.of(kind)) {
            let values = subject.series.newest(now_ns, self.current());
            let entry = known
                .entry(subject.key.clone())
                .or_insert_with(|| (Arc::clone(&subject), Vec::new()));
            let age = |newest: u64| now_ns.saturating_sub(newest) as f64 * 1e-9;
            let age = subject.series.view().newest_ns().map_or(f64::INFINITY, age);
            for (metric, value) in subject.series.metrics().iter().zip(values) {
                let Some(value) = value else { continue };
                // As for the node: a source that went silent makes room for one that goes on.
                match entry.1.iter_mut().find(|(have, ..)| have.name == metric.name) {
                    None => entry.1.push((*metric, value, age)),
                    Some(known) if age + STALE_S < known.2 => *known = (*metric, value, age),
                    Some(_) => {}
                }
            }
        }
        let value_of = |values: &Values, metric: &Metric| {
            values.iter().find(|(have, ..)| have.name == metric.name).map(|(_, value, _)| *value)
        };
        let used = |values: &Values| value_of(values, &CPU_UTIL).unwrap_or(-1.0);
        let mut ranked: Vec<_> = known.into_values().collect();
        ranked.sort_by(|a, b| used(&b.1).total_cmp(&used(&a.1)));
        ranked.truncate(self.prometheus_limit);
        for metric in &self.catalog {
            let known = |(_, values): &(Arc<Subject>, Values)| value_of(values, metric).is_some();
            if !ranked.iter().any(known) {
                continue;
            }
            let name = format!("crosstalk_{}_{}", kind.name(), metric.family);
            let mut family = text.gauges(&name, metric.help)?;
            for (subject, values) in &ranked {
                let Some(value) = value_of(values, metric) else { continue };
                let place = &subject.labels.place;
                let labels = [
                    ("container_id", &place.container_id),
                    ("container", &place.container_name),
                    ("pod_uid", &place.pod_uid),
                    ("namespace", &place.pod_namespace),
                    ("pod", &place.pod_name),
                    ("workload", &place.workload),
                ];
                let known =
                    labels.into_iter().filter_map(|(name, is)| Some((name, is.as_deref()?)));
                family.gauge(&known.collect::<Vec<_>>(), value * metric.scale)?;
            }
        }
        Ok(())
    }

    fn write_verdicts(&self, text: &mut Families<'_>) -> fmt::Result {
        let Some(verdicts) = &self.verdicts else { return Ok(()) };
        verdicts.lost(|lost| {
            let help = "Time that a victim would not have needed without an aggressor.";
            let mut family = text.counters("crosstalk_lost_seconds", help)?;
            for (pair, seconds) in lost.all() {
                let labels = [
                    ("victim", pair.victim.as_str()),
                    ("aggressor", pair.aggressor.as_str()),
                    ("resource", pair.resource),
                ];
                family.counter(&labels, seconds)?;
            }
            let help = "Pairs of victim and aggressor that made room for others.";
            text.counter("crosstalk_agent_verdict_pairs_dropped", help, lost.dropped() as f64)
        })
    }

    fn write_sources(&self, text: &mut Families<'_>) -> fmt::Result {
        let now_ns = monotonic_ns();
        let mut each = |name: &str, help: &str, value: &dyn Fn(&SourceWindow) -> Option<f64>| {
            let total = name.strip_suffix("_total");
            let mut family = match total {
                Some(family) => text.counters(family, help)?,
                None => text.gauges(name, help)?,
            };
            for source in &self.sources {
                let Some(value) = value(source) else { continue };
                let labels = [("source", source.name())];
                match total {
                    Some(_) => family.counter(&labels, value)?,
                    None => family.gauge(&labels, value)?,
                }
            }
            Ok(())
        };
        each("crosstalk_agent_source_up", "1 while a source measures, else 0.", &|source| {
            Some(f64::from(u8::from(source.standing().works())))
        })?;
        each("crosstalk_agent_source_errors_total", "What went wrong in a source.", &|source| {
            Some(source.status.errors() as f64)
        })?;
        each("crosstalk_agent_source_restarts_total", "Restarts of a source.", &|source| {
            Some(source.status.restarts() as f64)
        })?;
        each("crosstalk_agent_buffer_samples", "Samples of the node in the buffer.", &|source| {
            source.series.as_ref().map(|series| series.view().samples() as f64)
        })?;
        each("crosstalk_agent_buffer_capacity", "Samples the buffer has room for.", &|source| {
            source.series.as_ref().map(|series| series.capacity() as f64)
        })?;
        let dropped = "Samples dropped before their time, or refused.";
        each("crosstalk_agent_buffer_dropped_total", dropped, &|source| {
            let counters = source.series.as_ref()?.reader().counters();
            Some((counters.dropped_full + counters.out_of_order) as f64)
        })?;
        let age = "Age of the newest sample.";
        each("crosstalk_agent_newest_sample_age_seconds", age, &|source| source.age_s(now_ns))?;
        let turned_away = "Samples whose subject found no room.";
        each("crosstalk_agent_subjects_turned_away_total", turned_away, &|source| {
            Some(source.subjects.turned_away() as f64)
        })?;
        const SUBJECTS: &str = "crosstalk_agent_subjects";
        let mut family = text.gauges(SUBJECTS, "Subjects followed.")?;
        for source in &self.sources {
            for kind in SubjectKind::ALL {
                let labels = [("source", source.name()), ("kind", kind.name())];
                family.gauge(&labels, source.subjects.count(kind) as f64)?;
            }
        }
        Ok(())
    }
}

impl Node {
    fn write_losses(&self, text: &mut Families<'_>) -> fmt::Result {
        let Some(overview) = &self.overview else { return Ok(()) };
        let help = "Rows and samples that did not get where they were to go.";
        let mut family = text.counters("crosstalk_agent_undelivered_rows", help)?;
        for loss in overview.losses().all() {
            let labels = [("dataset", loss.dataset), ("place", loss.place)];
            family.counter(&labels, loss.rows as f64)?;
        }
        Ok(())
    }
}

/// The names every Prometheus client library uses for its own process.
fn write_process(text: &mut Families<'_>, started_unix_s: f64) -> fmt::Result {
    let cpu = OwnUsage::now().cpu.as_secs_f64();
    text.counter("process_cpu_seconds", "Processor time of the agent.", cpu)?;
    if let Some(bytes) = ProcStat::own().and_then(|stat| stat.resident_bytes()) {
        let help = "Resident memory of the agent.";
        text.gauge("process_resident_memory_bytes", help, bytes as f64)?;
    }
    let help = "When the agent started, Unix time.";
    text.gauge("process_start_time_seconds", help, started_unix_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::source as source_of;
    use crate::window::{Series, SubjectTable, process};
    use crosstalk_collect::SubjectPeriod;
    use crosstalk_model::SubjectKind;
    use prometheus_client::registry::Registry;

    const SECOND: u64 = 1_000_000_000;
    const KEPT: Duration = Duration::from_secs(30);
    const PERIOD: Duration = Duration::from_secs(1);

    /// What a scrape would be answered about a node with these sources.
    #[derive(Debug)]
    struct Scrape(Node);

    impl Collector for Scrape {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let text = &mut Families::new(encoder);
            self.0.write_node(text)?;
            self.0.write_subjects(text, SubjectKind::Process)
        }
    }

    fn scrape(sources: Vec<Arc<SourceWindow>>) -> String {
        let mut registry = Registry::default();
        // Sources of subjects alone have no metrics of the node that would tell which there are.
        let node = Node { catalog: vec![CPU_UTIL], ..Node::new(sources, KEPT) };
        registry.register_collector(Box::new(Scrape(node)));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    /// A source whose newest sample is so many seconds old.
    fn node_source(name: &'static str, value: f64, newest: u64) -> Arc<SourceWindow> {
        let now_ns = monotonic_ns();
        let series = Series::new(&[CPU_UTIL], KEPT, PERIOD).unwrap();
        for age in (newest..25).rev() {
            series.push(now_ns - age * SECOND, SECOND, &[Some(value)]).unwrap();
        }
        Arc::new(source_of(name, Some(series), SubjectTable::none()))
    }

    fn subject_source(name: &'static str, value: f64, newest: u64) -> Arc<SourceWindow> {
        let now_ns = monotonic_ns();
        let table = SubjectTable::new(&[CPU_UTIL], KEPT, PERIOD, 10);
        for age in (newest..25).rev() {
            let (end_ns, covers_ns) = (now_ns - age * SECOND, SECOND);
            let samples = vec![process(1, Some(value))];
            table.take(&SubjectPeriod { end_ns, covers_ns, samples, unseen: None });
        }
        Arc::new(source_of(name, None, table))
    }

    /// The lines of a family, without help and type.
    fn lines<'a>(text: &'a str, family: &str) -> Vec<&'a str> {
        text.lines().filter(|line| line.starts_with(family)).collect()
    }

    #[test]
    fn a_source_that_goes_silent_makes_room_without_breaking_the_series_in_two() {
        let value = |text: &str| lines(text, "crosstalk_node_cpu").join("\n");
        let source = |text: &str| lines(text, "crosstalk_node_source_info").join("\n");
        let lives = scrape(vec![node_source("counters", 0.9, 0), node_source("proc", 0.1, 0)]);
        assert!(value(&lives).ends_with(" 0.9"), "{lives}");
        assert!(source(&lives).contains("source=\"counters\""), "{lives}");
        let dead = scrape(vec![node_source("counters", 0.9, 5), node_source("proc", 0.1, 0)]);
        assert!(value(&dead).ends_with(" 0.1"), "{dead}");
        assert!(source(&dead).contains("source=\"proc\""), "{dead}");
        // The same series, whoever it comes from.
        let name = |text: &str| value(text).rsplit_once(' ').unwrap().0.to_owned();
        assert_eq!(name(&lives), name(&dead));
        assert!(!name(&lives).contains("source"), "{lives}");
        // Late by no more than sources differ in pace is not silent.
        let late = scrape(vec![node_source("counters", 0.9, 2), node_source("proc", 0.1, 0)]);
        assert!(value(&late).ends_with(" 0.9"), "{late}");
    }

    #[test]
    fn a_subject_is_shown_by_a_source_that_goes_on_rather_than_by_one_that_fell_silent() {
        let value = |text: &str| lines(text, "crosstalk_process_cpu").join("\n");
        let lives =
            scrape(vec![subject_source("counters", 0.9, 0), subject_source("proc", 0.1, 0)]);
        assert!(value(&lives).ends_with(" 0.9"), "{lives}");
        let dead = scrape(vec![subject_source("counters", 0.9, 5), subject_source("proc", 0.1, 0)]);
        assert!(value(&dead).ends_with(" 0.1"), "{dead}");
    }
}
