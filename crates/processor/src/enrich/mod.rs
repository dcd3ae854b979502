//! Series in, series of workloads out: pure functions over a snapshot, nothing allocated per series once warm.

mod labels;
mod negative;
mod rules;

use crosstalk_remote_write::{Encoder, Label, Metadata, Receiver, Sample, Series};

use crate::cache::{Miss, Snapshot};
use crate::config::Missing;
use crosstalk_inventory::Pod;
use labels::Added;
pub use negative::NegativeRule;
pub(crate) use negative::matches as pattern_matches;
pub use rules::Rules;

/// Put before the name of every enriched metric.
pub const NAME_PREFIX: &str = "workload_";

/// The label that tells why a series has no workload, under the policy `tag`.
pub const MISSING_LABEL: &str = "workload_missing";

/// What became of the series of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Series that got a workload.
    pub enriched: u64,
    /// Series without one, by [`Miss`].
    pub misses: [u64; Miss::ALL.len()],
    /// Samples left out because their series has no workload and the policy is to drop them.
    pub dropped_samples: u64,
    /// Samples left out because they are below zero.
    pub negative_samples: u64,
    /// Metadata entries that a 2.0 endpoint has no place for.
    pub unplaced_metadata: u64,
    /// Bits of the last `gpu_utilization` among the series.
    pub gpu_utilization: Option<u64>,
}

/// Buffers kept from one request to the next.
#[derive(Debug, Default)]
pub struct Buffers {
    samples: Vec<Sample>,
}

/// Takes decoded series and writes enriched ones, once per encoder.
#[derive(Debug)]
pub struct Enricher<'r> {
    /// What to do.
    pub rules: &'r Rules,
    /// What is known of pods and workloads.
    pub snapshot: &'r Snapshot,
    /// Where to write: one encoder for each protocol in use.
    pub encoders: &'r mut [Encoder],
    /// Memory to work in.
    pub buffers: &'r mut Buffers,
    /// What happened.
    pub counts: Counts,
}

impl<'b> Receiver<'b> for Enricher<'_> {
    fn series(&mut self, series: &Series<'_, 'b>) {
        let found = self.snapshot.find(series.labels);
        match found {
            Ok(_) => {
                self.counts.enriched += 1;
                self.note_gpu_utilization(series);
            }
            Err(miss) => {
                self.counts.misses[miss as usize] += 1;
                if self.rules.missing == Missing::Drop {
                    let samples = series.samples.len() + series.histograms.len();
                    self.counts.dropped_samples += samples as u64;
                    return;
                }
            }
        }
        if !self.loses_samples(series) {
            self.forward(found, series);
            return;
        }
        let mut kept = std::mem::take(&mut self.buffers.samples);
        kept.clear();
        kept.extend(series.samples.iter().filter(|sample| !is_negative(sample)).copied());
        self.counts.negative_samples += (series.samples.len() - kept.len()) as u64;
        if !(kept.is_empty() && series.histograms.is_empty()) {
            self.forward(found, &series.with_samples(&kept));
        }
        self.buffers.samples = kept;
    }

    fn metadata(&mut self, metadata: &Metadata<'b>) {
        let original = self.rules.keep_original || self.rules.missing != Missing::Drop;
        for encoder in self.encoders.iter_mut() {
            let mut placed = encoder.metadata(NAME_PREFIX, metadata);
            if original {
                placed &= encoder.metadata("", metadata);
            }
            self.counts.unplaced_metadata += u64::from(!placed);
        }
    }
}

/// Neither -0.0 nor a NaN (a stale marker is one) is below zero.
fn is_negative(sample: &Sample) -> bool {
    sample.value < 0.0
}

impl Enricher<'_> {
    fn write(&mut self, prefix: &str, labels: &[Label<'_>], series: &Series<'_, '_>) {
        for encoder in self.encoders.iter_mut() {
            encoder.series(prefix, labels, series);
        }
    }

    /// Keeps the last value of the one metric that the processor also shows itself.
    fn note_gpu_utilization(&mut self, series: &Series<'_, '_>) {
        if series.name() == "gpu_utilization"
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
    fn forward(&mut self, found: Result<&Pod, Miss>, series: &Series<'_, '_>) {
        match found {
            Ok(pod) => {
                if self.rules.keep_original {
                    self.write("", series.labels, series);
                }
                self.enriched(pod, series);
            }
            Err(_) if self.rules.missing == Missing::Pass => {
                self.write("", series.labels, series);
            }
            Err(miss) => {
                let tag = Label { name: MISSING_LABEL, value: miss.name() };
                for encoder in self.encoders.iter_mut() {
                    encoder.series_adding("", series, &[tag]);
                }
            }
        }
    }

    fn enriched(&mut self, pod: &Pod, series: &Series<'_, '_>) {
        let kept_job = &*self.rules.original_job_label;
        for workload in &pod.workloads {
            let mut added = Added::new(self.rules, pod, workload);
            if !kept_job.is_empty() {
                added.keep_job(kept_job, series.label("job").unwrap_or_default());
            }
            for encoder in self.encoders.iter_mut() {
                encoder.series_adding(NAME_PREFIX, series, added.labels());
            }
        }
    }
}

#[cfg(test)]
mod tests;
