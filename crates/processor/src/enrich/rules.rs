//! The configuration of enrichment, as the hot path needs it.

use super::NegativeRule;
use crate::config::{Enrichment, Missing};

/// What is done with series.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Value of `job`.
    pub job: String,
    /// Label that keeps the `job` a series came with; empty: none.
    pub original_job_label: String,
    /// Series without a workload.
    pub missing: Missing,
    /// Whether enriched series are also written as they came.
    pub keep_original: bool,
    /// Samples below zero.
    pub negative: NegativeRule,
}

impl Rules {
    /// The rules of a configuration.
    pub fn new(enrichment: &Enrichment) -> Self {
        Rules {
            job: enrichment.job.clone(),
            original_job_label: enrichment.original_job_label.clone(),
            missing: enrichment.missing,
            keep_original: enrichment.keep_original,
            negative: NegativeRule::new(&enrichment.negative),
        }
    }
}

impl Rules {
    /// Whether two series may come to have the same labels: only where the job that one came with is not kept as
    /// `exported_job`.
    pub(super) fn may_collide(&self) -> bool {
        self.original_job_label != super::labels::OURS[0].1[0]
    }
}
