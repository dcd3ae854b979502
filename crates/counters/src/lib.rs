//! What every process did on every core, slot by slot: eBPF programs and perf events turned into
//! readings.
//!
//! The programs in `src/bpf` sum a slot inside the kernel and hand over one batch per core and
//! slot. [`Collector`] loads them, opens the hardware counters there are, and turns batches into
//! [`TaskReading`]s and [`SlotCoverage`]. What was lost on the way is part of the coverage.
//!
//! This crate never writes a file, never looks at containers and never fails because a counter is
//! missing: that is a [`CounterStatus`], and the rest goes on.
//!
//! [`TaskReading`]: crosstalk_model::TaskReading
//! [`SlotCoverage`]: crosstalk_model::SlotCoverage
#![allow(unsafe_code)] // the crate that talks to the kernel; every block says why it is sound

mod capability;
mod collector;
mod cores;
mod cost;
mod decode;
mod error;
mod event;
mod family;
mod frequency;
mod layout;
mod perf;
mod pmu;
mod program;
mod ring;
mod tick;
mod visit;

pub use capability::probe;
pub use collector::{Collector, Options, Totals};
pub use cost::Cost;
pub use decode::Readings;
pub use error::Error;
pub use event::{Counter, Event, EventOverride, EventSyntaxError};
pub use family::{FamilyCounter, FamilyEvent};
pub use frequency::FrequencySource;
pub use perf::CounterStatus;
pub use ring::ring_bytes;
pub use tick::{Tick, TickState};
