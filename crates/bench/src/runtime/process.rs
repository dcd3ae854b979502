//! Plain commands, each in a cgroup of its own: no container engine needed.
//!
//! A shell is started first, put into the cgroup and left waiting for a line; the command takes its place when the line
//! comes. So a start is one write, nothing ever runs outside its cgroup, and what was prepared ends by itself when the
//! driver dies.

use super::{Happened, News, Order, Output, Runtime, Workload, limited_disks};
use crate::Error;
use crate::clean::Cleaned;
use crate::experiment::{Container, Surroundings};
use crate::identity::{Driver, PREFIX, Whose};
use crosstalk_host::{ControlGroup, ControlGroupError, HostRoot, QuotaPeriod};
use std::io::{ErrorKind, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// Waits for a line, then becomes the command.
const LAUNCH: &str = "read -r _ && exec \"$@\"";

/// Runs commands as processes of this machine.
#[derive(Clone, Debug)]
pub struct Processes {
    host: HostRoot,
    around: Surroundings,
}

impl Processes {
    /// On this host.
    pub fn new(host: &HostRoot) -> Self {
        Self { host: host.clone(), around: Surroundings::of(host) }
    }

    fn launch(&self, container: &Container) -> Result<Child, Error> {
        let failed =
            |reason: String| Error::Container { container: container.name.clone(), reason };
        let (program, arguments) = container
            .command
            .split_first()
            .ok_or_else(|| failed("it has no command".to_owned()))?;
        let path = self.around.program(program);
        let path = path.ok_or_else(|| failed(format!("there is no program {program}")))?;
        Command::new("/bin/sh")
            .args(["-c", LAUNCH, "sh"])
            .arg(path)
            .args(arguments)
            .envs(&container.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C is the driver's to hear: it stops the workloads itself.
            .process_group(0)
            .spawn()
            .map_err(|error| failed(error.to_string()))
    }

    /// Limits a process's group and puts what waits for its start into it.
    fn fill(&self, process: &mut Process, order: &Order<'_>) -> Result<(), Error> {
        let container = order.container;
        let refused = |source| Error::Group { container: container.name.clone(), source };
        limit(&process.group, container).map_err(refused)?;
        limit_io(&self.host, &process.group, container)?;
        let mut child = self.launch(container)?;
        process.go = child.stdin.take();
        let joined = process.group.join(child.id()).map_err(refused);
        process.reader = Some(follow(child, order));
        joined
    }
}

fn limit(group: &ControlGroup, container: &Container) -> Result<(), ControlGroupError> {
    if let Some(cpus) = &container.cpus {
        group.set_cpus(cpus)?;
    }
    if let Some(cores) = container.cpu_limit {
        group.set_quota(Some(cores), QuotaPeriod::Usual)?;
    }
    container.memory_limit.map_or(Ok(()), |bytes| group.set_memory(bytes))
}

fn limit_io(host: &HostRoot, group: &ControlGroup, container: &Container) -> Result<(), Error> {
    let Some(io) = &container.io else { return Ok(()) };
    for disk in limited_disks(host, container)? {
        let refused = |source| Error::Group { container: container.name.clone(), source };
        group.set_io(&disk, &io.limits).map_err(refused)?;
    }
    Ok(())
}

impl Runtime for Processes {
    fn name(&self) -> &'static str {
        "process"
    }

    fn fetch(&self, _: &Container, _: &AtomicBool) -> Result<(), Error> {
        Ok(())
    }

    fn prepare(&self, order: &Order<'_>) -> Result<Box<dyn Workload>, Error> {
        let container = order.container;
        let refused = |source| Error::Group { container: container.name.clone(), source };
        let group = ControlGroup::create(&self.host, &order.name()).map_err(refused)?;
        let mut process = Process { name: container.name.clone(), group, go: None, reader: None };
        // Whatever fails takes the group along.
        if let Err(error) = self.fill(&mut process, order) {
            return Err(error.and(process.remove().err()));
        }
        Ok(Box::new(process))
    }

    fn clean(&self, whose: Whose, _: &AtomicBool) -> Cleaned {
        let mut cleaned = Cleaned::default();
        for name in ControlGroup::list(&self.host, PREFIX) {
            let Some(driver) = Driver::of(&name) else { continue };
            if !cleaned.takes(driver, whose, &self.host, || format!("cgroup {name}")) {
                continue;
            }
            let group = ControlGroup::named(&self.host, &name);
            group.kill();
            let refused = |source| Error::Group { container: name.clone(), source };
            cleaned.note(format!("cgroup {name}"), group.remove().map_err(refused));
        }
        cleaned
    }
}

/// Reads what it prints and waits for its end, on threads of their own.
fn follow(mut child: Child, order: &Order<'_>) -> JoinHandle<()> {
    let (index, round) = (order.container.index, order.round);
    let (output, news): (Arc<Output>, Sender<News>) =
        (Arc::clone(&order.output), order.news.clone());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let errors = Arc::clone(&order.output);
    let complaints = stderr.map(|mut stderr| {
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = std::io::Read::read(&mut stderr, &mut buffer) {
                errors.keep(&buffer[..length]);
            }
        })
    });
    let spoken = stdout.map(|stdout| thread::spawn(move || output.follow(stdout)));
    thread::spawn(move || {
        let status = child.wait().ok();
        let at = Instant::now();
        let code = status.and_then(|s| s.code().or_else(|| Some(128 + s.signal()?)));
        // Nobody may be listening any more.
        let _ = news.send(News { index, round, what: Happened::Ended { code }, at });
        for reader in [spoken, complaints].into_iter().flatten() {
            let _ = reader.join();
        }
    })
}

struct Process {
    name: String,
    group: ControlGroup,
    /// The line it waits for.
    go: Option<ChildStdin>,
    reader: Option<JoinHandle<()>>,
}

impl Workload for Process {
    fn start(&mut self) -> Result<bool, Error> {
        let Some(mut go) = self.go.take() else { return Ok(true) };
        match go.write_all(b"go\n") {
            // Whoever ended before its start is told as ended.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Error::Container { container: self.name.clone(), reason: error.to_string() })
            }
            _ => Ok(true),
        }
    }

    fn ask_to_stop(&mut self) -> bool {
        self.group.terminate();
        true
    }

    fn kill(&mut self) {
        self.group.kill();
    }

    fn group(&self) -> Option<ControlGroup> {
        Some(self.group.clone())
    }

    fn network_of(&self) -> Option<u32> {
        None
    }

    fn remove(&mut self) -> Result<(), Error> {
        drop(self.go.take());
        self.group.kill();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        let refused = |source| Error::Group { container: self.name.clone(), source };
        self.group.remove().map_err(refused)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Whoever could say why has called `remove` before.
        let _ = self.remove();
    }
}
