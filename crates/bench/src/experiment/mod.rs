//! The experiment as its file describes it, read with every mistake told at once.

mod arrivals;
mod check;
mod command;
mod container;
mod limits;
mod reading;
mod variables;

pub use check::Surroundings;
pub use reading::Mistake;
pub use variables::Variables;

use crate::scheduler::{self, Offered};
use crosstalk_host::{CpuSet, IoLimits};
use crosstalk_settings::document::{Value, read};
use reading::Reading;
use std::collections::BTreeMap;
use std::time::Duration;

/// The JSON schema of the file, for editors.
pub const SCHEMA: &str = include_str!("../../schema/experiment.schema.json");

/// What is to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Its file, as mistakes name it.
    pub file: String,
    /// What it is called.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// When it is over at the latest, after the common zero.
    pub end: End,
    /// How much is said on standard error.
    pub log_level: Option<String>,
    /// What keeps containers apart.
    pub scheduler: &'static Offered,
    /// Whether a scheduler may use the cache and bandwidth limits of resctrl.
    pub use_rdt: bool,
    /// What the file itself says of that, if it does.
    pub rdt_said: Option<bool>,
    /// What is collected.
    pub data: Data,
    /// Where else measurements go.
    pub database: Option<Database>,
    /// Who pulls images.
    pub registry: Option<Registry>,
    /// How often all of it is done.
    pub repeats: u32,
    /// Whether each container is run alone as well.
    pub solo: bool,
    /// Whether rounds come in an order drawn from this seed.
    pub shuffle: Option<u64>,
    /// Who runs, by index.
    pub containers: Vec<Container>,
}

/// When an experiment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// After this long.
    After(Duration),
    /// When every container has ended.
    WhenAllEnded,
    /// With a signal.
    OnSignal,
}

impl End {
    /// When that is, if it is known beforehand.
    pub const fn after(self) -> Option<Duration> {
        match self {
            Self::After(end) => Some(end),
            Self::WhenAllEnded | Self::OnSignal => None,
        }
    }
}

/// What is collected, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Time between samples of containers.
    pub period: Duration,
    /// Cache and memory traffic by container.
    pub rdt: bool,
    /// What every process does in every millisecond, with hardware counters where there are any.
    pub perf: bool,
    /// Processor time, memory, network and block I/O of containers.
    pub containers: bool,
    /// The memory probe.
    pub probe: bool,
}

impl Default for Data {
    fn default() -> Self {
        let period = Duration::from_millis(100);
        Self { period, rdt: true, perf: true, containers: true, probe: true }
    }
}

/// An InfluxDB, or what speaks its protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// Its address.
    pub host: String,
    /// The bucket of 2.x and 3.x, the database of 1.x.
    pub name: String,
    /// The user of 1.x.
    pub user: Option<String>,
    /// The token of 2.x and 3.x, the user's password of 1.x.
    pub password: Option<crosstalk_settings::Secret>,
    /// The organisation of 2.x.
    pub org: Option<String>,
    /// Which protocol is spoken.
    pub version: InfluxVersion,
}

/// The protocols of InfluxDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InfluxVersion {
    /// `/write`, with a user's name.
    One,
    /// `/api/v2/write`, with a token and an organisation; 3.x and VictoriaMetrics take it too.
    Two,
    /// `/api/v3/write_lp`, with a token.
    Three,
}

/// A registry that wants to know who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registry {
    /// Its address.
    pub address: String,
    /// The user.
    pub user: String,
    /// The user's password.
    pub password: crosstalk_settings::Secret,
}

/// One workload of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    /// Its key in the file.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// The image; without one the command is a plain process.
    pub image: Option<String>,
    /// What is run; empty for what the image says.
    pub command: Vec<String>,
    /// The same as the file has it, variables by their names: what they hold may be nobody's business.
    pub written: Vec<String>,
    /// Whether it runs behind the engine's init, where there is one. An image with an init of its own wants to be first.
    pub init: bool,
    /// Published ports.
    pub ports: Vec<Port>,
    /// When it starts, after the common zero.
    pub start: Duration,
    /// When it stops; `None` when the experiment does.
    pub stop: Option<Duration>,
    /// The CPUs it may use; `None` is all.
    pub cpus: Option<CpuSet>,
    /// Cores' worth of processor time it may use.
    pub cpu_limit: Option<f64>,
    /// Memory it may use.
    pub memory_limit: Option<u64>,
    /// What it may read from and write to disks in a second.
    pub io: Option<Io>,
    /// What it may receive and send in a second.
    pub network: Option<NetworkLimits>,
    /// Variables it is given.
    pub env: BTreeMap<String, String>,
    /// Folders it sees: of the host, of the container, and whether only to read.
    pub volumes: Vec<Volume>,
    /// Whose work comes first; higher is more important.
    pub priority: i64,
    /// Whether it must not be slowed by others, and is never held back for them.
    pub critical: bool,
    /// How it says what it got done.
    pub progress: Option<Progress>,
    /// What is collected of it.
    pub data: ContainerData,
    /// How long it runs if nobody stops it.
    pub expected: Option<Duration>,
    /// Which arrival of the container with this name it is; the first is 1.
    pub arrival: Option<(String, u32)>,
}

/// What is collected of one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerData {
    /// Whether it is judged, and what its processes did goes to a database.
    pub perf: bool,
    /// Whether its cache and memory traffic go to a database.
    pub rdt: bool,
    /// Whether what it uses is sampled.
    pub containers: bool,
    /// How often, if not as often as the others.
    pub period: Option<Duration>,
}

impl Default for ContainerData {
    fn default() -> Self {
        Self { perf: true, rdt: true, containers: true, period: None }
    }
}

/// A port of the host that leads to one of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// On the host.
    pub host: u16,
    /// In the container.
    pub container: u16,
    /// The line of the file that asks for it.
    pub line: usize,
}

/// What a container may read from and write to disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Io {
    /// The disk, such as `vda`; without one, each disk of the machine.
    pub disk: Option<String>,
    /// In a second.
    pub limits: IoLimits,
}

/// What a container may receive and send, bytes in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkLimits {
    /// Received.
    pub receive: Option<u64>,
    /// Sent.
    pub send: Option<u64>,
}

/// A folder of the host in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// On the host.
    pub host: String,
    /// In the container.
    pub container: String,
    /// Whether it cannot be written.
    pub read_only: bool,
}

/// How a workload says what it got done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Each line on its output is a unit of work.
    Lines,
    /// A number on its output behind this word: how much is done so far.
    Number(String),
    /// A key of the JSON lines on its output: how much is done so far.
    Json(String),
    /// A number at an HTTP address: the whole body, or behind this word in it.
    Url {
        /// The address.
        url: String,
        /// The word, such as the name of a Prometheus metric.
        after: Option<String>,
    },
}

impl Experiment {
    /// Reads a file's text. `name` stands before every mistake and says the format; `around` is what the machine has.
    ///
    /// # Errors
    /// All that is wrong with it, in the order of lines.
    pub fn parse(
        name: &str,
        text: &str,
        variables: &Variables,
        around: &Surroundings,
    ) -> Result<Self, Vec<Mistake>> {
        let mut node = read(name, &variables::mark(text))
            .map_err(|error| vec![Mistake { line: None, what: error.to_string() }])?;
        let mut written = node.clone();
        variables::unmark(&mut written);
        let mut unset = Vec::new();
        variables.fill(&mut node, &mut unset);
        let mut reading = Reading::new();
        for (line, name) in unset {
            reading.wrong(line, format!("${{{name}}} is not set, in the environment or in .env"));
        }
        let Value::Table(entries) = &node.value else {
            return Err(vec![Mistake { line: Some(1), what: "must be a table".to_owned() }]);
        };
        let mut experiment = match entries.iter().find(|entry| entry.key == "benchmark") {
            Some(entry) => Self::read(&mut reading.table(&entry.node, "benchmark")),
            None => {
                reading.wrong(1, "needs benchmark: with at least a name".to_owned());
                Self::empty()
            }
        };
        experiment.file = name.to_owned();
        let mut lines = Vec::new();
        for entry in entries.iter().filter(|entry| entry.key != "benchmark") {
            let mut table = reading.table(&entry.node, &entry.key);
            let (mut container, places) = Container::read(&entry.key, &mut table);
            container.written = container::written(&written, &entry.key);
            lines.push((reading::line(&entry.place), places));
            experiment.containers.push(container);
        }
        check::check(&experiment, &lines, around, &mut reading);
        let counts: Vec<Option<u32>> = lines.iter().map(|(_, places)| places.num_cores).collect();
        check::choose_cores(&mut experiment.containers, &counts, around);
        let traces = lines.into_iter().map(|(_, places)| places.arrivals);
        arrivals::expand(&mut experiment, traces.collect());
        experiment.containers.sort_by_key(|container| container.index);
        reading.finish(experiment)
    }

    fn empty() -> Self {
        Self {
            file: String::new(),
            name: String::new(),
            description: String::new(),
            end: End::WhenAllEnded,
            log_level: None,
            scheduler: scheduler::ALL[0],
            use_rdt: false,
            rdt_said: None,
            data: Data::default(),
            database: None,
            registry: None,
            repeats: 1,
            solo: false,
            shuffle: None,
            containers: Vec::new(),
        }
    }

    /// Sets the scheduler. Whether it may use resctrl is the file's to say; where it does not, all but the default may.
    ///
    /// # Errors
    /// It is nothing without resctrl, which the file denies it.
    pub fn schedule_with(&mut self, scheduler: &'static Offered) -> Result<(), String> {
        self.scheduler = scheduler;
        self.use_rdt = self.rdt_said.unwrap_or(!scheduler.is_default());
        if scheduler.needs_rdt && !self.use_rdt {
            return Err(format!(
                "is false, and scheduler {} works by nothing else; leave it out, or take another scheduler",
                scheduler.name
            ));
        }
        Ok(())
    }

    /// How long a container of it runs, as planned; `None` until all are stopped.
    pub fn planned(&self, container: &Container) -> Option<Duration> {
        let stop = [container.stop, self.end.after()].into_iter().flatten().min()?;
        Some(stop.saturating_sub(container.start))
    }
}

#[cfg(test)]
mod tests;
