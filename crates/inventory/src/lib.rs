//! Who is who on a node or in a cluster: nodes, pods, containers, workloads and devices by name.
//!
//! [`placement_of`] reads a cgroup path as container engines and Kubernetes write it, and [`Cgroups`] turns the cgroup
//! ids that the kernel reports into paths, for processes that live and for ones that are already gone. An [`Inventory`]
//! knows the names behind the ids they find. It is filled from several sources at once, each of them optional, each
//! asked again when it fails: Kubernetes, container engines, the kubelet, a static file, and whatever else implements
//! [`Source`]. Sources only read. Readers take a [`Snapshot`], in which every fact says when it was valid.

mod cgroup;
mod changes;
mod config;
mod doubt;
mod engine;
mod facts;
mod index;
mod inventory;
mod kubernetes;
mod merge;
mod parts;
mod saved;
mod snapshot;
mod source;
mod standing;
mod state;
mod static_file;

pub use cgroup::path::placement_of;
pub use cgroup::{Cgroup, Cgroups};
pub use config::Config;
pub use doubt::{Doubt, Nodes};
pub use facts::{Container, Device, Facts, NearestOwner, Pod, Validity, Workload, role_of};
pub use inventory::{History, Inventory, WeakInventory};
pub use kubernetes::{Kubernetes, NAME as KUBERNETES, api_failure, watch_failure};
pub use saved::Saved;
pub use snapshot::{Named, Snapshot};
pub use source::{Backoff, Failure, FailureKind, Outcome, Source, SourceStatus, follow};
pub use standing::Standing;
pub use static_file::{StaticFile, StaticFileError, read_static_file};

#[cfg(test)]
mod tests;
