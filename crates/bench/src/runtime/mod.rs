//! What containers run in. A runtime prepares a workload so that starting it is one quick step, and leaves nothing
//! behind: what it makes has a name that leads back to its driver.

mod docker;
mod network;
mod output;
mod process;

pub use docker::DockerEngine;
pub use output::{Ear, Output};
pub use process::Processes;

use crate::Error;
use crate::clean::Cleaned;
use crate::experiment::{Container, Mistake};
use crate::identity::{Driver, Whose};
use crosstalk_host::{ControlGroup, Disk, HostRoot, disks};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Something happened to a workload.
#[derive(Clone, Debug)]
pub struct News {
    /// The container.
    pub index: u32,
    /// The round.
    pub round: u32,
    /// What.
    pub what: Happened,
    /// When.
    pub at: Instant,
}

/// What can happen to a workload after it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    /// It runs.
    Started,
    /// It was asked to end.
    AskedToStop,
    /// It has ended.
    Ended {
        /// Its exit code; 128 and more for a signal.
        code: Option<i32>,
    },
    /// It does not run as it was to, or nobody can say whether it does.
    Failed {
        /// Why.
        reason: String,
    },
}

/// What a runtime is told of a workload besides what its file says.
#[derive(Clone)]
pub struct Order<'a> {
    /// The container.
    pub container: &'a Container,
    /// Who makes it.
    pub driver: Driver,
    /// The run's id.
    pub run: &'a str,
    /// The round.
    pub round: u32,
    /// Where its output goes.
    pub output: Arc<Output>,
    /// Who is told what happens to it.
    pub news: Sender<News>,
}

impl Order<'_> {
    /// What is made for it is called so.
    pub fn name(&self) -> String {
        self.driver.name(self.round, &self.container.name)
    }
}

/// The disks that a container's limits are for.
fn limited_disks(host: &HostRoot, container: &Container) -> Result<Vec<Disk>, Error> {
    let Some(io) = &container.io else { return Ok(Vec::new()) };
    let mut all = disks(host);
    let names: Vec<String> = all.iter().map(|disk| disk.name.clone()).collect();
    all.retain(|disk| io.disk.as_ref().is_none_or(|wanted| *wanted == disk.name));
    if all.is_empty() {
        let wanted = io.disk.as_deref().unwrap_or("to limit");
        let reason = format!("there is no disk {wanted}; this machine has [{}]", names.join(", "));
        return Err(Error::Container { container: container.name.clone(), reason });
    }
    Ok(all)
}

/// Something that containers run in.
pub trait Runtime {
    /// Its name.
    fn name(&self) -> &'static str;

    /// What of this machine keeps it from running as its file says, though the file is right. Looked at before anything is
    /// fetched or made.
    fn hindrances(&self, _: &Container) -> Vec<Mistake> {
        Vec::new()
    }

    /// Fetches what can take long, before any round: images. Answers at once when `stop` is set, whatever it has by then.
    ///
    /// # Errors
    /// It cannot be had.
    fn fetch(&self, container: &Container, stop: &AtomicBool) -> Result<(), Error>;

    /// Makes a workload ready, limits and all, without running it.
    ///
    /// # Errors
    /// It cannot be made; nothing of it is left then.
    fn prepare(&self, order: &Order<'_>) -> Result<Box<dyn Workload>, Error>;

    /// Its version, where it is a program of its own.
    fn version(&self) -> Option<String> {
        None
    }

    /// Removes what drivers that are gone have left; `whose` says what becomes of what others may still use. Answers soon, and
    /// at once when `stop` is set.
    fn clean(&self, whose: Whose, stop: &AtomicBool) -> Cleaned;
}

/// A workload that is ready. Dropping it ends and removes it.
pub trait Workload {
    /// How long before its time it must be asked to start.
    fn lead(&self) -> Duration {
        Duration::ZERO
    }

    /// Runs it. Says whether it runs by now; if not yet, it is news when it does.
    ///
    /// # Errors
    /// It cannot be.
    fn start(&mut self) -> Result<bool, Error>;

    /// Asks it to end, without waiting. Says whether it was asked by now; if not yet, it is news when it was.
    fn ask_to_stop(&mut self) -> bool;

    /// Ends it, without asking.
    fn kill(&mut self);

    /// Its cgroup; before the start it may not be there yet.
    fn group(&self) -> Option<ControlGroup>;

    /// A process inside whose network is the container's own.
    fn network_of(&self) -> Option<u32>;

    /// What its engine calls it.
    fn id(&self) -> Option<&str> {
        None
    }

    /// Ends and removes all of it.
    ///
    /// # Errors
    /// Something is left.
    fn remove(&mut self) -> Result<(), Error>;
}
