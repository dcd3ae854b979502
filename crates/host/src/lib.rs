//! The only door to the machine: what `/proc` and `/sys` say, clocks, and how a thread is scheduled.
//!
//! Everything Crosstalk reads from `/proc` and `/sys` hangs off a [`HostRoot`], so tests point it at
//! a folder and containers at a mount of the host. Each kind of file is understood in one place here.
//! What a machine can and cannot do is a [`Capability`], and errors know their way out ([`WithFix`]).
//!
//! It changes nothing but the calling thread's schedule, this process's limits, and cgroups that it is told to make.

mod capability;
mod cgroup;
mod clock;
mod control_group;
mod core_time;
mod cpu;
mod cpu_set;
mod descriptors;
mod error;
mod kernel;
mod process;
mod root;
mod run_queue;
mod stall;
pub mod thread;
mod throttled;
mod topology;
mod usage;

pub use capability::{Capability, Verdict, WithFix};
pub use cgroup::{CgroupHierarchy, CgroupVersion, walk_cgroups};
pub use clock::{Clock, ClockReadings, ClockStep, ClockStepKind, monotonic_ns};
pub use control_group::{
    ControlGroup, ControlGroupError, Disk, GroupUsage, IoLimits, UsageFiles, disks,
};
pub use core_time::CoreTime;
pub use cpu::{Core, Cpu, Vendor};
pub use cpu_set::CpuSet;
pub use descriptors::raise_descriptor_limit;
pub use error::HostError;
pub use kernel::{Kernel, machine_id};
pub use process::{ProcStat, page_bytes, thread_group};
pub use root::HostRoot;
pub use run_queue::RunQueue;
pub use stall::Stalled;
pub use throttled::Throttled;
pub use topology::{L3Domain, l3_domains};
pub use usage::OwnUsage;
