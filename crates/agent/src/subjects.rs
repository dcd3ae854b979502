use crate::metric::Metric;
use crate::tape::Tape;
use arc_swap::ArcSwap;
use crosstalk_model::ProcessId;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What kinds of subject there are below the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A Kubernetes pod.
    Pod,
    /// A container.
    Container,
    /// A process.
    Process,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Pod, Self::Container, Self::Process];

    /// The word in `subject=` and in metric names.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Container => "container",
            Self::Process => "process",
        }
    }
}

/// Who was measured.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SubjectKey {
    /// By the pod's UID.
    Pod(Arc<str>),
    /// By the container engine's id.
    Container(Arc<str>),
    /// By pid and start time.
    Process(ProcessId),
}

impl SubjectKey {
    /// Which kind it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Pod(_) => Kind::Pod,
            Self::Container(_) => Kind::Container,
            Self::Process(_) => Kind::Process,
        }
    }
}

/// What else is known of a subject.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Labels {
    /// A process's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comm: Option<String>,
    /// The container it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_id: Option<Arc<str>>,
    /// The pod it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<Arc<str>>,
}

/// One subject of one source.
#[derive(Debug)]
pub struct Subject {
    /// Who.
    pub key: SubjectKey,
    /// What else is known.
    pub labels: Labels,
    /// What was measured, under whatever name.
    pub tape: Arc<Tape>,
    /// End of the last sample in which it did anything.
    active_ns: AtomicU64,
}

type Map = HashMap<SubjectKey, Arc<Subject>>;

/// The subjects of one source: bounded, read without waiting, changed by the source alone.
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

/// What one period measured of one subject.
pub(crate) struct SubjectSample {
    pub(crate) key: SubjectKey,
    pub(crate) labels: Labels,
    pub(crate) values: Vec<Option<f64>>,
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
    pub fn of(&self, kind: Kind) -> Vec<Arc<Subject>> {
        let map = self.map.load();
        map.values().filter(|subject| subject.key.kind() == kind).cloned().collect()
    }

    /// How many subjects of a kind there are.
    #[must_use]
    pub fn count(&self, kind: Kind) -> usize {
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

    /// Takes one period: a sample for each subject that did something, and `idle` for the others.
    pub(crate) fn take(
        &self,
        end_ns: u64,
        covers_ns: u64,
        samples: Vec<SubjectSample>,
        idle: Option<&[Option<f64>]>,
    ) {
        let before = self.map.load_full();
        let known = |sample: &SubjectSample| {
            before.get(&sample.key).filter(|subject| subject.labels == sample.labels)
        };
        // The known first, so that none of them has to make room for a newcomer.
        let mut newcomers = Vec::new();
        for sample in samples {
            match known(&sample) {
                Some(subject) => subject.push(end_ns, covers_ns, &sample.values),
                None => newcomers.push(sample),
            }
        }
        newcomers.sort_by_key(|sample| !before.contains_key(&sample.key));
        let mut after = (!newcomers.is_empty()).then(|| (*before).clone());
        if let Some(map) = &mut after {
            self.admit(map, end_ns, covers_ns, newcomers);
        }
        if let Some(values) = idle {
            for subject in before.values().filter(|subject| subject.is_older(end_ns)) {
                let _ = subject.tape.push(end_ns, covers_ns, values);
            }
        }
        let horizon = end_ns.saturating_sub(self.retention.as_nanos() as u64);
        if before.values().any(|subject| subject.is_older(horizon)) {
            let map = after.get_or_insert_with(|| (*before).clone());
            map.retain(|_, subject| !subject.is_older(horizon));
        }
        if let Some(map) = after {
            self.map.store(Arc::new(map));
        }
        if !self.map.load().is_empty() {
            self.newest_ns.store(end_ns, Ordering::Relaxed);
        }
    }

    fn admit(&self, map: &mut Map, end_ns: u64, covers_ns: u64, newcomers: Vec<SubjectSample>) {
        let mut counts = Kind::ALL.map(|kind| self.count(kind));
        for sample in newcomers {
            if let Some(known) = map.get(&sample.key).cloned() {
                known.push(end_ns, covers_ns, &sample.values);
                map.insert(sample.key, Arc::new(known.renamed(sample.labels)));
                continue;
            }
            let kind = sample.key.kind();
            let count = &mut counts[kind as usize];
            if *count >= self.limit {
                if !make_room(map, kind, end_ns) {
                    self.turned_away.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                *count -= 1;
            }
            let Some(subject) = self.subject(sample.key, sample.labels, end_ns) else { continue };
            subject.push(end_ns, covers_ns, &sample.values);
            *count += 1;
            map.insert(subject.key.clone(), Arc::new(subject));
        }
    }

    fn subject(&self, key: SubjectKey, labels: Labels, active_ns: u64) -> Option<Subject> {
        let tape = Tape::new(self.metrics, self.retention, self.period).ok()?;
        let (tape, active_ns) = (Arc::new(tape), AtomicU64::new(active_ns));
        Some(Subject { key, labels, tape, active_ns })
    }
}

impl Subject {
    /// A sample the buffer refuses is dated wrongly; its subject goes on with the next.
    fn push(&self, end_ns: u64, covers_ns: u64, values: &[Option<f64>]) {
        let _ = self.tape.push(end_ns, covers_ns, values);
        self.active_ns.store(end_ns, Ordering::Relaxed);
    }

    /// The same one under other labels: what it did before stays its own.
    fn renamed(&self, labels: Labels) -> Self {
        let active_ns = AtomicU64::new(self.active_ns.load(Ordering::Relaxed));
        Self { key: self.key.clone(), labels, tape: Arc::clone(&self.tape), active_ns }
    }

    fn is_older(&self, ns: u64) -> bool {
        self.active_ns.load(Ordering::Relaxed) < ns
    }
}

/// Drops the subject of this kind that has been idle longest; `false` if all are active.
fn make_room(map: &mut Map, kind: Kind, now_ns: u64) -> bool {
    let oldest = map
        .values()
        .filter(|subject| subject.key.kind() == kind && subject.is_older(now_ns))
        .min_by_key(|subject| subject.active_ns.load(Ordering::Relaxed))
        .map(|subject| subject.key.clone());
    oldest.is_some_and(|key| map.remove(&key).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::CPU_UTIL;

    const SECOND: u64 = 1_000_000_000;

    fn table(limit: usize) -> SubjectTable {
        SubjectTable::new(&[CPU_UTIL], Duration::from_secs(5), Duration::from_secs(1), limit)
    }

    fn process(pid: u32) -> SubjectSample {
        SubjectSample {
            key: SubjectKey::Process(ProcessId { pid, start_ns: 1 }),
            labels: Labels::default(),
            values: vec![Some(0.5)],
        }
    }

    #[test]
    fn a_subject_that_rests_has_zero_use_and_goes_when_no_window_reaches_it() {
        let table = table(10);
        table.take(SECOND, SECOND, vec![process(1)], Some(&[Some(0.0)]));
        table.take(2 * SECOND, SECOND, vec![], Some(&[Some(0.0)]));
        let subject = &table.of(Kind::Process)[0];
        let view = subject.tape.view();
        let window = view.window(2 * SECOND, Duration::from_secs(2)).unwrap();
        assert_eq!(window.stats(0).unwrap().mean, 0.25);
        table.take(9 * SECOND, SECOND, vec![], None);
        assert_eq!(table.count(Kind::Process), 0);
    }

    #[test]
    fn a_process_that_takes_another_name_keeps_its_history_and_its_place() {
        let table = table(1);
        table.take(SECOND, SECOND, vec![process(1)], Some(&[Some(0.0)]));
        let labels = Labels { comm: Some("worker".to_owned()), ..Labels::default() };
        let renamed = SubjectSample { labels: labels.clone(), ..process(1) };
        table.take(2 * SECOND, SECOND, vec![renamed], Some(&[Some(0.0)]));
        let subject = &table.of(Kind::Process)[0];
        assert_eq!(subject.labels, labels);
        let view = subject.tape.view();
        let window = view.window(2 * SECOND, Duration::from_secs(2)).unwrap();
        assert_eq!((window.samples(), window.coverage()), (2, 1.0));
        assert_eq!(window.stats(0).unwrap().mean, 0.5);
        assert_eq!(subject.tape.reader().counters().out_of_order, 0);
        assert_eq!(table.turned_away(), 0);
    }

    #[test]
    fn at_the_limit_the_longest_idle_makes_room_and_the_active_do_not() {
        let table = table(2);
        table.take(SECOND, SECOND, vec![process(1), process(2)], None);
        table.take(2 * SECOND, SECOND, vec![process(2)], None);
        table.take(3 * SECOND, SECOND, vec![process(2), process(3), process(4)], None);
        let mut pids: Vec<u32> = table
            .of(Kind::Process)
            .iter()
            .map(|subject| match subject.key {
                SubjectKey::Process(id) => id.pid,
                _ => 0,
            })
            .collect();
        pids.sort_unstable();
        assert_eq!(pids, [2, 3]);
        assert_eq!(table.turned_away(), 1);
    }
}
