use crate::locked;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// What was lost of one data set, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// The data set; the source's name for samples of metrics.
    pub dataset: &'static str,
    /// Where: what the rows were on their way to.
    pub place: &'static str,
    /// How many rows.
    pub rows: u64,
}

/// Counts what could not be delivered, by data set and place.
#[derive(Debug, Default)]
pub struct Losses(Mutex<BTreeMap<(&'static str, &'static str), u64>>);

impl Losses {
    /// Adds rows that were lost.
    pub fn add(&self, dataset: &'static str, place: &'static str, rows: u64) {
        if rows > 0 {
            *locked(&self.0).entry((dataset, place)).or_default() += rows;
        }
    }

    /// All of them so far.
    pub fn all(&self) -> Vec<Loss> {
        let counts = locked(&self.0);
        counts.iter().map(|(&(dataset, place), &rows)| Loss { dataset, place, rows }).collect()
    }
}
