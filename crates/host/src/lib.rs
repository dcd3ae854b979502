//! The only door to the machine: what `/proc` and `/sys` say, clocks, and how a thread is scheduled.
//!
//! Everything Crosstalk reads from `/proc` and `/sys` hangs off a [`HostRoot`], so tests point it at
//! a folder and containers at a mount of the host. Each kind of file is understood in one place here.
//! What a machine can and cannot do is a [`Capability`], and errors know their way out ([`WithFix`]).
//!
//! It changes nothing but the calling thread's schedule, this process's limits, and cgroups that it is told to make.

mod back_off;
mod capability;
mod cgroup;
mod cgroup_tree;
mod clock;
mod control_group;
mod core_time;
mod cpu;
mod cpu_set;
mod descriptors;
mod error;
mod gpus;
mod kernel;
mod locks;
mod memory;
mod memory_map;
mod mounts;
mod network;
mod node_counts;
mod privileges;
mod process;
mod processes;
mod rdma;
mod root;
mod run_queue;
mod schedstat;
mod stall;
pub mod thread;
mod throttled;
mod topology;
mod usage;

pub use back_off::BackOff;
pub use capability::{Capability, Verdict, WithFix};
pub use cgroup::{CgroupHierarchy, CgroupVersion, walk_cgroups};
pub use cgroup_tree::CgroupTree;
pub use clock::{Clock, ClockReadings, ClockStep, ClockStepKind, monotonic_ns};
pub use control_group::{
    ControlGroup, ControlGroupError, Disk, GroupUsage, IoLimits, MemoryFiles, MemoryStat,
    QuotaPeriod, UsageFiles, charges_memory, disks, swap_left,
};
pub use core_time::CoreTime;
pub use cpu::{Core, Cpu, Vendor};
pub use cpu_set::CpuSet;
pub use descriptors::raise_descriptor_limit;
pub use error::HostError;
pub use gpus::{GpuName, Gpus};
pub use kernel::{Kernel, machine_id};
pub use locks::lock_holder;
pub use memory::NodeMemory;
pub use memory_map::system_ram;
pub use mounts::Mount;
pub use network::Traffic;
pub use node_counts::NodeCounts;
pub use privileges::own_privileges;
pub use process::{ProcStat, page_bytes, thread_group};
pub use processes::{ThreadList, lives, own_pid, owner, processes, resident_bytes, threads_of};
pub use rdma::rdma_names;
pub use root::HostRoot;
pub use run_queue::{Forks, RunQueue};
pub use schedstat::{Schedstat, SchedstatFile};
pub use stall::Stalled;
pub use throttled::Throttled;
pub use topology::{L3Domain, l3_domains};
pub use usage::OwnUsage;
