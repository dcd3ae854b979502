use std::fmt;

/// What a column holds. Integers are signed and 64 bits wide and times have microseconds, because
/// that is what DuckDB, pandas and Spark all take as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A signed 64-bit integer.
    Int,
    /// A moment, UTC, in microseconds.
    Time,
    /// A 64-bit floating-point number.
    Float,
    /// True or false.
    Flag,
    /// Text.
    Text,
}

impl Kind {
    /// Every kind there is.
    pub const ALL: [Self; 5] = [Self::Int, Self::Time, Self::Float, Self::Flag, Self::Text];

    /// The word for it in a file's metadata.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::Time => "time",
            Self::Float => "float",
            Self::Flag => "flag",
            Self::Text => "text",
        }
    }
}

/// One column of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, the same in CSV, Parquet and SQL.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether a value may be absent.
    pub nullable: bool,
    /// What its numbers count, such as `ns`; empty for names and ids.
    pub unit: &'static str,
    /// What it means.
    pub doc: &'static str,
}

/// A data set: its name, what a row of it is, and its columns in file order.
///
/// There is no list of all of them: whoever has rows defines their data set with [`dataset!`].
///
/// [`dataset!`]: crate::dataset!
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Dataset {
    /// Its name: the folder, and the start of its file names.
    pub name: &'static str,
    /// What a row is.
    pub doc: &'static str,
    /// Its columns in file order.
    pub columns: &'static [Column],
}

impl fmt::Debug for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A row of a data set, which is defined with [`dataset!`](crate::dataset!).
pub trait Row: Send + Sync + Sized + 'static {
    /// The data set.
    const DATASET: &'static Dataset;

    /// Puts rows into the order they are written in: neighbours in a column are then alike, which
    /// makes a Parquet file smaller.
    fn sort(rows: &mut [&Self]);

    /// The start of the slot it belongs to, Unix nanoseconds.
    fn slot_start_ns(&self) -> u64;

    /// The values of all columns, in file order.
    fn values(rows: &[&Self]) -> Vec<Values>;
}

/// The values of one column.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Integers that are all there; times are nanoseconds here.
    Ints(Vec<i64>),
    /// Integers of which some are absent.
    MaybeInts(Vec<Option<i64>>),
    /// Numbers.
    Floats(Vec<Option<f64>>),
    /// True, false or absent.
    Flags(Vec<Option<bool>>),
    /// Texts.
    Texts(Texts),
}

/// Texts one behind the other, as columnar formats keep them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Texts {
    /// All texts together.
    pub text: String,
    /// Where each ends.
    pub ends: Vec<i32>,
    /// Whether each is there.
    pub present: Vec<bool>,
}

impl Texts {
    /// From texts that may be absent.
    pub fn collect<T: AsRef<str>>(texts: impl ExactSizeIterator<Item = Option<T>>) -> Self {
        let rows = texts.len();
        let mut all = Self {
            text: String::with_capacity(rows * 8),
            ends: Vec::with_capacity(rows),
            present: Vec::with_capacity(rows),
        };
        for text in texts {
            all.present.push(text.is_some());
            if let Some(text) = text {
                all.text.push_str(text.as_ref());
            }
            all.ends.push(all.text.len() as i32);
        }
        all
    }
}

/// A number that fits a column of integers. What is beyond it is the largest there is: such a
/// counter is broken, and the row is still worth having.
pub trait Int {
    /// As the column has it.
    fn int(self) -> i64;
}

macro_rules! int {
    ($($number:ty),*) => {$(
        impl Int for $number {
            fn int(self) -> i64 {
                i64::try_from(self).unwrap_or(i64::MAX)
            }
        }
    )*};
}
int!(u32, u64, usize, i64);

/// Defines the data set of a row type, in one place: name, meaning, order and columns, each with its
/// kind, unit, meaning and value. `?` behind a kind says that a value may be absent; the value is then
/// an `Option`. The type has a field `slot_start_ns`, which gives every data set its first two columns:
/// `slot_start_ns`, on which all of them join, and `time`, the same as a time. Where a row belongs to a container or
/// pod, `placed |row| row.place,` before `by` gives it the columns of a [`Placement`](crate::Placement), the last ones.
///
/// ```
/// struct Reading { slot_start_ns: u64, core: u32, celsius: Option<f64> }
///
/// crosstalk_model::dataset! {
///     Reading: "heat", "one row per core and slot",
///     by |row| (row.core, row.slot_start_ns),
///     core [int] "" "logical CPU" = |row| row.core;
///     celsius [float?] "°C" "temperature of the core" = |row| row.celsius;
/// }
///
/// use crosstalk_model::Row;
/// let names: Vec<&str> = Reading::DATASET.columns.iter().map(|column| column.name).collect();
/// assert_eq!(names, ["slot_start_ns", "time", "core", "celsius"]);
/// ```
#[macro_export]
macro_rules! dataset {
    (
        $row:ty: $name:literal, $doc:literal,
        $(placed |$at:ident| $place:expr,)?
        by |$keyed:ident| $key:expr,
        $($column:ident [$($kind:tt)+] $unit:literal $meaning:literal = |$each:ident| $value:expr;)+
    ) => {
        impl $crate::Row for $row {
            const DATASET: &'static $crate::Dataset = &$crate::Dataset {
                name: $name,
                doc: $doc,
                columns: &[
                    $crate::Column {
                        name: "slot_start_ns",
                        kind: $crate::Kind::Int,
                        nullable: false,
                        unit: "ns",
                        doc: "start of the slot, Unix time, a multiple of the slot length",
                    },
                    $crate::Column {
                        name: "time",
                        kind: $crate::Kind::Time,
                        nullable: false,
                        unit: "",
                        doc: "start of the slot as a time, UTC",
                    },
                    $($crate::Column {
                        name: stringify!($column),
                        kind: $crate::dataset!(@kind $($kind)+),
                        nullable: $crate::dataset!(@nullable $($kind)+),
                        unit: $unit,
                        doc: $meaning,
                    },)+
                    $($crate::dataset!(@place 0 $at),
                    $crate::dataset!(@place 1 $at),
                    $crate::dataset!(@place 2 $at),
                    $crate::dataset!(@place 3 $at),
                    $crate::dataset!(@place 4 $at),
                    $crate::dataset!(@place 5 $at),
                    $crate::dataset!(@place 6 $at),)?
                ],
            };

            fn sort(rows: &mut [&Self]) {
                rows.sort_unstable_by_key(|$keyed| $key);
            }

            fn slot_start_ns(&self) -> u64 {
                self.slot_start_ns
            }

            fn values(rows: &[&Self]) -> Vec<$crate::Values> {
                let starts = || rows.iter().map(|row| $crate::Int::int(row.slot_start_ns)).collect();
                #[allow(unused_mut)] // only rows that have a place go on
                let mut values = vec![
                    $crate::Values::Ints(starts()),
                    $crate::Values::Ints(starts()),
                    $($crate::dataset!(@values $($kind)+, rows, |$each| $value),)+
                ];
                $(
                    const { assert!($crate::Placement::COLUMNS.len() == 7, "each is listed above") }
                    let places: Vec<&$crate::Placement> = rows.iter().map(|$at| &*$place).collect();
                    values.extend($crate::Placement::values(&places));
                )?
                values
            }
        }
    };
    (@place $number:literal $at:ident) => { $crate::Placement::COLUMNS[$number] };
    (@kind int $($rest:tt)?) => { $crate::Kind::Int };
    (@kind float $($rest:tt)?) => { $crate::Kind::Float };
    (@kind flag $($rest:tt)?) => { $crate::Kind::Flag };
    (@kind text $($rest:tt)?) => { $crate::Kind::Text };
    (@nullable $kind:ident) => { false };
    (@nullable $kind:ident ?) => { true };
    (@values int, $rows:ident, |$each:ident| $value:expr) => {
        $crate::Values::Ints($rows.iter().map(|$each| $crate::Int::int($value)).collect())
    };
    (@values int ?, $rows:ident, |$each:ident| $value:expr) => {
        $crate::Values::MaybeInts($rows.iter().map(|$each| $value.map($crate::Int::int)).collect())
    };
    (@values float, $rows:ident, |$each:ident| $value:expr) => {
        $crate::Values::Floats($rows.iter().map(|$each| $crate::finite(Some($value))).collect())
    };
    (@values float ?, $rows:ident, |$each:ident| $value:expr) => {
        $crate::Values::Floats($rows.iter().map(|$each| $crate::finite($value)).collect())
    };
    (@values flag, $rows:ident, |$each:ident| $value:expr) => {
        $crate::Values::Flags($rows.iter().map(|$each| Some($value)).collect())
    };
    (@values flag ?, $rows:ident, |$each:ident| $value:expr) => {
        $crate::Values::Flags($rows.iter().map(|$each| $value).collect())
    };
    (@values text, $rows:ident, |$each:ident| $value:expr) => {
        $crate::Values::Texts($crate::Texts::collect($rows.iter().map(|$each| Some($value))))
    };
    (@values text ?, $rows:ident, |$each:ident| $value:expr) => {
        $crate::Values::Texts($crate::Texts::collect($rows.iter().map(|$each| $value)))
    };
}

/// A number that is none was not measured.
#[doc(hidden)]
pub fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}
