//! From a pod's owner up to the top controller.

use super::asking::{Answer, Asked, Asking, Failed, Found, Reply};
use super::pods::Chain;
use crate::source::Failure;
use crosstalk_host::BackOff;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResource, OwnerReference};
use kube::Client;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// Owners asked for so far, and the paths kinds are found under.
#[derive(Debug)]
pub(super) struct Owners {
    /// By UID: who controls it.
    above: HashMap<String, Above>,
    /// By API version: its kinds.
    kinds: HashMap<String, Kinds>,
    /// What failed and is left alone for a while: owners by UID, whole API versions by their name.
    resting: HashMap<String, Rest>,
    /// UIDs of those above which somebody else was found than before.
    changed: HashSet<String>,
    /// Kinds that may not be read in a namespace and were told of, each with the UID of the owner that it was seen with.
    forbidden: HashMap<String, String>,
    asking: Asking,
    /// Owners by UID and API versions by name that are asked for, or wait for the kinds of their version.
    asked: HashSet<String>,
    /// By API version: owners that are asked for when its kinds are known.
    for_kinds: HashMap<String, Vec<Asked>>,
    /// Since when owners (by UID) and API versions (by name) were asked for in vain.
    unanswered: HashMap<String, Instant>,
    /// Whether an answer came since that was last asked.
    answered: bool,
    /// When it was last looked who is to be asked for.
    sought_at: Option<Instant>,
    ttl: Duration,
    wait: Duration,
}

/// What an answer said of an owner, and for how long that is believed.
#[derive(Debug)]
struct Above {
    /// `None`: nobody controls it, or it could not be read.
    owner: Option<OwnerReference>,
    believed_until: Instant,
}

#[derive(Debug)]
struct Kinds {
    all: Vec<APIResource>,
    asked: Instant,
}

/// How long something that failed is left alone.
#[derive(Debug, Clone, Copy)]
struct Rest {
    until: Instant,
    back_off: BackOff,
}

/// What a reply came to beside the answer.
#[derive(Debug, Default)]
pub(super) struct Learnt {
    pub(super) failed: Vec<Failed>,
    /// Answers 403.
    pub(super) forbidden: usize,
    /// Kinds that may not be read, the first time that is seen.
    pub(super) newly_forbidden: Vec<String>,
}

/// Steps up a chain; real ones have two or three.
const MAX_STEPS: usize = 10;

/// First and longest pause before what failed is asked for again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(20));

impl Owners {
    /// Nothing known; answers are believed for `ttl`, a tenth of it where they say nothing, and waited for as long as `wait`.
    pub(super) fn new(ttl: Duration, wait: Duration) -> Self {
        Owners {
            above: HashMap::new(),
            kinds: HashMap::new(),
            resting: HashMap::new(),
            changed: HashSet::new(),
            forbidden: HashMap::new(),
            asking: Asking::default(),
            asked: HashSet::new(),
            for_kinds: HashMap::new(),
            unanswered: HashMap::new(),
            answered: false,
            sought_at: None,
            ttl,
            wait,
        }
    }

    /// Forgets what is asked, for it was asked of a client that is not used any more.
    pub(super) fn begin_anew(&mut self) {
        self.asking = Asking::default();
        self.asked.clear();
        self.for_kinds.clear();
    }

    /// The owners of every chain that are not known, or no longer believed, each once with its namespace.
    fn due<'a>(&self, owners: impl Iterator<Item = (&'a str, &'a OwnerReference)>) -> Vec<Asked> {
        let now = Instant::now();
        let mut seen = HashSet::new();
        let mut due = Vec::new();
        for (namespace, owner) in owners {
            let mut current = owner;
            // Whoever has seen a link has seen all above it.
            while seen.insert(&*current.uid) {
                let known = self.above.get(&current.uid);
                let believed = known.is_some_and(|above| above.believed_until > now);
                if !believed && !self.asked.contains(&current.uid) {
                    due.push(Asked { namespace: namespace.to_owned(), owner: current.clone() });
                }
                match known.and_then(|above| above.owner.as_ref()) {
                    Some(above) => current = above,
                    None => break,
                }
            }
        }
        due
    }

    /// Asks for the owners of every chain that are not known, or no longer believed, unless they rest.
    pub(super) fn seek<'a>(
        &mut self,
        client: &Client,
        owners: impl Iterator<Item = (&'a str, &'a OwnerReference)>,
    ) {
        self.sought_at = Some(Instant::now());
        for asked in self.due(owners) {
            self.ask(client, asked);
        }
    }

    fn ask(&mut self, client: &Client, asked: Asked) {
        let Asked { owner, .. } = &asked;
        if self.rests(&owner.uid) || self.rests(&owner.api_version) {
            return;
        }
        if self.wants_kinds(owner) {
            let version = owner.api_version.clone();
            self.asked.insert(owner.uid.clone());
            if self.asked.insert(version.clone()) {
                self.asking.kinds(client, &version);
            }
            self.for_kinds.entry(version).or_default().push(asked);
            return;
        }
        let kinds = self.kinds.get(&owner.api_version);
        match kinds.and_then(|kinds| kind_of(&kinds.all, owner)).cloned() {
            Some(kind) => {
                self.asked.insert(owner.uid.clone());
                self.asking.owner(client, asked, kind);
            }
            None => self.believe(asked.owner.uid, None, self.ttl / 10),
        }
    }

    /// The next reply; `None` where nothing is asked.
    pub(super) async fn reply(&mut self) -> Option<Reply> {
        self.asking.next().await
    }

    /// Whether something is asked.
    pub(super) fn is_asking(&self) -> bool {
        !self.asking.is_empty()
    }

    /// Takes a reply and asks on from there. That an owner may not be read is no failure; one that fails is left alone for a
    /// while, and its chain ends below it until then.
    pub(super) fn learn(&mut self, client: &Client, reply: Reply) -> Learnt {
        let mut learnt = Learnt::default();
        match reply {
            Reply::Kinds(version, kinds) => self.learn_kinds(client, version, kinds, &mut learnt),
            Reply::Owner(asked, answer) => {
                self.asked.remove(&asked.owner.uid);
                match answer {
                    Ok(answer) => self.learn_owner(client, asked, answer, &mut learnt),
                    Err(failed) => {
                        self.note_unanswered(&asked.owner.uid);
                        self.fail(failed, &mut learnt);
                    }
                }
            }
        }
        learnt
    }

    fn learn_kinds(
        &mut self,
        client: &Client,
        version: String,
        kinds: Result<Found, Failure>,
        learnt: &mut Learnt,
    ) {
        self.asked.remove(&version);
        let waiting = self.for_kinds.remove(&version).unwrap_or_default();
        for asked in &waiting {
            self.asked.remove(&asked.owner.uid);
        }
        let found = match kinds {
            Ok(found) => found,
            Err(failure) => {
                waiting.iter().for_each(|asked| self.note_unanswered(&asked.owner.uid));
                return self.fail(Failed { what: version, failure }, learnt);
            }
        };
        if found == Found::Forbidden {
            learnt.forbidden += 1;
            self.tell_once(format!("the kinds of {version}"), String::new(), learnt);
        }
        self.note_answered(&version);
        let all = if let Found::Kinds(all) = found { all } else { Vec::new() };
        self.kinds.insert(version, Kinds { all, asked: Instant::now() });
        waiting.into_iter().for_each(|asked| self.ask(client, asked));
    }

    fn learn_owner(&mut self, client: &Client, asked: Asked, answer: Answer, learnt: &mut Learnt) {
        self.note_answered(&asked.owner.uid);
        self.note_answered(&asked.owner.api_version);
        let above = match &answer {
            Answer::Controlled(above) => above.clone(),
            _ => None,
        };
        let namespace = asked.namespace.clone();
        self.take(asked, answer, learnt);
        let Some(owner) = above else { return };
        let known = self.above.get(&owner.uid);
        let believed = known.is_some_and(|above| above.believed_until > Instant::now());
        if !believed && !self.asked.contains(&owner.uid) {
            self.ask(client, Asked { namespace, owner });
        }
    }

    fn fail(&mut self, failed: Failed, learnt: &mut Learnt) {
        self.note_unanswered(&failed.what);
        self.let_rest(&failed.what);
        // Of an API version that rests nobody else is asked for.
        for uid in self.asking.give_up(&failed.what) {
            self.asked.remove(&uid);
        }
        learnt.failed.push(failed);
    }

    fn note_unanswered(&mut self, what: &str) {
        if !self.unanswered.contains_key(what) {
            self.unanswered.insert(what.to_owned(), Instant::now());
        }
    }

    fn note_answered(&mut self, what: &str) {
        self.unanswered.remove(what);
        self.resting.remove(what);
    }

    /// Whether the answer about an owner that is not known may still come soon enough to be waited for.
    fn is_awaited(&self, owner: &OwnerReference) -> bool {
        let since = |what: &String| self.unanswered.get(what);
        let both = [since(&owner.uid), since(&owner.api_version)];
        both.into_iter().flatten().min().is_none_or(|since| since.elapsed() < self.wait)
    }

    /// Whether the kinds of an owner's API version are not known, or were asked for before its kind was there.
    fn wants_kinds(&self, owner: &OwnerReference) -> bool {
        self.kinds.get(&owner.api_version).is_none_or(|kinds| {
            kind_of(&kinds.all, owner).is_none() && kinds.asked.elapsed() >= self.ttl / 10
        })
    }

    fn take(&mut self, asked: Asked, answer: Answer, learnt: &mut Learnt) {
        let Asked { namespace, owner } = asked;
        // Rights are given by kind and namespace.
        let kind = format!("{} {} in {namespace}", owner.api_version, owner.kind);
        match answer {
            Answer::Controlled(above) => {
                // That another of its kind may be read, which has a name of its own in the rules, says nothing of this one.
                if self.forbidden.get(&kind).is_some_and(|uid| *uid == owner.uid) {
                    self.forbidden.remove(&kind);
                }
                self.believe(owner.uid, above, self.ttl);
            }
            Answer::Gone => {
                // Whoever was thought to be controlled by it has another controller by now, or none.
                let now = Instant::now();
                for above in self.above.values_mut() {
                    if above.owner.as_ref().is_some_and(|above| above.uid == owner.uid) {
                        above.believed_until = now;
                    }
                }
                self.believe(owner.uid, None, self.ttl / 10);
            }
            Answer::Forbidden => {
                learnt.forbidden += 1;
                self.tell_once(kind, owner.uid.clone(), learnt);
                self.believe(owner.uid, None, self.ttl / 10);
            }
        }
    }

    /// Notes what may not be read, seen with the owner of this UID, and says so unless that was said before.
    fn tell_once(&mut self, what: String, uid: String, learnt: &mut Learnt) {
        if let Entry::Vacant(entry) = self.forbidden.entry(what) {
            learnt.newly_forbidden.push(entry.key().clone());
            entry.insert(uid);
        }
    }

    fn believe(&mut self, uid: String, owner: Option<OwnerReference>, ttl: Duration) {
        let believed_until = Instant::now() + ttl;
        let before = self.above.get(&uid).and_then(|above| above.owner.as_ref());
        if before != owner.as_ref() {
            self.changed.insert(uid.clone());
        }
        self.answered = true;
        self.above.insert(uid, Above { owner, believed_until });
    }

    /// Whether there was an answer since [`Owners::take_changed`].
    pub(super) fn has_answers(&self) -> bool {
        self.answered
    }

    /// The owners above which somebody else was found since this was last asked.
    pub(super) fn take_changed(&mut self) -> HashSet<String> {
        self.answered = false;
        std::mem::take(&mut self.changed)
    }

    /// Whether the chain that begins with `owner` leads over one of these.
    pub(super) fn leads_over(&self, owner: &OwnerReference, uids: &HashSet<String>) -> bool {
        let mut current = owner;
        for _ in 0..MAX_STEPS {
            if uids.contains(&current.uid) {
                return true;
            }
            match self.above.get(&current.uid).and_then(|above| above.owner.as_ref()) {
                Some(above) => current = above,
                None => break,
            }
        }
        false
    }

    fn rests(&self, what: &str) -> bool {
        self.resting.get(what).is_some_and(|rest| rest.until > Instant::now())
    }

    fn let_rest(&mut self, what: &str) {
        // Many that were asked for at once fail together: that is one failure.
        if self.rests(what) {
            return;
        }
        let first = || BackOff::new(PAUSES.0, PAUSES.1);
        let mut back_off = self.resting.get(what).map_or_else(first, |rest| rest.back_off);
        let until = Instant::now() + back_off.next();
        self.resting.insert(what.to_owned(), Rest { until, back_off });
    }

    /// When something that failed is to be asked for again: what is due already was, when it was last looked.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        let sought_at = self.sought_at?;
        self.resting.values().map(|rest| rest.until).filter(|until| *until > sought_at).min()
    }

    /// Where the chain that begins with `owner` leads, as far as it was learnt. A ReplicaSet is no workload of its own: it is
    /// a revision of the Deployment above it. An owner that may not be read, or is gone, was learnt: it is the top.
    pub(super) fn chain<'a>(&'a self, owner: &'a OwnerReference) -> Chain<'a> {
        let mut chain = Chain { nearest: owner, top: owner, learnt: true, awaited: false };
        for _ in 0..MAX_STEPS {
            let known = self.above.get(&chain.top.uid);
            chain.learnt = known.is_some();
            let Some(above) = known.and_then(|known| known.owner.as_ref()) else { break };
            if chain.nearest.kind == "ReplicaSet" {
                chain.nearest = above;
            }
            chain.top = above;
        }
        chain.awaited = !chain.learnt && self.is_awaited(chain.top);
        chain
    }

    /// Forgets owners that no pod leads to any more.
    pub(super) fn forget_unused<'a>(&mut self, owners: impl Iterator<Item = &'a OwnerReference>) {
        let (mut used, mut versions) = (HashSet::new(), HashSet::new());
        for owner in owners {
            let mut current = owner;
            while used.insert(current.uid.clone()) {
                if !versions.contains(&current.api_version) {
                    versions.insert(current.api_version.clone());
                }
                match self.above.get(&current.uid).and_then(|above| above.owner.as_ref()) {
                    Some(above) => current = above,
                    None => break,
                }
            }
        }
        self.above.retain(|uid, _| used.contains(uid));
        let matters = |what: &String| used.contains(what) || versions.contains(what);
        self.resting.retain(|what, _| matters(what));
        self.unanswered.retain(|what, _| matters(what));
    }
}

/// The kind of an owner among those of its API version.
fn kind_of<'a>(kinds: &'a [APIResource], owner: &OwnerReference) -> Option<&'a APIResource> {
    kinds.iter().find(|kind| kind.kind == owner.kind && !kind.name.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(namespace: &str, name: &str) -> Asked {
        let owner = OwnerReference {
            api_version: "apps/v1".to_owned(),
            kind: "ReplicaSet".to_owned(),
            name: name.to_owned(),
            uid: format!("{namespace}/{name}"),
            ..OwnerReference::default()
        };
        Asked { namespace: namespace.to_owned(), owner }
    }

    #[test]
    fn a_403_is_counted_each_time_and_told_once_for_a_kind_in_a_namespace_until_it_was_granted() {
        let mut owners = Owners::new(Duration::from_secs(300), Duration::from_secs(300));
        let mut answers = |answers: Vec<(Asked, Answer)>| {
            let mut learnt = Learnt::default();
            for (asked, answer) in answers {
                owners.take(asked, answer, &mut learnt);
            }
            (learnt.forbidden, learnt.newly_forbidden.join("; "))
        };
        let no = || Answer::Forbidden;
        let yes = || Answer::Controlled(None);
        let ml = "apps/v1 ReplicaSet in ml";
        assert_eq!(
            answers(vec![(asked("ml", "a"), no()), (asked("ml", "b"), no())]),
            (2, ml.into())
        );
        assert_eq!(answers(vec![(asked("ml", "a"), no())]), (1, String::new()));
        // Of another namespace, and of one that its rules name, nothing follows for the first.
        assert_eq!(answers(vec![(asked("web", "a"), yes()), (asked("ml", "c"), yes())]).0, 0);
        assert_eq!(answers(vec![(asked("ml", "a"), no())]), (1, String::new()));
        assert_eq!(
            answers(vec![(asked("ml", "a"), yes()), (asked("ml", "a"), no())]),
            (1, ml.into())
        );
    }
}
