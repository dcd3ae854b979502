//! What files say about how recording went: told again whenever it changes.

use crate::Recording;
use crosstalk_collect::{Loss, Overview};

/// What each source says about itself and why it is not there, what was lost, and every step of the
/// clock.
pub(super) fn take(recording: &mut Recording, overview: &Overview, before: &[Loss]) {
    overview.clock().look();
    recording.note("clock", overview.clock());
    recording.note("loss", since(overview, before));
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
        // A source that was started anew meanwhile has a gap.
        if status.restarts() > 0 {
            recording.note(&format!("{}_restarts", about.name), status.restarts());
        }
    }
}

/// What was lost since there were these losses.
pub(super) fn since(overview: &Overview, before: &[Loss]) -> Vec<Loss> {
    let mut losses = overview.losses().all();
    for loss in &mut losses {
        let known = before.iter().find(|b| (b.dataset, b.place) == (loss.dataset, loss.place));
        loss.rows -= known.map_or(0, |known| known.rows.min(loss.rows));
    }
    losses.retain(|loss| loss.rows > 0);
    losses
}
