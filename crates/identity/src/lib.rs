//! Who a process belongs to: from its cgroup to the container and pod.
//!
//! [`placement_of`] reads a cgroup path as container engines and Kubernetes write it;
//! [`Cgroups`] turns the cgroup ids that the kernel reports into paths, for processes that live
//! and for ones that are already gone. This crate only reads files; it asks no engine and no API.

mod cgroups;
mod path;

pub use cgroups::{Cgroup, Cgroups};
pub use path::placement_of;
