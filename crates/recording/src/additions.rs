//! Objects added to some data sets of a store by one at a time, step by step, each whole or not at all.
//!
//! A note beside the data sets ([`crate::exchange`]) is put only if none is, or in place of the one that was read, so that
//! nobody else adds anything. What is put bears its mark, and readers pass over it until the note is put anew with another
//! mark: that is the step, of however many objects. Where they take the place of others, the note names both from then on,
//! and whoever adds next when readers have had their time removes the others. A crash leaves objects that nobody reads,
//! and a note that says so, which is taken away when it is too old to be anybody's.

use crate::exchange::{Note, Patience, Unsettled, mark, note_of};
use crate::store::{Replaced, Seen, Store};
use crate::{Error, Place};
use std::fs::File;
use std::path::Path;

/// Steps of additions that nobody else adds to.
#[derive(Debug)]
pub struct Additions {
    store: Store,
    /// What the note is called, below the store.
    name: String,
    note: Note,
    version: Option<String>,
    /// Of the step that is not done.
    put: Vec<(String, u64)>,
}

const BUSY: &str = "somebody is adding to it, or was cut off: call again when that is done, or when it is too old to be \
    anybody's";

impl Additions {
    /// Begins to add to what begins with `start` below a URL. `Err` within says who is at it.
    ///
    /// # Errors
    /// It is no object store, or it does not answer as it should.
    pub fn begin(
        url: &str,
        start: &str,
        patience: Patience,
    ) -> Result<Result<Self, Unsettled>, Error> {
        let (store, name) = (opened(url)?, note_of(start));
        if store.some(1)?.is_empty() {
            return Err(Error::NothingThere { place: url.to_owned() });
        }
        let busy = || Unsettled { folder: url.to_owned(), because: BUSY.to_owned() };
        let whole = store.whole(&name);
        let mut note = Note { mark: mark(), is_open: true, ..Note::default() };
        let put = match settled(&store, &name, patience)? {
            None => store.put_new(&name, note.text())?,
            Some(seen) => {
                let before = Note::parse(&store, &whole, &seen.bytes)?;
                if before.is_open || !before.settled_by.is_empty() {
                    return Ok(Err(busy()));
                }
                // Readers may still be at what was replaced: it goes on being named.
                (note.files, note.instead_of) = (before.files, before.instead_of);
                store.put_over(&name, note.text(), seen.version)?
            }
        };
        Ok(match put {
            Replaced::Done(version) => Ok(Self { store, name, note, version, put: Vec::new() }),
            Replaced::Otherwise => Err(busy()),
        })
    }

    /// Removes what was replaced so long ago that nobody reads it, or what a crash left, with the note.
    ///
    /// # Errors
    /// It is no object store, or it does not answer as it should.
    pub fn settle(url: &str, start: &str, patience: Patience) -> Result<(), Error> {
        settled(&opened(url)?, &note_of(start), patience).map(drop)
    }

    /// Puts a finished Parquet file of this machine into a folder, to be read when the step is done.
    ///
    /// # Errors
    /// It cannot be read here, or does not stand there whole.
    pub fn put(&mut self, path: &Path, folder: &Path) -> Result<(), Error> {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let name = format!("{}/{stem}-{}.parquet", folder.display(), self.note.mark);
        let mut input = File::open(path).map_err(|e| Error::io(path, e))?;
        // It is there for a part, maybe, where sending it fails.
        self.put.push((name.clone(), 0));
        let sent = self.store.write_file(&name, &mut input, path)?;
        if let Some(last) = self.put.last_mut() {
            last.1 = sent;
        }
        Ok(())
    }

    /// From here on what was put is read, and these objects, by their URLs, are not.
    ///
    /// # Errors
    /// Somebody took this for dead, and what was put is gone; or the store does not answer.
    pub fn step(&mut self, instead_of: &[&str]) -> Result<(), Error> {
        let mut note = Note { mark: mark(), ..self.note.clone() };
        if !instead_of.is_empty() {
            let above = self.store.shown_below("");
            let below = |url: &&str| {
                url.strip_prefix(&above).unwrap_or(url).trim_start_matches('/').to_owned()
            };
            note.instead_of.extend(instead_of.iter().map(below));
            note.files.extend_from_slice(&self.put);
            note.files.retain(|(name, _)| !note.instead_of.contains(name));
        }
        self.replace(note)?;
        self.put.clear();
        Ok(())
    }

    /// Puts the note anew.
    fn replace(&mut self, note: Note) -> Result<(), Error> {
        self.version = match self.store.put_over(&self.name, note.text(), self.version.clone())? {
            Replaced::Done(version) => version,
            Replaced::Otherwise => match self.store.look(&self.store.whole(&self.name))? {
                // It was put, and the answer was lost.
                Some(seen) if *seen.bytes == note.text() => seen.version,
                _ => {
                    self.forget()?;
                    let reason =
                        "it took so long to add to it that it was taken for dead; call again";
                    let url = self.store.shown_below(&self.name);
                    return Err(Error::Store { url, reason: reason.to_owned() });
                }
            },
        };
        self.note = note;
        Ok(())
    }

    /// Removes what was put since the last step.
    fn forget(&mut self) -> Result<(), Error> {
        for (name, _) in std::mem::take(&mut self.put) {
            self.store.remove(&name)?;
        }
        Ok(())
    }

    /// Lets others add.
    ///
    /// # Errors
    /// The store does not answer as it should.
    pub fn end(mut self) -> Result<(), Error> {
        self.forget()?;
        let mut note = Note { is_open: false, ..self.note.clone() };
        if !note.instead_of.is_empty() {
            return self.replace(note);
        }
        // Not that of somebody who took this for dead.
        note.settled_by = mark();
        self.replace(note)?;
        self.store.remove(&self.name)
    }
}

fn opened(url: &str) -> Result<Store, Error> {
    match Place::parse(url)? {
        Place::Store(url) => Store::open(&url),
        Place::Local(path) => Err(Error::Store {
            url: path.display().to_string(),
            reason: "this is no object store".to_owned(),
        }),
    }
}

/// The note as it stands; `None` if there is none, or none any more.
fn settled(store: &Store, name: &str, patience: Patience) -> Result<Option<Seen>, Error> {
    let whole = store.whole(name);
    let Some(seen) = store.look(&whole)? else { return Ok(None) };
    let mut note = Note::parse(store, &whole, &seen.bytes)?;
    let is_over = note.is_over() && note.settled_by.is_empty();
    let long_enough = match (is_over, note.instead_of.is_empty()) {
        (true, _) => patience.readers,
        (false, true) => patience.unfinished,
        (false, false) => patience.unfinished.max(patience.readers),
    };
    if seen.age < long_enough {
        return Ok(Some(seen));
    }
    note.settled_by = mark();
    if let Replaced::Otherwise = store.put_over(name, note.text(), seen.version)? {
        return store.look(&whole);
    }
    let mut gone = note.instead_of.clone();
    if note.is_open {
        let names = store.list()?.into_iter().map(|(name, _)| store.below(&name).to_owned());
        gone.extend(names.filter(|name| note.is_new(name)));
    }
    for name in gone {
        store.remove(&name)?;
    }
    store.remove(name)?;
    Ok(None)
}
