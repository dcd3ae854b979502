//! What machine this is: kernel, processor, topology and cgroup mounts, read below one host root.
//!
//! Everything Crosstalk reads from `/proc` and `/sys` hangs off a [`HostRoot`], so tests point it at
//! a folder and containers at a mount of the host. This crate only reads; it changes nothing.

mod cgroup;
mod cpu;
mod error;
mod kernel;
mod root;

pub use cgroup::{CgroupHierarchy, CgroupVersion};
pub use cpu::{Core, Cpu, Vendor, parse_cpu_list};
pub use error::HostError;
pub use kernel::Kernel;
pub use root::HostRoot;
