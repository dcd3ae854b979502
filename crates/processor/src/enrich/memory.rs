//! What became of a series last time, known by the bytes of its labels.
//!
//! Most series of a request were in the one before. Decoding, checking and looking them up again is most of the work, and
//! gives what it gave before unless the inventory has changed in what they speak of. So for every series it is kept, in some
//! sixty bytes, whom it is billed to and where in its labels ours go. A series that is not known, or may have changed, goes
//! the long way.

use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard};

use crosstalk_inventory::Pod;
use crosstalk_remote_write::{RawSeries, Series};
use hashbrown::{DefaultHashBuilder, HashTable};

use super::fingerprint::Fingerprint;
use super::labels::OURS;
use super::output::{Lane, Output};
use super::target::Target;
use super::{NAME_PREFIX, Rules};
use crate::cache::{Found, Keys, Miss, Snapshot};

/// Series that are remembered at most; beyond it a part is forgotten. 64 MiB or so.
const MOST: usize = 1 << 20;

/// Parts that are locked apart from each other.
const PARTS: usize = 64;

/// Places in the labels of a series where something happens: six are enough for all but odd ones.
const EVENTS: usize = 6;

/// Something that happens to the labels of a series at one place.
#[derive(Debug, Clone, Copy, Default)]
struct Event {
    /// Where, in bytes of the labels.
    at: u16,
    /// Bytes of the labels that are left out there.
    skip: u8,
    what: What,
}

/// What happens, in a byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct What(u8);

impl What {
    /// No more.
    const END: What = What(0);
    /// The name gets its prefix.
    const NAME: What = What(1);
    /// The job that the series came with, under another name.
    const KEPT_JOB: What = What(2);

    /// Our labels from the one to the other, in the order of [`OURS`].
    fn ours(first: usize, last: usize) -> What {
        What(0x80 | (first as u8) << 3 | last as u8)
    }

    #[inline]
    fn first_and_last(self) -> (u8, u8) {
        (self.0 >> 3 & 7, self.0 & 7)
    }
}

/// A series and what it became.
#[derive(Debug, Clone)]
struct Known {
    print: u64,
    /// `None` for a series of nobody, which is not forwarded.
    target: Option<Arc<Target>>,
    /// Of which snapshot this is known to be true.
    version: u32,
    keys: Keys,
    events: [Event; EVENTS],
    /// Bytes that the labels grow by, without ours.
    growth: i16,
    /// Where the field of the job begins that is kept.
    job_at: u16,
    lane: Lane,
    miss: Option<Miss>,
    /// Whether samples below zero are left out.
    drops_negative: bool,
}

// One line of a processor's cache: what a series costs, and what finding it costs.
const _: () = assert!(size_of::<Known>() <= 64);

/// What is remembered of all series.
#[derive(Debug)]
pub(crate) struct Memory {
    prints: Fingerprint,
    parts: Vec<Mutex<HashTable<Known>>>,
    targets: Mutex<HashTable<Arc<Target>>>,
    hasher: DefaultHashBuilder,
    /// The field of the kept job up to its value's length, without the first length; empty where none is kept.
    kept_job: Vec<u8>,
}

/// What a raw series came to.
pub(super) enum Recalled {
    /// It was written.
    Written,
    /// It belongs to nobody and is left out.
    Left(Miss),
    /// It goes the long way.
    Unknown,
}

/// Who a series was billed to before.
pub(super) struct Before {
    pub(super) target: Arc<Target>,
}

impl Memory {
    pub(crate) fn new(rules: &Rules) -> Self {
        // With any other name, series go the long way: it might stand among ours.
        let kept_job = match &*rules.original_job_label {
            name if name == OURS[0].1[0] => {
                [&[0x0a, name.len() as u8], name.as_bytes(), &[0x12]].concat()
            }
            _ => Vec::new(),
        };
        Memory {
            prints: Fingerprint::random(),
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            targets: Mutex::default(),
            hasher: DefaultHashBuilder::default(),
            kept_job,
        }
    }

    pub(super) fn print(&self, labels: &[u8]) -> u64 {
        self.prints.of(labels)
    }

    fn part(&self, print: u64) -> MutexGuard<'_, HashTable<Known>> {
        // From the middle: a table looks at both ends.
        let part = &self.parts[(print >> 32) as usize % PARTS];
        part.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Writes a series as it was written last time, if that is known to be right.
    #[inline]
    pub(super) fn recall(
        &self,
        raw: &RawSeries<'_>,
        snapshot: &Snapshot,
        outputs: &mut [Output],
    ) -> Recalled {
        let print = self.print(raw.labels);
        let mut part = self.part(print);
        let Some(known) = part.find_mut(print, |known| known.print == print) else {
            return Recalled::Unknown;
        };
        let version = snapshot.version() as u32;
        if known.version != version {
            if !snapshot.holds_since(known.version, known.keys) {
                return Recalled::Unknown;
            }
            known.version = version;
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
            let labels = (raw.labels.len() + copy.len()).checked_add_signed(known.growth.into());
            let length = labels.unwrap_or(0) + raw.samples.len();
            for output in outputs.iter_mut() {
                output.of_lane(known.lane).raw(length, raw.count, |out| {
                    known.write(out, raw.labels, &self.kept_job, |first, last| {
                        copy.fields(first, last)
                    });
                    out.extend_from_slice(raw.samples);
                });
            }
        }
        Recalled::Written
    }

    /// Who a series was billed to when it was last seen.
    pub(super) fn before(&self, print: u64) -> Option<Before> {
        let part = self.part(print);
        let known = part.find(print, |known| known.print == print)?;
        Some(Before { target: Arc::clone(known.target.as_ref()?) })
    }

    /// Whether a series with these labels would be recalled.
    #[cfg(test)]
    pub(super) fn knows(&self, labels: &[crosstalk_remote_write::Label<'_>]) -> bool {
        let mut bytes = Vec::new();
        for label in labels {
            crosstalk_remote_write::label_field(&mut bytes, label);
        }
        let print = self.print(&bytes);
        self.part(print).find(print, |known| known.print == print).is_some()
    }

    /// Forgets a series.
    pub(super) fn forget(&self, print: u64) {
        if let Ok(known) = self.part(print).find_entry(print, |known| known.print == print) {
            known.remove();
        }
    }

    /// Remembers whom a series is billed to.
    pub(super) fn note(
        &self,
        series: &Series<'_, '_>,
        noted: Noted<'_>,
        rules: &Rules,
        snapshot: &Snapshot,
    ) {
        let Some(labels) = series.raw_labels() else { return };
        let Some(plan) = self.plan(series, noted.found.is_some()) else { return };
        let print = self.print(labels);
        let target = noted.found.map(|found| self.target(rules, &found));
        let known = Known {
            print,
            target,
            events: plan.events,
            growth: plan.growth,
            job_at: plan.job_at,
            lane: noted.lane,
            miss: noted.miss,
            drops_negative: rules.negative.drops(series.name()),
            version: snapshot.version() as u32,
            keys: noted.keys,
        };
        let mut part = self.part(print);
        if part.len() >= MOST / PARTS {
            // Those that are not seen any more go with the others; who is left comes back with the next request.
            part.clear();
        }
        match part.find_mut(print, |known| known.print == print) {
            Some(before) => *before = known,
            None => drop(part.insert_unique(print, known, |known| known.print)),
        }
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

    /// What happens to the labels of a series; `None` for a series that is odd.
    fn plan(&self, series: &Series<'_, '_>, found: bool) -> Option<Plan> {
        let mut plan = Plan::default();
        if !found {
            return Some(plan);
        }
        let kept_name = OURS[0].1[0];
        let job = series.labels.iter().position(|label| label.name == OURS[0].0);
        if let Some(job) = job {
            plan.job_at = u16::try_from(series.raw_label(job)?.start).ok()?;
        }
        let end = series.raw_labels()?.len();
        let (mut ours, mut kept_due) = (0, job.is_some());
        if kept_due && self.kept_job.is_empty() {
            return None;
        }
        for place in 0..=series.labels.len() {
            let (label, field) = match series.labels.get(place) {
                Some(label) => (Some(label), series.raw_label(place)?),
                None => (None, end..end),
            };
            let at = u16::try_from(field.start).ok()?;
            let goes_here = |name: &str| label.is_none_or(|label| name < label.name);
            if kept_due && goes_here(kept_name) {
                plan.push(Event { at, skip: 0, what: What::KEPT_JOB })?;
                // Two bytes of the field, the name's part, and the value with its length: all lengths take a byte.
                let inner = self.kept_job.len() + 1 + series.labels[job?].value.len();
                plan.growth += 2 + i16::try_from(inner).ok().filter(|inner| *inner < 0x80)?;
                kept_due = false;
            }
            let first = ours;
            while ours < OURS.len() && goes_here(OURS[ours].0) {
                ours += 1;
            }
            if ours > first {
                plan.push(Event { at, skip: 0, what: What::ours(first, ours - 1) })?;
            }
            let Some(label) = label else { break };
            let skip = u8::try_from(field.len()).ok()?;
            if Some(place) == job {
                // Ours takes its place.
                plan.push(Event { at, skip, what: What::ours(ours, ours) })?;
                plan.growth -= i16::from(skip);
                ours += 1;
            } else if label.name == "__name__" {
                if field.len() + NAME_PREFIX.len() >= 0x80 {
                    return None;
                }
                plan.push(Event { at, skip, what: What::NAME })?;
                plan.growth += NAME_PREFIX.len() as i16;
            } else if is_in_the_way(label.name) {
                return None;
            }
        }
        Some(plan)
    }
}

/// What happens to the labels of a series.
#[derive(Debug, Default)]
struct Plan {
    events: [Event; EVENTS],
    count: usize,
    growth: i16,
    job_at: u16,
}

impl Plan {
    fn push(&mut self, event: Event) -> Option<()> {
        *self.events.get_mut(self.count)? = event;
        self.count += 1;
        Some(())
    }
}

/// Whether a label has a name that one of ours, or one that is kept, may need.
fn is_in_the_way(name: &str) -> bool {
    OURS.iter().any(|(ours, kept)| *ours == name || kept.contains(&name))
}

/// What is to be remembered of a series.
pub(super) struct Noted<'a> {
    pub(super) found: Option<Found<'a>>,
    pub(super) miss: Option<Miss>,
    pub(super) lane: Lane,
    pub(super) keys: Keys,
}

impl Known {
    /// The labels with what happens to them.
    #[inline]
    fn write<'a>(
        &self,
        out: &mut Vec<u8>,
        labels: &[u8],
        kept_job: &[u8],
        ours: impl Fn(u8, u8) -> &'a [u8],
    ) {
        let mut from = 0;
        for event in &self.events {
            if event.what == What::END {
                break;
            }
            let at = usize::from(event.at);
            out.extend_from_slice(&labels[from..at]);
            match event.what {
                What::NAME => {
                    let field = &labels[at..at + usize::from(event.skip)];
                    let (more, value) = (NAME_PREFIX.len() as u8, field.len() - 14);
                    // A tag and a length before the field, `__name__` and the value.
                    out.extend_from_slice(&[0x0a, field[1] + more]);
                    out.extend_from_slice(&field[2..13]);
                    out.push(value as u8 + more);
                    out.extend_from_slice(NAME_PREFIX.as_bytes());
                    out.extend_from_slice(&field[14..]);
                }
                What::KEPT_JOB => {
                    // The field is a tag and a length, the name `job` with its own, and the value with its own.
                    let job = usize::from(self.job_at);
                    let field = &labels[job..job + 2 + usize::from(labels[job + 1])];
                    let value = &field[8..];
                    out.extend_from_slice(&[0x0a, (kept_job.len() + value.len()) as u8]);
                    out.extend_from_slice(kept_job);
                    out.extend_from_slice(value);
                }
                what => {
                    let (first, last) = what.first_and_last();
                    out.extend_from_slice(ours(first, last));
                }
            }
            from = at + usize::from(event.skip);
        }
        out.extend_from_slice(&labels[from..]);
    }
}
