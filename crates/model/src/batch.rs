use crate::{Dataset, Row, Values};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Rows of one data set on their way from a source to everybody who reads it.
#[derive(Clone)]
pub struct Batch(Arc<dyn Rows>);

impl Batch {
    /// Takes the rows of a source.
    ///
    /// ```
    /// use crosstalk_model::{Batch, Row, SlotCoverage};
    ///
    /// let slot = SlotCoverage { core: 1, ..SlotCoverage::lost(0, 1, 3) };
    /// let batch = Batch::new(vec![slot]);
    /// assert_eq!(batch.dataset().name, "slots");
    /// assert_eq!(batch.rows::<SlotCoverage>(), Some(&[slot][..]));
    /// ```
    pub fn new<R: Row>(rows: Vec<R>) -> Self {
        Self(Arc::new(rows))
    }

    /// Which data set.
    pub fn dataset(&self) -> &'static Dataset {
        self.0.dataset()
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows, for who knows their type; `None` if it is another.
    pub fn rows<R: Row>(&self) -> Option<&[R]> {
        self.0.as_any().downcast_ref::<Vec<R>>().map(Vec::as_slice)
    }

    /// All rows of several batches of one data set, sorted, column by column. Batches of another data
    /// set than the first's are left out.
    pub fn table(batches: &[Self]) -> Option<Table> {
        let first = batches.first()?;
        Some(first.0.table(batches))
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows of {:?}", self.len(), self.dataset())
    }
}

/// Rows as columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Of which data set.
    pub dataset: &'static Dataset,
    /// How many rows.
    pub rows: usize,
    /// The earliest slot; 0 without rows.
    pub first_slot_ns: u64,
    /// The latest slot; 0 without rows.
    pub last_slot_ns: u64,
    /// The columns of the data set, in its order.
    pub columns: Vec<Values>,
}

impl Table {
    /// A table of these rows.
    pub fn of<R: Row>(mut rows: Vec<&R>) -> Self {
        R::sort(&mut rows);
        let starts = || rows.iter().map(|row| row.slot_start_ns());
        Self {
            dataset: R::DATASET,
            rows: rows.len(),
            first_slot_ns: starts().min().unwrap_or(0),
            last_slot_ns: starts().max().unwrap_or(0),
            columns: R::values(&rows),
        }
    }
}

trait Rows: Send + Sync {
    fn dataset(&self) -> &'static Dataset;
    fn len(&self) -> usize;
    fn as_any(&self) -> &dyn Any;
    fn table(&self, batches: &[Batch]) -> Table;
}

impl<R: Row> Rows for Vec<R> {
    fn dataset(&self) -> &'static Dataset {
        R::DATASET
    }

    fn len(&self) -> usize {
        Vec::len(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn table(&self, batches: &[Batch]) -> Table {
        Table::of(batches.iter().filter_map(Batch::rows::<R>).flatten().collect())
    }
}
