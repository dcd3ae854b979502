use super::series::Series;
use arc_swap::ArcSwap;
use crosstalk_collect::{SubjectPeriod, SubjectSample};
use crosstalk_model::metric::CPU_UTIL;
use crosstalk_model::{Metric, Placement, SubjectKey, SubjectKind};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What else is known of a subject.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Labels {
    /// A process's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comm: Option<String>,
    /// The container and the pod it is in, as far as they are known.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub place: Arc<Placement>,
}

/// One subject of one source.
#[derive(Debug)]
pub struct Subject {
    /// Who.
    pub key: SubjectKey,
    /// What else is known.
    pub labels: Labels,
    /// What was measured, under whatever name.
    pub series: Arc<Series>,
    /// End of the last period in which it was seen.
    seen_ns: AtomicU64,
    /// Processor time of late, as the bits of a share: who has least gives up its seat first.
    activity: AtomicU64,
}

type Map = HashMap<SubjectKey, Arc<Subject>>;

/// How long processor time counts for a seat: what was used so long ago counts a third.
const MEMORY_NS: f64 = 10e9;

/// The subjects of one source: bounded, read without waiting, changed by the window's thread alone.
/// At the limit those with most processor time of late have the seats.
#[derive(Debug)]
pub struct SubjectTable {
    metrics: &'static [Metric],
    retention: Duration,
    period: Duration,
    limit: usize,
    map: ArcSwap<Map>,
    turned_away: AtomicU64,
    /// End of the last period taken; 0 before the first.
    newest_ns: AtomicU64,
}

impl SubjectTable {
    /// A table of at most `limit` subjects of each kind.
    #[must_use]
    pub fn new(
        metrics: &'static [Metric],
        retention: Duration,
        period: Duration,
        limit: usize,
    ) -> Self {
        Self {
            metrics,
            retention,
            period,
            limit,
            map: ArcSwap::default(),
            turned_away: AtomicU64::new(0),
            newest_ns: AtomicU64::new(0),
        }
    }

    /// A table for a source of the node alone.
    #[must_use]
    pub fn none() -> Self {
        Self::new(&[], Duration::ZERO, Duration::ZERO, 0)
    }

    /// Every subject of a kind.
    #[must_use]
    pub fn of(&self, kind: SubjectKind) -> Vec<Arc<Subject>> {
        let map = self.map.load();
        map.values().filter(|subject| subject.key.kind() == kind).cloned().collect()
    }

    /// How many subjects of a kind there are.
    #[must_use]
    pub fn count(&self, kind: SubjectKind) -> usize {
        self.map.load().keys().filter(|key| key.kind() == kind).count()
    }

    /// How many samples found no room for their subject.
    #[must_use]
    pub fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    pub(crate) fn newest_ns(&self) -> Option<u64> {
        Some(self.newest_ns.load(Ordering::Relaxed)).filter(|newest| *newest > 0)
    }

    /// Takes one period.
    pub(crate) fn take(&self, period: &SubjectPeriod) {
        if self.limit == 0 {
            return;
        }
        let (end_ns, covers_ns) = (period.end_ns, period.covers_ns);
        let before = self.map.load_full();
        let mut map = None;
        let mut newcomers = Vec::new();
        for sample in &period.samples {
            let Some(known) = before.get(&sample.key) else {
                newcomers.push(sample);
                continue;
            };
            known.push(end_ns, covers_ns, &sample.values, self.used(sample));
            if !known.is_called(sample) {
                let map = map.get_or_insert_with(|| Map::clone(&before));
                map.insert(sample.key.clone(), Arc::new(known.renamed(sample)));
            }
        }
        if let Some(values) = &period.unseen {
            for subject in before.values().filter(|subject| subject.is_older(end_ns)) {
                subject.rest(end_ns, covers_ns, values);
            }
        }
        if !newcomers.is_empty() {
            let map = map.get_or_insert_with(|| Map::clone(&before));
            SubjectKind::ALL.into_iter().for_each(|kind| self.admit(map, kind, &newcomers, period));
        }
        let horizon = end_ns.saturating_sub(self.retention.as_nanos() as u64);
        if before.values().any(|subject| subject.is_older(horizon)) {
            let map = map.get_or_insert_with(|| Map::clone(&before));
            map.retain(|_, subject| !subject.is_older(horizon));
        }
        if let Some(map) = map {
            self.map.store(Arc::new(map));
        }
        if !self.map.load().is_empty() {
            self.newest_ns.store(end_ns, Ordering::Relaxed);
        }
    }

    /// Gives seats to newcomers of a kind: those that are free, then those of who did less than they.
    fn admit(
        &self,
        map: &mut Map,
        kind: SubjectKind,
        newcomers: &[&SubjectSample],
        period: &SubjectPeriod,
    ) {
        let mut newcomers: Vec<(f64, &SubjectSample)> = newcomers
            .iter()
            .filter(|sample| sample.key.kind() == kind)
            .map(|sample| (fresh(self.used(sample), period.covers_ns), *sample))
            .collect();
        newcomers.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut seated: Vec<(f64, SubjectKey)> = map
            .values()
            .filter(|subject| subject.key.kind() == kind)
            .map(|subject| (subject.activity(), subject.key.clone()))
            .collect();
        seated.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut free = self.limit.saturating_sub(seated.len());
        for (activity, sample) in newcomers {
            if free > 0 {
                free -= 1;
            } else if let Some((_, least)) = seated.pop_if(|(least, _)| *least < activity) {
                map.remove(&least);
            } else {
                self.turned_away.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let Some(subject) = self.subject(sample) else { continue };
            let used = self.used(sample);
            subject.push(period.end_ns, period.covers_ns, &sample.values, used);
            map.insert(subject.key.clone(), Arc::new(subject));
        }
    }

    fn subject(&self, sample: &SubjectSample) -> Option<Subject> {
        let series = Series::new(self.metrics, self.retention, self.period).ok()?;
        Some(Subject {
            key: sample.key.clone(),
            labels: Labels { comm: sample.comm.clone(), place: Arc::clone(&sample.place) },
            series: Arc::new(series),
            seen_ns: AtomicU64::new(0),
            activity: AtomicU64::new(0),
        })
    }

    /// The share of processor time in a sample; 0 where that is not known yet.
    fn used(&self, sample: &SubjectSample) -> f64 {
        let at = self.metrics.iter().position(|metric| metric.name == CPU_UTIL.name);
        at.and_then(|at| *sample.values.get(at)?).unwrap_or(0.0)
    }
}

/// What a share used over this time counts for.
fn fresh(used: f64, covers_ns: u64) -> f64 {
    used * (covers_ns as f64 / MEMORY_NS).min(1.0)
}

impl Subject {
    fn activity(&self) -> f64 {
        f64::from_bits(self.activity.load(Ordering::Relaxed))
    }

    /// A sample the buffer refuses is dated wrongly; its subject goes on with the next.
    fn push(&self, end_ns: u64, covers_ns: u64, values: &[Option<f64>], used: f64) {
        let _ = self.series.push(end_ns, covers_ns, values);
        self.seen_ns.store(end_ns, Ordering::Relaxed);
        self.count(used, covers_ns);
    }

    fn rest(&self, end_ns: u64, covers_ns: u64, values: &[Option<f64>]) {
        let _ = self.series.push(end_ns, covers_ns, values);
        self.count(0.0, covers_ns);
    }

    fn count(&self, used: f64, covers_ns: u64) {
        let kept = self.activity() * (1.0 - (covers_ns as f64 / MEMORY_NS).min(1.0));
        let now = kept + fresh(used, covers_ns);
        self.activity.store(now.to_bits(), Ordering::Relaxed);
    }

    fn is_called(&self, sample: &SubjectSample) -> bool {
        self.labels.comm == sample.comm && self.labels.place == sample.place
    }

    /// The same one under other labels: what it did before stays its own.
    fn renamed(&self, sample: &SubjectSample) -> Self {
        let copy = |number: &AtomicU64| AtomicU64::new(number.load(Ordering::Relaxed));
        Self {
            key: self.key.clone(),
            labels: Labels { comm: sample.comm.clone(), place: Arc::clone(&sample.place) },
            series: Arc::clone(&self.series),
            seen_ns: copy(&self.seen_ns),
            activity: copy(&self.activity),
        }
    }

    fn is_older(&self, ns: u64) -> bool {
        self.seen_ns.load(Ordering::Relaxed) < ns
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crosstalk_model::ProcessId;

    const SECOND: u64 = 1_000_000_000;

    fn table(limit: usize) -> SubjectTable {
        SubjectTable::new(&[CPU_UTIL], Duration::from_secs(5), Duration::from_secs(1), limit)
    }

    pub(crate) fn process(pid: u32, used: Option<f64>) -> SubjectSample {
        SubjectSample {
            key: SubjectKey::Process(ProcessId { pid, start_ns: 1 }),
            comm: None,
            place: Arc::default(),
            values: vec![used],
        }
    }

    fn take(table: &SubjectTable, second: u64, samples: Vec<SubjectSample>, unseen: Option<f64>) {
        let unseen = unseen.map(|value| vec![Some(value)]);
        let (end_ns, covers_ns) = (second * SECOND, SECOND);
        table.take(&SubjectPeriod { end_ns, covers_ns, samples, unseen });
    }

    fn pids(table: &SubjectTable) -> Vec<u32> {
        let pid = |subject: &Arc<Subject>| match subject.key {
            SubjectKey::Process(id) => id.pid,
            _ => 0,
        };
        let mut pids: Vec<u32> = table.of(SubjectKind::Process).iter().map(pid).collect();
        pids.sort_unstable();
        pids
    }

    #[test]
    fn a_subject_that_rests_has_zero_use_and_goes_when_no_window_reaches_it() {
        let table = table(10);
        take(&table, 1, vec![process(1, Some(0.5))], Some(0.0));
        take(&table, 2, vec![], Some(0.0));
        let subject = &table.of(SubjectKind::Process)[0];
        let view = subject.series.view();
        let window = view.window(2 * SECOND, Duration::from_secs(2)).unwrap();
        assert_eq!(window.stats(0).unwrap().mean, 0.25);
        take(&table, 9, vec![], None);
        assert_eq!(table.count(SubjectKind::Process), 0);
    }

    #[test]
    fn a_process_that_takes_another_name_keeps_its_history_and_its_place() {
        let table = table(1);
        take(&table, 1, vec![process(1, Some(0.5))], Some(0.0));
        let renamed = SubjectSample { comm: Some("worker".to_owned()), ..process(1, Some(0.5)) };
        take(&table, 2, vec![renamed], Some(0.0));
        let subject = &table.of(SubjectKind::Process)[0];
        assert_eq!(subject.labels.comm.as_deref(), Some("worker"));
        let view = subject.series.view();
        let window = view.window(2 * SECOND, Duration::from_secs(2)).unwrap();
        assert_eq!((window.samples(), window.coverage()), (2, 1.0));
        assert_eq!(window.stats(0).unwrap().mean, 0.5);
        assert_eq!(subject.series.reader().counters().out_of_order, 0);
        assert_eq!(table.turned_away(), 0);
    }

    #[test]
    fn a_new_hog_gets_a_seat_though_all_are_taken_by_processes_that_only_exist() {
        let table = table(3);
        let resting = || (1..=3).map(|pid| process(pid, Some(0.0)));
        take(&table, 1, resting().collect(), None);
        take(&table, 2, resting().chain([process(9, Some(0.9))]).collect(), None);
        assert!(pids(&table).contains(&9), "{:?}", pids(&table));
        assert_eq!(pids(&table).len(), 3);
    }

    #[test]
    fn a_storm_of_short_lived_processes_does_not_evict_who_has_long_been_busy() {
        let table = table(3);
        for second in 1..20 {
            let busy = [process(1, Some(0.2)), process(2, Some(0.02))];
            let storm = (0..50).map(|i| process(1_000 + second as u32 * 100 + i, Some(0.01)));
            take(&table, second, busy.into_iter().chain(storm).collect(), Some(0.0));
        }
        assert!(pids(&table).starts_with(&[1, 2]), "{:?}", pids(&table));
        assert!(table.turned_away() > 800);
    }

    #[test]
    fn time_that_was_not_measured_is_a_gap_and_not_rest() {
        let table = table(3);
        take(&table, 1, vec![process(1, Some(0.5))], Some(0.0));
        let half = SubjectPeriod {
            end_ns: 3 * SECOND,
            covers_ns: SECOND / 2,
            samples: vec![],
            unseen: Some(vec![Some(0.0)]),
        };
        table.take(&half);
        let subject = &table.of(SubjectKind::Process)[0];
        let view = subject.series.view();
        let window = view.window(3 * SECOND, Duration::from_secs(3)).unwrap();
        assert_eq!(window.coverage(), 0.5);
    }
}
