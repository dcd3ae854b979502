//! Who slows whom on a shared machine, by how much, through what, and how sure that is.
//!
//! Slots go into an [`Observer`] in their order. It keeps, in memory that does not grow, bins of 40 ms for each
//! victim: what a unit of its work cost, by the best signal it has, and how much of every neighbour ran beside it
//! in the very slots in which it ran, on cores that share a cache or memory with its own. [`judge`] regresses the
//! logarithm of cost on all neighbours at once, with stolen time, frequency, drift and the victim's own past as
//! terms of their own, and says what was lost in the time at hand, with an interval. Time lost to waiting for a
//! core is summed, not fitted. Of a long recording a sample is kept ([`Sample`]), and intervals say so. Neighbours
//! that rise and fall together are named as a group, and what cannot be told is said to be so: [`CannotTell`].
//!
//! It does no I/O, reads no clock, knows no names, and never blames who hardly ran, who ran without a pause, or who
//! would make a victim faster. It cannot tell a neighbour from whatever always happens together with it.
//!
//! ```
//! use crosstalk_interference::{Activity, Observer, Settings, Slot, Subject, Topology};
//!
//! let mut observer = Observer::new(Topology::one_cache(2), Settings::live(30));
//! let (victim, stream) = (Subject(0), Subject(1));
//! for slot in 0..20_000_u64 {
//!     let streams = slot / 700 % 2 == 0;
//!     let noise = slot / 40 * 7_919 % 5;
//!     let mut entries = vec![Activity {
//!         cycles: Some(if streams { 1_300 } else { 1_000 } + noise),
//!         instructions: Some(1_000),
//!         ..Activity::new(victim, 0, 1_000_000)
//!     }];
//!     if streams {
//!         entries.push(Activity::new(stream, 1, 1_000_000));
//!     }
//!     let start_ns = slot * 1_000_000;
//!     observer.push(&Slot { start_ns, length_ns: 1_000_000, entries: &entries, ..Slot::default() });
//! }
//! let verdict = &observer.findings().verdicts[0];
//! assert_eq!((verdict.victim, &verdict.aggressors[..]), (victim, &[stream][..]));
//! assert!((verdict.slowdown - 0.12).abs() < 0.02, "{verdict:?}");
//! ```

mod activity;
mod aftermath;
mod assembly;
mod bin;
mod columns;
pub mod comparators;
mod cpu_time;
mod holders;
mod judge;
mod ledger;
mod linear;
mod observer;
mod open_bin;
mod quota;
mod regression;
mod reservoir;
mod sample;
mod seats;
mod series;
mod settings;
mod side_by_side;
mod tail;
mod together;
mod topology;
mod trial;
mod verdict;
mod whiten;

pub use activity::{Activity, Burst, Slot, Subject};
pub use assembly::{Assembly, spread};
pub use bin::{Bin, Counted, Exposure, Held};
pub use judge::judge;
pub use ledger::Ledger;
pub use observer::Observer;
pub use quota::Quota;
pub use reservoir::VictimBins;
pub use sample::Sample;
pub use settings::{Keep, Settings};
pub use topology::{CoreIds, CorePlace, Topology, Way};
pub use verdict::{Because, CannotTell, Evidence, Findings, Resource, Signal, Verdict};
