//! From a pod's owner up to the top controller.

use super::access::{code, failure};
use super::pods::controller;
use crate::source::Failure;
use futures_util::StreamExt;
use futures_util::stream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResource, OwnerReference};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// Owners asked for so far, and the paths kinds are found under.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// By UID: who controls it. `None`: nobody, or it may not be read.
    above: HashMap<String, Option<OwnerReference>>,
    /// By API version: its kinds.
    kinds: HashMap<String, Vec<APIResource>>,
    /// What failed and is left alone for a while: owners by UID, whole API versions by their name.
    resting: HashMap<String, Rest>,
}

/// How long something that failed is left alone.
#[derive(Debug, Clone, Copy)]
struct Rest {
    until: Instant,
    pause: Duration,
}

/// An owner, or a whole API version, that could not be asked for now.
#[derive(Debug)]
pub(super) struct Failed {
    /// A UID when one owner fails, else an API version.
    what: String,
    pub(super) failure: Failure,
}

/// Steps up a chain; real ones have two or three.
pub(super) const MAX_STEPS: usize = 10;

/// Owners that are asked for at once.
const AT_ONCE: usize = 16;

/// Time for one owner. An API group whose server hangs must not hold the others up.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);

/// First and longest pause before what failed is asked for again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(20));

impl Owners {
    /// The lowest owner of every chain that is not known and does not rest, each once with its namespace.
    pub(super) fn due<'a>(
        &'a self,
        owners: impl Iterator<Item = (&'a str, &'a OwnerReference)>,
    ) -> Vec<(String, OwnerReference)> {
        let mut seen = HashSet::new();
        let mut due = Vec::new();
        for (namespace, owner) in owners {
            let last = self.top(owner);
            let known = self.above.contains_key(&last.uid);
            let rests = self.rests(&last.uid) || self.rests(&last.api_version);
            if !known && !rests && seen.insert(&last.uid) {
                due.push((namespace.to_owned(), last.clone()));
            }
        }
        due
    }

    /// Asks who is above each of these owners. That an owner may not be read is no error; one that fails is left alone
    /// for a while, and its chain ends below it until then.
    pub(super) async fn learn(
        &mut self,
        client: &Client,
        due: Vec<(String, OwnerReference)>,
    ) -> Vec<Failed> {
        let versions: HashSet<String> = due.iter().map(|(_, o)| o.api_version.clone()).collect();
        let versions = versions.into_iter().filter(|version| !self.kinds.contains_key(version));
        let asked: Vec<_> = versions.map(|version| kinds_of(client.clone(), version)).collect();
        let mut failed = Vec::new();
        for (version, kinds) in all(asked).await {
            match kinds {
                Ok(kinds) => drop(self.kinds.insert(version, kinds)),
                Err(failure) => failed.push(Failed { what: version, failure }),
            }
        }
        let mut asked = Vec::new();
        for (namespace, owner) in due {
            // A version that could not be asked for rests, and all its owners with it.
            let Some(kinds) = self.kinds.get(&owner.api_version) else { continue };
            let plain = |kind: &&APIResource| kind.kind == owner.kind && !kind.name.contains('/');
            match kinds.iter().find(plain) {
                Some(kind) => asked.push(ask(client.clone(), namespace, owner, kind.clone())),
                None => drop(self.above.insert(owner.uid, None)),
            }
        }
        for (uid, answer) in all(asked).await {
            match answer {
                Ok(above) => drop(self.above.insert(uid, above)),
                Err(error) => failed.push(error),
            }
        }
        failed.iter().for_each(|failed| self.let_rest(&failed.what));
        failed
    }

    fn rests(&self, what: &str) -> bool {
        self.resting.get(what).is_some_and(|rest| rest.until > Instant::now())
    }

    fn let_rest(&mut self, what: &str) {
        let pause = match self.resting.get(what) {
            Some(rest) => (rest.pause * 2).min(PAUSES.1),
            None => PAUSES.0,
        };
        self.resting.insert(what.to_owned(), Rest { until: Instant::now() + pause, pause });
    }

    /// When something that failed is to be asked for again.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.resting.values().map(|rest| rest.until).min()
    }

    /// The top of the chain that begins with `owner`, as far as it was learnt.
    pub(super) fn top<'a>(&'a self, owner: &'a OwnerReference) -> &'a OwnerReference {
        let mut current = owner;
        for _ in 0..MAX_STEPS {
            match self.above.get(&current.uid) {
                Some(Some(above)) => current = above,
                _ => break,
            }
        }
        current
    }

    /// Forgets owners that no pod leads to any more, and API versions without kinds, so that new ones are found.
    pub(super) fn forget_unused<'a>(&mut self, owners: impl Iterator<Item = &'a OwnerReference>) {
        let mut used = HashSet::new();
        for owner in owners {
            let mut current = owner;
            while used.insert(current.uid.clone()) {
                match self.above.get(&current.uid) {
                    Some(Some(above)) => current = above,
                    _ => break,
                }
            }
        }
        self.above.retain(|uid, _| used.contains(uid));
        // Whatever still matters was just asked for again, and rests anew if it failed.
        let now = Instant::now();
        self.resting.retain(|_, rest| rest.until > now);
        self.kinds.retain(|_, kinds| !kinds.is_empty());
    }
}

/// All answers, a few asked for at once.
async fn all<T>(asked: Vec<impl Future<Output = T>>) -> Vec<T> {
    stream::iter(asked).buffer_unordered(AT_ONCE).collect().await
}

/// What the API serves under a version; nothing where it knows none or may not say.
async fn kinds_of(client: Client, version: String) -> (String, Result<Vec<APIResource>, Failure>) {
    let asking = async {
        match version.contains('/') {
            true => client.list_api_group_resources(&version).await,
            false => client.list_core_api_resources(&version).await,
        }
    };
    let answer = match tokio::time::timeout(ASK_TIMEOUT, asking).await {
        Ok(Ok(list)) => Ok(list.resources),
        Ok(Err(error)) if matches!(code(&error), Some(403 | 404 | 410)) => Ok(Vec::new()),
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
) -> (String, Result<Option<OwnerReference>, Failed>) {
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
        Ok(Ok(object)) if object.metadata.uid.as_ref() != Some(&owner.uid) => Ok(None),
        Ok(Ok(object)) => Ok(controller(object.metadata)),
        Ok(Err(error)) => match code(&error) {
            Some(403 | 404 | 410) => Ok(None),
            Some(500..) => Err(Failed { what: owner.uid.clone(), failure: failure(&error) }),
            _ => Err(all_of_it(failure(&error))),
        },
    };
    (owner.uid, answer)
}

fn late(what: &str) -> Failure {
    Failure::away(format!("{what}: no answer within {ASK_TIMEOUT:?}"), "")
}
