//! What can be done about an aggressor, by what the machine offers.
//!
//! A lever is one file here and its line in [`all`].

mod bandwidth;
mod mask;
mod pinning;
mod quota;

use super::ResctrlGroups;
use crate::Error;
use crate::experiment::Container;
use crate::roster::Member;
use crosstalk_host::{Cpu, HostRoot};
use crosstalk_interference::Resource;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Who is to be held back for whom.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// Who is slowed.
    pub victim: &'a Member,
    /// Who slows.
    pub aggressor: &'a Member,
    /// Through what.
    pub resource: Resource,
    /// Cores' worth of time the aggressor uses, if that is known.
    pub uses_cores: Option<f64>,
    /// Bytes a second it moves to and from memory, by L3 cache; empty where that is not known.
    pub moves: &'a BTreeMap<u32, f64>,
}

/// A way to hold somebody back.
pub trait Lever {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Holds the aggressor back and says how; `None` when it cannot help against this, here.
    ///
    /// # Errors
    /// It should have worked and did not.
    fn pull(&mut self, pair: &Pair<'_>) -> Result<Option<String>, Error>;

    /// Why it cannot be pulled, though it would help: what it would take to know is not measured.
    fn lacks(&self, _pair: &Pair<'_>) -> Option<String> {
        None
    }

    /// Gives the aggressor back what it had.
    ///
    /// # Errors
    /// It cannot be given back.
    fn release(&mut self, aggressor: &Member) -> Result<(), Error>;

    /// Some time has passed: what came to whom it holds back is held back too.
    ///
    /// # Errors
    /// It cannot be.
    fn tend(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// A round is over, and every container in it gone: forgets whom it held back.
    ///
    /// # Errors
    /// What it made besides cannot be removed.
    fn finish(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

type Groups = Rc<RefCell<ResctrlGroups>>;

/// Every lever, in the order they are tried: ways of the cache, memory bandwidth, then time and place.
///
/// # Errors
/// What resctrl offers cannot be read.
pub fn all(
    host: &HostRoot,
    groups: Option<ResctrlGroups>,
    containers: &[Container],
) -> Result<Vec<Box<dyn Lever>>, Error> {
    let mut all: Vec<Box<dyn Lever>> = Vec::new();
    if let Some(groups) = groups {
        let info = groups.info()?;
        let groups = Rc::new(RefCell::new(groups));
        all.push(Box::new(mask::MaskLever::new(Rc::clone(&groups), &info)));
        all.push(Box::new(bandwidth::BandwidthLever::new(groups, &info)));
    }
    all.push(Box::new(quota::QuotaLever::new(containers)));
    all.push(Box::new(pinning::PinningLever::new(Cpu::read(host), containers)));
    Ok(all)
}
