//! Slots in order, many at a time, as they go from the thread that reads to the one that judges.

use crate::brief::Brief;
use crate::ordered::Ordered;
use crosstalk_interference::Subject;
use crosstalk_recording::RecordedFile;

/// Slots that go over at once: enough that handing over costs nothing beside them.
const SLOTS: usize = 256;

/// Some slots, and how far reading had come with the last of them.
pub(crate) struct Chunk<'a> {
    /// Where each slot begins in time, and where its rows end.
    slots: Vec<(u64, usize)>,
    rows: Vec<Brief>,
    /// The file that was being read.
    pub(crate) file: Option<&'a RecordedFile>,
    /// Rows read so far.
    pub(crate) read: u64,
    /// Rows so far that came too late for their slot.
    pub(crate) late: u64,
    /// Who was met in which cgroup since the chunk before.
    pub(crate) met: Vec<(u64, Subject)>,
    /// What could not be read so far.
    pub(crate) unread: Vec<String>,
}

impl Chunk<'_> {
    /// Each slot's start and rows.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (u64, &[Brief])> {
        let mut from = 0;
        self.slots.iter().map(move |&(start_ns, to)| {
            let rows = &self.rows[from..to];
            from = to;
            (start_ns, rows)
        })
    }
}

/// All slots of a data set. There is a chunk at the end even if nothing could be read: it says why.
pub(crate) fn chunks<'a>(mut ordered: Ordered<'a, Brief>) -> impl Iterator<Item = Chunk<'a>> {
    let mut has_ended = false;
    std::iter::from_fn(move || {
        if has_ended {
            return None;
        }
        let (mut slots, mut rows) = (Vec::with_capacity(SLOTS), Vec::new());
        while slots.len() < SLOTS {
            let Some((start_ns, some)) = ordered.next_until(u64::MAX) else {
                has_ended = true;
                break;
            };
            rows.extend_from_slice(some);
            slots.push((start_ns, rows.len()));
        }
        Some(Chunk {
            slots,
            rows,
            file: ordered.file,
            read: ordered.rows,
            late: ordered.late_rows,
            met: std::mem::take(&mut ordered.met),
            unread: ordered.unread.clone(),
        })
    })
}
