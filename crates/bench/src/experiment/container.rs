//! The tables of the file, key by key.

use super::arrivals::Trace;
use super::limits::{read_io, read_network};
use super::reading::{Seconds, Table, as_text, line};
use super::{
    Container, ContainerData, Data, Database, End, Experiment, InfluxVersion, Port, Progress,
    Registry, Volume, command,
};
use crate::scheduler::Offered;
use crosstalk_host::CpuSet;
use crosstalk_settings::document::{Node, Value};
use crosstalk_settings::{Secret, parse_bytes};
use std::collections::BTreeMap;
use std::time::Duration;

/// Keys of `benchmark`, those of its tables behind a dot. The schema has the same (a test holds them together).
pub(super) const BENCHMARK: &[&str] = &[
    "name",
    "description",
    "max_t",
    "log_level",
    "scheduler",
    "data",
    "docker",
    "repeats",
    "solo",
    "shuffle",
    "seed",
];
pub(super) const SCHEDULER: &[&str] = &["implementation", "rdt"];
pub(super) const DATA: &[&str] = &["profilefrequency", "db", "rdt", "perf", "dockerstats", "probe"];
pub(super) const DB: &[&str] = &["host", "name", "user", "password", "org", "version"];
pub(super) const DOCKER: &[&str] = &["auth", "registry"];
pub(super) const AUTH: &[&str] = &["registry", "username", "password"];
/// As some write what is `auth` to others.
pub(super) const REGISTRY: &[&str] = &["host", "username", "password"];
pub(super) const CONTAINER: &[&str] = &[
    "index",
    "image",
    "port",
    "start",
    "start_t",
    "stop",
    "stop_t",
    "expected_t",
    "arrivals",
    "core",
    "num_cores",
    "cpus",
    "memory",
    "io",
    "network",
    "env",
    "environment",
    "volumes",
    "command",
    "init",
    "priority",
    "critical",
    "progress",
    "data",
];
/// `docker` is what some write for `dockerstats`.
pub(super) const CONTAINER_DATA: &[&str] = &["perf", "rdt", "dockerstats", "docker", "frequency"];
pub(super) const PROGRESS: &[&str] = &["number", "json", "url", "after"];

/// Samples nearer together cost more than they tell.
const SHORTEST_MS: i64 = 50;
const LONGEST_MS: i64 = 3_600_000;

/// Lines that checks across containers speak of.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Absent where it is no index.
    pub(super) index: Option<usize>,
    pub(super) start: usize,
    pub(super) stop: usize,
    pub(super) core: usize,
    pub(super) port: usize,
    pub(super) volumes: usize,
    /// Absent where there is none.
    pub(super) command: Option<usize>,
    pub(super) network: usize,
    /// When it comes, if it comes more than once.
    pub(super) arrivals: Option<Trace>,
    /// `num_cores`, until it is known which there are.
    pub(super) num_cores: Option<u32>,
}

impl Experiment {
    pub(super) fn read(table: &mut Table<'_>) -> Self {
        table.only(BENCHMARK);
        let mut read = Self::empty();
        read.name =
            table.text("name").filter(|name| !name.trim().is_empty()).unwrap_or_else(|| {
                table.wrong("name", "is needed");
                String::new()
            });
        read.description = table.text("description").unwrap_or_default();
        read.end = match table.seconds("max_t") {
            None => End::WhenAllEnded,
            Some(Seconds::Never) => End::OnSignal,
            Some(Seconds::After(Duration::ZERO)) => {
                table.wrong("max_t", "must be more than 0, or -1 for until a signal");
                End::WhenAllEnded
            }
            Some(Seconds::After(after)) => End::After(after),
        };
        read.log_level = table.text("log_level");
        if read.log_level.as_deref().is_some_and(|level| !LEVELS.contains(&level)) {
            table.wrong("log_level", &format!("must be one of {}", LEVELS.join(", ")));
        }
        // What is only said on the way down is no more than an error here.
        let worse = |level: &String| matches!(level.as_str(), "fatal" | "panic");
        if read.log_level.as_ref().is_some_and(worse) {
            read.log_level = Some("error".to_owned());
        }
        if let Some(scheduler) = table.table("scheduler") {
            scheduler.only(SCHEDULER);
            if let Some(word) = scheduler.text("implementation") {
                match Offered::named(&word) {
                    Ok(found) => read.scheduler = found,
                    Err(what) => scheduler.wrong("implementation", &what),
                }
            }
            read.rdt_said = scheduler.flag("rdt");
            if let Err(what) = read.schedule_with(read.scheduler) {
                scheduler.wrong("rdt", &what);
            }
        }
        if let Some(data) = table.table("data") {
            data.only(DATA);
            read.data = Data::read(&data);
            read.database = data.table("db").map(|db| Database::read(&db));
        }
        if let Some(docker) = table.table("docker") {
            docker.only(DOCKER);
            let (key, known, address) = match docker.either("auth", "registry") {
                "registry" => ("registry", REGISTRY, "host"),
                key => (key, AUTH, "registry"),
            };
            read.registry = docker.table(key).map(|auth| Registry::read(&auth, known, address));
        }
        read.repeats = table.whole("repeats", 1..=1_000).unwrap_or(1) as u32;
        if read.repeats > 1 && read.end == End::OnSignal {
            table.wrong(
                "repeats",
                "has no meaning with max_t: -1, whose signal ends all rounds; leave max_t out",
            );
        }
        read.solo = table.flag("solo").unwrap_or(false);
        let seed = table.whole("seed", 0..=i64::MAX);
        let shuffle = table.flag("shuffle").unwrap_or(false);
        // Without a seed every run has an order of its own; which it was is kept with the run.
        let drawn = || i64::from(fastrand::u32(..));
        read.shuffle = shuffle.then(|| seed.unwrap_or_else(drawn).unsigned_abs());
        if seed.is_some() && !shuffle {
            table.wrong("seed", "has no meaning without shuffle: true");
        }
        read
    }
}

pub(super) const LEVELS: &[&str] = &["trace", "debug", "info", "warn", "error", "fatal", "panic"];

impl Data {
    fn read(table: &Table<'_>) -> Self {
        let default = Self::default();
        let period = table.whole("profilefrequency", SHORTEST_MS..=LONGEST_MS);
        let flag = |key: &str, otherwise: bool| table.flag(key).unwrap_or(otherwise);
        Self {
            period: period.map_or(default.period, |ms| Duration::from_millis(ms.unsigned_abs())),
            rdt: flag("rdt", default.rdt),
            perf: flag("perf", default.perf),
            containers: flag("dockerstats", default.containers),
            probe: flag("probe", default.probe),
        }
    }
}

fn needed(table: &Table<'_>, key: &str) -> String {
    let text = table.text(key).filter(|text| !text.is_empty());
    text.unwrap_or_else(|| {
        table.wrong(key, "is needed");
        String::new()
    })
}

impl Database {
    fn read(table: &Table<'_>) -> Self {
        table.only(DB);
        let org = table.text("org");
        let version = match (table.whole("version", 1..=3), &org) {
            (Some(3), _) => InfluxVersion::Three,
            (Some(1), _) | (None, None) => InfluxVersion::One,
            (_, org) => {
                if org.is_none() {
                    table.wrong("org", "is needed for version 2");
                }
                InfluxVersion::Two
            }
        };
        Self {
            host: needed(table, "host"),
            name: needed(table, "name"),
            user: table.text("user"),
            password: table.text("password").map(Secret::new),
            org,
            version,
        }
    }
}

impl Registry {
    fn read(table: &Table<'_>, known: &[&str], address: &str) -> Self {
        table.only(known);
        Self {
            address: needed(table, address),
            user: needed(table, "username"),
            password: Secret::new(needed(table, "password")),
        }
    }
}

impl Container {
    pub(super) fn read(name: &str, table: &mut Table<'_>) -> (Self, Places) {
        table.only(CONTAINER);
        let index = table.whole("index", 0..=9_999);
        if table.node("index").is_none() {
            table.wrong("index", "is needed");
        }
        let (start_key, stop_key) =
            (table.either("start", "start_t"), table.either("stop", "stop_t"));
        let start = match table.seconds(start_key) {
            Some(Seconds::After(start)) => start,
            Some(Seconds::Never) => {
                table.wrong(start_key, "must be 0 or more");
                Duration::ZERO
            }
            None => Duration::ZERO,
        };
        let stop = table.seconds(stop_key).and_then(Seconds::after);
        let places = Places {
            index: index.map(|_| table.line_of("index")),
            start: table.line_of(start_key),
            stop: table.line_of(stop_key),
            core: table.line_of("core"),
            port: table.line_of("port"),
            volumes: table.line_of("volumes"),
            command: table.node("command").map(|_| table.line_of("command")),
            network: table.line_of("network"),
            arrivals: Trace::read(table),
            num_cores: table.whole("num_cores", 1..=65_536).map(|count| count as u32),
        };
        let read = Self {
            name: name.to_owned(),
            index: index.unwrap_or(0) as u32,
            image: table.text("image").filter(|image| !image.is_empty()),
            command: read_command(table),
            written: Vec::new(),
            init: table.flag("init").unwrap_or(true),
            ports: read_ports(table),
            start,
            stop,
            cpus: read_cpus(table),
            cpu_limit: read_cpu_limit(table),
            memory_limit: read_memory(table),
            io: read_io(table),
            network: read_network(table),
            env: read_env(table),
            volumes: read_volumes(table),
            priority: read_priority(table),
            critical: table.flag("critical").unwrap_or(false),
            progress: read_progress(table),
            data: read_data(table),
            expected: table.seconds("expected_t").and_then(Seconds::after),
            arrival: None,
        };
        (read, places)
    }
}

/// The words of a container's command in a file that no variables were filled into.
pub(super) fn written(file: &Node, name: &str) -> Vec<String> {
    let entry = |node: &'_ Node, key: &str| match &node.value {
        Value::Table(entries) => {
            entries.iter().find(|entry| entry.key == key).map(|entry| entry.node.clone())
        }
        _ => None,
    };
    let command = entry(file, name).and_then(|container| entry(&container, "command"));
    match command.as_ref().map(|node| (&node.value, as_text(node))) {
        Some((Value::List(words), _)) => words.iter().filter_map(as_text).collect(),
        Some((_, Some(text))) => command::read(&text).unwrap_or_default(),
        _ => Vec::new(),
    }
}

fn read_command(table: &Table<'_>) -> Vec<String> {
    let words = match table.node("command").map(|node| &node.value) {
        None => return Vec::new(),
        Some(Value::List(_)) => Ok(table.texts("command")),
        Some(_) => command::read(&table.text("command").unwrap_or_default()),
    };
    // An image has a command of its own.
    let needs_one = table.node("image").is_none();
    let words = words.and_then(|words| match words.is_empty() && needs_one {
        true => Err("has no word in it"),
        false => Ok(words),
    });
    words.unwrap_or_else(|what| {
        table.wrong("command", what);
        Vec::new()
    })
}

fn read_ports(table: &Table<'_>) -> Vec<Port> {
    let number = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
    let line = table.line_of("port");
    let port = |text: &String| {
        let (host, inside) = text.split_once(':').unwrap_or((text, text));
        Some(Port { host: number(host)?, container: number(inside)?, line })
    };
    let texts = table.texts("port");
    let ports: Option<Vec<Port>> = texts.iter().map(port).collect();
    ports.unwrap_or_else(|| {
        table.wrong("port", "must be two ports from 1 to 65535, such as \"6379:6379\"");
        Vec::new()
    })
}

fn read_cpus(table: &Table<'_>) -> Option<CpuSet> {
    let text = table.text("core")?;
    let cpus = CpuSet::parse_list(&text).filter(|cpus| !cpus.is_empty());
    if cpus.is_none() {
        table.wrong("core", "must be a core or a list of them, such as 1 or \"0-3,8\"");
    }
    cpus
}

fn read_cpu_limit(table: &Table<'_>) -> Option<f64> {
    let cores = table.number("cpus")?;
    if !(0.01..=65_536.0).contains(&cores) {
        table.wrong("cpus", "must be cores' worth of time, 0.01 or more");
        return None;
    }
    Some(cores)
}

fn read_memory(table: &Table<'_>) -> Option<u64> {
    let text = table.text("memory")?;
    parse_bytes(&text).map_err(|what| table.wrong("memory", &what)).ok()
}

fn read_env(table: &Table<'_>) -> BTreeMap<String, String> {
    let key = table.either("env", "environment");
    let Some(env) = table.table(key) else { return BTreeMap::new() };
    let mut read = BTreeMap::new();
    for entry in env.entries {
        match as_text(&entry.node) {
            Some(text) => drop(read.insert(entry.key.clone(), text)),
            None => env.wrong_at(line(&entry.place), &entry.key, "must be text"),
        }
    }
    read
}

/// A number, or only whether there is one: `true` comes before all that say nothing.
fn read_priority(table: &Table<'_>) -> i64 {
    match table.node("priority").map(|node| &node.value) {
        Some(Value::Bool(has_one)) => i64::from(*has_one),
        _ => table.whole("priority", -1_000..=1_000).unwrap_or(0),
    }
}

fn read_data(table: &Table<'_>) -> ContainerData {
    let Some(data) = table.table("data") else { return ContainerData::default() };
    data.only(CONTAINER_DATA);
    let flag = |key: &str| data.flag(key).unwrap_or(true);
    let containers = flag(data.either("dockerstats", "docker"));
    let period = data.whole("frequency", SHORTEST_MS..=LONGEST_MS);
    let period = period.map(|ms| Duration::from_millis(ms.unsigned_abs()));
    ContainerData { perf: flag("perf"), rdt: flag("rdt"), containers, period }
}

fn read_volumes(table: &Table<'_>) -> Vec<Volume> {
    let volume = |text: &String| {
        let mut parts = text.split(':');
        let (host, container) = (parts.next()?, parts.next()?);
        let read_only = match parts.next() {
            None | Some("rw") => false,
            Some("ro") => true,
            Some(_) => return None,
        };
        let whole = host.starts_with('/') && container.starts_with('/') && parts.next().is_none();
        whole.then(|| Volume { host: host.to_owned(), container: container.to_owned(), read_only })
    };
    let texts = table.texts("volumes");
    let volumes: Option<Vec<Volume>> = texts.iter().map(volume).collect();
    volumes.unwrap_or_else(|| {
        table.wrong(
            "volumes",
            "must be absolute paths such as \"/data:/data\" or \"/data:/data:ro\"",
        );
        Vec::new()
    })
}

fn read_progress(table: &Table<'_>) -> Option<Progress> {
    let node = table.node("progress")?;
    if let Value::Text(text) = &node.value {
        if text == "lines" {
            return Some(Progress::Lines);
        }
        table.wrong("progress", "must be lines, or a table with number, json or url");
        return None;
    }
    let inner = table.table("progress")?;
    inner.only(PROGRESS);
    let (number, json, url) = (inner.text("number"), inner.text("json"), inner.text("url"));
    let after = inner.text("after");
    match (number, json, url) {
        (Some(word), None, None) => Some(Progress::Number(word)),
        (None, Some(key), None) => Some(Progress::Json(key)),
        (None, None, Some(url)) if url.starts_with("http://") => Some(Progress::Url { url, after }),
        (None, None, Some(_)) => {
            inner.wrong("url", "must begin with http://");
            None
        }
        _ => {
            table.wrong("progress", "must have one of number, json and url");
            None
        }
    }
}
