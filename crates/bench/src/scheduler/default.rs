//! Pinning and limits as the file says, which the runtime sets before the start; nothing more.

use super::{Decision, Scheduler, View};
use crate::Error;
use crate::experiment::{Container, SchedulerKind};
use crate::roster::Member;
use std::time::Duration;

pub(super) struct Default;

impl Scheduler for Default {
    fn kind(&self) -> SchedulerKind {
        SchedulerKind::Default
    }

    fn place(&mut self, _: &Member, _: &Container) -> Result<Vec<Decision>, Error> {
        Ok(Vec::new())
    }

    fn look(&mut self, _: Duration, _: &View) -> Vec<Decision> {
        Vec::new()
    }

    fn ended(&mut self, _: &Member) -> Vec<Decision> {
        Vec::new()
    }

    fn finish(&mut self) -> Result<(), Error> {
        Ok(())
    }
}
