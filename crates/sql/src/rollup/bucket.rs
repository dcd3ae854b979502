//! Sums beside the rows of an object store: made on this machine and put there step by step, each of which readers see
//! whole ([`Additions`]). Nobody else adds sums meanwhile, nor does a compact merge them.

use super::standing::{Of, in_store};
use super::sum::Period;
use super::write::{self, Destination, Failed};
use super::{Keep, RolledUp, Run, filed, is_older, remove_others, runs};
use crate::Error;
use crate::compact::everything;
use crosstalk_recording::{Additions, Patience, Reader, RecordedFile};
use std::collections::BTreeMap;
use std::path::Path;

/// How the names of data sets of sums begin.
const SUMS: &str = "tasks_per_";

pub(super) fn rollup(url: &str, keep: Keep, patience: Patience) -> Result<Vec<RolledUp>, Error> {
    let additions = match Additions::begin(url, SUMS, patience)? {
        Ok(additions) => additions,
        Err(busy) => return Err(Error::Refused(format!("{}: {}", busy.folder, busy.because))),
    };
    let mut bucket = Bucket { url, additions };
    let done = bucket.work(keep);
    let ended = bucket.additions.end();
    let done = done?;
    ended?;
    if patience.readers.is_zero() {
        Additions::settle(url, SUMS, patience)?;
    }
    Ok(done.into_values().collect())
}

struct Bucket<'a> {
    url: &'a str,
    additions: Additions,
}

impl Bucket<'_> {
    fn work(&mut self, keep: Keep) -> Result<BTreeMap<Of, RolledUp>, Error> {
        let reader = Reader::open([self.url])?;
        let (mut standing, mut all) = (in_store(&reader), BTreeMap::new());
        for (of, files) in runs(&reader) {
            let done = entry(&mut all, &of);
            let (tasks, _) = parted(files);
            match standing.remove(&filed(&of)).unwrap_or(Ok(Vec::new())) {
                Ok(sums) => Run { files: &tasks, sums }.sum_up(self, done)?,
                Err(why) => done.unread.push(why),
            }
        }
        if let Some(from_ns) = keep.rows_from_ns {
            self.remove_older(from_ns, &mut all)?;
        }
        if let Some(from_ns) = keep.seconds_from_ns {
            self.empty_older(from_ns, &mut all)?;
        }
        if let Some(first) = all.values_mut().next() {
            first.unread.extend_from_slice(reader.unread());
        }
        Ok(all)
    }

    /// Removes objects whose every row is older, by the sums that there are now.
    fn remove_older(&self, from_ns: u64, all: &mut BTreeMap<Of, RolledUp>) -> Result<(), Error> {
        let reader = Reader::open([self.url])?;
        let mut standing = in_store(&reader);
        for (of, files) in runs(&reader) {
            let done = entry(all, &of);
            if let Some(file) = files.iter().find(|file| is_exchanged(file, &reader)) {
                done.unread.push(format!(
                    "{}: a compact is not done with its folder, so nothing of this run is removed; call again when it is",
                    file.path
                ));
                continue;
            }
            let (tasks, others) = parted(files);
            if let Some(Ok(sums)) = standing.remove(&filed(&of)) {
                Run { files: &tasks, sums }.remove_older(from_ns, done)?;
            }
            remove_others(&others, from_ns, done)?;
        }
        Ok(())
    }

    /// Leaves nothing of seconds whose every row is older but what they are of.
    fn empty_older(&mut self, from_ns: u64, all: &mut BTreeMap<Of, RolledUp>) -> Result<(), Error> {
        let reader = Reader::open([self.url])?;
        let standing = in_store(&reader);
        for file in reader.files() {
            let of = (file.node.clone(), file.run.clone());
            let is_known = matches!(standing.get(&of), Some(Ok(_)));
            if is_known
                && Period::of(&file.dataset) == Some(Period::Second)
                && file.rows()? != Some(0)
                && is_older(file, from_ns)
            {
                self.empty(file)?;
                entry(all, &of).removed.push((&file.path).into());
            }
        }
        Ok(())
    }

    /// Puts seconds without rows in the place of some, which say the same of themselves.
    fn empty(&mut self, file: &RecordedFile) -> Result<(), Error> {
        let here = tempfile::tempdir().map_err(|e| Error::io(&std::env::temp_dir(), e))?;
        let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        let path = here.path().join(name);
        write::empty(&path, &file.metadata()?)?;
        let below = folder.strip_prefix(self.url).unwrap_or(folder).trim_start_matches('/');
        self.additions.put(&path, Path::new(below))?;
        Ok(self.additions.step(&[file.path.as_str()])?)
    }
}

impl Destination for Bucket<'_> {
    fn sum_up(
        &mut self,
        files: &[&RecordedFile],
        replaced: &[&Path],
        done: &mut RolledUp,
    ) -> Result<Result<(), Failed>, Error> {
        if files.is_empty() {
            return Ok(Ok(()));
        }
        let here = tempfile::tempdir().map_err(|e| Error::io(&std::env::temp_dir(), e))?;
        let here = here.path();
        if let Err(failed) = write::sum_up(here, files, &[], done)? {
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

fn entry<'a>(all: &'a mut BTreeMap<Of, RolledUp>, of: &Of) -> &'a mut RolledUp {
    let (node, run) = of.clone();
    all.entry(of.clone()).or_insert_with(|| RolledUp { node, run, ..RolledUp::default() })
}

/// Files of tasks, and others.
fn parted(files: Vec<&RecordedFile>) -> (Vec<&RecordedFile>, Vec<&RecordedFile>) {
    files.into_iter().partition(|file| file.dataset == "tasks")
}

/// Whether it stands beside objects that it is exchanged for.
fn is_exchanged(file: &RecordedFile, reader: &Reader) -> bool {
    reader.exchanging().iter().any(|start| file.path.starts_with(start))
}
