use crate::name::{filed, partition};
use crate::store::Store;
use crate::{arrow_part, csv_part};
use std::ops::Range;

/// Whether a file is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A finished Parquet file.
    Parquet,
    /// A finished CSV file.
    Csv,
    /// A CSV file that is being written, or that a crash left.
    CsvPart,
    /// A Parquet file that is being written, or that a crash left.
    ArrowPart,
}

const ENDINGS: [(&str, State); 4] = [
    (".parquet", State::Parquet),
    (".csv", State::Csv),
    (csv_part::ENDING, State::CsvPart),
    (arrow_part::ENDING, State::ArrowPart),
];

impl State {
    fn of(name: &str) -> Option<Self> {
        ENDINGS.into_iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, state)| state)
    }

    /// Whether nobody writes to it any more.
    pub const fn is_finished(self) -> bool {
        matches!(self, Self::Parquet | Self::Csv)
    }
}

/// One file of a recording, by where it lies.
#[derive(Clone, Debug)]
pub struct RecordedFile {
    /// Where it is, as the place was given.
    pub path: String,
    /// Its data set: the start of its name.
    pub dataset: String,
    /// The node that recorded it; empty if its folders do not say.
    pub node: String,
    /// The run it belongs to; empty if its folders do not say.
    pub run: String,
    /// What it is.
    pub state: State,
    /// Its size.
    pub bytes: u64,
    /// The hour or the day that its folders say it begins in, Unix nanoseconds.
    filed: Option<Range<u64>>,
    /// The path below the store's root.
    pub(crate) name: String,
    pub(crate) store: Store,
}

const HOUR_NS: u64 = 3_600_000_000_000;
/// How much older than its folders say a row may be: one comes when its core switches, which a busy core that has a
/// single task may not do for hours.
const OLDEST_NS: u64 = 24 * HOUR_NS;
/// How much newer: a table is written to the file of its first row.
const NEWEST_NS: u64 = HOUR_NS;

impl RecordedFile {
    /// The time that its rows can lie in, as far as the folders `date=` and `hour=` say, Unix nanoseconds. `None` where
    /// they do not.
    pub fn within(&self) -> Option<Range<u64>> {
        let filed = self.filed.as_ref()?;
        Some(filed.start.saturating_sub(OLDEST_NS)..filed.end.saturating_add(NEWEST_NS))
    }

    /// Whether it can hold rows of this time.
    pub(super) fn can_hold(&self, time: &Range<u64>) -> bool {
        self.within().is_none_or(|own| own.start < time.end && time.start < own.end)
    }

    /// The path without its ending, which a part and its finished file share.
    pub(super) fn stem(&self) -> &str {
        ENDINGS.iter().find_map(|(ending, _)| self.path.strip_suffix(ending)).unwrap_or(&self.path)
    }

    /// A file at `name` in `store`; `None` if it is none of ours.
    pub(crate) fn at(store: &Store, name: &str, bytes: u64) -> Option<Self> {
        let mut folders: Vec<&str> = name.split('/').collect();
        let file = folders.pop()?;
        let state = State::of(file)?;
        let said = |key: &str| {
            folders.iter().rev().find_map(|folder| partition(folder, key)).unwrap_or_default()
        };
        let in_folders = |key: &str| folders.iter().rev().find_map(|folder| partition(folder, key));
        let filed = in_folders("date").and_then(|date| filed(&date, in_folders("hour").as_deref()));
        let dataset = file.split('-').next().unwrap_or_default();
        Some(Self {
            path: store.shown(name),
            dataset: dataset.to_owned(),
            node: said("node"),
            run: said("run"),
            state,
            bytes,
            filed,
            name: name.to_owned(),
            store: store.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000_000;

    fn at(folder: &str) -> RecordedFile {
        RecordedFile::at(&Store::Local, &format!("{folder}/tasks-1.parquet"), 1).unwrap()
    }

    #[test]
    fn folders_say_the_time_of_a_file_and_rows_may_be_a_day_late() {
        let ten = 1_767_225_600_000_000_000 + 10 * HOUR;
        let hour = at("tasks/node=a/run=r/date=2026-01-01/hour=10");
        assert_eq!(hour.within(), Some(ten - 24 * HOUR..ten + 2 * HOUR));
        assert!(hour.can_hold(&(ten - 5 * HOUR..ten - 4 * HOUR)));
        assert!(
            !hour.can_hold(&(0..ten - 24 * HOUR)) && !hour.can_hold(&(ten + 2 * HOUR..u64::MAX))
        );
        let day = at("tasks/node=a/run=r/date=2026-01-01");
        assert_eq!(day.within(), Some(ten - 34 * HOUR..ten + 15 * HOUR));
    }

    #[test]
    fn folders_that_say_no_time_leave_it_open() {
        for folder in ["tasks/node=a/run=r", "date=yesterday", "date=2026-02-30/hour=01", "hour=10"]
        {
            assert_eq!(at(folder).within(), None, "{folder}");
        }
        assert_eq!(at("date=2026-01-01/hour=later").within(), at("date=2026-01-01").within());
    }
}
