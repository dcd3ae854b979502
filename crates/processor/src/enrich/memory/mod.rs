//! What became of a series last time, known by the bytes of its labels.
//!
//! Most series of a request were in the one before. Decoding, checking and looking them up again is most of the work, and
//! gives what it gave before unless the inventory has changed in what they speak of. So for every series it is kept, in some
//! sixty bytes, whom it is billed to and where in its labels ours go. A series that is not known, or may have changed, goes
//! the long way.

mod places;
mod plan;

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crosstalk_inventory::Pod;
use crosstalk_remote_write::{RawSeries, Series};
use hashbrown::{DefaultHashBuilder, HashTable};

use super::Rules;
use super::fingerprint::Fingerprint;
use super::labels::OURS;
use super::output::{Lane, Output};
use super::target::Target;
use crate::cache::{Found, Keys, Miss, Snapshot};
use places::{Places, Walk};
use plan::Plan;

/// Series that are remembered at most; beyond it those that came first are forgotten. 80 MiB or so.
const MOST: usize = 1 << 20;

/// A series and what it became.
#[derive(Debug, Default)]
struct Known {
    print: u64,
    /// `None` for a series of nobody, which is not forwarded.
    target: Option<Arc<Target>>,
    /// Of which snapshot this is known to be true.
    version: AtomicU32,
    keys: Keys,
    plan: Plan,
    lane: Lane,
    miss: Option<Miss>,
    /// Whether samples below zero are left out.
    drops_negative: bool,
    /// Whether it can be written by its plan; else only whose it is is known.
    recallable: bool,
}

// One line of a processor's cache: what a series costs, and what finding it costs.
const _: () = assert!(size_of::<Known>() <= 64);

/// What is remembered of all series.
#[derive(Debug)]
pub(crate) struct Memory {
    prints: Fingerprint,
    places: Places,
    targets: Mutex<HashTable<Arc<Target>>>,
    hasher: DefaultHashBuilder,
    /// The field of the kept job up to its value's length, without the first length; empty where none is kept.
    kept_job: Vec<u8>,
    /// Whether series may be written as they were before, or it is only known whose they were.
    recalls: bool,
}

/// Series whose holder is another than before. That is remembered once those who read the stores were told.
#[derive(Debug, Default)]
pub(crate) struct Handed(Vec<Known>);

/// What a raw series came to.
pub(super) enum Recalled {
    /// It was written.
    Written,
    /// It belongs to nobody and is left out.
    Left(Miss),
    /// It goes the long way.
    Unknown,
}

impl Memory {
    /// `plain` where everything is written as 1.0, which is what series are recalled as.
    pub(crate) fn new(rules: &Rules, plain: bool) -> Self {
        // With any other name, series go the long way: it might stand among ours.
        let kept_job = match &*rules.original_job_label {
            name if name == OURS[0].1[0] => {
                [&[0x0a, name.len() as u8], name.as_bytes(), &[0x12]].concat()
            }
            _ => Vec::new(),
        };
        Memory {
            prints: Fingerprint::random(),
            places: Places::new(MOST),
            targets: Mutex::default(),
            hasher: DefaultHashBuilder::default(),
            kept_job,
            // Whether a series meets another of its request is only seen the long way.
            recalls: plain && !rules.may_collide(),
        }
    }

    /// Remembers who has what now that it is on disk that others had it.
    pub(crate) fn commit(&self, handed: Handed) {
        let mut walk = self.places.walk();
        handed.0.into_iter().for_each(|known| walk.put(known));
    }

    /// For one request.
    pub(crate) fn recollection(&self) -> Recollection<'_> {
        Recollection { memory: self, walk: self.places.walk(), handed: Handed::default() }
    }

    /// The target of a pod, which all its series share.
    fn target(&self, rules: &Rules, found: &Found<'_>) -> Arc<Target> {
        let hash_of = |pod: &Pod| self.hasher.hash_one((&*pod.uid, &*pod.name));
        let hash = hash_of(found.pod);
        let mut targets = self.targets.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(target) = targets.find(hash, |target| target.is(found)) {
            return Arc::clone(target);
        }
        if targets.len() == targets.capacity() {
            targets.retain(|target| Arc::strong_count(target) > 1);
        }
        let target = Arc::new(Target::new(rules, found));
        targets.insert_unique(hash, Arc::clone(&target), |target| hash_of(&target.pod));
        target
    }
}

/// What one request recalls of its series.
#[derive(Debug)]
pub(crate) struct Recollection<'m> {
    memory: &'m Memory,
    walk: Walk<'m>,
    handed: Handed,
}

impl Recollection<'_> {
    fn print(&self, labels: &[u8]) -> u64 {
        self.memory.prints.of(labels)
    }

    /// What a series is known by: the bytes of its labels, or the labels, where the bytes do not tell.
    pub(super) fn print_of(&self, series: &Series<'_, '_>) -> u64 {
        let prints = self.memory.prints;
        match series.raw_labels() {
            Some(labels) => prints.of(labels),
            None => series.labels.iter().fold(1u64, |sum, label| {
                let name = prints.of(label.name.as_bytes());
                sum.wrapping_add(prints.fold(name, label.value.as_bytes()))
            }),
        }
    }

    /// What is to be remembered once what was made of the request is on disk.
    pub(crate) fn handed(self) -> Handed {
        self.handed
    }

    /// Writes a series as it was written last time, if that is known to be right.
    #[inline]
    pub(super) fn recall(
        &mut self,
        raw: &RawSeries<'_>,
        snapshot: &Snapshot,
        outputs: &mut [Output],
    ) -> Recalled {
        if !self.memory.recalls {
            return Recalled::Unknown;
        }
        let print = self.print(raw.labels);
        let known = self.walk.find(print).filter(|known| known.recallable);
        let Some(known) = known else { return Recalled::Unknown };
        let version = snapshot.version() as u32;
        let of_version = known.version.load(Ordering::Relaxed);
        if of_version != version {
            if !snapshot.holds_since(of_version, known.keys) {
                return Recalled::Unknown;
            }
            known.version.store(version, Ordering::Relaxed);
        }
        if raw.negative && known.drops_negative {
            return Recalled::Unknown;
        }
        let Some(target) = &known.target else {
            return known.miss.map_or(Recalled::Unknown, Recalled::Left);
        };
        if raw.first_timestamp < target.times.start || raw.last_timestamp >= target.times.end {
            return Recalled::Unknown;
        }
        for copy in &target.copies {
            let length = known.plan.length(raw.labels.len(), copy.len()) + raw.samples.len();
            for output in outputs.iter_mut() {
                output.raw(known.lane, length, raw.count, |out| {
                    let ours = |first, last| copy.fields(first, last);
                    known.plan.write(out, raw.labels, &self.memory.kept_job, ours);
                    out.extend_from_slice(raw.samples);
                });
            }
        }
        Recalled::Written
    }

    /// Whether a series is known, be it of nobody.
    pub(super) fn is_known(&mut self, print: u64) -> bool {
        self.walk.find(print).is_some()
    }

    /// Remembers of a series that its former holder was told that it has ended, once that is on disk. Whose it is now is
    /// found out each time.
    pub(super) fn note_ended(&mut self, print: u64) {
        self.handed.0.push(Known { print, ..Known::default() });
    }

    /// Who a series was billed to when it was last seen.
    pub(super) fn before(&mut self, print: u64) -> Option<Arc<Target>> {
        self.walk.find(print)?.target.clone()
    }

    /// Whether a series with these labels would be recalled.
    #[cfg(test)]
    pub(super) fn knows(&mut self, labels: &[crosstalk_remote_write::Label<'_>]) -> bool {
        let mut bytes = Vec::new();
        for label in labels {
            crosstalk_remote_write::label_field(&mut bytes, label);
        }
        let print = self.print(&bytes);
        self.walk.find(print).is_some_and(|known| known.recallable)
    }

    /// Forgets a series.
    pub(super) fn forget(&mut self, print: u64) {
        self.walk.forget(print);
    }

    /// Remembers whom a series is billed to.
    pub(super) fn note(
        &mut self,
        series: &Series<'_, '_>,
        noted: Noted<'_>,
        rules: &Rules,
        snapshot: &Snapshot,
    ) {
        let recalls = self.memory.recalls && noted.plain && series.raw_labels().is_some();
        let plan = match noted.found {
            _ if !recalls => None,
            Some(_) => Plan::of(series, &self.memory.kept_job),
            None => Some(Plan::default()),
        };
        let target = noted.found.map(|found| self.memory.target(rules, &found));
        if plan.is_none() && target.is_none() {
            return;
        }
        let known = Known {
            print: noted.print,
            target,
            version: AtomicU32::new(snapshot.version() as u32),
            keys: noted.keys,
            recallable: plan.is_some(),
            plan: plan.unwrap_or_default(),
            lane: noted.lane,
            miss: noted.miss,
            drops_negative: rules.negative.drops(series.name()),
        };
        match noted.handed_over {
            true => self.handed.0.push(known),
            false => self.walk.put(known),
        }
    }
}

/// What is to be remembered of a series.
pub(super) struct Noted<'a> {
    pub(super) print: u64,
    /// Whether nothing else becomes of it than copies for workloads.
    pub(super) plain: bool,
    /// Whether another had it before, and was told that it has ended.
    pub(super) handed_over: bool,
    pub(super) found: Option<Found<'a>>,
    pub(super) miss: Option<Miss>,
    pub(super) lane: Lane,
    pub(super) keys: Keys,
}
