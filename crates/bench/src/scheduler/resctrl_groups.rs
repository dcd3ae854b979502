//! Control groups of resctrl that a driver makes for containers, and takes away again.

use crate::Error;
use crate::clean::Cleaned;
use crate::identity::{Driver, Whose};
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
    /// Containers that were put into it, with their processes that are known to be inside.
    members: Vec<(Member, BTreeSet<u32>)>,
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
            let made = Made { group, holders: BTreeMap::new(), members: Vec::new() };
            self.made.insert(name.to_owned(), made);
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

    /// Moves every thread of a container into a group; what it starts from then on is born there. What others start in
    /// its cgroup later, as an engine does that is asked to run a command inside, is for [`Self::tend`].
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn join(&mut self, name: &str, member: &Member) -> Result<(), Error> {
        self.group(name)?;
        let Some(made) = self.made.get_mut(name) else { return Ok(()) };
        let is_other = |(known, _): &(Member, BTreeSet<u32>)| {
            (known.round, known.index) != (member.round, member.index)
        };
        made.members.retain(is_other);
        let mut inside = BTreeSet::new();
        gather(&made.group, &self.host, member, &mut inside)?;
        made.members.push((member.clone(), inside));
        member.allocation.set(Some(allocated(&made.group.schemata()?)));
        Ok(())
    }

    /// Moves what came to the cgroups of containers since they were put into their groups.
    ///
    /// # Errors
    /// The first refusal, after all were tried.
    pub fn tend(&mut self) -> Result<(), Error> {
        let mut results = Vec::new();
        for made in self.made.values_mut() {
            for (member, inside) in &mut made.members {
                results.push(gather(&made.group, &self.host, member, inside));
            }
        }
        results.into_iter().collect()
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

/// Moves all processes of a container that are not known to be inside, until there is none.
fn gather(
    group: &Group,
    host: &HostRoot,
    member: &Member,
    inside: &mut BTreeSet<u32>,
) -> Result<(), Error> {
    for _ in 0..MOST_ROUNDS {
        let present = member.group.processes();
        // Its number may be another's later.
        inside.retain(|pid| present.contains(pid));
        let new: Vec<u32> = present.difference(inside).copied().collect();
        if new.is_empty() {
            break;
        }
        for pid in new {
            move_process(group, host, pid)?;
            inside.insert(pid);
        }
    }
    Ok(())
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

/// Removes groups of drivers that are gone.
pub fn clean_groups(resctrl: &Resctrl, host: &HostRoot, whose: Whose) -> Cleaned {
    let groups = match resctrl.control_groups() {
        Ok(groups) => groups,
        Err(error) => return Cleaned::failure(error.into()),
    };
    let mut cleaned = Cleaned::default();
    for group in groups {
        let name = group.name();
        let Some(driver) = Driver::of(&name) else { continue };
        if cleaned.takes(driver, whose, host, || format!("resctrl group {name}")) {
            cleaned.note(format!("resctrl group {name}"), group.remove().map_err(Error::from));
        }
    }
    cleaned
}
