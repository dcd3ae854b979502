use super::kind::{Kind, MOST_KEYS};
use datafusion::arrow::array::{Array, AsArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::Int64Type;

/// The rows of a batch.
pub(super) struct Rows<'a> {
    slots: &'a Int64Array,
    keys: Vec<&'a Int64Array>,
    /// In the order of [`Kind::summed`], none where the file has no such column.
    summed: Vec<Option<&'a Int64Array>>,
    /// In the order of [`Kind::names`].
    names: Vec<Option<&'a StringArray>>,
    /// In the order of [`Kind::sketched`].
    sketched: Vec<(Option<&'a Int64Array>, i64)>,
    rows: usize,
}

/// One of them.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    of: &'a Rows<'a>,
    at: usize,
}

impl<'a> Rows<'a> {
    pub(super) fn of(kind: &Kind, batch: &'a RecordBatch) -> Result<Self, String> {
        let numbers = |name: &str| {
            batch.column_by_name(name).and_then(|column| column.as_primitive_opt::<Int64Type>())
        };
        let needed = |name: &str| numbers(name).ok_or_else(|| format!("it has no column {name}"));
        let texts = |name: &str| {
            batch.column_by_name(name).and_then(|column| column.as_string_opt::<i32>())
        };
        let keys = kind.keys.iter().map(|name| needed(name)).collect::<Result<_, _>>()?;
        Ok(Self {
            slots: needed("slot_start_ns")?,
            keys,
            summed: kind.summed.iter().map(|name| numbers(name)).collect(),
            names: kind.names.iter().map(|name| texts(name)).collect(),
            sketched: kind.sketched.iter().map(|one| (numbers(one.column), one.least)).collect(),
            rows: batch.num_rows(),
        })
    }

    pub(super) fn each(&self, mut take: impl FnMut(Row<'_>)) {
        for at in 0..self.rows {
            take(Row { of: self, at });
        }
    }
}

impl<'a> Row<'a> {
    pub(super) fn slot_ns(&self) -> i64 {
        self.of.slots.value(self.at)
    }

    /// Whose it is; 0 behind the last key.
    pub(super) fn keys(&self) -> [i64; MOST_KEYS] {
        let mut keys = [0; MOST_KEYS];
        for (key, column) in keys.iter_mut().zip(&self.of.keys) {
            *key = column.value(self.at);
        }
        keys
    }

    /// Absent where not measured.
    pub(super) fn summed(&self) -> impl Iterator<Item = Option<i64>> {
        self.of.summed.iter().map(|column| self.number(*column))
    }

    pub(super) fn sketched(&self) -> impl Iterator<Item = Option<i64>> {
        let value = |(column, least): &(Option<&'a Int64Array>, i64)| {
            self.number(*column).filter(|value| value >= least)
        };
        self.of.sketched.iter().map(value)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = Option<&'a str>> {
        let text = |column: &Option<&'a StringArray>| {
            column.filter(|column| column.is_valid(self.at)).map(|column| column.value(self.at))
        };
        self.of.names.iter().map(text)
    }

    fn number(&self, column: Option<&Int64Array>) -> Option<i64> {
        column.filter(|column| column.is_valid(self.at)).map(|column| column.value(self.at))
    }
}
