//! Bytes by kind and age, and which of them are cold.

use crate::IdleRow;
use serde::Serialize;
use std::time::Duration;

/// What memory is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Swap-backed: anonymous pages and shared memory.
    Anon,
    /// Page cache of files.
    File,
    /// The kernel's objects.
    Slab,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Anon, Self::File, Self::Slab];

    /// The word in columns and labels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anon => "anon",
            Self::File => "file",
            Self::Slab => "slab",
        }
    }
}

/// When memory is cold: how long idle, and of which rows of kidled. A back end that tells only kinds
/// apart counts a kind of which any row is named.
///
/// ```
/// use crosstalk_coldmem::{ColdBoundary, IdleRow};
///
/// let shipped = ColdBoundary::default();
/// assert!(shipped.counts(IdleRow::named("dfui").unwrap()));
/// assert!(!shipped.counts(IdleRow::SLAB));
/// let all = ColdBoundary::new(shipped.age, ["anon", "file", "slab"])?;
/// assert!(all.counts(IdleRow::SLAB));
/// # Ok::<(), crosstalk_coldmem::UnknownKind>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColdBoundary {
    /// Idle for so long or longer.
    pub age: Duration,
    /// A bit for each row that counts.
    rows: u32,
}

/// A word that names neither a kind nor a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no kind of memory; write anon, file, slab, or a row of kidled such as cfei")]
pub struct UnknownKind(pub String);

impl Default for ColdBoundary {
    /// Inactive page cache of 300 s and more, as Koordinator ships it.
    fn default() -> Self {
        Self::inactive_page_cache(Duration::from_secs(300))
    }
}

impl ColdBoundary {
    /// Inactive page cache from `age`.
    pub fn inactive_page_cache(age: Duration) -> Self {
        let counts = |row: &IdleRow| row.kind() == Kind::File && !row.is_active();
        let rows = IdleRow::all().filter(counts).fold(0, |bits, row| bits | 1 << row.index());
        Self { age, rows }
    }

    /// Cold from `age`, of these kinds or rows.
    ///
    /// # Errors
    /// A word is neither.
    pub fn new<'a>(
        age: Duration,
        kinds: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, UnknownKind> {
        let mut rows = 0;
        for word in kinds {
            let of = |row: &IdleRow| row.name() == word || row.kind().name() == word;
            let named = IdleRow::all().filter(of).fold(0, |bits, row| bits | 1 << row.index());
            if named == 0 {
                return Err(UnknownKind(word.to_owned()));
            }
            rows |= named;
        }
        Ok(Self { age, rows })
    }

    /// Whether a row of kidled counts.
    pub fn counts(&self, row: IdleRow) -> bool {
        self.rows & (1 << row.index()) != 0
    }

    /// The rows that count.
    pub fn rows(&self) -> impl Iterator<Item = IdleRow> {
        let boundary = *self;
        IdleRow::all().filter(move |row| boundary.counts(*row))
    }

    /// Whether any of a kind counts.
    pub fn counts_kind(&self, kind: Kind) -> bool {
        self.rows().any(|row| row.kind() == kind)
    }

    /// Whether what has been idle for at least `from_ms` is old enough.
    pub fn is_old(&self, from_ms: u64) -> bool {
        u128::from(from_ms) >= self.age.as_millis()
    }
}

/// Memory of one kind that has been idle for at least `from_ms` and less than `to_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AgeCell {
    /// Of what it is.
    pub kind: Kind,
    /// Idle for at least so long.
    pub from_ms: u64,
    /// Idle for less; absent where there is no end.
    pub to_ms: Option<u64>,
    /// How much.
    pub bytes: u64,
    /// How much of it is cold; absent until memory was watched for as long as it takes to be called cold.
    pub cold_bytes: Option<u64>,
}

impl AgeCell {
    /// Of a back end that tells only kinds apart.
    pub(crate) fn of_kind(
        kind: Kind,
        (from_ms, to_ms): (u64, Option<u64>),
        bytes: u64,
        boundary: &ColdBoundary,
    ) -> Self {
        let cold = boundary.counts_kind(kind) && boundary.is_old(from_ms);
        Self { kind, from_ms, to_ms, bytes, cold_bytes: Some(if cold { bytes } else { 0 }) }
    }
}

/// Where buckets of age begin, beside the boundary.
const EDGES_MS: [u64; 9] =
    [0, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000, 14_400_000];

/// Buckets of age for back ends that have none of their own, so that sums over many cgroups stay small.
#[derive(Clone, Debug)]
pub(crate) struct Edges(Vec<u64>);

impl Edges {
    /// With the boundary among them: a bucket is cold as a whole or not at all.
    pub(crate) fn new(boundary: &ColdBoundary) -> Self {
        let mut edges = EDGES_MS.to_vec();
        edges.push(u64::try_from(boundary.age.as_millis()).unwrap_or(u64::MAX));
        edges.sort_unstable();
        edges.dedup();
        Self(edges)
    }

    /// The bucket that an age lies in.
    pub(crate) fn bucket_of(&self, idle_ms: u64) -> usize {
        self.0.partition_point(|edge| *edge <= idle_ms).saturating_sub(1)
    }

    /// Where a bucket begins and ends.
    pub(crate) fn range(&self, bucket: usize) -> (u64, Option<u64>) {
        (self.0.get(bucket).copied().unwrap_or(u64::MAX), self.0.get(bucket + 1).copied())
    }
}

/// The memory of one subject by kind and age.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ages {
    /// At most one for each kind and age.
    pub cells: Vec<AgeCell>,
    /// What is cold and locked in memory, by kind, as far as the back end tells.
    #[serde(skip)]
    pub(crate) locked: [u64; 3],
    /// What is cold is not known, not even where there is no cell.
    #[serde(skip)]
    pub(crate) is_open: bool,
}

impl Ages {
    /// What is cold; absent where it is of any cell.
    pub fn cold_bytes(&self) -> Option<u64> {
        Kind::ALL
            .into_iter()
            .try_fold(0u64, |sum, kind| Some(sum.saturating_add(self.cold_of(kind)?)))
    }

    /// What is cold of one kind.
    pub fn cold_of(&self, kind: Kind) -> Option<u64> {
        if self.is_open {
            return None;
        }
        let mut cells = self.cells.iter().filter(|cell| cell.kind == kind);
        cells.try_fold(0u64, |sum, cell| Some(sum.saturating_add(cell.cold_bytes?)))
    }

    /// Leaves open what is cold: that nothing was seen to be so old is not the same as nothing being it.
    pub(crate) fn leave_cold_open(&mut self) {
        self.is_open = true;
        self.cells.iter_mut().for_each(|cell| cell.cold_bytes = None);
    }

    /// Takes so much of a kind for used, which may be anywhere in it; all that is cold of it is open where that is not known.
    pub(crate) fn spare(&mut self, kind: Kind, bytes: Option<u64>) {
        let mut left = bytes;
        for cell in self.cells.iter_mut().filter(|cell| cell.kind == kind) {
            cell.cold_bytes = left.as_mut().and_then(|left| {
                let spared = cell.cold_bytes?.min(*left);
                *left -= spared;
                Some(cell.cold_bytes? - spared)
            });
        }
    }

    /// By kind, and the youngest first.
    pub(crate) fn sort(&mut self) {
        self.cells.sort_unstable_by_key(|cell| (cell.kind, cell.from_ms, cell.to_ms));
    }

    /// What is cold of a kind and not locked in memory, so far as that is told.
    pub(crate) fn evictable_cold_of(&self, kind: Kind) -> Option<u64> {
        Some(self.cold_of(kind)?.saturating_sub(self.locked[kind as usize]))
    }

    /// Adds what another has: a cgroup and those in it.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in self.locked.iter_mut().zip(other.locked) {
            *sum = sum.saturating_add(more);
        }
        for cell in &other.cells {
            let key = (cell.kind, cell.from_ms, cell.to_ms);
            match self.cells.iter_mut().find(|c| (c.kind, c.from_ms, c.to_ms) == key) {
                Some(same) => {
                    same.bytes = same.bytes.saturating_add(cell.bytes);
                    let both = same.cold_bytes.zip(cell.cold_bytes);
                    same.cold_bytes = both.map(|(one, other)| one.saturating_add(other));
                }
                None => self.cells.push(*cell),
            }
        }
    }
}
