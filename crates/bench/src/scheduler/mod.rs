//! What keeps containers out of each other's way.
//!
//! A scheduler is one file here and its line in [`ALL`]. It is asked when a container is about to start, and again
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
use crate::experiment::{Container, Experiment};
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
    /// In a word: `placed`, `acted`, `kept`, `rolled back`, `gave up`, `released`, `stuck`, `idle`.
    pub what: String,
    /// Whom it was done to; an event says it under `container` already.
    #[serde(rename = "target")]
    pub container: Option<String>,
    /// For whom.
    pub victim: Option<String>,
    /// In a sentence.
    pub message: String,
    /// What it rests on.
    pub evidence: Value,
}

/// Something that keeps containers apart. What it has nothing to do at, it leaves as it is here.
pub trait Scheduler {
    /// A container is ready and has not run yet.
    ///
    /// # Errors
    /// It cannot be put where it belongs.
    fn place(&mut self, _member: &Member, _container: &Container) -> Result<Vec<Decision>, Error> {
        Ok(Vec::new())
    }

    /// Who slows whom will not be known in this run, and why.
    fn cannot_see(&mut self, _why: &str) -> Vec<Decision> {
        Vec::new()
    }

    /// What is known of the last seconds, some time after the round's zero.
    fn look(&mut self, _now: Duration, _view: &View) -> Vec<Decision> {
        Vec::new()
    }

    /// Some time has passed: what came to containers meanwhile is put where they are.
    ///
    /// # Errors
    /// It cannot be.
    fn tend(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// A container has ended.
    fn ended(&mut self, _member: &Member) -> Vec<Decision> {
        Vec::new()
    }

    /// The round is over: everything that was changed is undone.
    ///
    /// # Errors
    /// Something cannot be undone.
    fn finish(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// Every scheduler there is; the first where a file names none.
pub static ALL: &[&Offered] = &[&default::OFFERED, &rdt::OFFERED, &adaptive::OFFERED];

/// A scheduler as a file asks for it.
#[derive(Debug)]
pub struct Offered {
    /// The word in the file.
    pub name: &'static str,
    /// Whether it does nothing without resctrl.
    pub needs_rdt: bool,
    /// Makes it for an experiment; an error where it needs what the machine does not have.
    pub make: Make,
}

/// Makes a scheduler for an experiment.
pub type Make = fn(&Experiment, &Means<'_>) -> Result<Box<dyn Scheduler>, Error>;

impl Offered {
    /// The one called so.
    ///
    /// # Errors
    /// There is none; the text says which there are.
    pub fn named(name: &str) -> Result<&'static Self, String> {
        let known = || ALL.iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
        let found = ALL.iter().copied().find(|one| one.name == name);
        found.ok_or_else(|| format!("\"{name}\" is none of {}", known()))
    }

    /// Whether it is the one that does nothing.
    pub fn is_default(&self) -> bool {
        self == ALL[0]
    }
}

impl PartialEq for Offered {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// What a scheduler can be made with.
#[derive(Clone, Copy, Debug)]
pub struct Means<'a> {
    /// The host.
    pub host: &'a HostRoot,
    /// Whose groups are made.
    pub driver: Driver,
    /// Where resctrl is mounted, if not in its usual place.
    pub resctrl: Option<&'a Path>,
}

impl Means<'_> {
    /// Control groups of resctrl.
    ///
    /// # Errors
    /// The machine has none.
    pub fn groups(&self) -> Result<ResctrlGroups, Error> {
        let mounted = match self.resctrl {
            Some(root) => Resctrl::open(root),
            None => Resctrl::locate(self.host),
        };
        Ok(ResctrlGroups::new(mounted?, self.host, self.driver))
    }
}
