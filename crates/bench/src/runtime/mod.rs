//! What containers run in. A runtime prepares a workload so that starting it is one quick step, and leaves nothing
//! behind: what it makes has a name that leads back to its driver.

mod docker;
mod output;
mod process;

pub use docker::DockerEngine;
pub use output::{Ear, Output};
pub use process::Processes;

use crate::Error;
use crate::experiment::Container;
use crate::identity::Driver;
use crosstalk_host::ControlGroup;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

/// Somebody has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// The container.
    pub index: u32,
    /// The round.
    pub round: u32,
    /// Its exit code; 128 and more for a signal.
    pub code: Option<i32>,
    /// When.
    pub at: Instant,
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
    /// Who is told when it ends.
    pub ended: Sender<Ended>,
}

impl Order<'_> {
    /// What is made for it is called so.
    pub fn name(&self) -> String {
        self.driver.name(self.round, &self.container.name)
    }
}

/// Something that containers run in.
pub trait Runtime {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Fetches what can take long, before any round: images.
    ///
    /// # Errors
    /// It cannot be had.
    fn fetch(&self, container: &Container) -> Result<(), Error>;

    /// Makes a workload ready, limits and all, without running it.
    ///
    /// # Errors
    /// It cannot be made; nothing of it is left then.
    fn prepare(&self, order: &Order<'_>) -> Result<Box<dyn Workload>, Error>;

    /// Removes what drivers that are gone have left; answers the names.
    ///
    /// # Errors
    /// Something cannot be removed.
    fn clean(&self) -> Result<Vec<String>, Error>;
}

/// A workload that is ready. Dropping it ends and removes it.
pub trait Workload {
    /// Runs it, now.
    ///
    /// # Errors
    /// It cannot be.
    fn start(&mut self) -> Result<(), Error>;

    /// Asks it to end, without waiting.
    fn ask_to_stop(&mut self);

    /// Ends it, without asking.
    fn kill(&mut self);

    /// Its cgroup; before the start it may not be there yet.
    fn group(&self) -> Option<ControlGroup>;

    /// A process inside whose network is the container's own.
    fn network_of(&self) -> Option<u32>;

    /// Ends and removes all of it.
    ///
    /// # Errors
    /// Something is left.
    fn remove(&mut self) -> Result<(), Error>;
}
