//! What kidled says of one cgroup: `memory.idle_page_stats`, which the proposal calls `memory.idle_stat`.

pub(crate) mod file;
mod parse;
mod render;
#[cfg(test)]
mod tests;

pub use file::{IdleFile, IdleFileError};
pub use parse::{IdleInfoError, Problem};

use crate::age::{AgeCell, Ages, ColdBoundary, Kind};
use crate::backend::WarmUp;

/// A row of the file: pages by clean or dirty, swap-backed or file, evictable or not, inactive or active;
/// and slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IdleRow(u8);

impl IdleRow {
    /// All rows in the kernel's order.
    pub const NAMES: [&'static str; 17] = [
        "csei", "dsei", "cfei", "dfei", "csui", "dsui", "cfui", "dfui", "csea", "dsea", "cfea",
        "dfea", "csua", "dsua", "cfua", "dfua", "slab",
    ];
    /// The row that old kernels lack.
    pub const SLAB: Self = Self(16);

    /// All rows in the kernel's order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..17).map(Self)
    }

    /// The row called so.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|row| row.name() == name)
    }

    /// The kernel's name for it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self.0 as usize]
    }

    /// What kind of memory it counts.
    pub fn kind(self) -> Kind {
        match self.name().as_bytes()[1] {
            _ if self == Self::SLAB => Kind::Slab,
            b'f' => Kind::File,
            _ => Kind::Anon,
        }
    }

    /// Whether its pages are on an active list.
    pub fn is_active(self) -> bool {
        self.name().ends_with('a')
    }

    /// Whether its pages can not be evicted.
    pub fn is_unevictable(self) -> bool {
        self.name().as_bytes()[2] == b'u'
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The idle info structure of the proposal. Values are bytes, ages are in scan periods.
///
/// It keeps its buffers from one [`parse`](Self::parse) to the next, so a round over many cgroups
/// with one of it allocates nothing.
///
/// ```
/// use crosstalk_coldmem::{IdleInfo, IdleRow};
///
/// let header = "# version: 1.0\n# scans: 1380\n# scan_period_in_seconds: 120";
/// let text = format!("{header}\n# buckets: no valid bucket available\n");
/// let mut info = IdleInfo::default();
/// info.parse(&text)?;
/// assert_eq!(info.page_scans, 1380);
/// assert_eq!(info.row(IdleRow::SLAB), None);
/// assert_eq!(info.idle_total_bytes(), None);
/// # Ok::<(), crosstalk_coldmem::IdleInfoError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleInfo {
    /// Of the file's format.
    pub version: String,
    /// How often pages were scanned; old kernels call it `scans`.
    pub page_scans: u64,
    /// How often slab was scanned; absent on kernels that do not.
    pub slab_scans: Option<u64>,
    /// The length of a scan period. kidled doubles it under load.
    pub scan_period_in_seconds: u64,
    /// Whether a cgroup's values hold those of the cgroups in it; absent where the file does not say.
    pub use_hierarchy: Option<u64>,
    /// Where each bucket begins, in scan periods; empty where the kernel has no valid bucket.
    pub buckets: Vec<u64>,
    /// Seventeen rows of as many values as there are buckets; what is not in `seen` is meaningless.
    cells: Vec<u64>,
    /// A bit for each row that is there.
    seen: u32,
}

/// Scans at which kidled ends counting a page's age.
const OLDEST: u64 = 255;

impl IdleInfo {
    /// The values of a row, one for each bucket; `None` where the file has no such row.
    pub fn row(&self, row: IdleRow) -> Option<&[u64]> {
        let columns = self.buckets.len();
        let there = self.seen & (1 << row.index()) != 0 && columns > 0;
        there.then(|| self.cells.get(row.index() * columns..(row.index() + 1) * columns)).flatten()
    }

    /// Puts in a row, which has as many values as there are buckets.
    pub fn set_row(&mut self, row: IdleRow, values: &[u64]) {
        let columns = self.buckets.len();
        self.cells.resize(17 * columns, 0);
        let at = row.index() * columns;
        for (cell, value) in self.cells[at..at + columns].iter_mut().zip(values) {
            *cell = *value;
        }
        self.seen |= 1 << row.index();
    }

    /// The sum of all rows, as the proposal defines it; `None` where there is no row to sum.
    pub fn idle_total_bytes(&self) -> Option<u64> {
        let rows = IdleRow::all().filter_map(|row| self.row(row));
        rows.flatten().copied().reduce(u64::saturating_add)
    }

    /// Seconds for which the oldest page known can have been watched.
    pub fn watched_s(&self) -> u64 {
        self.page_scans.min(OLDEST).saturating_mul(self.scan_period_in_seconds)
    }

    /// Where buckets begin that a page can ever be in.
    fn edges_ms(&self) -> impl Iterator<Item = u64> {
        let reached = self.buckets.iter().filter(|edge| **edge <= OLDEST);
        let period_ms = self.scan_period_in_seconds.saturating_mul(1_000);
        reached.map(move |edge| edge.saturating_mul(period_ms))
    }

    /// What counts as cold has been idle for so long at least: a boundary within a bucket is rounded up to the next. `None`
    /// where no bucket begins as late as the boundary.
    pub fn cold_from_ms(&self, boundary: &ColdBoundary) -> Option<u64> {
        self.edges_ms().find(|from_ms| boundary.is_old(*from_ms))
    }

    /// Whether ages reach the boundary.
    pub fn warm_up(&self, boundary: &ColdBoundary) -> WarmUp {
        match self.cold_from_ms(boundary) {
            Some(from_ms) => WarmUp::of_seconds(self.watched_s(), from_ms / 1_000),
            None => WarmUp::OutOfReach {
                reaches_s: self.edges_ms().last().unwrap_or(0) / 1_000,
                needed_s: boundary.age.as_secs(),
            },
        }
    }

    /// Bytes by kind and age, and how much of each is cold.
    pub fn ages(&self, boundary: &ColdBoundary) -> Ages {
        let edge_ms = |column: usize| {
            let periods = self.buckets.get(column)?;
            Some(periods.saturating_mul(self.scan_period_in_seconds).saturating_mul(1_000))
        };
        let mut ages = Ages::default();
        for kind in Kind::ALL {
            let rows = || IdleRow::all().filter(move |row| row.kind() == kind);
            if !rows().any(|row| self.row(row).is_some()) {
                continue;
            }
            for column in 0..self.buckets.len() {
                let from_ms = edge_ms(column).unwrap_or_default();
                let sum = |counts: &dyn Fn(IdleRow) -> bool| {
                    let cells = rows().filter(|row| counts(*row)).filter_map(|row| self.row(row));
                    cells.map(|cells| cells[column]).fold(0, u64::saturating_add)
                };
                let bytes = sum(&|_| true);
                let old = boundary.is_old(from_ms);
                if old {
                    let locked = &mut ages.locked[kind as usize];
                    let more = sum(&|row| boundary.counts(row) && row.is_unevictable());
                    *locked = locked.saturating_add(more);
                }
                let cold_bytes = Some(if old { sum(&|row| boundary.counts(row)) } else { 0 });
                ages.cells.push(AgeCell {
                    kind,
                    from_ms,
                    to_ms: edge_ms(column + 1),
                    bytes,
                    cold_bytes,
                });
            }
        }
        ages
    }
}
