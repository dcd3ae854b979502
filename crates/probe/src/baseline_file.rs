//! What quiet is like, kept from one run to the next: a small file in the state folder.
//!
//! It is good for one machine, one way of measuring and, in a virtual machine, one boot: after the next it may run on
//! another host. Whoever probes the same machine reads and writes the same file, so that all agree. It is replaced as a
//! whole; what cannot be read, or is not ours, is told, ignored, and overwritten when there is something better.

use crate::baseline::Known;
use crosstalk_host::{Cpu, HostRoot, Kernel, L3Domain, machine_id};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// The file's name in the state folder.
const NAME: &str = "probe-baseline.json";
/// Changes with the meaning of what is in the file.
const VERSION: u32 = 1;
/// More is not a file of ours.
const MOST_BYTES: u64 = 1 << 20;
/// What was seen longer ago says nothing.
const OLDEST_NS: u64 = 7 * 86_400_000_000_000;

/// What a level is good for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Key {
    machine: Option<String>,
    /// In a virtual machine only.
    boot: Option<String>,
    processor: Option<String>,
    domains: Vec<(u32, Vec<u32>)>,
    method: String,
}

impl Key {
    pub(crate) fn of(host: &HostRoot, domains: &[L3Domain], method: String) -> Self {
        let cpu = Cpu::read(host);
        let (machine, boot) = (machine_id(host), Kernel::read(host).boot_id);
        Self {
            // Without an id of the machine a boot is all that tells it from others.
            boot: boot.filter(|_| cpu.virtualized || machine.is_none()),
            machine,
            processor: cpu.model,
            domains: domains.iter().map(|domain| (domain.id, domain.cores.clone())).collect(),
            method,
        }
    }

    /// What differs, in a word.
    fn differs(&self, other: &Self) -> Option<&'static str> {
        let parts = [
            (self.machine != other.machine, "another machine"),
            (self.processor != other.processor, "another processor"),
            (self.domains != other.domains, "other cores or caches"),
            (self.method != other.method, "another way of measuring"),
            (self.boot != other.boot, "a boot before this one"),
        ];
        parts.into_iter().find_map(|(differs, what)| differs.then_some(what))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    about: String,
    version: u32,
    key: Key,
    domains: Vec<Level>,
}

/// One last-level cache domain.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Level {
    l3_domain: u32,
    level: f64,
    noise: f64,
    references: u32,
    seen_unix_ns: u64,
}

impl Level {
    fn is_sound(&self) -> bool {
        self.level.is_finite() && self.level.abs() < 50.0 && (1e-4..=1.0).contains(&self.noise)
    }

    fn of(l3_domain: u32, known: &Known, now_unix_ns: u64) -> Self {
        let Known { level, noise, references, age_ns } = *known;
        let seen_unix_ns = now_unix_ns.saturating_sub(age_ns);
        Self { l3_domain, level, noise, references, seen_unix_ns }.rounded()
    }

    /// To so few digits that what is read is exactly what was written.
    fn rounded(self) -> Self {
        let round = |value: f64| (value * 1e6).round() / 1e6;
        Self { level: round(self.level), noise: round(self.noise).max(1e-4), ..self }
    }

    fn mean(&self, other: &Self) -> Self {
        let (ours, theirs) =
            (f64::from(self.references.max(1)), f64::from(other.references.max(1)));
        let apart = (self.level - other.level).abs();
        Self {
            level: (ours * self.level + theirs * other.level) / (ours + theirs),
            // Where the two disagree by more than either strays, that is noise too.
            noise: self.noise.max(other.noise).max(apart / 2.0).min(1.0),
            references: self.references.max(other.references),
            seen_unix_ns: self.seen_unix_ns.max(other.seen_unix_ns),
            ..*self
        }
        .rounded()
    }

    fn known(&self, now_unix_ns: u64) -> Known {
        Known {
            level: self.level,
            noise: self.noise,
            references: self.references,
            age_ns: now_unix_ns.saturating_sub(self.seen_unix_ns),
        }
    }
}

/// Why there is no baseline in the file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BaselineError {
    /// It cannot be read or written.
    #[error("cannot {what} {}: {source}", path.display())]
    Access {
        /// Read or write.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It is no file of the probe, or damaged.
    #[error("{} is no baseline of the probe: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// It is of another machine, placement, method or boot.
    #[error("{} is of {why}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What differs.
        why: &'static str,
    },
}

/// The file of one machine.
#[derive(Debug)]
pub(crate) struct BaselineFile {
    path: PathBuf,
    key: Key,
    /// What was in it when it was last read or written here: what differs from that is somebody else's.
    left: Vec<Level>,
}

impl BaselineFile {
    pub(crate) fn new(folder: &Path, key: Key) -> Self {
        Self { path: folder.join(NAME), key, left: Vec::new() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What is known by domain; nothing if there is no file.
    pub(crate) fn read(&mut self, now_unix_ns: u64) -> Result<Vec<(u32, Known)>, BaselineError> {
        self.left = self.levels(now_unix_ns)?;
        Ok(known(&self.left, now_unix_ns))
    }

    fn levels(&self, now_unix_ns: u64) -> Result<Vec<Level>, BaselineError> {
        let path = || self.path.clone();
        let access = |source| BaselineError::Access { what: "read", path: path(), source };
        let mut text = String::new();
        match File::open(&self.path) {
            Ok(file) => file.take(MOST_BYTES).read_to_string(&mut text).map_err(access)?,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(access(source)),
        };
        let content: Content = serde_json::from_str(&text)
            .map_err(|e| BaselineError::Unreadable { path: path(), why: e.to_string() })?;
        if content.version != VERSION {
            let why = format!("version {}, not {VERSION}", content.version);
            return Err(BaselineError::Unreadable { path: path(), why });
        }
        if let Some(why) = self.key.differs(&content.key) {
            return Err(BaselineError::Foreign { path: path(), why });
        }
        if let Some(level) = content.domains.iter().find(|level| !level.is_sound()) {
            let why = format!("{level:?} cannot be");
            return Err(BaselineError::Unreadable { path: path(), why });
        }
        let young = |l: &Level| now_unix_ns.saturating_sub(l.seen_unix_ns) < OLDEST_NS;
        Ok(content.domains.into_iter().filter(young).collect())
    }

    /// Writes what is known, together with what others wrote meanwhile: of two levels of one domain the mean, each
    /// counting by how often it was seen. What the file then says is returned.
    pub(crate) fn merge(
        &mut self,
        ours: &[(u32, Known)],
        now_unix_ns: u64,
    ) -> Result<Vec<(u32, Known)>, BaselineError> {
        // What is foreign or broken is worth less than what was just seen.
        let theirs = self.levels(now_unix_ns).unwrap_or_default();
        let mut all: Vec<Level> = Vec::new();
        for (l3_domain, known) in ours {
            let level = Level::of(*l3_domain, known, now_unix_ns);
            let other = theirs.iter().find(|other| other.l3_domain == *l3_domain);
            let other = other.filter(|other| !self.left.contains(other));
            all.push(other.map_or(level, |other| level.mean(other)));
        }
        let missing = |other: &&Level| !ours.iter().any(|(domain, _)| *domain == other.l3_domain);
        all.extend(theirs.iter().filter(missing).copied());
        let (what, path) = ("write", self.path.clone());
        self.write(&all).map_err(|source| BaselineError::Access { what, path, source })?;
        self.left = all;
        Ok(known(&self.left, now_unix_ns))
    }

    /// A new file in the place of the old one, so that nobody ever reads half of it.
    fn write(&self, levels: &[Level]) -> io::Result<()> {
        let about = "what memory is like at rest on this machine, as learnt by crosstalk's probe";
        let (about, key) = (about.to_owned(), self.key.clone());
        let content = Content { about, version: VERSION, key, domains: levels.to_vec() };
        let text = serde_json::to_vec_pretty(&content)?;
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let part = self.path.with_extension(format!("{}.part", std::process::id()));
        // One that an earlier process of this number left, or somebody's link.
        let _ = fs::remove_file(&part);
        let made = File::options().write(true).create_new(true).open(&part);
        let placed = made
            .and_then(|mut file| file.write_all(&text))
            .and_then(|()| fs::rename(&part, &self.path));
        if placed.is_err() {
            let _ = fs::remove_file(&part);
        }
        placed
    }
}

fn known(levels: &[Level], now_unix_ns: u64) -> Vec<(u32, Known)> {
    levels.iter().map(|level| (level.l3_domain, level.known(now_unix_ns))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000_000_000;
    const SECOND: u64 = 1_000_000_000;

    fn key() -> Key {
        Key {
            machine: Some("m".to_owned()),
            boot: Some("b".to_owned()),
            processor: Some("p".to_owned()),
            domains: vec![(0, vec![0, 1])],
            method: "x".to_owned(),
        }
    }

    fn known_at(level: f64, references: u32) -> Known {
        Known { level, noise: 0.02, references, age_ns: SECOND }
    }

    #[test]
    fn what_was_learnt_is_there_for_the_next_run_and_older_by_then() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = BaselineFile::new(&folder.path().join("new"), key());
        assert_eq!(file.read(NOW).unwrap(), []);
        file.merge(&[(0, known_at(1.5, 7))], NOW).unwrap();
        let later = Known { age_ns: 61 * SECOND, ..known_at(1.5, 7) };
        assert_eq!(file.read(NOW + 60 * SECOND).unwrap(), [(0, later)]);
        assert_eq!(file.read(NOW + OLDEST_NS).unwrap(), [], "too old to say anything");
        let names: Vec<_> = fs::read_dir(folder.path().join("new")).unwrap().flatten().collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }

    #[test]
    fn a_file_of_another_machine_placement_method_or_boot_is_refused_and_says_why() {
        let folder = tempfile::tempdir().unwrap();
        BaselineFile::new(folder.path(), key()).merge(&[(0, known_at(1.5, 7))], NOW).unwrap();
        let others = [
            (Key { machine: None, ..key() }, "another machine"),
            (Key { processor: None, ..key() }, "another processor"),
            (Key { domains: vec![(0, vec![0, 1, 2])], ..key() }, "other cores or caches"),
            (Key { method: "y".to_owned(), ..key() }, "another way of measuring"),
            (Key { boot: Some("c".to_owned()), ..key() }, "a boot before this one"),
        ];
        for (other, why) in others {
            let mut file = BaselineFile::new(folder.path(), other);
            let error = file.read(NOW).unwrap_err().to_string();
            assert!(error.ends_with(why) && error.contains(NAME), "{error}");
        }
    }

    #[test]
    fn whatever_else_lies_there_is_told_and_replaced_by_something_better() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = BaselineFile::new(folder.path(), key());
        file.merge(&[(0, known_at(1.5, 7))], NOW).unwrap();
        let good = fs::read_to_string(file.path()).unwrap();
        let broken = [
            String::new(),
            "[]".to_owned(),
            good[..good.len() / 2].to_owned(),
            good.replace("\"version\": 1", "\"version\": 99"),
            good.replace("0.02", "1e300"),
            "x".repeat(2 << 20),
        ];
        for text in broken {
            fs::write(file.path(), &text).unwrap();
            let error = file.read(NOW).unwrap_err();
            assert!(matches!(error, BaselineError::Unreadable { .. }), "{text:.60}: {error}");
            file.merge(&[(0, known_at(1.25, 3))], NOW).unwrap();
            assert_eq!(file.read(NOW).unwrap(), [(0, known_at(1.25, 3))]);
        }
    }

    #[test]
    fn two_who_learn_at_once_agree_by_what_each_has_seen() {
        let folder = tempfile::tempdir().unwrap();
        let [mut one, mut two] = [0, 1].map(|_| BaselineFile::new(folder.path(), key()));
        one.merge(&[(0, known_at(1.0, 30))], NOW).unwrap();
        let both = two.merge(&[(0, known_at(1.04, 10))], NOW + SECOND).unwrap();
        assert!((both[0].1.level - 1.01).abs() < 1e-9, "{both:?}");
        assert_eq!(one.read(NOW + SECOND).unwrap(), both);
        // What was in the file when it was last looked at is not counted again.
        let again = two.merge(&[(0, known_at(1.02, 10))], NOW + 2 * SECOND).unwrap();
        assert_eq!(again[0].1.level, 1.02);
        let once_more = one.merge(&[(0, known_at(1.02, 10))], NOW + 3 * SECOND).unwrap();
        assert_eq!(once_more[0].1.level, 1.02);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        let mut file = BaselineFile::new(&folder.path().join("file"), key());
        let error = file.merge(&[(0, known_at(1.0, 3))], NOW).unwrap_err().to_string();
        assert!(error.starts_with("cannot write ") && error.contains(NAME), "{error}");
    }
}
