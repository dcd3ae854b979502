//! Sums beside the rows of an object store: made on this machine and put there step by step, each of which readers see
//! whole ([`Additions`]). Nobody else adds sums meanwhile, nor does a compact merge them.

use super::kind::{KINDS, Kind, Period};
use super::standing::in_store;
use super::write::{self, Destination, Failed};
use super::{All, Keep, Run, filed, is_older, of_kind, others, remove_others, runs};
use crate::Error;
use crate::compact::everything;
use crosstalk_recording::{Additions, Patience, Reader, RecordedFile};
use std::path::Path;

pub(super) fn rollup(
    url: &str,
    keep: Keep,
    patience: Patience,
) -> Result<Vec<super::RolledUp>, Error> {
    let mut all = All::default();
    let there = Reader::open([url])?;
    // Nobody puts a note for what the place has nothing of.
    let is_there = |kind: &Kind| {
        *kind == KINDS[0]
            || there.datasets().iter().any(|one| *one == kind.dataset || kind.period(one).is_some())
    };
    for kind in KINDS.iter().filter(|kind| is_there(kind)) {
        let additions = match Additions::begin(url, kind.prefix(), patience)? {
            Ok(additions) => additions,
            Err(busy) => return Err(Error::Refused(format!("{}: {}", busy.folder, busy.because))),
        };
        let mut bucket = Bucket { url, kind, additions };
        let done = bucket.work(keep, &mut all);
        let ended = bucket.additions.end();
        done?;
        ended?;
        if patience.readers.is_zero() {
            Additions::settle(url, kind.prefix(), patience)?;
        }
    }
    if let Some(from_ns) = keep.rows_from_ns {
        remove_what_has_no_sums(url, from_ns, &mut all)?;
    }
    Ok(all.told(there.unread()))
}

/// Removes objects of data sets of which there are no sums and whose every row is older.
fn remove_what_has_no_sums(url: &str, from_ns: u64, all: &mut All) -> Result<(), Error> {
    // Nothing may be left of it.
    let reader = match Reader::open([url]) {
        Err(crosstalk_recording::Error::NothingThere { .. }) => return Ok(()),
        other => other?,
    };
    for (of, files) in runs(&reader) {
        if !files.iter().any(|file| is_exchanged(file, &reader)) {
            remove_others(&others(&files), from_ns, all.of(&of, &KINDS[0]))?;
        }
    }
    Ok(())
}

struct Bucket<'a> {
    url: &'a str,
    kind: &'static Kind,
    additions: Additions,
}

impl Bucket<'_> {
    fn work(&mut self, keep: Keep, all: &mut All) -> Result<(), Error> {
        let reader = Reader::open([self.url])?;
        let mut standing = in_store(self.kind, &reader);
        for (of, files) in runs(&reader) {
            let ours = of_kind(self.kind, &files);
            if ours.is_empty() && *self.kind != KINDS[0] {
                continue;
            }
            let done = all.of(&of, self.kind);
            match standing.remove(&filed(&of)).unwrap_or(Ok(Vec::new())) {
                Ok(sums) => Run { kind: self.kind, files: &ours, sums }.sum_up(self, done)?,
                Err(why) => done.unread.push(why),
            }
        }
        if let Some(from_ns) = keep.rows_from_ns {
            self.remove_older(from_ns, all)?;
        }
        if let Some(from_ns) = keep.seconds_from_ns {
            self.empty_older(from_ns, all)?;
        }
        Ok(())
    }

    /// Removes objects whose every row is older, by the sums that there are now.
    fn remove_older(&self, from_ns: u64, all: &mut All) -> Result<(), Error> {
        let reader = Reader::open([self.url])?;
        let mut standing = in_store(self.kind, &reader);
        for (of, files) in runs(&reader) {
            if let Some(file) = files.iter().find(|file| is_exchanged(file, &reader)) {
                if *self.kind == KINDS[0] {
                    all.of(&of, self.kind).unread.push(format!(
                        "{}: a compact is not done with its folder, so nothing of this run is removed; call again when it is",
                        file.path
                    ));
                }
                continue;
            }
            let ours = of_kind(self.kind, &files);
            if let Some(Ok(sums)) = standing.remove(&filed(&of)).filter(|_| !ours.is_empty()) {
                let run = Run { kind: self.kind, files: &ours, sums };
                run.remove_older(from_ns, all.of(&of, self.kind))?;
            }
        }
        Ok(())
    }

    /// Leaves nothing of seconds whose every row is older but what they are of.
    fn empty_older(&mut self, from_ns: u64, all: &mut All) -> Result<(), Error> {
        let reader = Reader::open([self.url])?;
        let standing = in_store(self.kind, &reader);
        for file in reader.files() {
            let of = (file.node.clone(), file.run.clone());
            let is_known = matches!(standing.get(&of), Some(Ok(_)));
            if is_known
                && self.kind.period(&file.dataset) == Some(Period::Second)
                && file.rows()? != Some(0)
                && is_older(file, from_ns)
            {
                self.empty(file)?;
                all.of(&of, self.kind).removed.push((&file.path).into());
            }
        }
        Ok(())
    }

    /// Puts seconds without rows in the place of some, which say the same of themselves.
    fn empty(&mut self, file: &RecordedFile) -> Result<(), Error> {
        let here = tempfile::tempdir().map_err(|e| Error::io(&std::env::temp_dir(), e))?;
        let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        let path = here.path().join(name);
        write::empty(self.kind, &path, &file.metadata()?)?;
        let below = folder.strip_prefix(self.url).unwrap_or(folder).trim_start_matches('/');
        self.additions.put(&path, Path::new(below))?;
        Ok(self.additions.step(&[file.path.as_str()])?)
    }
}

impl Destination for Bucket<'_> {
    fn sum_up(
        &mut self,
        kind: &'static Kind,
        files: &[&RecordedFile],
        replaced: &[&Path],
        done: &mut super::RolledUp,
    ) -> Result<Result<(), Failed>, Error> {
        if files.is_empty() {
            return Ok(Ok(()));
        }
        let here = tempfile::tempdir().map_err(|e| Error::io(&std::env::temp_dir(), e))?;
        let here = here.path();
        if let Err(failed) = write::sum_up(here, kind, files, &[], done)? {
            return Ok(Err(failed));
        }
        for path in everything(here) {
            let folder = path.strip_prefix(here).ok().and_then(Path::parent);
            self.additions.put(&path, folder.unwrap_or(Path::new("")))?;
        }
        let replaced: Vec<&str> = replaced.iter().filter_map(|path| path.to_str()).collect();
        self.additions.step(&replaced)?;
        Ok(Ok(()))
    }
}

/// Whether it stands beside objects that it is exchanged for.
fn is_exchanged(file: &RecordedFile, reader: &Reader) -> bool {
    reader.exchanging().iter().any(|start| file.path.starts_with(start))
}
