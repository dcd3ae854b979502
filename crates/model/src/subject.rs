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
    pub container_id: Option<Arc<str>>,
    /// The Kubernetes pod's UID.
    pub pod_uid: Option<Arc<str>>,
    /// The pod's namespace.
    pub pod_namespace: Option<Arc<str>>,
    /// The pod's name.
    pub pod_name: Option<Arc<str>>,
}
