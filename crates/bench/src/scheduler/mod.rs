//! What keeps containers out of each other's way.
//!
//! A scheduler is one file here and its line in [`make`]. It is asked when a container is about to start, and again
//! whenever there is something new about who slows whom; what it does it says, as events with their evidence.

pub mod adaptive;
mod default;
pub mod levers;
pub mod rdt;
mod resctrl_groups;
mod view;

pub use resctrl_groups::{ResctrlGroups, clean_groups};
pub use view::{Loss, Slowed, View, Vitals};

use crate::Error;
use crate::experiment::{Container, Experiment, SchedulerKind};
use crate::identity::Driver;
use crate::roster::Member;
use crosstalk_host::HostRoot;
use crosstalk_resctrl::Resctrl;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// What a scheduler did, or found that it should not do, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// In a word: `placed`, `acted`, `kept`, `rolled back`, `gave up`, `released`, `idle`.
    pub what: String,
    /// Whom it was done to; an event says it under `container` already.
    #[serde(rename = "target")]
    pub container: Option<String>,
    /// For whom.
    pub victim: Option<String>,
    /// In a sentence.
    pub told: String,
    /// What it rests on.
    pub evidence: Value,
}

/// Something that keeps containers apart.
pub trait Scheduler {
    /// Which it is.
    fn kind(&self) -> SchedulerKind;

    /// A container is ready and has not run yet.
    ///
    /// # Errors
    /// It cannot be put where it belongs.
    fn place(&mut self, member: &Member, container: &Container) -> Result<Vec<Decision>, Error>;

    /// What is known of the last seconds, some time after the round's zero.
    fn look(&mut self, now: Duration, view: &View) -> Vec<Decision>;

    /// A container has ended.
    fn ended(&mut self, member: &Member) -> Vec<Decision>;

    /// The round is over: everything that was changed is undone.
    ///
    /// # Errors
    /// Something cannot be undone.
    fn finish(&mut self) -> Result<(), Error>;
}

/// The scheduler that an experiment asks for. `resctrl` is where it is mounted if not in its usual place.
///
/// # Errors
/// It needs what the machine does not have.
pub fn make(
    experiment: &Experiment,
    host: &HostRoot,
    driver: Driver,
    resctrl: Option<&Path>,
) -> Result<Box<dyn Scheduler>, Error> {
    let mounted = match resctrl {
        Some(root) => Resctrl::open(root),
        None => Resctrl::locate(host),
    };
    let groups = |mounted: Resctrl| ResctrlGroups::new(mounted, host, driver);
    Ok(match experiment.scheduler {
        SchedulerKind::Default => Box::new(default::Default),
        SchedulerKind::Rdt => Box::new(rdt::Rdt::new(groups(mounted?), experiment)?),
        SchedulerKind::Adaptive => {
            let groups = mounted.ok().filter(|_| experiment.use_rdt).map(groups);
            let levers = levers::all(host, groups, &experiment.containers)?;
            Box::new(adaptive::Adaptive::new(levers, &experiment.containers))
        }
    })
}
