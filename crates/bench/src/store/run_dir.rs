use super::events::{Event, EventLog, read_events};
use super::passwords::without_passwords;
use crate::Error;
use crate::experiment::Experiment;
use crate::identity::{Driver, Standing};
use crate::plan::RoundKind;
use crosstalk_host::{Cpu, HostRoot, Kernel};
use crosstalk_settings::Secret;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", content = "why", rename_all = "snake_case")]
pub enum Outcome {
    /// Every round ran to its end.
    Completed,
    /// Ctrl-C or SIGTERM ended it.
    Interrupted,
    /// Something went wrong.
    Failed(String),
    /// Its driver was killed.
    Killed,
}

impl Outcome {
    /// In a word.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Interrupted => "interrupted",
            Self::Failed(_) => "failed",
            Self::Killed => "killed",
        }
    }

    /// In a sentence: how, and why where that is known.
    pub fn text(&self) -> String {
        match self {
            Self::Failed(why) => format!("{}: {why}", self.name()),
            other => other.name().to_owned(),
        }
    }
}

/// The machine a run was made on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Its name.
    pub host: Option<String>,
    /// The processor.
    pub cpu: Option<String>,
    /// How many logical CPUs are online.
    pub cpus: usize,
    /// The kernel.
    pub kernel: Option<String>,
    /// Whether a hypervisor is below it.
    pub virtualized: bool,
}

impl Machine {
    fn read(host: &HostRoot) -> Self {
        let (kernel, cpu) = (Kernel::read(host), Cpu::read(host));
        Self {
            host: kernel.hostname,
            cpu: cpu.model,
            cpus: cpu.cores.len(),
            kernel: kernel.release,
            virtualized: cpu.virtualized,
        }
    }
}

/// A container as it was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RanContainer {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its image, if it had one.
    pub image: Option<String>,
    /// What it ran, as the file has it: variables by their names.
    pub command: Vec<String>,
    /// The cores it was given.
    pub cores: Option<String>,
    /// Its priority.
    pub priority: i64,
    /// Whether it must not be slowed.
    pub critical: bool,
}

/// A round as it was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RanRound {
    /// Its number.
    pub number: u32,
    /// What it was for.
    #[serde(flatten)]
    pub kind: RoundKind,
    /// Its zero, Unix nanoseconds.
    pub zero_ns: u64,
    /// Its end; absent while it goes on, and after a kill.
    pub end_ns: Option<u64>,
    /// The cgroup of each container in the data set tasks, by name.
    pub cgroup_ids: Vec<(String, u64)>,
}

/// What is known of a run: the file `run.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Its id.
    pub id: String,
    /// The experiment's name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The scheduler.
    pub scheduler: String,
    /// The driver that ran it.
    pub driver: String,
    /// The version of Crosstalk.
    pub version: String,
    /// The container engine and its version, where one ran containers.
    #[serde(default)]
    pub engine: Option<String>,
    /// The seed that the order of rounds was drawn from, where it is a random one.
    #[serde(default)]
    pub shuffle_seed: Option<u64>,
    /// When it began, Unix nanoseconds.
    pub began_ns: u64,
    /// When it ended; absent while it goes on, and after a kill.
    pub ended_ns: Option<u64>,
    /// How it ended; absent likewise.
    pub outcome: Option<Outcome>,
    /// The machine.
    pub machine: Machine,
    /// Who ran.
    pub containers: Vec<RanContainer>,
    /// The rounds so far.
    pub rounds: Vec<RanRound>,
    /// What was not measured, and why.
    pub absent: Vec<(String, String)>,
    /// Rows that were measured and lost: data set, place, rows.
    pub lost: Vec<(String, String, u64)>,
    /// What the driver itself cost: seconds of processor time, and its largest memory in bytes.
    pub cost: Option<(f64, u64)>,
}

/// All runs below a folder.
#[derive(Clone, Debug)]
pub struct RunStore {
    root: PathBuf,
}

/// One run's folder.
#[derive(Clone, Debug)]
pub struct RunDir {
    path: PathBuf,
}

impl RunStore {
    /// At this folder, which need not exist yet.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Makes the folder of a new run; its id is the time and the experiment's name.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(
        &self,
        experiment: &Experiment,
        text: &str,
        began_ns: u64,
        host: &HostRoot,
    ) -> Result<(RunDir, RunRecord), Error> {
        let id = self.free_id(&experiment.name, began_ns)?;
        let dir = RunDir { path: self.root.join(&id) };
        let output = dir.path.join("output");
        fs::create_dir_all(&output).map_err(Error::file(&output))?;
        let file = dir.path.join("experiment.yaml");
        let registry = experiment.registry.as_ref().map(|registry| &registry.password);
        let database = experiment.database.as_ref().and_then(|database| database.password.as_ref());
        let secrets: Vec<&str> =
            [registry, database].into_iter().flatten().map(Secret::reveal).collect();
        fs::write(&file, without_passwords(text, &secrets)).map_err(Error::file(&file))?;
        let container = |c: &crate::experiment::Container| RanContainer {
            index: c.index,
            name: c.name.clone(),
            image: c.image.clone(),
            command: c.written.clone(),
            cores: c.cpus.as_ref().map(ToString::to_string),
            priority: c.priority,
            critical: c.critical,
        };
        let record = RunRecord {
            shuffle_seed: experiment.shuffle,
            id,
            name: experiment.name.clone(),
            description: experiment.description.clone(),
            scheduler: experiment.scheduler.name.to_owned(),
            driver: Driver::own(host).to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            engine: None,
            began_ns,
            ended_ns: None,
            outcome: None,
            machine: Machine::read(host),
            containers: experiment.containers.iter().map(container).collect(),
            rounds: Vec::new(),
            absent: Vec::new(),
            lost: Vec::new(),
            cost: None,
        };
        dir.write(&record)?;
        Ok((dir, record))
    }

    /// The time to the second, and the name; a number behind it where that is taken.
    fn free_id(&self, name: &str, began_ns: u64) -> Result<String, Error> {
        fs::create_dir_all(&self.root).map_err(Error::file(&self.root))?;
        let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let name: String = name.chars().take(40).map(letter).collect();
        let when = jiff::Timestamp::from_nanosecond(i128::from(began_ns)).unwrap_or_default();
        let base = format!("{}-{name}", when.strftime("%Y%m%dT%H%M%SZ"));
        let numbered = (2..1_000).map(|number| format!("{base}-{number}"));
        for id in std::iter::once(base.clone()).chain(numbered) {
            // Of two that begin at once, the folder is made by one.
            if fs::create_dir(self.root.join(&id)).is_ok() {
                return Ok(id);
            }
        }
        let path = self.root.join(&base);
        Err(Error::file(path)(std::io::ErrorKind::AlreadyExists.into()))
    }

    /// Every run, the oldest first. A folder that is none is passed over.
    pub fn all(&self) -> Vec<(RunDir, RunRecord)> {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let dirs = entries.map(|entry| RunDir { path: entry.path() });
        let mut runs: Vec<_> = dirs.filter_map(|dir| dir.read().ok().map(|r| (dir, r))).collect();
        runs.sort_by(|a, b| (a.1.began_ns, &a.1.id).cmp(&(b.1.began_ns, &b.1.id)));
        runs
    }

    /// The run with this id, the newest of this name, or the only one whose id begins or ends so; `last` is the newest.
    ///
    /// # Errors
    /// There is none, or more than one.
    pub fn find(&self, id: &str) -> Result<(RunDir, RunRecord), Error> {
        let mut runs = self.all();
        let place = self.root.display();
        if id == "last" {
            let none = || Error::NoRun { what: format!("there is no run below {place}") };
            return runs.pop().ok_or_else(none);
        }
        if let Some(at) = runs.iter().position(|(_, record)| record.id == id) {
            return Ok(runs.swap_remove(at));
        }
        if let Some(at) = runs.iter().rposition(|(_, record)| record.name == id) {
            return Ok(runs.swap_remove(at));
        }
        runs.retain(|(_, record)| record.id.starts_with(id) || record.id.ends_with(id));
        match runs.len() {
            1 => Ok(runs.remove(0)),
            0 => {
                let what = format!("no run {id} below {place}; crosstalk bench list shows them");
                Err(Error::NoRun { what })
            }
            many => Err(Error::NoRun { what: format!("{id} may be one of {many} runs; say more") }),
        }
    }
}

impl RunDir {
    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The experiment's file as it was run, without passwords.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn config(&self) -> Result<String, Error> {
        let path = self.path.join("experiment.yaml");
        fs::read_to_string(&path).map_err(Error::file(&path))
    }

    /// Where lines wait for a database that is away.
    pub fn spool(&self) -> PathBuf {
        self.path.join("influx-spool")
    }

    /// The folder of the recording.
    pub fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    /// Where what a container prints is kept.
    pub fn output(&self, round: u32, container: &str) -> PathBuf {
        self.path.join("output").join(format!("{round}-{container}.log"))
    }

    /// A new log of events.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn event_log(&self) -> Result<EventLog, Error> {
        EventLog::create(&self.path.join("events.jsonl"))
    }

    /// What happened.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn events(&self) -> Result<Vec<Event>, Error> {
        read_events(&self.path.join("events.jsonl"))
    }

    /// Writes what is known, whole or not at all.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, record: &RunRecord) -> Result<(), Error> {
        let (path, part) = (self.path.join("run.json"), self.path.join("run.json.part"));
        let text = serde_json::to_string_pretty(record).unwrap_or_default() + "\n";
        fs::write(&part, text).map_err(Error::file(&part))?;
        fs::rename(&part, &path).map_err(Error::file(&path))
    }

    /// What is known.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self) -> Result<RunRecord, Error> {
        let path = self.path.join("run.json");
        let text = fs::read_to_string(&path).map_err(Error::file(&path))?;
        serde_json::from_str(&text).map_err(|error| Error::file(&path)(error.into()))
    }
}

impl RunRecord {
    /// What is known of the driver that is at it; `None` when the run is over.
    pub fn standing(&self, host: &HostRoot) -> Option<Standing> {
        if self.outcome.is_some() {
            return None;
        }
        let Ok(driver) = self.driver.parse::<Driver>() else { return Some(Standing::Gone) };
        let standing = driver.standing(host);
        // A folder, unlike an engine, says which machine it is of: nothing of it ran on through a boot.
        let is_here = self.machine.host == Kernel::read(host).hostname;
        let was_rebooted = is_here && driver.is_of_another_boot(host);
        Some(if was_rebooted { Standing::Gone } else { standing })
    }

    /// Whether its driver is still at it, or may be.
    pub fn goes_on(&self, host: &HostRoot) -> bool {
        self.standing(host).is_some_and(|standing| standing != Standing::Gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_found_by_the_beginning_of_its_id_and_by_last() {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::at(folder.path());
        assert!(store.find("last").is_err());
        let around = crate::experiment::Surroundings {
            cpus: [0].into_iter().collect(),
            path: vec!["/bin".into(), "/usr/bin".into()],
        };
        let text = "benchmark: {name: \"My Test\"}\na: {index: 0, command: sh}\n";
        let variables = crate::experiment::Variables::default();
        let experiment = Experiment::parse("e.yaml", text, &variables, &around).unwrap();
        let host = HostRoot::default();
        let make = |ns| store.create(&experiment, text, ns, &host).unwrap().1;
        let second = 1_000_000_000;
        let (first, again) = (make(second), make(second));
        let later = make(90 * second);
        assert_eq!(first.id, "19700101T000001Z-my-test");
        assert_eq!(again.id, "19700101T000001Z-my-test-2");
        assert_eq!(store.find("last").unwrap().1.id, later.id);
        assert_eq!(store.find("19700101T000130").unwrap().1, later);
        assert!(store.find("19700101T000001").is_err(), "two begin so");
        assert_eq!(store.find("My Test").unwrap().1.id, later.id, "the newest of a name");
        assert_eq!(store.find(&first.id).unwrap().1.id, first.id);
        assert_eq!(first.standing(&host), Some(Standing::Lives));
        let by = |driver: &str| RunRecord { driver: driver.to_owned(), ..first.clone() };
        let rebooted = by("1-2-00000000effffffc");
        assert_eq!(rebooted.standing(&host), Some(Standing::Gone), "nothing outlives a boot");
        let machine = Machine { host: Some("another".to_owned()), ..first.machine.clone() };
        let elsewhere = RunRecord { machine, ..rebooted };
        assert_eq!(elsewhere.standing(&host), Some(Standing::Elsewhere));
        assert!(elsewhere.goes_on(&host), "it may");
        assert_eq!(by("nobody").standing(&host), Some(Standing::Gone));
        let over = RunRecord { outcome: Some(Outcome::Killed), ..elsewhere };
        assert_eq!(over.standing(&host), None);
    }
}
