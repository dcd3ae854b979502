//! The few fields of Kubernetes objects that matter here.

use std::collections::HashMap;

use serde::Deserialize;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) owner_references: Vec<OwnerReference>,
    pub(super) annotations: HashMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct OwnerReference {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) controller: Option<bool>,
}

/// The owner that controls an object, if any: there is at most one. Some custom controllers leave the mark out; a
/// single reference is then taken for it.
pub(super) fn controller(references: &[OwnerReference]) -> Option<&OwnerReference> {
    let marked = references.iter().find(|reference| reference.controller == Some(true));
    marked.or_else(|| match references {
        [only] if only.controller.is_none() => Some(only),
        _ => None,
    })
}

/// Any object, of which only the metadata is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Object {
    pub(super) metadata: Metadata,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Pod {
    pub(super) metadata: Metadata,
    pub(super) spec: PodSpec,
    pub(super) status: PodStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodSpec {
    pub(super) node_name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodStatus {
    pub(super) phase: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ListMetadata {
    pub(super) resource_version: String,
    pub(super) r#continue: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct PodList {
    #[serde(default)]
    pub(super) metadata: ListMetadata,
    #[serde(default)]
    pub(super) items: Vec<Pod>,
}

/// `GET /apis/GROUP/VERSION`: which kinds there are and under which paths.
#[derive(Debug, Deserialize)]
pub(super) struct ResourceList {
    #[serde(default)]
    pub(super) resources: Vec<Resource>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Resource {
    pub(super) name: String,
    pub(super) kind: String,
    #[serde(default)]
    pub(super) namespaced: bool,
}

/// One line of a watch.
#[derive(Debug, Deserialize)]
pub(super) struct WatchEvent<'a> {
    pub(super) r#type: &'a str,
    #[serde(borrow)]
    pub(super) object: &'a serde_json::value::RawValue,
}

/// What the API says when it says no.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    pub(super) code: u16,
    pub(super) message: String,
}
