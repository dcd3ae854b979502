//! What an inventory knew, on disk for the next process to begin with.

use crate::facts::Facts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What every source had said.
///
/// ```
/// use crosstalk_inventory::{Facts, Inventory, Pod, Saved};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("inventory.json");
/// let before = Inventory::new(std::time::Duration::from_secs(60));
/// let pod = Pod { name: "train-0".into(), uid: "u1".into(), ..Pod::default() };
/// before.update("kubernetes", Facts { pods: vec![pod], ..Facts::default() });
/// before.save().write(&path).unwrap();
///
/// let after = Inventory::new(std::time::Duration::from_secs(60));
/// after.announce("kubernetes");
/// assert_eq!(after.standing().waiting, ["kubernetes"]);
/// after.restore(Saved::read(&path).unwrap());
/// assert_eq!(after.standing().remembered, ["kubernetes"]);
/// assert!(after.snapshot().pod("u1").is_some());
/// ```
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Saved {
    pub(crate) sources: BTreeMap<String, SavedSource>,
    pub(crate) departed: Facts,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SavedSource {
    /// When it was last heard, Unix nanoseconds.
    pub(crate) heard_ns: u64,
    pub(crate) facts: Facts,
}

impl Saved {
    /// Writes it in one go: whoever reads the file sees the old one or the new one whole.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let part = path.with_extension("part");
        let mut file = BufWriter::new(File::create(&part)?);
        serde_json::to_writer(&mut file, self)?;
        file.flush()?;
        file.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_data()?;
        std::fs::rename(&part, path)
    }

    /// Reads what was written.
    ///
    /// # Errors
    /// What the file system says, or that the file is not one of these.
    pub fn read(path: &Path) -> std::io::Result<Saved> {
        Ok(serde_json::from_reader(BufReader::new(File::open(path)?))?)
    }

    /// Leaves out sources that were last heard longer than `age` ago: too much may have happened since.
    #[must_use]
    pub fn not_older_than(mut self, age: Duration) -> Saved {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.sources
            .retain(|_, source| now.saturating_sub(Duration::from_nanos(source.heard_ns)) <= age);
        self
    }

    /// Whether something is known of this source.
    #[must_use]
    pub fn knows(&self, source: &str) -> bool {
        self.sources.contains_key(source)
    }

    /// Pods that are known of all sources.
    #[must_use]
    pub fn pods(&self) -> usize {
        self.sources.values().map(|source| source.facts.pods.len()).sum()
    }
}
