//! Control groups of resctrl that a driver makes for containers, and takes away again.

use crate::Error;
use crate::identity::{Driver, PREFIX};
use crate::roster::{Allocated, Member};
use crosstalk_host::HostRoot;
use crosstalk_resctrl::pool::move_process;
use crosstalk_resctrl::{Group, Info, Limits, Resctrl, Schemata};
use std::collections::{BTreeMap, BTreeSet};

/// Processes may be forked while others are moved.
const MOST_ROUNDS: usize = 16;

/// Groups by name.
#[derive(Debug)]
pub struct ResctrlGroups {
    resctrl: Resctrl,
    host: HostRoot,
    driver: Driver,
    made: BTreeMap<String, Made>,
}

#[derive(Debug)]
struct Made {
    group: Group,
    /// What each who holds a container back has set.
    holders: BTreeMap<&'static str, Schemata>,
}

impl ResctrlGroups {
    /// None yet.
    pub fn new(resctrl: Resctrl, host: &HostRoot, driver: Driver) -> Self {
        Self { resctrl, host: host.clone(), driver, made: BTreeMap::new() }
    }

    /// What can be limited here.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn info(&self) -> Result<Info, Error> {
        Ok(self.resctrl.info()?)
    }

    /// The domains of a resource.
    ///
    /// # Errors
    /// The limits of the root cannot be read.
    pub fn domains(&self, resource: &str) -> Result<Vec<u32>, Error> {
        let schemata = self.resctrl.root_group().schemata()?;
        let line = schemata.lines.into_iter().find(|line| line.resource == resource);
        Ok(match line.map(|line| line.limits) {
            Some(Limits::Cache(masks)) => masks.into_keys().collect(),
            Some(Limits::Bandwidth(limits)) => limits.into_keys().collect(),
            Some(Limits::Unknown(_)) | None => Vec::new(),
        })
    }

    /// The limits of the root: what everybody has who is in no group.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn root_schemata(&self) -> Result<Schemata, Error> {
        Ok(self.resctrl.root_group().schemata()?)
    }

    /// The group called `name`, made if there is none.
    ///
    /// # Errors
    /// There are no more, or the kernel refuses.
    pub fn group(&mut self, name: &str) -> Result<&Group, Error> {
        if !self.made.contains_key(name) {
            let full = self.driver.name(0, name);
            let group = self.resctrl.create_control_group(&full)?;
            let holders = BTreeMap::new();
            self.made.insert(name.to_owned(), Made { group, holders });
        }
        Ok(&self.made[name].group)
    }

    /// Holds a container back, in a group of its own, with these limits; `by` says who does, of whom there may be several.
    ///
    /// # Errors
    /// There are no more groups, or the kernel refuses.
    pub fn hold(
        &mut self,
        by: &'static str,
        member: &Member,
        limits: &Schemata,
    ) -> Result<(), Error> {
        self.group(&member.name)?.write_schemata(limits)?;
        if let Some(made) = self.made.get_mut(&*member.name) {
            made.holders.insert(by, limits.clone());
        }
        self.join(&member.name, member)
    }

    /// Takes back what `by` has set: the rest stays, and with the last the group goes.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn let_go(&mut self, by: &'static str, member: &Member) -> Result<(), Error> {
        let Some(made) = self.made.get_mut(&*member.name) else { return Ok(()) };
        let Some(set) = made.holders.remove(by) else { return Ok(()) };
        if made.holders.is_empty() {
            member.allocation.set(None);
            return self.remove(&member.name);
        }
        let mut root = self.resctrl.root_group().schemata()?;
        root.lines.retain(|line| set.lines.iter().any(|held| held.resource == line.resource));
        made.group.write_schemata(&root)?;
        member.allocation.set(Some(allocated(&made.group.schemata()?)));
        Ok(())
    }

    /// Moves every thread of a container into a group; what it starts from then on is born there.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn join(&mut self, name: &str, member: &Member) -> Result<(), Error> {
        let host = self.host.clone();
        let group = self.group(name)?;
        let mut moved: BTreeSet<u32> = BTreeSet::new();
        for _ in 0..MOST_ROUNDS {
            let new: Vec<u32> = member.group.processes().difference(&moved).copied().collect();
            if new.is_empty() {
                break;
            }
            for pid in new {
                move_process(group, &host, pid)?;
                moved.insert(pid);
            }
        }
        member.allocation.set(Some(allocated(&group.schemata()?)));
        Ok(())
    }

    /// Gives a container's threads back to the root and removes its group.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn remove(&mut self, name: &str) -> Result<(), Error> {
        self.made.remove(name).map_or(Ok(()), |made| Ok(made.group.remove()?))
    }

    /// Removes all of them.
    ///
    /// # Errors
    /// The first refusal, after all were tried.
    pub fn remove_all(&mut self) -> Result<(), Error> {
        let names: Vec<String> = self.made.keys().cloned().collect();
        let results: Vec<Result<(), Error>> = names.iter().map(|name| self.remove(name)).collect();
        results.into_iter().collect()
    }
}

fn allocated(limits: &Schemata) -> Allocated {
    let text = |is: fn(&Limits) -> bool| {
        let lines = limits.lines.iter().filter(|line| is(&line.limits)).cloned().collect();
        let text = Schemata { lines }.to_string();
        (!text.is_empty()).then(|| text.trim().replace('\n', " ").into())
    };
    Allocated {
        cache: text(|limits| matches!(limits, Limits::Cache(_))),
        bandwidth: text(|limits| matches!(limits, Limits::Bandwidth(_))),
    }
}

impl Drop for ResctrlGroups {
    fn drop(&mut self) {
        let _ = self.remove_all();
    }
}

/// Removes groups of drivers that are gone; answers their names.
///
/// # Errors
/// A group cannot be removed.
pub fn clean_groups(resctrl: &Resctrl, host: &HostRoot) -> Result<Vec<String>, Error> {
    let mut removed = Vec::new();
    for group in resctrl.control_groups()? {
        let name = group.name();
        if name.starts_with(PREFIX) && Driver::of(&name).is_some_and(|driver| !driver.lives(host)) {
            group.remove()?;
            removed.push(format!("resctrl group {name}"));
        }
    }
    Ok(removed)
}
