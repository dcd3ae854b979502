//! When the baseline is read and written.

use crate::baseline_file::{BaselineError, BaselineFile, Key};
use crate::weather::Weather;
use crosstalk_host::{Clock, L3Domain};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What was learnt is written this long after it was, so that another process need not learn it.
const FIRST: Duration = Duration::from_secs(10);
/// And then this often: it changes little.
const EVERY: Duration = Duration::from_secs(60);
/// Somebody else may have learnt what quiet is.
const LOOK: Duration = Duration::from_secs(5);

/// What became of the file in which quiet is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaselineNote {
    /// For people.
    pub text: String,
    /// Whether quiet could not be read or kept.
    pub is_trouble: bool,
}

/// The latest of them, shared with whoever started the probe.
#[derive(Debug, Default, Clone)]
pub(crate) struct Note(Arc<Mutex<Option<BaselineNote>>>);

impl Note {
    pub(crate) fn get(&self) -> Option<BaselineNote> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, text: String, is_trouble: bool) {
        let note = Some(BaselineNote { text, is_trouble });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = note;
    }
}

pub(crate) struct Keeper {
    file: BaselineFile,
    clock: Clock,
    note: Note,
    looked: Instant,
    written: Option<Instant>,
    /// A folder that may not be written is told once.
    refused: bool,
}

type Domains = [(L3Domain, Weather)];

impl Keeper {
    /// Reads what is there.
    pub(crate) fn open(
        folder: &Path,
        key: Key,
        clock: Clock,
        note: Note,
        domains: &mut Domains,
    ) -> Self {
        let file = BaselineFile::new(folder, key);
        let (looked, written, refused) = (Instant::now(), None, false);
        let mut keeper = Self { file, clock, note, looked, written, refused };
        if let Err(error) = keeper.adopt(0, domains) {
            keeper.note.set(format!("{error}; learning anew"), true);
        }
        keeper
    }

    fn adopt(&mut self, at_ns: u64, domains: &mut Domains) -> Result<(), BaselineError> {
        for (id, known) in self.file.read(self.clock.now_unix_ns())? {
            for (_, weather) in domains.iter_mut().filter(|(domain, _)| domain.id == id) {
                weather.adopt(at_ns, known);
                self.note.set(format!("quiet is known from {}", self.file.path().display()), false);
            }
        }
        Ok(())
    }

    /// Looks whether it is time to read or write.
    pub(crate) fn look(&mut self, at_ns: u64, domains: &mut Domains) {
        if self.looked.elapsed() < LOOK {
            return;
        }
        self.looked = Instant::now();
        if domains.iter().any(|(_, weather)| weather.known(at_ns).is_none()) {
            // What was told at the start is still so.
            let _ = self.adopt(at_ns, domains);
        }
        let begun = Duration::from_nanos(at_ns) >= FIRST;
        if self.written.map_or(begun, |written| written.elapsed() >= EVERY) {
            self.write(at_ns, domains);
        }
    }

    /// Writes what was seen here, and takes what all agree on.
    pub(crate) fn write(&mut self, at_ns: u64, domains: &mut Domains) {
        let seen = domains.iter().filter(|(_, weather)| weather.has_seen_quiet());
        let known: Vec<_> =
            seen.filter_map(|(domain, weather)| Some((domain.id, weather.known(at_ns)?))).collect();
        if known.is_empty() || self.refused {
            return;
        }
        self.written = Some(Instant::now());
        match self.file.merge(&known, self.clock.now_unix_ns()) {
            Ok(agreed) => {
                for (id, known) in agreed {
                    let same = domains.iter_mut().filter(|(domain, _)| domain.id == id);
                    same.for_each(|(_, weather)| weather.agree(known));
                }
                self.note.set(format!("quiet is kept in {}", self.file.path().display()), false);
            }
            Err(error) => {
                self.refused = true;
                self.note.set(format!("{error}; quiet is learnt anew at every start"), true);
            }
        }
    }
}
