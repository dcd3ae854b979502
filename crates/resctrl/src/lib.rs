//! A client for resctrl, the Linux file system for cache and memory bandwidth monitoring and allocation.
//!
//! It finds out what the machine can do ([`Resctrl::info`]), reads and writes groups and schemata as types
//! ([`Group`], [`Schemata`]), turns every refusal of the kernel into an [`Error`] with errno, path and the kernel's
//! own words, spreads few RMIDs (the ids by which the hardware monitors) over many processes ([`pool`]) and reads their
//! values every millisecond within a CPU budget ([`sampler`]); [`source`] runs both in threads of their own.
//!
//! It never mounts or unmounts the file system, never touches groups of other tools, never takes a word like
//! `Unavailable` for a zero, and never panics on what a file says. The root of the mount is always a parameter.

mod error;
mod group;
mod info;
mod lock;
mod mask;
mod mount;
pub mod pool;
mod property;
pub mod sampler;
mod schemata;
pub mod source;
mod value;

pub use error::{Error, NoResctrl, ParseError, Refusal};
pub use group::{Group, GroupKind, L3Domain, Mode};
pub use info::{BandwidthInfo, BandwidthUnit, CacheInfo, CounterAssignment, Info, MonitoringInfo};
pub use lock::{LockGuard, LockMode};
pub use mask::CacheMask;
pub use mount::{DEFAULT_ROOT, Resctrl};
pub use property::check_parsers;
pub use schemata::{Limits, Schemata, SchemataLine};
pub use value::{MonValue, mbm_delta};
