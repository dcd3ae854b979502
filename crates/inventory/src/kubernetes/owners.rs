//! From a pod's owner up to the top controller.

use super::access::{code, failure};
use super::pods::{Chain, controller};
use crate::source::Failure;
use crosstalk_host::BackOff;
use futures_util::StreamExt;
use futures_util::stream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResource, OwnerReference};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
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
    ttl: Duration,
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

/// An owner, or a whole API version, that could not be asked for now.
#[derive(Debug)]
pub(super) struct Failed {
    /// A UID when one owner fails, else an API version.
    what: String,
    pub(super) failure: Failure,
}

/// What asking for owners came to beside the answers.
#[derive(Debug, Default)]
pub(super) struct Learnt {
    pub(super) failed: Vec<Failed>,
    /// Answers 403.
    pub(super) forbidden: usize,
    /// Kinds that may not be read, the first time that is seen.
    pub(super) newly_forbidden: Vec<String>,
}

/// An owner that was asked for, and where.
struct Asked {
    namespace: String,
    owner: OwnerReference,
}

/// What the API says of one owner.
enum Answer {
    /// Who controls it.
    Controlled(Option<OwnerReference>),
    /// It is not there, or another object has its name.
    Gone,
    /// We may not know.
    Forbidden,
}

/// Steps up a chain; real ones have two or three.
pub(super) const MAX_STEPS: usize = 10;

/// Owners that are asked for at once: with fewer, a large cluster far away takes half a minute of round trips.
const AT_ONCE: usize = 64;

/// Time for one owner. An API group whose server hangs must not hold the others up.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);

/// First and longest pause before what failed is asked for again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(20));

impl Owners {
    /// Nothing known; answers are believed for `ttl`, a tenth of it where they say nothing.
    pub(super) fn new(ttl: Duration) -> Self {
        Owners {
            above: HashMap::new(),
            kinds: HashMap::new(),
            resting: HashMap::new(),
            changed: HashSet::new(),
            forbidden: HashMap::new(),
            ttl,
        }
    }

    /// The owners of every chain that are not known, or no longer believed, and do not rest, each once with its namespace.
    pub(super) fn due<'a>(
        &'a self,
        owners: impl Iterator<Item = (&'a str, &'a OwnerReference)>,
    ) -> Vec<(String, OwnerReference)> {
        let now = Instant::now();
        let mut seen = HashSet::new();
        let mut due = Vec::new();
        for (namespace, owner) in owners {
            let mut current = owner;
            // Whoever has seen a link has seen all above it.
            while seen.insert(&*current.uid) {
                let known = self.above.get(&current.uid);
                let believed = known.is_some_and(|above| above.believed_until > now);
                if !believed && !self.rests(&current.uid) && !self.rests(&current.api_version) {
                    due.push((namespace.to_owned(), current.clone()));
                }
                match known.and_then(|above| above.owner.as_ref()) {
                    Some(above) => current = above,
                    None => break,
                }
            }
        }
        due
    }

    /// Asks who is above each of these owners. That an owner may not be read is no failure; one that fails is left alone
    /// for a while, and its chain ends below it until then.
    pub(super) async fn learn(
        &mut self,
        client: &Client,
        due: Vec<(String, OwnerReference)>,
    ) -> Learnt {
        let mut learnt = Learnt::default();
        let versions: HashSet<&str> =
            due.iter().filter(|(_, o)| self.wants_kinds(o)).map(|(_, o)| &*o.api_version).collect();
        let asked =
            versions.into_iter().map(|version| kinds_of(client.clone(), version.to_owned()));
        for (version, kinds) in all(asked.collect()).await {
            match kinds {
                Ok(found) => {
                    if found == Found::Forbidden {
                        learnt.forbidden += 1;
                        self.tell_once(
                            format!("the kinds of {version}"),
                            String::new(),
                            &mut learnt,
                        );
                    }
                    let all = if let Found::Kinds(all) = found { all } else { Vec::new() };
                    self.kinds.insert(version, Kinds { all, asked: Instant::now() });
                }
                Err(failure) => learnt.failed.push(Failed { what: version, failure }),
            }
        }
        let mut asked = Vec::new();
        for (namespace, owner) in due {
            // A version that could not be asked for rests, and all its owners with it.
            let Some(kinds) = self.kinds.get(&owner.api_version) else { continue };
            match kind_of(&kinds.all, &owner) {
                Some(kind) => asked.push(ask(client.clone(), namespace, owner, kind.clone())),
                None => self.believe(owner.uid, None, self.ttl / 10),
            }
        }
        for (asked, answer) in all(asked).await {
            match answer {
                Ok(answer) => self.take(asked, answer, &mut learnt),
                Err(error) => learnt.failed.push(error),
            }
        }
        learnt.failed.iter().for_each(|failed| self.let_rest(&failed.what));
        learnt
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
        self.above.insert(uid, Above { owner, believed_until });
    }

    /// The owners above which somebody else was found since this was last asked.
    pub(super) fn take_changed(&mut self) -> HashSet<String> {
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
        let first = || BackOff::new(PAUSES.0, PAUSES.1);
        let mut back_off = self.resting.get(what).map_or_else(first, |rest| rest.back_off);
        let until = Instant::now() + back_off.next();
        self.resting.insert(what.to_owned(), Rest { until, back_off });
    }

    /// When something that failed is to be asked for again.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.resting.values().map(|rest| rest.until).min()
    }

    /// Where the chain that begins with `owner` leads, as far as it was learnt. A ReplicaSet is no workload of its own: it is
    /// a revision of the Deployment above it. An owner that may not be read, or is gone, was learnt: it is the top.
    pub(super) fn chain<'a>(&'a self, owner: &'a OwnerReference) -> Chain<'a> {
        let mut chain = Chain { nearest: owner, top: owner, learnt: true };
        for _ in 0..MAX_STEPS {
            let known = self.above.get(&chain.top.uid);
            chain.learnt = known.is_some();
            let Some(above) = known.and_then(|known| known.owner.as_ref()) else { break };
            if chain.nearest.kind == "ReplicaSet" {
                chain.nearest = above;
            }
            chain.top = above;
        }
        chain
    }

    /// Forgets owners that no pod leads to any more.
    pub(super) fn forget_unused<'a>(&mut self, owners: impl Iterator<Item = &'a OwnerReference>) {
        let mut used = HashSet::new();
        for owner in owners {
            let mut current = owner;
            while !used.contains(&current.uid) {
                used.insert(current.uid.clone());
                match self.above.get(&current.uid).and_then(|above| above.owner.as_ref()) {
                    Some(above) => current = above,
                    None => break,
                }
            }
        }
        self.above.retain(|uid, _| used.contains(uid));
        // Whatever still matters was just asked for again, and rests anew if it failed.
        let now = Instant::now();
        self.resting.retain(|_, rest| rest.until > now);
    }
}

/// The kind of an owner among those of its API version.
fn kind_of<'a>(kinds: &'a [APIResource], owner: &OwnerReference) -> Option<&'a APIResource> {
    kinds.iter().find(|kind| kind.kind == owner.kind && !kind.name.contains('/'))
}

/// All answers, many asked for at once.
async fn all<T>(asked: Vec<impl Future<Output = T>>) -> Vec<T> {
    stream::iter(asked).buffer_unordered(AT_ONCE).collect().await
}

/// What the API serves under a version.
#[derive(Debug, PartialEq)]
enum Found {
    /// These; none where it knows no such version.
    Kinds(Vec<APIResource>),
    /// We may not know.
    Forbidden,
}

async fn kinds_of(client: Client, version: String) -> (String, Result<Found, Failure>) {
    let asking = async {
        match version.contains('/') {
            true => client.list_api_group_resources(&version).await,
            false => client.list_core_api_resources(&version).await,
        }
    };
    let answer = match tokio::time::timeout(ASK_TIMEOUT, asking).await {
        Ok(Ok(list)) => Ok(Found::Kinds(list.resources)),
        Ok(Err(error)) if code(&error) == Some(403) => Ok(Found::Forbidden),
        Ok(Err(error)) if matches!(code(&error), Some(404 | 410)) => Ok(Found::Kinds(Vec::new())),
        Ok(Err(error)) => Err(failure(&error)),
        Err(_) => Err(late(&version)),
    };
    (version, answer)
}

/// Who controls `owner`, whose object is found where the API itself says.
async fn ask(
    client: Client,
    namespace: String,
    owner: OwnerReference,
    kind: APIResource,
) -> (Asked, Result<Answer, Failed>) {
    let (group, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: owner.api_version.clone(),
        kind: owner.kind.clone(),
        plural: kind.name,
    };
    let api: Api<DynamicObject> = match kind.namespaced {
        true => Api::namespaced_with(client, &namespace, &resource),
        false => Api::all_with(client, &resource),
    };
    let all_of_it = |failure| Failed { what: owner.api_version.clone(), failure };
    let answer = match tokio::time::timeout(ASK_TIMEOUT, api.get_metadata(&owner.name)).await {
        Err(_) => Err(all_of_it(late(&format!("{} {}", owner.kind, owner.name)))),
        // Another object of the same name that came after ours is not our owner.
        Ok(Ok(object)) if object.metadata.uid.as_ref() != Some(&owner.uid) => Ok(Answer::Gone),
        Ok(Ok(object)) => Ok(Answer::Controlled(controller(object.metadata))),
        Ok(Err(error)) => match code(&error) {
            Some(403) => Ok(Answer::Forbidden),
            Some(404 | 410) => Ok(Answer::Gone),
            Some(500..) => Err(Failed { what: owner.uid.clone(), failure: failure(&error) }),
            _ => Err(all_of_it(failure(&error))),
        },
    };
    (Asked { namespace, owner }, answer)
}

fn late(what: &str) -> Failure {
    Failure::away(format!("{what}: no answer within {ASK_TIMEOUT:?}"), "")
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
        let mut owners = Owners::new(Duration::from_secs(300));
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
