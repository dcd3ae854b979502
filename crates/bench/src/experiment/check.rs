//! What cannot be although every value alone could.

use super::container::Places;
use super::reading::Reading;
use super::{Container, Experiment, Port};
use crosstalk_host::{Cpu, CpuSet, HostRoot};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::{Path, PathBuf};

/// What the machine has that a file can speak of.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// CPUs that are online.
    pub cpus: CpuSet,
    /// Folders in which programs are looked for.
    pub path: Vec<PathBuf>,
}

impl Surroundings {
    /// Those of this machine.
    pub fn of(host: &HostRoot) -> Self {
        let path = env::var_os("PATH").unwrap_or_default();
        let cpus = Cpu::online(host).into_iter().collect();
        Self { cpus, path: env::split_paths(&path).collect() }
    }

    /// Where a program is; `crosstalk` is always this very program.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        if name == "crosstalk"
            && let Ok(own) = env::current_exe()
        {
            return Some(own);
        }
        if name.contains('/') {
            return Path::new(name).is_file().then(|| name.into());
        }
        self.path.iter().map(|folder| folder.join(name)).find(|path| path.is_file())
    }
}

pub(super) fn check(
    experiment: &Experiment,
    lines: &[(usize, Places)],
    around: &Surroundings,
    reading: &mut Reading,
) {
    if lines.is_empty() {
        reading.wrong(1, "needs at least one container beside benchmark".to_owned());
    }
    let mut indices: BTreeMap<u32, &str> = BTreeMap::new();
    let mut ports: BTreeMap<u16, &str> = BTreeMap::new();
    for (container, (line, at)) in experiment.containers.iter().zip(lines) {
        let mut wrong = |line: usize, key: &str, what: String| {
            reading.wrong(line, format!("{}{key}: {what}", container.name));
        };
        if !is_usable_name(&container.name) {
            let what = "a container's name is letters, digits, - and _, 40 at most".to_owned();
            wrong(*line, "", what);
        }
        if let Some(line) = at.index
            && let Some(other) = indices.insert(container.index, &container.name)
        {
            let what = format!("{} is the index of {other} already", container.index);
            wrong(line, ".index", what);
        }
        for Port { host, line, .. } in &container.ports {
            if let Some(other) = ports.insert(*host, &container.name) {
                wrong(*line, ".port", format!("{host} is published by {other} already"));
            }
        }
        if let Some(trace) = &at.arrivals {
            arrivals(experiment, container, trace.line, &mut wrong);
        }
        times(experiment, container, at, &mut wrong);
        cores(container, at, around, &mut wrong);
        what_runs(container, *line, at, around, &mut wrong);
    }
}

type Wrong<'a> = dyn FnMut(usize, &str, String) + 'a;

fn times(experiment: &Experiment, container: &Container, at: &Places, wrong: &mut Wrong<'_>) {
    if container.stop.is_some_and(|stop| stop <= container.start) {
        let what = format!("must be after start ({:?})", container.start);
        wrong(at.stop, ".stop", what);
    }
    if let Some(end) = experiment.end.after().filter(|end| container.start >= *end) {
        wrong(at.start, ".start", format!("is not before the end of the experiment ({end:?})"));
    }
}

fn arrivals(experiment: &Experiment, container: &Container, line: usize, wrong: &mut Wrong<'_>) {
    if !container.ports.is_empty() {
        let what = "can be published by one container only, not by each arrival".to_owned();
        wrong(line, ".port", what);
    }
    if container.name.len() > LONGEST_NAME - 5 {
        let what = "a number is added to the name of each; make it shorter".to_owned();
        wrong(line, ".arrivals", what);
    }
    let is_one = |name: &str| {
        let number = name.strip_prefix(&*container.name).and_then(|rest| rest.strip_prefix('-'));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    if let Some(other) = experiment.containers.iter().find(|other| is_one(&other.name)) {
        let what = format!("one of them would be called {}, which another is", other.name);
        wrong(line, ".arrivals", what);
    }
}

fn cores(container: &Container, at: &Places, around: &Surroundings, wrong: &mut Wrong<'_>) {
    let asked: BTreeSet<u32> = container.cpus.iter().flat_map(CpuSet::iter).collect();
    let missing: CpuSet = asked.iter().copied().filter(|cpu| !around.cpus.contains(*cpu)).collect();
    if !missing.is_empty() {
        let what = format!("there is no core {missing}; this machine has {}", around.cpus);
        wrong(at.core, ".core", what);
    }
    let Some(count) = at.num_cores else { return };
    if container.cpus.is_some() && asked.len() != count as usize {
        wrong(at.core, ".num_cores", format!("core names {} of them", asked.len()));
    } else if count as usize > around.cpus.iter().count() {
        wrong(at.core, ".num_cores", format!("this machine has {}", around.cpus.iter().count()));
    }
}

fn what_runs(
    container: &Container,
    line: usize,
    at: &Places,
    around: &Surroundings,
    wrong: &mut Wrong<'_>,
) {
    if container.image.is_some() {
        return;
    }
    match (at.command, container.command.first()) {
        (None, _) => wrong(line, "", "needs image, or a command to run without one".to_owned()),
        (Some(line), Some(program)) if around.program(program).is_none() => {
            wrong(line, ".command", format!("there is no program {program} on this machine"));
        }
        // What is wrong with a command that has no words was told when it was read.
        (Some(_), _) => {}
    }
    if !container.ports.is_empty() {
        let what = "a process without an image opens its own ports; leave it out".to_owned();
        wrong(at.port, ".port", what);
    }
    if container.network.is_some() {
        let what = "a process without an image uses the host's network; leave it out".to_owned();
        wrong(at.network, ".network", what);
    }
    if !container.volumes.is_empty() {
        let what = "a process without an image sees the host's folders; leave it out".to_owned();
        wrong(at.volumes, ".volumes", what);
    }
}

/// Gives cores to who asked for a number of them: those that the fewest others use.
pub(super) fn choose_cores(
    containers: &mut [Container],
    counts: &[Option<u32>],
    around: &Surroundings,
) {
    for (at, count) in counts.iter().enumerate() {
        let Some(count) = count.filter(|_| containers[at].cpus.is_none()) else { continue };
        let used = |cpu: u32| {
            let uses = |other: &&Container| other.cpus.as_ref().is_some_and(|c| c.contains(cpu));
            containers.iter().filter(uses).count()
        };
        let mut cpus: Vec<u32> = around.cpus.iter().collect();
        cpus.sort_by_key(|cpu| (used(*cpu), *cpu));
        cpus.truncate(count as usize);
        containers[at].cpus = Some(cpus.into_iter().collect());
    }
}

/// It stands in names of cgroups and files.
const LONGEST_NAME: usize = 40;

fn is_usable_name(name: &str) -> bool {
    let usable = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(usable)
}
