//! Series in, series of workloads out: pure functions over a snapshot, nothing allocated per series once warm.

mod fingerprint;
mod labels;
mod memory;
mod negative;
mod output;
mod rules;
mod target;

use crosstalk_remote_write::{
    Histogram, Label, Metadata, RawSeries, Receiver, STALE_MARKER_BITS, Sample, Series,
};
use std::collections::HashSet;

use crate::cache::{Found, Miss, Snapshot};
use crate::config::Missing;
use crosstalk_inventory::Pod;
pub(crate) use fingerprint::Fingerprint;
use labels::Added;
pub(crate) use memory::{Handed, Memory};
use memory::{Noted, Recalled, Recollection};
pub use negative::NegativeRule;
pub(crate) use negative::matches as pattern_matches;
use output::Lane;
pub use output::Output;
pub use rules::Rules;

/// Put before the name of every enriched metric.
pub const NAME_PREFIX: &str = "workload_";

/// The label that tells why a series has no workload, under the policy `tag`.
pub const MISSING_LABEL: &str = "workload_missing";

/// For so long Prometheus reads the last value of a series on that nobody ended.
const LOOKBACK_NS: u64 = 300_000_000_000;

/// So long after its beginning a process looks who held a device before it began: series are far more frequent.
const ENDED_LATELY_NS: u64 = 600_000_000_000;

/// Of those who are not heard, so many are named in a refusal.
const MAX_DOUBTFUL: usize = 4;

/// The one metric that the processor also shows itself.
const SHOWN: &str = "gpu_utilization";

/// What became of the series of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Series that got a workload.
    pub enriched: u64,
    /// Series without one, by [`Miss`].
    pub misses: [u64; Miss::ALL.len()],
    /// Series, or parts of one, of pods that may only not have been heard of yet.
    pub doubtful_pods: u64,
    /// The same, of pods in namespaces that are not followed.
    pub doubtful_elsewhere: u64,
    /// Who is not heard that may know of holders of devices that were not found; the first of them.
    pub doubtful_holders: Vec<String>,
    /// Samples left out because their series has no workload and the policy is to drop them.
    pub dropped_samples: u64,
    /// Samples left out because they are below zero.
    pub negative_samples: u64,
    /// Samples left out because their series would have had the labels of another.
    pub collided_samples: u64,
    /// One of those series, for telling.
    pub collided: Option<String>,
    /// Stale markers written for those who no longer hold a device.
    pub handed_over: u64,
    /// Metadata entries that a 2.0 endpoint has no place for.
    pub unplaced_metadata: u64,
    /// Bits of the last `gpu_utilization` among the series.
    pub gpu_utilization: Option<u64>,
}

/// Buffers kept from one request to the next.
#[derive(Debug, Default)]
pub struct Buffers {
    samples: Vec<Sample>,
    /// Label sets of the request, where two series might come to have the same.
    written: HashSet<u64>,
}

impl Buffers {
    /// Makes them ready for another request.
    pub fn clear(&mut self) {
        self.samples.clear();
        self.written.clear();
    }
}

/// Takes decoded series and writes enriched ones, once for every protocol in use.
#[derive(Debug)]
pub struct Enricher<'r> {
    /// What to do.
    pub rules: &'r Rules,
    /// What is known of pods and workloads.
    pub snapshot: &'r Snapshot,
    /// What became of series before.
    pub(crate) memory: Option<Recollection<'r>>,
    /// Where to write.
    pub outputs: &'r mut [Output],
    /// Memory to work in.
    pub buffers: &'r mut Buffers,
    /// What happened.
    pub counts: Counts,
}

impl<'b> Receiver<'b> for Enricher<'_> {
    #[inline]
    fn raw(&mut self, series: &RawSeries<'b>) -> bool {
        let Some(memory) = &mut self.memory else { return false };
        match memory.recall(series, self.snapshot, self.outputs) {
            Recalled::Written => self.counts.enriched += 1,
            Recalled::Left(miss) => {
                self.counts.misses[miss as usize] += 1;
                self.counts.dropped_samples += series.count as u64;
            }
            Recalled::Unknown => return false,
        }
        true
    }

    fn series(&mut self, series: &Series<'_, 'b>) {
        let lane = Lane::of(series.labels);
        let first = first_time(series.samples, series.histograms);
        let found = self.snapshot.find_at(series.labels, first.map(unix_ns));
        match found {
            Ok(_) => {
                self.counts.enriched += 1;
                self.note_gpu_utilization(series);
            }
            Err(miss) => self.counts.misses[miss as usize] += 1,
        }
        self.remember(series, found, lane);
        let last = last_time(series).map(unix_ns);
        let covers = |until: u64| last.is_none_or(|last| last < until);
        let several = series.samples.len() + series.histograms.len() > 1;
        match found {
            Ok(found) if several && !covers(found.until_ns) => self.by_time(series, lane),
            Err(_) if several => self.by_time(series, lane),
            found => self.take(found, series, lane),
        }
    }

    fn metadata(&mut self, metadata: &Metadata<'b>) {
        let original = self.rules.keep_original || self.rules.missing != Missing::Drop;
        for output in self.outputs.iter_mut() {
            let mut placed = output.metadata(NAME_PREFIX, metadata);
            if original {
                placed &= output.metadata("", metadata);
            }
            self.counts.unplaced_metadata += u64::from(!placed);
        }
    }
}

/// Milliseconds since 1970 as the inventory counts; times before that are as old as any.
fn unix_ns(milliseconds: i64) -> u64 {
    u64::try_from(milliseconds).unwrap_or(0).saturating_mul(1_000_000)
}

/// The time of the earliest of these, which are in order.
fn first_time(samples: &[Sample], histograms: &[Histogram<'_>]) -> Option<i64> {
    let sample = samples.first().map(|sample| sample.timestamp);
    sample.into_iter().chain(histograms.first().map(|histogram| histogram.timestamp)).min()
}

/// The time of the latest that a series has.
fn last_time(series: &Series<'_, '_>) -> Option<i64> {
    let sample = series.samples.last().map(|sample| sample.timestamp);
    sample.max(series.histograms.last().map(|histogram| histogram.timestamp))
}

/// Neither -0.0 nor a NaN (a stale marker is one) is below zero.
fn is_negative(sample: &Sample) -> bool {
    sample.value < 0.0
}

impl<'r> Enricher<'r> {
    /// A series whose samples are not all of one holder: each goes to whoever it was then.
    fn by_time(&mut self, series: &Series<'_, '_>, lane: Lane) {
        let (mut samples, mut histograms) = (series.samples, series.histograms);
        let mut whole = true;
        while let Some(first) = first_time(samples, histograms) {
            let found = self.snapshot.find_at(series.labels, Some(unix_ns(first)));
            let same = |time: i64| {
                let at = unix_ns(time);
                time == first
                    || match found {
                        Ok(found) => (found.from_ns..found.until_ns).contains(&at),
                        Err(_) => self.snapshot.find_at(series.labels, Some(at)).is_err(),
                    }
            };
            let count = samples.iter().take_while(|sample| same(sample.timestamp)).count();
            let (these, later) = samples.split_at(count);
            let count = histograms.iter().take_while(|own| same(own.timestamp)).count();
            let (those, later_ones) = histograms.split_at(count);
            // Exemplars go with the first.
            let mut part = match std::mem::take(&mut whole) {
                true => series.with_samples(these),
                false => series.with_samples_only(these),
            };
            part.histograms = those;
            self.take(found, &part, lane);
            (samples, histograms) = (later, later_ones);
        }
    }

    /// Writes the samples of a series that are not left out.
    fn take(&mut self, found: Result<Found<'_>, Miss>, series: &Series<'_, '_>, lane: Lane) {
        if let Err(miss) = found {
            self.note_doubt(series, miss);
        }
        if found.is_err() && self.rules.missing == Missing::Drop {
            let samples = series.samples.len() + series.histograms.len();
            self.counts.dropped_samples += samples as u64;
            return;
        }
        let found = found.map(|found| found.pod);
        if !self.loses_samples(series) {
            self.forward(found, series, lane);
            return;
        }
        let mut kept = std::mem::take(&mut self.buffers.samples);
        kept.clear();
        kept.extend(series.samples.iter().filter(|sample| !is_negative(sample)).copied());
        self.counts.negative_samples += (series.samples.len() - kept.len()) as u64;
        if !(kept.is_empty() && series.histograms.is_empty()) {
            self.forward(found, &series.with_samples(&kept), lane);
        }
        self.buffers.samples = kept;
    }

    /// Notes who may know whose a series is that nobody was found for.
    fn note_doubt(&mut self, series: &Series<'_, '_>, miss: Miss) {
        let at = last_time(series).map_or(u64::MAX, unix_ns);
        let may_know = self.snapshot.who_may_know(series.labels, miss, at);
        let doubtful = match may_know.elsewhere {
            true => &mut self.counts.doubtful_elsewhere,
            false => &mut self.counts.doubtful_pods,
        };
        *doubtful += u64::from(may_know.pods);
        if let Some(doubt) = may_know.holder
            && self.counts.doubtful_holders.len() < MAX_DOUBTFUL
        {
            let who = doubt.to_string();
            if !self.counts.doubtful_holders.contains(&who) {
                self.counts.doubtful_holders.push(who);
            }
        }
    }

    /// Keeps whom this series belongs to for the next request, and ends the series of whom it belonged to before.
    fn remember(&mut self, series: &Series<'_, '_>, found: Result<Found<'_>, Miss>, lane: Lane) {
        let Some(memory) = &mut self.memory else { return };
        let print = memory.print_of(series);
        let before = memory.before(print);
        let first = first_time(series.samples, series.histograms);
        let mut handed_over = false;
        if let (Some(before), Some(at)) = (&before, first) {
            if at < before.times.start {
                // A backlog of a time before: what is known is of later.
                return;
            }
            handed_over = !found.as_ref().is_ok_and(|found| before.bills(found.pod));
            if handed_over {
                self.hand_over(&before.pod, series, at, lane);
            }
        }
        if let (None, Some(at)) = (&before, first)
            && let Some(former) = self.former_holder(series, found, at, print)
        {
            handed_over = true;
            self.hand_over(former, series, at, lane);
        }
        let miss = found.as_ref().err().copied();
        // Most who are not found now may be by another time; a series that speaks of nobody never is.
        let lasting = match miss {
            None => true,
            Some(miss) => miss == Miss::NoPodLabel && self.rules.missing == Missing::Drop,
        };
        let plain = !self.rules.keep_original && series.name() != SHOWN;
        let Some(memory) = &mut self.memory else { return };
        if lasting {
            let keys = self.snapshot.keys(series.labels);
            let device = found.as_ref().ok().filter(|found| found.by_device);
            let keys = device.map_or(keys, |found| keys.by_device(found.pod));
            let noted = Noted { print, plain, handed_over, found: found.ok(), miss, lane, keys };
            memory.note(series, noted, self.rules, self.snapshot);
        } else if handed_over {
            memory.note_ended(print);
        } else if before.is_some() {
            memory.forget(print);
        }
    }

    /// Of a series that this process has not seen before, who held its device until lately, when this process had not begun:
    /// who saw that one's samples did not see these.
    fn former_holder(
        &mut self,
        series: &Series<'_, '_>,
        found: Result<Found<'_>, Miss>,
        at: i64,
        print: u64,
    ) -> Option<&'r Pod> {
        let snapshot = self.snapshot;
        let (at_ns, begun_ns) = (unix_ns(at), snapshot.begun_ns());
        let by_device = match &found {
            Ok(found) => found.by_device,
            Err(miss) => matches!(miss, Miss::IdleDevice | Miss::ExporterPod | Miss::UnknownPod),
        };
        if !by_device || at_ns > begun_ns.saturating_add(ENDED_LATELY_NS) {
            return None;
        }
        if self.memory.as_mut()?.is_known(print) {
            return None;
        }
        let (pod, valid) = snapshot.holder_before(series.labels, at_ns)?;
        let until = valid.valid_to_ns?;
        let lately =
            until <= at_ns && at_ns - until < LOOKBACK_NS && valid.valid_from_ns < begun_ns;
        let other = found.ok().is_none_or(|found| found.pod.uid != pod.uid);
        (lately && other && !pod.workloads.is_empty()).then_some(pod)
    }

    /// Says that the series of a former holder has ended, so that nobody reads its last value on. Stores take the mark for
    /// the end of a series of histograms too.
    fn hand_over(&mut self, before: &Pod, series: &Series<'_, '_>, at: i64, lane: Lane) {
        let stale = [Sample::new(f64::from_bits(STALE_MARKER_BITS), at)];
        let ended = series.with_samples_only(&stale);
        self.counts.handed_over += 1;
        for workload in &before.workloads {
            let added = Added::new(self.rules, before, workload, &ended);
            for output in self.outputs.iter_mut() {
                output.series(lane, NAME_PREFIX, &ended, added.labels());
            }
        }
    }

    /// Keeps the last value of the one metric that the processor also shows itself.
    fn note_gpu_utilization(&mut self, series: &Series<'_, '_>) {
        if series.name() == SHOWN
            && let Some(sample) = series.samples.last()
            && !sample.value.is_nan()
        {
            self.counts.gpu_utilization = Some(sample.value.to_bits());
        }
    }

    /// Whether samples of this series are left out because they are below zero, whoever it belongs to.
    fn loses_samples(&self, series: &Series<'_, '_>) -> bool {
        series.samples.iter().any(is_negative) && self.rules.negative.drops(series.name())
    }

    /// Writes what is left of a series, as its workloads' or by the policy for series without one.
    fn forward(&mut self, found: Result<&Pod, Miss>, series: &Series<'_, '_>, lane: Lane) {
        match found {
            Ok(pod) => {
                if self.rules.keep_original {
                    self.write(lane, "", series, &[]);
                }
                for workload in &pod.workloads {
                    let added = Added::new(self.rules, pod, workload, series);
                    if self.collides(series, added.labels()) {
                        continue;
                    }
                    self.write(lane, NAME_PREFIX, series, added.labels());
                }
            }
            Err(_) if self.rules.missing == Missing::Pass => self.write(lane, "", series, &[]),
            Err(miss) => {
                let tag = Label { name: MISSING_LABEL, value: miss.name() };
                self.write(lane, "", series, &[tag]);
            }
        }
    }

    fn write(&mut self, lane: Lane, prefix: &str, series: &Series<'_, '_>, added: &[Label<'_>]) {
        for output in self.outputs.iter_mut() {
            output.series(lane, prefix, series, added);
        }
    }

    /// Whether another series of this request has the same labels already. What a series came with under our names is kept
    /// in a way that no two meet, unless the configuration wants it otherwise.
    fn collides(&mut self, series: &Series<'_, '_>, added: &[Label<'_>]) -> bool {
        if !self.rules.may_collide() {
            return false;
        }
        let prints = Fingerprint::fixed();
        let kept = series
            .labels
            .iter()
            .filter(|label| added.binary_search_by(|other| other.name.cmp(label.name)).is_err());
        let added = added.iter().filter(|label| !label.value.is_empty());
        // The sum does not mind in which order they come.
        let print = kept.chain(added).fold(0u64, |sum, label| {
            let name = prints.of(label.name.as_bytes());
            sum.wrapping_add(prints.fold(name, label.value.as_bytes()))
        });
        if self.buffers.written.insert(print) {
            return false;
        }
        self.counts.collided_samples += (series.samples.len() + series.histograms.len()) as u64;
        self.counts.collided.get_or_insert_with(|| series.name().to_owned());
        true
    }
}

#[cfg(test)]
mod tests;
