use crate::name::partition;
use crate::store::Store;
use crate::{arrow_part, csv_part};

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
    /// The path below the store's root.
    pub(crate) name: String,
    pub(crate) store: Store,
}

impl RecordedFile {
    /// The path without its ending, which a part and its finished file share.
    pub(super) fn stem(&self) -> &str {
        ENDINGS.iter().find_map(|(ending, _)| self.path.strip_suffix(ending)).unwrap_or(&self.path)
    }

    /// A file at `name` in `store`; `None` if it is none of ours.
    pub(super) fn at(store: &Store, name: &str, bytes: u64) -> Option<Self> {
        let mut folders: Vec<&str> = name.split('/').collect();
        let file = folders.pop()?;
        let state = State::of(file)?;
        let said = |key: &str| {
            folders.iter().rev().find_map(|folder| partition(folder, key)).unwrap_or_default()
        };
        let dataset = file.split('-').next().unwrap_or_default();
        Some(Self {
            path: store.shown(name),
            dataset: dataset.to_owned(),
            node: said("node"),
            run: said("run"),
            state,
            bytes,
            name: name.to_owned(),
            store: store.clone(),
        })
    }
}
