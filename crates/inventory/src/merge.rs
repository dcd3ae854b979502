//! Several sources into one list of facts, and what left it.

use crate::facts::{Container, Device, Facts, Pod, Validity};
use crate::parts::{PARTS, Parted, part_of};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Facts of one kind that are over and still remembered, in one part; beyond it the longest gone are forgotten first.
const MAX_DEPARTED: usize = 100_000 / PARTS;

/// What makes two entries the same fact.
pub(crate) type Key<'a> = [&'a str; 5];

pub(crate) trait Fact: Clone {
    fn key(&self) -> Key<'_>;
    fn valid(&self) -> Validity;
    fn valid_mut(&mut self) -> &mut Validity;
    /// Takes over what `other` knows and this one does not.
    fn join(&mut self, other: &Self);
}

fn fill(fields: &mut [(&mut Arc<str>, &Arc<str>)]) {
    for (field, value) in fields {
        if field.is_empty() {
            field.clone_from(value);
        }
    }
}

/// The earlier of two beginnings, of which 0 is none.
fn fill_from(valid: &mut Validity, other: Validity) {
    let known = [valid.valid_from_ns, other.valid_from_ns].into_iter().filter(|from| *from > 0);
    valid.valid_from_ns = known.min().unwrap_or(0);
}

impl Fact for Pod {
    /// The UID where it is known, else namespace and name.
    fn key(&self) -> Key<'_> {
        match &*self.uid {
            "" => ["", &self.namespace, &self.name, "", ""],
            uid => [uid, "", "", "", ""],
        }
    }
    fn valid(&self) -> Validity {
        self.valid
    }
    fn valid_mut(&mut self) -> &mut Validity {
        &mut self.valid
    }
    fn join(&mut self, other: &Self) {
        fill(&mut [
            (&mut self.name, &other.name),
            (&mut self.namespace, &other.namespace),
            (&mut self.node, &other.node),
            (&mut self.priority, &other.priority),
            (&mut self.qos, &other.qos),
            (&mut self.role, &other.role),
        ]);
        for workload in &other.workloads {
            let same = |known: &&_| same_workload(known, workload);
            if !self.workloads.iter().any(|known| same(&known)) {
                self.workloads.push(workload.clone());
            }
        }
        if self.nearest_owner.is_none() {
            self.nearest_owner.clone_from(&other.nearest_owner);
        }
        self.started_ns = self.started_ns.or(other.started_ns);
        self.finished_ns = self.finished_ns.or(other.finished_ns);
        self.asks_for_devices |= other.asks_for_devices;
        self.reports_devices |= other.reports_devices;
        self.owners_awaited |= other.owners_awaited;
        fill_from(&mut self.valid, other.valid);
    }
}

fn same_workload(one: &crate::facts::Workload, other: &crate::facts::Workload) -> bool {
    one.uid == other.uid && one.name == other.name
}

impl Fact for Container {
    fn key(&self) -> Key<'_> {
        [&self.id, "", "", "", ""]
    }
    fn valid(&self) -> Validity {
        self.valid
    }
    fn valid_mut(&mut self) -> &mut Validity {
        &mut self.valid
    }
    fn join(&mut self, other: &Self) {
        fill(&mut [
            (&mut self.name, &other.name),
            (&mut self.image, &other.image),
            (&mut self.pod_uid, &other.pod_uid),
            (&mut self.pod_namespace, &other.pod_namespace),
            (&mut self.pod_name, &other.pod_name),
        ]);
        self.pid = self.pid.or(other.pid);
        if self.cgroup.is_none() {
            self.cgroup.clone_from(&other.cgroup);
        }
        fill_from(&mut self.valid, other.valid);
    }
}

impl Fact for Device {
    /// Another holder makes it another fact.
    fn key(&self) -> Key<'_> {
        match &*self.pod_uid {
            "" => [&self.node, &self.label, &self.device, &self.pod_namespace, &self.pod_name],
            uid => [&self.node, &self.label, &self.device, uid, ""],
        }
    }
    fn valid(&self) -> Validity {
        self.valid
    }
    fn valid_mut(&mut self) -> &mut Validity {
        &mut self.valid
    }
    fn join(&mut self, other: &Self) {
        fill(&mut [
            (&mut self.pod_namespace, &other.pod_namespace),
            (&mut self.pod_name, &other.pod_name),
            (&mut self.container_name, &other.container_name),
        ]);
        fill_from(&mut self.valid, other.valid);
        self.reporters |= other.reporters;
        // Of one source it may only be remembered until when; another knows that it goes on.
        self.valid.valid_to_ns = self.valid.valid_to_ns.zip(other.valid.valid_to_ns).map(max);
    }
}

fn max((one, other): (u64, u64)) -> u64 {
    one.max(other)
}

/// One list of all sources: what two of them say of one thing is put together.
pub(crate) trait Merge: Fact + Sized + 'static {
    fn merge<'a>(facts: impl Iterator<Item = &'a Self> + Clone) -> Vec<Self> {
        put_together(facts)
    }
}

impl Merge for Container {}
impl Merge for Device {}
impl Merge for Pod {
    fn merge<'a>(pods: impl Iterator<Item = &'a Pod> + Clone) -> Vec<Pod> {
        merge_pods(pods)
    }
}

/// All of several lists.
pub(crate) fn merge<'a>(sources: impl Iterator<Item = &'a Facts>) -> Facts {
    let sources: Vec<&Facts> = sources.collect();
    Facts {
        pods: Pod::merge(sources.iter().flat_map(|source| &source.pods)),
        containers: Container::merge(sources.iter().flat_map(|source| &source.containers)),
        devices: Device::merge(sources.iter().flat_map(|source| &source.devices)),
    }
}

fn put_together<'a, F: Fact + 'a>(facts: impl Iterator<Item = &'a F>) -> Vec<F> {
    let mut merged: Vec<F> = Vec::new();
    let mut places: HashMap<Key<'a>, usize> = HashMap::new();
    for fact in facts {
        match places.get(&fact.key()) {
            Some(&place) => merged[place].join(fact),
            None => {
                places.insert(fact.key(), merged.len());
                merged.push(fact.clone());
            }
        }
    }
    merged
}

/// A source that knows no UIDs speaks of the pod that another knows by namespace and name.
fn merge_pods<'a>(pods: impl Iterator<Item = &'a Pod> + Clone) -> Vec<Pod> {
    let mut merged = put_together(pods.clone().filter(|pod| !pod.uid.is_empty()));
    let without = put_together(pods.filter(|pod| pod.uid.is_empty()));
    if without.is_empty() {
        return merged;
    }
    let places: HashMap<(Arc<str>, Arc<str>), usize> = merged
        .iter()
        .enumerate()
        .map(|(place, pod)| ((Arc::clone(&pod.namespace), Arc::clone(&pod.name)), place))
        .collect();
    for pod in without {
        match places.get(&(Arc::clone(&pod.namespace), Arc::clone(&pod.name))) {
            Some(&place) if !pod.namespace.is_empty() => merged[place].join(&pod),
            _ => merged.push(pod),
        }
    }
    merged
}

/// A fact that is over but still known.
#[derive(Debug)]
pub(crate) struct Gone<F> {
    fact: F,
    since: Instant,
}

/// What is over and remembered, of one kind in one part; the latest to leave come last.
pub(crate) type Left<F> = Vec<Gone<F>>;

/// What is over and remembered.
#[derive(Debug)]
pub(crate) struct Departed {
    pub(crate) pods: Vec<Left<Pod>>,
    pub(crate) devices: Vec<Left<Device>>,
    pub(crate) containers: Left<Container>,
}

impl Default for Departed {
    fn default() -> Self {
        fn parts<F>() -> Vec<Left<F>> {
            (0..PARTS).map(|_| Vec::new()).collect()
        }
        Departed { pods: parts(), devices: parts(), containers: Vec::new() }
    }
}

/// One moment, by the clock that dates facts and by the one that never steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) unix_ns: u64,
    pub(crate) instant: Instant,
}

impl Now {
    pub(crate) fn here() -> Now {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { unix_ns: since.as_nanos() as u64, instant: Instant::now() }
    }
}

/// How what is new is dated, and what is over kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dating {
    pub(crate) now: Now,
    /// Beginning of a new fact whose source cannot tell it.
    pub(crate) unknown_start_ns: u64,
    /// How long what is over stays known.
    pub(crate) history: Duration,
}

impl Departed {
    pub(crate) fn is_empty(&self) -> bool {
        self.containers.is_empty()
            && self.pods.iter().all(Vec::is_empty)
            && self.devices.iter().all(Vec::is_empty)
    }

    /// Takes back what an earlier process remembered, as old as it was then.
    pub(crate) fn restore(&mut self, facts: Facts, now: Now) {
        fn gone<F: Fact>(fact: F, now: Now) -> Gone<F> {
            let ended = fact.valid().valid_to_ns.unwrap_or(now.unix_ns);
            let ago = Duration::from_nanos(now.unix_ns.saturating_sub(ended));
            let since = now.instant.checked_sub(ago).unwrap_or(now.instant);
            Gone { fact, since }
        }
        *self = Departed::default();
        for pod in facts.pods {
            self.pods[part_of(&pod.name)].push(gone(pod, now));
        }
        for device in facts.devices {
            // Who said so is not kept: it may have been anyone.
            let device = Device { reporters: u16::MAX, ..device };
            self.devices[part_of(&device.node)].push(gone(device, now));
        }
        self.containers = facts.containers.into_iter().map(|fact| gone(fact, now)).collect();
    }

    pub(crate) fn facts(&self) -> Facts {
        Facts {
            pods: self.pods.iter().flat_map(|left| facts_of(left)).collect(),
            devices: self.devices.iter().flat_map(|left| facts_of(left)).collect(),
            containers: facts_of(&self.containers).collect(),
        }
    }
}

/// The facts themselves.
pub(crate) fn facts_of<F: Clone>(left: &[Gone<F>]) -> impl Iterator<Item = F> {
    left.iter().map(|gone| gone.fact.clone())
}

/// Whether something is to be forgotten.
pub(crate) fn is_due<F>(left: &[Gone<F>], dating: Dating) -> bool {
    let oldest = left.first();
    oldest.is_some_and(|gone| dating.now.instant.duration_since(gone.since) >= dating.history)
}

/// Puts the beginnings that `dated` knows into facts of one source that do not tell theirs.
pub(crate) fn date(facts: &mut Parted, dated: &Parted) {
    fn each<F: Fact>(facts: &mut [F], dated: &[F]) {
        let known: HashMap<Key<'_>, u64> =
            dated.iter().map(|fact| (fact.key(), fact.valid().valid_from_ns)).collect();
        for fact in facts.iter_mut().filter(|fact| fact.valid().valid_from_ns == 0) {
            let from = known.get(&fact.key()).copied().unwrap_or(0);
            fact.valid_mut().valid_from_ns = from;
        }
    }
    for part in 0..PARTS {
        each(&mut facts.pods[part], &dated.pods[part]);
        each(&mut facts.devices[part], &dated.devices[part]);
    }
    each(&mut facts.containers, &dated.containers);
}

/// Dates what is new in `current`, remembers what was in `last` and no longer is, and forgets what is gone for longer than
/// the history goes back.
pub(crate) fn follow<F: Fact>(gone: &mut Left<F>, last: &[F], current: &mut [F], dating: Dating) {
    let now = dating.now;
    let before: HashMap<Key<'_>, &F> = last.iter().map(|fact| (fact.key(), fact)).collect();
    for fact in current.iter_mut() {
        let known = before.get(&fact.key()).map(|known| known.valid().valid_from_ns);
        let valid = fact.valid_mut();
        if valid.valid_from_ns == 0 {
            valid.valid_from_ns = known.unwrap_or(dating.unknown_start_ns);
        }
    }
    let present: HashMap<Key<'_>, u64> =
        current.iter().map(|fact| (fact.key(), fact.valid().valid_from_ns)).collect();
    gone.retain(|gone| {
        // What came back has its own entry again, unless it was away for a time in between.
        let back = |from: &u64| gone.fact.valid().valid_to_ns.is_some_and(|to| to <= *from);
        now.instant.duration_since(gone.since) < dating.history
            && present.get(&gone.fact.key()).is_none_or(back)
    });
    for fact in last.iter().filter(|fact| !present.contains_key(&fact.key())) {
        let mut fact = fact.clone();
        fact.valid_mut().valid_to_ns = Some(now.unix_ns);
        gone.push(Gone { fact, since: now.instant });
    }
    let excess = gone.len().saturating_sub(MAX_DEPARTED);
    gone.drain(..excess);
}
