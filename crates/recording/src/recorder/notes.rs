//! What files say about how recording went: told again whenever it changes.

use crate::Recording;
use crosstalk_collect::{Gap, Loss, Overview, SourceStatus};
use crosstalk_host::{Clock, monotonic_ns};
use serde_json::{Value, json};

/// How things stood when a run began: what was before is not its own.
#[derive(Debug, Default)]
pub(super) struct Began {
    at_ns: u64,
    losses: Vec<Loss>,
}

impl Began {
    pub(super) fn now(overview: &Overview) -> Self {
        Self { at_ns: monotonic_ns(), losses: overview.losses().all() }
    }

    /// What was lost since, of what was on its way here: others that lost the same rows lost them for themselves.
    pub(super) fn lost(&self, overview: &Overview) -> Vec<Loss> {
        let mut others = overview.consumers();
        others.retain(|name| *name != super::NAME);
        let mut losses = overview.losses().all();
        for loss in &mut losses {
            let is_same = |b: &&Loss| (b.dataset, b.place) == (loss.dataset, loss.place);
            let before = self.losses.iter().find(is_same);
            loss.rows -= before.map_or(0, |before| before.rows.min(loss.rows));
        }
        losses.retain(|loss| loss.rows > 0 && !others.contains(&loss.place));
        losses
    }

    /// When a source that had worked did not, in Unix time.
    fn gaps(&self, status: &SourceStatus, clock: &Clock) -> Vec<Value> {
        let mut gaps = status.gaps();
        gaps.retain(|gap| gap.to_ns.is_none_or(|to_ns| to_ns > self.at_ns));
        let note = |gap: &Gap| {
            let to_ns = gap.to_ns.map(|ns| clock.unix_ns(ns));
            json!({ "from_ns": clock.unix_ns(gap.from_ns), "to_ns": to_ns, "why": gap.why })
        };
        gaps.iter().map(note).collect()
    }
}

/// What each source says about itself and why it is not there, what was lost, and every step of the
/// clock.
pub(super) fn take(recording: &mut Recording, overview: &Overview, began: &Began) {
    overview.clock().look();
    recording.note("clock", overview.clock());
    recording.note("loss", began.lost(overview));
    for status in overview.statuses() {
        for (key, value) in status.described() {
            recording.note(&key, value);
        }
        let about = status.about();
        if about.datasets.is_empty() {
            continue;
        }
        let standing = status.standing();
        let absent = (!standing.works()).then_some(standing.capability.found);
        recording.note(&format!("{}_absent_because", about.name), absent);
        if status.restarts() > 0 {
            recording.note(&format!("{}_restarts", about.name), status.restarts());
        }
        let gaps = began.gaps(&status, overview.clock());
        if !gaps.is_empty() {
            recording.note(&format!("{}_gaps", about.name), gaps);
        }
    }
}
