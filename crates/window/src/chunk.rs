//! Append-only storage of 64 samples, one column per metric.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Samples per chunk. Small, because a reader sorts the ragged edges of a window itself.
pub(crate) const CHUNK: usize = 64;

/// A cell is written once, before `len` covers it, and never again; so a reader that loaded `len`
/// sees every cell below it whole. Absent values are NaN, which a sample can never hold.
#[derive(Debug)]
pub(crate) struct Chunk {
    len: AtomicUsize,
    starts: [AtomicU64; CHUNK],
    ends: [AtomicU64; CHUNK],
    /// Time covered by every sample up to this one, since the buffer began.
    covered: [AtomicU64; CHUNK],
    /// Column-major: the 64 values of metric 0, then of metric 1, ...
    cells: Box<[AtomicU64]>,
}

impl Chunk {
    pub(crate) fn new(metrics: usize) -> Self {
        Self {
            len: AtomicUsize::new(0),
            starts: [const { AtomicU64::new(0) }; CHUNK],
            ends: [const { AtomicU64::new(0) }; CHUNK],
            covered: [const { AtomicU64::new(0) }; CHUNK],
            cells: (0..metrics * CHUNK).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Appends a sample; returns how many the chunk now holds. Only the one writer calls this.
    pub(crate) fn append(
        &self,
        start: u64,
        end: u64,
        covered: u64,
        values: &[Option<f64>],
    ) -> usize {
        let at = self.len.load(Ordering::Relaxed);
        self.starts[at].store(start, Ordering::Relaxed);
        self.ends[at].store(end, Ordering::Relaxed);
        self.covered[at].store(covered, Ordering::Relaxed);
        for (column, value) in self.cells.chunks_exact(CHUNK).zip(values) {
            // Infinities carry no information a mean could survive: absent, like NaN. Adding zero
            // turns -0.0 into 0.0, so that equal values have one representation.
            let value = value.filter(|v| v.is_finite()).map_or(f64::NAN, |v| v + 0.0);
            column[at].store(value.to_bits(), Ordering::Relaxed);
        }
        self.len.store(at + 1, Ordering::Release);
        at + 1
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    pub(crate) fn start(&self, at: usize) -> u64 {
        self.starts[at].load(Ordering::Relaxed)
    }

    pub(crate) fn end(&self, at: usize) -> u64 {
        self.ends[at].load(Ordering::Relaxed)
    }

    pub(crate) fn covered_through(&self, at: usize) -> u64 {
        self.covered[at].load(Ordering::Relaxed)
    }

    pub(crate) fn column(&self, metric: usize) -> &[AtomicU64] {
        &self.cells[metric * CHUNK..(metric + 1) * CHUNK]
    }
}

/// The value of a cell, or `None` where nothing was measured.
pub(crate) fn value(cell: &AtomicU64) -> Option<f64> {
    let value = f64::from_bits(cell.load(Ordering::Relaxed));
    (!value.is_nan()).then_some(value)
}
