//! From a pod's owner up to the top controller.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::client::{Api, ApiError};
use super::objects::{Object, OwnerReference, Resource, ResourceList, controller};

/// Owners asked for so far, and the paths kinds are found under.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// By UID: who controls it. `None`: nobody, or it may not be read.
    above: HashMap<String, Option<OwnerReference>>,
    /// By API version: its kinds.
    kinds: HashMap<String, Vec<Resource>>,
    /// What failed and is left alone for a while: owners by UID, whole API versions by their name.
    resting: HashMap<String, Rest>,
}

/// How long something that failed is left alone.
#[derive(Debug, Clone, Copy)]
struct Rest {
    until: Instant,
    pause: Duration,
}

/// An owner that could not be asked for now.
#[derive(Debug)]
pub(super) struct Failed {
    /// Its UID when it alone fails, else its API version.
    what: String,
    pub(super) error: ApiError,
}

/// Steps up a chain; real ones have two or three.
const MAX_STEPS: usize = 10;

/// Time for one owner. An API group whose server hangs must not hold the others up.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);

/// First and longest pause before what failed is asked for again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(20));

impl Owners {
    /// Learns the chain above `owner`, asking only for what is not known. That an owner may not be read is no error; one
    /// that fails is left alone for a while, and its chain ends below it until then.
    pub(super) async fn learn(
        &mut self,
        api: &Api,
        namespace: &str,
        owner: &OwnerReference,
    ) -> Result<(), Failed> {
        let mut current = owner.clone();
        for _ in 0..MAX_STEPS {
            if !self.above.contains_key(&current.uid) {
                if self.rests(&current.uid) || self.rests(&current.api_version) {
                    break;
                }
                match self.ask(api, namespace, &current).await {
                    Ok(above) => self.above.insert(current.uid.clone(), above),
                    Err(failed) => {
                        self.let_rest(&failed.what);
                        return Err(failed);
                    }
                };
            }
            match self.above.get(&current.uid) {
                Some(Some(above)) => current = above.clone(),
                _ => break,
            }
        }
        Ok(())
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

    async fn ask(
        &mut self,
        api: &Api,
        namespace: &str,
        owner: &OwnerReference,
    ) -> Result<Option<OwnerReference>, Failed> {
        let asking = self.ask_patiently(api, namespace, owner);
        match tokio::time::timeout(ASK_TIMEOUT, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(Failed {
                what: owner.api_version.clone(),
                error: ApiError::Away(format!(
                    "{} {} ({}): no answer within {ASK_TIMEOUT:?}",
                    owner.kind, owner.name, owner.api_version
                )),
            }),
        }
    }

    async fn ask_patiently(
        &mut self,
        api: &Api,
        namespace: &str,
        owner: &OwnerReference,
    ) -> Result<Option<OwnerReference>, Failed> {
        let all_of_it = |error| Failed { what: owner.api_version.clone(), error };
        let Some(path) = self.path(api, namespace, owner).await.map_err(all_of_it)? else {
            return Ok(None);
        };
        match api.get::<Object>(&path).await {
            // Another object of the same name that came after ours is not our owner.
            Ok(object) if object.metadata.uid == owner.uid => {
                Ok(controller(&object.metadata.owner_references).cloned())
            }
            Ok(_) | Err(ApiError::Gone | ApiError::Refused { status: 403 | 404, .. }) => Ok(None),
            Err(error @ ApiError::Refused { status: 500.., .. }) => {
                Err(Failed { what: owner.uid.clone(), error })
            }
            Err(error) => Err(all_of_it(error)),
        }
    }

    /// Where the owner's object is found, as the API itself says.
    async fn path(
        &mut self,
        api: &Api,
        namespace: &str,
        owner: &OwnerReference,
    ) -> Result<Option<String>, ApiError> {
        let version = &owner.api_version;
        let root = if version.contains('/') {
            format!("/apis/{version}")
        } else {
            format!("/api/{version}")
        };
        if !self.kinds.contains_key(version) {
            let resources = match api.get::<ResourceList>(&root).await {
                Ok(list) => list.resources,
                Err(ApiError::Gone | ApiError::Refused { status: 403 | 404, .. }) => Vec::new(),
                Err(error) => return Err(error),
            };
            self.kinds.insert(version.clone(), resources);
        }
        let plain =
            |resource: &&Resource| resource.kind == owner.kind && !resource.name.contains('/');
        let resource = self.kinds.get(version).and_then(|list| list.iter().find(plain));
        Ok(resource.map(|resource| match resource.namespaced {
            true => format!("{root}/namespaces/{namespace}/{}/{}", resource.name, owner.name),
            false => format!("{root}/{}/{}", resource.name, owner.name),
        }))
    }

    /// The top of the chain that begins with `owner`, as far as it was learnt.
    pub(super) fn top(&self, owner: &OwnerReference) -> OwnerReference {
        let mut current = owner;
        for _ in 0..MAX_STEPS {
            match self.above.get(&current.uid) {
                Some(Some(above)) => current = above,
                _ => break,
            }
        }
        current.clone()
    }

    /// Forgets owners that no pod leads to any more, and kinds, so that new ones are found.
    pub(super) fn forget_unused<'a>(&mut self, owners: impl Iterator<Item = &'a OwnerReference>) {
        let mut used = std::collections::HashSet::new();
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
