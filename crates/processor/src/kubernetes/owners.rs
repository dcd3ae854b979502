//! From a pod's owner up to the top controller.

use std::collections::HashMap;

use super::client::{Api, ApiError};
use super::objects::{Object, OwnerReference, Resource, ResourceList, controller};

/// Owners asked for so far, and the paths kinds are found under.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// By UID: who controls it. `None`: nobody, or it may not be read.
    above: HashMap<String, Option<OwnerReference>>,
    /// By API version: its kinds.
    kinds: HashMap<String, Vec<Resource>>,
}

/// Steps up a chain; real ones have two or three.
const MAX_STEPS: usize = 10;

impl Owners {
    /// Learns the chain above `owner`, asking only for what is not known. An error means that the API is away; that an
    /// owner may not be read is no error.
    pub(super) async fn learn(
        &mut self,
        api: &Api,
        namespace: &str,
        owner: &OwnerReference,
    ) -> Result<(), ApiError> {
        let mut current = owner.clone();
        for _ in 0..MAX_STEPS {
            if !self.above.contains_key(&current.uid) {
                let above = self.ask(api, namespace, &current).await?;
                self.above.insert(current.uid.clone(), above);
            }
            match self.above.get(&current.uid) {
                Some(Some(above)) => current = above.clone(),
                _ => break,
            }
        }
        Ok(())
    }

    async fn ask(
        &mut self,
        api: &Api,
        namespace: &str,
        owner: &OwnerReference,
    ) -> Result<Option<OwnerReference>, ApiError> {
        let Some(path) = self.path(api, namespace, owner).await? else {
            return Ok(None);
        };
        match api.get::<Object>(&path).await {
            // Another object of the same name that came after ours is not our owner.
            Ok(object) if object.metadata.uid == owner.uid => {
                Ok(controller(&object.metadata.owner_references).cloned())
            }
            Ok(_) | Err(ApiError::Refused { status: 403 | 404, .. }) => Ok(None),
            Err(error) => Err(error),
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
                Err(ApiError::Refused { status: 403 | 404, .. }) => Vec::new(),
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
        self.kinds.retain(|_, kinds| !kinds.is_empty());
    }
}
