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
    /// How much of it is cold.
    pub cold_bytes: u64,
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
        Self { kind, from_ms, to_ms, bytes, cold_bytes: if cold { bytes } else { 0 } }
    }
}

/// The memory of one subject by kind and age.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ages {
    /// At most one for each kind and age.
    pub cells: Vec<AgeCell>,
}

impl Ages {
    /// What is cold.
    pub fn cold_bytes(&self) -> u64 {
        self.cells.iter().map(|cell| cell.cold_bytes).fold(0, u64::saturating_add)
    }

    /// What is cold of one kind.
    pub fn cold_of(&self, kind: Kind) -> u64 {
        let cells = self.cells.iter().filter(|cell| cell.kind == kind);
        cells.map(|cell| cell.cold_bytes).fold(0, u64::saturating_add)
    }

    /// By kind, and the youngest first.
    pub(crate) fn sort(&mut self) {
        self.cells.sort_unstable_by_key(|cell| (cell.kind, cell.from_ms, cell.to_ms));
    }

    /// Adds what another has: a cgroup and those in it.
    pub fn add(&mut self, other: &Self) {
        for cell in &other.cells {
            let key = (cell.kind, cell.from_ms, cell.to_ms);
            match self.cells.iter_mut().find(|c| (c.kind, c.from_ms, c.to_ms) == key) {
                Some(same) => {
                    same.bytes = same.bytes.saturating_add(cell.bytes);
                    same.cold_bytes = same.cold_bytes.saturating_add(cell.cold_bytes);
                }
                None => self.cells.push(*cell),
            }
        }
    }
}
