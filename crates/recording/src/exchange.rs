//! Objects exchanged for others, in a store that puts and removes them one at a time.
//!
//! A note in their folder makes it one step. Only one can be there, so nobody else begins. As long as it names no old
//! objects, readers pass over the new ones, which bear its mark in their names. Then it is put anew, in one request,
//! with the names of both: from there on readers pass over the old ones. Those are removed later, when whoever listed
//! the folder before has had time to read what was found, and the note after them. A crash leaves the folder at one of
//! these steps, and at each of them every row is read once; [`settle`] goes on from there.
//!
//! The note's name follows those of files, and stores list by name: whoever meets a new object meets the note as well.
//! It is about all of its folder, `~exchange.json`, or about what begins with `x` there, `~exchange-x.json`.

use crate::store::{Replaced, Store};
use crate::{Error, RecordedFile, State};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The note's name in its folder.
const NOTE: &str = "~exchange.json";

/// What the note says. Names are below its folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// In the names of the new objects.
    pub(crate) mark: String,
    /// The new objects and their sizes.
    pub(crate) files: Vec<(String, u64)>,
    /// The objects that they stand for: none until all new ones are there.
    pub(crate) instead_of: Vec<String>,
    /// Who removes what is to go; nobody else does, nor does the exchange go on.
    pub(crate) settled_by: String,
    /// More is to come, of whoever put the note.
    #[serde(default)]
    pub(crate) is_open: bool,
}

impl Note {
    pub(crate) fn parse(store: &Store, name: &str, text: &[u8]) -> Result<Self, Error> {
        serde_json::from_slice(text).map_err(|e| Error::Unreadable {
            path: store.shown(name),
            reason: format!(
                "it does not say which objects of its folder are read ({e}), so that none are; where the objects that \
                 crosstalk compact put there are whole, or gone, remove it and those that are there twice"
            ),
        })
    }

    pub(crate) fn text(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).unwrap_or_default()
    }

    pub(crate) fn is_over(&self) -> bool {
        !self.is_open && !self.instead_of.is_empty()
    }

    pub(crate) fn is_new(&self, name: &str) -> bool {
        name.ends_with(&format!("-{}.parquet", self.mark))
    }
}

/// How long is waited before something is removed.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For readers that found the old objects.
    pub readers: Duration,
    /// For an exchange that was begun and neither ended nor given up.
    pub unfinished: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { readers: Duration::from_secs(600), unfinished: Duration::from_secs(3600) }
    }
}

/// An exchange that has begun: new objects are put, and readers pass over them.
#[derive(Debug)]
pub struct Exchange {
    folder: Store,
    note: Note,
    version: Option<String>,
}

impl Exchange {
    /// Begins to exchange objects in the folder of a store that holds `file`, above it. `None` if somebody else does, or
    /// if the file is on this machine.
    ///
    /// # Errors
    /// The store does not answer as it should.
    pub fn begin(file: &RecordedFile, folder: &str) -> Result<Option<Self>, Error> {
        let Some(folder) = file.store.below_bucket(folder) else { return Ok(None) };
        let note = Note { mark: mark(), ..Note::default() };
        match folder.put_new(NOTE, note.text())? {
            Replaced::Done(version) => Ok(Some(Self { folder, note, version })),
            Replaced::Otherwise => Ok(None),
        }
    }

    /// Puts a finished Parquet file of this machine there.
    ///
    /// # Errors
    /// It cannot be read here, or does not stand there whole.
    pub fn put(&mut self, path: &Path) -> Result<(), Error> {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let name = format!("{stem}-{}.parquet", self.note.mark);
        let mut input = File::open(path).map_err(|e| Error::io(path, e))?;
        let sent = self.folder.write_file(&name, &mut input, path)?;
        self.note.files.push((name, sent));
        Ok(())
    }

    /// From here on the new objects are read instead of these, which are as they were when they were read.
    ///
    /// # Errors
    /// One of them has changed or gone, somebody took this exchange for a dead one, or the store does not answer.
    pub fn commit(mut self, old: &[&RecordedFile]) -> Result<(), Error> {
        for file in old {
            let name = self.folder.below(&file.name).to_owned();
            match self.folder.size(&name) {
                Ok(bytes) if bytes == file.bytes => {}
                Ok(_) => {
                    let error = self.error(&name, "it has changed while it was merged");
                    self.give_up();
                    return Err(error);
                }
                Err(error) => {
                    self.give_up();
                    return Err(error);
                }
            }
            if file.state == State::Csv {
                self.note.instead_of.push(format!("{}.json", name.trim_end_matches(".csv")));
            }
            self.note.instead_of.push(name);
        }
        match self.folder.put_over(NOTE, self.note.text(), self.version.clone())? {
            Replaced::Done(_) => Ok(()),
            Replaced::Otherwise if self.is_over()? => Ok(()),
            Replaced::Otherwise => {
                let error = "the exchange took so long that it was taken for a dead one";
                let error = self.error(NOTE, error);
                for (name, _) in &self.note.files {
                    self.folder.remove(name)?;
                }
                Err(error)
            }
        }
    }

    /// Whether it ended after all: a request may be done whose answer was lost, and then fails when it is made again.
    fn is_over(&self) -> Result<bool, Error> {
        let name = self.folder.whole(NOTE);
        if let Some(seen) = self.folder.look(&name)? {
            let note = Note::parse(&self.folder, &name, &seen.bytes)?;
            return Ok(note.mark == self.note.mark && note.is_over());
        }
        // Somebody has removed the note: after the old objects, or after what was taken for rubbish.
        let old = self.note.instead_of.last().map(|name| self.folder.whole(name));
        Ok(old.is_some_and(|old| matches!(self.folder.read_if_there(&old), Ok(None))))
    }

    /// Leaves the folder as it was, as far as the store lets one.
    pub fn give_up(self) {
        let names: Vec<String> = self.note.files.into_iter().map(|(name, _)| name).collect();
        if names.iter().all(|name| self.folder.remove(name).is_ok()) {
            let _ = self.folder.remove(NOTE);
        }
    }

    fn error(&self, name: &str, reason: &str) -> Error {
        Error::Store { url: self.folder.shown_below(name), reason: reason.to_owned() }
    }
}

/// An exchange that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsettled {
    /// The folder, as a person would write it.
    pub folder: String,
    /// Why not.
    pub because: String,
}

const MERGED: &str =
    "it is merged; readers may still be at its old objects, which a later call removes";
const BEGUN: &str = "somebody is merging it, or was cut off, and then a later call begins anew";

/// What nobody else has.
pub(crate) fn mark() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:x}{:x}", now.as_nanos(), std::process::id())
}

/// Ends every exchange below a URL that has waited long enough: removes the old objects, or the new ones of an exchange
/// that was cut off, and the note. Answers those that have not.
///
/// # Errors
/// The store does not answer as it should.
pub fn settle(url: &str, patience: Patience) -> Result<Vec<Unsettled>, Error> {
    let store = Store::open(url)?;
    let mut left = Vec::new();
    for (name, _) in store.list()? {
        let Some(path) = folder_of(&name) else { continue };
        let Some(folder) = store.below_bucket(path) else { continue };
        let Some(seen) = folder.look(&name)? else { continue };
        let mut note = match Note::parse(&folder, &name, &seen.bytes) {
            Ok(note) => note,
            Err(error) => {
                left.push(Unsettled { folder: store.shown(path), because: error.to_string() });
                continue;
            }
        };
        let (long_enough, because) =
            if note.is_over() { (patience.readers, MERGED) } else { (patience.unfinished, BEGUN) };
        if seen.age < long_enough {
            left.push(Unsettled { folder: store.shown(path), because: because.to_owned() });
            continue;
        }
        note.settled_by = mark();
        if let Replaced::Otherwise = folder.put_over(NOTE, note.text(), seen.version)? {
            continue;
        }
        let gone = if note.is_over() {
            note.instead_of
        } else {
            let names = folder.list()?.into_iter().map(|(name, _)| folder.below(&name).to_owned());
            names.filter(|name| note.is_new(name)).collect()
        };
        for name in gone {
            folder.remove(&name)?;
        }
        folder.remove(NOTE)?;
    }
    Ok(left)
}

/// What is to be read of a listing.
#[derive(Debug)]
pub(crate) struct ReadNow {
    pub(crate) objects: Vec<(String, u64)>,
    /// Of which folders nothing is, and why.
    pub(crate) unread: Vec<Error>,
}

/// The objects of a listing that are to be read, by the notes among them. `None` if a note has gone since: what it named
/// has, too, and the listing is old. Where a note cannot be read, old and new objects cannot be told apart: that folder
/// is left out, and the others are read.
pub(crate) fn read_now(store: &Store, mut listed: Vec<(String, u64)>) -> Option<ReadNow> {
    let mut unread = Vec::new();
    let notes: BTreeMap<String, String> =
        listed.iter().filter_map(|(name, _)| Some((name.clone(), covered(name)?))).collect();
    for (name, covered) in notes {
        let read = match store.read_if_there(&name) {
            Ok(None) => return None,
            Ok(Some(text)) => Note::parse(store, &name, &text),
            Err(error) => Err(error),
        };
        let note = match read {
            Ok(note) => note,
            Err(error) => {
                listed.retain(|(other, _)| *other == name || !other.starts_with(&covered));
                unread.push(error);
                continue;
            }
        };
        let folder = &name[..name.rfind('/').map_or(0, |at| at + 1)];
        let whole = |name: &str| format!("{folder}{name}");
        let is_new = |name: &str| name.starts_with(&covered) && note.is_new(name);
        let named = note.instead_of.iter().chain(note.files.iter().map(|(name, _)| name));
        let named: HashSet<String> = named.map(|name| whole(name)).collect();
        listed.retain(|(name, _)| !is_new(name) && !named.contains(name));
        let files = note.files.iter().map(|(name, bytes)| (whole(name), *bytes));
        listed.extend(files.filter(|(name, _)| store.holds(name)));
    }
    Some(ReadNow { objects: listed, unread })
}

/// Whether the note in a folder says that others are read instead of an object, by its name below the folder.
pub(crate) fn replaces(folder: &Store, below: &str) -> Result<bool, Error> {
    let name = folder.whole(NOTE);
    let Some(text) = folder.read_if_there(&name)? else { return Ok(false) };
    let note = Note::parse(folder, &name, &text)?;
    Ok(note.instead_of.iter().any(|old| old == below))
}

/// The folder of a note about all of it; `None` for any other name.
fn folder_of(name: &str) -> Option<&str> {
    name.strip_suffix(NOTE)?.strip_suffix('/')
}

/// The name of a note about what begins so.
pub(crate) fn note_of(start: &str) -> String {
    NOTE.replace(".json", &format!("-{start}.json"))
}

/// How the names begin that a note is about; `None` for what is no note.
pub(crate) fn covered(name: &str) -> Option<String> {
    let (folder, own) = name.split_at(name.rfind('/').map_or(0, |at| at + 1));
    let (before, ending) = NOTE.split_once('.')?;
    let start = own.strip_prefix(before)?.strip_suffix(ending)?.strip_suffix('.')?;
    let start = if start.is_empty() { start } else { start.strip_prefix('-')? };
    Some(format!("{folder}{start}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_note(folder: &Path, note: &Note) -> Vec<(String, u64)> {
        let at = |name: &str| format!("{}/{name}", folder.display());
        std::fs::write(at(NOTE), note.text()).unwrap();
        ["tasks-1.parquet", "tasks-1-aa.parquet", "tasks-2.parquet", NOTE]
            .map(|n| (at(n), 1))
            .into()
    }

    fn read(folder: &Path, listed: Vec<(String, u64)>) -> Vec<String> {
        let mut found = read_now(&Store::Local, listed).unwrap().objects;
        found.retain(|(name, _)| covered(name).is_none());
        let below =
            |name: String| name.strip_prefix(&format!("{}/", folder.display())).unwrap().to_owned();
        found.into_iter().map(|(name, _)| below(name)).collect()
    }

    #[test]
    fn of_old_and_new_objects_exactly_one_kind_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let mut note = Note { mark: "aa".to_owned(), ..Note::default() };
        let listed = with_note(folder.path(), &note);
        assert_eq!(read(folder.path(), listed), ["tasks-1.parquet", "tasks-2.parquet"]);
        note.files = vec![("tasks-1-aa.parquet".to_owned(), 7)];
        note.instead_of = vec!["tasks-1.parquet".to_owned()];
        let listed = with_note(folder.path(), &note);
        // What came after the merge is read beside it.
        assert_eq!(read(folder.path(), listed), ["tasks-2.parquet", "tasks-1-aa.parquet"]);
    }

    #[test]
    fn a_listing_made_before_the_new_objects_came_is_read_by_the_note() {
        let folder = tempfile::tempdir().unwrap();
        let note = Note {
            mark: "aa".to_owned(),
            files: vec![("tasks-1-aa.parquet".to_owned(), 7)],
            instead_of: vec!["tasks-1.parquet".to_owned(), "tasks-2.parquet".to_owned()],
            ..Note::default()
        };
        let mut listed = with_note(folder.path(), &note);
        listed.retain(|(name, _)| !note.is_new(name));
        assert_eq!(read(folder.path(), listed.clone()), ["tasks-1-aa.parquet"]);
        std::fs::remove_file(folder.path().join(NOTE)).unwrap();
        assert!(read_now(&Store::Local, listed).is_none());
    }

    #[test]
    fn a_note_is_about_its_folder_or_about_what_begins_as_it_says() {
        for (name, about) in [
            ("rec/tasks/~exchange.json", Some("rec/tasks/")),
            ("rec/~exchange-tasks_per_.json", Some("rec/tasks_per_")),
            ("~exchange-tasks_per_.json", Some("tasks_per_")),
            ("~exchange.json", Some("")),
            ("rec/tasks-1.json", None),
            ("rec/~exchanges.json", None),
        ] {
            assert_eq!(covered(name).as_deref(), about, "{name}");
        }
        assert_eq!(note_of("tasks_per_"), "~exchange-tasks_per_.json");
    }

    #[test]
    fn a_note_that_cannot_be_understood_is_named_and_other_folders_are_read() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut listed = with_note(folder.path(), &Note::default());
        std::fs::write(folder.path().join(NOTE), "{").unwrap();
        listed.push((format!("{}/tasks-9.parquet", other.path().display()), 1));
        let now = read_now(&Store::Local, listed).unwrap();
        let error = now.unread[0].to_string();
        assert!(error.contains("~exchange.json: it does not say which objects"), "{error}");
        let names: Vec<&str> = now.objects.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(names[0].ends_with(NOTE) && names[1].ends_with("/tasks-9.parquet"), "{names:?}");
    }
}
