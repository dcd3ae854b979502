//! Which files belong to which run.
//!
//! Folders say it; of a file that was copied out of them, what it says about itself does. The same file in two places
//! is read once, or its rows would count twice.

use crate::machine;
use crosstalk_recording::{Reader, RecordedFile, Scan};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A node, and a run of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RunKey {
    pub(crate) node: String,
    pub(crate) run: String,
}

/// The files of all runs.
pub(crate) struct RunFiles<'a> {
    reader: &'a Reader,
    /// Path to run; a file that stands for nothing new is not in it.
    of: HashMap<&'a str, RunKey>,
    pub(crate) unread: Vec<String>,
}

impl<'a> RunFiles<'a> {
    pub(crate) fn find(reader: &'a Reader) -> Self {
        let (mut of, mut unread) = (HashMap::new(), reader.unread().to_vec());
        let mut known: HashMap<(RunKey, &str), &RecordedFile> = HashMap::new();
        for file in reader.files() {
            let key = key(file);
            let name = file.path.rsplit('/').next().unwrap_or(&file.path);
            match known.get(&(key.clone(), name)) {
                Some(first) if first.bytes == file.bytes => {
                    unread.push(format!("{}: the same file as {}", file.path, first.path));
                    continue;
                }
                _ => known.insert((key.clone(), name), file),
            };
            of.insert(file.path.as_str(), key);
        }
        Self { reader, of, unread }
    }

    /// The runs that have tasks.
    pub(crate) fn keys(&self) -> BTreeSet<RunKey> {
        let tasks = self.reader.files().iter().filter(|file| file.dataset == "tasks");
        tasks.filter_map(|file| self.of.get(file.path.as_str()).cloned()).collect()
    }

    /// Bytes of all tasks.
    pub(crate) fn bytes(&self) -> u64 {
        let ours = |file: &&RecordedFile| self.of.contains_key(file.path.as_str());
        let tasks = self.reader.files().iter().filter(|file| file.dataset == "tasks");
        tasks.filter(ours).map(|file| file.bytes).sum()
    }

    /// The data sets of a run.
    pub(crate) fn datasets(&self, key: &RunKey) -> Vec<&'a str> {
        let ours = |file: &&RecordedFile| self.of.get(file.path.as_str()) == Some(key);
        let files = self.reader.files().iter().filter(ours);
        let mut names: Vec<&str> = files.map(|file| file.dataset.as_str()).collect();
        names.dedup();
        names
    }

    pub(crate) fn scan(&self, dataset: &str, key: &RunKey) -> Scan<'a> {
        self.reader.scan(dataset).files(|file| self.of.get(file.path.as_str()) == Some(key))
    }
}

fn key(file: &RecordedFile) -> RunKey {
    let mut key = RunKey { node: file.node.clone(), run: file.run.clone() };
    if key.node.is_empty() || key.run.is_empty() {
        let about = file.metadata().unwrap_or_default();
        let said = |name: &str| about.get(name).and_then(|v| v.as_str()).map(str::to_owned);
        if key.node.is_empty() {
            key.node = said("node").unwrap_or_else(|| "unknown".to_owned());
        }
        if key.run.is_empty() {
            key.run = said("run").unwrap_or_else(|| "unknown".to_owned());
        }
    }
    key
}

/// Runs of one node's name at the same time: for each, what to say about it.
pub(crate) fn overlaps(
    files: &RunFiles<'_>,
    spans: &[(RunKey, u64, u64)],
) -> BTreeMap<RunKey, String> {
    let machine = |key: &RunKey| {
        let tasks = files.scan("tasks", key);
        tasks.chosen().iter().find_map(|file| machine::fingerprint(&file.metadata().ok()?))
    };
    let mut said = BTreeMap::new();
    for (key, from, to) in spans {
        let other = spans.iter().find(|(other, other_from, other_to)| {
            other.node == key.node && other.run != key.run && other_from < to && from < other_to
        });
        let Some((other, ..)) = other else { continue };
        let same = match (machine(key), machine(other)) {
            (Some(one), Some(another)) if one != another => format!(
                "another machine that is called {} as well recorded at the same time (run {}): each is judged by \
                 itself; tell them apart with record --node",
                key.node, other.run
            ),
            _ => format!(
                "run {} of {} recorded at the same time: each is judged by itself, and their losses are the same ones",
                other.run, key.node
            ),
        };
        said.insert(key.clone(), same);
    }
    said
}
