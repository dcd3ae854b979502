//! Carrying a plan out: making groups, moving processes, reading quarantined groups.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use super::plan::{Candidate, Plan, Purpose, Role, plan};
use super::state::{OwnedGroup, is_drained, reusable};
use super::subject::{Scope, Subject, SubjectKey};
use super::surroundings::Surroundings;
use super::threads::{Moved, move_process, settle};
use super::{MonitorFiles, Pool, PoolReport};
use crate::{Error, Group, Refusal};

/// Drained groups kept for the next process; more would only keep RMIDs from other tools.
const SPARE_GROUPS: usize = 4;

/// The threads of groups as last read in this update, so that each `tasks` is read once and not for every process.
pub(super) type Inside = HashMap<u32, HashSet<u32>>;

/// Why a role got no group this time.
enum NoGroup {
    /// Later, perhaps.
    NotNow,
    /// The capacity has shrunk: plan again.
    Shrunk,
}

impl Pool {
    /// Takes the whole list of processes and puts everyone where the plan wants them.
    ///
    /// # Errors
    /// The mount is gone, its lock cannot be had, or it refuses in a way that waiting does not cure.
    pub fn update(&mut self, subjects: &[Subject], now_ns: u64) -> Result<PoolReport, Error> {
        self.forget_missing(subjects, now_ns);
        for subject in subjects {
            self.remember(subject);
        }
        let around = Surroundings::look(&self.resctrl, &self.config.prefix, &self.config.host)?;
        self.watch_quarantine(now_ns);
        let mut report = PoolReport::default();
        let mut plan = self.plan(subjects, &around, now_ns, &mut report);
        // Every round but the last shrinks the capacity, and the last makes no more groups than there are.
        while self.make_groups(&plan, &around, now_ns, &mut report)? {
            plan = self.plan(subjects, &around, now_ns, &mut report);
        }
        self.move_everyone(subjects, &plan, &around, &mut report)?;
        self.free_unwanted(&plan, now_ns);
        self.remove_spares();
        self.fill_report(&mut report);
        Ok(report)
    }

    fn forget_missing(&mut self, subjects: &[Subject], now_ns: u64) {
        let present: HashSet<SubjectKey> = subjects.iter().map(|subject| subject.key).collect();
        let gone: Vec<SubjectKey> =
            self.known.keys().filter(|key| !present.contains(key)).copied().collect();
        for key in gone {
            self.exited(key, now_ns);
        }
    }

    fn plan(
        &mut self,
        subjects: &[Subject],
        around: &Surroundings,
        now_ns: u64,
        report: &mut PoolReport,
    ) -> Plan {
        report.capacity = self.limiter.capacity(now_ns);
        let candidates = subjects
            .iter()
            .filter(|subject| !around.foreign.contains_key(&subject.key.pid))
            .map(|subject| Candidate {
                key: subject.key,
                control: around.control_of(subject.key.pid).to_owned(),
                container: subject.container.as_deref().map(str::to_owned),
                recent_cpu_ns: subject.recent_cpu_ns,
                has_own: self.owns(subject.key),
            })
            .collect();
        // Groups that still drain are counted in: whom they are for waits in a wider one, and nobody else has to leave.
        plan(candidates, report.capacity)
    }

    fn owns(&self, key: SubjectKey) -> bool {
        let group = self.group_of(key).and_then(|id| self.groups.get(&id));
        let role = group.and_then(|group| group.role.as_ref());
        role.is_some_and(|role| role.purpose == Purpose::Process(key))
    }

    /// Makes the groups of the plan that are missing; `true` asks for another plan.
    fn make_groups(
        &mut self,
        plan: &Plan,
        around: &Surroundings,
        now_ns: u64,
        report: &mut PoolReport,
    ) -> Result<bool, Error> {
        // Owners that lose their RMID free it for the next update: their lines are in it.
        for role in &plan.roles {
            if self.find(role).is_some() {
                continue;
            }
            match self.obtain(role, around, now_ns, report)? {
                Ok(()) | Err(NoGroup::NotNow) => {}
                Err(NoGroup::Shrunk) => return Ok(true),
            }
        }
        Ok(false)
    }

    fn obtain(
        &mut self,
        role: &Role,
        around: &Surroundings,
        now_ns: u64,
        report: &mut PoolReport,
    ) -> Result<Result<(), NoGroup>, Error> {
        if self.groups.len() < report.capacity && self.limiter.may_create(now_ns) {
            match self.create(role, around) {
                Ok(()) => {
                    self.limiter.created();
                    return Ok(Ok(()));
                }
                Err(error) => match error.refusal() {
                    Some(Refusal::RmidsInLimbo) => {
                        self.limiter.in_limbo(now_ns);
                        report.in_limbo = true;
                    }
                    Some(Refusal::OutOfRmids) => {
                        self.limiter.exhausted(self.groups.len(), now_ns);
                        return Ok(Err(NoGroup::Shrunk));
                    }
                    // The control group was removed since it was listed.
                    Some(Refusal::Gone) if !role.control.is_empty() => {}
                    _ => return Err(error),
                },
            }
        }
        let quarantined = self.groups.iter().filter(|(_, group)| group.control == role.control);
        let quarantined = quarantined.filter_map(|(id, group)| Some((*id, group.quarantine?)));
        let longest = self.config.longest_quarantine_ns;
        let Some(id) = reusable(quarantined, now_ns, longest) else {
            return Ok(Err(NoGroup::NotNow));
        };
        let Some(group) = self.groups.get_mut(&id) else { return Ok(Err(NoGroup::NotNow)) };
        match empty(&group.group) {
            Ok(()) => group.reuse(role.clone(), now_ns, self.config.stale_for_ns),
            // Somebody else removed it.
            Err(error) if error.is_gone() && self.is_mounted() => {
                self.drop_group(id);
                return Ok(Err(NoGroup::NotNow));
            }
            Err(error) => return Err(error),
        }
        Ok(Ok(()))
    }

    fn create(&mut self, role: &Role, around: &Surroundings) -> Result<(), Error> {
        let mut controls = around.control_groups.iter();
        let parent = controls.find(|group| group.name() == role.control).cloned();
        let parent = parent.unwrap_or_else(|| self.resctrl.root_group());
        let id = self.next_group;
        let group = parent.create_monitor_group(&format!("{}{id}", self.config.prefix))?;
        self.next_group += 1;
        let files = MonitorFiles::open_all(&group, &self.monitoring);
        let mut owned = OwnedGroup::new(group, files, role.clone());
        owned.control = parent.name();
        self.groups.insert(id, owned);
        Ok(())
    }

    fn move_everyone(
        &mut self,
        subjects: &[Subject],
        plan: &Plan,
        around: &Surroundings,
        report: &mut PoolReport,
    ) -> Result<(), Error> {
        let mut inside = Inside::new();
        for subject in subjects {
            if let Some(group) = around.foreign.get(&subject.key.pid) {
                self.leave(subject.key);
                report.leave_alone(subject, group);
                continue;
            }
            let Some(home) =
                plan.places.get(&subject.key).and_then(|role| self.home(role, subject))
            else {
                report.incomplete += 1;
                self.send_back(subject.key)?;
                continue;
            };
            let moved = self.place(subject.key, home, Some(around), &mut inside)?;
            report.incomplete += usize::from(!moved.complete && !moved.exited);
        }
        Ok(())
    }

    /// Nobody can measure it: back to its control group, so that it is not counted for somebody else.
    fn send_back(&mut self, key: SubjectKey) -> Result<(), Error> {
        let group = self.group_of(key).and_then(|id| self.groups.get(&id));
        let parent = group.and_then(|owned| owned.group.parent());
        self.leave(key);
        match parent.map(|parent| move_process(&parent, &self.config.host, key.pid)) {
            Some(Err(error)) if !error.is_gone() => Err(error),
            _ => Ok(()),
        }
    }

    /// The group of a role, or the next wider one where it could not be made.
    fn home(&self, role: &Role, subject: &Subject) -> Option<u32> {
        let wider = |purpose| self.find(&Role { control: role.control.clone(), purpose });
        let container = subject.container.as_deref().map(str::to_owned);
        self.find(role)
            .or_else(|| container.and_then(|name| wider(Purpose::Container(name))))
            .or_else(|| wider(Purpose::Rest))
    }

    /// Moves a process into a group, or makes sure that all of it is there.
    pub(super) fn place(
        &mut self,
        key: SubjectKey,
        id: u32,
        around: Option<&Surroundings>,
        inside: &mut Inside,
    ) -> Result<Moved, Error> {
        let Some(owned) = self.groups.get(&id) else { return Ok(Moved::default()) };
        let moved = (|| {
            let inside = match inside.entry(id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => {
                    unknown.insert(owned.group.tasks()?.into_iter().collect())
                }
            };
            // A thread that somebody put into another control group stays there, and is not measured here.
            let belongs = |tid| around.is_none_or(|a| a.control_of(tid) == owned.control);
            settle(&owned.group, &self.config.host, key.pid, belongs, inside)
        })();
        match moved {
            Ok(moved) => {
                self.join(key, id);
                Ok(moved)
            }
            // Somebody else moved it to another control group, which the next update sees; or it may not be touched.
            Err(error)
                if matches!(
                    error.refusal(),
                    Some(Refusal::OtherControlGroup | Refusal::NotPermitted)
                ) =>
            {
                self.leave(key);
                Ok(Moved::default())
            }
            // Somebody else removed the group, not the mount: the next update makes another.
            Err(error) if error.is_gone() && self.is_mounted() => {
                self.drop_group(id);
                Ok(Moved::default())
            }
            Err(error) => Err(error),
        }
    }

    fn drop_group(&mut self, id: u32) {
        let Some(group) = self.groups.remove(&id) else { return };
        for key in group.members {
            if let Some(known) = self.known.get_mut(&key) {
                known.group = None;
            }
        }
    }

    fn free_unwanted(&mut self, plan: &Plan, now_ns: u64) {
        let wanted: HashSet<&Role> = plan.roles.iter().collect();
        for group in self.groups.values_mut() {
            let unwanted = group.role.as_ref().is_some_and(|role| !wanted.contains(role));
            if unwanted && group.members.is_empty() {
                group.free(now_ns);
            }
        }
    }

    /// Reads the groups without an owner, and those flagged stale, for what is left in the cache.
    fn watch_quarantine(&mut self, now_ns: u64) {
        let threshold = self.threshold();
        let domains: Vec<u32> = self.monitoring.domains.iter().map(|domain| domain.id).collect();
        let mut removed = Vec::new();
        for (id, group) in &mut self.groups {
            if group.stale_until_ns.is_some_and(|until| now_ns >= until) {
                group.stale_until_ns = None;
            }
            if group.quarantine.is_none() && group.stale_until_ns.is_none() {
                continue;
            }
            let read = |domain: &u32| group.group.occupancy(*domain);
            // A group that cannot be read is not known to be empty.
            let readings: Result<Vec<_>, _> = domains.iter().map(read).collect();
            match readings {
                Ok(readings) if is_drained(&readings, threshold) => {
                    group.stale_until_ns = None;
                    if let Some(quarantine) = &mut group.quarantine {
                        quarantine.drained = true;
                    }
                }
                // Somebody else removed it; one that has members is found out when they are looked after.
                Err(error) if error.is_gone() && group.members.is_empty() => removed.push(*id),
                _ => {}
            }
        }
        for id in removed {
            self.drop_group(id);
        }
    }

    fn threshold(&self) -> u64 {
        let size = self.monitoring.l3_bytes.values().max().copied().unwrap_or(0);
        let share = size / u64::from(self.monitoring.num_rmids.max(1));
        self.monitoring.max_threshold_occupancy.unwrap_or(share)
    }

    fn remove_spares(&mut self) {
        let drained = self.groups.iter().filter(|(_, g)| g.quarantine.is_some_and(|q| q.drained));
        let spare: Vec<u32> = drained.map(|(id, _)| *id).skip(SPARE_GROUPS).collect();
        for id in spare {
            // One that cannot be removed now is looked at again by the next update.
            if self.groups.get(&id).is_some_and(|group| group.group.remove().is_ok()) {
                self.groups.remove(&id);
            }
        }
    }

    fn fill_report(&self, report: &mut PoolReport) {
        report.groups = self.groups.values().filter(|group| group.role.is_some()).count();
        report.quarantined =
            self.groups.values().filter(|g| g.quarantine.is_some_and(|q| !q.drained)).count();
        for key in self.known.keys() {
            match self.assignment(*key).map(|assignment| assignment.scope) {
                Some(Scope::Process) => report.alone += 1,
                Some(Scope::Container) => report.by_container += 1,
                Some(Scope::Shared | Scope::WithChildren) => report.shared += 1,
                None => {}
            }
        }
    }
}

/// Threads nobody told the pool of, such as children of children, go back to the control group.
fn empty(group: &Group) -> Result<(), Error> {
    let left = group.tasks()?;
    match group.parent() {
        Some(parent) if !left.is_empty() => parent.move_tasks(&left).map(drop),
        _ => Ok(()),
    }
}
