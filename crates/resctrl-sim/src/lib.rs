//! A FUSE file system that answers as the kernel's resctrl does, on machines without the hardware.
//!
//! The tree, the errno of every refusal, the words in `last_cmd_status`, the limits on RMIDs, limbo, schemata rules
//! and the threads in `tasks` follow `fs/resctrl`. The values come from a model of the last level cache that is driven
//! by what the processes of this machine really do: their time on a processor and their resident memory, within the
//! masks and bandwidth limits written to it.
//!
//! It never limits or slows a process, never touches the hardware, and its numbers are a model's: good for tests and
//! demonstrations of the whole path, not for statements about this machine's cache.
//!
//! Intel's `pqos` and `rdtset` take no path: they look for `resctrl` in `/proc/filesystems` and then use
//! `/sys/fs/resctrl`. Where both are arranged in a mount namespace of their own, `pqos --iface=os -s` and `-d` and
//! `rdtset` work on the simulator; `pqos -m` needs hardware counters besides. `tests/intel_tools.rs` shows how.

mod error;
mod fs;
mod kernel;
mod layout;
mod model;
mod mount;
mod plain;
mod profile;
mod runtime;
mod task_clock;
mod threads;

pub use error::Error;
pub use kernel::Fault;
pub use mount::{Simulator, mount, run};
pub use plain::plain_roster;
pub use profile::{Bandwidth, Profile};
