use crate::chunk::{CHUNK, Chunk};
use crate::error::WindowError;
use crate::middle::{Middle, QUESTIONS};
use crate::snapshot::Snapshot;
use crate::stats::Window;
use crate::writer::{Config, Counters, Shared};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Reads a buffer while it is written. Cheap to clone; never waits and never makes the writer wait.
#[derive(Debug, Clone)]
pub struct Reader {
    shared: Arc<Shared>,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// What the buffer holds at this moment, frozen.
    #[must_use]
    pub fn view(&self) -> View {
        let snapshot = self.shared.snapshot.load_full();
        let open_len = snapshot.open().len();
        let retention = self.shared.config.retention;
        View { shared: Arc::clone(&self.shared), snapshot, open_len, retention }
    }

    /// How the buffer was configured.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// What happened to samples so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            accepted: self.shared.accepted.load(Ordering::Relaxed),
            out_of_order: self.shared.out_of_order.load(Ordering::Relaxed),
            trimmed: self.shared.trimmed.load(Ordering::Relaxed),
            dropped_full: self.shared.dropped_full.load(Ordering::Relaxed),
        }
    }
}

/// A frozen moment of the buffer. Hold it for one answer, not for long: it keeps its memory alive.
#[derive(Debug, Clone)]
pub struct View {
    shared: Arc<Shared>,
    snapshot: Arc<Snapshot>,
    open_len: usize,
    retention: Duration,
}

impl View {
    /// End of the newest sample, if there is one.
    #[must_use]
    pub fn newest_ns(&self) -> Option<u64> {
        let (chunk, len) = self.filled().next_back()?;
        Some(chunk.end(len - 1))
    }

    /// How many samples within retention are held.
    #[must_use]
    pub fn samples(&self) -> usize {
        let Some(newest) = self.newest_ns() else { return 0 };
        let kept = u64::try_from(self.retention.as_nanos()).unwrap_or(u64::MAX);
        let horizon = newest.saturating_sub(kept);
        let held = |(chunk, len): (&Chunk, usize)| match chunk.end(0) > horizon {
            true => len,
            false => (0..len).filter(|&at| chunk.end(at) > horizon).count(),
        };
        self.filled().map(held).sum()
    }

    /// The window of exactly `length` that ends at `end_ns` (monotonic nanoseconds).
    ///
    /// # Errors
    /// If the length is zero or more than the retention.
    pub fn window(&self, end_ns: u64, length: Duration) -> Result<Window<'_>, WindowError> {
        if length.is_zero() {
            return Err(WindowError::EmptyWindow { kept: self.retention });
        }
        if length > self.retention {
            return Err(WindowError::TooLong { asked: length, kept: self.retention });
        }
        let length_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        let mut window = self.cut(end_ns.saturating_sub(length_ns), end_ns, length_ns);
        if let Some(chunks) = window.memorable() {
            self.recall(&mut window, chunks);
        }
        Ok(window)
    }

    /// Hands the window what is known about its middle; starts finding out when asked often enough.
    fn recall(&self, window: &mut Window<'_>, chunks: Range<u64>) {
        let known = self.shared.middle.load_full().filter(|middle| middle.chunks == chunks);
        if let Some(middle) = known {
            return window.remember(middle);
        }
        // Readers that race here miscount questions; that shifts work, never answers.
        let question = chunks.start.rotate_left(32) ^ chunks.end;
        if self.shared.question.swap(question, Ordering::Relaxed) != question {
            self.shared.asked.store(0, Ordering::Relaxed);
        }
        if self.shared.asked.fetch_add(1, Ordering::Relaxed) == QUESTIONS {
            let middle = Arc::new(Middle::new(chunks, self.shared.config.metrics.len()));
            self.shared.middle.store(Some(Arc::clone(&middle)));
            window.remember(middle);
        }
    }

    /// The chunks that hold anything, with how many samples of each this view may see.
    fn filled(&self) -> impl DoubleEndedIterator<Item = (&Chunk, usize)> {
        let chunks = &self.snapshot.chunks;
        (0..chunks.len()).map(|at| (&*chunks[at], self.visible(at))).filter(|(_, len)| *len > 0)
    }

    fn visible(&self, at: usize) -> usize {
        if at + 1 == self.snapshot.chunks.len() { self.open_len } else { CHUNK }
    }

    /// Divides what overlaps `start..end` into whole runs and ragged edges.
    fn cut(&self, start: u64, end: u64, length_ns: u64) -> Window<'_> {
        let snapshot = &*self.snapshot;
        let first = self.first_chunk(|chunk, len| len > 0 && chunk.end(len - 1) <= start);
        let past = self.first_chunk(|chunk, len| len > 0 && chunk.start(0) < end);
        let whole_to = self.first_chunk(|chunk, len| len == CHUNK && chunk.end(CHUNK - 1) <= end);
        let mut window = Window::new(length_ns, self.shared.config.metrics.len());
        let mut at = first;
        while at < past {
            let (chunk, len) = (&*snapshot.chunks[at], self.visible(at));
            let run = if chunk.start(0) >= start && at < whole_to {
                snapshot.run_at(snapshot.first + at as u64, snapshot.first + whole_to as u64)
            } else {
                None
            };
            match run {
                Some((run, span)) => {
                    let last = &snapshot.chunks[at + span as usize - 1];
                    let number = snapshot.first + at as u64;
                    window.add_run(run, number..number + span, covered(chunk, last));
                    at += span as usize;
                }
                None => {
                    window.add_edge(chunk, len, start, end);
                    at += 1;
                }
            }
        }
        window
    }

    /// Index of the first chunk for which `before` no longer holds; it holds for a prefix.
    fn first_chunk(&self, before: impl Fn(&Chunk, usize) -> bool) -> usize {
        let (mut from, mut to) = (0, self.snapshot.chunks.len());
        while from < to {
            let middle = usize::midpoint(from, to);
            if before(&self.snapshot.chunks[middle], self.visible(middle)) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }
}

/// Time covered by the samples from the start of one full chunk to the end of another.
fn covered(first: &Chunk, last: &Chunk) -> u64 {
    let first_length = first.end(0) - first.start(0);
    last.covered_through(CHUNK - 1) - first.covered_through(0) + first_length
}
