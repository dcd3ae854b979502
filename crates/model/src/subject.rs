use crate::{Column, Kind, Texts, Values};
use serde::Serialize;
use std::sync::Arc;

/// A process: its pid together with its start time, so that a reused pid is another subject.
///
/// `start_ns` is Unix time in steps of 10 ms, the resolution of `/proc/PID/stat`, so every source
/// that reads `/proc` names the same process the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ProcessId {
    /// The thread-group id.
    pub pid: u32,
    /// When the process started, Unix nanoseconds.
    pub start_ns: u64,
}

/// Where a process runs, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Placement {
    /// The container engine's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_id: Option<Arc<str>>,
    /// The container's name, as its engine or its pod calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_name: Option<Arc<str>>,
    /// The image the container was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_image: Option<Arc<str>>,
    /// The Kubernetes pod's UID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<Arc<str>>,
    /// The pod's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_namespace: Option<Arc<str>>,
    /// The pod's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_name: Option<Arc<str>>,
    /// The workload the pod belongs to: its top controller's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<Arc<str>>,
}

const fn name(name: &'static str, doc: &'static str) -> Column {
    Column { name, kind: Kind::Text, nullable: true, unit: "", doc }
}

impl Placement {
    /// What rows that have one say of it: the columns of every data set that is defined with `placed`.
    pub const COLUMNS: [Column; 7] = [
        name("container_id", "id of the container"),
        name("container_name", "name of the container"),
        name("container_image", "image of the container"),
        name("pod_uid", "UID of the Kubernetes pod"),
        name("pod_namespace", "namespace of the pod"),
        name("pod_name", "name of the pod"),
        name("workload", "name of the workload: the pod's top controller"),
    ];

    /// The values of these columns.
    pub fn values(places: &[&Self]) -> [Values; 7] {
        let texts = |text: fn(&Self) -> &Option<Arc<str>>| {
            Values::Texts(Texts::collect(places.iter().map(|place| text(place).as_deref())))
        };
        [
            texts(|place| &place.container_id),
            texts(|place| &place.container_name),
            texts(|place| &place.container_image),
            texts(|place| &place.pod_uid),
            texts(|place| &place.pod_namespace),
            texts(|place| &place.pod_name),
            texts(|place| &place.workload),
        ]
    }
}

/// What kinds of subject there are below the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SubjectKind {
    /// A Kubernetes pod.
    Pod,
    /// A container.
    Container,
    /// A process.
    Process,
}

impl SubjectKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Pod, Self::Container, Self::Process];

    /// The word in `subject=` and in metric names.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Container => "container",
            Self::Process => "process",
        }
    }
}

/// Who was measured.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SubjectKey {
    /// By the pod's UID.
    Pod(Arc<str>),
    /// By the container engine's id.
    Container(Arc<str>),
    /// By pid and start time.
    Process(ProcessId),
}

impl SubjectKey {
    /// Which kind it is.
    #[must_use]
    pub const fn kind(&self) -> SubjectKind {
        match self {
            Self::Pod(_) => SubjectKind::Pod,
            Self::Container(_) => SubjectKind::Container,
            Self::Process(_) => SubjectKind::Process,
        }
    }
}
